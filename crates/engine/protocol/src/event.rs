//! Events of a session.
//!
//! A session is an append-only log of these events, numbered from 1 without gaps. An event that is emitted is the one that is
//! stored, followed, exported and imported. Its JSON form is one object a line: `type` names the event, all names are in camel
//! case, and fields are only ever added.
//!
//! An event without a number is not part of the log: a piece of a text that is still being written, or something that concerns
//! only the process that reports it.

use std::time::Duration;

use convoke_core::ledger::estimate_tokens;
use convoke_core::marker::Intent;
use convoke_core::{Diagnostic, MessageId};
use serde::{Deserialize, Serialize};

use crate::agent_event::{AgentEvent, AgentEventKind, TextPart};
use crate::changes::{ChangeCounts, ChangedBy};
use crate::content::ContentRef;
use crate::id::{EventNumber, MemberName, MessageNumber, Millis, SessionId, TurnId};
use crate::memory::{MemoryUse, Remembered};
use crate::message::Message;
use crate::permission::{AnsweredBy, PermissionAnswer, PermissionQuestion};
use crate::question::QuestionId;
use crate::session::{NewSession, Rehearsal, State};
use crate::turn::{Attempt, AttemptResult, Turn, TurnState};
use crate::verdict::Verdict;

/// An event of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    #[serde(flatten)]
    pub kind: EventKind,
    pub session: SessionId,
    pub at: Millis,
    /// The place in the log; `None` for an event that is not in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<EventNumber>,
    /// Whether the event was made from the rows of a store or an archive that had no log.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub migrated: bool,
}

