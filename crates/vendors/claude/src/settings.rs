//! Settings of Claude Code: those in its arguments (`--settings` with JSON or the path of a file), and those of a project
//! that is not trusted.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use convoke_files::{Disk, FileKind, Files as _};
use serde_json::Value;

use convoke_agent::command_files::{GitDirectory, Location, locate};
use convoke_agent::launch::UntrustedFile;

pub(super) const FLAG: &str = "--settings";

/// An error of reading settings from arguments.
#[derive(Debug, thiserror::Error)]
pub(super) enum SettingsError {
    #[error("cannot read {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("the value of `--settings` is not a JSON object")]
    NoObject,
}

/// Splits the settings off the arguments: returns the other arguments and the last value of the flag.
pub(super) fn split(arguments: &[String]) -> (Vec<String>, Option<String>) {
    let mut others = Vec::new();
    let mut given = None;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == FLAG {
            given = rest.next().cloned();
        } else if let Some(value) =
            argument.strip_prefix(FLAG).and_then(|rest| rest.strip_prefix('='))
        {
            given = Some(value.to_owned());
        } else {
            others.push(argument.clone());
        }
    }
    (others, given)
}

/// Reads a value of the flag: JSON, or the path of a file.
pub(super) fn read(given: &str, cwd: &Path) -> Result<Value, SettingsError> {
    let text = if given.trim_start().starts_with('{') {
        given.to_owned()
    } else {
        let path = cwd.join(given);
        let text = Disk.read_text(&path, FileKind::Configuration);
        text.map_err(|source| SettingsError::File { path, source })?
    };
    let parsed: Option<Value> = serde_json::from_str(&text).ok();
    parsed.filter(Value::is_object).ok_or(SettingsError::NoObject)
}

/// The variables of a project's settings that run nothing and change no program that is run.
const HARMLESS: [&str; 7] = [
    "ANTHROPIC_",
    "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_",
    "CLAUDE_CODE_DISABLE_",
    "CLAUDE_CODE_MAX_",
    "DISABLE_",
    "MAX_",
    "SLASH_COMMAND_TOOL_",
];

/// The settings whose values are commands that are run without a question and cannot be turned off.
pub(super) const HELPERS: [&str; 5] = [
    "apiKeyHelper",
    "awsAuthRefresh",
    "awsCredentialExport",
    "gcpAuthRefresh",
    "otelHeadersHelper",
];

/// The settings files that Claude Code reads in a project that is not trusted.
#[derive(Debug)]
pub(super) struct ProjectSettings(Vec<(PathBuf, Value)>);

impl ProjectSettings {
    /// Reads the files in and above a working directory, and in the main working tree of its repository. Those in the
    /// user's home are the user's own.
    pub(super) fn read(cwd: &Path, home: Option<&Path>) -> Result<Self, UntrustedFile> {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let (cwd, home) = (real(cwd), home.map(real));
        let mut directories: BTreeSet<PathBuf> = BTreeSet::new();
        for directory in cwd.ancestors() {
            directories.insert(directory.to_owned());
            let dot_git = directory.join(".git");
            match GitDirectory::find(&dot_git) {
                Ok(GitDirectory { common, .. }) => {
                    directories.extend(common.parent().map(Path::to_owned));
                }
                Err(Location::Missing) => {}
                Err(_) => return Err(unclear(&dot_git, "it leads to no repository")),
            }
        }
        directories.retain(|it| *it == cwd || Some(it) != home.as_ref());
        let files = directories.iter().flat_map(|directory| {
            ["settings.json", "settings.local.json"]
                .map(|name| directory.join(".claude").join(name))
        });
        let found = files.filter_map(|path| {
            let settings = read_as_claude(&path).map_err(|reason| unclear(&path, reason));
            Some(settings.transpose()?.map(|settings| (path, settings)))
        });
        found.collect::<Result<_, _>>().map(Self)
    }

    /// Returns a file that has one of these settings.
    pub(super) fn file_with(&self, names: &[&str]) -> Option<&Path> {
        let has = |settings: &Value| names.iter().any(|name| settings.get(name).is_some());
        self.0.iter().find(|(_, settings)| has(settings)).map(|(path, _)| path.as_path())
    }

