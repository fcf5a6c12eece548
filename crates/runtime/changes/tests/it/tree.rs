//! A directory with a store beside it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use convoke_changes::{Begun, Changes, Host, Limits, Record, TurnKey};
use tempfile::TempDir;

pub const SESSION: &str = "0197-session";

/// The directory of a tree: removed in the end if it is this process's own.
pub enum Root {
    Own(TempDir),
    Other(PathBuf),
}

impl Root {
    pub fn path(&self) -> &Path {
        match self {
            Self::Own(directory) => directory.path(),
            Self::Other(path) => path,
        }
    }
}

/// A directory `project`, a home and a data directory.
pub struct Tree {
    pub temp: Root,
    pub limits: Limits,
}

impl Tree {
    /// Creates a plain directory.
    pub fn plain() -> Self {
        let temp = tempfile::tempdir().unwrap();
        for name in ["project", "home", "data"] {
            fs::create_dir(temp.path().join(name)).unwrap();
        }
        Self::with(Root::Own(temp))
    }

    /// Opens a directory of another process.
    pub fn at(root: PathBuf) -> Self {
        Self::with(Root::Other(root))
    }

    fn with(temp: Root) -> Self {
        // A loaded machine is no reason to record less.
        let (time, wait) = (Duration::from_mins(2), Duration::from_mins(1));
        Self { temp, limits: Limits { time, wait, ..Limits::default() } }
    }

    /// Creates a repository with one commit.
    pub fn repository() -> Self {
        let tree = Self::plain();
        tree.git(&["init", "-q", "-b", "main"]);
        tree.write("README", "read me\n");
        tree.git(&["add", "-A"]);
        tree.git(&["commit", "-q", "-m", "first"]);
        tree
    }

    pub fn project(&self) -> PathBuf {
        fs::canonicalize(self.temp.path().join("project")).unwrap()
    }

    pub fn home(&self) -> PathBuf {
        self.temp.path().join("home")
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.project().join(name)
    }

    pub fn write(&self, name: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn read(&self, name: impl AsRef<Path>) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn chmod(&self, name: impl AsRef<Path>, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Runs git as the user does, in the project.
    pub fn git(&self, arguments: &[&str]) -> String {
        self.git_in("", arguments)
    }

    pub fn git_in(&self, name: &str, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args([
                "-c",
                "user.name=u",
                "-c",
                "user.email=u@example.org",
                "-c",
                "protocol.file.allow=always",
            ])
            .args(arguments)
            .current_dir(self.path(name))
            .env("HOME", self.home())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env_remove("XDG_CONFIG_HOME")
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    }

    pub fn host(&self) -> Host {
        let home = self.home();
        Host { path: std::env::var_os("PATH").unwrap(), config: home.join(".config"), home }
    }

    pub fn changes(&self) -> Changes {
        Changes::new(&self.temp.path().join("data"), self.host()).with_limits(self.limits.clone())
    }

    pub fn begin(&self, turn: u64) -> Begun {
        self.changes().begin(&self.project(), key(turn)).unwrap()
    }

    /// Records a turn that does something.
    pub fn turn(&self, turn: u64, act: impl FnOnce(&Self)) -> Record {
        let begun = self.begin(turn);
        act(self);
        begun.turn.finish().unwrap()
    }

    /// Takes a turn back, with what may be another's.
    pub fn undo(&self, turn: u64) -> Record {
        let changes = self.changes();
        let mut plan = changes.plan_undo(SESSION, Some(turn)).unwrap();
        plan.takes_shared = true;
        assert!(plan.conflicts.is_empty(), "{:?}", plan.conflicts);
        changes.undo(&plan).unwrap()
    }

    /// Redoes an undone turn.
    pub fn redo(&self, turn: u64) -> Record {
        let changes = self.changes();
        let plan = changes.plan_redo(SESSION, Some(turn)).unwrap();
        assert!(plan.conflicts.is_empty(), "{:?}", plan.conflicts);
        changes.undo(&plan).unwrap()
    }

    /// Returns everything in the project but repositories: mode and bytes of each path.
    pub fn state(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        state_of(&self.project(), |name| name != ".git")
    }
}

pub fn key(turn: u64) -> TurnKey {
    TurnKey { session: SESSION.to_owned(), turn, attempt: 1, member: "max".to_owned() }
}

/// Returns what a record has changed, as `STATUS PATH`.
pub fn shown(record: &Record) -> Vec<String> {
    let line =
        |change: &convoke_changes::Change| format!("{} {}", change.status().as_str(), change.path);
    record.shown().map(line).collect()
}

/// Returns the mode and bytes of every path below a directory.
pub fn state_of(
    root: &Path,
    is_wanted: impl Fn(&str) -> bool + Copy,
) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut state = BTreeMap::new();
    for entry in fs::read_dir(root).unwrap() {
        let entry = entry.unwrap();
        if !is_wanted(&entry.file_name().to_string_lossy()) {
            continue;
        }
        let (path, metadata) = (entry.path(), entry.metadata().unwrap());
        let content = if metadata.is_dir() {
            state.extend(state_of(&path, is_wanted));
            Vec::new()
        } else if metadata.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
        } else if metadata.is_file() {
            fs::read(&path).unwrap()
        } else {
            Vec::new()
        };
        state.insert(path, (metadata.mode(), content));
    }
    state
}

/// Returns everything of a user's repository, with the times of modification.
pub fn repository_of(root: &Path) -> BTreeMap<PathBuf, (u32, i64, i64, Vec<u8>)> {
    let state = state_of(root, |_| true);
    state
        .into_iter()
        .map(|(path, (mode, content))| {
            let metadata = fs::symlink_metadata(&path).unwrap();
            (path, (mode, metadata.mtime(), metadata.mtime_nsec(), content))
        })
        .collect()
}

/// Returns whether this process may not read everything, as most people's may not. If it may, the test of this name runs once
/// more as somebody else, in a directory of its own.
pub fn is_unprivileged(name: &str) -> bool {
    const AGAIN: &str = "CONVOKE_UNPRIVILEGED";
    let place = tempfile::tempdir().unwrap();
    let closed = place.path().join("closed");
    fs::write(&closed, "").unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o0)).unwrap();
    if fs::read(&closed).is_err() {
        return true;
    }
    assert!(std::env::var_os(AGAIN).is_none(), "somebody else may read everything, too");
    if std::os::unix::fs::chown(place.path(), Some(65534), Some(65534)).is_err() {
        println!("not run: nobody here is without the right to read every file");
        return false;
    }
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(AGAIN, "1")
        .env("TMPDIR", place.path())
        .output();
    match output {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => println!("not run: setpriv: {error}"),
    }
    false
}
