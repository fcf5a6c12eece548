//! Gemini CLI's imports: `@path` is replaced by the file, or by a comment that says why not.

mod find;

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use convoke_core::diagnostic::{Code, Diagnostic};
use convoke_core::whitespace::trim;
use convoke_files::{EntryKind, Files, absolute};

use super::settings::ImportFormat;
use super::size;
use convoke_explain::diagnostics;
use convoke_explain::{AgentReport, LoadReason, Loaded, Rule};
use find::Mention;

/// The deepest level at which imports are still followed.
const MAX_DEPTH: usize = 5;

/// About the bytes of the comments around an import.
const MARKERS: usize = 50;

/// A file that was read, or the words of the failure.
type Reading = Result<(Rc<str>, u64), String>;

/// The imports of one file that is loaded.
pub(super) struct Imports<'a> {
    files: &'a dyn Files,
    /// The directory that imports may not leave.
    root: PathBuf,
    texts: HashMap<PathBuf, Reading>,
    inside: HashMap<PathBuf, bool>,
    /// The imported files in the order in which they arrive.
    pub loaded: Vec<Loaded>,
    /// The bytes that are loaded so far, each file counted as often as it is imported. Beyond what any
    /// request can hold nothing more is imported, because none is made.
    pub written: usize,
}

/// A text with its imports and its path.
#[derive(Clone, Copy)]
struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl<'a> Imports<'a> {
    /// Prepares the imports of a file, confined to a directory; `loaded` bytes were loaded before it.
    pub(super) fn new(files: &'a dyn Files, root: &Path, loaded: usize) -> Self {
        Self {
            files,
            root: files.canonicalize(root).unwrap_or_else(|_| root.to_owned()),
            texts: HashMap::new(),
            inside: HashMap::new(),
            loaded: Vec::new(),
            written: loaded,
        }
    }

    /// Returns the text of a file with its imports written in the given format.
    pub(super) fn expand(
        &mut self,
        path: &Path,
        text: &str,
        format: ImportFormat,
        report: &mut AgentReport,
    ) -> String {
        match format {
            ImportFormat::Tree => self.expand_tree(Source { path, text }, &mut Vec::new(), report),
            ImportFormat::Flat => {
                // The file itself goes by the name of its directory.
                let name = path.parent().unwrap_or(path).to_owned();
                let mut flat = Flat::default();
                flat.push(&name, text);
                flat.done.insert(name);
                self.expand_flat(Source { path, text }, &mut flat, 0);
                flat.text
            }
        }
    }

    /// `above` holds the files that are being imported; it grows and shrinks with the depth.
    fn expand_tree(
        &mut self,
        source: Source<'_>,
        above: &mut Vec<PathBuf>,
        report: &mut AgentReport,
    ) -> String {
        if above.len() >= MAX_DEPTH {
            return source.text.to_owned();
        }
        let directory = source.path.parent().unwrap_or(source.path);
        let mut out = String::with_capacity(source.text.len());
        let mut at = 0;
        for mention in find::mentions(source.text) {
            out.push_str(&source.text[at..mention.start]);
            at = mention.end;
            if mention.in_code || self.written > size::MORE_THAN_ANY_REQUEST {
                out.push('@');
                out.push_str(mention.path);
                continue;
            }
            let path = absolute(directory, Path::new(mention.path));
            match self.import(&mention, &path, above) {
                Outcome::Refused => {
                    refuse(source, &mention, &path, &self.root, self.files, report);
                    self.written += MARKERS;
                    push_failure(&mut out, mention.path, "Path traversal attempt");
                }
                Outcome::Repeated => {
                    push_all(&mut out, ["<!-- File already processed: ", mention.path, " -->"]);
                }
                Outcome::Failed(message) => {
                    report_failure(source, &mention, report);
                    self.written += MARKERS + message.len();
                    push_failure(&mut out, mention.path, &message);
                }
                Outcome::Read { text, size } => {
                    report_place(source, &mention, report);
                    self.written += text.len() + 2 * mention.path.len() + MARKERS;
                    let index = self.loaded.len();
                    let line = mention.line;
                    self.note(source.path, &path, line, above.len() + 1);
                    above.push(path.clone());
                    let imported =
                        self.expand_tree(Source { path: &path, text: &text }, above, report);
                    above.pop();
                    let name = mention.path;
                    push_all(&mut out, ["<!-- Imported from: ", name, " -->\n"]);
                    out.push_str(&imported);
                    push_all(&mut out, ["\n<!-- End of import from: ", name, " -->"]);
                    self.fill(index, size, imported);
                }
            }
        }
        out.push_str(&source.text[at..]);
        out
    }

    /// The flat format writes each file once, the last import of a file first.
    fn expand_flat(&mut self, source: Source<'_>, flat: &mut Flat, depth: usize) {
        // Each level is one more file, and the program that is described has no limit here; ours is
        // there so that a chain of files cannot exhaust the stack.
        const MAX_LEVELS: usize = 256;
        if depth >= MAX_LEVELS {
            return;
        }
        let directory = source.path.parent().unwrap_or(source.path);
        for mention in find::mentions(source.text).into_iter().rev() {
            let path = absolute(directory, Path::new(mention.path));
            if mention.in_code || flat.done.contains(&path) {
                continue;
            }
            if self.written > size::MORE_THAN_ANY_REQUEST {
                return;
            }
            if let Outcome::Read { text, size } = self.import(&mention, &path, &[]) {
                flat.done.insert(path.clone());
                flat.push(&path, &text);
                self.written += text.len() + 2 * path.as_os_str().len() + MARKERS;
                let index = self.loaded.len();
                let line = mention.line;
                self.note(source.path, &path, line, depth + 1);
                self.fill(index, size, whole_lines(&text).to_owned());
                self.expand_flat(Source { path: &path, text: &text }, flat, depth + 1);
            }
        }
    }

    fn import(&mut self, mention: &Mention<'_>, path: &Path, above: &[PathBuf]) -> Outcome {
        let is_url = ["file://", "http://", "https://"]
            .iter()
            .any(|scheme| mention.path.starts_with(scheme));
        if is_url || !self.is_inside(path) {
            return Outcome::Refused;
        }
        if above.iter().any(|file| file == path) {
            return Outcome::Repeated;
        }
        match self.read(path) {
            Ok((text, size)) => Outcome::Read { text, size },
            Err(message) => Outcome::Failed(message),
        }
    }

    fn is_inside(&mut self, path: &Path) -> bool {
        if let Some(inside) = self.inside.get(path) {
            return *inside;
        }
        let real = real_or_nearest(self.files, path);
        let inside = real.is_some_and(|real| real.starts_with(&self.root));
        self.inside.insert(path.to_owned(), inside);
        inside
    }

    fn read(&mut self, path: &Path) -> Reading {
        if let Some(text) = self.texts.get(path) {
            return text.clone();
        }
        let text = match self.files.read_head(path, size::MORE_THAN_ANY_REQUEST as u64) {
            Ok(head) => {
                let text = String::from_utf8_lossy(&head.bytes);
                Ok((Rc::from(&*text), head.size))
            }
            Err(error) => Err(words_of(self.files, path, &error)),
        };
        self.texts.insert(path.to_owned(), text.clone());
        text
    }

    fn note(&mut self, by: &Path, path: &Path, line: u64, depth: usize) {
        let by = by.to_owned();
        self.loaded.push(Loaded {
            path: path.to_owned(),
            bytes: 0,
            bytes_loaded: 0,
            whole: true,
            why: LoadReason::Import { by, line },
            text: String::new(),
            real_path: self.files.canonicalize(path).unwrap_or_else(|_| path.to_owned()),
            depth,
            is_pasted: true,
        });
    }

    fn fill(&mut self, index: usize, size: u64, text: String) {
        if let Some(loaded) = self.loaded.get_mut(index) {
            loaded.bytes = size;
            loaded.bytes_loaded = text.len() as u64;
            loaded.text = text;
        }
    }
}

