//! Paths below a recorded directory, as bytes.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Marks the hexadecimal form of a path that is not UTF-8. No path contains a NUL.
const HEX: &str = "\0hex:";

/// A path below a recorded directory: names joined by `/`; the directory itself is empty.
///
/// Names are arbitrary bytes. [`fmt::Display`] quotes a path as git does, if it has control characters, quotes, backslashes
/// or bytes that are not UTF-8, and one with a space: no two paths look the same, the end of a name shows, and no name can
/// disturb a terminal or a line-based output.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreePath(Vec<u8>);

impl TreePath {
    /// Creates a path from its bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the path as text, with a replacement character for what is not UTF-8.
    pub fn to_lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    /// Returns whether this is the directory itself.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the path of an entry of this directory.
    #[must_use]
    pub fn join(&self, name: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.len());
        bytes.extend_from_slice(&self.0);
        if !bytes.is_empty() && !name.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        Self(bytes)
    }

    /// Returns the directory that has this entry; `None` for the recorded directory itself.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let end = self.0.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        Some(Self(self.0[..end].to_vec()))
    }

    /// Returns the last name.
    pub fn name(&self) -> &[u8] {
        self.0.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
    }

    /// Returns every directory above this path, the nearest first, ending with the recorded directory.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(self.parent(), Self::parent)
    }

    /// Returns whether this path lies below a directory.
    pub fn is_below(&self, directory: &Self) -> bool {
        self.below(directory).is_some()
    }

    /// Returns the names of this path below a directory; `None` if it does not lie there.
    pub(crate) fn below(&self, directory: &Self) -> Option<&[u8]> {
        if directory.is_root() {
            return Some(self.as_bytes()).filter(|_| !self.is_root());
        }
        self.0.strip_prefix(directory.as_bytes())?.strip_prefix(b"/")
    }

    /// Returns the number of names.
    pub fn depth(&self) -> usize {
        self.0.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).count()
    }

    /// Returns the path in the file system.
    pub fn under(&self, root: &Path) -> PathBuf {
        if self.is_root() { root.to_owned() } else { root.join(OsStr::from_bytes(&self.0)) }
    }

    /// Returns whether the path consists of ordinary names: none empty, `.`, `..` or `.git`.
    pub fn is_safe(&self) -> bool {
        let is_ordinary = |name: &[u8]| {
            !name.is_empty()
                && name != b"."
                && name != b".."
                && !name.eq_ignore_ascii_case(b".git")
                && !name.contains(&0)
        };
        self.0.split(|&byte| byte == b'/').all(is_ordinary)
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_special = |character: char| {
            character.is_control() || character.is_whitespace() || matches!(character, '"' | '\\')
        };
        match str::from_utf8(&self.0) {
            Ok(text) if !text.contains(is_special) => return f.write_str(text),
            _ => {}
        }
        f.write_str("\"")?;
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '\n' => f.write_str("\\n")?,
                    '\t' => f.write_str("\\t")?,
                    '\r' => f.write_str("\\r")?,
                    '"' | '\\' => write!(f, "\\{character}")?,
                    _ if character.is_control() => {
                        let mut buffer = [0; 4];
                        for byte in character.encode_utf8(&mut buffer).bytes() {
                            write!(f, "\\{byte:03o}")?;
                        }
                    }
                    _ => write!(f, "{character}")?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\{byte:03o}")?;
            }
        }
        f.write_str("\"")
    }
}

impl Serialize for TreePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.serialize_str(&format!("{HEX}{}", hex(&self.0))),
        }
    }
}

impl<'de> Deserialize<'de> for TreePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.strip_prefix(HEX) {
            None => Ok(Self(text.into_bytes())),
            Some(digits) => {
                unhex(digits).map(Self).ok_or_else(|| D::Error::custom("invalid hexadecimal path"))
            }
        }
    }
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    bytes.iter().flat_map(|&byte| [digit(byte >> 4), digit(byte)]).collect()
}

/// Parses hexadecimal digits.
pub(crate) fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = digits
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_survive_json() {
        for bytes in [&b"a/b"[..], b"a\nb", b"\xff\xfe/x", b"\\x00"] {
            let path = TreePath::new(bytes);
            let json = serde_json::to_string(&path).unwrap();
            assert_eq!(serde_json::from_str::<TreePath>(&json).unwrap(), path);
        }
    }

    #[test]
    fn a_name_cannot_break_a_line() {
        let path = TreePath::new(b"a\nb\x1b[31m\xff");
        assert_eq!(path.to_string(), "\"a\\nb\\033[31m\\377\"");
    }

    #[test]
    fn no_two_paths_look_the_same() {
        for (path, shown) in [
            ("a/b", "a/b"),
            ("a\nb", "\"a\\nb\""),
            ("a\\nb", "\"a\\\\nb\""),
            ("x +1 −0", "\"x +1 −0\""),
            ("end ", "\"end \""),
            ("\"a\"", "\"\\\"a\\\"\""),
            ("größe", "größe"),
        ] {
            assert_eq!(TreePath::new(path).to_string(), shown);
        }
    }

    #[test]
    fn paths_relate_by_whole_names() {
        let path = TreePath::new(b"a/b/c");
        assert!(path.is_below(&TreePath::new(b"a/b")) && path.is_below(&TreePath::default()));
        assert!(!path.is_below(&TreePath::new(b"a/b/")) && !path.is_below(&path));
        let above: Vec<String> = path.ancestors().map(|path| path.to_string()).collect();
        assert_eq!(above, ["a/b", "a", ""]);
    }

    #[test]
    fn only_ordinary_names_are_safe() {
        for bad in [&b"../x"[..], b"/x", b"a//b", b".git/config", b"a/.GIT/x", b""] {
            assert!(!TreePath::new(bad).is_safe(), "{bad:?}");
        }
        assert!(TreePath::new(b"a/..b/.gitignore").is_safe());
    }
}
