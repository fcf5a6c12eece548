//! Applies key presses.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::{Activity, Chat, Effect};
use crate::completion::complete;
use crate::overlay::{Overlay, Page};
use crate::user_action::{PromptView, UserAction};

/// The number of lines that two pages share.
const OVERLAP: usize = 2;

impl Chat {
    /// Applies a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<Effect> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        let held = |modifier| key.modifiers.contains(modifier);
        let (ctrl, alt) = (held(KeyModifiers::CONTROL), held(KeyModifiers::ALT));
        if ctrl && key.code == KeyCode::Char('c') {
            return self.interrupt();
        }
        self.is_interrupted = false;
        self.notice = None;
        if ctrl && key.code == KeyCode::Char('z') {
            return Some(Effect::Suspend);
        }
        if self.overlay.is_some() {
            return self.key_on_page(key.code, ctrl);
        }
        match key.code {
            KeyCode::F(1) => return self.act(UserAction::Help),
            KeyCode::F(3) => {
                self.show_question();
                return None;
            }
            KeyCode::F(2) => return self.look(PromptView::Ledger, None),
            KeyCode::Char('l') if ctrl => return self.look(PromptView::Ledger, None),
            KeyCode::Char('g') if ctrl => return Some(Effect::Edit(self.editor.text().to_owned())),
            KeyCode::Char('d') if ctrl && self.editor.text().is_empty() => {
                return Some(self.leave());
            }
            KeyCode::Enter if alt => {
                self.editor.insert("\n");
            }
            KeyCode::Char('j') if ctrl => {
                self.editor.insert("\n");
            }
            KeyCode::Enter => return self.enter(),
            KeyCode::Esc if self.completion.take().is_some() => return None,
            KeyCode::Esc => {
                self.scrolled = 0;
                return None;
            }
            KeyCode::Tab => return self.accept_completion(),
            KeyCode::Up if self.completion.is_some() => return self.choose(-1),
            KeyCode::Down if self.completion.is_some() => return self.choose(1),
            KeyCode::PageUp => return self.scroll(1),
            KeyCode::PageDown => return self.scroll(-1),
            code => {
                if !self.edit(code, ctrl, alt) {
                    return None;
                }
            }
        }
        self.offer();
        None
    }

    /// Inserts pasted text.
    pub(super) fn paste(&mut self, text: &str) -> Option<Effect> {
        if self.overlay.is_some() {
            return None;
        }
        let left_out = self.editor.insert(text);
        self.completion = None;
        if left_out > 0 {
            return self
                .remark(format!("{left_out} bytes were left out: a message is limited to 1 MiB"));
        }
        None
    }

    /// Edits the input line. Returns whether to update the completion.
    fn edit(&mut self, code: KeyCode, ctrl: bool, alt: bool) -> bool {
        let editor = &mut self.editor;
        match code {
            KeyCode::Char('a') if ctrl => editor.home(),
            KeyCode::Char('e') if ctrl => editor.end(),
            KeyCode::Char('b') if ctrl => editor.left(),
            KeyCode::Char('f') if ctrl => editor.right(),
            KeyCode::Char('h') if ctrl => editor.backspace(),
            KeyCode::Char('d') if ctrl => editor.delete(),
            KeyCode::Char('w') if ctrl => editor.delete_word(),
            KeyCode::Char('u') if ctrl => editor.delete_to_start(),
            KeyCode::Char('k') if ctrl => editor.delete_to_end(),
            KeyCode::Char('p') if ctrl => editor.up(),
            KeyCode::Char('n') if ctrl => editor.down(),
            KeyCode::Char('b') if alt => editor.word_left(),
            KeyCode::Char('f') if alt => editor.word_right(),
            KeyCode::Backspace if alt || ctrl => editor.delete_word(),
            KeyCode::Left if ctrl || alt => editor.word_left(),
            KeyCode::Right if ctrl || alt => editor.word_right(),
            KeyCode::Char(c) if !ctrl && !alt => {
                editor.insert(c.encode_utf8(&mut [0; 4]));
            }
            KeyCode::Backspace => editor.backspace(),
            KeyCode::Delete => editor.delete(),
            KeyCode::Left => editor.left(),
            KeyCode::Right => editor.right(),
            KeyCode::Home => editor.home(),
            KeyCode::End => editor.end(),
            KeyCode::Up => editor.up(),
            KeyCode::Down => editor.down(),
            _ => return false,
        }
        true
    }

    fn key_on_page(&mut self, code: KeyCode, ctrl: bool) -> Option<Effect> {
        let (width, height) = (self.areas().page_width(), self.areas().page_height());
        let page = height.saturating_sub(OVERLAP).max(1).cast_signed();
        let is_question = matches!(&self.overlay, Some(Overlay { page: Page::Question(_), .. }));
        if is_question && let Some(effect) = self.key_on_question(code) {
            return Some(effect);
        }
        let overlay = self.overlay.as_mut()?;
        match code {
            // A person who was typing when the card appeared has not read it.
            KeyCode::Enter | KeyCode::Char('q') if is_question => {}
            KeyCode::Esc | KeyCode::Enter | KeyCode::F(1 | 2) | KeyCode::Char('q') => {
                self.overlay = None;
            }
            KeyCode::Char('l') if ctrl => self.overlay = None,
            KeyCode::Tab => overlay.turn_over(width),
            KeyCode::Up | KeyCode::Char('k') => overlay.scroll_by(-1, height),
            KeyCode::Down | KeyCode::Char('j') => overlay.scroll_by(1, height),
            KeyCode::PageUp => overlay.scroll_by(-page, height),
            KeyCode::PageDown | KeyCode::Char(' ') => overlay.scroll_by(page, height),
            KeyCode::Home => overlay.scroll_by(isize::MIN, height),
            KeyCode::End => overlay.scroll_by(isize::MAX, height),
            _ => {}
        }
        None
    }

    /// Handles Ctrl-C: once cancels the turn, twice quits.
    pub(super) fn interrupt(&mut self) -> Option<Effect> {
        self.overlay = None;
        if self.is_interrupted || matches!(self.activity, Activity::Cancelling | Activity::Leaving)
        {
            return Some(self.leave());
        }
        self.is_interrupted = true;
        self.notice = Some("Ctrl-C again saves and quits".to_owned());
        self.rings = false;
        if self.activity == Activity::Working {
            self.activity = Activity::Cancelling;
            return Some(Effect::CancelTurn);
        }
        self.editor.clear();
        self.completion = None;
        None
    }

    /// Scrolls by pages, and reads earlier messages near the first one.
    fn scroll(&mut self, pages: isize) -> Option<Effect> {
        let page = usize::from(self.areas().conversation.height).saturating_sub(OVERLAP).max(1);
        self.scrolled = self.scrolled.saturating_add_signed(pages * page.cast_signed());
        // The page before the first is read before it is needed.
        let is_near_top = pages > 0 && self.scrolled + page >= self.most_scrolled();
        self.transcript.earlier().filter(|_| is_near_top).map(Effect::ReadEarlier)
    }

    fn offer(&mut self) {
        self.completion = complete(self.editor.before(), &self.setup.team);
        self.chosen = 0;
    }

    fn choose(&mut self, by: isize) -> Option<Effect> {
        let count = self.completion.as_ref().map_or(1, |completion| completion.candidates.len());
        self.chosen = (self.chosen + count).saturating_add_signed(by) % count;
        None
    }

    fn accept_completion(&mut self) -> Option<Effect> {
        let Some(completion) = self.completion.take() else {
            self.offer();
            return None;
        };
        if let Some(candidate) = completion.candidates.get(self.chosen) {
            self.editor.complete(completion.from, &candidate.text);
        }
        // After a command, offer its names at once.
        if self.editor.before().ends_with(' ') {
            self.offer();
        }
        None
    }
}
