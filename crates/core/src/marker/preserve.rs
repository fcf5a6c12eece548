//! The default policy: a marker and the hole that it leaves are removed, and nothing else changes.
//!
//! Text is read line by line, because code fences, quotations and the holes that markers leave are
//! all matters of lines.

mod code;
mod lines;
mod output;

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use self::code::{CodeSpans, Fence};
use self::lines::{Line, lines};
use self::output::Output;
use super::Scan;
use super::keyword::{BLOCK_LEN, Keyword, Opening, find_opening, opening};
use crate::whitespace::{is_blank, trim, trim_start};

/// Removes the markers from a text and returns what they said.
pub(super) fn scan(text: &str) -> Scan<'_> {
    if find_opening(text.as_bytes(), 0).is_none() {
        return Scan { text: Cow::Borrowed(text), ..Scan::default() };
    }
    let mut scanner = Scanner { scan: Scan::default(), output: Output::new(text), block: None };
    scanner.read(text);
    let Scanner { mut scan, output, .. } = scanner;
    scan.text = output.finish();
    scan
}

struct Scanner<'a> {
    scan: Scan<'a>,
    output: Output<'a>,
    /// The text of the `[TEAM_TASK]` block that is being read.
    block: Option<String>,
}

/// A marker of the inline form, found in a line.
struct Inline<'a> {
    start: usize,
    end: usize,
    keyword: Keyword,
    body: &'a str,
}

impl<'a> Scanner<'a> {
    fn read(&mut self, text: &'a str) {
        let mut fence: Option<Fence> = None;
        for line in lines(text) {
            if let Some(open) = fence {
                self.output.keep(&line);
                if open.is_closed_by(line.content) {
                    fence = None;
                }
            } else if is_blank(line.content) {
                self.end_block();
                self.output.keep_blank(&line);
            } else if let Some(open) = Fence::opened_by(line.with_return()) {
                self.end_block();
                self.output.keep(&line);
                fence = Some(open);
            } else if is_quotation(line.content) {
                self.end_block();
                self.output.keep(&line);
            } else {
                self.read_line(&line);
            }
        }
        self.end_block();
    }

    /// Reads a line that is neither code nor quotation.
    fn read_line(&mut self, line: &Line<'a>) {
        let content = line.content;
        let indent = content.len() - trim_start(content).len();
        let mut at = indent;
        if opening(&content.as_bytes()[indent..]) == Some(Opening::Block) {
            self.end_block();
            self.block = Some(String::new());
            at += BLOCK_LEN;
        } else if self.block.is_none() && memchr(b'[', content.as_bytes()).is_none() {
            self.output.keep(line);
            return;
        }

        let mut code = CodeSpans::new();
        let mut holes = Vec::new();
        while let Some(marker) = find_inline(content, at, &mut code) {
            let start = if self.block.is_some() {
                // A marker ends the block: all that the block took of this line goes with it.
                self.extend_block(&content[at..marker.start]);
                self.end_block();
                indent
            } else {
                marker.start
            };
            holes.push(start..marker.end);
            self.scan.obey(marker.keyword, marker.body);
            at = marker.end;
        }
        if self.block.is_some() {
            self.extend_block(&content[at..]);
            self.output.remove();
        } else if holes.is_empty() {
            self.output.keep(line);
        } else {
            self.output.keep_around(line, indent, &holes);
        }
    }

    fn extend_block(&mut self, text: &str) {
        let text = trim(text);
        if let Some(block) = &mut self.block
            && !text.is_empty()
        {
            if !block.is_empty() {
                block.push('\n');
            }
            block.push_str(text);
        }
    }

    fn end_block(&mut self) {
        if let Some(text) = self.block.take() {
            self.scan.obey(Keyword::TeamTask, &text);
        }
    }
}

/// Tells whether a line quotes somebody, as Markdown does.
fn is_quotation(line: &str) -> bool {
    let text = line.trim_start_matches(' ');
    line.len() - text.len() <= 3 && text.starts_with('>')
}

