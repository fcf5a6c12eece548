//! Claude Code reads its files as Markdown: comments go, and `@path` counts in running text only.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use convoke_core::whitespace::{is_blank, is_space};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use convoke_explain::text::LineCounter;

/// The maximum number of mentions per file that are followed.
const MAX_MENTIONS: usize = 10_000;

/// The longest path that the system takes.
const MAX_PATH: usize = 4096;

/// An `@path` that counts as an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Import {
    /// The path as it is meant: without fragment, with its spaces.
    pub path: String,
    /// The 1-based line of the text.
    pub line: u64,
}

/// A text without what Claude Code leaves out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept<'a> {
    pub text: Cow<'a, str>,
    pub lost_comments: bool,
    pub lost_definitions: bool,
}

/// Removes block-level HTML comments; those within a line or in code stay. A text with any comment is rebuilt, which
/// also loses link definitions.
pub(crate) fn without_comments(text: &str) -> Kept<'_> {
    let mut kept =
        Kept { text: Cow::Borrowed(text), lost_comments: false, lost_definitions: false };
    if !text.contains("<!--") {
        return kept;
    }
    // The Markdown reader that rebuilds the text knows one kind of line end.
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut written = String::with_capacity(text.len());
    let mut at = 0;
    for block in top_level(&paragraphs_continued(&text)) {
        // Only blank lines and definitions are between two blocks.
        let block = whole_lines(&text, &block);
        if block.range.start >= at {
            let between = &text[at..block.range.start];
            let blank = blank_lines(between);
            written.push_str(&between[..blank]);
            kept.lost_definitions |= blank < between.len();
        }
        let start = block.range.start.max(at);
        at = block.range.end.max(start);
        let raw = &text[start..at];
        if block.is_html && raw.trim_start().starts_with("<!--") && raw.contains("-->") {
            let rest = without_comment_marks(raw);
            kept.lost_comments |= rest.len() < raw.len();
            if !is_blank(&rest) {
                written.push_str(&rest);
            }
        } else {
            written.push_str(raw);
        }
    }
    let blank = blank_lines(&text[at..]);
    written.push_str(&text[at..at + blank]);
    kept.lost_definitions |= at + blank < text.len();
    kept.text = Cow::Owned(written);
    kept
}

/// The length of the blank lines at the start of a text.
fn blank_lines(text: &str) -> usize {
    let lines = text.split_inclusive('\n').take_while(|line| is_blank(line));
    lines.map(str::len).sum()
}

/// The mentions of other files in a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    /// The imports, in order, each path once.
    pub imports: Vec<Import>,
    /// Mentions that are not imports only because of the character before their `@`: `(@a.md)`.
    pub near_misses: Vec<Import>,
}

/// Finds the imports of a text.
pub(crate) fn scan(text: &str) -> Scan {
    let mut found = Scan::default();
    if memchr::memchr(b'@', text.as_bytes()).is_none() {
        return found;
    }
    let mut once = HashSet::new();
    let mut lines = LineCounter::new(text);
    for run in runs(&paragraphs_continued(text)) {
        for (at, path) in mentions(&run.text) {
            if found.imports.len() < MAX_MENTIONS && once.insert(path.clone()) {
                let line = lines.line(run.source_of(at));
                found.imports.push(Import { path, line });
            }
        }
        let room = MAX_MENTIONS - found.near_misses.len();
        for (at, path) in enclosed_mentions(&run.text).take(room) {
            let line = lines.line(run.source_of(at));
            found.near_misses.push(Import { path: path.to_owned(), line });
        }
    }
    found
}

/// A top-level block.
struct Block {
    range: Range<usize>,
    is_html: bool,
    /// Whether it is a paragraph or a quotation, which the next line may continue.
    is_open: bool,
}

/// The maximum number of times that a text is read to find the lines that continue a paragraph.
const MAX_PASSES: usize = 8;

/// Claude Code's Markdown reader lets HTML that is indented continue a paragraph, where the standard begins a block. Returns
/// a text of the same length in which such a line begins with a letter.
fn paragraphs_continued(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    for _ in 0..MAX_PASSES {
        let spaces = continuing_spaces(&text);
        if spaces.is_empty() {
            break;
        }
        let mut continued = text.into_owned();
        for space in spaces {
            continued.replace_range(space..=space, "x");
        }
        text = Cow::Owned(continued);
    }
    text
}

