//! Compares a request with an explanation.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use convoke_explain::{AgentReport, Loaded, Rule};
use convoke_files::{FileKind, Files};
use convoke_vendor::MeasuredCli;
use convoke_wire::{Part, PartKind};
use memchr::memmem;

use super::skills;

/// A difference between a request and its explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// A file arrived more often than it was loaded.
    Twice {
        /// The file.
        path: PathBuf,
    },
    /// A file was to be loaded and did not arrive.
    Missing {
        /// The file.
        path: PathBuf,
        /// The bytes that were to be loaded.
        bytes: u64,
    },
    /// Another part of a file arrived.
    Bytes {
        /// The file.
        path: PathBuf,
        /// The bytes that were to be loaded.
        explained: u64,
        /// The bytes that arrived.
        arrived: u64,
    },
    /// A file arrived that was not to be loaded.
    Unexplained {
        /// The file.
        path: PathBuf,
        /// The bytes that arrived.
        bytes: u64,
        /// The reason why it was not to be loaded.
        rule: String,
    },
    /// Two files arrived in another order.
    Order {
        /// The file that was to come first.
        first: PathBuf,
        /// The file that came before it.
        second: PathBuf,
    },
    /// A skill was to be listed and was not.
    SkillMissing { name: String },
    /// Another part of a skill's description arrived.
    SkillBytes {
        name: String,
        /// The bytes that were to arrive.
        explained: u64,
        /// The bytes that arrived.
        arrived: u64,
    },
    /// A skill is listed before one that was to come first.
    SkillOrder { name: String },
    /// A skill is listed that was not explained.
    SkillUnexplained { name: String },
    /// No request was made.
    NoRequest {
        /// The program's message.
        output: String,
    },
}

impl Difference {
    /// Returns the file that it is about.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Twice { path }
            | Self::Missing { path, .. }
            | Self::Bytes { path, .. }
            | Self::Unexplained { path, .. }
            | Self::Order { second: path, .. } => Some(path),
            Self::SkillMissing { .. }
            | Self::SkillBytes { .. }
            | Self::SkillOrder { .. }
            | Self::SkillUnexplained { .. }
            | Self::NoRequest { .. } => None,
        }
    }
}

/// The number of lines of a program's output that say why it made no request.
const LAST_LINES: usize = 6;

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice { path } => {
                write!(f, "{} is explained once, and arrived twice", path.display())
            }
            Self::Missing { path, bytes } => {
                write!(f, "{} is explained with {bytes} bytes and did not arrive", path.display())
            }
            Self::Bytes { path, explained, arrived } => write!(
                f,
                "{} is explained with {explained} bytes, and {arrived} bytes arrived",
                path.display()
            ),
            Self::Unexplained { path, bytes, rule } => write!(
                f,
                "{} is explained as not loaded ({rule}), and {bytes} bytes arrived",
                path.display()
            ),
            Self::Order { first, second } => write!(
                f,
                "{} is explained after {}, and arrived before it",
                second.display(),
                first.display()
            ),
            Self::SkillMissing { name } => {
                write!(f, "the skill {name} is explained and did not arrive")
            }
            Self::SkillBytes { name, explained, arrived } => write!(
                f,
                "the description of the skill {name} is explained with {explained} bytes, and {arrived} bytes arrived"
            ),
            Self::SkillOrder { name } => {
                write!(f, "the skill {name} is explained after another, and arrived before it")
            }
            Self::SkillUnexplained { name } => {
                write!(f, "the skill {name} arrived and is not explained")
            }
            Self::NoRequest { output } => {
                let lines = output.lines().filter(|line| !line.trim().is_empty());
                let lines: Vec<&str> = lines.collect();
                let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
                write!(f, "no request reached Convoke; it said: {}", last.join("\n    "))
            }
        }
    }
}

/// The minimum length of a text; shorter ones occur in many places by accident.
const MIN_TEXT_BYTES: usize = 12;

