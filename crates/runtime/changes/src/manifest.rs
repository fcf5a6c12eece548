//! The manifest: the recorded state of a directory, and the cache that makes the next scan cheap.
//!
//! It has what git's trees lack: all permission bits, empty directories, and times in nanoseconds. The
//! file is replaced whole and ends with a hash of its bytes; one that is damaged, missing or of another
//! version costs a new first copy and nothing else. States share the directories that did not change.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_files::limit::FileKind as ReadKind;
use convoke_files::{Disk, Files as _};
use rustix::fs::{FileType, Stat};
use sha2::{Digest as _, Sha256};

use crate::change::{Content, FileMode, Node, Oid};
use crate::error::ChangesError;
use crate::tree_path::TreePath;

/// The first bytes of the file; the digit is the version of the format.
const MAGIC: &[u8] = b"convoke manifest 2\n";
/// The bytes of the hash at the end of the file.
const HASH_BYTES: usize = 32;
/// The hash at the end of the file.
pub(crate) type ManifestHash = [u8; HASH_BYTES];
/// The permission bits of a mode.
pub(crate) const MODE_BITS: u32 = 0o7777;
/// The permission bits of every link.
pub(crate) const LINK_MODE: FileMode = 0o777;

/// The directories that are compared again, if only they may change unseen.
const SETTLED_DIRECTORIES: usize = 64;

/// A directory of two states.
type DirectoryPair<'a> = ((&'a TreePath, &'a Arc<Directory>), (&'a TreePath, &'a Arc<Directory>));

/// The recorded state of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// A hash of the ignore rules that lie outside the recorded directory or in the repositories in it.
    pub(crate) rules: [u8; 32],
    /// A hash of the stamps of the repositories' indexes.
    pub(crate) indexes: [u8; 32],
    /// The directories; the recorded one is empty of name. A manifest without it knows nothing.
    pub(crate) directories: BTreeMap<TreePath, Arc<Directory>>,
    /// The indexes of repositories that the scan could not read, so that files which they track may be missing. Not
    /// stored.
    pub(crate) unreadable_indexes: Vec<PathBuf>,
    /// Paths that a turn created and ignored itself, and that are too large to be recorded. Not stored.
    pub(crate) hidden: Vec<TreePath>,
}

/// A directory that is not ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Directory {
    pub(crate) mode: FileMode,
    pub(crate) stamp: Stamp,
    /// Whether a later change is certain to show in the stamp.
    pub(crate) settled: bool,
    /// Whether a repository has its root here.
    pub(crate) is_repository: bool,
    pub(crate) access: Access,
    pub(crate) files: BTreeMap<Vec<u8>, FileEntry>,
    pub(crate) directories: BTreeSet<Vec<u8>>,
    /// Entries that are not recorded.
    pub(crate) left_out: BTreeMap<Vec<u8>, LeftOut>,
}

/// Whether the entries of a directory could be looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Access {
    #[default]
    Open,
    /// They could not: the directory holds what was known of it before.
    Unreadable,
    /// They could, and no longer can, nor can anything change them before it opens the directory.
    Closed,
}

/// A file or a symbolic link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileEntry {
    pub(crate) kind: FileKind,
    pub(crate) mode: FileMode,
    pub(crate) size: u64,
    pub(crate) stamp: Stamp,
    /// Whether a later change is certain to show in the stamp.
    pub(crate) settled: bool,
    pub(crate) content: Content,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Regular,
    Link,
}

/// The reason why an entry is not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeftOut {
    /// A file or a link that git ignores.
    IgnoredFile,
    /// A directory that git ignores.
    IgnoredDirectory,
    /// A pipe, a socket or a device.
    Special,
    /// An entry whose status could not be read.
    Unreadable,
}

impl LeftOut {
    pub(crate) fn ignored(is_directory: bool) -> Self {
        if is_directory { Self::IgnoredDirectory } else { Self::IgnoredFile }
    }

    pub(crate) fn is_ignored(self) -> bool {
        matches!(self, Self::IgnoredFile | Self::IgnoredDirectory)
    }
}

/// The part of a file's status that changes with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) inode: u64,
    pub(crate) modified: i128,
    pub(crate) changed: i128,
}

