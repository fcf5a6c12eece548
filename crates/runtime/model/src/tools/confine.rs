//! Confines paths to a directory.
//!
//! Directories are held open, and their entries are opened by name without following links. Replacing a
//! directory by a link meanwhile therefore has no effect.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_agent::sandbox::Secrets;
use convoke_files::beneath::open_real;
use convoke_files::limit::collect_entries;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat};

use super::ToolError;

/// The maximum size of a readable file.
pub(super) const FILE_BYTES: u64 = 4 << 20;
/// The number of bytes that are searched for NUL to detect binary files.
const BINARY_PROBE: usize = 8192;

/// A directory, by its real path.
#[derive(Debug, Clone)]
pub(super) struct Root {
    path: PathBuf,
    directory: Arc<OwnedFd>,
    /// The paths below that are hidden.
    hidden: Arc<[PathBuf]>,
}

/// The target of a path.
pub(super) enum Target {
    Directory(OpenDirectory),
    /// Anything else, by its name in its directory.
    File(OpenDirectory, OsString),
}

impl Root {
    /// Opens a directory by its real path: a link that has taken its place, or that of a directory above it, is refused.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let path = directory.to_owned();
        let directory = openat(open_real(&path)?, ".", directory_flags(), Mode::empty())?;
        Ok(Self { path, directory: Arc::new(directory), hidden: Arc::default() })
    }

    /// Hides the user's secrets in the directory. Fails if it is itself inside one, unless a person started Convoke there.
    pub fn without(self, secrets: &Secrets, started_in: &Path) -> io::Result<Self> {
        if secrets.contain(&self.path, started_in) {
            let why = "it is inside a path that no agent can read";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(Self { hidden: secrets.below(&self.path).into(), ..self })
    }

    /// Returns the directory's real path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the directory at a path, or the directory of the file at it.
    pub fn find(&self, given: &str) -> Result<Target, ToolError> {
        let below = self.resolve(given)?;
        let failed = |error: io::Error| ToolError::io(given, &error);
        let mut directory = OpenDirectory::whole(self).map_err(failed)?;
        let mut names = below.iter().peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none()
                && directory.kind(name).map_err(failed)? != FileType::Directory
            {
                return Ok(Target::File(directory, name.to_owned()));
            }
            directory = directory.directory(name).map_err(failed)?;
        }
        Ok(Target::Directory(directory))
    }

    /// Resolves a path to one without links, relative to the root; fails if it is outside.
    fn resolve(&self, given: &str) -> Result<PathBuf, ToolError> {
        if given.contains('\0') {
            return Err(ToolError::new("a path cannot contain NUL"));
        }
        let given_path = if given.trim().is_empty() { "." } else { given };
        let outside = || {
            ToolError::new(format!(
                "`{given}` is not below the working directory; use a relative path"
            ))
        };
        let real = match self.path.join(given_path).canonicalize() {
            Ok(real) => real,
            // Do not reveal whether a file outside exists.
            Err(_) if self.is_spelt_outside(given_path) => return Err(outside()),
            Err(error) => return Err(ToolError::io(given, &error)),
        };
        let below = real.strip_prefix(&self.path).map_err(|_| outside())?;
        if self.hidden.iter().any(|hidden| below.starts_with(hidden)) {
            return Err(ToolError::new(format!("`{given}` holds the user's secrets")));
        }
        Ok(below.to_owned())
    }

    fn is_spelt_outside(&self, given: &str) -> bool {
        !convoke_files::absolute(&self.path, Path::new(given)).starts_with(&self.path)
    }
}

/// A directory that is held open.
pub(super) struct OpenDirectory {
    descriptor: OwnedFd,
    /// The path relative to the root.
    below: PathBuf,
    /// The hidden paths, relative to the root.
    hidden: Arc<[PathBuf]>,
}

impl OpenDirectory {
    fn whole(root: &Root) -> io::Result<Self> {
        let descriptor = openat(&*root.directory, ".", directory_flags(), Mode::empty())?;
        Ok(Self { descriptor, below: PathBuf::new(), hidden: Arc::clone(&root.hidden) })
    }

    /// Returns the path relative to the root.
    pub fn below(&self) -> &Path {
        &self.below
    }

    /// Returns the path of an entry, as the model sees it.
    pub fn shown(&self, name: &OsStr) -> String {
        self.below.join(name).display().to_string()
    }

    /// Opens a directory in this one; a link is refused.
    pub fn directory(&self, name: &OsStr) -> io::Result<Self> {
        let descriptor = openat(&self.descriptor, name, directory_flags(), Mode::empty())?;
        Ok(Self { descriptor, below: self.below.join(name), hidden: Arc::clone(&self.hidden) })
    }

    fn is_hidden(&self, name: &OsStr) -> bool {
        !self.hidden.is_empty() && self.hidden.contains(&self.below.join(name))
    }

    /// Returns the names in the directory, sorted, each with its kind; links stay links.
    pub fn entries(&self) -> io::Result<Vec<(OsString, FileType)>> {
        let found = Dir::read_from(&self.descriptor)?.filter_map(|entry| {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error.into())),
            };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." || self.is_hidden(name) {
                return None;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => self.kind(name).unwrap_or(FileType::Unknown),
                known => known,
            };
            Some(Ok((name.to_owned(), kind)))
        });
        let mut entries = collect_entries(found)?;
        entries.sort_by(|(left, _), (right, _)| left.cmp(right));
        Ok(entries)
    }

    fn kind(&self, name: &OsStr) -> io::Result<FileType> {
        let found = statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(found.st_mode))
    }

    /// Reads a text file of the directory.
    pub fn read_text(&self, name: &OsStr) -> Result<String, ToolError> {
        let shown = self.shown(name);
        let bytes = self.read(name, FILE_BYTES)?;
        let probe = &bytes[..bytes.len().min(BINARY_PROBE)];
        let binary = || ToolError::NoText(format!("`{shown}` is not text"));
        if memchr::memchr(0, probe).is_some() {
            return Err(binary());
        }
        String::from_utf8(bytes).map_err(|_| binary())
    }

    /// Reads a regular file of the directory with at most `limit` bytes.
    pub fn read(&self, name: &OsStr, limit: u64) -> Result<Vec<u8>, ToolError> {
        let shown = self.shown(name);
        let failed = |error: io::Error| ToolError::io(&shown, &error);
        let too_large = |bytes: u64| {
            ToolError::TooLarge(format!("`{shown}` has {bytes} bytes; the limit is {limit} bytes"))
        };
        // Checked before opening, because opening a device may have effects.
        check_regular(self.kind(name).map_err(failed)?, &shown)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.descriptor, name, flags, Mode::empty());
        let file = file.map_err(|error| failed(error.into()))?;
        let found = fstat(&file).map_err(|error| failed(error.into()))?;
        check_regular(FileType::from_raw_mode(found.st_mode), &shown)?;
        let size = u64::try_from(found.st_size).unwrap_or(0);
        if size > limit {
            return Err(too_large(size));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        #[expect(clippy::disallowed_methods, reason = "the size is limited")]
        File::from(file).take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
        match bytes.len() as u64 {
            read if read > limit => Err(too_large(read)),
            _ => Ok(bytes),
        }
    }
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// Rejects everything but regular files.
fn check_regular(kind: FileType, shown: &str) -> Result<(), ToolError> {
    match kind {
        FileType::RegularFile => Ok(()),
        FileType::Directory => {
            Err(ToolError::new(format!("`{shown}` is a directory; list it instead")))
        }
        // Reading a pipe or a device could block.
        _ => Err(ToolError::new(format!("`{shown}` is not a regular file"))),
    }
}
