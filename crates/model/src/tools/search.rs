//! `search_text`.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use memchr::memmem::Finder;
use serde::Deserialize;

use super::Refusal;
use super::confine::{self, Root};

const MOST_MATCHES: usize = 200;
const MOST_FILES: usize = 20_000;
const MOST_DEPTH: usize = 32;
/// Longer lines are shown around the match.
const LINE_BYTES: usize = 300;
const MORE_LINES: &str = "there are more lines";
/// Directories of tools, which hold no text that a person wrote.
const PASSED_OVER: [&str; 4] = [".git", ".hg", ".svn", "node_modules"];

#[derive(Deserialize)]
pub(super) struct Arguments {
    text: String,
    #[serde(default)]
    path: String,
}

/// Where a search ends, whatever there is to find.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub deadline: Instant,
    /// The bytes of lines that are shown.
    pub room: usize,
}

/// What was found so far.
struct Found<'a> {
    root: &'a Root,
    finder: Finder<'a>,
    bounds: Bounds,
    text: String,
    matches: usize,
    files: usize,
    passed_over: PassedOver,
    /// Why the search ended before everything was searched.
    cut_short: Option<&'static str>,
}

pub(super) fn run(root: &Root, given: &Arguments, bounds: Bounds) -> Result<String, Refusal> {
    if given.text.is_empty() || given.text.contains('\n') {
        return Err(Refusal::new("`text` must be part of one line"));
    }
    let path = root.resolve(&given.path)?;
    let mut found = Found {
        root,
        finder: Finder::new(&given.text),
        bounds,
        text: String::new(),
        matches: 0,
        files: 0,
        passed_over: PassedOver::default(),
        cut_short: None,
    };
    if path.is_dir() {
        found.directory(&path);
    } else {
        let shown = root.shown(&path);
        let text = confine::read_text(&path, &shown)?;
        found.file(&shown, &text);
    }
    let Found { mut text, matches, files, passed_over, cut_short, .. } = found;
    if matches == 0 && cut_short != Some(MORE_LINES) {
        let _ = writeln!(text, "no line of {files} files contains it");
    }
    if let Some(passed_over) = passed_over.told() {
        let _ = writeln!(text, "[{passed_over}]");
    }
    if let Some(why) = cut_short {
        let _ = write!(text, "[… {why}; search a smaller directory]");
    }
    Ok(text)
}

/// What was there and was not searched, so that nobody takes it for searched.
#[derive(Default)]
struct PassedOver {
    large: usize,
    no_text: usize,
    unreadable: usize,
    deep: usize,
}

impl PassedOver {
    fn note(&mut self, why: &Refusal) {
        match why {
            Refusal::TooLarge(_) => self.large += 1,
            Refusal::NoText(_) => self.no_text += 1,
            Refusal::Other(_) => self.unreadable += 1,
        }
    }

    fn told(&self) -> Option<String> {
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
                .push(format!("1 directory more than {MOST_DEPTH} levels deep was not searched")),
            deep => parts.push(format!(
                "{deep} directories more than {MOST_DEPTH} levels deep were not searched"
            )),
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

impl Found<'_> {
    /// Searches a directory in the order of names. Links are passed over, and so is what the project
    /// says is no work of its own (`.gitignore`), unless the directory itself was asked for.
    fn directory(&mut self, directory: &Path) {
        let walk = ignore::WalkBuilder::new(directory)
            .hidden(false)
            // What counts is what the project says: not what a user says of all projects.
            .git_global(false)
            .max_depth(Some(MOST_DEPTH))
            .sort_by_file_name(std::ffi::OsStr::cmp)
            .filter_entry(|entry| {
                let name = entry.file_name();
                entry.depth() == 0 || !PASSED_OVER.iter().any(|passed| name == *passed)
            })
            .build();
        for entry in walk {
            if self.is_over() {
                return;
            }
            let Ok(entry) = entry else {
                self.passed_over.unreadable += 1;
                continue;
            };
            let kind = entry.file_type();
            if kind.is_some_and(|kind| kind.is_dir()) && entry.depth() == MOST_DEPTH {
                self.passed_over.deep += 1;
            } else if kind.is_some_and(|kind| kind.is_file()) {
                let shown = self.root.shown(entry.path());
                match confine::read_text(entry.path(), &shown) {
                    Ok(text) => self.file(&shown, &text),
                    Err(why) => self.passed_over.note(&why),
                }
            }
        }
    }

    fn is_over(&mut self) -> bool {
        if self.matches >= MOST_MATCHES {
            self.cut_short = Some(MORE_LINES);
        } else if self.files >= MOST_FILES {
            self.cut_short = Some("there are more files");
        } else if Instant::now() >= self.bounds.deadline {
            self.cut_short = Some("the time was over");
        }
        self.cut_short.is_some()
    }

    fn file(&mut self, shown: &str, text: &str) {
        self.files += 1;
        // Most files hold no match, and then no line of them is looked at.
        if self.finder.find(text.as_bytes()).is_none() {
            return;
        }
        for (index, line) in text.lines().enumerate() {
            let Some(at) = self.finder.find(line.as_bytes()) else { continue };
            let shown = format!("{shown}:{}: {}\n", index + 1, around(line, at));
            if self.matches >= MOST_MATCHES || self.text.len() + shown.len() > self.bounds.room {
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
