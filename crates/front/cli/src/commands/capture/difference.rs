//! The comparison of two captures: parts added, removed and changed.

use std::fmt::Write as _;

use convoke_inspect::capture::{Change, Difference, Side};
use convoke_wire::PartKind;

use crate::figures::{number, percent, signed};
use crate::terminal::Paint;

/// The form of differing lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineDetail {
    /// As counts.
    Counted,
    /// In full.
    Shown,
}

/// Returns the comparison as text.
pub fn show(difference: &Difference, lines: LineDetail, paint: Paint) -> String {
    let Difference { a, b, .. } = difference;
    let growth = signed(a.body_bytes, b.body_bytes);
    let grown = b.body_bytes.abs_diff(a.body_bytes);
    let sign = if b.body_bytes >= a.body_bytes { '+' } else { '-' };
    let share = percent(grown, a.body_bytes);
    let mut text = format!("{}{}", side("A", a, paint), side("B", b, paint));
    let _ = writeln!(text, "   {} bytes, {sign}{share}\n", paint.strong(&growth));
    for change in &difference.changes {
        text += &row(change, lines, paint);
    }
    if difference.changes.is_empty() {
        text += "  All parts are the same.\n";
    }
    let (before, after) = difference.envelope_bytes;
    let same = format!(
        "  {} the same ({} bytes); the envelope {}\n",
        match difference.same_parts {
            1 => "1 part is".to_owned(),
            parts => format!("{parts} parts are"),
        },
        number(difference.same_bytes),
        if before == after {
            "too".to_owned()
        } else {
            format!("has {} bytes", signed(before, after))
        },
    );
    text + "\n" + &paint.faint(&same)
}

fn side(name: &str, side: &Side, paint: Paint) -> String {
    let version = side.version.as_deref().unwrap_or("(unknown version)");
    format!(
        "{name}  {} → {}  {} bytes, about {} tokens\n",
        paint.strong(&format!("{} {version}", side.agent)),
        side.model,
        number(side.body_bytes),
        number(side.tokens_estimate),
    )
}

fn row(change: &Change, lines: LineDetail, paint: Paint) -> String {
    match change {
        Change::Added { part, place, title, bytes } => {
            let mark = paint.good("+");
            let size = format!("+{}", number(*bytes));
            format!("{mark} {size:>9}  {}\n", name(*part, title, place, paint))
        }
        Change::Removed { part, place, title, bytes } => {
            let mark = paint.bad("-");
            let size = format!("-{}", number(*bytes));
            format!("{mark} {size:>9}  {}\n", name(*part, title, place, paint))
        }
        Change::Changed {
            part,
            place,
            title,
            bytes_before,
            bytes,
            lines_added,
            lines_removed,
            diff,
        } => {
            let mark = paint.warning("~");
            let size = signed(*bytes_before, *bytes);
            let name = name(*part, title, place, paint);
            let counted = format!(
                "{} → {} bytes, +{lines_added} -{lines_removed} lines",
                number(*bytes_before),
                number(*bytes)
            );
            let mut text = format!("{mark} {size:>9}  {name}  {}\n", paint.faint(&counted));
            if lines == LineDetail::Shown {
                for line in diff.lines() {
                    let line = match line.as_bytes().first() {
                        Some(b'+') => paint.good(line),
                        Some(b'-') => paint.bad(line),
                        _ => paint.faint(line),
                    };
                    let _ = writeln!(text, "             {line}");
                }
            }
            text
        }
    }
}

fn name(part: PartKind, title: &str, place: &str, paint: Paint) -> String {
    let kind = match part {
        PartKind::System => "instructions",
        PartKind::Message => "conversation",
        PartKind::Tool => "tool",
    };
    let place = match part {
        PartKind::Tool => String::new(),
        PartKind::System | PartKind::Message => format!("  {}", paint.faint(place)),
    };
    format!("{kind}  {title}{place}")
}
