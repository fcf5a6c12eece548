//! `search_text`.

use std::fmt::Write as _;
use std::time::Instant;

use convoke_files::FileKind;
use memchr::memmem::Finder;
use serde::Deserialize;

use super::ToolError;
use super::confine::{self, OpenDirectory, Root, Target};
use super::ignored::IgnoreRules;
use rustix::fs::FileType;

const MAX_MATCHES: usize = 200;
const MAX_FILES: usize = 20_000;
const MAX_DEPTH: usize = 32;
/// The length above which only the part of a line around the match is shown.
const LINE_BYTES: usize = 300;
const MORE_LINES: &str = "there are more lines";
/// Directories that are not searched.
const PASSED_OVER: [&str; 4] = [".git", ".hg", ".svn", "node_modules"];

#[derive(Deserialize)]
pub(super) struct Arguments {
    text: String,
    #[serde(default)]
    path: String,
}

/// The limits of a search.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub deadline: Instant,
    /// The maximum size of the results.
    pub room: usize,
}

/// The results so far.
struct SearchResults<'a> {
    root: &'a Root,
    finder: Finder<'a>,
    bounds: Bounds,
    text: String,
    matches: usize,
    files: usize,
    passed_over: SkippedFiles,
    /// The reason why the search ended early.
    cut_short: Option<&'static str>,
}

pub(super) fn run(root: &Root, given: &Arguments, bounds: Bounds) -> Result<String, ToolError> {
    if given.text.is_empty() || given.text.contains('\n') {
        return Err(ToolError::new("`text` must be part of one line"));
    }
    let place = root.find(&given.path)?;
    let mut found = SearchResults {
        root,
        finder: Finder::new(&given.text),
        bounds,
        text: String::new(),
        matches: 0,
        files: 0,
        passed_over: SkippedFiles::default(),
        cut_short: None,
    };
    match &place {
        Target::Directory(directory) => {
            let mut rules = IgnoreRules::above(root, directory);
            found.directory(directory, rules.as_mut(), 0);
            found.passed_over.rules = rules.map_or(0, |rules| rules.too_large);
        }
        Target::File(directory, name) => {
            let text = directory.read_text(name)?;
            found.file(&directory.shown(name), &text);
        }
    }
    let SearchResults { mut text, matches, files, passed_over, cut_short, .. } = found;
    if matches == 0 && cut_short != Some(MORE_LINES) {
        let _ = writeln!(text, "no line of {files} files contains it");
    }
    if let Some(passed_over) = passed_over.summary() {
        let _ = writeln!(text, "[{passed_over}]");
    }
    if let Some(why) = cut_short {
        let _ = write!(text, "[… {why}; search a smaller directory]");
    }
    Ok(text)
}

/// The files and directories that were skipped.
#[derive(Default)]
struct SkippedFiles {
    large: usize,
    no_text: usize,
    unreadable: usize,
    deep: usize,
    /// The number of `.gitignore` files that were too large.
    rules: usize,
}

impl SkippedFiles {
    fn note(&mut self, why: &ToolError) {
        match why {
            ToolError::TooLarge(_) => self.large += 1,
            ToolError::NoText(_) => self.no_text += 1,
            ToolError::Other(_) => self.unreadable += 1,
        }
    }

    fn summary(&self) -> Option<String> {
        let mib = confine::FILE_BYTES >> 20;
        let files = [
            (self.large, format!("larger than {mib} MiB")),
            (self.no_text, "not UTF-8 text".to_owned()),
            (self.unreadable, "not readable".to_owned()),
        ];
        let count: usize = files.iter().map(|(count, _)| count).sum();
        let reasons = files.iter().filter(|(count, _)| *count > 0);
        let reasons: Vec<_> = reasons.map(|(count, why)| format!("{count} {why}")).collect();
        let reasons = reasons.join(", ");
        let mut parts = Vec::new();
        match count {
            0 => {}
            1 => parts.push(format!("1 file was not searched: {reasons}")),
            _ => parts.push(format!("{count} files were not searched: {reasons}")),
        }
        match self.deep {
            0 => {}
            1 => parts
                .push(format!("1 directory more than {MAX_DEPTH} levels deep was not searched")),
            deep => parts.push(format!(
                "{deep} directories more than {MAX_DEPTH} levels deep were not searched"
            )),
        }
        if self.rules > 0 {
            let kib = FileKind::Gitignore.limit() >> 10;
            parts.push(format!(
                "{} not followed: larger than {kib} KiB with those above",
                if self.rules == 1 {
                    "1 .gitignore was".to_owned()
                } else {
                    format!("{} .gitignore files were", self.rules)
                }
            ));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

impl SearchResults<'_> {
    /// Searches a directory in the order of names. Skips links and ignored files, unless the directory itself
    /// is ignored.
    fn directory(
        &mut self,
        directory: &OpenDirectory,
        mut rules: Option<&mut IgnoreRules>,
        depth: usize,
    ) {
        if depth == MAX_DEPTH {
            self.passed_over.deep += 1;
            return;
        }
        let Ok(entries) = directory.entries() else {
            self.passed_over.unreadable += 1;
            return;
        };
        let levels = rules.as_deref_mut().map(|rules| rules.enter(self.root, directory));
        for (name, kind) in entries {
            if self.is_over() {
                break;
            }
            let is_directory = kind == FileType::Directory;
            let path = self.root.path().join(directory.below()).join(&name);
            let is_left_out = PASSED_OVER.iter().any(|passed| name == *passed)
                || rules.as_deref().is_some_and(|rules| rules.leave_out(&path, is_directory));
            if is_left_out {
                continue;
            }
            if is_directory {
                match directory.directory(&name) {
                    Ok(below) => self.directory(&below, rules.as_deref_mut(), depth + 1),
                    Err(_) => self.passed_over.unreadable += 1,
                }
            } else if kind == FileType::RegularFile {
                match directory.read_text(&name) {
                    Ok(text) => self.file(&directory.shown(&name), &text),
                    Err(why) => self.passed_over.note(&why),
                }
            }
        }
        if let (Some(rules), Some(levels)) = (rules, levels) {
            rules.leave(levels);
        }
    }

    fn is_over(&mut self) -> bool {
        if self.matches >= MAX_MATCHES {
            self.cut_short = Some(MORE_LINES);
        } else if self.files >= MAX_FILES {
            self.cut_short = Some("there are more files");
        } else if Instant::now() >= self.bounds.deadline {
            self.cut_short = Some("the time limit was reached");
        }
        self.cut_short.is_some()
    }

    fn file(&mut self, shown: &str, text: &str) {
        self.files += 1;
        // Most files have no match and need not be split into lines.
        if self.finder.find(text.as_bytes()).is_none() {
            return;
        }
        for (index, line) in text.lines().enumerate() {
            let Some(at) = self.finder.find(line.as_bytes()) else { continue };
            let shown = format!("{shown}:{}: {}\n", index + 1, around(line, at));
            if self.matches >= MAX_MATCHES || self.text.len() + shown.len() > self.bounds.room {
                self.cut_short = Some(MORE_LINES);
                return;
            }
            self.matches += 1;
            self.text.push_str(&shown);
        }
    }
}

fn around(line: &str, at: usize) -> &str {
    if line.len() <= LINE_BYTES {
        return line;
    }
    let from = line.floor_char_boundary(at.saturating_sub(LINE_BYTES / 3));
    let to = line.floor_char_boundary((from + LINE_BYTES).min(line.len()));
    &line[from..to]
}