    /// Returns the variables that they would set, but for harmless ones.
    fn variables(&self) -> BTreeSet<&str> {
        let variables = self.0.iter().filter_map(|(_, settings)| settings["env"].as_object());
        let names = variables.flat_map(|it| it.keys().map(String::as_str));
        names.filter(|name| !HARMLESS.iter().any(|start| name.starts_with(start))).collect()
    }

    /// Keeps them from replacing variables, with which they could run a command: each keeps its value in settings of the
    /// arguments, which override those of the project. A variable that is not set is empty.
    ///
    /// The file of those settings is one that Convoke has written into the private directory.
    pub(super) fn keep_variables(
        &self,
        arguments: &[OsString],
        private: &Path,
        cwd: &Path,
        variables: &BTreeMap<OsString, OsString>,
    ) -> io::Result<()> {
        let named = self.variables();
        if named.is_empty() {
            return Ok(());
        }
        let mut values = BTreeMap::new();
        for name in named {
            let value = variables.get(OsStr::new(name)).map_or(Some(""), |value| value.to_str());
            let not_text =
                || io::Error::other(format!("the variable {name} is not UTF-8 and cannot be kept"));
            values.insert(name, value.ok_or_else(not_text)?);
        }
        change_own(arguments, private, cwd, |settings| {
            for (name, value) in values {
                // Those that lead to the model server stay.
                if settings["env"].get(name).is_none() {
                    settings["env"][name] = value.into();
                }
            }
        })
    }
}

/// Keeps the program from running hooks, by the settings that Convoke has written into the private directory.
pub(super) fn withhold_hooks(arguments: &[OsString], private: &Path, cwd: &Path) -> io::Result<()> {
    change_own(arguments, private, cwd, |settings| settings["disableAllHooks"] = true.into())
}

/// Changes the settings of the arguments, which are in a file of Convoke.
fn change_own(
    arguments: &[OsString],
    private: &Path,
    cwd: &Path,
    change: impl FnOnce(&mut Value),
) -> io::Result<()> {
    let words = arguments.iter().filter_map(|word| word.to_str().map(str::to_owned));
    let given = split(&words.collect::<Vec<_>>()).1;
    let given = given.filter(|path| Path::new(path).starts_with(private));
    let given =
        given.ok_or_else(|| io::Error::other("the settings in its arguments are not ours"))?;
    let mut settings = read(&given, cwd).map_err(io::Error::other)?;
    change(&mut settings);
    std::fs::write(given, settings.to_string())
}

/// Reads a settings file, if there is one. Claude Code skips a byte order mark and replaces bytes that are not UTF-8. It also
/// reads UTF-16, deep nesting and numbers out of range, which are errors here, as is everything that is not JSON.
pub(super) fn read_as_claude(path: &Path) -> Result<Option<Value>, String> {
    let real = match locate(path) {
        Location::Missing => return Ok(None),
        Location::Unclear => return Err("another process may find another file".to_owned()),
        Location::Found(real) => real,
    };
    let bytes = Disk.read(&real, FileKind::Configuration).map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    if text.trim().is_empty() {
        return Ok(None);
    }
    serde_json::from_str(text).map(Some).map_err(|error| error.to_string())
}