/// Compares a request with an explanation for a user's home.
pub(super) fn differences(
    cli: &dyn MeasuredCli,
    report: &AgentReport,
    parts: &[Part],
    files: &dyn Files,
    home: &Path,
) -> Vec<Difference> {
    let texts = parts.iter().filter(|part| part.kind != PartKind::Tool);
    let mut request = Request::new(texts.map(|part| part.text.as_str()).collect());
    let mut differences = Vec::new();
    let mut before: Option<(&Loaded, Place)> = None;
    // An imported file was found with the file that imports it.
    for file in report.loaded.iter().filter(|file| !file.is_pasted && !file.text.is_empty()) {
        let path = file.path.clone();
        let Some(place) = request.claim(&file.text) else {
            let arrived = request.longest_beginning(&file.text);
            let (explained, arrived) = (file.text.len() as u64, arrived as u64);
            differences.push(if arrived < MIN_TEXT_BYTES as u64 {
                Difference::Missing { path, bytes: explained }
            } else {
                Difference::Bytes { path, explained, arrived }
            });
            continue;
        };
        if !file.whole {
            let more = request.more_of(&place, &file.text, &text(files, &file.path));
            if more > 0 {
                let explained = file.text.len() as u64;
                let arrived = explained + more;
                differences.push(Difference::Bytes { path, explained, arrived });
            }
        }
        if let Some((earlier, earlier_place)) = &before
            && earlier_place.text == place.text
            && place.range.start < earlier_place.range.start
        {
            let (first, second) = (earlier.path.clone(), file.path.clone());
            differences.push(Difference::Order { first, second });
        }
        before = Some((file, place));
    }
    for file in &report.ignored {
        // The text of these is in the request under another path.
        if matches!(file.rule, Rule::Duplicate(_) | Rule::Copy(_)) {
            continue;
        }
        // The program was run with a copy of the home, which a pattern with the path of the home does not match.
        let home = home.to_string_lossy();
        if matches!(&file.rule, Rule::Excluded(pattern) if pattern.contains(&*home)) {
            continue;
        }
        let text = text(files, &file.path);
        let text = text.trim();
        if text.len() >= MIN_TEXT_BYTES && request.claim(text).is_some() {
            let (path, bytes) = (file.path.clone(), text.len() as u64);
            let rule = file.rule.to_string();
            differences.push(Difference::Unexplained { path, bytes, rule });
        }
    }
    for file in report.loaded.iter().filter(|file| !file.is_pasted) {
        let text = file.text.trim();
        if text.len() >= MIN_TEXT_BYTES && request.claim(text).is_some() {
            differences.push(Difference::Twice { path: file.path.clone() });
        }
    }
    differences.extend(skills::differences(cli, report, &request.texts));
    differences
}

fn text(files: &dyn Files, path: &Path) -> String {
    let bytes = files.read(path, FileKind::Instructions).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The texts of a request, and the ranges that are accounted for.
struct Request<'a> {
    texts: Vec<&'a str>,
    claimed: Vec<Place>,
}

/// A piece of a request.
#[derive(Debug, Clone)]
struct Place {
    text: usize,
    range: Range<usize>,
}

impl<'a> Request<'a> {
    fn new(texts: Vec<&'a str>) -> Self {
        Self { texts, claimed: Vec::new() }
    }

    /// Finds a text outside the ranges that are accounted for, and adds its range to them.
    fn claim(&mut self, wanted: &str) -> Option<Place> {
        let mut places = self.texts.iter().enumerate().flat_map(|(text, whole)| {
            let found = memmem::find_iter(whole.as_bytes(), wanted);
            found.map(move |start| Place { text, range: start..start + wanted.len() })
        });
        let place = places.find(|place| !self.is_claimed(place))?;
        self.claimed.push(place.clone());
        Some(place)
    }

    fn is_claimed(&self, place: &Place) -> bool {
        let overlaps = |other: &Place| {
            other.text == place.text
                && other.range.start < place.range.end
                && place.range.start < other.range.end
        };
        self.claimed.iter().any(overlaps)
    }

    /// Returns the length of the longest prefix of a text that occurs anywhere.
    fn longest_beginning(&self, wanted: &str) -> usize {
        let occurs = |length: usize| {
            let beginning = &wanted.as_bytes()[..length];
            self.texts.iter().any(|text| memmem::find(text.as_bytes(), beginning).is_some())
        };
        let (mut found, mut missing) = (0, wanted.len() + 1);
        while found + 1 < missing {
            let middle = usize::midpoint(found, missing);
            if occurs(middle) { found = middle } else { missing = middle }
        }
        wanted.floor_char_boundary(found)
    }

