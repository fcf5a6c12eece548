//! The parts as a bar in the order of the text, and as a treemap by kind.

use maud::{Markup, html};

use super::{Given, Kind, Part};
use crate::views::chart::{Area, rounded, shortened, squarified};
use crate::views::text::plain;
use crate::views::{number, percent};

/// The maximum number of tiles; the smallest parts are drawn as one.
const MAX_TILES: usize = 160;
/// The size of the pictures, about that of their place on a screen, so that letters keep their size.
const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 190.0;
const BAR: f64 = 10.0;
/// The width of a letter in a label, and the height of its line.
const LETTER: f64 = 6.6;
const LINE: f64 = 15.0;

/// A tile: a part, or several small ones.
struct Tile {
    part: Option<usize>,
    kind: Kind,
    label: String,
    title: String,
    bytes: u64,
    /// What its area shows.
    tokens: u64,
}

/// Renders the bar and the treemap.
pub(super) fn treemap(given: &Given<'_>) -> Markup {
    let tiles = tiles(given);
    let whole: u64 = tiles.iter().map(|tile| tile.tokens).sum();
    let bytes = given.bytes();
    let kinds: Vec<(Kind, Vec<&Tile>)> = by_kind(&tiles);
    let sizes: Vec<u64> =
        kinds.iter().map(|(_, tiles)| tiles.iter().map(|tile| tile.tokens).sum()).collect();
    let area = Area { x: 0.0, y: 0.0, width: WIDTH, height: HEIGHT };
    html! {
        svg.bar.order viewBox=(format!("0 0 {WIDTH} {BAR}")) preserveAspectRatio="none" role="img" aria-label="The parts in the order of the text; the list has the same" data-bytes=(bytes) {
            @for (tile, area) in tiles.iter().zip(in_order(&tiles, whole)) { (rectangle(tile, area)) }
        }
        svg.treemap viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label="The parts by kind and size; the list has the same" data-bytes=(bytes) {
            @for ((_, tiles), area) in kinds.iter().zip(squarified(&sizes, area)) {
                @let sizes = tiles.iter().map(|tile| tile.tokens).collect::<Vec<_>>();
                @for (tile, area) in tiles.iter().zip(squarified(&sizes, area)) {
                    (rectangle(tile, area))
                    (words(tile, area))
                }
            }
        }
    }
}

/// Renders the legend: each kind with its share.
pub(super) fn legend(given: &Given<'_>) -> Markup {
    let whole = given.tokens();
    let shares = Kind::ALL.map(|kind| {
        let of_kind = given.parts.iter().filter(|part| part.kind == kind);
        (kind, of_kind.map(|part| part.tokens).sum::<u64>())
    });
    html! {
        ul.legend { @for (kind, tokens) in shares { @if tokens > 0 {
            li.(kind.class()) { span.swatch {} (kind.name()) " " span.figure { (percent(tokens, whole)) } }
        } } }
    }
}

fn tiles(given: &Given<'_>) -> Vec<Tile> {
    let content: Vec<&Part<'_>> =
        given.content().filter(|part| part.bytes > 0 || part.tokens > 0).collect();
    let mut sizes: Vec<u64> = content.iter().map(|part| part.tokens).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let least = sizes.get(MAX_TILES).copied().unwrap_or(0);
    let (large, small): (Vec<&Part<'_>>, Vec<&Part<'_>>) =
        content.into_iter().partition(|part| part.tokens > least || least == 0);
    let mut tiles: Vec<Tile> = large.into_iter().map(tile).collect();
    tiles.extend(together(&small, "small parts", given));
    tiles.extend(together(&given.frame().collect::<Vec<_>>(), "frame", given));
    tiles
}

fn tile(part: &Part<'_>) -> Tile {
    let figures = format!("{} bytes, ~{} tokens", number(part.bytes), number(part.tokens));
    Tile {
        part: Some(part.index),
        kind: part.kind,
        label: part.label.clone(),
        title: format!("{} · {} · {figures} · {}", part.label, part.source, part.rule),
        bytes: part.bytes,
        tokens: part.tokens,
    }
}

fn together(parts: &[&Part<'_>], name: &str, given: &Given<'_>) -> Option<Tile> {
    let first = parts.first()?;
    let tokens: u64 = parts.iter().map(|part| part.tokens).sum();
    let title = format!("{} {name}, {} of all", parts.len(), percent(tokens, given.tokens()));
    let (bytes, label) = (parts.iter().map(|part| part.bytes).sum(), name.to_owned());
    Some(Tile { part: None, kind: first.kind, label, title, bytes, tokens })
}

fn by_kind(tiles: &[Tile]) -> Vec<(Kind, Vec<&Tile>)> {
    let of_kind = |kind: Kind| {
        let mut of_kind: Vec<&Tile> = tiles.iter().filter(|tile| tile.kind == kind).collect();
        of_kind.sort_by_key(|tile| std::cmp::Reverse(tile.tokens));
        (kind, of_kind)
    };
    let mut kinds: Vec<_> = Kind::ALL.into_iter().map(of_kind).collect();
    kinds.retain(|(_, tiles)| !tiles.is_empty());
    let tokens = |tiles: &[&Tile]| tiles.iter().map(|tile| tile.tokens).sum::<u64>();
    kinds.sort_by_key(|(_, tiles)| std::cmp::Reverse(tokens(tiles)));
    kinds
}

#[expect(clippy::cast_precision_loss, reason = "a picture has fewer pixels than a float digits")]
fn in_order(tiles: &[Tile], whole: u64) -> Vec<Area> {
    let mut end = 0.0;
    let areas = tiles.iter().map(|tile| {
        let width = tile.tokens as f64 / whole.max(1) as f64 * WIDTH;
        end += width;
        Area { x: end - width, y: 0.0, width, height: BAR }
    });
    areas.collect()
}

fn rectangle(tile: &Tile, area: Area) -> Markup {
    let Area { x, y, width, height } = area;
    html! {
        rect.part.(tile.kind.class()) data-bytes=(tile.bytes) data-part=[tile.part]
            x=(rounded(x)) y=(rounded(y)) width=(rounded(width)) height=(rounded(height)) { title { (plain(&tile.title)) } }
    }
}

/// Writes the label and the size on a tile, if they fit.
fn words(tile: &Tile, area: Area) -> Markup {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a tile has a small width"
    )]
    let room = ((area.width - 8.0) / LETTER).max(0.0) as usize;
    let (label, size) = (shortened(&plain(&tile.label), room), number(tile.tokens));
    html! {
        @if let Some(label) = label && area.height >= LINE + 3.0 {
            text x=(rounded(area.x + 5.0)) y=(rounded(area.y + LINE - 1.0)) { (label) }
            @if area.height >= 2.0 * LINE + 5.0 && size.len() <= room {
                text.size x=(rounded(area.x + 5.0)) y=(rounded(area.y + 2.0 * LINE - 1.0)) { (size) }
            }
        }
    }
}
