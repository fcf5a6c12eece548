//! Rules of a person for a directory: commands that are always allowed, and commands that never are.
//!
//! They are in `permissions.toml` of the user's configuration, and apply when an agent asks for permission.

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The rules of all directories, as their file has them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PermissionFile {
    #[serde(default)]
    directory: Vec<DirectoryRules>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct DirectoryRules {
    path: PathBuf,
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    never: Vec<String>,
}

/// The rules of one directory.
///
/// A rule is a command. With ` *` at its end it holds for the command with any further words.
///
/// ```
/// use convoke_team::{PermissionFile, RuleAnswer};
/// use std::path::Path;
///
/// let file = PermissionFile::parse(
///     r#"
///     [[directory]]
///     path = "/home/kim/shop"
///     allow = ["cargo test *"]
///     never = ["git push *"]
///     "#,
/// )?;
/// let rules = file.of(Path::new("/home/kim/shop/api"));
/// assert_eq!(rules.answer("cargo test --all"), Some(RuleAnswer::Allow));
/// assert_eq!(rules.answer("cargo test; rm -r ."), None);
/// assert_eq!(rules.answer("git push --force"), Some(RuleAnswer::Never));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PermissionRules {
    /// Commands that may run.
    pub allow: Vec<String>,
    /// Commands that may not.
    pub never: Vec<String>,
}

/// The decision of a rule about a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleAnswer {
    /// It may run.
    Allow,
    /// It may not.
    Never,
}

impl PermissionFile {
    /// Parses the file. An error names the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: Self = toml::from_str(text).map_err(|error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map_or(1, |before| before.matches('\n').count() + 1);
            format!("line {line}: {}", error.message())
        })?;
        for rules in &file.directory {
            if !rules.path.is_absolute() {
                return Err(format!("`path` must be absolute, not `{}`", rules.path.display()));
            }
            let wrong = rules.allow.iter().chain(&rules.never).find(|rule| prefix(rule).is_empty());
            if let Some(rule) = wrong {
                return Err(format!("`{rule}` names no command"));
            }
        }
        Ok(file)
    }

    /// Returns the rules of a directory: its own, and those of the directories above it.
    pub fn of(&self, directory: &Path) -> PermissionRules {
        let mut found = PermissionRules::default();
        for rules in self.directory.iter().filter(|rules| directory.starts_with(&rules.path)) {
            found.allow.extend(rules.allow.iter().cloned());
            found.never.extend(rules.never.iter().cloned());
        }
        found
    }
}

impl PermissionRules {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.never.is_empty()
    }

    /// Returns the decision of the rules about a command. `never` has precedence over `allow`.
    pub fn answer(&self, command: &str) -> Option<RuleAnswer> {
        let command = command.trim();
        if self.never.iter().any(|rule| begins(command, rule)) {
            return Some(RuleAnswer::Never);
        }
        let is_allowed = |rule: &String| match rule.strip_suffix(" *") {
            Some(_) => begins(command, rule) && is_one_command(command),
            None => command == rule.trim(),
        };
        self.allow.iter().any(is_allowed).then_some(RuleAnswer::Allow)
    }
}

fn prefix(rule: &str) -> &str {
    rule.strip_suffix('*').unwrap_or(rule).trim()
}

fn begins(command: &str, rule: &str) -> bool {
    let rest = command.strip_prefix(prefix(rule));
    rest.is_some_and(|rest| rest.is_empty() || (rule.ends_with('*') && rest.starts_with(' ')))
}

/// Returns whether a shell would run one command and nothing else.
fn is_one_command(command: &str) -> bool {
    !command
        .contains(['\n', '\r', ';', '&', '|', '<', '>', '`', '$', '(', ')', '{', '}', '\\', '#'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_for_a_command_lets_nothing_else_run() {
        let allow = vec!["cargo test *".to_owned(), "make check".to_owned()];
        let rules = PermissionRules { allow, never: vec!["rm *".to_owned()] };
        for (command, answer) in [
            ("cargo test", Some(RuleAnswer::Allow)),
            ("cargo test --all -- one", Some(RuleAnswer::Allow)),
            (" make check ", Some(RuleAnswer::Allow)),
            ("make check all", None),
            ("cargo testament", None),
            ("cargo test && rm -rf x", None),
            ("cargo test\nrm x", None),
            ("cargo test $(rm x)", None),
            ("cargo test > ~/.bashrc", None),
            ("rm -rf x; true", Some(RuleAnswer::Never)),
            ("", None),
        ] {
            assert_eq!(rules.answer(command), answer, "{command}");
        }
    }

    #[test]
    fn a_directory_has_the_rules_of_those_above_it() {
        let text = "[[directory]]\npath = \"/a\"\nallow = [\"x\"]\n\
                    [[directory]]\npath = \"/a/b\"\nallow = [\"y\"]\nnever = [\"z\"]\n";
        let file = PermissionFile::parse(text).unwrap();
        assert_eq!(file.of(Path::new("/a/b/c")).allow, ["x", "y"]);
        assert_eq!(file.of(Path::new("/a/bc")).allow, ["x"]);
        assert!(file.of(Path::new("/b")).is_empty());
    }

    #[test]
    fn a_wrong_file_is_refused_with_its_line() {
        let wrong = PermissionFile::parse("[[directory]]\npath = \"/a\"\nalow = []\n").unwrap_err();
        assert!(wrong.starts_with("line 3: unknown field `alow`"), "{wrong}");
        assert!(PermissionFile::parse("[[directory]]\npath = \"a\"\n").is_err());
        assert!(PermissionFile::parse("[[directory]]\npath = \"/a\"\nallow = [\"*\"]\n").is_err());
    }
}
