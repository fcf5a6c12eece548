//! Events of a conversation, for its observer.
//!
//! Their JSON form is the output of `convoke run --json`, one object a line: `type` names the event, all
//! names are in camel case, and fields are only ever added.

use std::fmt;
use std::time::Duration;

use crate::agent_event::{AgentEvent, AgentEventKind};
use crate::permission::{AnsweredBy, PermissionAnswer, PermissionQuestion};
use crate::verdict::Verdict;
use convoke_core::figures::thousands;
use convoke_core::ledger::estimate_tokens;
use convoke_core::marker::{Intent, TextPolicy};
use convoke_core::{Diagnostic, MessageId};
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Serialize, Serializer};

use crate::attachment::Attachment;
use crate::changes::{ChangeCounts, ChangedBy};
use crate::content::ContentRef;
use crate::id::{MemberName, MessageNumber, Millis, SessionId, TurnId};
use crate::question::QuestionId;
use crate::session::NumberedMessage;
use crate::turn::{Attempt, AttemptResult, Turn, TurnState};

/// An event of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The payload.
    #[serde(flatten)]
    pub kind: EventKind,
    /// The session.
    pub session: SessionId,
    /// The time of the event.
    pub at: Millis,
}

/// The payload of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum EventKind {
    /// This process opened the session.
    Opened {
        /// The number of messages.
        messages: u64,
        /// The number of queued turns.
        waiting: u64,
        /// Turns that were interrupted by a crash; they run first.
        interrupted: Vec<TurnId>,
    },
    /// A message was stored.
    Message(ShownMessage),
    /// A message of this process is in the inbox of the process that holds the session.
    MessageWaits {
        /// The author.
        from: MemberName,
        /// The text, with markers.
        text: String,
    },
    /// The team task was set.
    Task {
        /// The task.
        task: String,
        /// The member who set it.
        by: MemberName,
    },
    /// A turn was queued.
    TurnQueued {
        /// The turn.
        turn: TurnId,
        /// The member whose turn it is.
        member: MemberName,
        /// The message that it answers.
        answers: MessageNumber,
        /// The priority.
        intent: Intent,
    },
    /// A queued turn was dropped by a message.
    TurnDropped {
        /// The turn.
        turn: TurnId,
        /// The member whose turn it was.
        member: MemberName,
    },
    /// The next turn is not run by this process and is offered to other machines.
    TurnOffered {
        /// The turn.
        turn: TurnId,
        /// The member whose turn it is.
        member: MemberName,
        /// The name or label of the required node; `None` for any node that has the agent.
        node: Option<String>,
        /// The reason why no node takes the turn; `None` if one can.
        #[serde(skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
    },
    /// An attempt was stored and is being sent.
    TurnStarted {
        /// The turn.
        turn: TurnId,
        /// The member whose turn it is.
        member: MemberName,
        /// The message that it answers.
        answers: MessageNumber,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The prompt.
        prompt: ContentRef,
        /// The system text; `None` if it is part of the prompt.
        system: Option<ContentRef>,
        /// The estimated tokens of both.
        tokens_estimate: u64,
        /// The number of context messages before the budget is applied.
        context: usize,
    },
    /// An event of the agent, without secrets.
    Agent {
        /// The turn.
        turn: TurnId,
        /// The member whose turn it is.
        member: MemberName,
        /// The event.
        event: AgentEvent<'static>,
    },
    /// An agent asks before it acts, and waits for an answer: see [`crate::Controls::answer`].
    PermissionAsked {
        /// The turn.
        turn: TurnId,
        /// The member whose turn it is.
        member: MemberName,
        /// The action that the agent asks about. Its fields are serialized beside those of the event.
        #[serde(flatten)]
        question: PermissionQuestion,
        /// The possible answers.
        answers: Vec<PermissionAnswer>,
        /// The time at which an unanswered question is refused, in milliseconds since 1970.
        expires_at: i64,
    },
    /// A question was answered.
    PermissionAnswered {
        /// The turn.
        turn: TurnId,
        /// The member whose turn it is.
        member: MemberName,
        /// The id of the question.
        id: String,
        /// The answer.
        answer: PermissionAnswer,
        /// The origin of the answer.
        by: AnsweredBy,
    },
    /// Files were changed in a working directory.
    FilesChanged {
        /// The turn that changed the files, or before which a person changed them.
        turn: TurnId,
        /// The member whose turn it is.
        member: MemberName,
        /// The author.
        by: ChangedBy,
        /// The counts.
        #[serde(flatten)]
        counts: ChangeCounts,
    },
    /// A turn ended and its result is stored.
    TurnEnded {
        /// The turn.
        turn: TurnId,
        /// The member whose turn it was.
        member: MemberName,
        /// The state of the turn.
        state: TurnState,
        /// The reply; `None` if the turn did not complete.
        reply: Option<MessageId>,
        /// The result of the attempt. Some of its fields are serialized beside those of the event.
        #[serde(flatten, serialize_with = "result_fields")]
        result: Box<AttemptResult>,
        /// The duration of the attempt.
        #[serde(rename = "elapsedMs", with = "crate::milliseconds")]
        elapsed: Duration,
    },
    /// A diagnostic.
    Diagnostic {
        /// The turn that it concerns.
        turn: Option<TurnId>,
        /// The diagnostic.
        diagnostic: Diagnostic,
    },
    /// The conversation stopped; everything is stored.
    Stopped(StopReason),
}