const NANOSECONDS: i128 = 1_000_000_000;

impl Stamp {
    pub(crate) fn from_metadata(metadata: &std::fs::Metadata) -> Self {
        let time = |seconds: i64, nanoseconds: i64| {
            i128::from(seconds) * NANOSECONDS + i128::from(nanoseconds)
        };
        Self {
            inode: metadata.ino(),
            modified: time(metadata.mtime(), metadata.mtime_nsec()),
            changed: time(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    pub(crate) fn of_stat(stat: &Stat) -> Self {
        let time = |seconds: i128, nanoseconds: i128| seconds * NANOSECONDS + nanoseconds;
        Self {
            inode: stat.st_ino,
            modified: time(stat.st_mtime.into(), stat.st_mtime_nsec.into()),
            changed: time(stat.st_ctime.into(), stat.st_ctime_nsec.into()),
        }
    }

    /// Returns whether this is another file of that name that was moved here, with the content that it had. A later write
    /// alters the time of the last write, because the move came after that.
    pub(crate) fn is_moved(&self, staged: &Self) -> bool {
        self.is_written_as(staged) && self.changed > self.modified
    }

    /// Returns whether this is the same file with the same time of its last write.
    pub(crate) fn is_written_as(&self, other: &Self) -> bool {
        (self.inode, self.modified) == (other.inode, other.modified)
    }

    /// Returns whether every later change will alter the stamp, seen from a time in nanoseconds: clocks of
    /// file systems advance in steps of some milliseconds, of coarse ones in seconds.
    pub(crate) fn is_settled(&self, now: i128) -> bool {
        let step = if self.changed % NANOSECONDS == 0 { 2 * NANOSECONDS } else { NANOSECONDS / 10 };
        self.changed + step < now
    }
}

impl Directory {
    /// Returns whether a status is that of this directory with the same names in it.
    pub(crate) fn has_status(&self, stat: &Stat) -> bool {
        self.settled && self.stamp == Stamp::of_stat(stat) && self.mode == mode_of(stat)
    }
}

impl Directory {
    /// Returns the directory with another's marks of what is settled.
    fn with_marks_of(&self, other: &Self) -> Self {
        let mut marked = Self { settled: other.settled, ..self.clone() };
        for (name, entry) in &mut marked.files {
            entry.settled = other.files.get(name).is_some_and(|other| other.settled);
        }
        marked
    }
}

impl FileEntry {
    /// Returns whether a status is that of this file with the same content.
    pub(crate) fn has_status(&self, stat: &Stat) -> bool {
        let is_kind = match (self.kind, FileType::from_raw_mode(stat.st_mode)) {
            (FileKind::Regular, FileType::RegularFile) => self.mode == mode_of(stat),
            (FileKind::Link, FileType::Symlink) => true,
            _ => false,
        };
        let has_size = u64::try_from(stat.st_size).is_ok_and(|size| size == self.size);
        self.settled && is_kind && has_size && self.stamp == Stamp::of_stat(stat)
    }

    /// Returns whether another entry differs at most in its permissions, by its status.
    fn has_data_of(&self, other: &Self) -> bool {
        let data = |it: &Self| (it.kind, it.size, it.stamp.inode, it.stamp.modified);
        data(self) == data(other)
    }

    /// Returns whether two entries have the same kind, mode and content.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        if self.kind != other.kind || self.mode != other.mode || self.size != other.size {
            return false;
        }
        match (self.content.oid(), other.content.oid()) {
            (Some(one), Some(another)) => one == another,
            _ => self.stamp == other.stamp,
        }
    }
}

fn mode_of(stat: &Stat) -> FileMode {
    FileMode::from(stat.st_mode) & MODE_BITS
}

impl Manifest {
    /// Returns whether this is the state of a directory, and not a missing or damaged file.
    pub(crate) fn is_known(&self) -> bool {
        !self.directories.is_empty()
    }

    /// Returns the part of the state that its file has.
    pub(crate) fn stored(&self) -> Self {
        Self { unreadable_indexes: Vec::new(), hidden: Vec::new(), ..self.clone() }
    }