/// A file with its imports as blocks, one behind the other.
#[derive(Default)]
struct Flat {
    text: String,
    /// The files that have a block.
    done: HashSet<PathBuf>,
}

impl Flat {
    fn push(&mut self, name: &Path, text: &str) {
        let name = name.to_string_lossy();
        if !self.text.is_empty() {
            self.text.push_str("\n\n");
        }
        let text = trim(text);
        push_all(
            &mut self.text,
            ["--- File: ", &name, " ---\n", text, "\n--- End of File: ", &name, " ---"],
        );
    }
}

/// Returns a text without the white space around it, and with the line break that is behind it anyway.
fn whole_lines(text: &str) -> &str {
    let text = text.trim_start_matches(|it: char| it == '\u{feff}' || it.is_whitespace());
    let end = trim(text).len();
    let has_break = text[end..].starts_with('\n');
    &text[..end + usize::from(has_break)]
}

/// The outcome of an import.
enum Outcome {
    /// It leads out of the project, or to the network.
    Refused,
    /// It leads to a file that is being imported already.
    Repeated,
    Failed(String),
    Read {
        text: Rc<str>,
        size: u64,
    },
}

fn push_failure(out: &mut String, path: &str, message: &str) {
    push_all(out, ["<!-- Import failed: ", path, " - ", message, " -->"]);
}