/// Describes what an offered turn waits for, and why no node takes it.
pub fn waits_for(node: Option<&str>, problem: Option<&str>) -> String {
    let node = node.map_or_else(|| "a node".to_owned(), |node| format!("node {node}"));
    let problem = problem.map_or_else(String::new, |problem| format!(": {problem}"));
    format!("waits for {node}{problem}")
}

impl EventKind {
    /// Creates the start of an attempt, whose context was this number of messages before the budget.
    pub fn turn_started(turn: &Turn, attempt: &Attempt, context: usize) -> Self {
        Self::TurnStarted {
            turn: turn.id,
            member: turn.member.clone(),
            answers: turn.answers,
            attempt: attempt.number,
            prompt: attempt.prompt,
            system: attempt.system,
            tokens_estimate: estimate_tokens(attempt.assembled_bytes()),
            context,
        }
    }

    /// Creates the end of a turn whose attempt began at a time.
    pub fn turn_ended(
        turn: &Turn,
        began_at: Millis,
        reply: Option<MessageId>,
        result: AttemptResult,
    ) -> Self {
        let elapsed = u64::try_from(result.at.since(began_at)).unwrap_or_default();
        Self::TurnEnded {
            turn: turn.id,
            member: turn.member.clone(),
            state: turn.state,
            reply,
            result: Box::new(result),
            elapsed: Duration::from_millis(elapsed),
        }
    }

    /// Converts an event of a turn's agent to an event of the conversation. Ids of questions are made unique to the
    /// attempt.
    pub fn of_agent(turn: &Turn, attempt: u32, event: AgentEvent<'static>) -> Self {
        let (turn, member) = (turn.id, turn.member.clone());
        let id_of = |id| QuestionId { turn, attempt, id }.to_string();
        match event.kind {
            AgentEventKind::PermissionAsked { question, expires_at } => {
                let question = PermissionQuestion { id: id_of(question.id), ..question };
                // A question decided by a rule or an earlier answer cannot be answered again.
                let answers = match (expires_at > 0, question.is_cut) {
                    (false, _) => Vec::new(),
                    (true, false) => PermissionAnswer::OFFERED.to_vec(),
                    (true, true) => PermissionAnswer::OFFERED_ONCE.to_vec(),
                };
                Self::PermissionAsked { turn, member, question, answers, expires_at }
            }
            AgentEventKind::PermissionAnswered { id, answer, by } => {
                Self::PermissionAnswered { turn, member, id: id_of(id), answer, by }
            }
            _ => Self::Agent { turn, member, event },
        }
    }
}

