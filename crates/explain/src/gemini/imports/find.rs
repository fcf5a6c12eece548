//! Where a text mentions files: every `@word` after white space, code between backticks excepted.

use std::collections::HashSet;
use std::ops::Range;

/// An `@path` in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mention<'a> {
    pub start: usize,
    pub end: usize,
    pub path: &'a str,
    /// Whether it stands between backticks, where it is text.
    pub in_code: bool,
}

/// Finds all mentions of a text, in order.
pub(super) fn mentions(text: &str) -> Vec<Mention<'_>> {
    let bytes = text.as_bytes();
    if memchr::memchr(b'@', bytes).is_none() {
        return Vec::new();
    }
    let code = code_regions(text);
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = memchr::memchr(b'@', &bytes[at..]) {
        let start = at + offset;
        if start > 0 && !is_space(bytes[start - 1]) {
            at = start + 1;
            continue;
        }
        let rest = &bytes[start + 1..];
        let length = rest.iter().position(|byte| is_space(*byte)).unwrap_or(rest.len());
        let end = start + 1 + length;
        let path = &text[start + 1..end];
        if path.starts_with(|first: char| first.is_ascii_alphabetic() || matches!(first, '.' | '/'))
        {
            let region = code.partition_point(|region| region.end <= start);
            let in_code = code.get(region).is_some_and(|region| region.start <= start);
            found.push(Mention { start, end, path, in_code });
        }
        at = end;
    }
    found
}

/// Returns the odd place that a mention stands in: a comment or indented code.
pub(super) fn odd_place(text: &str, at: usize) -> Option<&'static str> {
    let before = &text[..at];
    let comment = before.rfind("<!--").is_some_and(|start| !before[start..].contains("-->"));
    if comment {
        return Some("a comment");
    }
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = &text[line_start..];
    let above = before[..line_start].trim_end_matches('\n');
    let after_blank = line_start == 0 || before[..line_start].len() - above.len() > 1;
    let indented = line.starts_with("    ") || line.starts_with('\t');
    (indented && after_blank).then_some("indented code")
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// The regions from a run of backticks to the next run of as many, wherever that is. A run that is
/// not matched is tried again with fewer, as a backtracking expression would.
fn code_regions(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut regions = Vec::new();
    // Lengths that no longer occur further on need not be searched for again.
    let mut gone = HashSet::new();
    let mut at = 0;
    while let Some(offset) = memchr::memchr(b'`', &bytes[at..]) {
        let start = at + offset;
        let run = bytes[start..].iter().take_while(|byte| **byte == b'`').count();
        let closed = (1..=run).rev().find_map(|length| {
            if gone.contains(&length) {
                return None;
            }
            let fence = &bytes[start..start + length];
            let end = memchr::memmem::find(&bytes[start + length..], fence);
            if end.is_none() {
                gone.insert(length);
            }
            end.map(|end| start + length + end + length)
        });
        match closed {
            Some(end) => {
                regions.push(start..end);
                at = end;
            }
            None => at = start + 1,
        }
    }
    regions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(&str, bool)> {
        let mentions = mentions(text);
        mentions.iter().map(|it| (it.path, it.in_code)).collect()
    }

    #[test]
    fn a_mention_follows_white_space_and_begins_with_a_letter_a_dot_or_a_slash() {
        let cases: [(&str, &[(&str, bool)]); 12] = [
            ("@a.md b", &[("a.md", false)]),
            ("x @./a.md,", &[("./a.md,", false)]),
            ("mid@word (@a.md) \"@b.md\"", &[]),
            ("@~/x @1 @_x @", &[]),
            ("`@a.md` x", &[]),
            ("` @a.md`", &[("a.md`", true)]),
            ("```\n@a.md\n```", &[("a.md", true)]),
            ("~~~\n@a.md\n~~~", &[("a.md", false)]),
            ("    @a.md", &[("a.md", false)]),
            ("<!-- @a.md -->", &[("a.md", false)]),
            ("unclosed ` @a.md", &[("a.md", false)]),
            ("@a\u{a0}b", &[("a\u{a0}b", false)]),
        ];
        for (text, expected) in cases {
            assert_eq!(found(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_run_of_backticks_ends_at_the_next_run_of_as_many_or_is_tried_with_fewer() {
        let cases: [(&str, &[&str]); 6] = [
            ("`a` b", &["`a`"]),
            ("``a`b``", &["``a`b``"]),
            ("```a`", &["``", "`a`"]),
            ("``", &["``"]),
            ("`", &[]),
            ("a ``` b ` c", &["``", "` b `"]),
        ];
        for (text, expected) in cases {
            let regions = code_regions(text);
            let found: Vec<_> = regions.into_iter().map(|region| &text[region]).collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn odd_places_are_comments_and_indented_code() {
        let at = |text: &str| odd_place(text, text.find('@').unwrap());
        assert_eq!(at("<!-- x @a -->"), Some("a comment"));
        assert_eq!(at("<!-- x --> @a"), None);
        assert_eq!(at("x\n\n    @a"), Some("indented code"));
        assert_eq!(at("x\n    @a"), None);
        assert_eq!(at("@a"), None);
    }

    #[test]
    fn hostile_backticks_end_quickly() {
        let text: String = (1..1_500).map(|length| "`".repeat(length) + " ").collect();
        let started = std::time::Instant::now();
        code_regions(&text);
        assert!(started.elapsed().as_secs() < 5);
    }
}
