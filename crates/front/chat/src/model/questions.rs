//! Questions of agents: a card for each, which only its own keys answer.

use std::time::Duration;

use convoke_protocol::id::MemberName;
use convoke_protocol::permission::{AnsweredBy, PermissionAnswer, PermissionQuestion};
use crossterm::event::KeyCode;

use super::{Chat, Effect};
use crate::overlay::{Overlay, Page};
use crate::transcript::Tone;

/// The time for which a card must be visible before a key answers it: a person who was typing has not read it.
const UNREAD: Duration = Duration::from_millis(700);

/// A question that waits for the person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenQuestion {
    pub(crate) member: MemberName,
    pub(crate) question: PermissionQuestion,
    /// The time at which its card was opened.
    shown: Option<Duration>,
}

impl OpenQuestion {
    /// Returns the card's text.
    pub(crate) fn text(&self) -> String {
        let PermissionQuestion { tool, summary, diff, directory, .. } = &self.question;
        let diff = diff.as_ref().map_or(String::new(), |diff| format!("\n\n{diff}"));
        let place = directory.as_ref().map(|it| format!(" in {}", it.display()));
        let place = place.unwrap_or_default();
        format!("{} asks to use {tool}{place}:\n\n{summary}{diff}", self.member)
    }
}

impl Chat {
    /// Takes a question, and shows its card unless it is answered already.
    pub(super) fn ask(&mut self, member: MemberName, question: PermissionQuestion, is_open: bool) {
        self.questions.push(OpenQuestion { member, question, shown: None });
        if is_open {
            self.show_question();
        }
    }

    /// Opens the card of the oldest question, unless another page is open.
    pub(super) fn show_question(&mut self) {
        let width = self.areas().page_width();
        if let Some(open) = self.questions.first_mut().filter(|_| self.overlay.is_none()) {
            open.shown = Some(self.now);
            let page = Page::Question(Box::new(open.clone()));
            self.overlay = Some(Overlay::open(page, width));
        }
    }

    pub(super) fn answered(&mut self, id: &str, answer: PermissionAnswer, by: AnsweredBy) {
        if let Some(at) = self.questions.iter().position(|open| open.question.id == id) {
            let open = self.questions.remove(at);
            let summary = open.question.summary.lines().next().unwrap_or_default();
            let may = if answer.allows() { "was allowed" } else { "was refused" };
            let why = match by {
                AnsweredBy::Session => "as answered before",
                AnsweredBy::Rule => "by a rule",
                AnsweredBy::Sandbox => "the sandbox would stop it",
                AnsweredBy::Timeout => "no answer in time",
                AnsweredBy::Nobody => "no person to ask",
                AnsweredBy::Withdrawn => "withdrawn",
                _ => answer.as_str(),
            };
            self.transcript.note(Tone::Quiet, &format!("{} {may}: {summary} ({why})", open.member));
        }
        let is_shown = matches!(
            &self.overlay,
            Some(Overlay { page: Page::Question(open), .. }) if open.question.id == id
        );
        if is_shown {
            self.overlay = None;
        }
        self.show_question();
    }

    /// Applies a key to a card. Returns `None` if the key is not an answer.
    pub(super) fn key_on_question(&mut self, code: KeyCode) -> Option<Effect> {
        let answer = match code {
            KeyCode::Char('1') => PermissionAnswer::Once,
            KeyCode::Char('2') => PermissionAnswer::Session,
            KeyCode::Char('3') => PermissionAnswer::Never,
            _ => return None,
        };
        let open = self.questions.first()?;
        let is_read = open.shown.is_some_and(|shown| self.now.saturating_sub(shown) >= UNREAD);
        let height = self.areas().page_height();
        if let Some(overlay) = self.overlay.as_mut().filter(|_| is_read && answer.allows())
            && overlay.scroll + height < overlay.lines.len()
        {
            // An answer is for the whole question, so its end must have been on the screen.
            overlay.scroll_by(height.saturating_sub(1).max(1).cast_signed(), height);
            return None;
        }
        is_read.then(|| Effect::Answer(open.question.id.clone(), answer))
    }
}

