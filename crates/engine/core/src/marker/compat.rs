//! The cleanup of `compat`: three passes in a fixed order, then its white space rules.

use std::borrow::Cow;

use memchr::memchr;

use super::Scan;
use super::keyword::{BLOCK_LEN, Keyword, Opening, find_opening};
use crate::whitespace::{is_space, trim, trim_start};

/// Removes FROM, the `TEAM_TASK` block and NEXT, in that order, and cleans up white space.
pub(super) fn scan(text: &str) -> Scan<'_> {
    let mut scan = Scan::default();
    if find_opening(text.as_bytes(), 0).is_none() {
        scan.text = clean_up(text);
        return scan;
    }
    read_drops(text, &mut scan);
    let text = remove(text, |text, from| from_marker(text, from, &mut scan));
    let text = and_then(text, |text| remove(text, |text, from| task_block(text, from, &mut scan)));
    let text = and_then(text, |text| remove(text, |text, from| next_marker(text, from, &mut scan)));
    scan.text = and_then(text, clean_up);
    scan
}

/// Applies a pass to a text, without copying the text if no pass changes it.
fn and_then(text: Cow<'_, str>, pass: impl FnOnce(&str) -> Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => pass(text),
        Cow::Owned(text) => match pass(&text) {
            Cow::Borrowed(same) if same.len() == text.len() => Cow::Owned(text),
            changed => Cow::Owned(changed.into_owned()),
        },
    }
}

/// The start and end of a match.
type Span = (usize, usize);

/// Removes every match of `find`; each search begins where the last match ended.
fn remove(text: &str, mut find: impl FnMut(&str, usize) -> Option<Span>) -> Cow<'_, str> {
    let Some(mut span) = find(text, 0) else {
        return Cow::Borrowed(text);
    };
    let mut kept = String::with_capacity(text.len());
    let mut from = 0;
    loop {
        kept.push_str(&text[from..span.0]);
        from = span.1;
        match find(text, from) {
            Some(next) => span = next,
            None => break,
        }
    }
    kept.push_str(&text[from..]);
    Cow::Owned(kept)
}

/// Finds `[KEYWORD:…]` whose body may hold anything but `]`, and returns the body too.
fn inline(text: &str, mut from: usize, wanted: Keyword) -> Option<(Span, &str)> {
    while let Some((at, opening)) = find_opening(text.as_bytes(), from) {
        if let Opening::Inline(keyword, len) = opening
            && keyword == wanted
        {
            let body = at + len;
            let end = body + memchr(b']', &text.as_bytes()[body..])?;
            return Some(((at, end + 1), &text[body..end]));
        }
        from = at + 1;
    }
    None
}

/// `/\[FROM:[^\]]+\]/gi`: an empty `[FROM:]` is left in the text.
fn from_marker(text: &str, mut from: usize, scan: &mut Scan<'_>) -> Option<Span> {
    loop {
        let (span, body) = inline(text, from, Keyword::From)?;
        if !body.is_empty() {
            scan.apply(Keyword::From, body);
            return Some(span);
        }
        from = span.1;
    }
}

/// `/\[TEAM_TASK\][\s\S]*?(?=\[|$)/gi`: everything up to the next bracket. The removed text is the task.
fn task_block(text: &str, mut from: usize, scan: &mut Scan<'_>) -> Option<Span> {
    while let Some((at, opening)) = find_opening(text.as_bytes(), from) {
        if opening == Opening::Block {
            let body = at + BLOCK_LEN;
            let rest = &text.as_bytes()[body..];
            let end = body + memchr(b'[', rest).unwrap_or(rest.len());
            scan.apply(Keyword::TeamTask, &text[body..end]);
            return Some((at, end));
        }
        from = at + 1;
    }
    None
}

/// `/\[NEXT:[^\]]*\]/gi`.
fn next_marker(text: &str, from: usize, scan: &mut Scan<'_>) -> Option<Span> {
    let (span, body) = inline(text, from, Keyword::Next)?;
    scan.apply(Keyword::Next, body);
    Some(span)
}

/// Reads `[DROP: …]`, which this policy leaves in the text.
fn read_drops(text: &str, scan: &mut Scan<'_>) {
    let mut from = 0;
    while let Some((span, body)) = inline(text, from, Keyword::Drop) {
        scan.apply(Keyword::Drop, body);
        from = span.1;
    }
}

/// Collapses runs of white space within a line, trims lines, and drops blank ones.
fn clean_up(text: &str) -> Cow<'_, str> {
    let text = trim(text);
    if !has_runs(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len());
    for line in text.split('\n') {
        let line = trim(line);
        if line.is_empty() {
            continue;
        }
        if !cleaned.is_empty() {
            cleaned.push('\n');
        }
        if has_runs(line.as_bytes()) {
            collapse(line, &mut cleaned);
        } else {
            cleaned.push_str(line);
        }
    }
    Cow::Owned(cleaned)
}

