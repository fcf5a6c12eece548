//! The path patterns of Claude Code: globs of whole paths, and lines as in a `.gitignore`.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Globs that are compared with whole paths: `*`, `**`, `?`, brackets and braces. A leading dot is not special.
#[derive(Debug, Default)]
pub struct Globs {
    set: GlobSet,
    /// The index of each compiled glob.
    compiled: Vec<usize>,
    /// A pattern always matches itself.
    written: HashMap<String, usize>,
    /// Negated globs, in order, each with its position in the set.
    negated: Vec<(usize, usize)>,
}

/// Globs that take too much memory to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooComplex;

impl Globs {
    /// Compiles globs; one that makes no sense matches itself only.
    pub fn new(patterns: &[String]) -> Result<Self, TooComplex> {
        let mut globs = Self::default();
        let mut set = GlobSetBuilder::new();
        for (index, pattern) in patterns.iter().enumerate() {
            globs.written.entry(pattern.clone()).or_insert(index);
            let bare = pattern.strip_prefix("./").unwrap_or(pattern);
            let body = bare.trim_start_matches('!');
            let is_negated = (bare.len() - body.len()) % 2 == 1;
            let body = &*with_alternatives(body);
            let glob =
                GlobBuilder::new(body).literal_separator(true).empty_alternates(true).build();
            if let (false, Ok(glob)) = (body.is_empty(), glob) {
                if is_negated {
                    globs.negated.push((index, globs.compiled.len()));
                }
                globs.compiled.push(index);
                set.add(glob);
            }
        }
        globs.set = set.build().map_err(|_| TooComplex)?;
        Ok(globs)
    }

    /// Returns the first glob that matches a path.
    pub fn first_match(&self, path: &str) -> Option<usize> {
        let matched = self.set.matches(path);
        let is_negated = |at: &usize| self.negated.iter().any(|(_, negated)| negated == at);
        let plain = matched.iter().filter(|at| !is_negated(at)).map(|at| self.compiled[*at]);
        let negated = self.negated.iter().filter(|(_, at)| !matched.contains(at));
        let negated = negated.map(|(index, _)| *index);
        plain.chain(negated).chain(self.written.get(path).copied()).min()
    }
}

