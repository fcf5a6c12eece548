//! The view: draws the state without changing it.

mod conversation;
mod page;
mod status;

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph};

use crate::layout::{Areas, input_width};
use crate::model::Chat;
use crate::text::{clip, printable_line};

/// Draws a chat.
pub fn render(chat: &Chat, frame: &mut Frame<'_>) {
    let areas = chat.areas();
    status::header(chat, areas.header, frame);
    conversation::render(chat, areas.conversation, frame);
    status::running(chat, areas.running, frame);
    status::queue(chat, areas.queue, frame);
    status::rule(chat, areas.rule, frame);
    status::hints(chat, areas.hints, frame);
    if let Some(overlay) = &chat.overlay {
        page::render(overlay, &areas, frame);
    } else {
        input(chat, areas.input, frame);
        completion(chat, &areas, frame);
    }
}

/// Draws the input line and the cursor.
fn input(chat: &Chat, area: Rect, frame: &mut Frame<'_>) {
    if area.is_empty() {
        return;
    }
    let rows = chat.editor.rows(input_width(area.width));
    let visible = usize::from(area.height);
    let first = (rows.cursor.0 + 1).saturating_sub(visible);
    let mark = Span::raw("❯ ").bold();
    let lines = rows.rows.iter().skip(first).take(visible).enumerate().map(|(at, row)| {
        let before = if first + at == 0 { mark.clone() } else { Span::raw("  ") };
        Line::from(vec![before, Span::raw(row.as_str())])
    });
    let mut lines: Vec<Line<'_>> = lines.collect();
    if chat.editor.text().is_empty()
        && let Some(suggestion) = &chat.setup.suggestion
        && chat.transcript.entries().is_empty()
    {
        let text = printable_line(&format!("for example: {suggestion}"));
        lines = vec![Line::from(vec![mark, Span::raw(text).dim()])];
    }
    frame.render_widget(Paragraph::new(lines), area);
    let column = u16::try_from(rows.cursor.1 + 2).unwrap_or(u16::MAX);
    let row = u16::try_from(rows.cursor.0 - first).unwrap_or(u16::MAX);
    let cursor = Position::new(
        area.x + column.min(area.width.saturating_sub(1)),
        area.y + row.min(area.height.saturating_sub(1)),
    );
    frame.set_cursor_position(cursor);
}

/// Draws the completions above the input line.
fn completion(chat: &Chat, areas: &Areas, frame: &mut Frame<'_>) {
    const MAX_ROWS: usize = 8;
    let Some(completion) = &chat.completion else { return };
    let room = usize::from(areas.rule.y.saturating_sub(2)).min(MAX_ROWS);
    let count = completion.candidates.len().min(room);
    if count == 0 {
        return;
    }
    let first = (chat.chosen + 1).saturating_sub(count);
    let shown = completion.candidates.iter().enumerate().skip(first).take(count);
    let label = |label: &str| printable_line(label);
    let widest =
        completion.candidates.iter().map(|candidate| Line::raw(label(&candidate.label)).width());
    let widest = widest.max().unwrap_or(0);
    let lines: Vec<Line<'_>> = shown
        .map(|(at, candidate)| {
            let name = label(&candidate.label);
            let space = " ".repeat(widest - Line::raw(name.as_str()).width() + 2);
            let style = if at == chat.chosen { Style::new().reversed() } else { Style::new() };
            let spans = [Span::raw(" "), Span::raw(name), Span::raw(space)];
            let meaning = Span::raw(candidate.meaning).dim();
            let spans = spans.into_iter().chain([meaning, Span::raw(" ")]);
            spans.collect::<Line<'_>>().style(style)
        })
        .collect();
    let width = lines.iter().map(Line::width).max().unwrap_or(0) + 2;
    let height = u16::try_from(count + 2).unwrap_or(u16::MAX);
    let area = Rect {
        x: areas.rule.x,
        y: areas.rule.y.saturating_sub(height),
        width: u16::try_from(width).unwrap_or(u16::MAX).min(areas.rule.width),
        height: height.min(areas.rule.y),
    };
    frame.render_widget(Clear, area);
    let block = Block::new().borders(Borders::ALL).dim();
    let inner = block.inner(area);
    frame.render_widget(block, area);
    frame.render_widget(Paragraph::new(lines), inner);
}

/// Returns a line with left-aligned and right-aligned text.
fn sides(left: &str, right: &str, width: u16) -> String {
    let width = usize::from(width);
    let right = clip(right, width);
    let room = width.saturating_sub(Line::raw(right.as_str()).width() + 1);
    let left = clip(left, room);
    let space = " ".repeat(width.saturating_sub(Line::raw(format!("{left}{right}")).width()));
    format!("{left}{space}{right}")
}
