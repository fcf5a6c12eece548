//! A handover read back, so that a chain of handovers stays one history.
//!
//! Every line of the history is quoted, so the lines of Convoke's own cannot be imitated by what it quotes.

use super::clean::QUOTE;
use super::item::Kind;
use super::{BEGIN, END, INTRODUCTION, LEFT_OUT};

/// An earlier handover at the beginning of a session.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Earlier<'t> {
    /// What the person wrote before it.
    pub(super) message: &'t str,
    /// The sessions that it was written from.
    pub(super) from: &'t str,
    /// The kind, the heading and the text of each item.
    pub(super) items: Vec<(Kind, String, String)>,
    /// The numbers of the items that it left out.
    pub(super) left_out: Vec<(Kind, u64)>,
}

/// Reads a handover; `None` if the text is none.
pub(super) fn read(text: &str) -> Option<Earlier<'_>> {
    let introduction = line_at(text, INTRODUCTION)?;
    let begin = introduction + line_at(&text[introduction..], BEGIN)?;
    let (first, rest) = text[begin..].split_once('\n')?;
    let from = first.strip_prefix(BEGIN)?.trim_end().strip_suffix("\">")?;
    let end = line_at(rest, END)?;
    let (body, last) = (&rest[..end], &rest[end + END.len()..]);
    let message = text[..introduction].trim();
    Some(Earlier { message, from, items: items(body), left_out: left_out(last) })
}

/// Returns where the first line begins that begins with a text.
fn line_at(text: &str, beginning: &str) -> Option<usize> {
    let mut found = text.match_indices(beginning).map(|(at, _)| at);
    found.find(|at| *at == 0 || text.as_bytes()[at - 1] == b'\n')
}

fn items(body: &str) -> Vec<(Kind, String, String)> {
    let mut items: Vec<(Kind, String, String)> = Vec::new();
    let mut kind = None;
    for line in body.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            kind = Kind::ALL.into_iter().find(|kind| kind.title() == title);
        } else if let (Some(heading), Some(kind)) = (line.strip_prefix("### "), kind) {
            items.push((kind, heading_again(kind, heading), String::new()));
        } else if let Some((_, _, text)) = items.last_mut().filter(|_| !line.is_empty()) {
            // Marks of what was cut are not quoted.
            let line = line.strip_prefix(QUOTE).unwrap_or(line);
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(line);
        }
    }
    items
}

/// Returns the heading of an item that is handed over again. Edits cannot be compared again: their whole texts are not there.
fn heading_again(kind: Kind, heading: &str) -> String {
    match heading.rsplit_once("; ") {
        Some((edit, _)) if kind == Kind::Edit => format!("{edit}; handed over before"),
        _ => heading.to_owned(),
    }
}

/// Reads the counts of the last paragraph: `3 of 20 messages of the person; 1 of 2 plans`.
fn left_out(paragraph: &str) -> Vec<(Kind, u64)> {
    let Some((_, counts)) = paragraph.split_once(LEFT_OUT) else { return Vec::new() };
    let counts = counts.split_once('.').map_or(counts, |(counts, _)| counts);
    let count = |text: &str| {
        let (items, rest) = text.trim().split_once(" of ")?;
        let (_, noun) = rest.split_once(' ')?;
        let kind = Kind::ALL.into_iter().find(|kind| {
            let (one, many) = kind.nouns();
            noun == one || noun == many
        });
        Some((kind?, items.replace(',', "").parse().ok()?))
    };
    counts.split(';').filter_map(count).collect()
}
