//! A ledger as pictures: a bar in the order of the text, and a treemap by group. The parts of each add up to the bytes
//! that were sent.

use std::collections::BTreeMap;

use convoke_core::ledger::{Entry, Ledger, Source};
use maud::{Markup, html};

use super::{number, percent};
use crate::query::Grouping;

/// The maximum number of parts of a picture; the smallest are drawn as one.
const MAX_PARTS: usize = 400;
/// The width of a picture, in its own units.
const WIDTH: f64 = 640.0;
/// The height of the treemap.
const HEIGHT: f64 = 360.0;
/// The height of a bar.
const BAR: f64 = 28.0;
/// The width of a letter in a label, and the height of its line.
const LETTER: f64 = 7.4;
const LINE: f64 = 17.0;
/// The number of colours.
const COLOURS: usize = 8;

/// A part of a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The number of its entry in the ledger; `None` for several entries.
    pub entry: Option<usize>,
    /// The description.
    pub label: String,
    /// The text on it.
    pub name: String,
    pub group: String,
    pub bytes: u64,
}

/// Returns the parts of a ledger that were sent, in the order of the text. Beyond the most that are drawn, the smallest
/// are one part.
pub fn parts(ledger: &Ledger<'_>, by: Grouping) -> Vec<Part> {
    let mut parts: Vec<Part> = ledger
        .entries()
        .enumerate()
        .filter(|(_, entry)| entry.kept_bytes() > 0)
        .map(|(index, entry)| Part {
            entry: Some(index),
            label: format!("{}: {}", entry.section, source(&entry.source)),
            name: match by {
                Grouping::Section => source(&entry.source).replace('`', ""),
                Grouping::Source | Grouping::Owner => entry.section.to_string(),
            },
            group: group(&entry, by),
            bytes: entry.kept_bytes(),
        })
        .collect();
    if parts.len() > MAX_PARTS {
        let mut sizes: Vec<u64> = parts.iter().map(|part| part.bytes).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let least = sizes[MAX_PARTS - 1];
        let (kept, small): (Vec<Part>, Vec<Part>) =
            parts.into_iter().partition(|part| part.bytes > least);
        let label = format!("{} small parts", number(small.len() as u64));
        let bytes = small.iter().map(|part| part.bytes).sum();
        parts = kept;
        parts.push(Part { entry: None, group: label.clone(), name: label.clone(), label, bytes });
    }
    parts
}

/// Returns the group of an entry.
pub fn group(entry: &Entry<'_>, by: Grouping) -> String {
    match by {
        Grouping::Section => entry.section.to_string(),
        Grouping::Source => source(&entry.source),
        Grouping::Owner => owner(&entry.source).to_owned(),
    }
}

/// Returns a source in words.
pub fn source(source: &Source<'_>) -> String {
    match source {
        Source::Message { id: Some(id), .. } => id.to_string(),
        Source::Message { index: Some(index), .. } => format!("message {index}"),
        Source::Message { .. } => "a message".to_owned(),
        Source::File { path, lines: Some((from, to)) } => format!("{path}, lines {from} to {to}"),
        Source::File { path, .. } => path.to_string(),
        Source::Setting { name } => format!("`{name}`"),
        Source::Convoke { what } => format!("Convoke: {what}"),
        Source::Program { what } => format!("the program's own: {what}"),
        Source::Tool { .. } => "a tool's output".to_owned(),
        Source::History { .. } => "the history".to_owned(),
        Source::Model { .. } => "the model's answer".to_owned(),
        _ => "another source".to_owned(),
    }
}

/// Returns the owner of a text.
pub fn owner(source: &Source<'_>) -> &'static str {
    match source {
        Source::Message { .. } => "messages",
        Source::File { .. } => "files",
        Source::Setting { .. } => "settings",
        Source::Convoke { .. } => "Convoke",
        Source::Program { .. } => "the program's own",
        Source::Tool { .. } => "tools",
        Source::History { .. } => "history",
        Source::Model { .. } => "the model",
        _ => "others",
    }
}

/// The groups of parts, the largest first.
fn groups(parts: &[Part]) -> Vec<(&str, u64)> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for part in parts {
        *sums.entry(&part.group).or_default() += part.bytes;
    }
    let mut groups: Vec<(&str, u64)> = sums.into_iter().collect();
    groups.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    groups
}

