//! The block between `---` lines at the top of a file, and the `paths:` in it.
//!
//! The block is read by hand: what counts is one key, and it must be read in files that no YAML
//! reader accepts (`paths: **/*.ts` is an alias to YAML and a pattern to Claude Code).

use convoke_core::whitespace::is_space;

/// A file's text, split after its front matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Split<'a> {
    /// What stands between the `---` marks, if they are there.
    pub front: Option<&'a str>,
    /// The text that is sent.
    pub body: &'a str,
}

/// Splits a text after its front matter.
pub(crate) fn split(text: &str) -> Split<'_> {
    inside(text).unwrap_or(Split { front: None, body: text })
}

fn inside(text: &str) -> Option<Split<'_>> {
    const MARK: &str = "---";
    let rest = text.strip_prefix(MARK)?;
    let blank = &rest[..rest.len() - rest.trim_start_matches(is_space).len()];
    let front = &rest[blank.rfind('\n')? + 1..];
    let end = front.find(MARK)?;
    Some(Split {
        front: Some(&front[..end]),
        body: front[end + MARK.len()..].trim_start_matches(is_space),
    })
}

/// When a rule counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    /// From the start.
    Always,
    /// Once a file is read that matches one of these patterns.
    Matching(Vec<String>),
}

/// Reads when a rule counts from its front matter.
pub(crate) fn scope(front: &str) -> Scope {
    let Some(value) = value_of(front, "paths") else {
        return Scope::Always;
    };
    let patterns = value.iter().flat_map(|value| split_commas(value));
    // `dir/**` is kept as `dir`, which matches all below it; `**` alone is everything.
    let patterns = patterns.map(|pattern| match pattern.strip_suffix("/**") {
        Some(directory) => directory.to_owned(),
        None => pattern,
    });
    let patterns: Vec<_> = patterns.filter(|pattern| !pattern.is_empty()).collect();
    if patterns.iter().all(|pattern| pattern == "**") {
        Scope::Always
    } else {
        Scope::Matching(patterns)
    }
}

/// Returns whether the front matter has a key at its top level.
pub(crate) fn has_key(front: &str, key: &str) -> bool {
    front.lines().any(|line| after_key(line, key).is_some())
}

fn after_key<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(key)?.trim_start().strip_prefix(':')?;
    (rest.is_empty() || rest.starts_with(is_space)).then(|| rest.trim())
}

/// The strings under a top-level key: a scalar, a `[flow, list]` or a block list.
fn value_of(front: &str, key: &str) -> Option<Vec<String>> {
    let mut lines = front.lines();
    let first = lines.by_ref().find_map(|line| after_key(line, key))?;
    let first = without_comment(first);
    if first.is_empty() {
        let items = lines
            .take_while(|line| line.trim().is_empty() || line.starts_with([' ', '\t', '-', '#']))
            .filter_map(|line| line.trim().strip_prefix('-'));
        return Some(items.map(|item| unquoted(without_comment(item.trim()))).collect());
    }
    let Some(list) = first.strip_prefix('[') else {
        return Some(vec![unquoted(first)]);
    };
    let mut joined = list.to_owned();
    if !joined.contains(']') {
        for line in lines {
            joined.push(' ');
            joined.push_str(line.trim());
            if line.contains(']') {
                break;
            }
        }
    }
    match joined.rsplit_once(']') {
        Some((items, _)) => Some(split_commas(items).iter().map(|item| unquoted(item)).collect()),
        // A list that never ends is taken as one odd pattern, which matches nothing.
        None => Some(vec![first.to_owned()]),
    }
}

fn without_comment(value: &str) -> &str {
    if value.starts_with(['"', '\'']) {
        return value;
    }
    match value.find(" #") {
        Some(at) => value[..at].trim_end(),
        None if value.starts_with('#') => "",
        None => value,
    }
}

fn unquoted(value: &str) -> String {
    let quoted = |quote| {
        let inner = value.strip_prefix(quote)?;
        inner.split(quote).next()
    };
    quoted('"').or_else(|| quoted('\'')).unwrap_or(value).to_owned()
}

/// Splits at commas, but not inside braces or quotes.
fn split_commas(value: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0_usize;
    let mut quote = None;
    for character in value.chars() {
        match character {
            '"' | '\'' if quote.is_none() => quote = Some(character),
            _ if quote == Some(character) => quote = None,
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 && quote.is_none() => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(character);
        }
    }
    let parts = parts.iter().map(|part| part.trim().to_owned());
    parts.filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_matter_ends_at_the_next_mark_and_takes_the_white_space_after_it() {
        let cases = [
            ("---\na: 1\n---\n\nbody\n", Some("a: 1\n"), "body\n"),
            ("---\r\na: 1\r\n---\r\nbody", Some("a: 1\r\n"), "body"),
            ("---\n---\nbody", Some(""), "body"),
            ("--- \n\na\n---body", Some("a\n"), "body"),
            ("---\nnever closed", None, "---\nnever closed"),
            ("--- no line\n---\n", None, "--- no line\n---\n"),
            ("text\n---\na\n---\n", None, "text\n---\na\n---\n"),
            ("", None, ""),
        ];
        for (text, front, body) in cases {
            assert_eq!(split(text), Split { front, body }, "{text:?}");
        }
    }

    #[test]
    fn paths_are_read_in_every_form_that_people_write() {
        let matching = |patterns: &[&str]| {
            Scope::Matching(patterns.iter().map(|it| (*it).to_owned()).collect())
        };
        let cases = [
            ("title: x\n", Scope::Always),
            ("paths: \"src/**\"\n", matching(&["src"])),
            ("paths: src/*.{ts,tsx}, lib/**\n", matching(&["src/*.{ts,tsx}", "lib"])),
            ("paths:\n  - \"a/**\" \n  - 'b.md' # why\nother: x\n", matching(&["a", "b.md"])),
            ("paths: [\"a.md\", b.md]\n", matching(&["a.md", "b.md"])),
            ("paths: [a.md,\n  b.md]\n", matching(&["a.md", "b.md"])),
            ("paths: **/*.ts\n", matching(&["**/*.ts"])),
            ("paths: \"**/*\"\n", matching(&["**/*"])),
            ("paths: \"**\"\n", Scope::Always),
            ("paths:\n", Scope::Always),
            ("paths: \"\"\n", Scope::Always),
            ("paths: []\n", Scope::Always),
            ("paths: [src/**\n", matching(&["[src"])),
            ("mypaths: \"src/**\"\n", Scope::Always),
            ("globs: \"src/**\"\n", Scope::Always),
        ];
        for (front, expected) in cases {
            assert_eq!(scope(front), expected, "{front:?}");
        }
    }

    #[test]
    fn keys_count_at_the_top_level_only() {
        assert!(has_key("globs: x\n", "globs"));
        assert!(has_key("a: 1\nalwaysApply : true\n", "alwaysApply"));
        assert!(!has_key("  globs: x\n", "globs"));
        assert!(!has_key("globsx: y\n", "globs"));
    }
}
