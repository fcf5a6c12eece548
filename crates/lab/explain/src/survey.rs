//! All instruction files around a working directory, of any agent.

use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use convoke_files::{EntryKind, Files};

use crate::place::Listed;
use crate::report::{AgentReport, Rule};
use crate::session::Session;

/// Names of instruction files, and the program that each is for.
const NAMES: [(&str, &str); 12] = [
    ("CLAUDE.md", "Claude Code"),
    ("CLAUDE.local.md", "Claude Code"),
    ("AGENTS.md", "Codex"),
    ("AGENTS.override.md", "Codex"),
    ("GEMINI.md", "Gemini CLI"),
    ("AGENTS.local.md", "no agent"),
    ("GEMINI.local.md", "no agent"),
    ("CODEX.md", "no agent"),
    (".cursorrules", "Cursor"),
    (".windsurfrules", "Windsurf"),
    (".clinerules", "Cline"),
    (".aider.conf.yml", "Aider"),
];

/// Directories that belong to one program, and names that people put there.
const PLACES: [(&str, &str, &[&str]); 6] = [
    (".claude", "Claude Code", &["CLAUDE.local.md", "AGENTS.md"]),
    (".gemini", "Gemini CLI", &["GEMINI.md", "AGENTS.md"]),
    (".codex", "Codex", &["AGENTS.md", "AGENTS.override.md"]),
    (".agents", "another tool", &["AGENTS.md"]),
    (".github", "another tool", &["copilot-instructions.md"]),
    (".config", "another tool", &["AGENTS.md"]),
];

/// A file that was found.
#[derive(Debug)]
struct Candidate {
    path: PathBuf,
    name: Name,
}