/// Writes `@(a|b)` and `?(a|b)` as braces.
fn with_alternatives(pattern: &str) -> Cow<'_, str> {
    if !pattern.contains("@(") && !pattern.contains("?(") {
        return Cow::Borrowed(pattern);
    }
    let mut written = String::with_capacity(pattern.len());
    // The closing mark of each open group; other brackets stay as they are.
    let mut open: Vec<Option<&str>> = Vec::new();
    let mut rest = pattern;
    while let Some(character) = rest.chars().next() {
        let group =
            [("@(", "}"), ("?(", ",}")].into_iter().find(|(mark, _)| rest.starts_with(mark));
        let taken = match (group, character) {
            (Some((mark, end)), _) => {
                written.push('{');
                open.push(Some(end));
                mark.len()
            }
            (None, '(') => {
                written.push('(');
                open.push(None);
                1
            }
            (None, '|') if matches!(open.last(), Some(Some(_))) => {
                written.push(',');
                1
            }
            (None, ')') => {
                written.push_str(open.pop().flatten().unwrap_or(")"));
                1
            }
            (None, other) => {
                written.push(other);
                other.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    Cow::Owned(written)
}

/// Patterns that select files together the way lines of a `.gitignore` do, the last that matches
/// deciding; case does not matter.
#[derive(Debug)]
pub struct Selection {
    lines: GitignoreBuilder,
    /// Compiled when the first path is compared: most rules never see one.
    compiled: OnceCell<Option<Gitignore>>,
}

/// A pattern that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Invalid;

impl Selection {
    /// Compiles patterns; empty ones are skipped. Braces are literal.
    pub fn new(patterns: &[String]) -> Result<Self, Invalid> {
        let mut lines = GitignoreBuilder::new("");
        lines.case_insensitive(true).map_err(|_| Invalid)?;
        for pattern in patterns {
            lines.add_line(None, &escape_braces(pattern)).map_err(|_| Invalid)?;
        }
        Ok(Self { lines, compiled: OnceCell::new() })
    }

    /// Returns whether a relative path is selected, itself or with a directory above it.
    pub fn selects(&self, relative: &str) -> bool {
        let Some(lines) = self.compiled.get_or_init(|| self.lines.build().ok()) else {
            return false;
        };
        let directories = relative.match_indices('/').map(|(at, _)| &relative[..at]);
        let mut places = directories.map(|it| (it, true)).chain([(relative, false)]);
        places.any(|(path, is_directory)| lines.matched(path, is_directory).is_ignore())
    }
}

fn escape_braces(pattern: &str) -> String {
    let mut escaped = String::with_capacity(pattern.len());
    let mut after_backslash = false;
    for character in pattern.chars() {
        if matches!(character, '{' | '}') && !after_backslash {
            escaped.push('\\');
        }
        after_backslash = character == '\\' && !after_backslash;
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        Globs::new(&[pattern.to_owned()]).unwrap().first_match(path).is_some()
    }

    #[test]
    fn a_glob_is_compared_with_the_whole_path() {
        let cases = [
            ("**/CLAUDE.md", "/lab/repo/CLAUDE.md", true),
            ("**/CLAUDE.md", "/CLAUDE.md", true),
            ("CLAUDE.md", "/lab/CLAUDE.md", false),
            ("./CLAUDE.md", "/lab/CLAUDE.md", false),
            ("/lab/ws/CLAUDE.md", "/lab/ws/CLAUDE.md", true),
            ("/lab/*/CLAUDE.md", "/lab/ws/CLAUDE.md", true),
            ("/lab/*/CLAUDE.md", "/lab/a/b/CLAUDE.md", false),
            ("**/rules/**", "/lab/.claude/rules/a/b.md", true),
            ("**/.claude/**", "/lab/.claude/CLAUDE.md", true),
            ("/lab/**", "/lab/x/y", true),
            ("/lab/a*c*e", "/lab/abcde", true),
            ("/lab/a*c*f", "/lab/abcde", false),
            ("/lab/*b.md", "/lab/b.md", true),
            ("/lab/**b.md", "/lab/a/b.md", false),
            ("/lab/[x", "/lab/[x", true),
            ("/LAB/**", "/lab/x", false),
            ("", "/lab", false),
            ("/lab/{a*", "/lab/{ab", false),
            ("!**/CLAUDE.md", "/lab/x.md", true),
            ("!!**/CLAUDE.md", "/lab/x.md", false),
            ("/{lab,home}/CLAUDE.md", "/home/CLAUDE.md", true),
            ("/{a,b{c,d}}/x", "/bd/x", true),
            ("**/*.{md,txt}", "/lab/a.txt", true),
            ("/lab/[a-c]?.md", "/lab/bz.md", true),
            ("/lab/[^a-c]?.md", "/lab/bz.md", false),
            ("/lab/@(repo|x)/CLAUDE.md", "/lab/repo/CLAUDE.md", true),
            ("/lab/@(repo|x)/CLAUDE.md", "/lab/y/CLAUDE.md", false),
            ("/lab/a?(b|c).md", "/lab/a.md", true),
            ("/lab/(a).md", "/lab/(a).md", true),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn the_first_glob_that_matches_is_named() {
        let globs = ["/a/*", "!/a/*", "**"].map(str::to_owned);
        let globs = Globs::new(&globs).unwrap();
        assert_eq!(globs.first_match("/a/b"), Some(0));
        assert_eq!(globs.first_match("/b"), Some(1));
    }

    fn selects(patterns: &[&str], path: &str) -> bool {
        let patterns: Vec<_> = patterns.iter().map(|it| (*it).to_owned()).collect();
        Selection::new(&patterns).unwrap().selects(path)
    }

    #[test]
    fn a_pattern_selects_like_a_line_of_gitignore() {
        let cases = [
            ("src", "src/a/b.rs", true),
            ("src", "lib/src/x", true),
            ("/src", "lib/src/x", false),
            ("/src", "src/x", true),
            ("src/*.ts", "src/a.ts", true),
            ("src/*.ts", "src/b/a.ts", false),
            ("src/**/*.ts", "src/a.ts", true),
            ("src/**/*.ts", "src/b/c/a.ts", true),
            ("**/src", "a/src/b", true),
            ("**/*", "a", true),
            ("*", ".hidden", true),
            ("docs/", "docs/a.md", true),
            ("docs/", "docs", false),
            ("a.md", "b.md", false),
            ("?.md", "b.md", true),
            ("??.md", "b.md", false),
            ("./src", "src/x", false),
            ("", "a", false),
            ("# src", "src", false),
            ("\\#a", "#a", true),
            ("\\!a", "!a", true),
            ("a\\ b", "a b", true),
            ("b\\.md", "b.md", true),
            ("src\\dir", "src/dir", false),
            ("@(a|b)", "a", false),
            ("x},a", "x},a", true),
            ("[a-c].md", "b.md", true),
            ("x.[jt]s", "x.ts", true),
            ("SRC/**", "src/a", true),
            ("[A-Z]", "q", true),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(selects(&[pattern], path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn the_last_pattern_decides_except_in_a_selected_directory() {
        assert!(!selects(&["*.md", "!b.md"], "b.md"));
        assert!(selects(&["!b.md", "*.md"], "b.md"));
        assert!(selects(&["src", "!src/x.ts"], "src/x.ts"));
        assert!(!selects(&["src/*", "!src/x.ts"], "src/x.ts"));
    }

    #[test]
    fn what_cannot_be_read_is_invalid() {
        for pattern in ["[z-!]", "**/[b-a]"] {
            let failed = Selection::new(&[pattern.to_owned()]).map(|_| ());
            assert_eq!(failed, Err(Invalid), "{pattern}");
        }
    }
}
