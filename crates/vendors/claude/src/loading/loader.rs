//! Loads a file as Claude Code does: once, cleaned, followed by its imports.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use convoke_core::whitespace::{is_blank, trim};
use convoke_files::Files;

use super::imports::{self, Importing};
use super::markdown::{self, Scan};
use super::rules::{self, Waits};
use super::scope::Budget;
use super::settings::Settings;
use convoke_explain::Session;
use convoke_explain::diagnostics;
use convoke_explain::front_matter::{self, FrontMatter};
use convoke_explain::glob::Selection;
use convoke_explain::place::ByPath;
use convoke_explain::text::{line_at, looks_like_utf16};
use convoke_explain::{AgentReport, LoadReason, Loaded, Rule};

/// The largest file that is loaded; one byte more and it is dropped whole.
pub(super) const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// The name of the front matter in messages.
const FRONT_MATTER: &str = "its front matter";

/// The owner of a file, which decides whether it can be excluded and what it may import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Managed,
    User,
    Project,
    Local,
}

/// A rule that waits for a file that matches it.
#[derive(Debug)]
pub(super) struct Waiting {
    pub path: PathBuf,
    pub level: Level,
    /// The directory that its patterns are relative to.
    pub base: PathBuf,
    /// Its patterns as they were written.
    pub written: String,
    /// Its patterns, if they can be read.
    pub patterns: Option<Selection>,
}

/// The state of loading.
pub(super) struct Loader<'a> {
    pub files: &'a dyn Files,
    pub session: &'a Session,
    pub settings: Settings,
    pub report: AgentReport,
    pub waiting: Vec<Waiting>,
    /// The paths of those rules.
    pub waiting_paths: HashSet<PathBuf>,
    /// The budget for expanding braces.
    pub braces: Budget,
    /// While rules are loaded, the directory that their patterns are relative to: then `paths:` count
    /// in what they import, too.
    pub rules_base: Option<PathBuf>,
    /// Whether outer white space is kept, as in files loaded after a read.
    pub keeps_space: bool,
    /// Files that were loaded, by every path that leads to them.
    seen: ByPath<PathBuf>,
}

/// A file that was read and cleaned.
pub(super) struct Cleaned {
    pub text: String,
    pub front: FrontMatter,
    scan: Scan,
    real_path: PathBuf,
    size: u64,
    dropped: Vec<&'static str>,
    is_utf16: bool,
}

impl<'a> Loader<'a> {
    pub(super) fn new(
        files: &'a dyn Files,
        session: &'a Session,
        settings: Settings,
        report: AgentReport,
    ) -> Self {
        Self {
            files,
            session,
            settings,
            report,
            waiting: Vec::new(),
            waiting_paths: HashSet::new(),
            braces: Budget::default(),
            rules_base: None,
            keeps_space: false,
            seen: ByPath::default(),
        }
    }

    /// Loads a file and its imports, if it exists and is not excluded; returns whether it is loaded.
    pub(super) fn load(&mut self, path: &Path, why: LoadReason, level: Level) -> bool {
        self.load_at(path, why, level, 0)
    }

    /// Loads a file at an import depth.
    pub(super) fn load_at(
        &mut self,
        path: &Path,
        why: LoadReason,
        level: Level,
        depth: usize,
    ) -> bool {
        let Some(cleaned) = self.open(path, level) else {
            return false;
        };
        match rules::wait(self, path, &cleaned, level) {
            Waits::Yes => self.follow(path, &cleaned, level, depth),
            Waits::No => {
                self.take(path, cleaned, why, level, depth);
                return true;
            }
        }
        false
    }

    /// Returns whether a file has text and only a switch excludes it.
    pub(super) fn would_load(&mut self, path: &Path, level: Level) -> bool {
        self.files.entry_kind(path).is_ok() && self.try_open(path, level).is_ok()
    }

    /// Returns what keeps a file out under the path of a link that leads to it, in editions that look at links.
    pub(super) fn withheld_by_name(
        &self,
        named: &Path,
        real_path: &Path,
        level: Level,
    ) -> Option<Rule> {
        if named == real_path || !self.settings.resolves_links || level == Level::Managed {
            return None;
        }
        if let Some(exclude) = self.settings.excludes.matching(named) {
            return Some(Rule::Excluded(exclude.pattern.clone()));
        }
        let denied = (level == Level::Project).then_some(&self.settings.denied)?;
        denied.rule_for([named; 2]).map(|rule| Rule::Denied(rule.to_owned()))
    }