    /// Returns the number of bytes of a file that follow a piece that was explained as its end.
    fn more_of(&self, place: &Place, piece: &str, file: &str) -> u64 {
        let Some(at) = memmem::find(file.as_bytes(), piece.as_bytes()) else { return 0 };
        let rest = &file.as_bytes()[at + piece.len()..];
        let following = &self.texts[place.text].as_bytes()[place.range.end..];
        let same = rest.iter().zip(following).take_while(|(a, b)| a == b).count();
        // A line break follows many things.
        if rest[..same].trim_ascii().is_empty() { 0 } else { same as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoke_explain::{Session, explain};
    use convoke_files::MemoryTree;

    fn part(text: &str) -> Part {
        Part {
            kind: PartKind::Message,
            place: String::new(),
            role: None,
            title: String::new(),
            text: text.to_owned(),
            range: 0..text.len(),
        }
    }

    /// Explains a repository with two files, and compares it with a request.
    fn compare(request: &str) -> Vec<String> {
        let mut tree = MemoryTree::default();
        tree.create_directory("/repo/.git");
        tree.write("/home/me/.codex/config.toml", "[skills.bundled]\nenabled = false\n");
        tree.write("/repo/AGENTS.md", "Rules of the repository.\n");
        tree.write("/repo/sub/AGENTS.md", "Rules of the sub directory.\n");
        tree.write("/repo/sub/CLAUDE.md", "Rules for somebody else.\n");
        let session = Session::new("/repo/sub", "/home/me");
        let report = explain(&tree, &session, &[convoke_vendors::edition("codex").unwrap()])
            .agents
            .remove(0);
        let codex = convoke_vendors::cli("codex").unwrap();
        let found = differences(codex, &report, &[part(request)], &tree, Path::new("/home/me"));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_request_with_what_was_explained_has_no_difference() {
        let request = "<INSTRUCTIONS>\nRules of the repository.\n\n\nRules of the sub directory.\n\n</INSTRUCTIONS>";
        assert_eq!(compare(request), [""; 0]);
    }

    #[test]
    fn a_pattern_with_the_path_of_the_home_is_not_compared() {
        let mut tree = MemoryTree::default();
        let settings = r#"{"claudeMdExcludes": ["/home/me/**"]}"#;
        tree.write("/home/me/.claude/settings.json", settings);
        tree.write("/home/me/.claude/CLAUDE.md", "Rules of the user.\n");
        tree.create_directory("/repo");
        let session = Session::new("/repo", "/home/me");
        let mut report =
            explain(&tree, &session, &[convoke_vendors::edition("claude@2.1.197").unwrap()])
                .agents
                .remove(0);
        report.skills.clear();
        assert_eq!(report.ignored.len(), 1);
        let parts = [part("Rules of the user.")];
        let claude = convoke_vendors::cli("claude").unwrap();
        assert_eq!(differences(claude, &report, &parts, &tree, &session.home), []);
        let elsewhere = Path::new("/home/other");
        assert_eq!(differences(claude, &report, &parts, &tree, elsewhere).len(), 1);
    }

    #[test]
    fn every_difference_names_its_file_and_bytes() {
        assert_eq!(
            compare("Rules of the sub directory.\n\n\nRules of the repository.\n"),
            ["/repo/sub/AGENTS.md is explained after /repo/AGENTS.md, and arrived before it"]
        );
        assert_eq!(
            compare("Rules of the repository.\n Rules of the sub dir"),
            ["/repo/sub/AGENTS.md is explained with 28 bytes, and 20 bytes arrived"]
        );
        assert_eq!(
            compare("Rules of the sub directory.\n Rules for somebody else."),
            [
                "/repo/AGENTS.md is explained with 25 bytes, and 13 bytes arrived",
                "/repo/sub/CLAUDE.md is explained as not loaded (a file for Claude Code), and 24 bytes arrived"
            ]
        );
        let twice =
            "Rules of the repository.\n Rules of the sub directory.\n Rules of the repository.\n";
        assert_eq!(compare(twice), ["/repo/AGENTS.md is explained once, and arrived twice"]);
        assert_eq!(compare("nothing at all").len(), 2);
    }
}
