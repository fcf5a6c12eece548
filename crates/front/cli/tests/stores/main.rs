//! Stores of earlier versions: this version opens them, and says of every session what the version that wrote it said.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../../../conversation/session/tests/postgres/cluster.rs"]
mod cluster;
mod migration;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use self::cluster::Cluster;

#[test]
fn a_sqlite_store_of_format_5_says_what_it_said() {
    let data = sqlite_5();
    Reader { data: data.path(), store: None }.check(&stores().join("sqlite-5/expected"));
}

#[test]
fn a_postgresql_store_of_format_4_says_what_it_said() {
    let (cluster, data) = (Cluster::start(), TempDir::new().unwrap());
    load_postgres_4(&cluster.url());
    let reader = Reader { data: data.path(), store: Some(cluster.url()) };
    let refused = reader.run(&["sessions", "list"]);
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(why.contains("make a backup, then run `convoke sessions migrate"), "{why}");
    let unasked = reader.run(&["sessions", "migrate"]);
    let why = String::from_utf8(unasked.stderr).unwrap();
    assert_eq!(unasked.status.code(), Some(2), "{why}");
    assert!(why.contains("pg_dump") && why.contains("pass --yes"), "{why}");
    let migrated = reader.says(&["sessions", "migrate", "--yes"]);
    assert_eq!(migrated, "migrated 17 sessions from format 4 to format 5\n");
    let again = reader.says(&["sessions", "migrate", "--yes", "--json"]);
    assert_eq!(again, "{\"migrated\":false}\n");
    reader.check(&stores().join("postgres-4/expected"));
}

#[test]
fn a_session_of_the_store_and_of_its_archive_have_the_same_log() {
    let (data, other) = (sqlite_5(), TempDir::new().unwrap());
    let store = Reader { data: data.path(), store: None };
    let importer = Reader { data: other.path(), store: None };
    let expected = stores().join("sqlite-5/expected");
    let mut compared = 0;
    for folder in sessions(&expected) {
        let id = folder.file_name().unwrap().to_str().unwrap();
        let log = store.says(&["sessions", "export", id, "--log"]);
        let archive = folder.join("export.jsonl");
        if log.is_empty() || !archive.exists() {
            continue;
        }
        let new = importer.says(&["sessions", "import", archive.to_str().unwrap()]);
        let imported = importer.says(&["sessions", "export", new.trim(), "--log"]);
        // The import has an id, a directory and a time of its own, and is at rest.
        let is_interrupted = fs::read_to_string(folder.join("kind")).unwrap().contains("crash");
        let lines = log.lines().count() + usize::from(is_interrupted);
        assert_eq!(imported.lines().count(), lines, "{}", folder.display());
        let pairs = log.lines().zip(imported.lines()).skip(1);
        for (log, imported) in pairs.take(if is_interrupted { 3 } else { usize::MAX }) {
            let imported = imported.replace(new.trim(), id);
            let [log, imported]: [Value; 2] =
                [log, &imported].map(|line| serde_json::from_str(line).unwrap());
            assert_eq!(log, imported, "{}", folder.display());
        }
        compared += 1;
    }
    assert!(compared >= 14, "{compared}");
}

/// Copies the store of format 5.
fn sqlite_5() -> TempDir {
    let data = TempDir::new().unwrap();
    fs::copy(stores().join("sqlite-5/sessions.db"), data.path().join("sessions.db")).unwrap();
    data
}

/// Loads the store of format 4 into an empty database.
fn load_postgres_4(url: &str) {
    let mut psql = Command::new("psql")
        .args(["--quiet", "--set=ON_ERROR_STOP=1", url])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let dump = fs::read(stores().join("postgres-4/sessions.sql")).unwrap();
    psql.stdin.take().unwrap().write_all(&dump).unwrap();
    assert!(psql.wait().unwrap().success());
}

/// Returns the folders of the sessions.
fn sessions(expected: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(expected).unwrap().map(|entry| entry.unwrap().path());
    let mut sessions: Vec<PathBuf> = folders.filter(|path| path.is_dir()).collect();
    sessions.sort();
    assert_eq!(sessions.len(), 17);
    sessions
}

fn stores() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../conformance/stores")
}

/// Reads a copy of a store with this version.
struct Reader<'a> {
    data: &'a Path,
    store: Option<String>,
}

