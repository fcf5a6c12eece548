//! Names of members and their comparison: case, white space, `-` and `_` are ignored; prefixes do not match.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::whitespace::is_space;

/// The name of a member, as spelled in its team file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberName(String);

impl MemberName {
    /// Creates a name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for MemberName {
    fn from(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl fmt::Display for MemberName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name in the form in which names are compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameKey(String);

impl NameKey {
    /// Returns the key of a name.
    ///
    /// ```
    /// use convoke_core::name::NameKey;
    /// assert_eq!(NameKey::new("Code-Reviewer"), NameKey::new("code reviewer"));
    /// ```
    pub fn new(name: &str) -> Self {
        let kept = name.chars().filter(|&c| !is_space(c) && c != '-' && c != '_');
        Self(kept.flat_map(char::to_lowercase).collect())
    }

    /// Returns the form in which names are compared.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the name means everyone else.
    pub fn is_all(&self) -> bool {
        self.0 == "all"
    }
}

/// Returns the candidate nearest to a text, if one is near enough.
pub fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let length = written.chars().count();
    let most = (length / 3).clamp(1, 3);
    // Lower-casing can lengthen a name.
    let is_similar = |name: &&str| name.chars().count().abs_diff(length) <= 2 * most;
    let letters = sorted_letters(written);
    let distances = candidates.into_iter().filter(is_similar).map(|name| {
        // Of equally near names, prefer the one with the same letters, then the one that the text is missing letters
        // from, then the one of the same length.
        let has_other_letters = sorted_letters(name) != letters;
        let has_other_length = name.chars().count() != length;
        let order = (has_other_letters, !is_within(written, name), has_other_length);
        (edit_distance(written, name), order, name)
    });
    let (.., name) = distances.filter(|&(distance, ..)| distance <= most).min()?;
    Some(name)
}

fn sorted_letters(text: &str) -> Vec<char> {
    let mut letters: Vec<char> = text.chars().flat_map(char::to_lowercase).collect();
    letters.sort_unstable();
    letters
}

/// Returns whether a name has all letters of a text, in the same order.
fn is_within(written: &str, name: &str) -> bool {
    let mut letters = name.chars();
    written.chars().all(|c| letters.any(|letter| letter == c))
}

/// Counts the insertions, removals, replacements and swaps of neighbours that turn one text into the
/// other.
fn edit_distance(a: &str, b: &str) -> usize {
    let letters = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<Vec<char>>();
    let (a, b) = (letters(a), letters(b));
    // The row above the last one is needed for swaps.
    let mut above: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let replaced = last[j] + usize::from(a[i] != b[j]);
            let mut least = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                least = least.min(above[j - 1] + 1);
            }
            row.push(least);
        }
        above = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// Returns a name as a word of a shell, for commands that a person can copy.
///
/// ```
/// use convoke_core::name::shell_word;
/// assert_eq!([shell_word("max"), shell_word("Sam B")], ["max", "'Sam B'"]);
/// ```
pub fn shell_word(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_only_in_what_is_compared() {
        for same in ["max", "MAX", " m a x ", "m-a_x", "\u{FEFF}max"] {
            assert_eq!(NameKey::new(same), NameKey::new("max"), "{same:?}");
        }
        for other in ["@max", "max.", "maxi", "ma", "máx"] {
            assert_ne!(NameKey::new(other), NameKey::new("max"), "{other:?}");
        }
    }

    #[test]
    fn of_equally_near_names_the_one_with_the_same_letters_or_length_is_meant() {
        assert_eq!(nearest("modle", ["mode", "model", "module"]), Some("model"));
        assert_eq!(nearest("Modle", ["mode", "model"]), Some("model"));
        assert_eq!(nearest("tern", ["ten", "turn"]), Some("turn"));
        assert_eq!(nearest("modl", ["mode", "model"]), Some("model"));
    }

    #[test]
    fn distances_count_what_a_hand_does_wrong() {
        for (a, b, distance) in [
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("same", "SAME", 0),
            ("sarha", "sarah", 1),
            ("asrha", "sarah", 2),
        ] {
            assert_eq!(edit_distance(a, b), distance, "{a} {b}");
        }
    }
}