/// Returns the last space before each indented block of HTML that directly follows a paragraph.
fn continuing_spaces(text: &str) -> Vec<usize> {
    let mut spaces = Vec::new();
    if !has_indented_html(text) {
        return spaces;
    }
    let mut is_open = false;
    let mut end = 0;
    for block in top_level(text) {
        let line = text[..block.range.start].rfind('\n').map_or(0, |at| at + 1);
        let raw = &text[line..block.range.end];
        let indent = raw.len() - raw.trim_start_matches(' ').len();
        let breaks = text[end..line].matches('\n').count();
        let follows = is_open && breaks <= usize::from(!text[..end].ends_with('\n'));
        let continues = block.is_html && indent > 0 && follows;
        if continues {
            spaces.push(line + indent - 1);
        }
        is_open = block.is_open || continues;
        end = block.range.end;
    }
    spaces
}

fn has_indented_html(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(' ') && line.trim_start_matches(' ').starts_with('<'))
}

fn top_level(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut depth = 0_usize;
    for (event, range) in Parser::new_ext(text, Options::empty()).into_offset_iter() {
        let is_html = matches!(event, Event::Start(Tag::HtmlBlock));
        let is_open = matches!(event, Event::Start(Tag::Paragraph | Tag::BlockQuote(_)));
        if depth == 0 && !matches!(event, Event::End(_)) {
            blocks.push(Block { range, is_html, is_open });
        }
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    blocks
}

/// Widens a block to its line's start and, if it is HTML, takes the line ends after it.
fn whole_lines(text: &str, block: &Block) -> Block {
    let start = text[..block.range.start].rfind('\n').map_or(0, |at| at + 1);
    let mut end = block.range.end;
    if !text[..end].ends_with('\n') {
        end += text[end..].find('\n').unwrap_or(text.len() - end);
    }
    if block.is_html {
        end += text[end..].bytes().take_while(|byte| *byte == b'\n').count();
    }
    Block { range: start..end, ..*block }
}

fn without_comment_marks(raw: &str) -> String {
    let mut kept = String::new();
    let mut rest = raw;
    while let Some(start) = rest.find("<!--") {
        let inside = start + "<!--".len();
        let Some(length) = rest[inside..].find("-->") else {
            break;
        };
        kept.push_str(&rest[..start]);
        rest = &rest[inside + length + "-->".len()..];
    }
    kept.push_str(rest);
    kept
}

/// A stretch of running text, with the places in the source that it was taken from.
#[derive(Debug, Default)]
struct Run {
    text: String,
    pieces: Vec<(usize, usize)>,
}

impl Run {
    fn push(&mut self, piece: &str, source: usize) {
        self.pieces.push((self.text.len(), source));
        self.text.push_str(piece);
    }

    fn source_of(&self, at: usize) -> usize {
        let behind = self.pieces.partition_point(|(start, _)| *start <= at);
        let piece = behind.checked_sub(1).and_then(|index| self.pieces.get(index));
        piece.map_or(0, |(start, source)| source + (at - start))
    }
}

/// The running text of a document: no code, no HTML, cut wherever inline markup begins or ends.
fn runs(text: &str) -> Vec<Run> {
    let mut runs = vec![Run::default()];
    // Neither code nor the description of an image is running text.
    let mut in_code = false;
    let mut images = 0_usize;
    let mut in_comment = false;
    let mut end_of_last = 0;
    for (event, range) in Parser::new_ext(text, Options::empty()).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(_)) => in_code = true,
            Event::End(TagEnd::CodeBlock) => in_code = false,
            Event::Start(Tag::HtmlBlock) => {
                in_comment = text[range.clone()].trim_start().starts_with("<!--");
            }
            Event::Start(Tag::Image { .. }) => images += 1,
            Event::End(TagEnd::Image) => images = images.saturating_sub(1),
            Event::Text(_) if in_code || images > 0 => {}
            Event::Text(_) => {
                // A backslash takes the meaning from the character behind it.
                let escaped = range.start > end_of_last
                    && text[..range.start].ends_with('\\')
                    && !range.is_empty();
                let skipped = match text[range.clone()].chars().next() {
                    Some(first) if escaped => first.len_utf8(),
                    _ => 0,
                };
                if escaped {
                    begin(&mut runs);
                }
                let start = range.start + skipped;
                if let Some(run) = runs.last_mut() {
                    run.push(&text[start..range.end], start);
                }
                end_of_last = range.end;
                continue;
            }
            Event::SoftBreak => {
                if let Some(run) = runs.last_mut() {
                    run.push("\n", range.start);
                }
                end_of_last = range.end;
                continue;
            }
            Event::Html(_) => {
                // Text after a comment on its line is kept.
                let raw = &text[range.clone()];
                if in_comment && raw.trim_start().starts_with("<!--") && raw.contains("-->") {
                    begin(&mut runs);
                    if let Some(run) = runs.last_mut() {
                        run.push(&without_comment_marks(raw), range.start);
                    }
                }
            }
            _ => {}
        }
        end_of_last = end_of_last.max(range.start);
        begin(&mut runs);
    }
    runs.retain(|run| run.text.contains('@'));
    runs
}