    /// Reads and cleans a file unless it is excluded.
    pub(super) fn open(&mut self, path: &Path, level: Level) -> Option<Cleaned> {
        if self.files.entry_kind(path).is_err() {
            return None;
        }
        match self.try_open(path, level) {
            Ok(cleaned) => Some(cleaned),
            Err(rule) => {
                // The same path again is not reported.
                if !matches!(&rule, Rule::Duplicate(first) if first == path) {
                    self.report.ignore(path, rule);
                }
                None
            }
        }
    }

    fn try_open(&mut self, path: &Path, level: Level) -> Result<Cleaned, Rule> {
        let real_path =
            self.files.canonicalize(path).map_err(|error| self.report.miss(path, &error))?;
        let first = self.seen.get(path.as_os_str());
        let first = first.or_else(|| self.seen.get(real_path.as_os_str()));
        if let Some(first) = first {
            return Err(Rule::Duplicate(first.clone()));
        }
        if level != Level::Managed
            && let Some(exclude) = self.settings.excludes.matching(path)
        {
            if level == Level::User && exclude.by_project {
                let message = format!(
                    "{} excludes your own {} by `{}`",
                    exclude.from.display(),
                    path.display(),
                    exclude.pattern
                );
                self.report.warn(diagnostics::EXCLUDES_USER_FILE, path, message);
            }
            return Err(Rule::Excluded(exclude.pattern.clone()));
        }
        if matches!(level, Level::Project | Level::Local) {
            if let Some(rule) = self.settings.denied.rule_for([path, &real_path]) {
                return Err(Rule::Denied(rule.to_owned()));
            }
            if self.settings.blocks_outside && real_path != path && !self.is_inside(&real_path) {
                return Err(Rule::OutsideLink(self.session.cwd.clone()));
            }
        }
        let head = self.files.read_head(path, MAX_FILE_BYTES + 1);
        let head = head.map_err(|error| self.report.miss(path, &error))?;
        if head.size > MAX_FILE_BYTES {
            let message = format!(
                "{} has {} bytes; files over {MAX_FILE_BYTES} bytes are dropped without a message",
                path.display(),
                head.size
            );
            self.report.warn(convoke_core::diagnostics::FILE_TOO_LARGE, path, message);
            return Err(Rule::TooLarge(MAX_FILE_BYTES));
        }
        let raw = String::from_utf8_lossy(&head.bytes);
        // Without front matter, the byte order mark is part of the first line.
        let after_mark =
            raw.strip_prefix('\u{feff}').filter(|_| self.settings.skips_byte_order_mark);
        let split = after_mark.map(front_matter::split).filter(|split| split.front.is_some());
        let split = split.unwrap_or_else(|| front_matter::split(&raw));
        let kept = markdown::without_comments(split.body);
        let parts = [
            (split.front.is_some(), FRONT_MATTER),
            (kept.lost_comments, "its block comments"),
            (kept.lost_definitions, "its link definitions"),
        ];
        let dropped = parts.into_iter().filter_map(|(is_lost, part)| is_lost.then_some(part));
        let dropped = dropped.collect();
        let mut scan = markdown::scan(split.body);
        let lines_before = line_at(&raw, raw.len() - split.body.len()) - 1;
        for import in scan.imports.iter_mut().chain(&mut scan.near_misses) {
            import.line += lines_before;
        }
        // Looking up such a path fails, and takes the importing file with it.
        if let Some(import) = scan.imports.iter().find(|import| import.path.contains('\0')) {
            let why = format!("the import in line {} has a NUL character", import.line);
            return Err(self.report.miss(path, &io::Error::other(why)));
        }
        let cleaned = Cleaned {
            text: kept.text.into_owned(),
            front: split.front.map_or(FrontMatter::Other, FrontMatter::read),
            scan,
            real_path,
            size: head.size,
            dropped,
            is_utf16: looks_like_utf16(&head.bytes),
        };
        if is_blank(&cleaned.text) {
            return Err(Rule::Blank);
        }
        Ok(cleaned)
    }

