//! Settings in Claude Code's arguments: `--settings` with JSON or the path of a file.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use convoke_files::{Disk, FileKind, Files as _};
use serde_json::Value;

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
const HARMLESS: [&str; 5] =
    ["ANTHROPIC_", "CLAUDE_CODE_DISABLE_", "CLAUDE_CODE_MAX_", "DISABLE_", "MAX_"];

/// Keeps the settings of a project that is not trusted from replacing variables, with which they could run a command: each
/// keeps its value in settings of the arguments, which override those of the project. A variable that is not set is empty.
///
/// The file of those settings is one that Convoke has written into the private directory.
pub(super) fn keep_variables(
    arguments: &[OsString],
    private: &Path,
    cwd: &Path,
    variables: &BTreeMap<OsString, OsString>,
) -> io::Result<()> {
    let named = named_variables(cwd);
    let words = arguments.iter().filter_map(|word| word.to_str().map(str::to_owned));
    let given = split(&words.collect::<Vec<_>>()).1;
    if named.is_empty() {
        return Ok(());
    }
    let given = given.filter(|path| Path::new(path).starts_with(private));
    let given =
        given.ok_or_else(|| io::Error::other("the settings in its arguments are not ours"))?;
    let mut settings = read(&given, cwd).map_err(io::Error::other)?;
    for name in named {
        // Those that lead to the model server stay.
        if settings["env"].get(&name).is_none() {
            let value = variables.get(OsStr::new(&name)).and_then(|value| value.to_str());
            settings["env"][&name] = value.unwrap_or_default().into();
        }
    }
    std::fs::write(given, settings.to_string())
}

/// Returns the variables that the settings of a project would set, but for harmless ones.
fn named_variables(cwd: &Path) -> BTreeSet<String> {
    let directories = cwd.ancestors().map(|above| above.join(".claude"));
    let files =
        directories.flat_map(|it| [it.join("settings.json"), it.join("settings.local.json")]);
    let texts = files.filter_map(|path| Disk.read_text(&path, FileKind::Configuration).ok());
    let settings = texts.filter_map(|text| serde_json::from_str::<Value>(&text).ok());
    let names = settings.flat_map(|settings| {
        let variables = settings["env"].as_object();
        variables.into_iter().flat_map(|it| it.keys().cloned()).collect::<Vec<_>>()
    });
    names.filter(|name| !HARMLESS.iter().any(|start| name.starts_with(start))).collect()
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
        let keep =
            |file: &Path| keep_variables(&[FLAG.into(), file.into()], &private, &cwd, &variables);
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
}
