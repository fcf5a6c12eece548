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
/// Directories of tools, which hold no text that a person wrote.
const PASSED_OVER: [&str; 4] = [".git", ".hg", ".svn", "node_modules"];

#[derive(Deserialize)]
pub(super) struct Arguments {
    text: String,
    #[serde(default)]
    path: String,
}

/// What was found so far.
struct Found<'a> {
    root: &'a Root,
    finder: Finder<'a>,
    deadline: Instant,
    text: String,
    matches: usize,
    files: usize,
    /// Why the search ended before everything was searched.
    cut_short: Option<&'static str>,
}

pub(super) fn run(root: &Root, given: &Arguments, deadline: Instant) -> Result<String, Refusal> {
    if given.text.is_empty() || given.text.contains('\n') {
        return Err(Refusal::new("`text` must be part of one line"));
    }
    let path = root.resolve(&given.path)?;
    let mut found = Found {
        root,
        finder: Finder::new(&given.text),
        deadline,
        text: String::new(),
        matches: 0,
        files: 0,
        cut_short: None,
    };
    if path.is_dir() {
        found.directory(&path);
    } else {
        let shown = root.shown(&path);
        let text = confine::read_text(&path, &shown)?;
        found.file(&shown, &text);
    }
    let Found { mut text, matches, files, cut_short, .. } = found;
    if matches == 0 {
        let _ = writeln!(text, "no line of {files} files contains it");
    }
    if let Some(why) = cut_short {
        let _ = write!(text, "[… {why}; search a smaller directory]");
    }
    Ok(text)
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
        // What cannot be read holds no line to show.
        for entry in walk.flatten() {
            if self.is_over() {
                return;
            }
            if entry.file_type().is_some_and(|kind| kind.is_file()) {
                let shown = self.root.shown(entry.path());
                // Nor does what is no text.
                if let Ok(text) = confine::read_text(entry.path(), &shown) {
                    self.file(&shown, &text);
                }
            }
        }
    }

    fn is_over(&mut self) -> bool {
        if self.matches >= MOST_MATCHES {
            self.cut_short = Some("there are more lines");
        } else if self.files >= MOST_FILES {
            self.cut_short = Some("there are more files");
        } else if Instant::now() >= self.deadline {
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
            if self.matches >= MOST_MATCHES {
                self.cut_short = Some("there are more lines");
                return;
            }
            self.matches += 1;
            let number = index + 1;
            let _ = writeln!(self.text, "{shown}:{number}: {}", around(line, at));
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