#[derive(Debug)]
enum Name {
    /// A known name in a directory of the chain.
    Plain(&'static str, &'static str),
    /// A known name but for its case.
    OtherCase(&'static str, &'static str),
    /// In a directory that belongs to one program.
    InPlaceOf(&'static str),
}

/// The names of instruction files that are looked for below the working directory.
const NESTED: [&str; 5] =
    ["CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "AGENTS.override.md", "GEMINI.md"];

/// Directories that hold the work of programs, and no instructions for agents.
const NOT_SEARCHED: [&str; 8] =
    ["node_modules", "target", "vendor", "dist", "build", "out", "venv", "__pycache__"];

/// The maximum number of directories and entries below the working directory that are looked at.
const MAX_NESTED_DIRECTORIES: usize = 128;
const MAX_NESTED_ENTRIES: usize = 4_096;

/// All instruction files around a working directory.
pub(crate) struct Survey {
    candidates: Vec<Candidate>,
    /// Instruction files below the working directory, the nearest first.
    nested: Vec<PathBuf>,
}

impl Survey {
    /// Looks for known names in the directories of the chain and in the home directory.
    pub(crate) fn new(files: &Listed<'_>, session: &Session, chain: &[PathBuf]) -> Self {
        let mut candidates = Vec::new();
        let mut directories: Vec<&Path> = chain.iter().map(PathBuf::as_path).collect();
        if !directories.contains(&&*session.home) {
            directories.push(&session.home);
        }
        for directory in directories {
            for found in files.notable(directory).iter().filter_map(|name| name.to_str()) {
                let path = || directory.join(found);
                if let Some((name, whose, is_exact)) = known(found) {
                    let name = if is_exact {
                        Name::Plain(name, whose)
                    } else {
                        Name::OtherCase(name, whose)
                    };
                    candidates.push(Candidate { path: path(), name });
                }
                let place = PLACES.iter().find(|(place, ..)| *place == found);
                let names = place
                    .into_iter()
                    .flat_map(|(_, whose, names)| names.iter().map(move |name| (*whose, *name)));
                for (whose, name) in names {
                    let path = path().join(name);
                    if files.entry_kind(&path).is_ok() {
                        let name = Name::InPlaceOf(whose);
                        candidates.push(Candidate { path, name });
                    }
                }
            }
        }
        Self { candidates, nested: nested(files, &session.cwd) }
    }

    /// Accounts for every file that the agent's own rules did not mention.
    pub(crate) fn account(&self, session: &Session, report: &mut AgentReport) {
        let loaded = report.loaded.iter().flat_map(|file| [&file.path, &file.real_path]);
        let loaded: HashSet<OsString> = loaded.map(|path| path.clone().into()).collect();
        // A file that is not loaded itself may still be imported.
        report.retain_ignored(|path| !loaded.contains(path.as_os_str()));
        let left_out = self.candidates.iter().filter(|it| !loaded.contains(it.path.as_os_str()));
        let left_out: Vec<_> =
            left_out.map(|it| (&it.path, self.rule(it, session, report))).collect();
        for (path, rule) in left_out {
            report.ignore(path, rule);
        }
        let names = report.search.names.clone();
        for path in self.nested.iter().filter(|it| !loaded.contains(it.as_os_str())) {
            let is_read = path.file_name().is_some_and(|name| names.iter().any(|it| name == &**it));
            if is_read {
                let rule = if report.agent == "codex" { Rule::Below } else { Rule::OnRead };
                report.ignore(path, rule);
            }
        }
    }

    fn rule(&self, candidate: &Candidate, session: &Session, report: &AgentReport) -> Rule {
        let reads = |name: &str| report.search.names.iter().any(|read| read == name);
        match &candidate.name {
            Name::Plain(name, _) if reads(name) => {
                let directory = candidate.path.parent().unwrap_or(&candidate.path);
                match &report.search.top {
                    _ if !session.cwd.starts_with(directory) => Rule::WrongPlace,
                    Some(top) => Rule::AboveRoot(top.clone()),
                    None => Rule::NoRoot,
                }
            }
            Name::OtherCase(name, _) if reads(name) && !self.has_exact(candidate, name) => {
                Rule::WrongCase(name)
            }
            Name::Plain(_, whose) | Name::OtherCase(_, whose) => Rule::OtherAgent(whose),
            Name::InPlaceOf(title) if *title == report.edition.title() => Rule::WrongPlace,
            Name::InPlaceOf(title) => Rule::OtherAgent(title),
        }
    }

    fn has_exact(&self, candidate: &Candidate, name: &str) -> bool {
        let exact = candidate.path.with_file_name(name);
        self.candidates.iter().any(|other| other.path == exact)
    }

    /// Returns the main instruction file of another agent at or below a directory, nearest first.
    pub(crate) fn other_main_file(&self, report: &AgentReport, top: &Path) -> Option<&Path> {
        let mains = ["AGENTS.md", "CLAUDE.md", "GEMINI.md"];
        let mut candidates = self.candidates.iter().rev().filter(|candidate| {
            matches!(&candidate.name, Name::Plain(name, _) if mains.contains(name))
                && candidate.path.parent().is_some_and(|it| it.starts_with(top))
        });
        candidates
            .find(|candidate| !report.loaded.iter().any(|file| file.real_path == candidate.path))
            .map(|candidate| candidate.path.as_path())
    }
}

/// Finds instruction files below a directory, breadth first and within limits.
fn nested(files: &Listed<'_>, cwd: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = VecDeque::from([cwd.to_owned()]);
    let (mut directories, mut entries) = (0, 0);
    while let Some(directory) = open.pop_front() {
        directories += 1;
        if directories > MAX_NESTED_DIRECTORIES || entries > MAX_NESTED_ENTRIES {
            break;
        }
        for (name, kind) in files.entries(&directory).unwrap_or_default() {
            entries += 1;
            let Some(text) = name.to_str() else { continue };
            match kind {
                EntryKind::Directory if !text.starts_with('.') && !NOT_SEARCHED.contains(&text) => {
                    open.push_back(directory.join(&name));
                }
                EntryKind::File | EntryKind::Symlink
                    if directory != cwd && NESTED.contains(&text) =>
                {
                    found.push(directory.join(&name));
                }
                _ => {}
            }
        }
    }
    found
}

/// Returns whether a name may be that of an instruction file, or of a directory with some.
pub(crate) fn is_notable(name: &OsStr) -> bool {
    let is_place = |name| PLACES.iter().any(|(place, ..)| *place == name);
    name.to_str().is_some_and(|name| is_place(name) || known(name).is_some())
}

/// The known name that a name is, at least but for its case.
fn known(found: &str) -> Option<(&'static str, &'static str, bool)> {
    let same = |(name, _): &&(&str, &str)| name.eq_ignore_ascii_case(found);
    let (name, whose) = NAMES.iter().find(same)?;
    Some((name, whose, *name == found))
}
