//! The default policy: markers and the gaps that they leave are removed, and nothing else changes.
//!
//! Text is read line by line, because code fences, quotations and gaps depend on lines.

mod block;
mod code;
mod lines;
mod output;
mod raw;

use std::borrow::Cow;

use memchr::{memchr2, memchr3};

use self::block::{Blocks, LineKind};
use self::code::CodeSpans;
use self::lines::{Line, lines};
use self::output::Output;
use self::raw::RawSpans;
use super::Scan;
use super::keyword::{BLOCK_LEN, Keyword, Opening, find_opening, opening};
use crate::whitespace::{trim, trim_start};

/// Removes the markers from a text and returns their values.
pub(super) fn scan(text: &str) -> Scan<'_> {
    if find_opening(text.as_bytes(), 0).is_none() {
        return Scan { text: Cow::Borrowed(text), ..Scan::default() };
    }
    let mut scanner = Scanner {
        scan: Scan::default(),
        output: Output::new(text),
        block: None,
        raw: RawSpans::new(text),
        raw_end: 0,
    };
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
    raw: RawSpans<'a>,
    /// The end, in the text, of raw HTML that began within a line.
    raw_end: usize,
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
        let mut blocks = Blocks::default();
        let mut start = 0;
        for line in lines(text) {
            if start < self.raw_end {
                // Raw HTML continues: the line is part of a paragraph.
                self.read_line(&line, start, self.raw_end - start);
            } else {
                match blocks.read(&line) {
                    LineKind::Blank => {
                        self.end_block();
                        self.output.keep_blank(&line);
                    }
                    LineKind::Text => {
                        self.end_block();
                        self.output.keep(&line);
                    }
                    LineKind::Prose => self.read_line(&line, start, 0),
                    LineKind::ProseFrom(at) => {
                        self.end_block();
                        self.read_line(&line, start, at);
                    }
                }
            }
            start += line.whole.len();
        }
        self.end_block();
    }

    /// Reads the line that begins at byte `start` of the text; markers count from byte `first` of the line.
    fn read_line(&mut self, line: &Line<'a>, start: usize, first: usize) {
        let content = line.content;
        let indent = content.len() - trim_start(content).len();
        let mut at = indent;
        if first == 0 && opening(&content.as_bytes()[indent..]) == Some(Opening::Block) {
            self.end_block();
            self.block = Some(String::new());
            at += BLOCK_LEN;
        } else if self.block.is_none() && memchr2(b'[', b'<', content.as_bytes()).is_none() {
            self.output.keep(line);
            return;
        }

        let mut code = CodeSpans::new();
        let mut gaps = Vec::new();
        let mut from = at.max(first.min(content.len()));
        while let Some(marker) = self.find_inline(content, start, from, &mut code) {
            let gap_start = if self.block.is_some() {
                // A marker ends the block. The part of the block on this line is removed with the marker.
                self.extend_block(&content[at..marker.start]);
                self.end_block();
                indent
            } else {
                marker.start
            };
            gaps.push(gap_start..marker.end);
            self.scan.apply(marker.keyword, marker.body);
            at = marker.end;
            from = at;
        }
        if self.block.is_some() {
            self.extend_block(&content[at..]);
            self.output.remove();
        } else if gaps.is_empty() {
            self.output.keep(line);
        } else {
            self.output.keep_around(line, indent, &gaps);
        }
    }

    /// Finds the first inline marker at or after byte `from` of a line that is neither in inline code nor in
    /// raw HTML. The line begins at `start` of the text.
    fn find_inline(
        &mut self,
        line: &'a str,
        start: usize,
        mut from: usize,
        code: &mut CodeSpans,
    ) -> Option<Inline<'a>> {
        let bytes = line.as_bytes();
        loop {
            let at = from + memchr3(b'[', b'`', b'<', bytes.get(from..)?)?;
            from = at + 1;
            if bytes[at] == b'`' {
                from = code.end_of_span_or_run(line, at);
            } else if bytes[at] == b'<' {
                if let Some(end) = self.raw.end_of_span(start + at) {
                    self.raw_end = end;
                    from = end - start;
                }
            } else if let Some(Opening::Inline(keyword, len)) = opening(&bytes[at..]) {
                let body = at + len;
                // The bracket that ended the body may be in code that begins after the opening.
                from = body;
                if let Some(found) = memchr2(b'[', b']', &bytes[body..])
                    && bytes[body + found] == b']'
                {
                    let end = body + found;
                    return Some(Inline {
                        start: at,
                        end: end + 1,
                        keyword,
                        body: &line[body..end],
                    });
                }
            }
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
            self.scan.apply(Keyword::TeamTask, &text);
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
            "- ```\n  [NEXT: x]\n  ```",
            "1. a\n\n    ~~~\n    [NEXT: x]\n\n    [TEAM_TASK] x",
            "* > [NEXT: x]",
            "a\n1) b\n   > [NEXT: x]",
            "<pre>\n[NEXT: x]\n\n[NEXT: x]</pre>",
            "a <pre>[NEXT: x]</pre> b",
            "<!--\n\n[NEXT: x]",
            "a <!-- [NEXT: x]\n```\n[TEAM_TASK] x --> b",
            "[NEXT: open <!--\n[NEXT: x] -->",
        ];
        for text in texts {
            assert_eq!(scan(text), Scan { text: text.into(), ..Scan::default() });
        }
    }

    #[test]
    fn markers_count_again_after_what_is_text() {
        let cases = [
            ("- ```\n  [NEXT: x]\n\n[NEXT: y]", "- ```\n  [NEXT: x]"),
            (
                "- a\n  ```\n  [NEXT: x]\n  ```\n  b [NEXT: y]",
                "- a\n  ```\n  [NEXT: x]\n  ```\n  b",
            ),
            ("- > [NEXT: x]\n- [NEXT: y]", "- > [NEXT: x]\n-"),
            ("<!-- [NEXT: x] --> [NEXT: y]", "<!-- [NEXT: x] -->"),
            ("a <!--\n[NEXT: x]--> b [NEXT: y]", "a <!--\n[NEXT: x]--> b"),
            ("a <!-- open [NEXT: y]\n\nb -->", "a <!-- open\n\nb -->"),
            ("a <pre> open [NEXT: y]", "a <pre> open"),
            ("<!-->\n[NEXT: y]", "<!-->"),
            ("    <pre>\n[NEXT: y]", "    <pre>"),
            ("- item\n\n      ```\n      [NEXT: y]", "- item\n\n      ```"),
        ];
        for (text, expected) in cases {
            let scan = scan(text);
            assert_eq!(scan.text, expected, "{text:?}");
            assert_eq!(scan.next.iter().map(|route| &*route.name).collect::<Vec<_>>(), ["y"]);
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
            ("[TEAM_TASK] one\n- two\n- ~~~\n  [NEXT: x]", "one\n- two", "- ~~~\n  [NEXT: x]"),
            ("[TEAM_TASK] one\n<pre>\n[NEXT: x]", "one", "<pre>\n[NEXT: x]"),
            (
                "[TEAM_TASK] one <!-- [NEXT: x]\n> --> two\n\nrest",
                "one <!-- [NEXT: x]\n> --> two",
                "rest",
            ),
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
        let texts = [
            "[NEXT:".repeat(200_000),
            "[NEXT: a".repeat(200_000),
            runs + "[NEXT: x]",
            "a <!-- [NEXT:\n".repeat(100_000),
            "a <pre> </pr [NEXT:\n".repeat(100_000),
            "<!-- [NEXT:".repeat(200_000) + "-->",
            "- ".repeat(200_000) + "[NEXT: x]\n" + &"<pre>\n".repeat(1000),
        ];
        for text in texts {
            assert!(scan(&text).text.len() + 10 >= text.len());
        }
    }
}
