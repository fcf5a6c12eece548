//! The difference between two prompts: the part that a cache can reuse, and the lines side by side.

use convoke_core::ledger::Target;
use convoke_protocol::id::SessionId;
use convoke_session::SentTurn;
use convoke_session::diff::{DiffLine, LineChange, TextDiff};
use maud::{Markup, html};

use super::inspector::crumbs;
use super::text::{beginning, exact, line};
use super::{number, percent};
use crate::difference::{Difference, FirstDifference};

/// The lines around a change that are shown.
const AROUND: usize = 3;
/// The maximum number of lines of a diff that are shown; the JSON form has all.
const MAX_LINES: usize = 4_000;

/// Renders the difference between the texts of two attempts.
pub fn prompts(id: SessionId, earlier: &SentTurn, later: &SentTurn, found: &Difference) -> Markup {
    let texts = &found.texts;
    let before = texts.system.earlier_bytes + texts.prompt.earlier_bytes;
    let after = texts.system.later_bytes + texts.prompt.later_bytes;
    let reusable = texts.reusable_bytes();
    let is_one_turn = earlier.turn.id == later.turn.id;
    let name = |sent: &SentTurn| {
        let SentTurn { turn, attempt, .. } = sent;
        let attempt =
            if is_one_turn { format!(", attempt {}", attempt.number) } else { String::new() };
        format!("turn {}{attempt}", turn.id)
    };
    let (first, second) = (name(earlier), name(later));
    html! {
        (crumbs(id, Some(later.turn.id)))
        h1 {
            @if earlier.turn.member == later.turn.member { (line(later.turn.member.as_str())) ": " (first) " and " (second) }
            @else { (first) " of " (line(earlier.turn.member.as_str())) " and " (second) " of " (line(later.turn.member.as_str())) }
        }
        p { (upper(&first)) " has " (number(before)) " bytes, " (second) " has " (number(after)) "." }
        h2 { "Reusable by a cache" }
        p #reusable { (number(reusable)) " bytes at the beginning are the same: " (percent(reusable, before)) " of " (first) "." }
        (prefix_bar(reusable, after))
        p.scale { span { (number(reusable)) " bytes unchanged" } span { (number(after - reusable.min(after))) " bytes to read again" } }
        @if let Some(difference) = &found.first { (first_difference(difference)) }
        @for (name, text) in [("System text", &texts.system), ("Prompt", &texts.prompt)] {
            @if text.earlier_bytes + text.later_bytes > 0 {
                h2 { (name) }
                @if text.is_same() { p { "The same " (number(text.later_bytes)) " bytes." } }
                @else { (side_by_side(text)) }
            }
        }
    }
}

fn first_difference(found: &FirstDifference) -> Markup {
    let FirstDifference { target, byte, section, source, cause } = found;
    let text = match target {
        Target::System => "system text",
        Target::Prompt => "prompt",
    };
    html! {
        p #first-difference {
            "The first difference is at byte " (number(*byte)) " of the " (text) ", in " (section) " (" (line(source)) "): "
            strong { (line(cause)) } "."
        }
    }
}

/// Returns a text with a capital letter.
fn upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Renders how much of a text is unchanged.
#[expect(
    clippy::cast_precision_loss,
    reason = "a picture has fewer pixels than a float has digits"
)]
pub fn prefix_bar(unchanged: u64, whole: u64) -> Markup {
    let width = if whole == 0 { 0.0 } else { unchanged.min(whole) as f64 / whole as f64 * 1000.0 };
    html! {
        svg.bar.prefix viewBox="0 0 1000 16" preserveAspectRatio="none" role="img" aria-label=(format!("{} of {} bytes are unchanged", number(unchanged), number(whole))) {
            rect.changed x="0" y="0" width="1000" height="16" {}
            rect.unchanged x="0" y="0" width=(format!("{width:.3}")) height="16" data-bytes=(unchanged) {}
        }
    }
}

/// A row of the diff: a line of each text.
type Row<'d> = (Option<&'d DiffLine>, Option<&'d DiffLine>);

/// Pairs removed lines with the added lines that follow them.
fn rows(lines: &[DiffLine]) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if lines[at].change == LineChange::Same {
            rows.push((Some(&lines[at]), Some(&lines[at])));
            at += 1;
            continue;
        }
        let run = lines[at..].iter().take_while(|line| line.change != LineChange::Same).count();
        let run = &lines[at..at + run];
        let (removed, added): (Vec<&DiffLine>, Vec<&DiffLine>) =
            run.iter().partition(|line| line.change == LineChange::Removed);
        for index in 0..removed.len().max(added.len()) {
            rows.push((removed.get(index).copied(), added.get(index).copied()));
        }
        at += run.len();
    }
    rows
}

fn is_same(row: &Row<'_>) -> bool {
    row.0.is_some_and(|line| line.change == LineChange::Same)
}

fn side_by_side(text: &TextDiff) -> Markup {
    let rows = rows(&text.lines);
    let changed: Vec<usize> = (0..rows.len()).filter(|at| !is_same(&rows[*at])).collect();
    let is_near = |at: usize| {
        let next = changed.partition_point(|change| change + AROUND < at);
        changed.get(next).is_some_and(|change| *change <= at + AROUND)
    };
    let rows: Vec<(Row<'_>, bool)> =
        rows.into_iter().enumerate().map(|(at, row)| (row, is_near(at))).collect();
    html! {
        p.faint { (number(text.earlier_bytes)) " → " (number(text.later_bytes)) " bytes, the first " (number(text.common_prefix)) " the same" }
        div.scroll tabindex="0" role="region" aria-label="The lines side by side" { table.diff {
            thead { tr { th scope="col" { "Earlier" } th scope="col" { "Later" } } }
            tbody {
                @for run in rows[..rows.len().min(MAX_LINES)].chunk_by(|a, b| a.1 == b.1) {
                    @match run {
                        [(_, false), ..] => (gap(run.len() as u64)),
                        _ => @for ((before, after), _) in run { tr { (cell(*before, LineChange::Removed)) (cell(*after, LineChange::Added)) } },
                    }
                }
            }
        } }
        @if rows.len() > MAX_LINES { p.faint { "The first " (number(MAX_LINES as u64)) " lines; the JSON form has all." } }
    }
}

fn gap(lines: u64) -> Markup {
    html! { tr { td.faint colspan="2" { "… " (number(lines)) " lines the same" } } }
}

fn cell(side: Option<&DiffLine>, change: LineChange) -> Markup {
    let Some(side) = side else { return html! { td.none {} } };
    let (class, mark) = match (side.change == change, change) {
        (false, _) => ("same", ""),
        (true, LineChange::Removed) => ("removed", "− "),
        (true, _) => ("added", "+ "),
    };
    html! { td.(class) { (mark) (exact(beginning(&side.text, 4 << 10).0, false)) } }
}
