use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use convoke_protocol::agent_event::RequestPurpose;
use convoke_protocol::id::Millis;
use convoke_protocol::usage::Usage;
use convoke_protocol::window::{At, Grade, Place, Window};
use convoke_source::{
    Entry, EntryKind, Home, Kept, Report, Request, SessionReader, SessionSource, Sink, SourceError,
};
use tempfile::TempDir;

use super::*;
use crate::catalog::Readers;
use crate::prices::{OwnPrice, OwnPrices};
use crate::search::{Query, search};

static READ: AtomicUsize = AtomicUsize::new(0);

/// A program whose sessions are files of lines, each of which a person wrote and a model answered.
#[derive(Debug)]
struct Plain;

struct PlainReader(PathBuf, Report);

impl SessionSource for Plain {
    fn program(&self) -> &'static str {
        "plain"
    }

    fn list(&self, _: &Home<'_>, _: &mut dyn FnMut(Result<FoundSession, SourceError>)) {}

    fn at(&self, _: &Path) -> Result<Option<FoundSession>, SourceError> {
        Ok(None)
    }

    fn open(&self, found: &FoundSession, _: Kept) -> Result<Box<dyn SessionReader>, SourceError> {
        READ.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(PlainReader(found.path.clone(), Report::default())))
    }
}

impl SessionReader for PlainReader {
    fn advance(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
        let text = fs::read_to_string(&self.0).map_err(SourceError::read(&self.0))?;
        for (number, line) in (1..).zip(text.lines()) {
            let mut tell = |kind: EntryKind<'_>| {
                let place = Place { file: "f".into(), at: At::Line(number) };
                let _ = sink.take(Entry { place, at: Some(Millis(5)), agent: None, kind });
            };
            tell(EntryKind::Person { text: line });
            tell(EntryKind::Request(&Request {
                key: number,
                answer_id: Some(line),
                purpose: RequestPurpose::Answer,
                model: Some("local"),
                window: &Window::default(),
                grade: Grade::Partial,
                missing: Vec::new(),
                usage: Some(Usage { input: 1_000_000, output: 1, ..Usage::default() }),
                cache_write_hour: 0,
                tier: None,
                status: None,
                is_settled: true,
            }));
        }
        Ok(())
    }

    fn report(&self) -> &Report {
        &self.1
    }
}

fn redactor() -> Redactor {
    Redactor::for_env(&[("API_KEY".into(), "hush-hush-hush".into())])
}

struct Fixture {
    directory: TempDir,
    readers: Readers,
}

impl Fixture {
    fn new() -> Self {
        let readers = Readers { sources: vec![&Plain], archive: None };
        Self { directory: TempDir::new().unwrap(), readers }
    }

    fn index(&self) -> Index {
        Index::open(&self.directory.path().join("private/index.db"), redactor()).unwrap()
    }

    fn session(&self, id: &str, text: &str) -> FoundSession {
        let path = self.directory.path().join(id);
        fs::write(&path, text).unwrap();
        FoundSession {
            program: "plain",
            id: id.to_owned(),
            files: vec![path.clone()],
            path,
            cwd: None,
            changed_at: Millis(1),
            bytes: text.len() as u64,
            parent: None,
        }
    }

    fn found(&self, index: &mut Index, sessions: &[FoundSession], words: &str) -> Vec<String> {
        let words = words.split(' ').map(str::to_owned).collect();
        let query = Query { words, ..Query::default() };
        let found = search(&self.readers, sessions.to_vec(), Some(index), &query, 100).unwrap();
        assert!(found.1.is_empty());
        found.0.into_iter().map(|hit| hit.session).collect()
    }
}

#[test]
fn the_index_finds_what_reading_finds_and_reads_only_what_has_changed() {
    let fixture = Fixture::new();
    let mut index = fixture.index();
    let mut sessions = vec![
        fixture.session("one", "Fix the LOGIN page\nin src/login_page.rs"),
        fixture.session("two", "prüfe die Seite\n漢字と仮名"),
    ];
    for (words, expected) in [
        ("log fix", &["one"][..]),
        ("login_pa", &["one"]),
        ("ogin", &[]),
        ("fix rs", &[]),
        ("prüf seite", &["two"]),
        ("漢字", &["two"]),
        ("\"AND", &[]),
    ] {
        let words = words.to_lowercase();
        assert_eq!(fixture.found(&mut index, &sessions, &words), expected, "{words}");
    }
    sessions[1] = fixture.session("two", "another text");
    assert_eq!(fixture.found(&mut index, &sessions, "another"), ["two"]);
    assert_eq!(fixture.found(&mut index, &sessions, "seite"), [""; 0]);
    drop(index);
    let mut index = fixture.index();
    let before = READ.load(Ordering::Relaxed);
    let own = OwnPrices::new();
    index.responses(&fixture.readers, &sessions, &own).unwrap();
    let (counted, _) = index.responses(&fixture.readers, &sessions, &own).unwrap();
    assert_eq!(counted.iter().map(Vec::len).sum::<usize>(), 3);
    assert_eq!(READ.load(Ordering::Relaxed) - before, 2, "each was read once");
    let price = OwnPrice { input: 2.0, output: 0.0, cache_read: None, cache_write: None };
    let own = OwnPrices::from([("local".to_owned(), price)]);
    let (counted, _) = index.responses(&fixture.readers, &sessions, &own).unwrap();
    assert_eq!(counted[0][0].cost, Some(2.0), "another price counts at once");
}

#[test]
fn a_forgotten_session_leaves_nothing_and_does_not_come_back_by_itself() {
    let fixture = Fixture::new();
    let mut index = fixture.index();
    let sessions =
        [fixture.session("one", "a confidential text hush-hush-hush"), fixture.session("two", "b")];
    assert_eq!(fixture.found(&mut index, &sessions, "hush"), [""; 0], "secrets are not stored");
    assert_eq!(fixture.found(&mut index, &sessions, "confidential"), ["one"]);
    assert!(index.forget(&sessions[0]).unwrap());
    assert_eq!(fixture.found(&mut index, &sessions, "confidential"), [""; 0]);
    drop(index);
    for file in fs::read_dir(fixture.directory.path().join("private")).unwrap() {
        let path = file.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        assert!(!bytes.windows(12).any(|it| it == b"confidential"), "{}", path.display());
    }
    let mut index = fixture.index();
    index.remember(&sessions[0]).unwrap();
    assert_eq!(fixture.found(&mut index, &sessions, "confidential"), ["one"]);
}

#[test]
fn the_index_is_of_its_owner_only_and_is_made_again_if_it_is_damaged() {
    let fixture = Fixture::new();
    let path = fixture.directory.path().join("private/index.db");
    let sessions = [fixture.session("one", "text")];
    for damage in [&b"no database, but something that is long enough to be one"[..], b""] {
        let mut index = fixture.index();
        assert_eq!(fixture.found(&mut index, &sessions, "text"), ["one"]);
        for file in fs::read_dir(path.parent().unwrap()).unwrap().map(|it| it.unwrap()) {
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        drop(index);
        fs::write(&path, damage).unwrap();
    }
    let index = fixture.index();
    index.database.pragma_update(None, "user_version", VERSION + 1).unwrap();
    drop(index);
    assert!(matches!(Index::open(&path, redactor()), Err(IndexError::Newer(_))));
}
