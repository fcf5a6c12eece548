//! Overlays: scrollable pages over the conversation.

use crate::command::COMMANDS;
use crate::model::questions::OpenQuestion;
use crate::sent_prompt::SentPrompt;
use crate::text::{printable, wrap};
use crate::user_action::PromptView;

/// A page over the conversation.
#[derive(Debug, Clone)]
pub(crate) struct Overlay {
    pub(crate) page: Page,
    /// The wrapped lines of the page.
    pub(crate) lines: Vec<String>,
    pub(crate) scroll: usize,
}

/// The content of a page.
#[derive(Debug, Clone)]
pub(crate) enum Page {
    /// The commands and keys.
    Help,
    /// A prompt that was sent.
    SentPrompt(Box<SentPrompt>, PromptView),
    /// A permission question of an agent.
    Question(Box<OpenQuestion>),
}

/// The keys in the help.
const KEYS: [(&str, &str); 13] = [
    ("Enter", "send the message, or run the command"),
    ("Alt-Enter", "insert a line break"),
    ("Tab", "complete a command, or a name after @ or [NEXT:"),
    ("Up, Down", "select a completion, or recall earlier input"),
    ("PgUp, PgDn", "scroll the conversation, back to its first message"),
    ("Ctrl-G", "write the message in $VISUAL or $EDITOR"),
    ("F2, Ctrl-L", "show the ledger of the last prompt; Tab switches to the prompt"),
    ("F3", "show the question of an agent that waits for an answer"),
    ("F1", "show this page"),
    ("Esc", "close a page or a list, or return to the newest message"),
    ("Ctrl-C", "cancel the turn; twice: save and quit"),
    ("Ctrl-Z", "suspend; `fg` in the shell returns"),
    ("Ctrl-D", "save and quit, if the input is empty"),
];

impl Overlay {
    /// Opens a page.
    pub(crate) fn open(page: Page, width: usize) -> Self {
        let mut overlay = Self { page, lines: Vec::new(), scroll: 0 };
        overlay.resize(width);
        overlay
    }

    /// Returns the title of the page.
    pub(crate) fn title(&self) -> String {
        match &self.page {
            Page::Help => "help".to_owned(),
            Page::Question(open) => format!("{} asks", open.member),
            Page::SentPrompt(sheet, what) => {
                let (member, turn, attempt) = (&sheet.member, sheet.turn, sheet.attempt);
                let what = match what {
                    PromptView::Ledger => "ledger of the prompt",
                    PromptView::Prompt => "prompt",
                };
                let again =
                    if attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
                format!("{what} of {member}, turn {turn}{again}")
            }
        }
    }

    /// Returns the key hints.
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

    /// Switches between ledger and prompt.
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

    /// Scrolls by a number of lines within a height.
    pub(crate) fn scroll_by(&mut self, lines: isize, height: usize) {
        let most = self.lines.len().saturating_sub(height);
        self.scroll = self.scroll.saturating_add_signed(lines).min(most);
    }

    /// Wraps the page for a new width.
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

/// Returns the help text: commands and keys.
pub fn help() -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for entry in COMMANDS {
        let written = format!("/{} {}", entry.name, entry.usage);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{written:15} {}", entry.meaning);
    }
    text.push_str(
        "@NAME at the beginning sends one message to that member; so does [NEXT: NAME] anywhere in it. @PATH \
         attaches a file.\n\n",
    );
    for (key, meaning) in KEYS {
        let _ = writeln!(text, "{key:15} {meaning}");
    }
    text
}
