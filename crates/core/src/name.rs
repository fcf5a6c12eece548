//! How names are compared: lower-cased, without white space, `-` and `_`, and never by prefix.

use crate::whitespace::is_space;

/// A name in the form in which names are compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameKey(String);

impl NameKey {
    /// Returns the key of a name as somebody wrote it.
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

    /// Tells whether this name stands for everyone else.
    pub fn is_all(&self) -> bool {
        self.0 == "all"
    }
}

/// Returns the candidate that is nearest to what was written, if any is near enough to be meant.
///
/// ```
/// use convoke_core::name::nearest;
/// assert_eq!(nearest("windw", ["window", "fence"]), Some("window"));
/// assert_eq!(nearest("colour", ["window", "fence"]), None);
/// ```
pub fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let most = (written.chars().count() / 3).clamp(1, 3);
    let distances = candidates.into_iter().map(|name| (edit_distance(written, name), name));
    let (_, name) = distances.filter(|&(distance, _)| distance <= most).min()?;
    Some(name)
}

/// Counts the insertions, removals and replacements that turn one text into the other.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().flat_map(char::to_lowercase).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().flat_map(char::to_lowercase).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
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
    fn distances_are_those_of_levenshtein() {
        for (a, b, distance) in [("", "abc", 3), ("kitten", "sitting", 3), ("same", "SAME", 0)] {
            assert_eq!(edit_distance(a, b), distance, "{a} {b}");
        }
    }
}
