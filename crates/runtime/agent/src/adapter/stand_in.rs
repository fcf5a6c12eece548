//! The stand-in: a scripted agent without a program, for rehearsals.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use convoke_protocol::agent_event::{AgentEvent, AgentEventKind, TextPart};
use convoke_protocol::resume::ResumeHandle;
use convoke_protocol::verdict::{Failure, Verdict};
use convoke_redact::Redactor;

use crate::turn::{Agent, AgentTurn, Continuity, TurnResult, TurnSide};
use crate::turn_input::TurnInput;

/// The script of a stand-in. After its last turn, the stand-in replies with the size of its prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    pub turns: Vec<Vec<Step>>,
}

impl Script {
    /// Creates a script with one reply for each turn.
    pub fn replies<T: Into<String>>(replies: impl IntoIterator<Item = T>) -> Self {
        let turns = replies.into_iter().map(|text| vec![Step::Say(text.into())]);
        Self { turns: turns.collect() }
    }
}

/// One step of a stand-in's turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Write text, word by word.
    Say(String),
    /// Write the size of the prompt between two texts.
    Account { before: String, after: String },
    /// Write reasoning.
    Think(String),
    /// Wait.
    Wait(Duration),
    /// Report a tool call without running a tool.
    Tool {
        /// The tool.
        name: String,
        /// The input, as JSON.
        input: String,
        output: String,
    },
    /// Fail.
    Fail(Failure),
}

/// An agent that replies from a script, then with the size of its prompt.
#[derive(Debug, Clone)]
pub struct StandIn {
    script: Arc<Script>,
    taken: Arc<Mutex<usize>>,
    pace: Duration,
}

impl StandIn {
    /// Creates a stand-in at the beginning of its script.
    pub fn new(script: Script) -> Self {
        Self { script: Arc::new(script), taken: Arc::default(), pace: Duration::ZERO }
    }

    /// Sets the time per word.
    #[must_use]
    pub fn with_pace(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    fn next_steps(&self) -> (usize, Vec<Step>) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = *taken;
        *taken += 1;
        let steps = self.script.turns.get(turn).cloned();
        (
            turn,
            steps.unwrap_or_else(|| {
                vec![Step::Account { before: String::new(), after: String::new() }]
            }),
        )
    }
}

/// Returns a text with the size of an input.
fn account_of(turn_input: &TurnInput) -> String {
    let prompt = &turn_input.prompt;
    let lines = prompt.lines().count();
    let system = turn_input
        .system
        .as_ref()
        .map_or(String::new(), |system| format!(" and a system text of {} bytes", system.len()));
    let session = match turn_input.resume {
        Some(_) => ", in a resumed session",
        None => "",
    };
    let bytes = prompt.len();
    format!("I was sent a prompt of {bytes} bytes in {lines} lines{system}{session}.")
}

impl Agent for StandIn {
    fn continuity(&self) -> Continuity {
        Continuity::Own
    }

    fn start(&self, turn_input: TurnInput) -> AgentTurn {
        let (turn, side) = AgentTurn::open(Redactor::default());
        let (number, steps) = self.next_steps();
        let pace = self.pace;
        tokio::spawn(async move {
            let session = match &turn_input.resume {
                Some(handle) => handle.session.clone(),
                None => format!("stand-in-{number}"),
            };
            let result = perform(&turn_input, &session, StandInTurn { steps, pace }, &side).await;
            side.finish(result).await;
        });
        turn
    }
}

/// One turn of a stand-in.
struct StandInTurn {
    steps: Vec<Step>,
    pace: Duration,
}

async fn perform(
    turn_input: &TurnInput,
    session: &str,
    performance: StandInTurn,
    side: &TurnSide,
) -> TurnResult {
    let StandInTurn { steps, pace } = performance;
    let mut reply = String::new();
    let act = async {
        side.send(AgentEvent::own(AgentEventKind::Started {
            session: Some(Cow::Owned(session.to_owned())),
            model: None,
        }))
        .await;
        for (number, step) in steps.into_iter().enumerate() {
            if let Some(failure) = act(turn_input, step, (number, pace), &mut reply, side).await {
                return Verdict::Failed(failure);
            }
        }
        Verdict::Done
    };
    let verdict = tokio::select! {
        biased;
        () = side.cancelled() => Verdict::Cancelled,
        () = tokio::time::sleep(turn_input.limits.turn) => Verdict::TimedOut,
        verdict = act => verdict,
    };
    // Nothing counts tokens: there is no usage.
    TurnResult {
        reply,
        resume: Some(ResumeHandle::new(session, &turn_input.cwd)),
        ..TurnResult::new(verdict)
    }
}

/// Writes a text word by word.
async fn say(text: &str, pace: Duration, reply: &mut String, side: &TurnSide) {
    reply.clear();
    for word in text.split_inclusive(' ') {
        if !pace.is_zero() {
            tokio::time::sleep(pace).await;
        }
        reply.push_str(word);
        let part = TextPart::Delta;
        let text = Cow::Owned(word.to_owned());
        side.send(AgentEvent::own(AgentEventKind::Text { text, part })).await;
    }
    let (text, part) = (Cow::Owned(text.to_owned()), TextPart::Whole);
    side.send(AgentEvent::own(AgentEventKind::Text { text, part })).await;
}

async fn act(
    turn_input: &TurnInput,
    step: Step,
    (number, pace): (usize, Duration),
    reply: &mut String,
    side: &TurnSide,
) -> Option<Failure> {
    match step {
        Step::Account { before, after } => {
            let text = before + &account_of(turn_input) + &after;
            say(&text, pace, reply, side).await;
        }
        Step::Say(text) => say(&text, pace, reply, side).await,
        Step::Think(text) => {
            side.send(AgentEvent::own(AgentEventKind::Thinking {
                text: Cow::Owned(text),
                part: TextPart::Whole,
            }))
            .await;
        }
        Step::Wait(time) => tokio::time::sleep(time).await,
        Step::Tool { name, input, output } => {
            let id = format!("tool-{number}");
            side.send(AgentEvent::own(AgentEventKind::ToolStarted {
                id: Cow::Owned(id.clone()),
                name: Cow::Owned(name),
                input: Cow::Owned(input),
            }))
            .await;
            side.send(AgentEvent::own(AgentEventKind::ToolFinished {
                id: Cow::Owned(id),
                ok: true,
                output: Cow::Owned(output),
            }))
            .await;
        }
        Step::Fail(failure) => return Some(failure),
    }
    None
}
