//! The scope of a rule: always, or when a file that matches its `paths:` is read.

use convoke_explain::front_matter::{FrontMatter, Yaml};

/// The maximum number of patterns that the braces of one may expand to.
const MAX_ALTERNATIVES: usize = 4_096;

/// The maximum number of bytes of patterns that the braces of all rules are written out to.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The budget for expanding braces, which can multiply.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes_left: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { bytes_left: MAX_BYTES }
    }
}

impl Budget {
    /// Returns whether some braces stayed as they were.
    pub(crate) fn is_used_up(&self) -> bool {
        self.bytes_left == 0
    }

    fn spend(&mut self, bytes: usize) -> bool {
        let left = self.bytes_left.checked_sub(bytes);
        self.bytes_left = left.unwrap_or(0);
        left.is_some()
    }
}

/// The scope of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    /// From the start.
    Always,
    /// Once a file is read that the patterns select.
    Matching(Paths),
}

/// The `paths:` of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Paths {
    /// The patterns as written.
    pub written: Vec<String>,
    /// The patterns that are compared: braces are written out, and `dir/**` is `dir`, which selects all
    /// below it.
    pub patterns: Vec<String>,
}

impl Scope {
    /// Finds out from front matter when its rule counts.
    pub(crate) fn new(front: &FrontMatter, budget: &mut Budget) -> Self {
        let mut paths = Paths::default();
        if let Some(value) = front.field("paths") {
            paths.collect(value, budget);
        }
        if paths.patterns.iter().all(|pattern| pattern == "**") {
            Self::Always
        } else {
            Self::Matching(paths)
        }
    }
}

impl Paths {
    /// Collects texts, also from nested lists; other values are ignored.
    fn collect(&mut self, value: &Yaml, budget: &mut Budget) {
        match value {
            Yaml::Text(text) => {
                for written in split_commas(text) {
                    self.written.push(written.to_owned());
                    for pattern in without_braces(written, budget) {
                        let pattern = pattern.strip_suffix("/**").unwrap_or(&pattern);
                        if !pattern.is_empty() {
                            self.patterns.push(pattern.to_owned());
                        }
                    }
                }
            }
            Yaml::List(values) => values.iter().for_each(|value| self.collect(value, budget)),
            Yaml::Map(_) | Yaml::Scalar(_) | Yaml::Null => {}
        }
    }
}

/// Splits at commas, but not inside braces.
fn split_commas(value: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i64;
    let parts = value.split(move |character| {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        character == ',' && depth == 0
    });
    parts.map(convoke_core::whitespace::trim).filter(|part| !part.is_empty())
}

/// Writes the braces of a pattern out, each up to the first that closes: they do not nest.
fn without_braces(pattern: &str, budget: &mut Budget) -> Vec<String> {
    let mut written = Vec::new();
    let mut open = vec![pattern.to_owned()];
    while let Some(pattern) = open.pop() {
        match first_braces(&pattern) {
            Some((before, inside, after))
                if open.len() + written.len() < MAX_ALTERNATIVES
                    && budget.spend(expanded_bytes(before, inside, after)) =>
            {
                let choices = inside.split(',').map(convoke_core::whitespace::trim);
                open.extend(choices.rev().map(|choice| format!("{before}{choice}{after}")));
            }
            _ => written.push(pattern),
        }
    }
    written
}

/// The bytes of the patterns that the first braces of one are written out to, together.
fn expanded_bytes(before: &str, inside: &str, after: &str) -> usize {
    let choices = inside.bytes().filter(|byte| *byte == b',').count() + 1;
    choices.saturating_mul(before.len() + after.len()).saturating_add(inside.len())
}

fn first_braces(pattern: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = pattern.split_once('{')?;
    let (inside, after) = rest.split_once('}')?;
    (!inside.is_empty()).then_some((before, inside, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_in_every_form_that_people_write() {
        let cases: [(&str, &[&str]); 25] = [
            ("title: x\n", &[]),
            ("paths: \"src/**\"\n", &["src"]),
            ("paths: src/*.{ts,tsx}, lib/**\n", &["src/*.ts", "src/*.tsx", "lib"]),
            ("paths:\n  - \"a/**\" \n  - 'b.md' # why\nother: x\n", &["a", "b.md"]),
            ("paths: [\"a.md\", b.md]\n", &["a.md", "b.md"]),
            ("paths: [a.md,\n  b.md]\n", &["a.md", "b.md"]),
            ("paths: >-\n  a.md,\n  b.md\n", &["a.md", "b.md"]),
            ("paths: [[a.md], 1, {b: c}]\n", &["a.md"]),
            ("paths: **/*.ts\n", &["**/*.ts"]),
            ("paths: \"**/*\"\n", &["**/*"]),
            ("paths: \"{a,{b,c}.md}\"\n", &["a.md}", "b.md", "c.md}"]),
            ("paths: \"{a , b}{}\"\n", &["a{}", "b{}"]),
            ("paths: \"x},a\"\n", &["x},a"]),
            ("paths: \"it's, a\"\n", &["it's", "a"]),
            ("paths: [src/**\n", &["[src"]),
            ("paths: \"**\"\n", &[]),
            ("paths: \"/**\"\n", &[]),
            ("paths: 1\n", &[]),
            ("paths: {a: b}\n", &[]),
            ("paths:\n", &[]),
            ("paths: \"\"\n", &[]),
            ("paths: []\n", &[]),
            ("paths:\n  - *.ts\n", &[]),
            ("mypaths: \"src/**\"\n", &[]),
            ("globs: \"src/**\"\n", &[]),
        ];
        for (front, expected) in cases {
            let patterns = match Scope::new(&FrontMatter::read(front), &mut Budget::default()) {
                Scope::Always => Vec::new(),
                Scope::Matching(paths) => paths.patterns,
            };
            assert_eq!(patterns, expected, "{front:?}");
        }
    }

    #[test]
    fn braces_without_end_do_not_explode() {
        let mut budget = Budget::default();
        assert!(without_braces(&"{a,b}".repeat(40), &mut budget).len() <= 2 * MAX_ALTERNATIVES);
        // A long end behind many braces, and many braces with one choice each.
        let long = format!("{}{}", "{a,b}".repeat(12), "x".repeat(60_000));
        for pattern in [long, "{a}".repeat(20_000)] {
            let mut budget = Budget::default();
            let written = without_braces(&pattern, &mut budget);
            let bytes: usize = written.iter().map(String::len).sum();
            assert!(bytes <= MAX_BYTES + pattern.len() && budget.is_used_up(), "{bytes}");
        }
    }
}
