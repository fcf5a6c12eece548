//! Events for the checks, and the rows that follow from them.

use convoke_core::marker::{Intent, TextPolicy};
use convoke_core::{Diagnostic, MessageId, NewMessage, Speaker, SpeakerType};
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind, TextPart};
use convoke_protocol::content::Content;
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{EventNumber, MemberName, MessageNumber, Millis, SessionId, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::session::{NewSession, Rehearsal, State};
use convoke_protocol::turn::{Attempt, AttemptResult, Turn, TurnState};
use convoke_protocol::verdict::Verdict;
use convoke_session::diagnostics;
use convoke_session::store::{Commit, Store, StoreError};

/// The time of every event.
pub const AT: Millis = Millis(1_700_000_000_001);

/// The end of a session's log: numbers the next events, and folds the state.
#[derive(Debug, Clone)]
pub struct Log {
    pub session: SessionId,
    pub head: EventNumber,
    pub state: State,
}

impl Log {
    /// Returns the log of a session that was just created.
    pub fn of(new: &NewSession) -> Self {
        let mut state = State::default();
        state.apply(&EventKind::created(new));
        Self { session: new.id, head: EventNumber(1), state }
    }

    /// Creates a session, and returns its log.
    pub async fn create(store: &impl Store, new: &NewSession) -> Result<Self, StoreError> {
        store.create(new.clone()).await?;
        Ok(Self::of(new))
    }

    /// Returns the log of a stored session.
    pub async fn read(store: &impl Store, session: SessionId) -> Result<Self, StoreError> {
        let stored = store.session(session).await?;
        Ok(Self { session, head: stored.head, state: stored.state })
    }

    /// Returns a commit of the next events.
    pub fn commit(&self, kinds: impl IntoIterator<Item = EventKind>) -> Commit {
        let mut next = self.clone();
        let events = next.events(kinds);
        Commit { on: self.head, events, state: next.state, ..Commit::default() }
    }

    /// Numbers the next events.
    pub fn events(&mut self, kinds: impl IntoIterator<Item = EventKind>) -> Vec<Event> {
        let number = |kind: EventKind| {
            self.state.apply(&kind);
            self.head = self.head.next();
            let (session, number) = (self.session, Some(self.head));
            Event { kind, session, at: AT, number, migrated: false }
        };
        kinds.into_iter().map(number).collect()
    }

    /// Stores the next events.
    pub async fn add(
        &mut self,
        store: &impl Store,
        kinds: impl IntoIterator<Item = EventKind>,
    ) -> Result<(), StoreError> {
        let commit = self.commit(kinds);
        self.store(store, commit).await
    }

    /// Stores a commit of the next events.
    pub async fn store(&mut self, store: &impl Store, commit: Commit) -> Result<(), StoreError> {
        let state = commit.state.clone();
        self.head = store.commit(self.session, commit).await?;
        self.state = state;
        Ok(())
    }
}

/// Creates a session with a new id.
pub fn new_session() -> NewSession {
    NewSession {
        id: SessionId::generate(),
        created_at: Millis(1_700_000_000_000),
        name: Some("a team".to_owned()),
        directory: "/project".to_owned(),
        team: "[[member]]\nname = \"max\"\nagent = \"claude\"\n".to_owned(),
        task: Some("a task".to_owned()),
        rehearsal: Some(Rehearsal::Cli),
    }
}

/// Creates a message.
pub fn message(
    number: u64,
    answers: Option<u64>,
    from: &str,
    to: &[&str],
    content: &str,
) -> Message {
    let kind = if from == "kailai" { SpeakerType::Human } else { SpeakerType::Ai };
    let mut said = NewMessage::new(Speaker::new(from, from, kind), content);
    if !to.is_empty() {
        said = said.to(to.iter().copied());
    }
    said.in_reply_to = answers.map(MessageId::numbered);
    let message = said.with_id(MessageId::numbered(number));
    Message::new(MessageNumber(number), answers.map(MessageNumber), message, TextPolicy::Preserve)
}

/// Creates the event of a message.
pub fn said(message: Message) -> EventKind {
    EventKind::Message(Box::new(message))
}

/// Creates a queued turn of max.
pub fn turn(id: u64, answers: u64) -> Turn {
    Turn {
        id: TurnId(id),
        member: max(),
        answers: MessageNumber(answers),
        intent: Intent::P3,
        asker: MemberName::from("kailai"),
        state: TurnState::Queued,
        reply: None,
        problem: None,
        attempts: 0,
        queued_at: AT,
        ended_at: None,
    }
}

fn max() -> MemberName {
    MemberName::from("max")
}

/// Creates the queueing of a turn of max.
pub fn queued(id: u64, answers: u64) -> EventKind {
    EventKind::queued(&turn(id, answers))
}

/// Creates an event that changes no table.
pub fn noted() -> EventKind {
    let diagnostic = Diagnostic::new(diagnostics::TURN_INTERRUPTED, "a note");
    EventKind::Diagnostic { turn: None, diagnostic }
}

/// Creates an attempt of a turn, with its prompt, input and ledger, which its event of this number started.
pub fn attempt(turn: u64, number: u32, event: EventNumber, of: &[Content; 3]) -> Attempt {
    let [prompt, input, ledger] = of.each_ref().map(Content::reference);
    Attempt {
        turn: TurnId(turn),
        number,
        event,
        began_at: AT,
        engine: "1.2.3".to_owned(),
        prompt,
        system: Some(prompt),
        input,
        ledger,
        diagnostics: vec![Diagnostic::new(diagnostics::QUEUE_FULL, "a loss")],
        ended: None,
    }
}

/// Creates the start of an attempt.
pub fn started(id: u64, number: u32, of: &[Content; 3]) -> EventKind {
    EventKind::started(&turn(id, 1), &attempt(id, number, EventNumber(0), of), 3, 1)
}

/// Creates the result of an attempt that ran out of time.
pub fn timed_out(partial: &Content) -> AttemptResult {
    AttemptResult {
        partial: Some(partial.reference()),
        cost_usd: Some(0.25),
        model: Some("m".to_owned()),
        ..AttemptResult::new(Millis(AT.0 + 1), Verdict::TimedOut)
    }
}

/// Creates the end of a turn that failed, or was cancelled.
pub fn ended(id: u64, number: u32, state: TurnState, result: AttemptResult) -> EventKind {
    EventKind::ended(&Turn { state, ..turn(id, 1) }, number, AT, None, result)
}

/// Creates the reply of a turn and its end.
pub fn replied(id: u64, number: u32, message: Message) -> [EventKind; 2] {
    let reply = Some(message.id().clone());
    let done = Turn { state: TurnState::Done, ..turn(id, 1) };
    let result = AttemptResult::new(AT, Verdict::Done);
    let message = Message { turn: Some(done.id), ..message };
    [said(message), EventKind::ended(&done, number, AT, reply, result)]
}

/// Creates a whole text that the agent of a turn wrote.
pub fn wrote(id: u64, text: &str) -> EventKind {
    let text = text.to_owned().into();
    let event = AgentEvent::own(AgentEventKind::Text { text, part: TextPart::Whole });
    EventKind::Agent { turn: TurnId(id), member: max(), event }
}
