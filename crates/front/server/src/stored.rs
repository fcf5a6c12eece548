//! Readers of the store: the data of each view, at a cost proportional to its size.

use convoke_core::Diagnostic;
use convoke_protocol::event::StopReason;
use convoke_protocol::id::{MessageNumber, Millis, SessionId, TurnId};
use convoke_protocol::message::{AttachedBytes, Message};
use convoke_protocol::session::{MemberCost, Session, Summary};
use convoke_protocol::turn::{Turn, TurnState};
use convoke_protocol::usage::Usage;
use convoke_protocol::view::OpenQuestion;
use convoke_session::rows::find_turn;
use convoke_session::{AnyStore, Store as _, StoreError};
use convoke_team::Team;
use serde::Serialize;
use serde_json::{Value, json};

/// The default number of messages of a page.
pub const PAGE: usize = 100;
/// The maximum number of messages or turns of a page.
pub const MAX_ROWS: usize = 1_000;
/// The turns without a reply that are shown, the last ones.
const UNANSWERED: usize = 20;
/// The number of recent turns that are searched for those without a reply.
const RECENT_TURNS: u64 = 200;
/// The maximum number of bytes of a tool's input or output in a list of steps.
const EXCERPT: usize = 2 << 10;

/// The maximum number of turns of a session whose cost is added up for the list.
const COUNTED_TURNS: u64 = 2_000;

/// A session in the list.
#[derive(Debug, Clone)]
pub struct ListedSession {
    /// The session.
    pub summary: Summary,
    /// The members of its team.
    pub members: Vec<String>,
    /// The cost; `None` if no agent reported one, or if the session is too long to add it up for a list.
    pub cost_usd: Option<f64>,
    /// The tokens that providers counted; `None` if they counted none, or if the session is too long to add them up.
    pub tokens: Option<u64>,
    /// Whether a process holds it.
    pub is_held: bool,
    pub state: SessionState,
}

/// The state of a session in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SessionState {
    /// An agent asks a person.
    Asks,
    /// A process holds it.
    Running,
    /// Turns wait for a process.
    Queued,
    /// The last turn failed.
    Failed,
    Idle,
}

impl SessionState {
    /// Every state.
    pub const ALL: [Self; 5] = [Self::Asks, Self::Running, Self::Queued, Self::Failed, Self::Idle];

    /// Returns its name in addresses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Asks => "asks",
            Self::Running => "running",
            Self::Queued => "queued",
            Self::Failed => "failed",
            Self::Idle => "idle",
        }
    }

    /// Returns its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Asks => "waits for you",
            Self::Running => "running",
            Self::Queued => "turns wait",
            Self::Failed => "failed",
            Self::Idle => "idle",
        }
    }

    /// Returns the class of its badge.
    pub const fn class(self) -> &'static str {
        match self {
            Self::Asks | Self::Queued => "waits",
            Self::Running => "live",
            Self::Failed => "failed",
            Self::Idle => "idle",
        }
    }
}

impl ListedSession {
    /// Reads the row of a session.
    pub async fn read(
        store: &AnyStore,
        summary: Summary,
        has_question: bool,
    ) -> Result<Self, StoreError> {
        let session = store.session(summary.id).await?;
        let team = team_of(&session);
        let members = team.iter().flat_map(Team::names).map(ToString::to_string).collect();
        let costs = match summary.turns {
            0..=COUNTED_TURNS => store.costs(summary.id).await?,
            _ => Vec::new(),
        };
        let tokens = costs.iter().filter_map(|cost| cost.usage);
        let tokens = tokens.reduce(Usage::and).map(|all| all.input.saturating_add(all.output));
        let is_held = store.is_held(summary.id).await?;
        let last = find_turn(store, summary.id, session.state.last_turn).await?;
        let state = match last.map(|turn| turn.state) {
            _ if has_question => SessionState::Asks,
            _ if is_held => SessionState::Running,
            _ if summary.waiting > 0 => SessionState::Queued,
            Some(TurnState::Failed) => SessionState::Failed,
            _ => SessionState::Idle,
        };
        Ok(Self { summary, members, cost_usd: total_cost(&costs), tokens, is_held, state })
    }

    /// Returns the JSON form.
    pub fn json(&self) -> Value {
        let mut value = serde_json::to_value(&self.summary).unwrap_or_default();
        value["members"] = json!(self.members);
        value["costUsd"] = json!(self.cost_usd);
        value["held"] = json!(self.is_held);
        value["state"] = json!(self.state.as_str());
        value
    }
}

/// Returns the sum of reported costs; `None` if there is none.
pub fn total_cost(costs: &[MemberCost]) -> Option<f64> {
    costs.iter().filter_map(|cost| cost.cost_usd).reduce(|sum, cost| sum + cost)
}

/// Returns the team of a session; `None` if its team file cannot be parsed.
pub fn team_of(session: &Session) -> Option<Team> {
    let mut team = Team::parse(&session.began.team).ok()?;
    team.ensure_person();
    Some(team)
}

