//! Rules directories: every `*.md` below them, those with `paths:` only once a file matches.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use convoke_core::diagnostic::Diagnostic;
use convoke_files::EntryKind;

use super::loader::{Cleaned, Level, Loader, Waiting};
use super::scope::Scope;
use convoke_explain::diagnostics;
use convoke_explain::front_matter::FrontMatter;
use convoke_explain::glob::Selection;
use convoke_explain::{LoadReason, Rule};

/// The maximum number of directories and files that are looked at below one rules directory.
const MAX_ENTRIES: usize = 20_000;

/// Whether a file waits for another one to be read.
pub(super) enum Waits {
    Yes,
    No,
}

/// Loads the rules of a directory, and records conditional ones. The imports of a conditional rule are loaded at once,
/// unless they have `paths:` themselves.
pub(super) fn load(loader: &mut Loader<'_>, directory: &Path, level: Level) {
    let waiting_before = loader.waiting.len();
    loader.rules_base = Some(base_of(loader, directory, level));
    for RuleFile { path, named, leaves } in rule_files(loader, directory, level) {
        if let Some(rule) = loader.withheld_by_name(&named, &path, level) {
            loader.report.ignore(&named, rule);
            continue;
        }
        let Some(cleaned) = loader.open(&path, level) else { continue };
        match wait(loader, &path, &cleaned, level) {
            Waits::Yes => loader.follow(&path, &cleaned, level, 0),
            Waits::No => {
                report_front_matter(loader, &path, &cleaned.front);
                loader.take(&path, cleaned, LoadReason::Rule, level, 0);
            }
        }
        // The approval of what is outside does not extend to rules that are looked for later.
        if leaves && loader.waiting_paths.remove(&path) {
            loader.waiting.retain(|rule| rule.path != path);
            loader.report.ignore(&path, Rule::OutsideLink(loader.session.cwd.clone()));
        }
    }
    loader.rules_base = None;
    report_broken(loader, waiting_before);
}

/// Records a conditional rule.
pub(super) fn wait(loader: &mut Loader<'_>, path: &Path, cleaned: &Cleaned, level: Level) -> Waits {
    let Some(base) = loader.rules_base.clone() else {
        return Waits::No;
    };
    let Scope::Matching(paths) = Scope::new(&cleaned.front, &mut loader.braces) else {
        return Waits::No;
    };
    if loader.waiting_paths.insert(path.to_owned()) {
        let written = paths.written.join(", ");
        loader.report.ignore(path, Rule::Conditional(written.clone()));
        let patterns = Selection::new(&paths.patterns).ok();
        let path = path.to_owned();
        loader.waiting.push(Waiting { path, level, base, written, patterns });
    }
    Waits::Yes
}

/// Claude Code compiles the rules of a directory together, so one invalid pattern disables all of them.
fn report_broken(loader: &mut Loader<'_>, first: usize) {
    if loader.waiting[first..].iter().all(|rule| rule.patterns.is_some()) {
        return;
    }
    let lost = loader.waiting.split_off(first);
    for rule in &lost {
        loader.waiting_paths.remove(&rule.path);
    }
    let Some(broken) = lost.iter().find(|rule| rule.patterns.is_none()) else {
        return;
    };
    let message = format!(
        "{} has a pattern that cannot be read in `{}`, so it is never loaded, and neither are \
         the {} other rules with paths: beside it",
        broken.path.display(),
        broken.written,
        lost.len() - 1
    );
    let diagnostic = Diagnostic::new(diagnostics::RULES_PATTERN, message)
        .with_count(lost.len() as u64)
        .at_path(broken.path.to_string_lossy());
    loader.report.diagnose(diagnostic);
}

/// Reports front matter that probably was meant to make a rule conditional.
fn report_front_matter(loader: &mut Loader<'_>, path: &Path, front: &FrontMatter) {
    let report = &mut loader.report;
    if let FrontMatter::Refused(why) = front {
        let message = format!(
            "{} is treated as always loaded: its front matter is not read: {why}",
            path.display()
        );
        report.warn(diagnostics::RULES_FRONT_MATTER, path, message);
    }
    if *front == FrontMatter::Malformed {
        let message =
            format!("{} is always loaded: its front matter is not valid YAML", path.display());
        report.warn(diagnostics::RULES_FRONT_MATTER, path, message);
    }
    if ["globs", "alwaysApply"].iter().any(|key| front.field(key).is_some()) {
        let message = format!(
            "{} is always loaded: globs: and alwaysApply: have no effect here",
            path.display()
        );
        report.warn(diagnostics::RULES_CURSOR_KEYS, path, message);
    }
}

/// Loads the rules of a level that waited for a file like the one that was read.
pub(super) fn load_matching(loader: &mut Loader<'_>, file: &Path, level: Level) {
    load_some(loader, file, |rule| rule.level == level);
}

/// Loads the project's rules of one directory that waited for a file like the one that was read.
pub(super) fn load_matching_of(loader: &mut Loader<'_>, file: &Path, directory: &Path) {
    load_some(loader, file, |rule| rule.level == Level::Project && rule.base == directory);
}