    /// Adds a file and its imports.
    pub(super) fn take(
        &mut self,
        path: &Path,
        mut cleaned: Cleaned,
        why: LoadReason,
        level: Level,
        depth: usize,
    ) {
        let scan = std::mem::take(&mut cleaned.scan);
        let directory = cleaned.real_path.parent().map(Path::to_owned);
        self.admit(path, cleaned, why, depth);
        let importing = Importing { path: path.to_owned(), directory, level, depth };
        self.follow_scan(&importing, &scan);
    }

    /// Loads what a file imports, and not the file itself.
    pub(super) fn follow(&mut self, path: &Path, cleaned: &Cleaned, level: Level, depth: usize) {
        let directory = cleaned.real_path.parent().map(Path::to_owned);
        let importing = Importing { path: path.to_owned(), directory, level, depth };
        self.follow_scan(&importing, &cleaned.scan);
    }

    fn follow_scan(&mut self, importing: &Importing, scan: &Scan) {
        imports::follow(self, importing, &scan.imports);
        imports::report_near_misses(self, importing, &scan.near_misses);
    }

    /// Adds a file without its imports.
    pub(super) fn admit(&mut self, path: &Path, cleaned: Cleaned, why: LoadReason, depth: usize) {
        let report = &mut self.report;
        self.seen.insert(path.into(), path.to_owned());
        if cleaned.real_path != path {
            self.seen.insert(cleaned.real_path.clone().into(), path.to_owned());
        }
        report.unignore(path);
        // The front matter of a rule is expected to be dropped.
        let is_rule = matches!(why, LoadReason::Rule | LoadReason::MatchingRule(_));
        let dropped = cleaned.dropped.into_iter();
        let dropped: Vec<_> = dropped.filter(|part| !is_rule || *part != FRONT_MATTER).collect();
        if !dropped.is_empty() {
            let message = format!("{} arrives without {}", path.display(), dropped.join(" and "));
            report.warn(diagnostics::TEXT_DROPPED, path, message);
        }
        if cleaned.is_utf16 {
            let message = format!("{} is UTF-16 and arrives as garbage", path.display());
            report.warn(diagnostics::FILE_UTF16, path, message);
        }
        let text = if self.keeps_space { cleaned.text } else { trim(&cleaned.text).to_owned() };
        report.loaded.push(Loaded {
            path: path.to_owned(),
            bytes: cleaned.size,
            bytes_loaded: text.len() as u64,
            whole: true,
            why,
            text,
            real_path: cleaned.real_path,
            depth,
            is_pasted: false,
        });
    }

    /// Adds the text in the administrator's settings.
    pub(super) fn take_managed_text(&mut self, path: &Path, text: &str) {
        let text = trim(text);
        if !text.is_empty() {
            let size = self.files.read_head(path, 0).map_or(0, |head| head.size);
            self.report.loaded.push(Loaded {
                path: path.to_owned(),
                bytes: size,
                bytes_loaded: text.len() as u64,
                whole: true,
                why: LoadReason::Managed,
                text: text.to_owned(),
                real_path: path.to_owned(),
                depth: 0,
                is_pasted: false,
            });
        }
    }

    /// Returns whether a real path is in a directory that the session may read.
    pub(super) fn is_inside(&self, real_path: &Path) -> bool {
        let added = self.session.directories("--add-dir");
        real_path.starts_with(&self.session.cwd)
            || added.iter().any(|directory| real_path.starts_with(directory))
    }

    /// Returns whether a file is loaded already, under this path or another.
    pub(super) fn is_seen(&self, path: &Path) -> bool {
        let is_seen = |path: &Path| self.seen.contains_key(path.as_os_str());
        is_seen(path) || self.files.canonicalize(path).is_ok_and(|real| is_seen(&real))
    }

    /// Records an excluded file, if it exists; returns whether it does.
    pub(super) fn ignore_if_there(&mut self, path: &Path, rule: Rule) -> bool {
        let there =
            self.files.entry_kind(path).is_ok() && !self.seen.contains_key(path.as_os_str());
        if there {
            self.report.ignore(path, rule);
        }
        there
    }
}
