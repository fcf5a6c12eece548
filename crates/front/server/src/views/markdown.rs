//! What people and models write, as HTML: the part of Markdown that is safe. Nothing of a text becomes a tag: HTML in it stays
//! text, an image is its address, and a link leads to the web only.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};
use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::code::{self, Language};
use super::text::exact;

/// The maximum number of bytes of a text that is read as Markdown; a longer one is shown as it is.
const MAX_BYTES: usize = 64 << 10;
/// The bytes and the lines of a text that is shown whole; a longer one is folded.
const FOLDED: usize = 4_000;
const FOLDED_LINES: usize = 40;
/// The maximum depth of lists and quotations.
const MAX_DEPTH: usize = 16;

/// Renders a text.
pub(crate) fn rendered(text: &str) -> Markup {
    if text.len() > MAX_BYTES {
        return html! { pre.text { (exact(text, false)) } };
    }
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = Writer::default();
    for event in Parser::new_ext(text, options) {
        writer.write(event);
    }
    html! { div.prose { (PreEscaped(writer.html)) } }
}

/// Renders a text, folded if it is long.
pub(crate) fn folded(text: &str) -> Markup {
    let is_long = text.len() > FOLDED || text.lines().count() > FOLDED_LINES;
    html! {
        @if is_long {
            div.fold { (rendered(text)) }
            button.unfold type="button" data-unfold aria-expanded="false" { "Show all" }
        } @else { (rendered(text)) }
    }
}

#[derive(Default)]
struct Writer {
    html: String,
    /// The language and the text of the block of code that is being read.
    code: Option<(Option<Language>, String)>,
    /// The alignments of the columns, the number of the next one, and whether the row is the head.
    table: (Vec<Alignment>, usize, bool),
    depth: usize,
}

impl Writer {
    fn write(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.text(&text),
            },
            Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) => {
                self.html.push_str("<code>");
                self.text(&text);
                self.html.push_str("</code>");
            }
            Event::SoftBreak => self.html.push('\n'),
            Event::HardBreak => self.html.push_str("<br>"),
            Event::Rule => self.html.push_str("<hr>"),
            Event::TaskListMarker(is_done) => {
                self.html.push_str(if is_done { "☑ " } else { "☐ " });
            }
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.text(&text);
            }
        }
    }

    fn text(&mut self, text: &str) {
        self.html.push_str(&exact(text, false).0);
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.html.push_str("<p>"),
            Tag::Heading { level, .. } => {
                self.html.push_str("<p class=\"h ");
                self.html.push_str(heading_class(level));
                self.html.push_str("\">");
            }
            Tag::BlockQuote(_) => self.nest("<blockquote>"),
            Tag::CodeBlock(kind) => {
                let language = match kind {
                    CodeBlockKind::Fenced(info) => {
                        let word = info.split([' ', ',', '{']).next().unwrap_or_default();
                        Language::named(word)
                    }
                    CodeBlockKind::Indented => None,
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(None) => self.nest("<ul>"),
            Tag::List(Some(start)) => {
                let list =
                    if start == 1 { "<ol>".to_owned() } else { format!("<ol start=\"{start}\">") };
                self.nest(&list);
            }
            Tag::Item => self.html.push_str("<li>"),
            Tag::Table(alignments) => {
                self.table = (alignments, 0, false);
                self.html.push_str("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"A table\"><table>");
            }
            Tag::TableHead => {
                self.table.1 = 0;
                self.table.2 = true;
                self.html.push_str("<thead><tr>");
            }
            Tag::TableRow => {
                self.table.1 = 0;
                self.html.push_str("<tr>");
            }
            Tag::TableCell => {
                let is_right = self.table.0.get(self.table.1) == Some(&Alignment::Right);
                self.table.1 += 1;
                let cell = if self.table.2 { "th" } else { "td" };
                let class = if is_right { " class=\"figure\"" } else { "" };
                let _ = write!(self.html, "<{cell}{class}>");
            }
            Tag::Emphasis => self.html.push_str("<em>"),
            Tag::Strong => self.html.push_str("<strong>"),
            Tag::Strikethrough => self.html.push_str("<del>"),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => self.link(&dest_url),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::Heading(_) => self.html.push_str("</p>"),
            TagEnd::BlockQuote(_) => self.leave("</blockquote>"),
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(is_ordered) => self.leave(if is_ordered { "</ol>" } else { "</ul>" }),
            TagEnd::Item => self.html.push_str("</li>"),
            TagEnd::Table => self.html.push_str("</tbody></table></div>"),
            TagEnd::TableHead => {
                self.table.2 = false;
                self.html.push_str("</tr></thead><tbody>");
            }
            TagEnd::TableRow => self.html.push_str("</tr>"),
            TagEnd::TableCell => self.html.push_str(if self.table.2 { "</th>" } else { "</td>" }),
            TagEnd::Emphasis => self.html.push_str("</em>"),
            TagEnd::Strong => self.html.push_str("</strong>"),
            TagEnd::Strikethrough => self.html.push_str("</del>"),
            TagEnd::Link | TagEnd::Image => self.html.push_str("</a>"),
            _ => {}
        }
    }

    /// Begins a list or a quotation; beyond the maximum depth its content stays where it is.
    fn nest(&mut self, tag: &str) {
        self.depth += 1;
        if self.depth <= MAX_DEPTH {
            self.html.push_str(tag);
        }
    }

    fn leave(&mut self, tag: &str) {
        if self.depth <= MAX_DEPTH {
            self.html.push_str(tag);
        }
        self.depth = self.depth.saturating_sub(1);
    }

    /// Begins a link. Its address is shown on it, because it leads away.
    fn link(&mut self, address: &str) {
        let leads_to_the_web = address.starts_with("https://") || address.starts_with("http://");
        let shown = exact(address, false).0;
        if leads_to_the_web && !shown.contains("<b class") {
            let away = "target=\"_blank\" rel=\"noopener noreferrer\"";
            let _ = write!(self.html, "<a href=\"{shown}\" title=\"{shown}\" {away}>");
        } else {
            self.html.push_str("<a>");
        }
    }

    fn end_code(&mut self) {
        let Some((language, code)) = self.code.take() else { return };
        let shown = match language {
            Some(language) => code::lines(&code, language),
            None => exact(&code, false),
        };
        self.html.push_str("<pre class=\"code\" tabindex=\"0\">");
        self.html.push_str(&shown.0);
        self.html.push_str("</pre>");
    }
}