#[cfg(test)]
mod tests {
    use convoke_protocol::event::EventKind;
    use convoke_protocol::id::TurnId;

    use super::*;
    use crate::model::Input;
    use crate::model::testing::chat;

    fn asked(id: &str) -> EventKind {
        EventKind::PermissionAsked {
            turn: TurnId(1),
            member: "ada".into(),
            question: PermissionQuestion {
                id: id.to_owned(),
                tool: "Bash".to_owned(),
                summary: "cargo test".to_owned(),
                input: "{}".to_owned(),
                diff: Some("-one\n+two\n".to_owned()),
                is_command: true,
                ..PermissionQuestion::default()
            },
            answers: PermissionAnswer::OFFERED.to_vec(),
            expires_at: 0,
        }
    }

    fn answered(id: &str, by: AnsweredBy) -> EventKind {
        let (id, answer) = (id.to_owned(), PermissionAnswer::Once);
        EventKind::PermissionAnswered { turn: TurnId(1), member: "ada".into(), id, answer, by }
    }

    #[test]
    fn a_card_accepts_only_its_own_keys_and_only_after_a_moment() {
        let mut chat = chat();
        chat.update(Input::Event(asked("1.q")));
        let card = chat.questions[0].text();
        assert!(card.contains("cargo test") && card.contains("+two"), "{card}");
        assert_eq!(chat.press(KeyCode::Char('1')), None, "it was typed before the card was read");
        chat.update(Input::Tick(Duration::from_secs(1)));
        for key in [KeyCode::Char('y'), KeyCode::Enter, KeyCode::Char('q')] {
            assert_eq!(chat.press(key), None);
            assert!(chat.overlay.is_some(), "{key:?} closed the card");
        }
        let answer = chat.press(KeyCode::Char('1'));
        assert_eq!(answer, Some(Effect::Answer("1.q".to_owned(), PermissionAnswer::Once)));
        chat.update(Input::Event(answered("1.q", AnsweredBy::Person)));
        assert!(chat.overlay.is_none() && chat.questions.is_empty());
    }

    #[test]
    fn a_question_can_be_allowed_once_its_end_was_on_the_screen() {
        let mut chat = chat();
        let mut long = asked("1.q");
        if let EventKind::PermissionAsked { question, .. } = &mut long {
            question.summary = format!("echo{}touch hidden", "\n".repeat(200));
        }
        chat.update(Input::Event(long));
        chat.update(Input::Tick(Duration::from_secs(1)));
        let mut presses = 0;
        let answer = loop {
            presses += 1;
            if let Some(answer) = chat.press(KeyCode::Char('1')) {
                break answer;
            }
            assert!(presses < 200, "it can be answered");
        };
        assert_eq!(answer, Effect::Answer("1.q".to_owned(), PermissionAnswer::Once));
        assert!(presses > 2, "{presses}");
    }

    #[test]
    fn the_next_question_follows_and_a_closed_card_can_be_opened_again() {
        let mut chat = chat();
        chat.update(Input::Event(asked("1.q")));
        chat.update(Input::Event(asked("1.r")));
        chat.press(KeyCode::Esc);
        assert!(chat.overlay.is_none());
        chat.press(KeyCode::F(3));
        assert!(chat.overlay.is_some());
        chat.update(Input::Event(answered("1.q", AnsweredBy::Timeout)));
        chat.update(Input::Tick(Duration::from_secs(9)));
        assert!(chat.overlay.is_some(), "the second question is shown");
        assert_eq!(
            chat.press(KeyCode::Char('3')),
            Some(Effect::Answer("1.r".to_owned(), PermissionAnswer::Never))
        );
    }
}