/// Finds the first inline marker at or after `from` that does not stand in inline code.
fn find_inline<'a>(line: &'a str, mut from: usize, code: &mut CodeSpans) -> Option<Inline<'a>> {
    let bytes = line.as_bytes();
    loop {
        let at = from + memchr2(b'[', b'`', &bytes[from..])?;
        if bytes[at] == b'`' {
            from = code.end_of_span_or_run(line, at);
            continue;
        }
        from = at + 1;
        if let Some(Opening::Inline(keyword, len)) = opening(&bytes[at..]) {
            let body = at + len;
            let end = body + memchr2(b'[', b']', &bytes[body..])?;
            if bytes[end] == b']' {
                let body = &line[body..end];
                return Some(Inline { start: at, end: end + 1, keyword, body });
            }
            // The bracket that cuts it short may stand in code that begins after the opening.
            from = body;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marker::Intent;

    #[test]
    fn a_text_without_markers_is_not_copied() {
        let text = "a [link](url)\n\n    code  \n";
        assert!(matches!(scan(text).text, Cow::Borrowed(same) if same == text));
    }

    #[test]
    fn a_marker_leaves_no_hole() {
        let cases = [
            ("a [NEXT: x] b", "a b"),
            ("a[NEXT: x]b", "ab"),
            ("a [NEXT: x]", "a"),
            ("  [NEXT: x] b", "  b"),
            ("a\n[NEXT: x]\nb", "a\nb"),
            ("a\n\n[NEXT: x]\n\nb", "a\n\n\nb"),
            ("\n[NEXT: x]\n\n  b\n", "  b\n"),
            ("a\r\n\r\n[NEXT: x]\r\n", "a"),
            ("a [NEXT: x] [DROP: y]\u{3000}b", "a b"),
        ];
        for (text, expected) in cases {
            assert_eq!(scan(text).text, expected, "{text:?}");
        }
    }

    #[test]
    fn markers_in_code_and_quotations_are_text() {
        let texts = [
            "`[NEXT: x]`",
            "``a ` [NEXT: x]``",
            "```\n[NEXT: x]\n```",
            "~~~~ rust\n[NEXT: x]\n~~~\n[NEXT: x]",
            "> [NEXT: x]",
            "   > [TEAM_TASK] x",
            "[NEXT: open `[NEXT: x]`",
            "[DROP: `[NEXT: x]`]",
        ];
        for text in texts {
            assert_eq!(scan(text), Scan { text: text.into(), ..Scan::default() });
        }
    }

    #[test]
    fn a_block_ends_at_the_first_thing_that_is_not_its_text() {
        let cases = [
            ("[TEAM_TASK] one\n  two\n\nrest", "one\ntwo", "rest"),
            ("[TEAM_TASK] one [NEXT: x] rest", "one", "rest"),
            ("[TEAM_TASK]\none\n> rest", "one", "> rest"),
            ("[TEAM_TASK] one\n```\n[NEXT: x]", "one", "```\n[NEXT: x]"),
            ("[team_task] one\n[TEAM_TASK: two] rest", "two", "rest"),
        ];
        for (text, task, rest) in cases {
            let scan = scan(text);
            assert_eq!((scan.task.as_deref(), &*scan.text), (Some(task), rest), "{text:?}");
        }
    }

    #[test]
    fn what_markers_say_comes_in_the_order_of_the_text() {
        let scan = scan("[FROM: a] [NEXT: b!P1, c] [FROM: d] [NEXT: e] [DROP: ALL] [NEXT: ]");
        let next: Vec<_> = scan.next.iter().map(|route| (&*route.name, route.intent)).collect();
        assert_eq!(next, [("b", Intent::P1), ("c", Intent::P2), ("e", Intent::P2)]);
        assert_eq!(scan.from.as_deref(), Some("a"));
        assert_eq!(scan.drop, ["ALL"]);
        assert_eq!(scan.diagnostics.len(), 1);
    }

    #[test]
    fn hostile_lines_are_read_in_linear_time() {
        let runs: String = (1..1400).map(|n| "`".repeat(n) + " ").collect();
        for text in ["[NEXT:".repeat(200_000), "[NEXT: a".repeat(200_000), runs + "[NEXT: x]"] {
            assert!(scan(&text).text.len() + 10 >= text.len());
        }
    }
}