const fn heading_class(level: HeadingLevel) -> &'static str {
    match level {
        HeadingLevel::H1 => "h-1",
        HeadingLevel::H2 => "h-2",
        _ => "h-3",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inner(text: &str) -> String {
        let html = rendered(text).0;
        html.trim_start_matches("<div class=\"prose\">").trim_end_matches("</div>").to_owned()
    }

    #[test]
    fn markdown_is_shown() {
        assert_eq!(
            inner("# A\n\nb *c* `d<`"),
            "<p class=\"h h-1\">A</p><p>b <em>c</em> <code>d&lt;</code></p>"
        );
        assert_eq!(inner("3. a"), "<ol start=\"3\"><li>a</li></ol>");
        assert!(inner("```rust\nlet a;\n```").contains("<span class=\"h-word\">let</span>"));
        assert!(inner("|a|b|\n|-|-:|\n|1|2|").contains("<td class=\"figure\">2</td>"));
    }

    #[test]
    fn nothing_of_a_text_acts() {
        for text in [
            "<script>a()</script>",
            "a <img src=x onerror=\"a()\"> b",
            "[x](javascript:a())",
            "![x](data:text/html,<script>)",
            "[x](https://a\u{202e}b/)",
            "[x](https://a/\"onclick=\"a())",
            "\u{1b}[2J",
        ] {
            let html = inner(text);
            for bad in [
                "<script",
                "<img",
                "href=\"javascript",
                "href=\"data",
                "\"onclick",
                "\u{1b}",
                "\u{202e}",
            ] {
                assert!(!html.contains(bad), "{text}: {html}");
            }
        }
        let deep = format!("{}x", "> ".repeat(200));
        assert_eq!(inner(&deep).matches("<blockquote>").count(), MAX_DEPTH);
    }
}
