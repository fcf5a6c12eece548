//! Permission rules that forbid to read files, and so hide instructions.

use std::path::{Path, PathBuf};

use convoke_files::absolute;

use super::settings::{Layer, Source};
use convoke_explain::Session;
use convoke_explain::config;
use convoke_explain::glob::Selection;

/// The maximum number of rules that are compared with every file.
const MAX_RULES: usize = 1_000;

/// The files that may not be read.
#[derive(Debug, Default)]
pub(super) struct Denied {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    written: String,
    extent: Extent,
}

#[derive(Debug)]
enum Extent {
    Everything,
    /// The selection of patterns below any of some directories.
    Below(Vec<PathBuf>, Box<Selection>),
}

impl Denied {
    /// Collects the rules of all settings and of the arguments.
    pub(super) fn read(session: &Session, config_dir: &Path, layers: &[Layer]) -> Self {
        let mut denied = Self::default();
        let working = working_directories(session, layers);
        for layer in layers {
            let base = match layer.source {
                Source::User => config_dir,
                Source::Project | Source::Local => {
                    layer.path.ancestors().nth(2).unwrap_or(&session.cwd)
                }
                Source::Arguments | Source::Managed => &session.cwd,
            };
            let rules = layer.value.pointer("/permissions/deny").map(config::strings);
            for written in rules.unwrap_or_default() {
                denied.add(session, base, &working, written.trim());
            }
        }
        for option in ["--disallowedTools", "--disallowed-tools"] {
            let given = session.all_values(option).into_iter().flat_map(split_rules);
            // The tool itself is taken away, which hides no instructions.
            for written in given.filter(|rule| path_of(rule) != Some("")) {
                denied.add(session, &session.cwd, &working, written);
            }
        }
        denied
    }

    /// Returns the rule that covers one of the paths of a file.
    pub(super) fn rule_for(&self, paths: [&Path; 2]) -> Option<&str> {
        let covers = |rule: &&Rule| match &rule.extent {
            Extent::Everything => true,
            Extent::Below(bases, patterns) => paths.iter().any(|path| {
                let relative =
                    bases.iter().filter_map(|base| path.strip_prefix(base).ok()?.to_str());
                relative.into_iter().any(|relative| patterns.selects(relative))
            }),
        };
        self.rules.iter().find(covers).map(|rule| rule.written.as_str())
    }

    /// Adds a rule about reading: a pattern that begins with `/` is relative to `base`, one that names no
    /// directory to each of the working directories.
    fn add(&mut self, session: &Session, base: &Path, working: &[PathBuf], written: &str) {
        let extent = match path_of(written) {
            None => return,
            Some("") => Extent::Everything,
            Some(path) => {
                let (bases, pattern) = if path.starts_with("//") {
                    (vec![PathBuf::from("/")], &path[1..])
                } else if path.starts_with("~/") {
                    (vec![session.home.clone()], &path[1..])
                } else if path.starts_with('/') {
                    (vec![base.to_owned()], path)
                } else {
                    (working.to_vec(), path.strip_prefix("./").unwrap_or(path))
                };
                let below = pattern.strip_suffix("/**").unwrap_or(pattern);
                let pattern = if below.is_empty() { "**" } else { below };
                match Selection::new(&[pattern.to_owned()]) {
                    Ok(patterns) => Extent::Below(bases, Box::new(patterns)),
                    Err(_) => return,
                }
            }
        };
        if self.rules.len() < MAX_RULES {
            self.rules.push(Rule { written: written.to_owned(), extent });
        }
    }
}

/// The directories that the session works in: its own, and those that arguments and settings add.
fn working_directories(session: &Session, layers: &[Layer]) -> Vec<PathBuf> {
    let mut working = vec![session.cwd.clone()];
    working.extend(session.directories("--add-dir"));
    for layer in layers {
        let added = layer.value.pointer("/permissions/additionalDirectories").map(config::strings);
        working.extend(added.unwrap_or_default().iter().map(
            |path| match path.strip_prefix("~/") {
                Some(below_home) => session.home.join(below_home),
                None => absolute(&session.cwd, Path::new(path)),
            },
        ));
    }
    working
}

