//! Where everything is on the screen.

use ratatui::layout::{Constraint, Layout, Margin, Rect};

use crate::model::Chat;

/// How many rows the input line may take.
const INPUT_ROWS: usize = 6;
/// How many members at work have a line each.
const WORK_ROWS: usize = 3;

/// Where everything is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Areas {
    /// What the conversation is about.
    pub(crate) header: Rect,
    /// What was said.
    pub(crate) conversation: Rect,
    /// Who is at work, a line each.
    pub(crate) works: Rect,
    /// Who waits.
    pub(crate) queue: Rect,
    /// The line above the input, which says who speaks to whom.
    pub(crate) rule: Rect,
    /// The input line.
    pub(crate) input: Rect,
    /// The keys.
    pub(crate) hints: Rect,
    /// A page over the conversation, with its frame.
    pub(crate) page: Rect,
}

impl Areas {
    /// Divides the screen. The conversation gives way first, then the lines around it.
    pub(crate) fn of(chat: &Chat) -> Self {
        let screen = Rect::from((ratatui::layout::Position::ORIGIN, chat.size));
        let rows = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        let input = chat.editor.rows(input_width(screen.width)).rows.len().min(INPUT_ROWS);
        let works = chat.works.len().min(WORK_ROWS);
        let room = screen.height.saturating_sub(6);
        let [header, conversation, works, queue, rule, input, hints] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(rows(works).min(room)),
            Constraint::Length(u16::from(screen.height > 5)),
            Constraint::Length(u16::from(screen.height > 4)),
            Constraint::Length(rows(input).min(room.max(1))),
            Constraint::Length(u16::from(screen.height > 3)),
        ])
        .areas(screen);
        let page = Rect { height: screen.height.saturating_sub(1), y: 0, ..screen };
        Self { header, conversation, works, queue, rule, input, hints, page }
    }

    /// Returns how wide a page is inside its frame.
    pub(crate) fn page_width(&self) -> usize {
        usize::from(self.page_text().width)
    }

    /// Returns how many lines a page shows.
    pub(crate) fn page_height(&self) -> usize {
        usize::from(self.page_text().height)
    }

    /// Returns where the text of a page is.
    pub(crate) fn page_text(&self) -> Rect {
        self.page.inner(Margin::new(2, 1))
    }
}

/// Returns how wide the input line is on a screen: a mark stands before it.
pub(crate) fn input_width(screen: u16) -> usize {
    usize::from(screen.saturating_sub(2))
}
