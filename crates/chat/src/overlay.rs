//! Overlays: a page over the conversation, that can be scrolled and closed.

use crate::command::COMMANDS;
use crate::model::questions::OpenQuestion;
use crate::sent_prompt::SentPrompt;
use crate::text::{printable, wrap};
use crate::user_action::PromptView;

/// A page over the conversation.
#[derive(Debug, Clone)]
pub(crate) struct Overlay {
    pub(crate) page: Page,
    /// The lines of the page for the width that there is.
    pub(crate) lines: Vec<String>,
    pub(crate) scroll: usize,
}

/// What a page shows.
#[derive(Debug, Clone)]
pub(crate) enum Page {
    /// The commands and keys.
    Help,
    /// What a member was sent.
    SentPrompt(Box<SentPrompt>, PromptView),
    /// What an agent asks before it acts.
    Question(Box<OpenQuestion>),
}

/// The keys, as the help shows them.
const KEYS: [(&str, &str); 11] = [
    ("Enter", "send the message, or do what the command says"),
    ("Alt-Enter", "begin a new line in the message"),
    ("Tab", "complete a command, or a name after @ or [NEXT:"),
    ("Up, Down", "choose what to complete, or what was entered before"),
    ("PgUp, PgDn", "scroll the conversation"),
    ("F2, Ctrl-L", "the ledger of the last prompt; Tab there shows the prompt"),
    ("F3", "the question of an agent that waits for an answer"),
    ("F1", "this page"),
    ("Esc", "close a page or a list, go back to the newest message"),
    ("Ctrl-C", "cancel the turn; twice: save and leave"),
    ("Ctrl-D", "save and leave, when nothing is entered"),
];

impl Overlay {
    /// Opens a page.
    pub(crate) fn open(page: Page, width: usize) -> Self {
        let mut overlay = Self { page, lines: Vec::new(), scroll: 0 };
        overlay.resize(width);
        overlay
    }

    /// Returns what stands in the frame above the page.
    pub(crate) fn title(&self) -> String {
        match &self.page {
            Page::Help => "help".to_owned(),
            Page::Question(open) => format!("{} asks", open.member),
            Page::SentPrompt(sheet, what) => {
                let (member, turn, attempt) = (&sheet.member, sheet.turn, sheet.attempt);
                let what = match what {
                    PromptView::Ledger => "the ledger of what",
                    PromptView::Prompt => "exactly what",
                };
                let again =
                    if attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
                format!("{what} {member} was sent, turn {turn}{again}")
            }
        }
    }

    /// Returns the keys that do something here.
    pub(crate) fn keys(&self) -> &'static str {
        match self.page {
            Page::Help => "Esc closes · ↑↓ PgUp PgDn scroll",
            Page::Question(_) => "1 once · 2 for this session · 3 never · Esc later (F3)",
            Page::SentPrompt(_, PromptView::Ledger) => {
                "Esc closes · Tab shows the prompt · ↑↓ PgUp PgDn scroll"
            }
            Page::SentPrompt(_, PromptView::Prompt) => {
                "Esc closes · Tab shows the ledger · ↑↓ PgUp PgDn scroll"
            }
        }
    }

    /// Shows the other side of a sheet.
    pub(crate) fn turn_over(&mut self, width: usize) {
        if let Page::SentPrompt(_, what) = &mut self.page {
            *what = match what {
                PromptView::Ledger => PromptView::Prompt,
                PromptView::Prompt => PromptView::Ledger,
            };
            self.scroll = 0;
            self.resize(width);
        }
    }

    /// Scrolls, up or down, inside a height.
    pub(crate) fn scroll_by(&mut self, lines: isize, height: usize) {
        let most = self.lines.len().saturating_sub(height);
        self.scroll = self.scroll.saturating_add_signed(lines).min(most);
    }

    /// Wraps the page for another width.
    pub(crate) fn resize(&mut self, width: usize) {
        let text = match &self.page {
            Page::Help => help(),
            Page::Question(open) => open.text(),
            Page::SentPrompt(sheet, PromptView::Ledger) => sheet.table.clone(),
            Page::SentPrompt(sheet, PromptView::Prompt) => sheet.texts(),
        };
        self.lines = wrap(printable(&text).trim_end(), width);
        self.scroll = self.scroll.min(self.lines.len().saturating_sub(1));
    }
}

/// Returns the commands and keys as a page of text.
pub fn help() -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for entry in COMMANDS {
        let written = format!("/{} {}", entry.name, entry.usage);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{written:15} {}", entry.meaning);
    }
    text.push_str(
        "@NAME at the beginning addresses this one message. [NEXT: NAME] does so anywhere.\n\n",
    );
    for (key, meaning) in KEYS {
        let _ = writeln!(text, "{key:15} {meaning}");
    }
    text
}
