//! Rules directories: every `*.md` below them, those with `paths:` only once a file matches.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use convoke_core::diagnostic::{Code, Diagnostic};
use convoke_thread::files::Kind;

use super::front_matter::Scope;
use super::loader::{Level, Loader, Waiting};
use crate::glob;
use crate::report::{Rule, Why};

/// The most directories and files that are looked at below one rules directory.
const MAX_ENTRIES: usize = 20_000;

/// Loads the rules of a directory, and notes those that wait for a matching file.
pub(super) fn load(loader: &mut Loader<'_>, directory: &Path, level: Level) {
    for path in rule_files(loader, directory) {
        let Some(cleaned) = loader.open(&path, level) else {
            continue;
        };
        match &cleaned.scope {
            Scope::Always => {
                if cleaned.has_cursor_keys {
                    let message = format!(
                        "{} is always loaded: globs: and alwaysApply: mean nothing here",
                        path.display()
                    );
                    loader.report.warn(Code::RulesCursorKeys, &path, message);
                }
                loader.take(&path, cleaned, Why::Rule, level, 0);
            }
            Scope::Matching(patterns) => {
                let patterns = patterns.clone();
                let rule = Rule::Conditional(patterns.join(", "));
                loader.report.ignore(&path, rule);
                let base = base_of(loader, directory, level);
                loader.waiting.push(Waiting { path, level, base, patterns });
            }
        }
    }
}

/// Loads the rules of a level that waited for a file like the one that was read.
pub(super) fn load_matching(loader: &mut Loader<'_>, file: &Path, level: Level) {
    let (matching, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut loader.waiting)
        .into_iter()
        .partition(|rule| rule.level == level && rule.matches(file));
    loader.waiting = waiting;
    for rule in matching {
        if let Some(cleaned) = loader.open(&rule.path, level) {
            let why = Why::MatchingRule(file.to_owned());
            loader.take(&rule.path, cleaned, why, level, 0);
        }
    }
}

/// Says what is peculiar about the rules that were found.
pub(super) fn report(loader: &mut Loader<'_>) {
    let rules = loader.report.loaded.iter().filter(|file| file.why == Why::Rule);
    let directories = rules.filter_map(|file| file.path.parent());
    let mut once = HashSet::new();
    let shared: Vec<PathBuf> = directories
        .filter(|directory| !once.insert(directory.to_owned()))
        .map(Path::to_owned)
        .collect();
    if let Some(first) = shared.first() {
        let message = format!(
            "the files of {} are loaded in the order in which the file system lists them",
            first.display()
        );
        loader.report.warn(Code::RulesUnordered, first, message);
    }
    if let Some(first) = loader.waiting.first() {
        let count = loader.waiting.len();
        let message = if count == 1 {
            format!(
                "{} is absent until a file that matches its paths: is read",
                first.path.display()
            )
        } else {
            format!("{count} rules are absent until a file that matches their paths: is read")
        };
        let path = first.path.to_string_lossy();
        let diagnostic =
            Diagnostic::new(Code::RulesConditional, message).with_count(count as u64).at_path(path);
        loader.report.diagnose(diagnostic);
    }
}

impl Waiting {
    fn matches(&self, file: &Path) -> bool {
        let relative = file.strip_prefix(&self.base).ok().and_then(Path::to_str);
        relative.is_some_and(|relative| {
            let mut patterns = self.patterns.iter();
            patterns.any(|pattern| glob::selects(pattern, relative))
        })
    }
}

/// A project's patterns are relative to the directory that holds `.claude`, all others to the
/// working directory.
fn base_of(loader: &Loader<'_>, directory: &Path, level: Level) -> PathBuf {
    match level {
        Level::Project => directory.ancestors().nth(2).unwrap_or(directory).to_owned(),
        Level::Managed | Level::User | Level::Local => loader.session.cwd.clone(),
    }
}

/// The rule files below a directory, by their real paths; links are followed, loops are not.
fn rule_files(loader: &Loader<'_>, directory: &Path) -> Vec<PathBuf> {
    let files = loader.files;
    let mut found = Vec::new();
    let mut visited = HashSet::new();
    let mut open = vec![directory.to_owned()];
    let mut looked_at = 0;
    while let Some(directory) = open.pop() {
        let Ok(names) = files.names(&directory) else {
            continue;
        };
        let Ok(real) = files.canonicalize(&directory) else {
            continue;
        };
        if !visited.insert(real.clone()) {
            continue;
        }
        let mut below = Vec::new();
        for name in names {
            looked_at += 1;
            if looked_at > MAX_ENTRIES {
                return found;
            }
            let path = real.join(&name);
            let is_rule = name.as_encoded_bytes().ends_with(b".md");
            match files.kind(&path) {
                Ok(Kind::Directory) => below.push(path),
                Ok(Kind::File) if is_rule => {
                    found.push(files.canonicalize(&path).unwrap_or(path));
                }
                // A rule that cannot be looked at is still a rule that is missing.
                Err(_) if is_rule => found.push(path),
                _ => {}
            }
        }
        open.extend(below.into_iter().rev());
    }
    found
}
