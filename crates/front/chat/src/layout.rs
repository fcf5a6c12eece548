//! The layout of the screen.

use ratatui::layout::{Constraint, Layout, Margin, Rect};

use crate::model::Chat;

/// The maximum number of rows of the input.
const INPUT_ROWS: usize = 6;
/// The maximum number of status lines of running members.
const RUNNING_ROWS: usize = 3;

/// The areas of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Areas {
    /// The title and task.
    pub(crate) header: Rect,
    /// The messages.
    pub(crate) conversation: Rect,
    /// The running members, one line each.
    pub(crate) running: Rect,
    pub(crate) queue: Rect,
    /// The line above the input with speaker and recipients.
    pub(crate) rule: Rect,
    pub(crate) input: Rect,
    /// The key hints.
    pub(crate) hints: Rect,
    /// The overlay, with its frame.
    pub(crate) page: Rect,
}

impl Areas {
    /// Divides the screen. On a small screen the conversation shrinks first.
    pub(crate) fn new(chat: &Chat) -> Self {
        let screen = Rect::from((ratatui::layout::Position::ORIGIN, chat.size));
        let rows = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        let input = chat.editor.rows(input_width(screen.width)).rows.len().min(INPUT_ROWS);
        let running = chat.running.len().min(RUNNING_ROWS);
        let room = screen.height.saturating_sub(6);
        let [header, conversation, running, queue, rule, input, hints] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(rows(running).min(room)),
            Constraint::Length(u16::from(screen.height > 5)),
            Constraint::Length(u16::from(screen.height > 4)),
            Constraint::Length(rows(input).min(room.max(1))),
            Constraint::Length(u16::from(screen.height > 3)),
        ])
        .areas(screen);
        let page = Rect { height: screen.height.saturating_sub(1), y: 0, ..screen };
        Self { header, conversation, running, queue, rule, input, hints, page }
    }

    /// Returns the width of an overlay inside its frame.
    pub(crate) fn page_width(&self) -> usize {
        usize::from(self.page_text().width)
    }

    /// Returns the height of an overlay inside its frame.
    pub(crate) fn page_height(&self) -> usize {
        usize::from(self.page_text().height)
    }

    /// Returns the area of an overlay inside its frame.
    pub(crate) fn page_text(&self) -> Rect {
        self.page.inner(Margin::new(2, 1))
    }
}

/// Returns the width of the input, without its prompt sign.
pub(crate) fn input_width(screen: u16) -> usize {
    usize::from(screen.saturating_sub(2))
}