/// The payload of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum EventKind {
    /// The session was created: always the first event.
    Created {
        /// The team's name, if it has one.
        name: Option<String>,
        /// The working directory of the team.
        directory: String,
        /// The text of the team file, stored so that the session does not depend on the file.
        team: String,
        task: Option<String>,
        /// The kind of rehearsal; `None` for a real session.
        rehearsal: Option<Rehearsal>,
    },
    /// The session has this state after its rows were converted to events, which do not tell all of it.
    Restored { state: State },
    /// A process opened the session.
    Opened {
        /// The number of messages.
        messages: u64,
        /// The number of queued turns.
        waiting: u64,
        /// Turns that were interrupted by a crash; they run first.
        interrupted: Vec<TurnId>,
    },
    /// A message was stored.
    Message(Box<Message>),
    /// A message of this process is in the inbox of the process that holds the session. Not in the log.
    MessageWaits {
        from: MemberName,
        /// The text, with markers.
        text: String,
    },
    /// The team task was set.
    Task {
        task: String,
        /// The member who set it.
        by: MemberName,
    },
    /// A turn was queued.
    TurnQueued {
        turn: TurnId,
        member: MemberName,
        /// The message that it answers.
        answers: MessageNumber,
        /// The priority.
        intent: Intent,
        /// The person who wrote the first message of the chain that led to the turn.
        asker: MemberName,
    },
    /// A queued turn was dropped.
    TurnDropped { turn: TurnId, member: MemberName, problem: String },
    /// A turn that failed or was cancelled was queued again, ahead of all others.
    TurnRetried { turn: TurnId, member: MemberName },
    /// The next turn is not run by this process and is offered to other machines. Not in the log.
    TurnOffered {
        turn: TurnId,
        member: MemberName,
        /// The name or label of the required node; `None` for any node that has the agent.
        node: Option<String>,
        /// The reason why no node takes the turn; `None` if one can.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
    },
    /// An attempt was stored and is being sent.
    TurnStarted {
        turn: TurnId,
        member: MemberName,
        /// The message that it answers.
        answers: MessageNumber,
        /// The number of the attempt, from 1.
        attempt: u32,
        prompt: ContentRef,
        /// The system text; `None` if it is part of the prompt.
        system: Option<ContentRef>,
        /// The estimated tokens of both.
        tokens_estimate: u64,
        /// The number of context messages before the budget is applied.
        context: usize,
        /// The version of the engine that assembled the prompt.
        engine: String,
        /// The input of the assembly, as JSON.
        input: ContentRef,
        /// The ledger, as JSON.
        ledger: ContentRef,
        /// The diagnostics of the assembly.
        diagnostics: Vec<Diagnostic>,
        /// The number of turns of one topic that ran in a row, with this one.
        in_a_row: u32,
        /// How the attempt uses the memory of its member; `None` if the member has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        memory: Option<Box<MemoryUse>>,
    },
    /// What a member remembers was changed by something else than a turn that arrived: its session was lost, or a turn was
    /// taken out of it.
    MemoryChanged {
        member: MemberName,
        /// The turn that was taken out, or that found the session lost.
        turn: TurnId,
        /// The state that the next turn continues; `None` if it starts afresh.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Box<Remembered>>,
        reason: String,
    },
    /// An event of the agent, without secrets.
    Agent { turn: TurnId, member: MemberName, event: AgentEvent<'static> },
    /// An agent asks before it acts, and waits for an answer.
    PermissionAsked {
        turn: TurnId,
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
        turn: TurnId,
        member: MemberName,
        /// The id of the question.
        id: String,
        answer: PermissionAnswer,
        by: AnsweredBy,
    },
    /// Files were changed in a working directory.
    FilesChanged {
        /// The turn that changed the files, or before which a person changed them.
        turn: TurnId,
        member: MemberName,
        by: ChangedBy,
        #[serde(flatten)]
        counts: ChangeCounts,
    },
    /// The process that ran a turn ended during the attempt. The turn is queued again.
    TurnInterrupted {
        turn: TurnId,
        member: MemberName,
        attempt: u32,
        /// The result of the attempt. Its fields are serialized beside those of the event.
        #[serde(flatten, with = "result_fields")]
        result: Box<AttemptResult>,
    },
    /// A turn ended.
    TurnEnded {
        turn: TurnId,
        member: MemberName,
        /// The attempt that ended; 0 if the turn ended before its first one.
        #[serde(default)]
        attempt: u32,
        state: TurnState,
        /// The reply; `None` if the turn did not complete.
        reply: Option<MessageId>,
        /// The result of the attempt. Its fields are serialized beside those of the event.
        #[serde(flatten, with = "result_fields")]
        result: Box<AttemptResult>,
        /// The duration of the attempt.
        #[serde(rename = "elapsedMs", with = "crate::milliseconds")]
        elapsed: Duration,
    },
    /// A diagnostic.
    Diagnostic {
        /// The turn that it concerns.
        turn: Option<TurnId>,
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
    /// Creates the first event of a session.
    pub fn created(session: &NewSession) -> Self {
        let NewSession { name, directory, team, task, rehearsal, .. } = session.clone();
        Self::Created { name, directory, team, task, rehearsal }
    }

    /// Returns whether the event belongs to the log.
    pub fn is_logged(&self) -> bool {
        match self {
            Self::MessageWaits { .. } | Self::TurnOffered { .. } => false,
            Self::Agent { event, .. } => !event.is_piece(),
            _ => true,
        }
    }

    /// Creates the queueing of a turn.
    pub fn queued(turn: &Turn) -> Self {
        let Turn { id, member, answers, intent, asker, .. } = turn.clone();
        Self::TurnQueued { turn: id, member, answers, intent, asker }
    }

    /// Creates the start of an attempt, whose context was this number of messages before the budget.
    pub fn started(turn: &Turn, attempt: &Attempt, context: usize, in_a_row: u32) -> Self {
        let bytes = attempt.assembled_bytes();
        let Attempt { number, engine, prompt, system, input, ledger, diagnostics, .. } =
            attempt.clone();
        Self::TurnStarted {
            turn: turn.id,
            member: turn.member.clone(),
            answers: turn.answers,
            attempt: number,
            prompt,
            system,
            tokens_estimate: estimate_tokens(bytes),
            context,
            engine,
            input,
            ledger,
            diagnostics,
            in_a_row,
            memory: None,
        }
    }

    /// Adds to the start of an attempt how it uses the memory of its member.
    #[must_use]
    pub fn using(mut self, used: Option<Box<MemoryUse>>) -> Self {
        if let Self::TurnStarted { memory, .. } = &mut self {
            *memory = used;
        }
        self
    }

    /// Creates the end of a turn whose attempt began at a time.
    pub fn ended(
        turn: &Turn,
        attempt: u32,
        began_at: Millis,
        reply: Option<MessageId>,
        result: AttemptResult,
    ) -> Self {
        let elapsed = u64::try_from(result.at.since(began_at)).unwrap_or_default();
        Self::TurnEnded {
            turn: turn.id,
            member: turn.member.clone(),
            attempt,
            state: turn.state,
            reply,
            result: Box::new(result),
            elapsed: Duration::from_millis(elapsed),
        }
    }

    /// Converts an event of a turn's agent to an event of the session. Ids of questions are made unique to the attempt.
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

    /// Returns the contents that the event refers to.
    pub fn contents(&self) -> impl Iterator<Item = ContentRef> {
        let found = match self {
            Self::TurnStarted { prompt, system, input, ledger, .. } => {
                [Some(*prompt), *system, Some(*input), Some(*ledger)]
            }
            Self::TurnInterrupted { result, .. } | Self::TurnEnded { result, .. } => {
                [result.partial, None, None, None]
            }
            _ => [None; 4],
        };
        found.into_iter().flatten()
    }

    /// Returns the turn that the event concerns.
    pub fn turn(&self) -> Option<TurnId> {
        match self {
            Self::TurnQueued { turn, .. }
            | Self::TurnDropped { turn, .. }
            | Self::TurnRetried { turn, .. }
            | Self::TurnOffered { turn, .. }
            | Self::TurnStarted { turn, .. }
            | Self::Agent { turn, .. }
            | Self::PermissionAsked { turn, .. }
            | Self::PermissionAnswered { turn, .. }
            | Self::FilesChanged { turn, .. }
            | Self::MemoryChanged { turn, .. }
            | Self::TurnInterrupted { turn, .. }
            | Self::TurnEnded { turn, .. } => Some(*turn),
            Self::Diagnostic { turn, .. } => *turn,
            _ => None,
        }
    }

    /// Returns the text that the turn's agent itself wrote, not a sub-agent.
    pub fn own_text(&self) -> Option<(&str, TextPart)> {
        match self {
            Self::Agent {
                event: AgentEvent { kind: AgentEventKind::Text { text, part }, sub_agent: None },
                ..
            } => Some((text, *part)),
            _ => None,
        }
    }
}

/// The reason why a conversation stopped. The conversation can continue after any of them.
///
/// Exhaustive on purpose: a caller has to handle every reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum StopReason {
    /// No turn is queued; control returns to the person who asked.
    Idle { person: MemberName },
    /// The next turn is a person's.
    Addressed {
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
        limit: u64,
    },
    /// A member repeated the same reply.
    Repetition {
        /// The person who asked.
        person: MemberName,
        member: MemberName,
        /// The number of repetitions.
        times: u32,
    },
    /// The queue was full.
    QueueFull {
        /// The person who asked.
        person: MemberName,
        limit: u64,
        /// The number of turns that were not queued.
        left_out: u64,
    },
}

