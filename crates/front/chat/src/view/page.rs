//! Draws an overlay.

use ratatui::Frame;
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Clear, Paragraph};

use crate::layout::Areas;
use crate::overlay::Overlay;
use crate::text::printable_line;

/// Draws a page.
pub(super) fn render(overlay: &Overlay, areas: &Areas, frame: &mut Frame<'_>) {
    let text = areas.page_text();
    frame.render_widget(Clear, areas.page);
    let height = usize::from(text.height);
    let last = (overlay.scroll + height).min(overlay.lines.len());
    let place = format!(" {}–{last} of {} ", overlay.scroll + 1, overlay.lines.len());
    let mut block = Block::new()
        .borders(Borders::ALL)
        .title(Line::raw(format!(" {} ", printable_line(&overlay.title()))).bold());
    if overlay.lines.len() > height {
        block = block.title_bottom(Line::raw(place).right_aligned());
    }
    frame.render_widget(block, areas.page);
    let lines = overlay.lines.iter().skip(overlay.scroll).take(height);
    let lines: Vec<Line<'_>> = lines.map(|line| Line::raw(line.as_str())).collect();
    frame.render_widget(Paragraph::new(lines), text);
}
