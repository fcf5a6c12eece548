//! Discovers AGENTS.md files like Codex: which are loaded, in which order, and where they are cut.
//!
//! The rules differ between versions of Codex ([`Rules`]); other inputs are [`Settings`]. The result contains
//! the [`Document`]s that are sent, the [`Ignored`] files with the rule that applied, and a diagnostic for
//! every loss.

mod report;
mod user_doc;

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use convoke_core::diagnostic::Diagnostic;

use convoke_files::{EntryKind, FileKind, Files};

pub use user_doc::{UserDoc, user_doc};

/// The default maximum size of all project documents.
pub const DEFAULT_MAX_BYTES: u64 = 32 * 1024;

const OVERRIDE: &str = "AGENTS.override.md";
const DEFAULT: &str = "AGENTS.md";
const GIT: &str = ".git";

/// The separator of project documents.
pub const DOCUMENT_SEPARATOR: &str = "\n\n";

/// The rules of one version of Codex.
///
/// Exhaustive on purpose: a new kind must be handled everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// Codex 0.98: only `.git` marks the root; a dangling link still shadows.
    V0_98,
    /// Codex 0.166: root markers can be configured, and documents of untrusted projects are not loaded.
    V0_166,
}

/// Whether the user has trusted the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Trust {
    /// The configuration has no entry.
    #[default]
    Unknown,
    /// The configuration says `trusted`.
    Trusted,
    /// The configuration says `untrusted`.
    Untrusted,
}

/// The inputs of the discovery besides the files.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// The version whose rules apply.
    pub rules: Rules,
    /// The working directory as given.
    pub cwd: &'a Path,
    /// `project_doc_max_bytes`.
    pub max_bytes: u64,
    /// `project_doc_fallback_filenames`, as configured.
    pub fallback_names: &'a [String],
    /// `project_root_markers`; not used by 0.98 here.
    pub root_markers: &'a [String],
    /// Whether the project is trusted; not used by 0.98 here.
    pub trust: Trust,
}

impl Settings<'_> {
    /// Returns the number of bytes to read: the configured limit, bounded by the limit of all reads.
    fn budget(&self) -> u64 {
        self.max_bytes.min(FileKind::Instructions.limit())
    }
}

/// A document that is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub path: PathBuf,
    /// The text as sent.
    pub text: String,
    /// The size of the file.
    pub size: u64,
    /// The number of bytes of the file that are sent.
    pub loaded: u64,
}

impl Document {
    /// Returns whether the whole file is sent.
    pub fn is_whole(&self) -> bool {
        self.loaded == self.size
    }
}

/// The reason why a file in the chain is not sent.
///
/// Exhaustive on purpose: a new kind must be handled everywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IgnoreReason {
    /// A file of the same directory takes precedence.
    Shadowed {
        /// The other file.
        by: PathBuf,
    },
    /// The file is blank.
    Blank,
    /// The budget was used up by files nearer to the root.
    OverBudget,
    /// The file is a dangling link.
    Dangling,
    /// The path is a directory, or a link to one.
    Directory,
    /// The path is neither a file nor a directory: a pipe, a socket or a device.
    NotRegular,
    /// The file could not be read.
    Unreadable {
        /// The system's error text.
        error: String,
    },
    /// Another file of the chain could not be read, so that all are lost.
    LostWith {
        /// The unreadable file.
        unreadable: PathBuf,
    },
    /// `project_doc_max_bytes` is 0.
    SwitchedOff,
    /// The project is not trusted.
    Untrusted,
    /// The file is not valid UTF-8.
    NotUtf8,
    /// A configured fallback name is a path, which this version does not accept.
    NotAFileName,
}

impl fmt::Display for IgnoreReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IgnoreReason::Shadowed { by } => write!(f, "shadowed by {}", by.display()),
            IgnoreReason::Blank => f.write_str("it is blank"),
            IgnoreReason::OverBudget => f.write_str("the budget was used up"),
            IgnoreReason::Dangling => f.write_str("it is a link that leads nowhere"),
            IgnoreReason::Directory => f.write_str("it is a directory"),
            IgnoreReason::NotRegular => f.write_str("it is neither a file nor a directory"),
            IgnoreReason::Unreadable { error } => write!(f, "it could not be read: {error}"),
            IgnoreReason::LostWith { unreadable } => {
                write!(f, "lost, because {} could not be read", unreadable.display())
            }
            IgnoreReason::SwitchedOff => f.write_str("project_doc_max_bytes is 0"),
            IgnoreReason::Untrusted => f.write_str("the project is not trusted"),
            IgnoreReason::NotUtf8 => f.write_str("it is not valid UTF-8"),
            IgnoreReason::NotAFileName => f.write_str("a fallback name may not be a path"),
        }
    }
}