fn load_some(loader: &mut Loader<'_>, file: &Path, counts: impl Fn(&Waiting) -> bool) {
    let (matching, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut loader.waiting)
        .into_iter()
        .partition(|rule| counts(rule) && rule.matches(file));
    loader.waiting = waiting;
    for rule in matching {
        loader.waiting_paths.remove(&rule.path);
        if let Some(cleaned) = loader.open(&rule.path, rule.level) {
            let why = LoadReason::MatchingRule(file.to_owned());
            loader.take(&rule.path, cleaned, why, rule.level, 0);
        }
    }
}

/// Reports diagnostics about the rules.
pub(super) fn report(loader: &mut Loader<'_>) {
    let rules = loader.report.loaded.iter().filter(|file| file.why == LoadReason::Rule);
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
        loader.report.warn(diagnostics::RULES_UNORDERED, first, message);
    }
    if let (true, Some(first)) = (loader.braces.is_used_up(), loader.waiting.first()) {
        let path = first.path.clone();
        let message = "not all braces of paths: were expanded, because there are too many; \
                       Claude Code expands all";
        loader.report.warn(diagnostics::RULES_UNSEARCHED, &path, message);
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
        let diagnostic = Diagnostic::new(diagnostics::RULES_CONDITIONAL, message)
            .with_count(count as u64)
            .at_path(path);
        loader.report.diagnose(diagnostic);
    }
}

impl Waiting {
    fn matches(&self, file: &Path) -> bool {
        let relative = file.strip_prefix(&self.base).ok().and_then(Path::to_str);
        let patterns = self.patterns.as_ref();
        relative.zip(patterns).is_some_and(|(relative, patterns)| patterns.selects(relative))
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

/// A file below a rules directory.
struct RuleFile {
    /// Its real path.
    path: PathBuf,
    /// The path under which it was found.
    named: PathBuf,
    /// Whether a link of the project leads to it out of the working directory, where links count.
    leaves: bool,
}

/// The rule files below a directory, as the file system lists them, each directory in its place; links are followed,
/// loops are not.
fn rule_files(loader: &mut Loader<'_>, top: &Path, level: Level) -> Vec<RuleFile> {
    let files = loader.files;
    let mut found = Vec::new();
    let mut visited = HashSet::new();
    let settings = &loader.settings;
    let counts_links = level == Level::Project && settings.resolves_links;
    let is_confined = counts_links && (!settings.outside_approved || settings.blocks_outside);
    let leaves = counts_links && is_linked_outside(loader, top);
    if is_confined && leaves {
        loader.report.ignore(top, Rule::OutsideLink(loader.session.cwd.clone()));
        return found;
    }
    let top_file = RuleFile { path: top.to_owned(), named: top.to_owned(), leaves };
    let mut open = listed(loader, &top_file, &mut visited);
    let mut looked_at = 0;
    while let Some(mut file) = open.pop() {
        looked_at += 1;
        if looked_at > MAX_ENTRIES {
            let message = format!(
                "only {MAX_ENTRIES} entries of {} were read; Claude Code reads all",
                top.display()
            );
            loader.report.warn(diagnostics::RULES_UNSEARCHED, top, message);
            return found;
        }
        let is_rule = file.path.as_os_str().as_encoded_bytes().ends_with(b".md");
        file.leaves |= counts_links && is_linked_outside(loader, &file.path);
        if is_confined && file.leaves {
            loader.report.ignore(&file.path, Rule::OutsideLink(loader.session.cwd.clone()));
            continue;
        }
        match files.kind(&file.path) {
            Ok(EntryKind::Directory) => open.append(&mut listed(loader, &file, &mut visited)),
            Ok(EntryKind::File) if is_rule => {
                let path = files.canonicalize(&file.path).unwrap_or(file.path);
                found.push(RuleFile { path, ..file });
            }
            // A rule that cannot be looked at is still a rule that is missing.
            Err(_) if is_rule => found.push(file),
            _ => {}
        }
    }
    found
}

/// Returns whether a link leads from a path to a place outside of the working directory.
fn is_linked_outside(loader: &Loader<'_>, path: &Path) -> bool {
    let real = loader.files.canonicalize(path);
    real.is_ok_and(|real| real != path && !real.starts_with(&loader.session.cwd))
}

/// Returns the entries of a directory, last first; none if it was visited before.
fn listed(
    loader: &mut Loader<'_>,
    directory: &RuleFile,
    visited: &mut HashSet<PathBuf>,
) -> Vec<RuleFile> {
    let names = match loader.files.listing(&directory.path) {
        Ok(names) => names,
        Err(error) => {
            report_unlisted(loader, &directory.path, &error);
            return Vec::new();
        }
    };
    let entry = |real: &Path, name: &OsString| RuleFile {
        path: real.join(name),
        named: directory.named.join(name),
        leaves: directory.leaves,
    };
    match loader.files.canonicalize(&directory.path) {
        Ok(real) if visited.insert(real.clone()) => {
            names.iter().rev().map(|name| entry(&real, name)).collect()
        }
        _ => Vec::new(),
    }
}

/// Reports a rules directory that exists and cannot be listed.
fn report_unlisted(loader: &mut Loader<'_>, directory: &Path, error: &io::Error) {
    let is_there = !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    if is_there || loader.files.entry_kind(directory).is_ok() {
        let message = format!("the rules in {} are left out: {error}", directory.display());
        loader.report.warn(convoke_core::diagnostics::FILE_UNREADABLE, directory, message);
    }
}
