//! Rules of a person for a directory: commands that are always allowed, and commands that never are.
//!
//! The rules are in `permissions.toml` in the user's configuration, and apply when an agent asks for
//! permission.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::diagnostics;
use crate::document::read_document;
use crate::error::{Problem, TeamFileErrors};
use crate::section::Section;

/// The rules of all directories.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PermissionFile {
    directory: Vec<DirectoryRules>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct DirectoryRules {
    path: PathBuf,
    allow: Vec<String>,
    never: Vec<String>,
}

/// The rules of one directory.
///
/// A rule is a command. With ` *` at the end, it matches the command with any further words.
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
/// let rules = file.rules_for(Path::new("/home/kim/shop/api"));
/// assert_eq!(rules.answer("cargo test --all"), Some(RuleAnswer::Allow));
/// assert_eq!(rules.answer("cargo test; rm -r ."), None);
/// assert_eq!(rules.answer("git push --force"), Some(RuleAnswer::Never));
/// # Ok::<(), convoke_team::TeamFileErrors>(())
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
    /// The command may run.
    Allow,
    /// The command may not run.
    Never,
}

impl PermissionFile {
    /// Parses the file. Returns every error with its line.
    pub fn parse(text: &str) -> Result<Self, TeamFileErrors> {
        read_document(text, |mut top, problems| {
            let lists = top.list("directory");
            let directory =
                lists.into_iter().filter_map(|(header, rules)| read_rules(header, rules, problems));
            let file = Self { directory: directory.collect() };
            top.finish(&["directory"], |_, _| None, problems);
            file
        })
    }

    /// Returns the rules of a directory: its own, and those of the directories above it.
    pub fn rules_for(&self, directory: &Path) -> PermissionRules {
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

    /// Returns the decision of the rules about a command. `never` takes precedence over `allow`: a command that
    /// may be another spelling of a `never` rule is not allowed.
    pub fn answer(&self, command: &str) -> Option<RuleAnswer> {
        let command = command.trim();
        let words = words(command);
        let is_refused = |rule: &String| {
            begins(command, rule) || words.as_ref().is_some_and(|words| begin(words, rule))
        };
        if self.never.iter().any(is_refused) {
            return Some(RuleAnswer::Never);
        }
        let is_allowed = |rule: &String| match rule.strip_suffix(" *") {
            Some(_) => begins(command, rule) && is_one_command(command),
            None => command == rule.trim(),
        };
        let is_allowed = self.allow.iter().any(is_allowed) && !self.may_be_refused(command, words);
        is_allowed.then_some(RuleAnswer::Allow)
    }

    /// Returns whether a `never` rule is about the same program and may match the command, because a shell
    /// would change its words, or because options come before the words of the rule.
    fn may_be_refused(&self, command: &str, words: Option<Vec<String>>) -> bool {
        let program = command.split_whitespace().next();
        let rules = self.never.iter().map(|rule| prefix(rule));
        let mut rules = rules.filter(|rule| rule.split_whitespace().next() == program);
        let Some(words) = words else { return rules.next().is_some() };
        rules.any(|rule| {
            let named = rule.split_whitespace().count();
            words.iter().take(named).skip(1).any(|word| word.starts_with('-'))
        })
    }
}

/// Reads the rules of a directory.
fn read_rules(
    header: Range<usize>,
    mut section: Section<'_>,
    problems: &mut Vec<Problem>,
) -> Option<DirectoryRules> {
    let path = section.argument("path", "path = \"/home/kim/shop\"").map(PathBuf::from);
    if path.is_none() && !section.has("path") {
        let fix = "add a line such as `path = \"/home/kim/shop\"`";
        section.problem(
            header,
            diagnostics::TEAM_MISSING_SETTING,
            "`directory.path` is missing",
            fix,
        );
    }
    if path.as_deref().is_some_and(|path| !path.is_absolute()) {
        section.invalid("path", "must be an absolute path", "write `path = \"/home/kim/shop\"`");
    }
    let mut rules = |key: &'static str, example: &str| {
        let rules = section.arguments(key, example);
        if let Some(rule) = rules.iter().find(|rule| prefix(rule).is_empty()) {
            section.invalid(
                key,
                &format!("has `{rule}`, which is not a command"),
                format!("write `{example}`"),
            );
        }
        rules
    };
    let allow = rules("allow", "allow = [\"cargo test *\"]");
    let never = rules("never", "never = [\"git push *\"]");
    section.finish(&["path", "allow", "never"], |_, _| None, problems);
    Some(DirectoryRules { path: path?, allow, never })
}

