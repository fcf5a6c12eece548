//! The paths in the index of a user's repository, read without starting a program in it.
//!
//! A tracked file is recorded even if a pattern ignores it. Of an index that cannot be read nothing is known: such files are
//! left out then, which the record of the turn says.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use convoke_files::limit::FileKind;
use convoke_files::{Disk, Files as _};

use crate::change::Oid;
use crate::manifest::{FileEntry, FileKind as FileType, Stamp};
use crate::tree_path::hex;

/// The maximum number of bytes of all paths. Version 4 stores a path as its difference from the one before, so that a
/// small index can name any number of bytes.
const MAX_BYTES: usize = 64 << 20;

/// The paths of an index, sorted.
#[derive(Debug, Default)]
pub(crate) struct TrackedPaths(Vec<Vec<u8>>);

impl TrackedPaths {
    /// Reads the index of a repository. `None` if it cannot be read, is too large, or has an unknown format; a repository
    /// without an index tracks nothing.
    pub(crate) fn load(git_dir: &Path, names: ObjectNames) -> Option<Self> {
        let index = match Disk.read(&git_dir.join("index"), FileKind::Input) {
            Ok(bytes) => parse(&bytes, names)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Index::default(),
            Err(_) => return None,
        };
        let mut entries = index.entries;
        if let Some(shared) = index.shared {
            // The part that does not change is in another file. What was removed of it since counts as tracked.
            let shared = git_dir.join(format!("sharedindex.{shared}"));
            let bytes = Disk.read(&shared, FileKind::Input).ok()?;
            entries.extend(parse(&bytes, names)?.entries);
        }
        let mut paths: Vec<Vec<u8>> = entries.into_iter().map(|(path, _)| path).collect();
        paths.sort_unstable();
        Some(Self(paths))
    }

    pub(crate) fn contains(&self, path: &[u8]) -> bool {
        self.0.binary_search_by(|tracked| tracked.as_slice().cmp(path)).is_ok()
    }

    /// Returns whether a path below a directory is tracked.
    pub(crate) fn contains_below(&self, directory: &[u8]) -> bool {
        let prefix = [directory, b"/"].concat();
        let from = self.0.partition_point(|tracked| *tracked < prefix);
        self.0.get(from).is_some_and(|tracked| tracked.starts_with(&prefix))
    }
}

/// The entries of an index, with the status and the object of each file.
#[derive(Debug)]
pub(crate) struct TrackedFiles {
    bytes: Vec<u8>,
    /// Where the entry of each path begins.
    entries: HashMap<Vec<u8>, usize>,
    /// The time at which the index was written. A file that changed later, or at that time, may differ from its entry.
    written: i128,
}

impl TrackedFiles {
    /// Reads the index of a repository.
    pub(crate) fn load(git_dir: &Path) -> Option<Self> {
        let index = git_dir.join("index");
        let written = Stamp::from_metadata(&std::fs::metadata(&index).ok()?).modified;
        let bytes = Disk.read(&index, FileKind::Input).ok()?;
        let entries = parse(&bytes, ObjectNames::Sha1)?.entries.into_iter().collect();
        Some(Self { bytes, entries, written })
    }

    /// Returns the object of a file that may have its content, and how the index knows the file.
    pub(crate) fn content(&self, path: &[u8], file: &FileEntry) -> Option<(Oid, Known)> {
        let at = *self.entries.get(path)?;
        let number = |offset: usize| u32_at(&self.bytes, at + offset);
        let time = |offset: usize| {
            Some(i128::from(number(offset)?) * NANOSECONDS + i128::from(number(offset + 4)?))
        };
        let flags = self.bytes.get(at + 60..at + FIXED)?;
        let kind = match number(24)? >> 12 {
            0o10 => FileType::Regular,
            0o12 => FileType::Link,
            _ => return None,
        };
        // One that git does not compare, or of an unfinished merge, says nothing.
        let is_plain = flags[0] & (ASSUMED | EXTENDED | STAGES) == 0;
        if !is_plain || kind != file.kind || u64::from(number(36)?) != file.size {
            return None;
        }
        let oid = self.bytes.get(at + 40..at + 60)?.try_into().ok().map(Oid)?;
        let Stamp { inode, modified, changed } = file.stamp;
        // Archives and copies may keep the seconds alone.
        let (written, is_whole) = (time(8)?, modified % NANOSECONDS == 0);
        let has_time =
            modified == written || is_whole && modified / NANOSECONDS == written / NANOSECONDS;
        let has_status = modified == written
            && time(0)? == changed
            && u64::from(number(20)?) == inode & u64::from(u32::MAX);
        let known = match modified < self.written {
            true if has_status => Known::Status,
            true if has_time => Known::Time,
            _ => Known::Size,
        };
        Some((oid, known))
    }
}

