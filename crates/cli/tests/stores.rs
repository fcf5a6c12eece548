//! Stores of earlier versions: this version opens them, and says of every session what the version that wrote it said.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../session/tests/postgres/cluster.rs"]
mod cluster;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use self::cluster::Cluster;

#[test]
fn a_sqlite_store_of_format_5_says_what_it_said() {
    let data = TempDir::new().unwrap();
    fs::copy(stores().join("sqlite-5/sessions.db"), data.path().join("sessions.db")).unwrap();
    Reader { data: data.path(), store: None }.check(&stores().join("sqlite-5/expected"));
}

#[test]
fn a_postgresql_store_of_format_4_says_what_it_said() {
    let (cluster, data) = (Cluster::start(), TempDir::new().unwrap());
    let mut psql = Command::new("psql")
        .args(["--quiet", "--set=ON_ERROR_STOP=1", &cluster.url()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let dump = fs::read(stores().join("postgres-4/sessions.sql")).unwrap();
    psql.stdin.take().unwrap().write_all(&dump).unwrap();
    assert!(psql.wait().unwrap().success());
    let store = Some(cluster.url());
    Reader { data: data.path(), store }.check(&stores().join("postgres-4/expected"));
}

fn stores() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/stores")
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
        let folders = fs::read_dir(expected).unwrap().map(|entry| entry.unwrap().path());
        let mut sessions: Vec<PathBuf> = folders.filter(|path| path.is_dir()).collect();
        sessions.sort();
        assert_eq!(sessions.len(), 17);
        for folder in sessions {
            self.check_session(&folder);
        }
    }

    fn check_session(&self, expected: &Path) {
        let id = expected.file_name().unwrap().to_str().unwrap();
        for entry in fs::read_dir(expected).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let turn = name.strip_prefix("turn-").and_then(|rest| rest.split('.').next());
            let show = ["sessions", "show", id];
            let arguments: Vec<&str> = match (&*name, turn) {
                ("kind", _) => continue,
                ("show.json", _) => [&show[..], &["--json"]].concat(),
                ("show.txt", _) => show.to_vec(),
                ("prompts.txt", _) => [&show[..], &["--prompt"]].concat(),
                ("requests.jsonl", _) => [&show[..], &["--request", "--json"]].concat(),
                ("export.jsonl", _) => vec!["sessions", "export", id, "--all"],
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
            assert_eq!(says, said, "{}", path.display());
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
        let mut command = Command::new(env!("CARGO_BIN_EXE_convoke"));
        command.args(arguments).current_dir(self.data).env_clear().env("HOME", self.data);
        command.env("CONVOKE_DATA_DIR", self.data).env("LANG", "C.UTF-8");
        command.envs(self.store.as_ref().map(|url| ("CONVOKE_STORE", url)));
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.replace(env!("CARGO_BIN_EXE_convoke"), "convoke")
    }
}

/// Returns the first field of `said` that `says` lacks or has another value for.
fn difference(says: &Value, said: &Value) -> Option<String> {
    match (says, said) {
        (Value::Object(says), Value::Object(said)) => said.iter().find_map(|(name, said)| {
            let below = match says.get(name) {
                Some(says) => difference(says, said)?,
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