fn push_all<const N: usize>(out: &mut String, pieces: [&str; N]) {
    for piece in pieces {
        out.push_str(piece);
    }
}

/// The real path of a file, or of what exists of it with the rest behind.
fn real_or_nearest(files: &dyn Files, path: &Path) -> Option<PathBuf> {
    let is_missing = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    };
    match files.canonicalize(path) {
        Ok(real) => return Some(real),
        Err(error) if is_missing(&error) => {}
        Err(_) => return None,
    }
    // From the top down, so that the names that do not exist are not tried one by one.
    let mut nearest = None;
    let mut existing = PathBuf::new();
    let mut names = path.components();
    while let Some(name) = names.next() {
        existing.push(name);
        match files.canonicalize(&existing) {
            Ok(real) => nearest = Some(real),
            Err(error) if is_missing(&error) => {
                let missing = Path::new(name.as_os_str()).join(names.as_path());
                return nearest.map(|real| real.join(missing));
            }
            Err(_) => return None,
        }
    }
    nearest
}

/// The words in which Node.js reports a failure; they are sent to the model.
fn words_of(files: &dyn Files, path: &Path, error: &io::Error) -> String {
    let path_text = path.display();
    let access = match files.kind(path) {
        Ok(EntryKind::Directory) => {
            return "EISDIR: illegal operation on a directory, read".to_owned();
        }
        Ok(_) => "open",
        Err(_) => "access",
    };
    let what = match error.kind() {
        io::ErrorKind::NotFound => "ENOENT: no such file or directory",
        io::ErrorKind::PermissionDenied => "EACCES: permission denied",
        io::ErrorKind::NotADirectory => "ENOTDIR: not a directory",
        _ => return error.to_string(),
    };
    format!("{what}, {access} '{path_text}'")
}

fn refuse(
    source: Source<'_>,
    mention: &Mention<'_>,
    path: &Path,
    root: &Path,
    files: &dyn Files,
    report: &mut AgentReport,
) {
    if files.kind(path).is_ok_and(|kind| kind == EntryKind::File) && !report.mentions(path) {
        let by = source.path.to_owned();
        let allowed = root.to_owned();
        report.ignore(path, Rule::OutsideImport { by, allowed });
    }
    let message = format!(
        "@{} is refused: it is outside {}, and the model gets an error comment instead",
        mention.path,
        root.display()
    );
    warn(diagnostics::IMPORT_OUTSIDE, source, mention, message, report);
}

/// A failed import: a missing file, or a word of prose that was taken for one.
fn report_failure(source: Source<'_>, mention: &Mention<'_>, report: &mut AgentReport) {
    let path = mention.path;
    let is_path = path.contains('/') || path.trim_end_matches(['.', ',']).contains('.');
    if is_path {
        let message = format!("@{path} cannot be read; the model sees an error in its place");
        warn(diagnostics::IMPORT_MISSING, source, mention, message, report);
    } else {
        let message = format!("`@{path}` is taken for an import and replaced by an error comment");
        warn(diagnostics::IMPORT_PROSE, source, mention, message, report);
    }
}

/// Reports an import at a position where Claude Code would ignore it.
fn report_place(source: Source<'_>, mention: &Mention<'_>, report: &mut AgentReport) {
    if let Some(place) = mention.place {
        let message = format!("@{} is expanded although it is in {place}", mention.path);
        warn(diagnostics::IMPORT_IN_COMMENT, source, mention, message, report);
    }
}

fn warn(
    code: Code,
    source: Source<'_>,
    mention: &Mention<'_>,
    message: String,
    report: &mut AgentReport,
) {
    let diagnostic =
        Diagnostic::new(code, message).at_path(source.path.to_string_lossy()).at_line(mention.line);
    report.diagnose(diagnostic);
}
