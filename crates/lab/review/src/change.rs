//! A change: what differs between a commit and the working tree.

use std::path::{Path, PathBuf};

use convoke_changes::{Changed, ChangesError, How, UsersRepository};
use convoke_files::{Disk, EntryKind, FileKind, Files as _};

use crate::hunk::{Hunk, hunks};

/// A file of which more bytes are not compared.
const MAX_FILE: usize = 4 << 20;

/// What differs between a commit and the working tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Sorted by path.
    pub files: Vec<FileChange>,
}

/// What differs in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The path from the root of the repository.
    pub path: String,
    /// The path in the commit, if it had another.
    pub earlier: Option<String>,
    pub how: How,
    /// The text in the commit; `None` if it has no such file, or if one of both is no text.
    pub before: Option<String>,
    /// The text in the working tree.
    pub after: Option<String>,
    /// Why no text is compared.
    pub opaque: Option<&'static str>,
    pub hunks: Vec<Hunk>,
}

/// A change cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    #[error(transparent)]
    Repository(#[from] ChangesError),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
}

/// The contents of a file at one time.
enum Content {
    None,
    Text(String),
    Opaque(&'static str),
}

impl Change {
    /// Reads what differs between a commit and the working tree, new files included.
    pub fn of_working_tree(repository: &UsersRepository, base: &str) -> Result<Self, ChangeError> {
        let changed = repository.changed_since(base)?;
        let files: Result<Vec<FileChange>, ChangeError> = changed
            .iter()
            .map(|changed| {
                let earlier = changed.earlier.as_ref().unwrap_or(&changed.path);
                let before = match changed.how {
                    How::Added => None,
                    _ => repository.file(base, earlier)?,
                };
                let after = match changed.how {
                    How::Deleted => Content::None,
                    _ => there(&repository.root().join(&changed.path))?,
                };
                Ok(FileChange::new(changed, before.map_or(Content::None, content), after))
            })
            .collect();
        Ok(Self { files: files? })
    }

    /// Creates a change of texts: a path, the text before and the text after.
    pub fn of_texts<'t>(
        files: impl IntoIterator<Item = (&'t str, Option<&'t str>, Option<&'t str>)>,
    ) -> Self {
        let text = |text: Option<&str>| match text {
            Some(text) => content(text.as_bytes().to_vec()),
            None => Content::None,
        };
        let file = |(path, before, after): (&str, Option<&str>, Option<&str>)| {
            let how = match (before, after) {
                (None, _) => How::Added,
                (_, None) => How::Deleted,
                _ => How::Changed,
            };
            let changed = Changed { path: path.into(), earlier: None, how };
            FileChange::new(&changed, text(before), text(after))
        };
        Self { files: files.into_iter().map(file).collect() }
    }

    /// Returns whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns a changed file by its path, now or before.
    pub fn file(&self, path: &str) -> Option<&FileChange> {
        let path = path.strip_prefix("./").unwrap_or(path);
        self.files.iter().find(|it| it.path == path || it.earlier.as_deref() == Some(path))
    }
}

impl FileChange {
    fn new(changed: &Changed, before: Content, after: Content) -> Self {
        let name = |path: &Path| path.to_string_lossy().into_owned();
        let (before, after, opaque) = match (before, after) {
            (Content::Opaque(why), _) | (_, Content::Opaque(why)) => (None, None, Some(why)),
            (before, after) => (before.text(), after.text(), None),
        };
        let hunks = match opaque {
            Some(_) => Vec::new(),
            None => hunks(before.as_deref().unwrap_or(""), after.as_deref().unwrap_or("")),
        };
        Self {
            path: name(&changed.path),
            earlier: changed.earlier.as_deref().map(name),
            how: changed.how,
            before,
            after,
            opaque,
            hunks,
        }
    }

    /// Describes the change of the file, for a heading.
    pub fn heading(&self) -> String {
        match (&self.earlier, self.how) {
            (Some(earlier), _) => format!("{} (moved from {earlier})", self.path),
            (None, How::Added) => format!("{} (new)", self.path),
            (None, How::Deleted) => format!("{} (deleted)", self.path),
            (None, _) => self.path.clone(),
        }
    }
}

impl Content {
    fn text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text),
            Self::None | Self::Opaque(_) => None,
        }
    }
}

fn content(bytes: Vec<u8>) -> Content {
    if bytes.len() > MAX_FILE {
        return Content::Opaque("larger than 4 MiB");
    }
    if bytes.contains(&0) {
        return Content::Opaque("not a text");
    }
    match String::from_utf8(bytes) {
        Ok(text) => Content::Text(text),
        Err(_) => Content::Opaque("not UTF-8"),
    }
}

/// Reads a file of the working tree as a commit would have it: of a link the path that it names.
fn there(path: &Path) -> Result<Content, ChangeError> {
    let failed = |source| ChangeError::File { path: path.to_owned(), source };
    match Disk.entry_kind(path).map_err(failed)? {
        EntryKind::Symlink => {
            let target = std::fs::read_link(path).map_err(failed)?;
            Ok(content(target.as_os_str().as_encoded_bytes().to_vec()))
        }
        EntryKind::File => match Disk.read(path, FileKind::Input) {
            Ok(bytes) => Ok(content(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                Ok(Content::Opaque("larger than 4 MiB"))
            }
            Err(error) => Err(failed(error)),
        },
        EntryKind::Directory => Ok(Content::Opaque("another repository")),
        EntryKind::Special => Ok(Content::Opaque("not a file")),
    }
}