    /// Returns whether an earlier state differs from this one at most in the marks of what is settled, and in a few directories:
    /// then it is as good, at the cost of reading a few files once more.
    pub(crate) fn is_settled_form_of(&self, earlier: &Self) -> bool {
        let is_alike = (self.rules, self.indexes) == (earlier.rules, earlier.indexes)
            && self.directories.len() == earlier.directories.len();
        if !is_alike {
            return false;
        }
        let pairs = self.directories.iter().zip(&earlier.directories);
        let mut differ = pairs.filter(|((_, new), (_, old))| !Arc::ptr_eq(new, old) && new != old);
        let has_same = |((path, new), (known, old)): &DirectoryPair<'_>| {
            path == known && new.with_marks_of(old) == ***old
        };
        differ.by_ref().take(SETTLED_DIRECTORIES).all(|pair| has_same(&pair))
            && differ.next().is_none()
    }

    /// Returns the number of files and directories.
    pub(crate) fn len(&self) -> u64 {
        self.directories.values().map(|directory| 1 + directory.files.len() as u64).sum()
    }

    /// Returns a file.
    pub(crate) fn file_mut(&mut self, path: &TreePath) -> Option<&mut FileEntry> {
        let directory = self.directories.get_mut(&path.parent()?)?;
        if directory.files.contains_key(path.name()) {
            Arc::make_mut(directory).files.get_mut(path.name())
        } else {
            None
        }
    }

    /// Forgets a file that went away.
    pub(crate) fn remove_file(&mut self, path: &TreePath) {
        let parent = path.parent().and_then(|parent| self.directories.get_mut(&parent));
        if let Some(parent) = parent.filter(|parent| parent.files.contains_key(path.name())) {
            let parent = Arc::make_mut(parent);
            parent.files.remove(path.name());
            parent.settled = false;
        }
    }

    /// Returns what is known of a path; `None` if there is nothing.
    pub(crate) fn node(&self, path: &TreePath) -> Option<Node> {
        if let Some(directory) = self.directories.get(path) {
            return Some(Node::of_directory(directory));
        }
        self.entry(path).map(Node::of_file)
    }

    /// Returns what is known of a file.
    pub(crate) fn entry(&self, path: &TreePath) -> Option<&FileEntry> {
        self.directories.get(&path.parent()?)?.files.get(path.name())
    }

    /// Takes the contents of files that cannot be read from an earlier state, if only their permissions changed since.
    pub(crate) fn inherit(&mut self, earlier: &Self) {
        let mut inherited = Vec::new();
        for (path, directory) in &self.directories {
            let Some(known) = earlier.directories.get(path) else { continue };
            let files = directory.files.iter().filter(|(_, it)| it.content == Content::Unreadable);
            inherited.extend(files.filter_map(|(name, entry)| {
                let known = known.files.get(name).filter(|known| known.has_data_of(entry))?;
                known.content.oid().map(|_| (path.join(name), known.content))
            }));
        }
        for (path, content) in inherited {
            if let Some(entry) = self.file_mut(&path) {
                entry.content = content;
            }
        }
    }

    /// Returns every file with its path.
    pub(crate) fn files(&self) -> impl Iterator<Item = (TreePath, &FileEntry)> {
        self.directories.iter().flat_map(|(path, directory)| {
            directory.files.iter().map(move |(name, entry)| (path.join(name), entry))
        })
    }

    /// Returns what could not be read below the recorded directory or about it, so that changes may be missing.
    pub(crate) fn unreadable(&self, root: &Path) -> Vec<String> {
        let directories = self.directories.iter().flat_map(|(path, directory)| {
            let left_out = directory.left_out.iter();
            let unreadable = left_out.filter(|(_, left_out)| **left_out == LeftOut::Unreadable);
            let entries = unreadable.map(|(name, _)| path.join(name).to_string());
            entries.chain((directory.access == Access::Unreadable).then(|| path.to_string()))
        });
        let indexes = self.unreadable_indexes.iter();
        let indexes = indexes.map(|index| index.strip_prefix(root).unwrap_or(index));
        directories.chain(indexes.map(|index| index.display().to_string())).collect()
    }