/// The evidence by which an index recognises a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// By its status: it has not changed since.
    Status,
    /// By its size and the time of its last change: it was copied with its time, or its time was set.
    Time,
    /// By its size alone.
    Size,
}

const NANOSECONDS: i128 = 1_000_000_000;
/// The bytes of an entry before its path.
const FIXED: usize = 62;
/// The flags of an entry: not compared with its file, more flags follow, and the stages of a merge.
const ASSUMED: u8 = 0x80;
const EXTENDED: u8 = 0x40;
const STAGES: u8 = 0x30;

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes)
}

/// The names of objects in a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectNames {
    Sha1,
    Sha256,
}

impl ObjectNames {
    fn bytes(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }
}

/// The parts of an index that are read.
#[derive(Debug, Default)]
struct Index {
    /// The paths, and where their entries begin.
    entries: Vec<(Vec<u8>, usize)>,
    /// The name of the index that this one is split from.
    shared: Option<String>,
}

/// Parses an index of version 2, 3 or 4.
fn parse(bytes: &[u8], names: ObjectNames) -> Option<Index> {
    let fixed = FIXED - ObjectNames::Sha1.bytes() + names.bytes();
    let u32_at = |at: usize| u32_at(bytes, at);
    if !bytes.starts_with(b"DIRC") {
        return None;
    }
    let version = u32_at(4).filter(|version| (2..=4).contains(version))?;
    let count = u32_at(8)?;
    let mut paths: Vec<(Vec<u8>, usize)> = Vec::new();
    let mut left = MAX_BYTES;
    let mut at = 12;
    for _ in 0..count {
        let flags = bytes.get(at + fixed - 2..at + fixed)?;
        let is_extended = flags[0] & EXTENDED != 0 && version >= 3;
        let name_at = at + fixed + if is_extended { 2 } else { 0 };
        if version == 4 {
            let (removed, name_at) = offset(bytes, name_at)?;
            let length = bytes.get(name_at..)?.iter().position(|&byte| byte == 0)?;
            let last = paths.last().map_or(&[][..], |(path, _)| path.as_slice());
            let kept = last.len().checked_sub(removed)?;
            left = left.checked_sub(kept + length)?;
            paths.push(([&last[..kept], &bytes[name_at..name_at + length]].concat(), at));
            at = name_at + length + 1;
        } else {
            let length = bytes.get(name_at..)?.iter().position(|&byte| byte == 0)?;
            paths.push((bytes[name_at..name_at + length].to_vec(), at));
            // One to eight NULs pad an entry to a multiple of eight bytes.
            at += (name_at - at + length) / 8 * 8 + 8;
        }
    }
    Some(Index { entries: paths, shared: shared_index(bytes, at, names) })
}

/// Finds the extension that names the index which this one is split from, after the entries.
fn shared_index(bytes: &[u8], mut at: usize, names: ObjectNames) -> Option<String> {
    let end = bytes.len().checked_sub(names.bytes())?;
    while at + 8 <= end {
        let length = usize::try_from(u32_at(bytes, at + 4)?).ok()?;
        if bytes.get(at..at + 4)? == b"link" {
            let name = bytes.get(at + 8..at + 8 + names.bytes())?;
            return name.iter().any(|&byte| byte != 0).then(|| hex(name));
        }
        at = at.checked_add(8)?.checked_add(length)?;
    }
    None
}

/// Parses the number of bytes that version 4 removes from the previous path.
fn offset(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *bytes.get(at)?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        at += 1;
        byte = *bytes.get(at)?;
        value = (value.checked_add(1)?).checked_mul(128)? + usize::from(byte & 0x7f);
    }
    Some((value, at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an index of version 4: a long path, then paths that add a byte to the one before.
    fn index(length: usize, more: u32) -> Vec<u8> {
        let mut bytes = b"DIRC\0\0\0\x04".to_vec();
        bytes.extend_from_slice(&(more + 1).to_be_bytes());
        let mut entry = |name: &[u8]| {
            bytes.extend_from_slice(&[0; 62]);
            // Nothing is removed from the path before.
            bytes.push(0);
            bytes.extend_from_slice(name);
            bytes.push(0);
        };
        entry(&vec![b'a'; length]);
        for _ in 0..more {
            entry(b"b");
        }
        bytes
    }

    #[test]
    fn a_small_index_cannot_name_any_number_of_bytes() {
        let paths = parse(&index(3, 2), ObjectNames::Sha1).unwrap().entries;
        let paths: Vec<&[u8]> = paths.iter().map(|(path, _)| path.as_slice()).collect();
        assert_eq!(paths, [&b"aaa"[..], b"aaab", b"aaabb"]);
        let bomb = index(1 << 20, 100);
        assert!(bomb.len() < 2 << 20);
        assert!(parse(&bomb, ObjectNames::Sha1).is_none());
    }
}