/// A stored message, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownMessage {
    /// The id.
    pub id: MessageId,
    /// The number in the session.
    pub number: MessageNumber,
    /// The author.
    pub from: MemberName,
    /// The recipients; empty means everyone.
    pub to: Vec<MemberName>,
    /// The message that it answers.
    pub in_reply_to: Option<MessageId>,
    /// The text without markers.
    pub text: String,
    /// The team tool that sent the message during its author's turn; `None` for a reply or a person's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The files that it attaches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<ShownAttachment>,
}

/// A file that a message attaches, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownAttachment {
    /// The path.
    pub path: String,
    /// The size.
    pub bytes: u64,
}

impl fmt::Display for ShownAttachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} bytes", self.path, thousands(self.bytes))
    }
}

impl ShownAttachment {
    /// Returns the files that a message attaches.
    pub fn from_message<Id>(message: &convoke_core::ConversationMessage<Id>) -> Vec<Self> {
        let files = Attachment::from_message(message).into_iter();
        files.map(|Attachment { path, text }| Self { path, bytes: text.len() as u64 }).collect()
    }
}

impl ShownMessage {
    /// Creates the shown form of a stored message.
    pub fn new(stored: &NumberedMessage, policy: TextPolicy) -> Self {
        let message = &stored.message;
        Self {
            id: message.id.clone(),
            number: stored.number,
            from: MemberName::new(&*message.speaker.role_id),
            to: message.addressees().iter().map(|name| MemberName::new(&**name)).collect(),
            in_reply_to: message.in_reply_to.clone(),
            text: message.text(policy).into_owned(),
            tool: stored.sent_by().map(str::to_owned),
            attachments: ShownAttachment::from_message(message),
        }
    }
}

/// Writes the fields of a result that the event includes.
fn result_fields<S: Serializer>(result: &AttemptResult, serializer: S) -> Result<S::Ok, S::Error> {
    let mut fields = serializer.serialize_struct("AttemptResult", 4)?;
    fields.serialize_field("outcome", &result.verdict)?;
    fields.serialize_field("partialBytes", &result.partial.map_or(0, |partial| partial.bytes))?;
    fields.serialize_field("usage", &result.usage)?;
    fields.serialize_field("costUsd", &result.cost_usd)?;
    fields.end()
}

/// The reason why a conversation stopped. The conversation can continue after any of them.
///
/// Exhaustive on purpose: a caller has to handle every reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum StopReason {
    /// No turn is queued; control returns to the person who asked.
    Idle {
        /// The person.
        person: MemberName,
    },
    /// The next turn is a person's.
    Addressed {
        /// The person.
        person: MemberName,
        /// The person's turn.
        turn: TurnId,
        /// The message that it answers.
        answers: MessageNumber,
    },
    /// Turns failed; the person decides how to continue. Other turns stay queued.
    TurnFailed {
        /// The person who asked for the first failed turn.
        person: MemberName,
        /// The turns.
        turns: Vec<FailedTurn>,
    },
    /// A person cancelled the running turn.
    Cancelled {
        /// The person who asked.
        person: MemberName,
    },
    /// A person left.
    Left,
    /// The limit of turns without a person was reached.
    TurnLimit {
        /// The person who asked.
        person: MemberName,
        /// The limit.
        limit: u64,
    },
    /// A member repeated the same reply.
    Repetition {
        /// The person who asked.
        person: MemberName,
        /// The member.
        member: MemberName,
        /// The number of repetitions.
        times: u32,
    },
    /// The queue was full.
    QueueFull {
        /// The person who asked.
        person: MemberName,
        /// The limit.
        limit: u64,
        /// The number of turns that were not queued.
        left_out: u64,
    },
}

/// A turn that failed or was cancelled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailedTurn {
    /// The turn.
    pub turn: TurnId,
    /// The member whose turn it was.
    pub member: MemberName,
    /// The person who asked.
    pub asker: MemberName,
    /// The verdict.
    pub outcome: Verdict,
}
