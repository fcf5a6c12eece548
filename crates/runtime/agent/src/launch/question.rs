//! A question to a program: it runs to its end, or until it has answered, and changes nothing.

use std::io;
use std::time::Duration;

use convoke_protocol::verdict::Verdict;
use convoke_redact::Redactor;

use super::{ConfineError, ObservedPlace, Program, observed};
use crate::approvals::Approvals;
use crate::ending::{Ending, Exit, TerminationCause};
use crate::process::guardian::Guardian;
use crate::process::{Dialogue, Input, StartError, supervise};
use crate::stream::plain::Plain;
use crate::stream::{EventReader, Sink};
use crate::turn::{AgentTurn, Canceller, TurnResult};
use crate::turn_input::Limits;

/// The maximum size of the output that is kept, of each stream.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;
/// The maximum size of a line.
const MAX_LINE_BYTES: usize = 4 << 20;

/// A question to a program.
pub struct Question<'a> {
    pub program: Program,
    pub place: ObservedPlace<'a>,
    pub guardian: &'a Guardian,
    /// The time that it may take.
    pub time_limit: Duration,
    /// Its first input.
    pub opening: Input,
    /// Reads a line of its output and returns the next input; `None` if it has answered.
    pub next: &'a mut (dyn FnMut(&str) -> Option<Input> + Send),
}

/// The output of a program that was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The exit code; `None` if it was stopped.
    pub code: Option<i32>,
    /// The beginning of the standard output, and the end of the standard error.
    pub output: String,
}

/// The reason why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The program could not be confined.
    #[error(transparent)]
    Confine(#[from] ConfineError),
    /// The program could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// It exceeded its time limit.
    #[error("the program did not answer in time")]
    TimedOut,
    /// Its output could not be read.
    #[error("the output of the program could not be read")]
    Unreadable,
    /// There is no thread for it.
    #[error("cannot run the program: {0}")]
    Runtime(#[from] io::Error),
}

/// Asks a program, and waits for its answer.
pub fn ask(question: Question<'_>) -> Result<Answer, AskError> {
    // A thread of its own: the caller may be on a runtime, which cannot wait for another.
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(answer(question))
        });
        asked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

async fn answer(question: Question<'_>) -> Result<Answer, AskError> {
    let Question { mut program, place, guardian, time_limit, opening, next } = question;
    program.environment.set("TMPDIR", place.private_dir);
    let launch = observed(program, place)?.launch;
    let limits = Limits {
        turn: time_limit,
        silence: time_limit,
        grace: Duration::ZERO,
        line_bytes: MAX_LINE_BYTES,
        ..Limits::default()
    };
    let approvals = Approvals::default();
    approvals.set_attended(false);
    // The answer is read here alone; nothing of it is passed on.
    let (turn, side) = AgentTurn::open(Redactor::default());
    let mut asked = Asked {
        reader: Plain::new(0),
        opening: Some(opening),
        next,
        canceller: turn.canceller(),
        has_answered: false,
        output: Vec::new(),
        errors: String::new(),
        exit: Exit::Unknown,
        stop: None,
    };
    let supervised = async {
        let ended =
            supervise(&launch, guardian, &mut asked, &limits, &approvals, None, &side).await;
        side.finish(TurnResult::new(Verdict::Done)).await;
        ended
    };
    let (ended, _) = tokio::join!(supervised, turn.result());
    ended?;
    asked.answer()
}

/// The dialogue with a program that is asked.
struct Asked<'n> {
    reader: Plain,
    opening: Option<Input>,
    next: &'n mut (dyn FnMut(&str) -> Option<Input> + Send),
    canceller: Canceller,
    has_answered: bool,
    output: Vec<u8>,
    errors: String,
    exit: Exit,
    stop: Option<TerminationCause>,
}

impl Asked<'_> {
    fn answer(self) -> Result<Answer, AskError> {
        match self.stop {
            Some(TerminationCause::TimedOut) if !self.has_answered => {
                return Err(AskError::TimedOut);
            }
            Some(TerminationCause::Unreadable) => return Err(AskError::Unreadable),
            _ => {}
        }
        let code = match self.exit {
            Exit::Code(code) => Some(code),
            _ => None,
        };
        let output = String::from_utf8_lossy(&self.output).into_owned() + &self.errors;
        Ok(Answer { code, output })
    }
}

impl Dialogue for Asked<'_> {
    fn open(&mut self) -> Input {
        self.opening.take().unwrap_or_default()
    }

    fn line(&mut self, line: &[u8], _sink: &mut Sink<'_>) -> Input {
        let room = MAX_OUTPUT_BYTES - self.output.len();
        self.output.extend(line.iter().chain(b"\n").take(room));
        if self.has_answered {
            return Input::nothing();
        }
        (self.next)(&String::from_utf8_lossy(line)).unwrap_or_else(|| {
            self.has_answered = true;
            self.canceller.cancel();
            Input::last(Vec::new())
        })
    }

    fn reader(&self) -> &dyn EventReader {
        &self.reader
    }

    fn reader_mut(&mut self) -> &mut dyn EventReader {
        &mut self.reader
    }

    fn finish(&mut self, ending: &Ending<'_>, _sink: &mut Sink<'_>) -> TurnResult {
        (self.exit, self.stop) = (ending.exit, ending.stop);
        ending.stderr.clone_into(&mut self.errors);
        TurnResult::new(Verdict::Done)
    }
}
