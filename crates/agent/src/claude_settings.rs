//! Settings in Claude Code's arguments: `--settings` with JSON or the path of a file.

use std::io;
use std::path::{Path, PathBuf};

use convoke_files::{Disk, FileKind, Files as _};
use serde_json::Value;

pub(crate) const FLAG: &str = "--settings";

/// An error of reading settings from arguments.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("cannot read {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("the value of `--settings` is not a JSON object")]
    NoObject,
}

/// Splits the settings off the arguments: returns the other arguments and the last value of the flag.
pub(crate) fn split(arguments: &[String]) -> (Vec<String>, Option<String>) {
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
pub(crate) fn read(given: &str, cwd: &Path) -> Result<Value, SettingsError> {
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