/// A turn that failed or was cancelled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailedTurn {
    pub turn: TurnId,
    /// The member whose turn it was.
    pub member: MemberName,
    /// The person who asked.
    pub asker: MemberName,
    /// The verdict.
    pub outcome: Verdict,
}

/// The fields of a result beside those of its event, which has a time of its own.
mod result_fields {
    use convoke_core::Diagnostic;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::content::ContentRef;
    use crate::id::Millis;
    use crate::resume::ResumeHandle;
    use crate::turn::AttemptResult;
    use crate::usage::Usage;
    use crate::verdict::Verdict;

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Fields {
        outcome: Verdict,
        partial_bytes: u64,
        usage: Option<Usage>,
        cost_usd: Option<f64>,
        ended_at: Millis,
        partial: Option<ContentRef>,
        model: Option<String>,
        resume: Option<ResumeHandle>,
        #[serde(rename = "agentDiagnostics")]
        diagnostics: Vec<Diagnostic>,
    }

    pub(super) fn serialize<S: Serializer>(
        result: &AttemptResult,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let AttemptResult { at, verdict, partial, usage, cost_usd, model, resume, diagnostics } =
            result.clone();
        let partial_bytes = partial.map_or(0, |partial| partial.bytes);
        let (outcome, ended_at) = (verdict, at);
        let fields = Fields {
            outcome,
            partial_bytes,
            usage,
            cost_usd,
            ended_at,
            partial,
            model,
            resume,
            diagnostics,
        };
        fields.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Box<AttemptResult>, D::Error> {
        let Fields {
            outcome, usage, cost_usd, ended_at, partial, model, resume, diagnostics, ..
        } = Fields::deserialize(deserializer)?;
        let (at, verdict) = (ended_at, outcome);
        let result =
            AttemptResult { at, verdict, partial, usage, cost_usd, model, resume, diagnostics };
        Ok(Box::new(result))
    }
}

#[cfg(test)]
mod tests;
