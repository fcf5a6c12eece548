//! A unified diff as HTML: one element for each line, with the numbers of both sides.

use maud::{Markup, html};

use super::code::{self, Language};
use super::text::{beginning, exact};
use super::{count, number};

/// The maximum number of bytes of a line that are shown.
const LINE_SHOWN: usize = 2 << 10;

/// A line of a diff.
struct Line<'d> {
    class: &'static str,
    old: Option<u64>,
    new: Option<u64>,
    text: &'d str,
}

/// Renders a unified diff with at most `max` lines.
pub(crate) fn unified(text: &str, language: Option<Language>, max: usize) -> Markup {
    let lines = parse(text, max);
    let more = text.lines().nth(max).map_or(0, |_| text.lines().count() - max);
    html! {
        div.patch tabindex="0" role="region" aria-label="Changed lines" {
            pre { @for line in &lines { (rendered(line, language)) "\n" } }
        }
        @if more > 0 { p.faint { (count(more as u64, "more line")) } }
    }
}

/// Renders a unified diff side by side with at most `max` lines.
pub(crate) fn split(text: &str, language: Option<Language>, max: usize) -> Markup {
    let lines = parse(text, max);
    html! {
        div.patch.split tabindex="0" role="region" aria-label="Changed lines side by side" {
            pre { @for line in sides(&lines, true) { (side(line, language)) "\n" } }
            pre { @for line in sides(&lines, false) { (side(line, language)) "\n" } }
        }
        @if text.lines().nth(max).is_some() { p.faint { "The first " (number(max as u64)) " lines." } }
    }
}

fn parse(text: &str, max: usize) -> Vec<Line<'_>> {
    let (mut old, mut new) = (0, 0);
    let mut lines = Vec::new();
    for text in text.lines().take(max) {
        let is_header = lines.is_empty() || old == 0 && new == 0;
        let (class, counts) = match text.as_bytes() {
            [b'@', b'@', ..] => {
                (old, new) = span(text);
                ("hunk", (false, false))
            }
            // The lines before the first hunk name the files.
            _ if is_header => ("hunk", (false, false)),
            [b'+', ..] => ("added", (false, true)),
            [b'-', ..] => ("removed", (true, false)),
            [b'\\', ..] => ("hunk", (false, false)),
            _ => ("same", (true, true)),
        };
        lines.push(Line {
            class,
            old: counts.0.then_some(old),
            new: counts.1.then_some(new),
            text,
        });
        old += u64::from(counts.0);
        new += u64::from(counts.1);
    }
    lines
}

/// Returns the first lines of a hunk: `@@ -12,7 +12,8 @@`.
fn span(header: &str) -> (u64, u64) {
    let first = |sign: char| {
        let rest = header.split(sign).nth(1)?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    (first('-').unwrap_or(1), first('+').unwrap_or(1))
}

/// Returns the lines of one side, with gaps where the other one has more.
fn sides<'l, 'd>(lines: &'l [Line<'d>], is_old: bool) -> Vec<Option<&'l Line<'d>>> {
    let mut side = Vec::new();
    for run in lines.chunk_by(|a, b| is_changed(a) && is_changed(b)) {
        if !is_changed(&run[0]) {
            side.push(Some(&run[0]));
            continue;
        }
        let (removed, added): (Vec<&Line<'_>>, Vec<&Line<'_>>) =
            run.iter().partition(|line| line.class == "removed");
        let (own, other) = if is_old { (removed, added) } else { (added, removed) };
        let gap = other.len().saturating_sub(own.len());
        side.extend(own.into_iter().map(Some));
        side.extend(std::iter::repeat_n(None, gap));
    }
    side
}

fn is_changed(line: &Line<'_>) -> bool {
    matches!(line.class, "added" | "removed")
}

fn side(line: Option<&Line<'_>>, language: Option<Language>) -> Markup {
    html! { @if let Some(line) = line { (rendered(line, language)) } @else { span.l.none {} } }
}

fn rendered(line: &Line<'_>, language: Option<Language>) -> Markup {
    let Line { class, old, new, text } = line;
    let (shown, rest) = beginning(text, LINE_SHOWN);
    let content = if *class == "hunk" { shown } else { shown.get(1..).unwrap_or_default() };
    html! {
        span.l.(class) data-old=[old] data-new=[new] {
            @match language.filter(|_| *class != "hunk") {
                Some(language) => (code::line(content, language)),
                None => (exact(content, false)),
            }
            @if rest > 0 { "…" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "@@ -1,3 +1,4 @@\n one\n-two\n+2\n+and\n three\n";

    #[test]
    fn lines_have_the_numbers_of_their_sides() {
        let lines = parse(DIFF, 10);
        let seen: Vec<_> = lines.iter().map(|it| (it.class, it.old, it.new)).collect();
        assert_eq!(
            seen,
            [
                ("hunk", None, None),
                ("same", Some(1), Some(1)),
                ("removed", Some(2), None),
                ("added", None, Some(2)),
                ("added", None, Some(3)),
                ("same", Some(3), Some(4)),
            ]
        );
    }

    #[test]
    fn both_sides_have_as_many_lines() {
        let lines = parse(DIFF, 10);
        let (old, new) = (sides(&lines, true), sides(&lines, false));
        assert_eq!((old.len(), new.len()), (5, 5));
        assert!(old[3].is_none() && new.iter().all(Option::is_some));
    }

    #[test]
    fn names_of_files_before_the_first_hunk_are_no_changes() {
        let lines = parse("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-- a\n", 10);
        let classes: Vec<_> = lines.iter().map(|it| it.class).collect();
        assert_eq!(classes, ["hunk", "hunk", "hunk", "removed"]);
    }
}
