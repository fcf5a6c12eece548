//! Renders Markdown as lines for a terminal. No part of a text reaches the terminal as a control sequence.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use unicode_width::UnicodeWidthStr as _;

use super::highlight::highlight;
use super::printable::{has_piles, printable};
use super::styled::{Face, StyledText, Tint};

/// The maximum number of prefixes of a line, which bounds its cost: deeper quotations and lists look like those at
/// this depth.
const MAX_DEPTH: usize = 8;

/// Renders a text in lines of a width. O(text).
pub(crate) fn render(text: &str, width: usize) -> Vec<StyledText> {
    let parser = Parser::new_ext(text, Options::ENABLE_STRIKETHROUGH);
    let definitions = parser.reference_definitions().iter();
    let mut definitions: Vec<(usize, String)> = definitions
        .map(|(name, link)| (link.span.start, format!("[{name}]: {}", link.dest)))
        .collect();
    definitions.sort_unstable();
    let mut writer = Writer { width, ..Writer::default() };
    for event in parser {
        writer.event(event);
    }
    writer.flush();
    for (_, definition) in definitions {
        writer.push(&definition, Face::new(Tint::Frame));
        writer.flush();
    }
    writer.lines
}

/// The prefix of the lines of a block.
#[derive(Debug)]
struct Prefix {
    first: String,
    rest: String,
    is_used: bool,
}

#[derive(Debug, Default)]
struct Writer {
    width: usize,
    lines: Vec<StyledText>,
    /// The block that is being read.
    text: StyledText,
    prefixes: Vec<Prefix>,
    /// The number of blocks that are nested too deeply for a prefix.
    deeper: usize,
    /// The number of the next item of each list; `None` without numbers.
    lists: Vec<Option<u64>>,
    bold: usize,
    italic: usize,
    /// The start of the text of a link, and its address.
    link: Option<(usize, String)>,
    /// The language and text of a block of code.
    code: Option<(String, String)>,
}