/// A message of a person that waits in the inbox of the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PendingMessage {
    /// The author.
    pub from: String,
    /// The recipients.
    pub to: Vec<String>,
    /// The text, with markers.
    pub text: String,
    /// The attached files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<AttachedBytes>,
}

impl PendingMessage {
    /// Reads the inbox of a session, in order.
    pub async fn read(store: &AnyStore, session: SessionId) -> Result<Vec<Self>, StoreError> {
        let pending = store.arrived(session).await?.into_iter().map(|(_, message)| Self {
            from: message.speaker.name().to_owned(),
            to: message.addressees().to_vec(),
            files: AttachedBytes::from_message(&message),
            text: message.content,
        });
        Ok(pending.collect())
    }
}

/// The status of a conversation: its open turns, questions and holder.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionStatus {
    /// The sequence number of the session's last commit.
    pub head: u64,
    /// The name of the session.
    pub name: Option<String>,
    pub task: Option<String>,
    /// The number of the last message.
    pub last_message: MessageNumber,
    /// Whether a process holds the session.
    #[serde(rename = "held")]
    pub is_held: bool,
    /// Whether that is the process of this server.
    #[serde(rename = "heldHere")]
    pub is_held_here: bool,
    /// Whether machines share the session, so that people take part in it wherever it is held.
    #[serde(rename = "shared")]
    pub is_shared: bool,
    /// The running turns, then the queued ones.
    pub open: Vec<Turn>,
    /// The messages that wait until the running turn has ended.
    pub pending: Vec<PendingMessage>,
    /// The last turns that ended without a reply.
    pub unanswered: Vec<Turn>,
    /// The turns whose texts are streamed.
    pub live: Vec<TurnId>,
    /// The questions of agents.
    pub questions: Vec<OpenQuestion>,
    /// The diagnostics since the session was opened.
    pub notes: Vec<Diagnostic>,
    /// The error that ended the conversation.
    pub problem: Option<String>,
    /// The reason why the conversation stopped; `None` while it runs, or if this server did not run it.
    pub stop: Option<StopReason>,
    /// The costs by member.
    pub costs: Vec<MemberCost>,
}

impl SessionStatus {
    /// Reads the status of a session, without its costs, which are slow to compute for a long one.
    pub async fn read(
        store: &AnyStore,
        session: Session,
        is_held: bool,
    ) -> Result<Self, StoreError> {
        let id = session.began.id;
        let mut open = store.open_turns(id).await?;
        open.sort_by_key(|turn| (turn.state != TurnState::Running, turn.id));
        let after = TurnId(session.state.last_turn.0.saturating_sub(RECENT_TURNS));
        let mut unanswered = store.turns_after(id, after, MAX_ROWS).await?;
        unanswered.retain(|turn| turn.reply.is_none() && !turn.state.is_open());
        unanswered.drain(..unanswered.len().saturating_sub(UNANSWERED));
        Ok(Self {
            head: session.head.0,
            name: session.began.name,
            task: session.state.task,
            last_message: session.state.last_message,
            is_held,
            is_held_here: false,
            is_shared: store.sharing().is_some(),
            open,
            pending: PendingMessage::read(store, id).await?,
            unanswered,
            live: Vec::new(),
            questions: Vec::new(),
            notes: Vec::new(),
            problem: None,
            stop: None,
            costs: Vec::new(),
        })
    }
}

/// Returns the JSON form of a message, as `sessions show --json` has it, with the turn whose reply it is.
pub fn message_json(message: &Message) -> Value {
    let Message { number, answers, turn, message, .. } = message;
    json!({"number": number, "answers": answers, "turn": turn, "message": message})
}

/// Some messages of a conversation.
#[derive(Debug, Clone)]
pub struct MessagePage {
    /// The messages, oldest first.
    pub messages: Vec<Message>,
    /// Whether there are earlier ones.
    pub has_earlier: bool,
    /// Whether there are later ones.
    pub has_later: bool,
}

impl MessagePage {
    /// Returns the JSON form of the messages.
    pub fn json(&self) -> Vec<Value> {
        self.messages.iter().map(message_json).collect()
    }
}

/// Reads at most `limit` messages before one. O(limit + log of the session).
pub async fn messages_before(
    store: &AnyStore,
    session: &Session,
    before: MessageNumber,
    limit: usize,
) -> Result<MessagePage, StoreError> {
    let end = before.0.min(session.state.last_message.0 + 1).max(1);
    let after = (end - 1).saturating_sub(limit as u64);
    let count = usize::try_from(end - 1 - after).unwrap_or(limit);
    let messages = store.messages_after(session.began.id, MessageNumber(after), count).await?;
    let has_later = end <= session.state.last_message.0;
    Ok(MessagePage { messages, has_earlier: after > 0, has_later })
}

/// Returns the time between two moments, in milliseconds.
pub fn elapsed(from: Millis, to: Millis) -> u64 {
    u64::try_from(to.since(from)).unwrap_or(0)
}

/// Returns the beginning of a text that is shown in a list.
pub(crate) fn excerpt(text: &str) -> &str {
    &text[..text.floor_char_boundary(EXCERPT)]
}