fn unclear(path: &Path, reason: impl Into<String>) -> UntrustedFile {
    UntrustedFile::Unclear { program: "claude", path: path.to_owned(), reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn variables_that_a_project_would_replace_keep_their_values() {
        let root = tempfile::tempdir().unwrap();
        let (cwd, private) = (root.path().join("project/sub"), root.path().join("private"));
        std::fs::create_dir_all(cwd.join(".claude")).unwrap();
        std::fs::create_dir_all(root.path().join("project/.claude")).unwrap();
        std::fs::create_dir(&private).unwrap();
        let write = |path: &str, settings: Value| {
            std::fs::write(root.path().join(path), settings.to_string()).unwrap();
        };
        write(
            "project/.claude/settings.json",
            json!({"env": {"GIT_CONFIG_COUNT": "0", "MAX_THINKING_TOKENS": "9"}}),
        );
        write(
            "project/sub/.claude/settings.local.json",
            json!({"env": {"BASH_ENV": "x", "A": "y"}}),
        );
        write("private/own.json", json!({"env": {"A": "ours"}}));
        write("users.json", json!({"env": {}}));
        let variables = BTreeMap::from([("GIT_CONFIG_COUNT".into(), "7".into())]);
        let project = ProjectSettings::read(&cwd, Some(root.path())).unwrap();
        let keep = |file: &Path| {
            project.keep_variables(&[FLAG.into(), file.into()], &private, &cwd, &variables)
        };
        keep(&private.join("own.json")).unwrap();
        let kept = std::fs::read_to_string(private.join("own.json")).unwrap();
        let kept: Value = serde_json::from_str(&kept).unwrap();
        assert_eq!(kept["env"], json!({"A": "ours", "BASH_ENV": "", "GIT_CONFIG_COUNT": "7"}));

        assert!(
            keep(&root.path().join("users.json")).is_err(),
            "a file of the user is not changed"
        );
        let users = std::fs::read_to_string(root.path().join("users.json")).unwrap();
        assert_eq!(users, json!({"env": {}}).to_string());
    }

    const ARMED: &str = r#"{"env": {"GIT_CONFIG_COUNT": "0"}}"#;

    /// Returns the variables that the settings file of a project names.
    fn named(bytes: &[u8]) -> Result<Vec<String>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".claude/settings.json");
        std::fs::create_dir(dir.path().join(".claude")).unwrap();
        std::fs::write(path, bytes).unwrap();
        let settings = ProjectSettings::read(dir.path(), None).map_err(|it| it.to_string())?;
        Ok(settings.variables().into_iter().map(str::to_owned).collect())
    }

    #[test]
    fn settings_are_read_as_claude_code_reads_them() {
        let marked = format!("\u{feff}{ARMED}");
        let twice = r#"{"env": {"A": "b"}, "env": {"GIT_CONFIG_COUNT": "0"}}"#;
        let latin = [b"{\"x\": \"\xe9\", ", &ARMED.as_bytes()[1..]].concat();
        for bytes in [ARMED.as_bytes(), marked.as_bytes(), twice.as_bytes(), &latin] {
            let shown = String::from_utf8_lossy(bytes);
            assert_eq!(named(bytes), Ok(vec!["GIT_CONFIG_COUNT".to_owned()]), "{shown}");
        }
        assert_eq!(named(b" \n"), Ok(Vec::new()));
        assert_eq!(named(b"{}"), Ok(Vec::new()));
    }

    #[test]
    fn settings_that_cannot_be_read_as_claude_code_does_are_refused() {
        let rest = &ARMED[1..];
        let wide: Vec<u8> = "\u{feff}{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let deep = format!("{{\"x\": {}{}, {rest}", "[".repeat(200), "]".repeat(200));
        let long = format!("{{{}{rest}", " ".repeat(5 << 20));
        let surrogate = format!("{{\"x\": \"\\ud800\", {rest}");
        let number = format!("{{\"x\": 1e999, {rest}");
        let comment = format!("// {{}}\n{ARMED}");
        let texts = [deep, long, surrogate, number, comment].map(String::into_bytes);
        for bytes in texts.into_iter().chain([wide]) {
            let refusal = named(&bytes).unwrap_err();
            assert!(refusal.contains(".claude/settings.json`"), "{refusal}");
            assert!(refusal.contains("`convoke trust`"), "{refusal}");
        }
    }

    #[test]
    fn settings_count_wherever_claude_code_finds_them() {
        let root = tempfile::tempdir().unwrap();
        let cwd = root.path().join("home/project");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("home/.claude/settings.json", "not JSON");
        write("home/project/.git", "gitdir: main/.git/worktrees/w\n");
        write("home/project/main/.git/worktrees/w/commondir", "../..\n");
        write("home/project/main/.claude/settings.local.json", ARMED);
        let home = root.path().join("home");
        let settings = ProjectSettings::read(&cwd, Some(&home)).unwrap();
        assert_eq!(settings.variables(), BTreeSet::from(["GIT_CONFIG_COUNT"]), "of the main tree");
        assert!(ProjectSettings::read(&home, Some(&home)).is_err(), "where the agent works");

        let settings = cwd.join(".claude/settings.json");
        std::fs::create_dir(cwd.join(".claude")).unwrap();
        std::os::unix::fs::symlink("/proc/self/cwd/settings.json", settings).unwrap();
        assert!(ProjectSettings::read(&cwd, Some(&home)).is_err(), "each process finds its own");
    }
}