impl Writer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.push(&text, self.face()),
            },
            Event::Code(code) => self.push(&code, Face { tint: Tint::Code, ..self.face() }),
            Event::SoftBreak | Event::HardBreak => self.push("\n", Face::default()),
            Event::Rule => {
                self.space();
                self.push(&"─".repeat(self.width.min(40)), Face::new(Tint::Frame));
                self.flush();
            }
            Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text) => self.push(&text, self.face()),
            Event::FootnoteReference(name) => self.push(&format!("[^{name}]"), self.face()),
            Event::TaskListMarker(is_done) => {
                self.push(if is_done { "[x] " } else { "[ ] " }, self.face());
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.space(),
            Tag::Heading { .. } => {
                self.space();
                self.bold += 1;
            }
            Tag::BlockQuote(_) => {
                self.space();
                self.nest("│ ".to_owned(), "│ ".to_owned());
            }
            Tag::CodeBlock(kind) => {
                self.space();
                let language = match kind {
                    CodeBlockKind::Fenced(info) => {
                        let word = info.split([' ', ',', '{']).next().unwrap_or_default();
                        word.to_ascii_lowercase()
                    }
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(start) => {
                if self.lists.is_empty() {
                    self.space();
                }
                self.flush();
                self.lists.push(start);
            }
            Tag::Item => {
                self.flush();
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let mark = format!("{number}. ");
                        *number = number.saturating_add(1);
                        mark
                    }
                    _ => "• ".to_owned(),
                };
                let rest = " ".repeat(mark.width());
                self.nest(mark, rest);
            }
            Tag::Emphasis | Tag::Strikethrough => self.italic += 1,
            Tag::Strong => self.bold += 1,
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.link = Some((self.text.text.len(), dest_url.into_string()));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.flush();
                self.bold = self.bold.saturating_sub(1);
            }
            TagEnd::BlockQuote(_) | TagEnd::Item => {
                self.flush();
                self.leave();
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
            }
            TagEnd::Emphasis | TagEnd::Strikethrough => {
                self.italic = self.italic.saturating_sub(1);
            }
            TagEnd::Strong => self.bold = self.bold.saturating_sub(1),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => self.flush(),
        }
    }

    fn end_code(&mut self) {
        let Some((language, code)) = self.code.take() else { return };
        let code = printable(&code);
        let code = code.strip_suffix('\n').unwrap_or(&code);
        self.nest("  ".to_owned(), "  ".to_owned());
        for line in code.split('\n') {
            self.text = highlight(&language, line);
            self.write();
        }
        self.leave();
    }

    /// Writes the address of a link after its text, if they differ.
    fn end_link(&mut self) {
        let Some((start, address)) = self.link.take() else { return };
        let text = self.text.text.get(start..).unwrap_or_default();
        if address != text && address.strip_prefix("mailto:") != Some(text) {
            self.push(&format!(" ({address})"), Face::new(Tint::Frame));
        }
    }

    fn face(&self) -> Face {
        let tint = if self.link.is_some() { Tint::Link } else { Tint::Plain };
        Face { bold: self.bold > 0, italic: self.italic > 0, tint }
    }

    /// Adds a piece of the block. Character references can encode control characters too.
    fn push(&mut self, piece: &str, face: Face) {
        self.text.push(&printable(piece), face);
    }

    fn nest(&mut self, first: String, rest: String) {
        let taken: usize = self.prefixes.iter().map(|prefix| prefix.rest.width()).sum();
        if self.prefixes.len() >= MAX_DEPTH || taken + first.width() > self.width / 2 {
            self.deeper += 1;
            return;
        }
        self.prefixes.push(Prefix { first, rest, is_used: false });
    }

    fn leave(&mut self) {
        if self.deeper > 0 {
            self.deeper -= 1;
        } else if let Some(left) = self.prefixes.pop()
            && !left.is_used
        {
            // An empty item is an item.
            self.prefixes.push(left);
            self.write();
            self.prefixes.pop();
        }
    }

    /// Writes a blank line before a block, unless it begins an item or a quotation.
    fn space(&mut self) {
        self.flush();
        let is_first = self.prefixes.last().is_some_and(|prefix| !prefix.is_used);
        if !self.lines.is_empty() && !is_first {
            self.write();
        }
    }

    /// Writes the block, if there is one.
    fn flush(&mut self) {
        if !self.text.text.is_empty() {
            self.write();
        }
    }

    /// Writes the block, or a blank line.
    fn write(&mut self) {
        let mut text = std::mem::take(&mut self.text);
        // Combining characters can arrive in separate pieces.
        if has_piles(&text.text) {
            text = StyledText::plain(&printable(&text.text));
        }
        let Self { width, lines, prefixes, .. } = self;
        let taken: usize = prefixes.iter().map(|prefix| prefix.rest.width()).sum();
        text.wrap(width.saturating_sub(taken), |line| {
            let mut whole = StyledText::default();
            for prefix in prefixes.iter_mut() {
                let mark = if prefix.is_used { &prefix.rest } else { &prefix.first };
                whole.push(mark, Face::new(Tint::Frame));
                prefix.is_used = true;
            }
            for (piece, face) in line.pieces() {
                whole.push(piece, face);
            }
            lines.push(whole);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rendered(text: &str, width: usize) -> String {
        let lines = render(text, width);
        let lines: Vec<&str> = lines.iter().map(|line| line.text.trim_end()).collect();
        lines.join("\n")
    }

    #[test]
    fn blocks_are_set_apart() {
        let text = "# Title\nSome *words* and `code`,\nin two lines.\n\n- one\n- two\n  1. deep\n\n> said\n> so\n\n```rust\nfn main() {}\n```\n[text](http://h/x) <http://h/y>\n";
        insta::assert_snapshot!(rendered(text, 40), @r"
        Title

        Some words and code,
        in two lines.

        • one
        • two
          1. deep

        │ said
        │ so

          fn main() {}

        text (http://h/x) http://h/y
        ");
    }

    #[test]
    fn words_have_their_faces() {
        let lines = render("**bold** *slanted* `code`\n\n```rust\nlet x\n```", 40);
        let faces: Vec<(&str, Face)> = lines.iter().flat_map(StyledText::pieces).collect();
        let bold = Face { bold: true, ..Face::default() };
        let italic = Face { italic: true, ..Face::default() };
        for expected in [
            ("bold", bold),
            ("slanted", italic),
            ("code", Face::new(Tint::Code)),
            ("let", Face::new(Tint::Keyword)),
        ] {
            assert!(faces.contains(&expected), "{expected:?} in {faces:?}");
        }
    }

    #[test]
    fn text_that_resembles_a_mark_is_kept() {
        let text = "[a]: http://h/a \"t\"\n\n<b>html</b> &lt; a | b\n--|--\n1 | 2\n\n![alt](x.png)\n\n[ ] todo\n";
        let shown = rendered(text, 60);
        for part in ["[a]: http://h/a", "<b>html</b> < a | b", "1 | 2", "alt (x.png)", "[ ] todo"] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
    }

    #[test]
    fn no_text_controls_the_terminal() {
        let piles = "&#x301;".repeat(200);
        let evil = format!(
            "&#27;[2J &#x9b;1m \u{1b}]0;t\u{7} [a](http://h/&#27;c) `\u{202e}`\n\n```\u{1b}\n\u{9b}2J\n```\n\n> \u{8}\n\na{piles}\n\n[x]: \u{1b}c\n"
        );
        for line in render(&evil, 30) {
            let bad = line.text.chars().find(|c| super::super::is_dangerous(*c));
            assert_eq!(bad, None, "{line:?}");
            assert!(!has_piles(&line.text), "{line:?}");
        }
    }

    #[test]
    fn the_output_grows_linearly_with_the_text() {
        for unit in [
            ">", "- ", "* ", "[", "**a", "`", "&#27;", "<!--", "1. a\n", "> ```\n", "[a]: b\n",
            "![", "a_",
        ] {
            let count = |times: usize| -> usize {
                render(&unit.repeat(times), 80).iter().map(|line| line.text.len() + 1).sum()
            };
            let (small, large) = (count(500), count(4_000));
            assert!(large <= 12 * small.max(1_000), "{unit:?}: {small} bytes, then {large}");
        }
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_screen(text in "[ a-z漢*_`>#\\-0-9.\n\\[\\]()!<>&;~|]{0,200}", width in 12_usize..60) {
            for line in render(&text, width) {
                prop_assert!(line.text.trim_end().width() <= width, "{line:?} in {width}");
            }
        }
    }
}
