//! The size limit of each kind of file.
//!
//! A file over its limit is rejected before it is read ([`Files::read`](crate::Files::read)), which bounds the memory that
//! a project can claim. The limits are far above normal files, and above what the supported programs can use.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident = $limit:expr, $name:literal;)+) => {
        /// A kind of file that is read whole.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum FileKind {
            $($(#[doc = $doc])+ $kind,)+
        }

        impl FileKind {
            /// Every kind, the smallest limits first.
            pub const ALL: &'static [FileKind] = &[$(FileKind::$kind,)+];

            /// Returns the maximum size of this kind of file.
            pub const fn limit(self) -> u64 {
                match self { $(FileKind::$kind => $limit,)+ }
            }

            /// Returns the name of the kind, with its article.
            pub const fn name(self) -> &'static str {
                match self { $(FileKind::$kind => $name,)+ }
            }
        }
    };
}

kinds! {
    /// A file with a line or two for programs: `.git` as a file, `commondir`, a lock, a process's state.
    Pointer = 64 * KIB, "a file of one line";
    /// The part between `---` lines at the top of a file.
    FrontMatter = 64 * KIB, "front matter";
    /// A `.gitignore`.
    Gitignore = 128 * KIB, "a `.gitignore`";
    /// A file that a person attaches to a message.
    Attachment = 512 * KIB, "an attached file";
    /// A team file, `convoke.toml`.
    TeamFile = MIB, "a team file";
    /// A `.env`.
    Variables = MIB, "a file of variables";
    /// A file of command rules.
    CommandRules = MIB, "a file of command rules";
    /// A file that an agent reads or writes through Convoke.
    ClientFile = 4 * MIB, "a file that an agent reads or writes";
    /// A configuration or settings file.
    Configuration = 4 * MIB, "a configuration file";
    /// A `SKILL.md`.
    Skill = 4 * MIB, "a skill";
    /// A state file of a program: projects, approvals.
    State = 16 * MIB, "a state file";
    /// A file of instructions or of a text for a model: `AGENTS.md`, a file of a pack.
    Instructions = 16 * MIB, "a file of instructions";
    /// An image.
    Image = 64 * MIB, "an image";
    /// An input of a person: messages, a prompt, a script of answers.
    Input = 64 * MIB, "an input file";
    /// A file that a program recorded: a capture, a thread, a session.
    Record = 512 * MIB, "a recorded file";
}

/// A file that has more bytes than its kind may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooLarge {
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes, or more than `limit` when the size is not known.
    pub size: u64,
    /// The maximum number of bytes that it may have.
    pub limit: u64,
    pub kind: FileKind,
}

impl TooLarge {
    /// Returns the error of a read that was refused, if it was refused for its size.
    pub fn from_error(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

/// The path is left out, because callers add it to every error of a read.
impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size, limit, kind, .. } = self;
        write!(f, "too large: {size} bytes, and the limit for {} is {limit} bytes", kind.name())
    }
}

impl std::error::Error for TooLarge {}

impl From<TooLarge> for io::Error {
    fn from(refused: TooLarge) -> Self {
        io::Error::new(io::ErrorKind::FileTooLarge, refused)
    }
}

/// The maximum number of entries of a directory that are listed.
pub const MAX_ENTRIES: usize = 100_000;

/// A directory that has more entries than are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyEntries;

impl TooManyEntries {
    /// Returns the error of a listing that was refused, if it was refused for its size.
    pub fn from_error(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl fmt::Display for TooManyEntries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the directory has more than {MAX_ENTRIES} entries, the limit of a listing")
    }
}

impl std::error::Error for TooManyEntries {}

/// Collects the entries of a directory, unless there are more than a listing may have.
pub fn collect_entries<T>(entries: impl Iterator<Item = io::Result<T>>) -> io::Result<Vec<T>> {
    let entries: Vec<T> = entries.take(MAX_ENTRIES + 1).collect::<io::Result<_>>()?;
    if entries.len() > MAX_ENTRIES {
        return Err(io::Error::other(TooManyEntries));
    }
    Ok(entries)
}

/// Refuses a size over the limit of a kind.
pub fn check(path: &Path, kind: FileKind, size: u64) -> Result<(), TooLarge> {
    let limit = kind.limit();
    if size <= limit {
        return Ok(());
    }
    Err(TooLarge { path: path.to_owned(), size, limit, kind })
}

/// Reads a stream to its end. Fails if it is larger than the kind allows; the error calls the stream `name`.
pub fn read_stream(stream: impl Read, name: &Path, kind: FileKind) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    #[expect(clippy::disallowed_methods, reason = "a limit is taken")]
    stream.take(kind.limit() + 1).read_to_end(&mut bytes)?;
    check(name, kind, bytes.len() as u64)?;
    Ok(bytes)
}

/// Reads a file that the user names, which may be a pipe, within the limit of a kind.
pub fn read_named(path: &Path, kind: FileKind) -> io::Result<Vec<u8>> {
    read_stream(File::open(path)?, path, kind)
}

/// Reads a file of UTF-8 that the user names, within the limit of a kind.
pub fn read_named_text(path: &Path, kind: FileKind) -> io::Result<String> {
    text(read_named(path, kind)?)
}

/// Reads a stream of UTF-8 to its end, within the limit of a kind.
pub fn read_stream_text(stream: impl Read, name: &Path, kind: FileKind) -> io::Result<String> {
    text(read_stream(stream, name, kind)?)
}

pub(crate) fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the file is not valid UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_entries_are_asked_for_than_a_listing_may_have() {
        let listed = |count: usize| {
            let asked = std::cell::Cell::new(0);
            let entries = (0..count).inspect(|_| asked.set(asked.get() + 1)).map(Ok);
            (collect_entries(entries).map(|found| found.len()), asked.get())
        };
        assert_eq!(listed(MAX_ENTRIES).0.unwrap(), MAX_ENTRIES);
        let (refused, asked) = listed(10 * MAX_ENTRIES);
        assert!(refused.unwrap_err().to_string().contains("more than 100000 entries"));
        assert_eq!(asked, MAX_ENTRIES + 1);
    }
}