/// A file in the chain that is not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ignored {
    pub path: PathBuf,
    pub reason: IgnoreReason,
}

/// The result of the discovery.
#[derive(Debug, Clone, Default)]
pub struct ProjectDocs {
    /// The searched directories, root first.
    pub chain: Vec<PathBuf>,
    /// The documents that are sent, in order.
    pub documents: Vec<Document>,
    /// The files that are not sent, in the order of the chain.
    pub ignored: Vec<Ignored>,
    pub diagnostics: Vec<Diagnostic>,
}

impl ProjectDocs {
    /// Returns the documents joined as they are sent; `None` if there are none.
    pub fn text(&self) -> Option<String> {
        let texts: Vec<_> = self.documents.iter().map(|found| &*found.text).collect();
        (!texts.is_empty()).then(|| texts.join(DOCUMENT_SEPARATOR))
    }
}

/// Finds and reads the project documents of a working directory.
///
/// Makes a few lookups per directory between the root and the working directory, and reads at most `max_bytes`.
pub fn discover(files: &dyn Files, settings: &Settings<'_>) -> ProjectDocs {
    let mut found = ProjectDocs::default();
    match chain(files, settings) {
        Ok(chain) => found.chain = chain,
        Err(failed) => {
            found.diagnostics.push(report::lost(&failed, 0));
            return found;
        }
    }
    let names = Names::new(settings);
    let mut candidates = Vec::new();
    let mut failure = None;
    for directory in &found.chain {
        let (chosen, failed) = choose(files, settings.rules, directory, &names, &mut found.ignored);
        candidates.extend(chosen);
        failure = failure.or(failed);
    }
    if let Some(reason) = switched_off(settings) {
        let reason = || reason.clone();
        let off = candidates.into_iter().map(|path| (path, reason()));
        found.ignored.extend(off.map(|(path, reason)| Ignored { path, reason }));
        if settings.trust == Trust::Untrusted && !found.ignored.is_empty() {
            found.diagnostics.push(report::untrusted(settings.cwd));
        }
        return found;
    }
    let read = match failure {
        Some(failed) => Err(failed),
        None => read_within(files, settings, &candidates, &mut found),
    };
    let dangling = found.ignored.iter().filter(|file| file.reason == IgnoreReason::Dangling);
    let dangling: Vec<_> = dangling.map(|file| report::dangling(&file.path)).collect();
    found.diagnostics.extend(dangling);
    if let Err(failed) = read {
        found.documents.clear();
        found.diagnostics.clear();
        found.diagnostics.push(report::lost(&failed, candidates.len()));
        found.ignored.retain(|ignored| !candidates.contains(&ignored.path));
        for path in candidates {
            let reason = if path == failed.path {
                IgnoreReason::Unreadable { error: failed.error.to_string() }
            } else {
                IgnoreReason::LostWith { unreadable: failed.path.clone() }
            };
            found.ignored.push(Ignored { path, reason });
        }
    }
    found
}

/// A file that could not be examined or read, which loses the whole chain.
struct Failure {
    path: PathBuf,
    error: io::Error,
}

/// Returns the directories from the project's root to the working directory.
fn chain(files: &dyn Files, settings: &Settings<'_>) -> Result<Vec<PathBuf>, Failure> {
    let git = [GIT.to_owned()];
    let markers: &[String] = match settings.rules {
        Rules::V0_98 => &git,
        Rules::V0_166 => settings.root_markers,
    };
    // Codex 0.166 uses the directory as given, which contains links only if `-C` named it.
    let physical = match settings.rules {
        Rules::V0_98 => files.canonicalize(settings.cwd).ok(),
        Rules::V0_166 => None,
    };
    let mut chain = Vec::new();
    for directory in physical.as_deref().unwrap_or(settings.cwd).ancestors() {
        // The root of the file system is never a project.
        if directory.parent().is_none() {
            break;
        }
        chain.push(directory.to_owned());
        for marker in markers {
            let path = directory.join(marker);
            match files.kind(&path) {
                Ok(_) => {
                    chain.reverse();
                    return Ok(chain);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if settings.rules == Rules::V0_98 => {
                    return Err(Failure { path, error });
                }
                Err(_) => {}
            }
        }
    }
    Ok(vec![settings.cwd.to_owned()])
}

/// The file names to look for in each directory, in order.
struct Names<'a> {
    usable: Vec<&'a str>,
    refused: Vec<&'a str>,
}