/// Begins another run; one that is empty or mentions nothing is used again.
fn begin(runs: &mut Vec<Run>) {
    match runs.last_mut() {
        Some(run) if !run.text.contains('@') => *run = Run::default(),
        _ => runs.push(Run::default()),
    }
}

/// The `@path`s of a stretch of text with their offsets: at its start or after white space.
fn mentions(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut after_space = true;
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        if character != '@' || !after_space {
            after_space = is_space(character);
            continue;
        }
        after_space = false;
        let mut path = String::new();
        while let Some(&(offset, next)) = characters.peek() {
            if next == '\\' && text[offset + 1..].starts_with(' ') {
                path.push(' ');
                characters.next();
            } else if next == '\\' || is_space(next) {
                break;
            } else {
                path.push(next);
            }
            characters.next();
        }
        if let Some(fragment) = path.find('#') {
            path.truncate(fragment);
        }
        if is_importable(&path) {
            found.push((at, path));
        }
    }
    found
}

/// Returns the `@path`s directly after a bracket or a quotation mark.
fn enclosed_mentions(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let ends = |next: char| is_space(next) || matches!(next, ')' | ']' | '"' | '\'');
    // Where the last path ended: one that begins before it ends there too.
    let mut end = 0;
    text.match_indices(['(', '"', '\'', '[']).filter_map(move |(at, _)| {
        let start = at + 1 + '@'.len_utf8();
        text[at + 1..].strip_prefix('@')?;
        if start > end {
            end = text[start..].find(ends).map_or(text.len(), |length| start + length);
        }
        let path = &text[start..end];
        (path.len() <= MAX_PATH && is_importable(path)).then_some((at, path))
    })
}