    /// Reads the manifest at a path. One that is missing or damaged is empty.
    pub(crate) fn load(path: &Path) -> Result<Self, ChangesError> {
        match Disk.read(path, ReadKind::Record) {
            Ok(bytes) => Ok(decode(&bytes).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(ChangesError::io(path)(error)),
        }
    }

    /// Returns the bytes of the file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256 + 120 * usize::try_from(self.len()).unwrap_or(0));
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&self.rules);
        out.extend_from_slice(&self.indexes);
        number(&mut out, self.directories.len() as u64);
        for (path, directory) in &self.directories {
            bytes(&mut out, path.as_bytes());
            number(&mut out, u64::from(directory.mode));
            stamp(&mut out, &directory.stamp);
            let access = match directory.access {
                Access::Open => 0,
                Access::Unreadable => 1 << 2,
                Access::Closed => 2 << 2,
            };
            let is_repository = u8::from(directory.is_repository) << 1;
            out.push(u8::from(directory.settled) | is_repository | access);
            number(&mut out, directory.files.len() as u64);
            for (name, entry) in &directory.files {
                bytes(&mut out, name);
                file(&mut out, entry);
            }
            number(&mut out, directory.directories.len() as u64);
            for name in &directory.directories {
                bytes(&mut out, name);
            }
            number(&mut out, directory.left_out.len() as u64);
            for (name, left_out) in &directory.left_out {
                bytes(&mut out, name);
                out.push(match left_out {
                    LeftOut::IgnoredFile => 0,
                    LeftOut::Special => 1,
                    LeftOut::Unreadable => 2,
                    LeftOut::IgnoredDirectory => 3,
                });
            }
        }
        let hash = Sha256::digest(&out);
        out.extend_from_slice(&hash);
        out
    }
}

/// Reads the hash at the end of a manifest's file.
pub(crate) fn manifest_hash(path: &Path) -> Option<ManifestHash> {
    let mut file = File::open(path).ok()?;
    let mut hash = [0; HASH_BYTES];
    file.seek(SeekFrom::End(-i64::try_from(HASH_BYTES).ok()?)).ok()?;
    file.read_exact(&mut hash).ok()?;
    Some(hash)
}

/// Writes a number, seven bits a byte, the lowest first.
fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "seven bits")]
    out.push(value as u8);
}

