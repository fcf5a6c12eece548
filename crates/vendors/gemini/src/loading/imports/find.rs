//! Mentions of files in a text: every `@word` after white space, except in code between backticks.

use std::ops::Range;

use convoke_explain::text::LineCounter;

/// An `@path` in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mention<'a> {
    pub start: usize,
    pub end: usize,
    pub path: &'a str,
    /// Whether it is between backticks, where it is plain text.
    pub in_code: bool,
    /// The 1-based line.
    pub line: u64,
    /// The position because of which Claude Code would ignore it.
    pub place: Option<&'static str>,
}

/// Finds all mentions of a text, in order.
pub(super) fn mentions(text: &str) -> Vec<Mention<'_>> {
    let bytes = text.as_bytes();
    if memchr::memchr(b'@', bytes).is_none() {
        return Vec::new();
    }
    let code = code_regions(text);
    let comments = comment_regions(text);
    let mut lines = LineCounter::new(text);
    let (mut line_start, mut searched) = (0, 0);
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
            if let Some(newline) = memchr::memrchr(b'\n', &bytes[searched..start]) {
                line_start = searched + newline + 1;
            }
            searched = start;
            let place = if is_within(&comments, start) {
                Some("a comment")
            } else {
                is_indented_code(text, line_start).then_some("indented code")
            };
            let in_code = is_within(&code, start);
            found.push(Mention { start, end, path, in_code, line: lines.line(start), place });
        }
        at = end;
    }
    found
}

fn is_within(regions: &[Range<usize>], at: usize) -> bool {
    let region = regions.partition_point(|region| region.end <= at);
    regions.get(region).is_some_and(|region| region.start <= at)
}

/// Four spaces or a tab behind a blank line or at the top make code.
fn is_indented_code(text: &str, line_start: usize) -> bool {
    let (above, line) = text.split_at(line_start);
    let after_blank = above.is_empty() || above == "\n" || above.ends_with("\n\n");
    after_blank && (line.starts_with("    ") || line.starts_with('\t'))
}

/// The regions of HTML comments; one that is never closed runs to the end.
fn comment_regions(text: &str) -> Vec<Range<usize>> {
    let mut regions = Vec::new();
    let mut at = 0;
    while let Some(offset) = text[at..].find("<!--") {
        let start = at + offset;
        let end = text[start..].find("-->").map_or(text.len(), |end| start + end + "-->".len());
        regions.push(start..end);
        at = end;
    }
    regions
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// The regions from a run of backticks to the next run of as many, wherever that is. A run that is
/// not matched counts with fewer, as many as can be matched: by a later run, or by its own other half.
fn code_regions(text: &str) -> Vec<Range<usize>> {
    let runs = backtick_runs(text);
    let mut longest_behind = vec![0; runs.len()];
    for index in (1..runs.len()).rev() {
        longest_behind[index - 1] = runs[index].len().max(longest_behind[index]);
    }
    let mut regions = Vec::new();
    let mut index = 0;
    let mut from = 0;
    while let Some(run) = runs.get(index) {
        let start = run.start.max(from);
        let left = run.end.saturating_sub(start);
        let by_later = left.min(longest_behind[index]);
        if by_later > left / 2 {
            let closing = (index + 1..runs.len()).find(|later| runs[*later].len() >= by_later);
            index = closing.unwrap_or(runs.len());
            from = runs.get(index).map_or(text.len(), |closing| closing.start + by_later);
            regions.push(start..from);
        } else {
            if left >= 2 {
                from = start + left / 2 * 2;
                regions.push(start..from);
            }
            // The odd one of an odd number may still be matched by a later run.
            if left < 2 || left.is_multiple_of(2) {
                index += 1;
            }
        }
    }
    regions
}

fn backtick_runs(text: &str) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for at in memchr::memchr_iter(b'`', text.as_bytes()) {
        match runs.last_mut() {
            Some(run) if run.end == at => run.end += 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
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
        let place = |text: &str| mentions(text)[0].place;
        assert_eq!(place("<!-- x @a -->"), Some("a comment"));
        assert_eq!(place("<!-- never closed @a"), Some("a comment"));
        assert_eq!(place("<!-- x --> @a"), None);
        assert_eq!(place("x\n\n    @a"), Some("indented code"));
        assert_eq!(place("x\n    @a"), None);
        assert_eq!(place("@a"), None);
    }

    #[test]
    fn regions_are_those_of_a_backtracking_expression() {
        // Every text of ticks and letters up to a length, against the expression spelled out.
        for length in 0..=9_u32 {
            for bits in 0..1_u32 << length {
                let tick = |at: u32| if bits >> at & 1 == 1 { '`' } else { 'x' };
                let text: String = (0..length).map(tick).collect();
                assert_eq!(code_regions(&text), spelled_out(&text), "{text}");
            }
        }
    }

    /// Tries every start, every number of ticks from many to few, and the nearest end.
    fn spelled_out(text: &str) -> Vec<Range<usize>> {
        let mut regions = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let ticks = text[at..].len() - text[at..].trim_start_matches('`').len();
            let region = (1..=ticks).rev().find_map(|count| {
                let end = text[at + count..].find(&"`".repeat(count))?;
                Some(at..at + count + end + count)
            });
            at = region.as_ref().map_or(at + 1, |region| region.end);
            regions.extend(region);
        }
        regions
    }

    #[test]
    fn many_backticks_cost_no_more_than_their_number() {
        // Tried one by one from many to few, these would take minutes.
        let even = "`".repeat(200_000);
        assert_eq!(code_regions(&even), vec![0..200_000]);
        let rising: String = (1..600).map(|length| "`".repeat(length) + " ").collect();
        let regions = code_regions(&rising);
        assert!(regions.is_sorted_by_key(|region| region.start) && !regions.is_empty());
    }
}
