//! The sessions on a machine, and their names.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use convoke_source::{
    FoundSession, Home, Kept, Report, SessionReader, SessionSource, Sink, SourceError,
};
use tempfile::TempDir;

use crate::archive::Archive;
use crate::prices::OwnPrices;

/// The sessions of all programs in one home.
pub struct Catalog<'c> {
    pub readers: Readers,
    pub home: Home<'c>,
    /// Directories whose sessions are left out.
    pub excluded: Vec<PathBuf>,
    /// The prices that the user has set.
    pub prices: OwnPrices,
}

/// What opens the sessions of all programs.
#[derive(Debug)]
pub struct Readers {
    pub sources: Vec<&'static dyn SessionSource>,
    /// The copies that the user has had kept, with which a session can be read whose own files are gone.
    pub archive: Option<Archive>,
}

/// The sessions that were found.
#[derive(Debug, Default)]
pub struct Found {
    /// The one that changed last first.
    pub sessions: Vec<FoundSession>,
    /// What could not be read.
    pub problems: Vec<SourceError>,
}

/// A session was not found by its name.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("no program is called `{0}`; its sessions can be read of: {1}")]
    UnknownProgram(String, String),
    #[error("no session of {program} has an id that begins with `{id}`")]
    NotFound { program: &'static str, id: String },
    #[error("`{program}:{id}` is the beginning of {count} ids: {examples}; write more of it")]
    Ambiguous { program: &'static str, id: String, count: usize, examples: String },
    #[error("{} is not a session of a program that is known here: {}", path.display(), programs)]
    UnknownFile { path: PathBuf, programs: String },
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl Catalog<'_> {
    /// Finds all sessions.
    pub fn list(&self) -> Found {
        let mut found = Found::default();
        for source in &self.readers.sources {
            self.list_of(*source, &mut found);
        }
        self.add_kept(&mut found, |_| true);
        found.sessions.sort_by(|one, other| {
            other.changed_at.0.cmp(&one.changed_at.0).then_with(|| one.id.cmp(&other.id))
        });
        found
    }

    fn list_of(&self, source: &dyn SessionSource, found: &mut Found) {
        source.list(&self.home, &mut |session| match session {
            Ok(session) if self.is_excluded(&session) => {}
            Ok(session) => found.sessions.push(session),
            Err(problem) => found.problems.push(problem),
        });
    }

    /// Adds the kept sessions that their programs do not have any more.
    fn add_kept(&self, found: &mut Found, is_wanted: impl Fn(&FoundSession) -> bool) {
        let Some(archive) = &self.readers.archive else { return };
        let kept = match archive.list() {
            Ok(kept) => kept,
            Err(error) => return found.problems.push(error.into()),
        };
        let present: HashSet<(&str, String)> =
            found.sessions.iter().map(|it| (it.program, it.id.clone())).collect();
        let kept = kept.iter().filter_map(|kept| kept.found(&self.readers.sources));
        let kept = kept.filter(|it| is_wanted(it) && !self.is_excluded(it));
        let gone = kept.filter(|it| !present.contains(&(it.program, it.id.clone())));
        let gone: Vec<FoundSession> = gone.collect();
        found.sessions.extend(gone);
    }

    fn is_excluded(&self, session: &FoundSession) -> bool {
        let cwd = session.cwd.as_deref().map(Path::new);
        cwd.is_some_and(|cwd| self.excluded.iter().any(|directory| cwd.starts_with(directory)))
    }

    /// Returns whether a name is of another program's session: `program:id`, or a path.
    pub fn is_named(&self, name: &str) -> bool {
        let program = name.split_once(':').map(|(program, _)| program);
        let is_known =
            |program| self.readers.sources.iter().any(|source| source.program() == program);
        program.is_some_and(is_known) || is_path(name)
    }

    /// Finds a session by `program:id`, where a unique beginning of the id is enough, or by its path.
    pub fn find(&self, name: &str) -> Result<FoundSession, FindError> {
        match name.split_once(':') {
            Some((program, id)) if !is_path(name) => self.find_by_id(program, id),
            _ => self.find_by_path(Path::new(name)),
        }
    }

    fn find_by_id(&self, program: &str, id: &str) -> Result<FoundSession, FindError> {
        let source = self.readers.sources.iter().find(|source| source.program() == program);
        let unknown = || FindError::UnknownProgram(program.to_owned(), self.programs());
        let source = *source.ok_or_else(unknown)?;
        let program = source.program();
        let mut found = Found::default();
        self.list_of(source, &mut found);
        self.add_kept(&mut found, |session| session.program == program);
        found.sessions.retain(|session| session.id.starts_with(id));
        if let Some(whole) = found.sessions.iter().position(|session| session.id == id) {
            return Ok(found.sessions.swap_remove(whole));
        }
        if found.sessions.len() > 1 {
            let examples = found.sessions.iter().take(3).map(|it| &*it.id).collect::<Vec<_>>();
            let (count, examples) = (found.sessions.len(), examples.join(", "));
            return Err(FindError::Ambiguous { program, id: id.to_owned(), count, examples });
        }
        let only = found.sessions.pop();
        only.ok_or_else(|| FindError::NotFound { program, id: id.to_owned() })
    }

    fn find_by_path(&self, path: &Path) -> Result<FoundSession, FindError> {
        for source in &self.readers.sources {
            if let Some(session) = source.at(path)? {
                return Ok(session);
            }
        }
        Err(FindError::UnknownFile { path: path.to_owned(), programs: self.programs() })
    }

    /// Opens a session.
    pub fn open(
        &self,
        session: &FoundSession,
        kept: Kept,
    ) -> Result<Box<dyn SessionReader>, SourceError> {
        self.readers.open(session, kept)
    }

    /// Returns the provider of the models of a session's program, if it has but one.
    pub fn provider(&self, session: &FoundSession) -> Option<&'static str> {
        self.readers.provider(session)
    }

    fn programs(&self) -> String {
        self.readers.sources.iter().map(|source| source.program()).collect::<Vec<_>>().join(", ")
    }
}

impl Readers {
    /// Opens a session: its own files, or the copies of them if they are gone.
    pub fn open(
        &self,
        session: &FoundSession,
        kept: Kept,
    ) -> Result<Box<dyn SessionReader>, SourceError> {
        let source = self.source(session).ok_or_else(|| unknown(session))?;
        if let Some(archive) = &self.archive
            && !session.path.exists()
            && let Some((directory, restored)) = archive.open(session)?
        {
            let reader = source.open(&restored, kept)?;
            return Ok(Box::new(ReaderOfCopies { reader, _directory: directory }));
        }
        source.open(session, kept)
    }

    /// Returns the provider of the models of a session's program, if it has but one.
    pub fn provider(&self, session: &FoundSession) -> Option<&'static str> {
        self.source(session)?.provider()
    }

    fn source(&self, session: &FoundSession) -> Option<&'static dyn SessionSource> {
        self.sources.iter().copied().find(|source| source.program() == session.program)
    }
}

/// A reader of restored files, which last as long as it.
struct ReaderOfCopies {
    reader: Box<dyn SessionReader>,
    _directory: TempDir,
}

impl SessionReader for ReaderOfCopies {
    fn advance(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
        self.reader.advance(sink)
    }

    fn report(&self) -> &Report {
        self.reader.report()
    }
}

fn is_path(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|it| it.to_str());
    name.contains('/') || matches!(extension, Some("jsonl" | "json"))
}

fn unknown(session: &FoundSession) -> SourceError {
    let problem = "no reader knows this program".to_owned();
    SourceError::Format { program: session.program, path: session.path.clone(), problem }
}