fn is_importable(path: &str) -> bool {
    let plain = |first: char| first.is_ascii_alphanumeric() || matches!(first, '.' | '_' | '-');
    path.starts_with("~/") || (path.starts_with('/') && path != "/") || path.starts_with(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        scan(text).imports.into_iter().map(|import| import.path).collect()
    }

    #[test]
    fn an_import_follows_white_space_or_begins_a_piece_of_text() {
        let cases: [(&str, &[&str]); 28] = [
            ("see @./a.md and @b/c.md", &["./a.md", "b/c.md"]),
            ("@/abs.md @~/home.md", &["/abs.md", "~/home.md"]),
            ("mid@sentence.md", &[]),
            ("(@paren.md) \"@quote.md\"", &[]),
            ("@dot.md. @comma.md, x", &["dot.md.", "comma.md,"]),
            ("@frag.md#part", &["frag.md"]),
            ("@with\\ space.md", &["with space.md"]),
            ("@back\\slash.md", &["back"]),
            ("`@span.md`", &[]),
            ("```\n@fence.md\n```", &[]),
            ("~~~\n@fence.md", &[]),
            ("a\n\n    @indented.md", &[]),
            ("a\n    @lazy.md", &["lazy.md"]),
            ("<!-- @comment.md -->", &[]),
            ("x <!-- @inline.md --> y", &[]),
            ("x\n <!-- @continued.md -->", &[]),
            ("x\n <div>\n@continued.md\n</div>", &["continued.md"]),
            ("x\n <!-- a\n\nb @behind.md -->", &["behind.md"]),
            ("<!-- c --> @behind.md", &["behind.md"]),
            ("<div>\n@html.md\n</div>", &[]),
            ("<div>\n<!-- c --> @html.md\n</div>", &[]),
            ("<!-- c --> @after.md", &["after.md"]),
            ("- @list.md\n- **@bold.md**", &["list.md", "bold.md"]),
            ("> @quoted.md\n> @two.md", &["quoted.md", "two.md"]),
            ("# @heading.md", &["heading.md"]),
            ("@dup.md @dup.md", &["dup.md"]),
            ("![@alt.md](x) [@link.md](x)", &["link.md"]),
            ("\\@escaped.md @ @@twice @#x", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(paths(text), expected, "{text:?}");
        }
    }

    #[test]
    fn an_import_knows_its_line() {
        let lines: Vec<_> = scan("# t\n\nx\ny @a.md\n\n- z\n- @b.md")
            .imports
            .into_iter()
            .map(|import| import.line)
            .collect();
        assert_eq!(lines, [4, 7]);
    }

    #[test]
    fn text_behind_a_bracket_or_quotation_mark_is_a_near_miss() {
        let found = scan("see (@docs/a.md) and \"@b.md\" but not `(@c.md)` or x(@)");
        let paths: Vec<_> = found.near_misses.iter().map(|it| &*it.path).collect();
        assert_eq!(paths, ["docs/a.md", "b.md"]);
    }

    #[test]
    fn the_definitions_of_links_go_with_any_comment() {
        let cases = [
            ("x\n\n[c]: d\n\nb", "x\n\n[c]: d\n\nb"),
            ("x <!-- i -->\n\n[c]: d\n\nb", "x <!-- i -->\n\nb"),
            ("x\n\n[c]: d \"t\"\n[C]: again\n\n\nb\n<!-- x -->", "x\n\nb\n"),
            ("<!-- x -->\n[c]: d\nb", "b"),
            ("x <!-- i -->\n\n[c]: d", "x <!-- i -->\n\n"),
            ("x\n[c]: d\n\n<!-- x -->", "x\n[c]: d\n\n"),
            ("- a\n\n  [c]: d\n\n> [q]: r\n\n<!-- x -->", "- a\n\n  [c]: d\n\n> [q]: r\n\n"),
            ("***\n[^1]: note\nb\n<!-- x -->", "***\nb\n"),
        ];
        for (text, expected) in cases {
            let kept = without_comments(text);
            assert_eq!(kept.text, expected, "{text:?}");
            let has_lost = text.contains("<!--") && !kept.text.contains("]: ");
            assert_eq!(kept.lost_definitions, has_lost, "{text:?}");
        }
    }

    #[test]
    fn comments_that_are_blocks_go_with_the_blank_lines_below_them() {
        let cases = [
            ("a\n\n<!-- c -->\n\nb\n", "a\n\nb\n"),
            ("a <!-- c --> b\n", "a <!-- c --> b\n"),
            ("```\n<!-- c -->\n```\n", "```\n<!-- c -->\n```\n"),
            ("<!-- one\n\ntwo -->\nb\n", "b\n"),
            ("a\n<!-- c -->\nb\n", "a\nb\n"),
            ("<!-- a --><!-- b -->\nc\n", "c\n"),
            ("<!-- a --> kept\nc\n", " kept\nc\n"),
            ("<!-- never closed\nb\n", "<!-- never closed\nb\n"),
            ("- item\n  <!-- in a list -->\n", "- item\n  <!-- in a list -->\n"),
            ("<div>\n<!-- c -->\n</div>\n", "<div>\n<!-- c -->\n</div>\n"),
            ("<!-- only -->", ""),
            ("  <!-- a -->\n<!-- b -->\n\nx", "x"),
            ("no comment\r\n", "no comment\r\n"),
            ("a\r\n<!-- c -->\r\nb\r\n", "a\nb\n"),
            ("<!-->\nx\n<!---->\ny", "<!-->\nx\ny"),
            ("a\n <!-- c -->\nb\n", "a\n <!-- c -->\nb\n"),
            ("a\n   <!-- c -->\n <!-- d -->\nb\n", "a\n   <!-- c -->\n <!-- d -->\nb\n"),
            ("a\n<!-- c -->\n <!-- d -->\nb\n", "a\nb\n"),
            ("a\n\n <!-- c -->\nb\n", "a\n\nb\n"),
            ("a\n <!-- c\n\nd -->\nb\n", "a\n <!-- c\n\nd -->\nb\n"),
            ("# a\n <!-- c -->\nb\n", "# a\nb\n"),
            ("- a\n <!-- c -->\nb\n", "- a\nb\n"),
            ("> a\n <!-- c -->\nb\n", "> a\n <!-- c -->\nb\n"),
        ];
        for (text, expected) in cases {
            assert_eq!(without_comments(text).text, expected, "{text:?}");
        }
    }
}