impl<'a> Names<'a> {
    fn new(settings: &Settings<'a>) -> Self {
        let mut names = Names { usable: vec![OVERRIDE, DEFAULT], refused: Vec::new() };
        let mut once: HashSet<&str> = names.usable.iter().copied().collect();
        for name in settings.fallback_names {
            let name = name.trim();
            if name.is_empty() || !once.insert(name) {
                continue;
            }
            if settings.rules == Rules::V0_166 && name.contains('/') {
                names.refused.push(name);
            } else {
                names.usable.push(name);
            }
        }
        names
    }
}

/// Chooses one file of a directory, and records those that it shadows.
fn choose(
    files: &dyn Files,
    rules: Rules,
    directory: &Path,
    names: &Names<'_>,
    ignored: &mut Vec<Ignored>,
) -> (Option<PathBuf>, Option<Failure>) {
    let mut chosen: Option<PathBuf> = None;
    for name in &names.usable {
        let path = directory.join(name);
        let kind = match rules {
            Rules::V0_98 => files.entry_kind(&path),
            Rules::V0_166 => files.kind(&path),
        };
        let reason = match kind {
            Ok(EntryKind::File | EntryKind::Symlink) => match &chosen {
                None => {
                    chosen = Some(path);
                    continue;
                }
                Some(by) => IgnoreReason::Shadowed { by: by.clone() },
            },
            Ok(EntryKind::Directory) => IgnoreReason::Directory,
            Ok(EntryKind::Special) => IgnoreReason::NotRegular,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if files.entry_kind(&path).is_err() {
                    continue;
                }
                IgnoreReason::Dangling
            }
            // A name below a file (`docs/GUIDE.md` beside a file `docs`) fails like any other.
            Err(error) if chosen.is_none() => {
                let failed = Failure { path: path.clone(), error };
                return (Some(path), Some(failed));
            }
            Err(_) => continue,
        };
        ignored.push(Ignored { path, reason });
    }
    for name in &names.refused {
        let path = directory.join(name);
        if files.kind(&path).is_ok_and(|kind| kind == EntryKind::File) {
            let reason = IgnoreReason::NotAFileName;
            ignored.push(Ignored { path, reason });
        }
    }
    (chosen, None)
}

fn switched_off(settings: &Settings<'_>) -> Option<IgnoreReason> {
    if settings.max_bytes == 0 {
        return Some(IgnoreReason::SwitchedOff);
    }
    (settings.rules == Rules::V0_166 && settings.trust == Trust::Untrusted)
        .then_some(IgnoreReason::Untrusted)
}

fn read_within(
    files: &dyn Files,
    settings: &Settings<'_>,
    candidates: &[PathBuf],
    found: &mut ProjectDocs,
) -> Result<(), Failure> {
    let mut remaining = settings.budget();
    for path in candidates {
        if remaining == 0 {
            let reason = match files.read_head(path, 0) {
                // Leaving out an empty file is no loss.
                Ok(head) if head.size == 0 => IgnoreReason::Blank,
                Err(error) if error.kind() == io::ErrorKind::NotFound => IgnoreReason::Dangling,
                // Codex no longer notices that it could not read the file.
                other => {
                    let size = other.map_or(0, |head| head.size);
                    found.diagnostics.push(report::over_budget(path, size, settings));
                    IgnoreReason::OverBudget
                }
            };
            found.ignored.push(Ignored { path: path.clone(), reason });
            continue;
        }
        let head = match files.read_head(path, remaining) {
            Ok(head) => head,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                found.ignored.push(Ignored { path: path.clone(), reason: IgnoreReason::Dangling });
                continue;
            }
            Err(error) => {
                return Err(Failure { path: path.clone(), error });
            }
        };
        let loaded = head.bytes.len() as u64;
        let text = match String::from_utf8(head.bytes) {
            Ok(text) => text,
            Err(invalid) => {
                // A character cut by the budget is reported as a cut, not as invalid.
                if invalid.utf8_error().error_len().is_some() || loaded == head.size {
                    found.diagnostics.push(report::replaced(path));
                }
                String::from_utf8_lossy(invalid.as_bytes()).into_owned()
            }
        };
        if text.trim().is_empty() {
            found.ignored.push(Ignored { path: path.clone(), reason: IgnoreReason::Blank });
            continue;
        }
        if loaded < head.size {
            found.diagnostics.push(report::cut(path, loaded, head.size, settings));
        }
        remaining -= loaded;
        found.documents.push(Document { path: path.clone(), text, size: head.size, loaded });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