impl Reader<'_> {
    fn check(&self, expected: &Path) {
        self.compare(expected, "list.json", &["sessions", "list", "--all", "--json"]);
        self.compare(expected, "removed.json", &["sessions", "restore", "--json"]);
        self.compare(expected, "search.json", &["sessions", "search", "--all", "--json", "tax"]);
        if self.store.is_none() {
            self.compare(expected, "threads.json", &["ask", "--threads", "--json"]);
        }
        let removed: Value =
            serde_json::from_slice(&fs::read(expected.join("removed.json")).unwrap()).unwrap();
        for session in removed["removed"].as_array().unwrap() {
            self.says(&["sessions", "restore", session["session"]["id"].as_str().unwrap()]);
        }
        for folder in sessions(expected) {
            self.check_session(&folder);
        }
        let verified = self.says(&["sessions", "verify"]);
        let all = "17 of 17 sessions were rebuilt as they are stored";
        assert!(verified.starts_with(all), "{verified}");
    }

    fn check_session(&self, expected: &Path) {
        let id = expected.file_name().unwrap().to_str().unwrap();
        for entry in fs::read_dir(expected).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let turn = name.strip_prefix("turn-").and_then(|rest| rest.split('.').next());
            let show = ["sessions", "show", id];
            let arguments: Vec<&str> = match (&*name, turn) {
                // The form of an archive is that of the log; those of earlier versions are imported above.
                ("kind" | "export.jsonl", _) => continue,
                ("show.json", _) => [&show[..], &["--json"]].concat(),
                ("show.txt", _) => show.to_vec(),
                ("prompts.txt", _) => [&show[..], &["--prompt"]].concat(),
                ("requests.jsonl", _) => [&show[..], &["--request", "--json"]].concat(),
                ("snapshot.json", _) => vec!["sessions", "export", id],
                ("replay.txt", _) => vec!["sessions", "replay", "--verify", id],
                (_, Some(turn)) if name.ends_with(".events.jsonl") => {
                    [&show[..], &["--turn", turn, "--events"]].concat()
                }
                (_, Some(turn)) => [&show[..], &["--turn", turn, "--json"]].concat(),
                _ => panic!("{name} is not an output that is known here"),
            };
            self.compare(expected, &name, &arguments);
        }
    }

    /// Compares an output with that of the earlier version, which may lack fields that were added since.
    fn compare(&self, expected: &Path, name: &str, arguments: &[&str]) {
        let path = expected.join(name);
        let said = fs::read_to_string(&path).unwrap();
        let says = self.says(arguments);
        if path.extension().is_some_and(|extension| extension == "txt") {
            // That version wrote the end of an id where this one writes the beginning of its last group.
            let id = expected.file_name().unwrap().to_str().unwrap();
            let (old, new) = (&id[id.len() - 8..], &id[id.len() - 12..][..8]);
            assert_eq!(
                says,
                said.replace(&format!("--session {old}`"), &format!("--session {new}`")),
                "{}",
                path.display()
            );
            return;
        }
        assert_eq!(says.lines().count(), said.lines().count(), "{}", path.display());
        for (number, (says, said)) in says.lines().zip(said.lines()).enumerate() {
            let [says, said]: [Value; 2] =
                [says, said].map(|line| serde_json::from_str(line).unwrap());
            if let Some(field) = difference(&says, &said) {
                panic!("{}:{}: {field}\n{says:#}\n{said:#}", path.display(), number + 1);
            }
        }
    }

    fn says(&self, arguments: &[&str]) -> String {
        let text = String::from_utf8(self.run(arguments).stdout).unwrap();
        text.replace(env!("CARGO_BIN_EXE_convoke"), "convoke")
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_convoke"));
        command.args(arguments).current_dir(self.data).env_clear().env("HOME", self.data);
        command.env("CONVOKE_DATA_DIR", self.data).env("LANG", "C.UTF-8");
        command.envs(self.store.as_ref().map(|url| ("CONVOKE_STORE", url)));
        command.stdin(Stdio::null()).output().unwrap()
    }
}

/// Returns the first field of `said` that `says` lacks or has another value for.
fn difference(says: &Value, said: &Value) -> Option<String> {
    match (says, said) {
        (Value::Object(says), Value::Object(said)) => said.iter().find_map(|(name, said)| {
            let below = match says.get(name) {
                Some(says) => difference(says, said)?,
                // A result named the content with the events of its agent, which are in the log now.
                None if name == "events" && says.contains_key("verdict") => return None,
                None => " is missing".to_owned(),
            };
            Some(format!(".{name}{below}"))
        }),
        (Value::Array(says), Value::Array(said)) if says.len() == said.len() => {
            let mut pairs = says.iter().zip(said).enumerate();
            pairs.find_map(|(at, (says, said))| {
                difference(says, said).map(|below| format!("[{at}]{below}"))
            })
        }
        _ => (says != said).then(|| " differs".to_owned()),
    }
}

#[test]
fn a_field_that_changed_or_went_is_a_difference_and_a_new_one_is_not() {
    let said = serde_json::json!({"a": [{"b": 1}], "c": null});
    for (says, expected) in [
        (serde_json::json!({"a": [{"b": 1, "new": 2}], "c": null}), None),
        (serde_json::json!({"a": [{"b": 2}], "c": null}), Some(".a[0].b differs")),
        (serde_json::json!({"a": [], "c": null}), Some(".a differs")),
        (serde_json::json!({"a": [{"b": 1}]}), Some(".c is missing")),
    ] {
        assert_eq!(difference(&says, &said).as_deref(), expected);
    }
}
