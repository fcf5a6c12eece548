//! Rules directories: every `*.md` below them, those with `paths:` only once a file matches.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use convoke_core::diagnostic::{Code, Diagnostic};
use convoke_thread::files::Kind;

use super::front_matter::FrontMatter;
use super::loader::{Level, Loader, Waiting};
use super::scope::Scope;
use crate::glob::Selection;
use crate::report::{Rule, Why};

/// The most directories and files that are looked at below one rules directory.
const MAX_ENTRIES: usize = 20_000;

/// Loads the rules of a directory, and notes those that wait for a matching file.
pub(super) fn load(loader: &mut Loader<'_>, directory: &Path, level: Level) {
    let waiting_before = loader.waiting.len();
    let mut broken = None;
    for path in rule_files(loader, directory) {
        let Some(cleaned) = loader.open(&path, level) else {
            continue;
        };
        let Scope::Matching(paths) = Scope::of(&cleaned.front) else {
            report_front_matter(loader, &path, &cleaned.front);
            loader.take(&path, cleaned, Why::Rule, level, 0);
            continue;
        };
        loader.report.ignore(&path, Rule::Conditional(paths.written.join(", ")));
        match Selection::new(&paths.patterns) {
            Ok(patterns) => {
                let base = base_of(loader, directory, level);
                loader.waiting.push(Waiting { path, level, base, patterns });
            }
            Err(_) => broken = broken.or(Some((path, paths.written))),
        }
    }
    // Claude Code asks the rules of a directory together, and one that fails fails for all.
    if let Some((path, written)) = broken {
        let lost = loader.waiting.split_off(waiting_before);
        let message = format!(
            "{} has a pattern that cannot be read in `{}`, so it is never loaded, and neither are \
             the {} other rules with paths: beside it",
            path.display(),
            written.join(", "),
            lost.len()
        );
        let diagnostic = Diagnostic::new(Code::RulesPattern, message)
            .with_count(lost.len() as u64 + 1)
            .at_path(path.to_string_lossy());
        loader.report.diagnose(diagnostic);
    }
}

/// Says when the front matter of a rule that is always loaded was meant to say something else.
fn report_front_matter(loader: &mut Loader<'_>, path: &Path, front: &FrontMatter) {
    let report = &mut loader.report;
    if *front == FrontMatter::Malformed {
        let message = format!("{} is always loaded: its front matter is no YAML", path.display());
        report.warn(Code::RulesFrontMatter, path, message);
    }
    if ["globs", "alwaysApply"].iter().any(|key| front.field(key).is_some()) {
        let message = format!(
            "{} is always loaded: globs: and alwaysApply: mean nothing here",
            path.display()
        );
        report.warn(Code::RulesCursorKeys, path, message);
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
        relative.is_some_and(|relative| self.patterns.selects(relative))
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
fn rule_files(loader: &mut Loader<'_>, top: &Path) -> Vec<PathBuf> {
    let files = loader.files;
    let mut found = Vec::new();
    let mut visited = HashSet::new();
    let mut open = vec![top.to_owned()];
    let mut looked_at = 0;
    while let Some(directory) = open.pop() {
        let names = match files.names(&directory) {
            Ok(names) => names,
            Err(error) => {
                report_unlisted(loader, &directory, &error);
                continue;
            }
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
                let message = format!(
                    "only {MAX_ENTRIES} entries of {} were looked at; Claude Code looks at all",
                    top.display()
                );
                loader.report.warn(Code::RulesUnsearched, top, message);
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

/// Says that a rules directory cannot be listed, unless it is not there.
fn report_unlisted(loader: &mut Loader<'_>, directory: &Path, error: &io::Error) {
    let is_there = !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    if is_there || loader.files.entry_kind(directory).is_ok() {
        let message = format!("the rules in {} are left out: {error}", directory.display());
        loader.report.warn(Code::FileUnreadable, directory, message);
    }
}
