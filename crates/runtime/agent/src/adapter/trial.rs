//! A trial turn: shows whether an unmeasured version still accepts Convoke's flags and writes the expected
//! events.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::verdict::Failure;
use serde_json::Value;

use super::{CliAgent, Definition, Host, PreparedTurn, start_failure};
use crate::ending::Ending;
use crate::process::{self, Decision, Dialogue, HostAccess, Input};
use crate::stream::{EventReader, Sink};
use crate::turn::{AgentTurn, TurnResult};
use crate::turn_input::TurnInput;

/// The result of a trial turn.
#[derive(Debug)]
pub struct Trial {
    /// The arguments with which the program was started.
    pub arguments: Vec<String>,
    /// The kinds of events that the program wrote.
    pub events: BTreeSet<String>,
    /// The unknown kinds among them.
    pub unknown: BTreeSet<String>,
    pub result: TurnResult,
    /// The session of the turn, which a next one can resume.
    pub session: Option<String>,
}

/// The maximum number of recorded kinds of events.
const MAX_EVENTS: usize = 256;

/// Runs one turn without some of the usual arguments. Each is left out together with its value.
pub async fn trial(
    definition: Definition,
    host: Host,
    turn_input: TurnInput,
    without: &[String],
) -> Result<Trial, Failure> {
    let agent = CliAgent::new(definition, host);
    let turn_input = Arc::new(turn_input);
    let (redactor, prepared) = agent.clone().prepare(turn_input.clone()).await?;
    // The private directory and the socket of the team are there until the turn is over.
    let PreparedTurn { call, mut launch, private: _private, team_socket: _socket, .. } = prepared?;
    launch.args = left(launch.args, without);
    let arguments = launch.args.iter().map(|it| it.to_string_lossy().into_owned()).collect();
    let mut witness = EventRecorder {
        dialogue: call.dialogue,
        events: BTreeSet::new(),
        unknown: BTreeSet::new(),
    };
    let (turn, side) = AgentTurn::open(redactor);
    // The events are not needed, but dropping the turn would cancel it.
    let reading = tokio::spawn(turn.result());
    let guardian = &agent.host.guardian;
    let ended = process::supervise(
        &launch,
        guardian,
        &mut witness,
        &turn_input.limits,
        &turn_input.approvals,
        turn_input.held_until.clone(),
        &side,
    )
    .await;
    let result = ended.map_err(|error| start_failure(error.to_string()))?;
    side.finish(TurnResult::new(result.verdict.clone())).await;
    reading.await.map_err(|error| start_failure(error.to_string()))?;
    let session = witness.reader().session().map(str::to_owned);
    Ok(Trial { arguments, events: witness.events, unknown: witness.unknown, result, session })
}

/// Removes arguments, each with its value.
fn left(args: Vec<OsString>, without: &[String]) -> Vec<OsString> {
    let is_option = |arg: &OsStr| arg.as_encoded_bytes().starts_with(b"-");
    let mut kept = Vec::new();
    let mut args = args.into_iter().peekable();
    while let Some(arg) = args.next() {
        if without.iter().any(|gone| arg == *gone.as_str()) {
            if args.peek().is_some_and(|next| !is_option(next)) {
                args.next();
            }
        } else {
            kept.push(arg);
        }
    }
    kept
}

/// Records the kind of every event and delegates to the dialogue.
struct EventRecorder {
    dialogue: Box<dyn Dialogue>,
    events: BTreeSet<String>,
    unknown: BTreeSet<String>,
}

impl EventRecorder {
    fn note(&mut self, line: &[u8]) {
        let Ok(event) = serde_json::from_slice::<Value>(line) else { return };
        let kind = event["type"].as_str().or_else(|| event["method"].as_str());
        if let Some(kind) = kind
            && self.events.len() < MAX_EVENTS
        {
            self.events.insert(kind.to_owned());
        }
    }
}

impl Dialogue for EventRecorder {
    fn open(&mut self) -> Input {
        self.dialogue.open()
    }

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Input {
        self.note(line);
        let unknown = &mut self.unknown;
        self.dialogue.line(line, &mut |event| {
            if let AgentEventKind::Unknown { name, .. } = &event.kind
                && unknown.len() < MAX_EVENTS
            {
                unknown.insert(name.to_string());
            }
            sink(event);
        })
    }

    fn equip(&mut self, access: HostAccess<'_>) -> std::io::Result<()> {
        self.dialogue.equip(access)
    }

    fn error_line(&mut self, line: &str, sink: &mut Sink<'_>) {
        self.dialogue.error_line(line, sink);
    }

    fn interrupt(&mut self) -> Option<Input> {
        self.dialogue.interrupt()
    }

    fn answer(&mut self, question: &str, answer: Decision, sink: &mut Sink<'_>) -> Input {
        self.dialogue.answer(question, answer, sink)
    }

    fn poll_wake(&mut self, context: &mut task::Context<'_>) -> Poll<()> {
        self.dialogue.poll_wake(context)
    }

    fn wake(&mut self, sink: &mut Sink<'_>) -> Input {
        self.dialogue.wake(sink)
    }

    fn end_commands(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.dialogue.end_commands()
    }

    fn silence_limit(&self) -> Option<Duration> {
        self.dialogue.silence_limit()
    }

    fn on_silence(&mut self) -> Option<Input> {
        self.dialogue.on_silence()
    }

    fn exit_limit(&self) -> Option<Duration> {
        self.dialogue.exit_limit()
    }

    fn dismiss(&mut self, sink: &mut Sink<'_>) -> Input {
        self.dialogue.dismiss(sink)
    }

    fn finish(&mut self, ending: &Ending<'_>, sink: &mut Sink<'_>) -> TurnResult {
        self.dialogue.finish(ending, sink)
    }

    fn reader(&self) -> &dyn EventReader {
        self.dialogue.reader()
    }

    fn reader_mut(&mut self) -> &mut dyn EventReader {
        self.dialogue.reader_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_left_out_with_its_value() {
        let args =
            ["-p", "--mode", "x", "--verbose", "-c", "a=1", "-"].map(OsString::from).to_vec();
        let left = left(args, &["--mode".to_owned(), "--verbose".to_owned()]);
        assert_eq!(left, ["-p", "-c", "a=1", "-"]);
    }
}
