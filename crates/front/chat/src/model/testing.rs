//! Fixtures for tests of the model and the view.

use std::time::Duration;

use convoke_core::NewMessage;
use convoke_core::marker::{Intent, TextPolicy};
use convoke_protocol::content::Content;
use convoke_protocol::event::EventKind;
use convoke_protocol::id::{MessageNumber, TurnId};
use convoke_protocol::message::Message;
use convoke_team::Team;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Size;

use super::{Chat, Effect, Input, Setup};
use crate::history::StoredState;
use crate::view::render;

/// A team of one person and three agents.
pub(crate) fn team() -> Team {
    let members = [("you", "human = true"), ("ada", "agent = \"claude\"")];
    let members =
        members.into_iter().chain([("lin", "agent = \"codex\""), ("sam", "agent = \"plain\"")]);
    let text = members.map(|(name, kind)| format!("[[member]]\nname = \"{name}\"\n{kind}\n"));
    Team::parse(&text.collect::<String>()).unwrap()
}

/// A new chat.
pub(crate) fn chat() -> Chat {
    chat_after(StoredState {
        task: Some("Decide whether login.py can ship".into()),
        ..StoredState::default()
    })
}

/// A chat that resumes a session.
pub(crate) fn chat_after(past: StoredState) -> Chat {
    let setup = Setup {
        name: "sample review".to_owned(),
        session: "0199a1b2".to_owned(),
        store_option: String::new(),
        team: team(),
        speaker: "you".into(),
        to: vec!["ada".to_owned()],
        label: None,
        suggestion: Some("Can we ship login.py tonight?".to_owned()),
        diagnostics: Vec::new(),
        rings: true,
    };
    Chat::new(setup, past, Size::new(80, 24))
}

impl Chat {
    /// Presses a key.
    pub(crate) fn press(&mut self, code: KeyCode) -> Option<Effect> {
        self.update(Input::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    /// Presses a key with Ctrl held.
    pub(crate) fn ctrl(&mut self, key: char) -> Option<Effect> {
        self.update(Input::Key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL)))
    }

    /// Types text.
    pub(crate) fn type_in(&mut self, text: &str) {
        for c in text.chars() {
            assert_eq!(self.press(KeyCode::Char(c)), None, "typing does nothing yet");
        }
    }

    /// Types a line and presses Enter.
    pub(crate) fn enter_line(&mut self, text: &str) -> Option<Effect> {
        self.type_in(text);
        self.press(KeyCode::Enter)
    }

    /// Applies an event of the conversation.
    pub(crate) fn happen(&mut self, event: EventKind) -> Option<Effect> {
        self.update(Input::Event(event))
    }

    /// Lets time pass.
    pub(crate) fn wait(&mut self, seconds: u64) {
        self.update(Input::Tick(self.now + Duration::from_secs(seconds)));
    }

    /// Returns the text of the screen.
    pub(crate) fn screen(&self) -> String {
        let backend = TestBackend::new(self.size.width, self.size.height);
        let mut terminal = Terminal::new(backend).unwrap();
        terminal.draw(|frame| render(self, frame)).unwrap();
        terminal.backend().to_string()
    }
}

/// A stored message.
pub(crate) fn stored(number: u64, from: &str, to: &[&str], text: &str) -> Message {
    let message = NewMessage::from_person(from, text).to(to.iter().copied());
    let message = message.with_id(format!("msg-{number}").as_str().into());
    Message::new(MessageNumber(number), None, message, TextPolicy::default())
}

/// A message.
pub(crate) fn message(number: u64, from: &str, to: &[&str], text: &str) -> EventKind {
    EventKind::Message(Box::new(stored(number, from, to, text)))
}

/// A queued turn.
pub(crate) fn queued(turn: u64, member: &str) -> EventKind {
    EventKind::TurnQueued {
        turn: TurnId(turn),
        member: member.into(),
        answers: MessageNumber(1),
        intent: Intent::P2,
        asker: "you".into(),
    }
}

/// A started turn.
pub(crate) fn started(turn: u64, member: &str) -> EventKind {
    EventKind::TurnStarted {
        turn: TurnId(turn),
        member: member.into(),
        answers: MessageNumber(1),
        attempt: 1,
        prompt: Content::new("the prompt").reference(),
        system: None,
        tokens_estimate: 1_234,
        context: 3,
        engine: "0.1.0".to_owned(),
        input: Content::new("{}").reference(),
        ledger: Content::new("[]").reference(),
        diagnostics: Vec::new(),
        in_a_row: 0,
        memory: None,
    }
}
