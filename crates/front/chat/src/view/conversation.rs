//! Draws the conversation: messages, streamed replies, and messages that wait.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::sides;
use crate::model::Chat;
use crate::running_turn::RunningTurn;
use crate::text::{Face, StyledText, Tint, printable_line};
use crate::transcript::{Entry, EntryKind, MessageHeader, Tone};

/// The height below which the final blank line is left out.
const SMALL: usize = 4;

/// Draws the visible part of the conversation. O(visible lines).
pub(super) fn render(chat: &Chat, area: Rect, frame: &mut Frame<'_>) {
    let height = usize::from(area.height);
    let wanted = height + chat.scrolled;
    // From the newest line back to the first visible one.
    let mut lines: Vec<Line<'_>> = Vec::new();
    for message in chat.pending.iter().rev() {
        let text = printable_line(&message.content);
        lines.push(Line::default());
        lines.push(Line::raw(sides(&format!(" … {text}"), "waits", area.width)).dim());
    }
    for turn in chat.running.iter().rev().filter(|turn| !turn.lines().is_empty()) {
        written(turn, &mut lines);
    }
    for entry in chat.transcript.entries().iter().rev() {
        if lines.len() >= wanted {
            break;
        }
        entry_lines(entry, area.width, &mut lines);
    }
    // A small screen omits the final blank line.
    let blank = usize::from(height < SMALL && chat.scrolled == 0);
    let in_view = lines.into_iter().skip(chat.scrolled + blank).take(height);
    let mut in_view: Vec<Line<'_>> = in_view.collect();
    in_view.reverse();
    // A short conversation begins at the top.
    frame.render_widget(Paragraph::new(in_view), area);
    if chat.scrolled > 0 && area.height > 0 {
        let below = format!(" ↓ {} more lines · Esc jumps to the end ", chat.scrolled);
        let width =
            u16::try_from(Line::raw(below.as_str()).width()).unwrap_or(u16::MAX).min(area.width);
        let place = Rect { x: area.right() - width, y: area.bottom() - 1, width, height: 1 };
        frame.render_widget(Line::raw(below).reversed(), place);
    }
}

/// Adds the lines of an entry, last line first.
fn entry_lines<'a>(entry: &'a Entry, width: u16, lines: &mut Vec<Line<'a>>) {
    lines.push(Line::default());
    match &entry.kind {
        EntryKind::Message(head) => {
            lines.extend(entry.lines.iter().rev().map(styled));
            lines.push(head_line(head, width));
        }
        EntryKind::Note(tone) | EntryKind::Hint(tone) => {
            let style = match tone {
                Tone::Quiet => Style::new().dim(),
                Tone::Warning => Style::new().fg(Color::Yellow),
                Tone::Bad => Style::new().fg(Color::Red),
            };
            let count = entry.lines.len();
            lines.extend(entry.lines.iter().rev().enumerate().map(|(at, line)| {
                let mark = if at + 1 == count { " · " } else { "   " };
                Line::from(vec![Span::raw(mark), Span::raw(line.text.as_str())]).style(style)
            }));
        }
    }
}

fn head_line(head: &MessageHeader, width: u16) -> Line<'static> {
    let to = if head.to.is_empty() { String::new() } else { format!(" → {}", head.to) };
    let line = sides(&format!(" {}{to}", head.from), &head.cost, width);
    let colour = if head.is_person { Color::Cyan } else { Color::Green };
    let style = Style::new().bold().fg(colour);
    // Only the name is emphasised.
    let name = 1 + head.from.len();
    match line.split_at_checked(name) {
        Some((name, rest)) => {
            Line::from(vec![Span::styled(name.to_owned(), style), Span::raw(rest.to_owned()).dim()])
        }
        None => Line::styled(line, style),
    }
}

/// Adds the streamed reply of a member, last line first.
fn written<'a>(turn: &'a RunningTurn, lines: &mut Vec<Line<'a>>) {
    lines.push(Line::default());
    let rows = turn.lines().iter().rev();
    lines.extend(rows.map(|line| Line::from(vec![Span::raw("  "), Span::raw(line)])));
    let name = Span::raw(format!(" {} ", printable_line(turn.member.as_str())));
    let name = name.bold().fg(Color::Green);
    lines.push(Line::from(vec![name, Span::raw("…").dim()]));
}

/// Returns a line of a message with its faces.
fn styled(line: &StyledText) -> Line<'_> {
    let pieces = line.pieces().map(|(piece, face)| Span::styled(piece, style(face)));
    std::iter::once(Span::raw("  ")).chain(pieces).collect()
}

fn style(Face { bold, italic, tint }: Face) -> Style {
    let style = match tint {
        Tint::Plain => Style::new(),
        Tint::Code => Style::new().fg(Color::Cyan),
        Tint::Link => Style::new().underlined(),
        Tint::Frame | Tint::Comment => Style::new().dim(),
        Tint::Keyword => Style::new().fg(Color::Magenta),
        Tint::Quoted | Tint::Added => Style::new().fg(Color::Green),
        Tint::Removed => Style::new().fg(Color::Red),
    };
    let style = if bold { style.bold() } else { style };
    if italic { style.italic() } else { style }
}