fn prefix(rule: &str) -> &str {
    rule.strip_suffix('*').unwrap_or(rule).trim()
}

fn begins(command: &str, rule: &str) -> bool {
    let rest = command.strip_prefix(prefix(rule));
    rest.is_some_and(|rest| rest.is_empty() || (rule.ends_with('*') && rest.starts_with(' ')))
}

/// Returns whether the words of a command begin with those of a rule.
fn begin(words: &[String], rule: &str) -> bool {
    let named: Vec<&str> = prefix(rule).split_whitespace().collect();
    let is_longer = words.len() > named.len();
    words.len() >= named.len()
        && words.iter().zip(&named).all(|(word, named)| word == named)
        && (!is_longer || rule.ends_with('*'))
}

/// Splits a command into words like a shell; `None` if the shell would do more than that: variables, patterns,
/// substitutions, escapes.
fn words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in command.chars() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (Some('"'), '$' | '`' | '\\') => return None,
            (Some(_), inside) => word.get_or_insert_default().push(inside),
            (None, '\'' | '"') => {
                word.get_or_insert_default();
                quote = Some(character);
            }
            (None, blank) if blank.is_whitespace() => words.extend(word.take()),
            (None, '$' | '`' | '\\' | '*' | '?' | '[' | ']' | '{' | '}' | '~' | '!') => {
                return None;
            }
            (None, plain) => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// Returns whether a shell would run exactly one command.
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
    fn another_spelling_of_what_is_refused_is_not_allowed() {
        let (allow, never) = (vec!["git *".to_owned()], vec!["git push *".to_owned()]);
        let rules = PermissionRules { allow, never };
        for (command, answer) in [
            ("git status", Some(RuleAnswer::Allow)),
            ("git log --oneline -3", Some(RuleAnswer::Allow)),
            ("git push origin", Some(RuleAnswer::Never)),
            ("git  push origin", Some(RuleAnswer::Never)),
            ("git\tpush", Some(RuleAnswer::Never)),
            ("git \"push\" origin", Some(RuleAnswer::Never)),
            ("git 'push' origin", Some(RuleAnswer::Never)),
            ("git pu\"\"sh origin", Some(RuleAnswer::Never)),
            ("git pus? origin", None),
            ("git pu\\sh origin", None),
            ("git {push,} origin", None),
            ("git -c a.b=c push origin", None),
            ("git \"pu$x\"sh", None),
            ("git 'push", None),
            ("git commit -m 'fix the push button'", Some(RuleAnswer::Allow)),
        ] {
            assert_eq!(rules.answer(command), answer, "{command}");
        }
        let others = PermissionRules { allow: vec!["ls *".to_owned()], ..rules };
        assert_eq!(others.answer("ls *.rs"), Some(RuleAnswer::Allow));
    }

    #[test]
    fn a_directory_has_the_rules_of_those_above_it() {
        let text = "[[directory]]\npath = \"/a\"\nallow = [\"x\"]\n\
                    [[directory]]\npath = \"/a/b\"\nallow = [\"y\"]\nnever = [\"z\"]\n";
        let file = PermissionFile::parse(text).unwrap();
        assert_eq!(file.rules_for(Path::new("/a/b/c")).allow, ["x", "y"]);
        assert_eq!(file.rules_for(Path::new("/a/bc")).allow, ["x"]);
        assert!(file.rules_for(Path::new("/b")).is_empty());
    }

    #[test]
    fn a_wrong_file_is_refused_with_its_line() {
        for (text, said) in [
            (
                "[[directory]]\npath = \"/a\"\nalow = []\n",
                "p:3: `directory.alow` is not a setting; did you mean `allow`?",
            ),
            ("[[directory]]\npath = \"a\"\n", "p:2: `directory.path` must be an absolute path"),
            ("[[directory]]\npath = \"/a\"\nallow = [\"*\"]\n", "p:3: `directory.allow` has `*`"),
            ("[directory]\npath = \"/a\"\n", "p:1: `directory` must be a list of tables"),
            ("[[directory]]\nallow = []\n", "p:1: `directory.path` is missing"),
        ] {
            let report = PermissionFile::parse(text).unwrap_err().report("p");
            assert!(report.starts_with(said), "{report}");
        }
    }
}