fn colour(groups: &[(&str, u64)], group: &str) -> String {
    let index = groups.iter().position(|(name, _)| *name == group).unwrap_or(0);
    format!("c{}", index % COLOURS)
}

/// Returns the pictures of parts, with their legend.
pub fn pictures(parts: &[Part], title: &str) -> Markup {
    let whole: u64 = parts.iter().map(|part| part.bytes).sum();
    let groups = groups(parts);
    html! {
        figure.pictures {
            (bar(parts, &groups, whole, title))
            (treemap(parts, &groups, whole, title))
            figcaption {
                ul.legend {
                    @for (name, bytes) in &groups {
                        li { span.swatch.(colour(&groups, name)) {} " " (name) " " span.figure { (number(*bytes)) " bytes, " (percent(*bytes, whole)) } }
                    }
                }
            }
        }
    }
}

/// Returns the bar: one rectangle for each part, in the order of the text.
fn bar(parts: &[Part], groups: &[(&str, u64)], whole: u64, title: &str) -> Markup {
    let mut end = 0.0;
    let areas = parts.iter().map(|part| {
        let width = scaled(part.bytes, whole);
        end += width;
        Area { x: end - width, y: 0.0, width, height: BAR }
    });
    html! {
        svg.bar viewBox=(format!("0 0 {WIDTH} {BAR}")) preserveAspectRatio="none" role="img" aria-label=(format!("{title} in the order of the text; the table has the same figures")) data-bytes=(whole) {
            @for (part, area) in parts.iter().zip(areas) { (rectangle(part, groups, whole, area)) }
        }
    }
}

/// Returns the treemap: groups, and in each its parts.
fn treemap(parts: &[Part], groups: &[(&str, u64)], whole: u64, title: &str) -> Markup {
    let sizes: Vec<u64> = groups.iter().map(|(_, bytes)| *bytes).collect();
    let areas = squarified(&sizes, Area { x: 0.0, y: 0.0, width: WIDTH, height: HEIGHT });
    html! {
        svg.treemap viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(format!("{title} by group; the table has the same figures")) data-bytes=(whole) {
            @for ((name, _), area) in groups.iter().zip(areas) {
                @let inner = sorted(parts, name);
                @let sizes = inner.iter().map(|part| part.bytes).collect::<Vec<_>>();
                @for (part, area) in inner.iter().zip(squarified(&sizes, area)) {
                    (rectangle(part, groups, whole, area))
                    (label(part, area))
                }
            }
        }
    }
}

/// Returns the parts of a group, the largest first.
fn sorted<'p>(parts: &'p [Part], group: &str) -> Vec<&'p Part> {
    let mut inner: Vec<&Part> = parts.iter().filter(|part| part.group == group).collect();
    inner.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.entry.cmp(&b.entry)));
    inner
}

fn rectangle(part: &Part, groups: &[(&str, u64)], whole: u64, area: Area) -> Markup {
    let Area { x, y, width, height } = area;
    let title =
        format!("{}: {} bytes, {}", part.label, number(part.bytes), percent(part.bytes, whole));
    let class = format!("part {}", colour(groups, &part.group));
    html! {
        rect class=(class) data-bytes=(part.bytes) data-part=[part.entry]
            x=(rounded(x)) y=(rounded(y)) width=(rounded(width)) height=(rounded(height)) { title { (title) } }
    }
}

/// Writes the name and the size on a rectangle, if they fit.
fn label(part: &Part, area: Area) -> Markup {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rectangle has a small width"
    )]
    let room = ((area.width - 10.0) / LETTER).max(0.0) as usize;
    let (name, size) = (shortened(&part.name, room), number(part.bytes));
    html! {
        @if let Some(name) = name && area.height >= LINE + 4.0 {
            text x=(rounded(area.x + 6.0)) y=(rounded(area.y + LINE)) { (name) }
            @if area.height >= 2.0 * LINE + 6.0 && size.len() <= room {
                text.size x=(rounded(area.x + 6.0)) y=(rounded(area.y + 2.0 * LINE)) { (size) }
            }
        }
    }
}

/// Returns a name cut to a number of letters; `None` if too little would remain.
fn shortened(name: &str, room: usize) -> Option<String> {
    let name: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if name.chars().count() <= room {
        return Some(name);
    }
    (room >= 5).then(|| name.chars().take(room - 1).chain(['…']).collect())
}

fn rounded(value: f64) -> String {
    format!("{value:.3}")
}