fn bytes(out: &mut Vec<u8>, value: &[u8]) {
    number(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn stamp(out: &mut Vec<u8>, stamp: &Stamp) {
    number(out, stamp.inode);
    out.extend_from_slice(&stamp.modified.to_le_bytes()[..12]);
    out.extend_from_slice(&stamp.changed.to_le_bytes()[..12]);
}

fn file(out: &mut Vec<u8>, entry: &FileEntry) {
    let (content, oid) = match entry.content {
        Content::Stored(oid) => (0, Some(oid)),
        Content::HashOnly(oid) => (1, Some(oid)),
        Content::Pending => (2, None),
        Content::Unreadable => (3, None),
    };
    let is_link = u8::from(entry.kind == FileKind::Link);
    out.push(content | is_link << 2 | u8::from(entry.settled) << 3);
    number(out, u64::from(entry.mode));
    number(out, entry.size);
    stamp(out, &entry.stamp);
    if let Some(oid) = oid {
        out.extend_from_slice(&oid.0);
    }
}

/// The rest of the bytes that are being read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }

    fn mode(&mut self) -> Option<FileMode> {
        u32::try_from(self.number()?).ok()
    }

    fn time(&mut self) -> Option<i128> {
        let taken = self.take(12)?;
        let sign = if taken[11] & 0x80 == 0 { 0 } else { 0xff };
        let mut bytes = [sign; 16];
        bytes[..12].copy_from_slice(taken);
        Some(i128::from_le_bytes(bytes))
    }

    fn stamp(&mut self) -> Option<Stamp> {
        Some(Stamp { inode: self.number()?, modified: self.time()?, changed: self.time()? })
    }

    fn file(&mut self) -> Option<FileEntry> {
        let flags = self.byte()?;
        let (mode, size, stamp) = (self.mode()?, self.number()?, self.stamp()?);
        let content = match flags & 3 {
            0 => Content::Stored(self.oid()?),
            1 => Content::HashOnly(self.oid()?),
            2 => Content::Pending,
            _ => Content::Unreadable,
        };
        let kind = if flags & 4 == 0 { FileKind::Regular } else { FileKind::Link };
        Some(FileEntry { kind, mode, size, stamp, settled: flags & 8 != 0, content })
    }

    fn oid(&mut self) -> Option<Oid> {
        self.take(20)?.try_into().ok().map(Oid)
    }

    fn directory(&mut self) -> Option<Directory> {
        let (mode, stamp, flags) = (self.mode()?, self.stamp()?, self.byte()?);
        Some(Directory {
            mode,
            stamp,
            settled: flags & 1 != 0,
            is_repository: flags & 2 != 0,
            access: match flags >> 2 {
                0 => Access::Open,
                1 => Access::Unreadable,
                2 => Access::Closed,
                _ => return None,
            },
            files: self.list(|input| Some((input.bytes()?.to_vec(), input.file()?)))?,
            directories: self.list(|input| input.bytes().map(<[u8]>::to_vec))?,
            left_out: self.list(|input| Some((input.bytes()?.to_vec(), input.left_out()?)))?,
        })
    }

    fn left_out(&mut self) -> Option<LeftOut> {
        Some(match self.byte()? {
            0 => LeftOut::IgnoredFile,
            1 => LeftOut::Special,
            2 => LeftOut::Unreadable,
            3 => LeftOut::IgnoredDirectory,
            _ => return None,
        })
    }

    /// Reads a number of items.
    fn list<T, C: FromIterator<T>>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<C> {
        let count = self.number()?;
        (0..count).map(|_| item(self)).collect()
    }
}

fn decode(bytes: &[u8]) -> Option<Manifest> {
    let (body, hash) = bytes.split_at_checked(bytes.len().checked_sub(HASH_BYTES)?)?;
    let mut input = Input(body.strip_prefix(MAGIC)?);
    if Sha256::digest(body).as_slice() != hash {
        return None;
    }
    let rules = input.take(32)?.try_into().ok()?;
    let indexes = input.take(32)?.try_into().ok()?;
    let directories = input.list(|input| {
        let path = TreePath::new(input.bytes()?);
        Some((path, Arc::new(input.directory()?)))
    })?;
    let manifest = Manifest { rules, indexes, directories, ..Manifest::default() };
    input.0.is_empty().then_some(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read_as_it_was_written_and_never_in_part() {
        let stamp = Stamp { inode: 1 << 40, modified: -5, changed: 1_800_000_000_123_456_789 };
        let file = |content, kind| FileEntry {
            kind,
            mode: 0o4755,
            size: 300,
            stamp,
            settled: true,
            content,
        };
        let root = Directory {
            mode: 0o1777,
            stamp,
            settled: true,
            is_repository: true,
            access: Access::Closed,
            files: [
                (b"a\n".to_vec(), file(Content::Stored(Oid([7; 20])), FileKind::Regular)),
                (b"b".to_vec(), file(Content::HashOnly(Oid([8; 20])), FileKind::Regular)),
                (b"c".to_vec(), file(Content::Pending, FileKind::Link)),
                (b"d".to_vec(), file(Content::Unreadable, FileKind::Regular)),
            ]
            .into(),
            directories: [b"\xff".to_vec()].into(),
            left_out: [
                (b"w".to_vec(), LeftOut::Unreadable),
                (b"x".to_vec(), LeftOut::Special),
                (b"y".to_vec(), LeftOut::IgnoredFile),
                (b"z".to_vec(), LeftOut::IgnoredDirectory),
            ]
            .into(),
        };
        let below = (TreePath::new(b"\xff"), Directory::default().into());
        let directories = [(TreePath::default(), root.into()), below].into();
        let (rules, indexes) = ([3; 32], [4; 32]);
        let manifest = Manifest { rules, indexes, directories, ..Manifest::default() };
        let bytes = manifest.encode();
        assert_eq!(decode(&bytes).as_ref(), Some(&manifest));
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end]), None, "{end}");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(decode(&damaged), None, "{at}");
        }
    }
}