/// Appends a line with each run of two or more white space characters replaced by one space.
fn collapse(mut line: &str, to: &mut String) {
    while let Some(at) = line.find(is_space) {
        let rest = trim_start(&line[at..]);
        let run = &line[at..line.len() - rest.len()];
        to.push_str(&line[..at]);
        to.push_str(if run.chars().nth(1).is_some() { " " } else { run });
        line = rest;
    }
    to.push_str(line);
}

/// Returns whether two white space characters may be adjacent: two are ASCII, or one is not. Does not branch on
/// the bytes.
fn has_runs(text: &[u8]) -> bool {
    let mut at = 0;
    while at < text.len() {
        // Include two bytes of the next chunk, so that runs across the boundary are found.
        let chunk = &text[at..text.len().min(at + CHUNK + 2)];
        let found = if chunk.is_ascii() { ascii_runs(chunk) } else { runs(chunk) };
        if found {
            return true;
        }
        at += CHUNK;
    }
    false
}

fn ascii_runs(text: &[u8]) -> bool {
    let pairs = text.iter().zip(text.iter().skip(1));
    pairs.fold(false, |found, (&a, &b)| found | (is_ascii_space(a) & is_ascii_space(b)))
}

fn runs(text: &[u8]) -> bool {
    let threes = text.iter().zip(text.iter().skip(1)).zip(text.iter().skip(2));
    let found = threes.fold(false, |found, ((&a, &b), &c)| found | begins_run(a, b, c));
    // The last two bytes have no third after them; 0xFF is in no text.
    found || matches!(text, [.., a, b] if begins_run(*a, *b, 0xFF))
}

/// The number of bytes that are examined before a text counts as unclean.
const CHUNK: usize = 4096;

const fn is_ascii_space(b: u8) -> bool {
    b == b' ' || b.wrapping_sub(b'\t') < 5
}

/// Returns whether three adjacent bytes begin with two ASCII white space characters, or with one that is not
/// ASCII.
#[expect(clippy::needless_bitwise_bool, reason = "without branches the loop over it is vectorised")]
const fn begins_run(a: u8, b: u8, c: u8) -> bool {
    (is_ascii_space(a) & is_ascii_space(b))
        | ((a == 0xC2) & (b == 0xA0))
        | ((a == 0xE1) & (b == 0x9A) & (c == 0x80))
        | ((a == 0xE2) & (b == 0x80) & ((c < 0x8B) | (c == 0xA8) | (c == 0xA9) | (c == 0xAF)))
        | ((a == 0xE2) & (b == 0x81) & (c == 0x9F))
        | ((a == 0xE3) & (b == 0x80) & (c == 0x80))
        | ((a == 0xEF) & (b == 0xBB) & (c == 0xBF))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_text_is_not_copied() {
        assert!(matches!(scan("one two\nthree").text, Cow::Borrowed(_)));
    }

    #[test]
    fn no_run_of_white_space_is_missed() {
        for space in ('\0'..=char::MAX).filter(|&c| is_space(c)) {
            for run in [format!("{space}{space}"), format!(" {space}"), format!("\n{space}")] {
                assert!(has_runs(format!("a{run}b").as_bytes()), "{run:?}");
                assert!(has_runs(run.as_bytes()), "{run:?}");
            }
        }
        for before in CHUNK - 4..CHUNK + 4 {
            for run in ["  ", " \u{3000}", "\u{2003} ", "\u{A0}\u{A0}"] {
                let across_chunks = "a".repeat(before) + run + "b";
                assert!(has_runs(across_chunks.as_bytes()), "{before} {run:?}");
            }
        }
    }

    #[test]
    fn characters_that_share_bytes_with_white_space_are_none() {
        for text in ["“it’s” — fine…", "你好，世界。、", "ﬁ", "\u{200B}a\u{2060}b\u{180E}c\u{85}d"]
        {
            assert!(!has_runs(text.as_bytes()), "{text:?}");
            for before in CHUNK - 4..CHUNK + 4 {
                let across_chunks = "a".repeat(before) + text;
                assert!(!has_runs(across_chunks.as_bytes()), "{before} {text:?}");
            }
        }
    }

    #[test]
    fn the_task_is_what_the_block_pass_removed() {
        let scan = scan("[TEAM_TASK] Ship it\nsoon [NEXT: bob] [DROP: max] Hello");
        assert_eq!(scan.text, "[DROP: max] Hello");
        assert_eq!(scan.task.as_deref(), Some("Ship it\nsoon"));
        assert_eq!(scan.drop, ["max"]);
    }

    #[test]
    fn a_megabyte_of_openings_is_read_once() {
        let text = "[NEXT:".repeat(200_000);
        assert_eq!(scan(&text).text, text);
    }
}