/// The path in a rule about reading, if it is one; it is empty if the rule is about all files.
fn path_of(rule: &str) -> Option<&str> {
    let rest = rule.strip_prefix("Read")?;
    if rest.is_empty() {
        return Some(rest);
    }
    let path = rest.strip_prefix('(')?.strip_suffix(')')?.trim();
    Some(if path == "*" { "" } else { path })
}

/// Splits a list of rules at commas and white space outside of parentheses.
pub(super) fn split_rules(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i64;
    let parts = list.split(move |character: char| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0 && (character == ',' || character.is_whitespace())
    });
    parts.filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(rules: &[&str], path: &str) -> bool {
        let mut denied = Denied::default();
        let mut session = Session::new("/r/sub", "/home/me");
        session.arguments = ["--add-dir", "/added"].map(str::to_owned).to_vec();
        let working = working_directories(&session, &[]);
        for rule in rules {
            denied.add(&session, Path::new("/r"), &working, rule);
        }
        denied.rule_for([Path::new(path), Path::new(path)]).is_some()
    }

    #[test]
    fn a_rule_covers_paths_below_the_directory_that_its_spelling_names() {
        let cases = [
            ("Read(./CLAUDE.md)", "/r/sub/CLAUDE.md", true),
            ("Read(./CLAUDE.md)", "/r/CLAUDE.md", false),
            ("Read(CLAUDE.md)", "/r/sub/deep/CLAUDE.md", true),
            ("Read(./CLAUDE.md)", "/added/CLAUDE.md", true),
            ("Read(CLAUDE.md)", "/added/deep/CLAUDE.md", true),
            ("Read(/CLAUDE.md)", "/added/CLAUDE.md", false),
            ("Read(/CLAUDE.md)", "/r/CLAUDE.md", true),
            ("Read(/CLAUDE.md)", "/r/sub/CLAUDE.md", false),
            ("Read(//r/CLAUDE.md)", "/r/CLAUDE.md", true),
            ("Read(//r/**)", "/r/sub/CLAUDE.md", true),
            ("Read(//**)", "/x", true),
            ("Read(~/notes/**)", "/home/me/notes/a.md", true),
            ("Read(**/*.md)", "/r/sub/a/b.md", true),
            ("Read", "/x", true),
            ("Read(*)", "/x", true),
            ("Edit(./CLAUDE.md)", "/r/sub/CLAUDE.md", false),
            ("Bash(cat:*)", "/r/sub/CLAUDE.md", false),
            ("Reader", "/x", false),
        ];
        for (rule, path, expected) in cases {
            assert_eq!(denied(&[rule], path), expected, "{rule} {path}");
        }
    }

    #[test]
    fn lists_of_rules_are_split_outside_of_parentheses() {
        let rules: Vec<_> = split_rules("Read(./a b.md),Bash(git log:*)  Edit").collect();
        assert_eq!(rules, ["Read(./a b.md)", "Bash(git log:*)", "Edit"]);
    }

    #[test]
    fn an_argument_takes_the_tool_away_or_hides_a_file() {
        let mut session = Session::new("/r", "/home/me");
        let file = [Path::new("/r/CLAUDE.md"); 2];
        session.arguments = ["--disallowedTools", "Read"].map(str::to_owned).to_vec();
        assert_eq!(Denied::read(&session, Path::new("/c"), &[]).rule_for(file), None);
        session.arguments.push("Read(./CLAUDE.md)".to_owned());
        let denied = Denied::read(&session, Path::new("/c"), &[]);
        assert_eq!(denied.rule_for(file), Some("Read(./CLAUDE.md)"));
    }
}
