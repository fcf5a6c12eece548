//! The paths in the index of a user's repository, read without starting a program in it.
//!
//! A tracked file is recorded even if a pattern ignores it. Of an index that cannot be read nothing is known: such files are
//! left out then, which the record of the turn says.

use std::io;
use std::path::Path;

use convoke_files::limit::FileKind;
use convoke_files::{Disk, Files as _};

/// The most bytes of all paths. Version 4 stores a path as its difference from the one before, so that a small index
/// can name any number of bytes.
const MOST_BYTES: usize = 64 << 20;

/// The paths of an index, sorted.
#[derive(Debug, Default)]
pub(crate) struct TrackedPaths(Vec<Vec<u8>>);

impl TrackedPaths {
    /// Reads the index of a repository. `None` if it cannot be read, is too large, or has an unknown format; a repository
    /// without an index tracks nothing.
    pub(crate) fn load(git_dir: &Path) -> Option<Self> {
        let mut paths = match Disk.read(&git_dir.join("index"), FileKind::Input) {
            Ok(bytes) => parse(&bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(_) => return None,
        };
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

/// Parses the entries of an index of version 2, 3 or 4.
fn parse(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    const FIXED: usize = 62;
    let u32_at = |at: usize| {
        bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes)
    };
    if !bytes.starts_with(b"DIRC") {
        return None;
    }
    let version = u32_at(4).filter(|version| (2..=4).contains(version))?;
    let count = u32_at(8)?;
    let mut paths: Vec<Vec<u8>> = Vec::new();
    let mut left = MOST_BYTES;
    let mut at = 12;
    for _ in 0..count {
        let flags = bytes.get(at + 60..at + FIXED)?;
        let is_extended = flags[0] & 0x40 != 0 && version >= 3;
        let name_at = at + FIXED + if is_extended { 2 } else { 0 };
        if version == 4 {
            let (removed, name_at) = offset(bytes, name_at)?;
            let length = bytes.get(name_at..)?.iter().position(|&byte| byte == 0)?;
            let last = paths.last().map_or(&[][..], Vec::as_slice);
            let kept = last.len().checked_sub(removed)?;
            left = left.checked_sub(kept + length)?;
            paths.push([&last[..kept], &bytes[name_at..name_at + length]].concat());
            at = name_at + length + 1;
        } else {
            let length = bytes.get(name_at..)?.iter().position(|&byte| byte == 0)?;
            paths.push(bytes[name_at..name_at + length].to_vec());
            // One to eight NULs pad an entry to a multiple of eight bytes.
            at += (name_at - at + length) / 8 * 8 + 8;
        }
    }
    Some(paths)
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
        let paths = parse(&index(3, 2)).unwrap();
        assert_eq!(paths, [&b"aaa"[..], b"aaab", b"aaabb"]);
        let bomb = index(1 << 20, 100);
        assert!(bomb.len() < 2 << 20);
        assert!(parse(&bomb).is_none());
    }
}
