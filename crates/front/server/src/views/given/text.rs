//! The text by parts. Parts come in chunks: those near the reader are in the page, the others are loaded when they are needed.

use maud::{Markup, html};

use super::{CHUNK, Form, Given, Kind, Part, label, shown};
use crate::views::conversation::more;
use crate::views::text::{beginning, plain};
use crate::views::{count, number};

/// The maximum number of bytes of a part that are shown at once.
const SHOWN: usize = 16 << 10;
/// The maximum number of bytes of all texts that a page begins with.
const AT_FIRST: usize = 192 << 10;
/// The lines of a part that are not folded.
const LINES: usize = 30;

/// Renders the text.
pub(crate) fn sections(given: &Given<'_>) -> Markup {
    let content: Vec<&Part<'_>> = given.content().collect();
    let mut left = AT_FIRST;
    let is_here = |(at, parts): (usize, &[&Part<'_>])| {
        let size = parts.iter().map(|part| size(part)).sum::<usize>();
        let is_here = at == 0 || size <= left;
        left = left.saturating_sub(size);
        is_here
    };
    let are_here: Vec<bool> = content.chunks(CHUNK).enumerate().map(is_here).collect();
    html! {
        @if content.is_empty() { p.empty { "Nothing of it is known." } }
        @for (at, parts) in content.chunks(CHUNK).enumerate() {
            @let is_here = are_here[at];
            @let (first, last) = (parts[0].index, parts[parts.len() - 1].index);
            @let path = given.address("parts", &format!("chunk={at}"));
            div.chunk data-chunk=(path) data-first=(first) data-last=(last) data-rows=(parts.len()) data-here[is_here] {
                @if is_here { (self::parts(given, parts, at.checked_sub(1).and_then(|_| content.get(at * CHUNK - 1)).copied())) }
            }
        }
        (frame(given))
    }
}

fn size(part: &Part<'_>) -> usize {
    part.text.as_ref().map_or(0, |text| text.len().min(SHOWN))
}

/// Renders every part, whole, with what holds them together.
pub(super) fn whole(given: &Given<'_>, prefix: &str) -> Markup {
    html! {
        @for part in &given.parts {
            article.piece.(part.kind.class()) #(format!("{prefix}-part-{}", part.index)) {
                header { strong.label { (label(&part.label)) } span.source { (label(&part.source)) } span.figures { "~" (number(part.tokens)) " tokens · " (number(part.bytes)) " B" } }
                @if is_worth_saying(&part.rule) || part.left_out > 0 { p.rule { (label(&part.rule)) @if part.left_out > 0 { " · " (number(part.left_out)) " bytes left out" } } }
                @if let Some(text) = &part.text { div.body { pre { (shown(text)) } } }
            }
        }
    }
}

/// Renders one chunk of the text.
pub(crate) fn chunk(given: &Given<'_>, at: usize) -> Option<Markup> {
    let content: Vec<&Part<'_>> = given.content().collect();
    let parts = content.chunks(CHUNK).nth(at)?;
    let before = (at * CHUNK).checked_sub(1).and_then(|before| content.get(before)).copied();
    Some(self::parts(given, parts, before))
}

fn parts(given: &Given<'_>, parts: &[&Part<'_>], before: Option<&Part<'_>>) -> Markup {
    let mut section = before.map(|part| &*part.section);
    html! {
        @for part in parts {
            @if section.replace(&part.section) != Some(&part.section) { h2.section { (label(&part.section)) } }
            (self::part(given, part))
        }
    }
}

fn part(given: &Given<'_>, part: &Part<'_>) -> Markup {
    html! {
        article.piece.(part.kind.class()) #(format!("part-{}", part.index)) data-part=(part.index) tabindex="-1" {
            header {
                strong.label title=(plain(&part.label)) { (label(&part.label)) }
                span.source title=(plain(&part.source)) { @if part.source.trim_matches('`') != part.label { (label(&part.source)) } }
                span.figures { @if part.bytes > 0 { (number(part.bytes)) " B · " } "~" (number(part.tokens)) " tokens" }
                @if part.text.is_some() { button.quiet type="button" data-copy=(given.address(&format!("parts/{}", part.index), "raw=1")) { "Copy" } }
            }
            @if is_worth_saying(&part.rule) || part.left_out > 0 {
                p.rule { (label(&part.rule)) @if part.left_out > 0 { " · " strong { (number(part.left_out)) " bytes left out" } } }
            }
            @match &part.text {
                Some(text) => (body(given, part, text)),
                None if part.bytes > 0 => p.rule { (number(part.bytes)) " bytes, which are not kept" },
                None => {},
            }
        }
    }
}

/// Returns whether a rule tells more than that a text was sent whole.
fn is_worth_saying(rule: &str) -> bool {
    !matches!(rule, "fits" | "frame" | "the program logged it" | "rebuilt from the session")
}

fn body(given: &Given<'_>, part: &Part<'_>, text: &str) -> Markup {
    let (begun, rest) = beginning(text, SHOWN);
    let lines = begun.lines().count();
    let is_long = lines > LINES || begun.len() > LINES * 120;
    let is_code = part.form == Form::Json || matches!(part.kind, Kind::Results | Kind::Files);
    html! {
        div.body.long[is_long].code[is_code] {
            span.gutter aria-hidden="true" { (line_numbers(lines)) }
            (piece(begun, rest, &given.address(&format!("parts/{}", part.index), "")))
        }
        @if is_long { button.unfold type="button" data-unfold aria-expanded="false" { "Show all" @if rest == 0 { " " (count(lines as u64, "line")) } } }
    }
}

/// Renders the beginning of a text, with a button for more.
fn piece(text: &str, rest: usize, path: &str) -> Markup {
    html! { pre { (shown(text)) @if rest > 0 { (more(path, text.len(), rest)) } } }
}

fn line_numbers(lines: usize) -> String {
    let numbers: Vec<String> = (1..=lines).map(|line| line.to_string()).collect();
    numbers.join("\n")
}

/// Renders what holds the parts together, folded into one row.
fn frame(given: &Given<'_>) -> Markup {
    let frame: Vec<&Part<'_>> = given.frame().collect();
    let bytes: u64 = frame.iter().map(|part| part.bytes).sum();
    let names = names(&frame);
    html! {
        @if !frame.is_empty() {
            details.frame #frame data-frame {
                summary { "Frame" span.source { (label(&names)) } span.figures { (number(bytes)) " B · " (count(frame.len() as u64, "piece")) } }
                p.rule { "Headers, separators and the JSON around the parts. " em { "Exact" } " shows each in its place." }
            }
        }
    }
}

/// Returns the names of pieces, each once.
fn names(frame: &[&Part<'_>]) -> String {
    let mut names: Vec<&str> = frame.iter().map(|part| &*part.label).collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(6);
    names.join(", ")
}
