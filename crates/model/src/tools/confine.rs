//! The directory that no path leads out of.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::Refusal;

/// The file that is read has this many bytes at most; what is larger is data, not text.
pub(super) const FILE_BYTES: u64 = 4 << 20;
/// A text has no such byte this early.
const BINARY_PROBE: usize = 8192;

/// A directory, by its real path.
#[derive(Debug, Clone)]
pub(super) struct Root(PathBuf);

impl Root {
    pub fn open(directory: &Path) -> io::Result<Self> {
        let root = directory.canonicalize()?;
        if root.is_dir() { Ok(Self(root)) } else { Err(io::ErrorKind::NotADirectory.into()) }
    }

    /// Returns the real path that a given one leads to, if that is not outside.
    pub fn resolve(&self, given: &str) -> Result<PathBuf, Refusal> {
        if given.contains('\0') {
            return Err(Refusal::new("a path cannot contain NUL"));
        }
        let given_path = if given.trim().is_empty() { "." } else { given };
        let outside = || {
            Refusal::new(format!(
                "`{given}` is not below the working directory; use a relative path"
            ))
        };
        let real = match self.0.join(given_path).canonicalize() {
            Ok(real) => real,
            // Whether something exists outside is nobody's business.
            Err(_) if self.is_spelt_outside(given_path) => return Err(outside()),
            Err(error) => return Err(Refusal::io(given, &error)),
        };
        if real.starts_with(&self.0) { Ok(real) } else { Err(outside()) }
    }

    fn is_spelt_outside(&self, given: &str) -> bool {
        !convoke_files::absolute(&self.0, Path::new(given)).starts_with(&self.0)
    }

    /// Returns a path as the model knows it.
    pub fn shown(&self, path: &Path) -> String {
        let below = path.strip_prefix(&self.0).unwrap_or(path);
        if below.as_os_str().is_empty() { ".".to_owned() } else { below.display().to_string() }
    }
}

/// Reads a text file. The path is real, so a link in its place was put there since and is not followed.
pub(super) fn read_text(path: &Path, shown: &str) -> Result<String, Refusal> {
    let failed = |error: io::Error| Refusal::io(shown, &error);
    let about = fs::symlink_metadata(path).map_err(failed)?;
    if about.is_dir() {
        return Err(Refusal::new(format!("`{shown}` is a directory; list it instead")));
    }
    // A pipe or a device could keep us waiting for ever.
    if !about.is_file() {
        return Err(Refusal::new(format!("`{shown}` is no regular file")));
    }
    if about.len() > FILE_BYTES {
        let bytes = about.len();
        return Err(Refusal::TooLarge(format!(
            "`{shown}` has {bytes} bytes, and files of up to {FILE_BYTES} bytes are read"
        )));
    }
    let mut options = fs::OpenOptions::new();
    let flags = nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK;
    let file: File = options.read(true).custom_flags(flags.bits()).open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    let probe = &bytes[..bytes.len().min(BINARY_PROBE)];
    let binary = || Refusal::NoText(format!("`{shown}` is not text"));
    if memchr::memchr(0, probe).is_some() {
        return Err(binary());
    }
    String::from_utf8(bytes).map_err(|_| binary())
}