/// Returns the share of a whole in the width of a picture.
#[expect(
    clippy::cast_precision_loss,
    reason = "a picture has fewer pixels than a float has digits"
)]
fn scaled(bytes: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { bytes as f64 / whole as f64 * WIDTH }
}

/// A rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Area {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

/// Divides a rectangle by sizes, the largest first, into parts that are as square as possible.
#[expect(
    clippy::cast_precision_loss,
    reason = "a picture has fewer pixels than a float has digits"
)]
fn squarified(sizes: &[u64], area: Area) -> Vec<Area> {
    let whole: u64 = sizes.iter().sum();
    if whole == 0 {
        return vec![Area { width: 0.0, height: 0.0, ..area }; sizes.len()];
    }
    let scale = area.width * area.height / whole as f64;
    let sizes: Vec<f64> = sizes.iter().map(|size| *size as f64 * scale).collect();
    let mut areas = Vec::with_capacity(sizes.len());
    let mut rest = area;
    let mut from = 0;
    while from < sizes.len() {
        let side = rest.width.min(rest.height);
        let mut to = from + 1;
        while to < sizes.len() && worst(&sizes[from..=to], side) <= worst(&sizes[from..to], side) {
            to += 1;
        }
        let sum: f64 = sizes[from..to].iter().sum();
        let is_wide = rest.width >= rest.height;
        let depth = if side > 0.0 { sum / side } else { 0.0 };
        let mut at = 0.0;
        for size in &sizes[from..to] {
            let length = if depth > 0.0 { size / depth } else { 0.0 };
            areas.push(if is_wide {
                Area { x: rest.x, y: rest.y + at, width: depth, height: length }
            } else {
                Area { x: rest.x + at, y: rest.y, width: length, height: depth }
            });
            at += length;
        }
        rest = if is_wide {
            Area { x: rest.x + depth, width: (rest.width - depth).max(0.0), ..rest }
        } else {
            Area { y: rest.y + depth, height: (rest.height - depth).max(0.0), ..rest }
        };
        from = to;
    }
    areas
}

/// Returns the worst aspect ratio of a row's rectangles.
fn worst(row: &[f64], side: f64) -> f64 {
    let sum: f64 = row.iter().sum();
    let (largest, smallest) = row
        .iter()
        .fold((0.0_f64, f64::MAX), |(most, least), size| (most.max(*size), least.min(*size)));
    let (side, sum) = (side * side, sum * sum);
    (side * largest / sum).max(sum / (side * smallest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_treemap_fills_its_area() {
        let area = Area { x: 0.0, y: 0.0, width: 100.0, height: 60.0 };
        let areas = squarified(&[600, 300, 90, 9, 1], area);
        let filled: f64 = areas.iter().map(|it| it.width * it.height).sum();
        assert!((filled - 6000.0).abs() < 0.001, "{filled}");
        assert!(areas.iter().all(|it| it.x + it.width < 100.001 && it.y + it.height < 60.001));
        let first = areas[0].width * areas[0].height;
        assert!((first - 3600.0).abs() < 0.001, "{first}");
        assert_eq!(squarified(&[0, 0], area).len(), 2);
    }

    #[test]
    fn a_name_is_shortened_or_left_out() {
        assert_eq!(shortened("settings", 8).as_deref(), Some("settings"));
        assert_eq!(shortened("settings", 6).as_deref(), Some("setti…"));
        assert_eq!(shortened("settings", 4), None);
    }

    #[test]
    fn many_parts_still_add_up() {
        let entries: Vec<String> = (0..1000_u64)
            .map(|index| {
                let (from, to) = (index * 10, index * 10 + 10);
                format!(
                    "{{\"target\":\"prompt\",\"section\":\"s\",\"source\":{{\"kind\":\"message\"}},\
                     \"range\":[{from},{to}],\"keptBytes\":10,\"cutBytes\":0,\"rule\":\"fits\"}}"
                )
            })
            .collect();
        let json = format!("{{\"maxBytes\":null,\"entries\":[{}]}}", entries.join(","));
        let ledger: Ledger<'static> = serde_json::from_str(&json).unwrap();
        let parts = parts(&ledger, Grouping::Section);
        assert!(parts.len() <= MAX_PARTS);
        assert_eq!(parts.iter().map(|part| part.bytes).sum::<u64>(), ledger.used_bytes());
    }
}
