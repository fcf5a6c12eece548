//! The session of an agent: everything besides files that its rules depend on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use convoke_files::absolute;

/// The session of an agent: directories, arguments and variables.
///
/// The library does not read the environment or the home directory: the caller passes everything in.
#[derive(Debug, Clone)]
pub struct Session {
    /// The working directory, absolute.
    pub cwd: PathBuf,
    /// The user's home directory, absolute.
    pub home: PathBuf,
    /// The directory of the administrator's configuration (`/etc`).
    pub etc: PathBuf,
    /// The environment variables that the agents look at ([`LoadingRules::variables`](crate::LoadingRules::variables)).
    pub variables: BTreeMap<String, String>,
    /// The arguments that the agents are started with; each takes those that it knows.
    pub arguments: Vec<String>,
    /// The files that the agent has read, which may bring further instruction files.
    pub reads: Vec<PathBuf>,
    /// The time in milliseconds since 1970, from which the use of skills ages; that of the last use if it is
    /// not given.
    pub now_ms: Option<f64>,
}

impl Session {
    /// Creates the session of a user in a directory, without arguments and variables.
    pub fn new(cwd: impl Into<PathBuf>, home: impl Into<PathBuf>) -> Self {
        Self {
            cwd: cwd.into(),
            home: home.into(),
            etc: PathBuf::from("/etc"),
            variables: BTreeMap::new(),
            arguments: Vec::new(),
            reads: Vec::new(),
            now_ms: None,
        }
    }

    /// Returns a variable that is set and not empty.
    pub fn variable(&self, name: &str) -> Option<&str> {
        let value = self.variables.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    /// Returns whether a variable switches something on.
    pub fn is_on(&self, name: &str) -> bool {
        self.variable(name).is_some_and(switches_on)
    }

    /// Returns the directory that a variable names, or the given one below the home directory.
    pub fn directory(&self, variable: &str, below_home: &str) -> PathBuf {
        match self.variable(variable) {
            Some(path) => absolute(&self.cwd, Path::new(path)),
            None => self.home.join(below_home),
        }
    }

    /// Returns whether an argument was given.
    pub fn has_argument(&self, name: &str) -> bool {
        self.arguments.iter().any(|argument| argument == name)
    }

    /// Returns the values of an option, written as `--name value` or `--name=value`.
    pub fn values(&self, name: &str) -> Vec<&str> {
        let mut values = Vec::new();
        let mut arguments = self.arguments.iter();
        while let Some(argument) = arguments.next() {
            if argument == name {
                values.extend(arguments.next().map(String::as_str));
            } else if let Some(value) =
                argument.strip_prefix(name).and_then(|rest| rest.strip_prefix('='))
            {
                values.push(value);
            }
        }
        values
    }

    /// Returns the directories that an option names, made absolute: several may follow it, or be
    /// separated by commas.
    pub fn directories(&self, name: &str) -> Vec<PathBuf> {
        let paths = self.all_values(name).into_iter().flat_map(|value| value.split(','));
        let paths = paths.map(str::trim).filter(|path| !path.is_empty());
        paths.map(|path| absolute(&self.cwd, Path::new(path))).collect()
    }

    /// Returns the values of an option that takes all arguments up to the next option.
    pub fn all_values(&self, name: &str) -> Vec<&str> {
        let mut values: Vec<&str> = Vec::new();
        let mut is_open = false;
        for argument in &self.arguments {
            let inline = argument.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
            if argument.starts_with('-') {
                is_open = argument == name;
                values.extend(inline);
            } else if is_open {
                values.push(argument);
            }
        }
        values
    }
}

/// Returns whether the value of a variable switches something on.
pub fn switches_on(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_in_both_spellings() {
        let mut session = Session::new("/w", "/h");
        session.arguments =
            ["--add-dir", "a", "b", "--add-dir=/c,d", "--bare", "x"].map(str::to_owned).to_vec();
        assert_eq!(session.values("--add-dir"), ["a", "/c,d"]);
        let expected = ["/w/a", "/w/b", "/c", "/w/d"].map(PathBuf::from);
        assert_eq!(session.directories("--add-dir"), expected);
        assert!(session.has_argument("--bare"));
        assert!(session.values("--setting-sources").is_empty());
    }

    #[test]
    fn an_empty_variable_counts_as_absent() {
        let mut session = Session::new("/w", "/h");
        session.variables.insert("CODEX_HOME".into(), String::new());
        assert_eq!(session.directory("CODEX_HOME", ".codex"), Path::new("/h/.codex"));
        session.variables.insert("CODEX_HOME".into(), "c".into());
        assert_eq!(session.directory("CODEX_HOME", ".codex"), Path::new("/w/c"));
    }
}
