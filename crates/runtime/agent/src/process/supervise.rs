//! Supervises one turn: reads output, applies time limits, and always ends.

mod question;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use convoke_core::Diagnostic;
use convoke_core::figures::{count, thousands};
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind};
use convoke_protocol::permission::{AnsweredBy, PermissionQuestion};
use convoke_protocol::verdict::{FailureReason, Verdict};
use convoke_redact::Redactor;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use self::question::OpenQuestion;
use super::event_budget::EventBudget;
use super::guarded_child::{ChildEnd, GuardedChild, StartError};
use super::guardian::Guardian;
use super::open_tools::OpenTools;
use super::running::RunningProgram;
use super::{Dialogue, Input, Launch, NextTurn};
use crate::approvals::Approvals;
use crate::clock::now;
use crate::diagnostics;
use crate::ending::{Ending, Exit, TerminationCause};
use crate::redaction::redact_notice;
use crate::sandbox::stopped::StoppedTools;
use crate::stream::lines::{Line, LineSplitter, MAX_VALUES};
use crate::stream::{Sink, TurnPhase, is_unconnected, reason_in_words};
use crate::turn::{TurnResult, TurnSide};
use crate::turn_input::{HeldUntil, Limits, Permissions};

/// The size of the kept tail of the error output.
const STDERR_KEPT: usize = 16 << 10;
/// The maximum size of a line of error output.
const ERROR_LINE: usize = 4 << 10;
/// The maximum number of queued events. Beyond it, the child waits for the reader.
const WAITING_EVENTS: usize = 16 << 10;
/// The maximum size of answers that the child has not read yet.
const UNREAD_BYTES: usize = 64 << 20;
/// The time limit for a process to exit after the turn.
const LINGER: Duration = Duration::from_secs(10);
/// The longest wait before a retry. If a server asks for more, the turn fails.
const MAX_WAIT: Duration = Duration::from_mins(5);
/// The time limit for a guardian to kill everything; longer than its own limit.
const END_LIMIT: Duration = Duration::from_secs(45);
/// The time limit for remaining output after all processes have ended.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// Starts a program, runs the dialogue, and returns when the program and everything that it started have ended.
/// If the turn is already cancelled, nothing is started.
pub async fn supervise(
    launch: &Launch,
    guardian: &Guardian,
    dialogue: &mut dyn Dialogue,
    limits: &Limits,
    approvals: &Approvals,
    held_until: Option<HeldUntil>,
    side: &TurnSide,
) -> Result<TurnResult, StartError> {
    if side.is_cancelled() {
        return Ok(TurnResult::new(Verdict::Withdrawn));
    }
    let lines = lines_of(dialogue, limits);
    let program = RunningProgram::start(launch, guardian, lines).await?;
    let terms = Terms { limits, approvals, held_until, stopped_by: launch.stopped_by };
    Ok(supervise_turn(program, Opening::First, dialogue, terms, side).await.result)
}

/// Returns the splitter for the output of a dialogue's program.
pub fn lines_of(dialogue: &dyn Dialogue, limits: &Limits) -> LineSplitter {
    let lines = if dialogue.reader().is_text() { LineSplitter::text } else { LineSplitter::json };
    lines(limits.line_bytes)
}

/// The terms of one turn.
pub struct Terms<'t> {
    pub limits: &'t Limits,
    pub approvals: &'t Approvals,
    pub held_until: Option<HeldUntil>,
    pub stopped_by: Option<Permissions>,
}

/// How a turn begins in the dialogue with its program.
#[derive(Debug, Clone, Copy)]
pub enum Opening<'t> {
    /// With the program.
    First,
    /// In a program that had turns before.
    Next(NextTurn<'t>),
}

/// The end of a turn.
pub struct Supervised {
    pub result: TurnResult,
    /// The program, if it rests and waits for the next turn.
    pub program: Option<RunningProgram>,
}

/// Runs one turn of a program: to the end of the program, or until it rests.
pub async fn supervise_turn(
    program: RunningProgram,
    opening: Opening<'_>,
    dialogue: &mut dyn Dialogue,
    terms: Terms<'_>,
    side: &TurnSide,
) -> Supervised {
    let Terms { limits, approvals, held_until, stopped_by } = terms;
    let RunningProgram { held, input, unread, mut stdout, mut stderr, lines, is_error_open } =
        program;
    let mut supervisor = Supervisor::new(held, dialogue, side.redactor(), *limits);
    (supervisor.input, supervisor.unread) = (input, unread);
    supervisor.known_long = lines.too_long();
    supervisor.lines = lines;
    supervisor.approvals = approvals.clone();
    supervisor.stopped_by = stopped_by;
    let (mut held_until, kept) = (held_until.clone(), held_until);
    if let Some(held_until) = &mut held_until {
        supervisor.held.allow(held_until.left()).await;
    }
    let mut out = vec![0; 64 << 10];
    let mut err = vec![0; 8 << 10];
    let mut err_open = is_error_open;

    supervisor.begin(opening);
    let mut report = None;
    while report.is_none() || supervisor.out_open {
        if report.is_none() && supervisor.is_at_rest() {
            break;
        }
        let room = supervisor.waiting.len() < WAITING_EVENTS;
        tokio::select! {
            biased;
            () = side.cancelled(), if supervisor.stop.is_none() && report.is_none() => supervisor.stop(TerminationCause::Cancelled).await,
            left = extended(&mut held_until), if report.is_none() => supervisor.held.allow(left).await,
            // A slow reader does not shorten the time for remaining output.
            () = sleep_until(supervisor.deadline), if room || report.is_none() => {
                if report.is_some() {
                    // A process escaped; its output belongs to no turn.
                    break;
                }
                report = supervisor.late().await;
            }
            // Also read while no question is open, so that an early answer is not applied to a later question.
            (question, answer) = side.answer() => {
                supervisor.person_answers(&question, answer);
            }
            () = approvals.unattended(), if !supervisor.questions.is_empty() => supervisor.abandon_questions(),
            () = side.has_room(), if !supervisor.waiting.is_empty() => {
                side.send_waiting(&mut supervisor.waiting);
                supervisor.extend_drain();
            }
            () = poll_fn(|context| supervisor.dialogue.poll_wake(context)), if room => {
                let input = supervisor.read(|dialogue, sink| dialogue.wake(sink));
                supervisor.send_input(input);
                supervisor.after_lines().await;
            }
            read = stdout.read(&mut out), if supervisor.out_open && room => {
                supervisor.output(read.map(|count| &out[..count])).await;
            }
            read = stderr.read(&mut err), if err_open => {
                err_open = supervisor.error_output(read.map(|count| &err[..count])).await;
            }
            ended = supervisor.held.ended(), if report.is_none() => {
                report = Some(ended);
                // Read the output that was written before the end.
                supervisor.stop_step = StopStep::Ended;
                supervisor.withdraw_questions();
                supervisor.extend_drain();
            }
        }
    }
    if report.is_none() && supervisor.is_at_rest() {
        let result = supervisor.close(None, side).await;
        let Supervisor { held, input, unread, lines, .. } = supervisor;
        let is_error_open = err_open;
        let program = RunningProgram { held, input, unread, stdout, stderr, lines, is_error_open };
        return Supervised { result, program: Some(program) };
    }
    let report = report.unwrap_or_else(ChildEnd::unknown);
    if let Some(held_until) = kept.filter(|_| report.is_lease_over) {
        held_until.end();
    }
    supervisor.dialogue.end_commands().await;
    supervisor.drain(&mut stderr, &mut err).await;
    Supervised { result: supervisor.close(Some(report), side).await, program: None }
}

/// Waits until the time is extended, and returns the remaining time. Waits forever without one.
pub(super) async fn extended(held_until: &mut Option<HeldUntil>) -> Duration {
    if let Some(held) = held_until
        && let Some(left) = held.extended().await
    {
        return left;
    }
    // The session was released or lost, so no extension follows.
    *held_until = None;
    std::future::pending().await
}

/// Returns the instant after a duration, far in the future if it overflows.
fn in_time(time: Duration) -> Instant {
    const MAX_TIMEOUT: Duration = Duration::from_hours(24 * 365);
    Instant::now() + time.min(MAX_TIMEOUT)
}

/// The steps of stopping an agent: ask, interrupt, kill. An agent that stays after its turn is terminated, then
/// killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopStep {
    Running,
    Leaving,
    Terminated,
    Asked,
    Interrupted,
    Killed,
    Ended,
}

struct Supervisor<'d> {
    held: GuardedChild,
    input: Option<mpsc::UnboundedSender<Input>>,
    /// The number of bytes written to the child that it has not read.
    unread: Arc<AtomicUsize>,
    dialogue: &'d mut dyn Dialogue,
    redactor: &'d Redactor,
    limits: Limits,
    approvals: Approvals,
    /// The questions that the dialogue has just read.
    asked: Vec<PermissionQuestion>,
    /// The questions that the agent has withdrawn.
    withdrawn: Vec<String>,
    /// The questions that wait for a person.
    questions: Vec<OpenQuestion>,
    lines: LineSplitter,
    /// The lines over a limit of earlier turns.
    known_long: u64,
    error_lines: LineSplitter,
    tools: OpenTools,
    stopped: StoppedTools,
    stopped_by: Option<Permissions>,
    events: EventBudget,
    waiting: VecDeque<AgentEvent<'static>>,
    stderr: VecDeque<u8>,
    bytes: u64,
    turn_end: Instant,
    deadline: Instant,
    /// The deadline for background tasks after the reply.
    answered: Option<Instant>,
    out_open: bool,
    stop_step: StopStep,
    stop: Option<TerminationCause>,
    /// Whether the program stayed after its turn, or after closing its output, and was terminated.
    is_dismissed: bool,
    /// The first error of reading its output.
    unreadable: Option<Diagnostic>,
}

impl<'d> Supervisor<'d> {
    fn new(
        held: GuardedChild,
        dialogue: &'d mut dyn Dialogue,
        redactor: &'d Redactor,
        limits: Limits,
    ) -> Self {
        let turn_end = in_time(limits.turn);
        Self {
            held,
            input: None,
            unread: Arc::default(),
            dialogue,
            redactor,
            limits,
            approvals: Approvals::default(),
            asked: Vec::new(),
            withdrawn: Vec::new(),
            questions: Vec::new(),
            lines: LineSplitter::text(0),
            known_long: 0,
            error_lines: LineSplitter::json(ERROR_LINE),
            tools: OpenTools::default(),
            stopped: StoppedTools::default(),
            stopped_by: None,
            events: EventBudget::new(&limits),
            waiting: VecDeque::new(),
            stderr: VecDeque::new(),
            bytes: 0,
            turn_end,
            deadline: turn_end.min(in_time(limits.silence)),
            answered: None,
            out_open: true,
            stop_step: StopStep::Running,
            stop: None,
            is_dismissed: false,
            unreadable: None,
        }
    }

    /// Writes the first input of the turn.
    fn begin(&mut self, opening: Opening<'_>) {
        let input = match opening {
            Opening::First => self.dialogue.open(),
            Opening::Next(turn) => self.read(|dialogue, sink| dialogue.next_turn(turn, sink)),
        };
        self.send_input(input);
        self.reset_deadline();
    }

    /// Returns whether the turn is over and the program waits for the next one.
    fn is_at_rest(&self) -> bool {
        let is_untouched = self.stop.is_none() && self.stop_step == StopStep::Running;
        let is_quiet = self.questions.is_empty() && self.out_open && self.input.is_some();
        is_untouched && is_quiet && self.dialogue.is_at_rest()
    }

    fn send_input(&mut self, input: Input) {
        let last = input.last;
        if !input.bytes.is_empty() || last {
            let unread = self.unread.fetch_add(input.bytes.len(), Ordering::Relaxed);
            if unread > UNREAD_BYTES {
                self.stop.get_or_insert(TerminationCause::OutputLimit);
            } else {
                // A child that has closed its input is noticed elsewhere.
                let _ = self.input.as_ref().map(|sender| sender.send(input));
            }
        }
        if last {
            self.input = None;
        }
    }

    /// Reads a chunk of output; an empty chunk is the end. What follows an error cannot be read, so the turn fails.
    async fn output(&mut self, read: io::Result<&[u8]>) {
        let chunk = match read {
            Ok(chunk) => chunk,
            Err(error) => {
                self.unreadable.get_or_insert(unreadable("output", &error));
                if self.stop_step != StopStep::Ended {
                    self.kill().await;
                }
                self.stop.get_or_insert(TerminationCause::Unreadable);
                &[]
            }
        };
        // The end of the output is handled even over the limit.
        if self.count(chunk.len()).await && !chunk.is_empty() {
            return;
        }
        let mut lines = std::mem::replace(&mut self.lines, LineSplitter::text(0));
        if chunk.is_empty() {
            lines.finish(|line| self.line(line));
        } else {
            lines.push(chunk, |line| self.line(line));
        }
        self.lines = lines;
        self.after_lines().await;
        if chunk.is_empty() {
            // The child has closed its output.
            self.out_open = false;
            self.wait_for_exit();
        }
    }

    fn line(&mut self, line: Line<'_>) {
        if self.stop == Some(TerminationCause::OutputLimit) {
            return;
        }
        self.dialogue.reader_mut().line_lacks(line.left_out);
        let input = self.read(|dialogue, sink| dialogue.line(line.bytes, sink));
        self.send_input(input);
    }

    /// Passes output to the dialogue, and queues its events.
    fn read<R>(&mut self, read: impl FnOnce(&mut dyn Dialogue, &mut Sink<'_>) -> R) -> R {
        let retries = u64::from(self.limits.retries);
        let left = self.turn_end.saturating_duration_since(Instant::now());
        read(self.dialogue, &mut |mut event| {
            if let (Some(_), AgentEventKind::ToolFinished { output, .. }) =
                (self.stopped_by, &event.kind)
            {
                self.stopped.look_at(output);
            }
            if !self.tools.note(&event) {
                return;
            }
            match &mut event.kind {
                AgentEventKind::PermissionAsked { question, expires_at } => {
                    let wait = i64::try_from(self.limits.ask.as_millis()).unwrap_or(i64::MAX);
                    question.shorten();
                    self.approvals.simplify(question);
                    let decided = self.approvals.decide(question);
                    if let Some((_, AnsweredBy::Sandbox)) = decided {
                        // The diff may show a file that the agent cannot read.
                        question.diff = None;
                    }
                    self.asked.push(question.clone());
                    // A question that is answered without a person does not expire.
                    *expires_at = if decided.is_some() { 0 } else { now().0.saturating_add(wait) };
                }
                AgentEventKind::PermissionAnswered { id, .. } => self.withdrawn.push(id.clone()),
                _ => {}
            }
            let cause = hopeless_retry(&event.kind, retries, left.min(MAX_WAIT));
            self.stop = self.stop.or(cause);
            if let Some(event) = self.events.admit(event) {
                self.waiting.push_back(redact_notice(event.into_owned(), self.redactor));
            }
        })
    }

    async fn after_lines(&mut self) {
        self.take_questions();
        match (self.stop_step, self.stop) {
            (StopStep::Running, Some(TerminationCause::OutputLimit)) => self.kill().await,
            (StopStep::Running, Some(stop)) => self.stop(stop).await,
            (StopStep::Running, None) => self.reset_deadline(),
            // The program has started another turn instead of exiting.
            (StopStep::Leaving, None)
                if self.dialogue.reader().phase() == TurnPhase::Running && self.out_open =>
            {
                self.stop_step = StopStep::Running;
                self.reset_deadline();
            }
            _ => self.extend_drain(),
        }
    }

    /// Resets the deadline for output.
    fn reset_deadline(&mut self) {
        let silence = self.turn_end.min(in_time(self.limits.silence));
        // An agent that waits for a person is silent, so its time limits are suspended.
        if let Some(expires) = self.questions.iter().map(|open| open.expires).min() {
            self.deadline = expires;
            return;
        }
        match self.dialogue.reader().phase() {
            TurnPhase::Running => {
                self.answered = None;
                self.deadline = match self.dialogue.silence_limit() {
                    Some(silence_limit) => silence.min(in_time(silence_limit)),
                    None => silence,
                };
            }
            TurnPhase::Answered => {
                let background = self.limits.background;
                let end = *self.answered.get_or_insert_with(|| in_time(background));
                self.deadline = silence.min(end);
            }
            TurnPhase::Over => self.wait_for_exit(),
        }
    }

    /// Terminates the background tasks of an agent that has replied.
    fn dismiss(&mut self) {
        let input = self.read(|dialogue, sink| dialogue.dismiss(sink));
        self.send_input(input);
        self.wait_for_exit();
    }

    /// Extends the deadline for remaining output.
    fn extend_drain(&mut self) {
        if self.stop_step == StopStep::Ended {
            self.deadline = in_time(DRAIN_LIMIT);
        }
    }

    /// Waits for the process to exit by itself.
    fn wait_for_exit(&mut self) {
        if self.stop_step == StopStep::Running && !self.is_at_rest() {
            self.stop_step = StopStep::Leaving;
            self.input = None;
            let usual = LINGER.max(self.limits.grace);
            self.deadline = in_time(self.dialogue.exit_limit().unwrap_or(usual));
        }
    }

    /// Reads a chunk of error output, and returns whether more may follow.
    async fn error_output(&mut self, read: io::Result<&[u8]>) -> bool {
        let chunk = match read {
            Ok(chunk) => chunk,
            Err(error) => {
                self.unreadable.get_or_insert(unreadable("error output", &error));
                return false;
            }
        };
        let mut lines = std::mem::replace(&mut self.error_lines, LineSplitter::text(0));
        lines.push(chunk, |line| {
            let line = String::from_utf8_lossy(line.bytes);
            self.read(|dialogue, sink| dialogue.error_line(&line, sink));
        });
        self.error_lines = lines;
        if self.stop.is_some() {
            self.after_lines().await;
        }
        self.stderr.extend(chunk);
        let over = self.stderr.len().saturating_sub(STDERR_KEPT);
        self.stderr.drain(..over);
        self.count(chunk.len()).await;
        !chunk.is_empty()
    }

    /// Counts output and returns whether it exceeds the limit.
    async fn count(&mut self, bytes: usize) -> bool {
        self.bytes += bytes as u64;
        let flooded = self.bytes > self.limits.output_bytes;
        if flooded && self.stop_step != StopStep::Killed {
            self.stop.get_or_insert(TerminationCause::OutputLimit);
            self.kill().await;
        }
        flooded
    }

    /// Starts to stop the turn: asks the agent, if possible.
    async fn stop(&mut self, stop: TerminationCause) {
        self.stop = Some(stop);
        self.withdraw_questions();
        match self.dialogue.interrupt() {
            Some(input) if self.input.is_some() => {
                self.send_input(input);
                self.stop_step = StopStep::Asked;
                self.deadline = in_time(self.limits.grace);
            }
            _ => self.interrupt().await,
        }
    }

    /// Terminates a program that stays after its turn.
    async fn terminate(&mut self) {
        self.is_dismissed = true;
        self.held.terminate().await;
        self.stop_step = StopStep::Terminated;
        self.deadline = in_time(self.limits.grace);
    }

    async fn interrupt(&mut self) {
        self.held.interrupt().await;
        self.stop_step = StopStep::Interrupted;
        self.deadline = in_time(self.limits.grace);
    }

    async fn kill(&mut self) {
        self.held.kill().await;
        self.stop_step = StopStep::Killed;
        self.input = None;
        self.deadline = in_time(END_LIMIT);
    }

    /// Handles a deadline that has passed.
    async fn late(&mut self) -> Option<ChildEnd> {
        match self.stop_step {
            StopStep::Running if !self.questions.is_empty() => self.expire_questions(),
            StopStep::Running if self.dialogue.reader().phase() == TurnPhase::Answered => {
                self.dismiss();
            }
            StopStep::Running => match self.dialogue.on_silence() {
                Some(input) if Instant::now() < self.turn_end => {
                    self.send_input(input);
                    self.reset_deadline();
                }
                _ => self.stop(TerminationCause::TimedOut).await,
            },
            StopStep::Asked => self.interrupt().await,
            StopStep::Leaving => self.terminate().await,
            StopStep::Terminated | StopStep::Interrupted => self.kill().await,
            // The guardian does not respond; closing the socket is the last resort.
            StopStep::Killed | StopStep::Ended => {
                return Some(ChildEnd::unknown());
            }
        }
        None
    }

    /// Reads the rest of the error output after all processes have ended.
    async fn drain(&mut self, stderr: &mut (impl AsyncRead + Unpin), buffer: &mut [u8]) {
        let end = in_time(Duration::from_secs(1));
        while let Ok(read) = tokio::time::timeout_at(end, stderr.read(buffer)).await {
            if !self.error_output(read.map(|count| &buffer[..count])).await {
                break;
            }
        }
    }

    /// Ends the turn; without a report, the program rests.
    async fn close(&mut self, report: Option<ChildEnd>, side: &TurnSide) -> TurnResult {
        // Also those of the output that was read after the end.
        self.withdraw_questions();
        let mut bytes: Vec<u8> = std::mem::take(&mut self.stderr).into();
        if let Some(problem) = report.as_ref().and_then(|report| report.problem.as_ref()) {
            bytes.extend_from_slice(problem.as_bytes());
        }
        let stderr = String::from_utf8_lossy(&bytes).into_owned();
        let stderr = self.redactor.redact(&stderr).into_owned();
        let left = report.as_ref().map_or(0, |report| report.left);
        let exit = match report {
            Some(_) if self.is_dismissed => Exit::Dismissed,
            Some(report) => report.exit,
            None => Exit::Resting,
        };
        let ending = Ending { exit, stop: self.stop, stderr: &stderr };
        let mut result = self.read(|dialogue, sink| dialogue.finish(&ending, sink));
        self.waiting.extend(self.tools.end());
        let mut notes: Vec<Diagnostic> = self.unreadable.take().into_iter().collect();
        if let Some(permissions) = self.stopped_by {
            if self.dialogue.reader().is_text() {
                // The program writes no events.
                self.stopped.look_at(&stderr);
            }
            notes.extend(self.stopped.diagnostic(permissions));
        }
        if left > 0 {
            let message = format!("terminated processes that the agent left running: {left}");
            notes
                .push(Diagnostic::new(diagnostics::AGENT_PROCESSES_LEFT, message).with_count(left));
        }
        let too_long = self.lines.too_long() - self.known_long;
        if too_long > 0 {
            let message = format!(
                "{} over {} bytes or {} values: shortened",
                count(too_long, "line"),
                thousands(self.limits.line_bytes as u64),
                thousands(MAX_VALUES as u64)
            );
            notes.push(
                Diagnostic::new(diagnostics::AGENT_LINE_TOO_LONG, message).with_count(too_long),
            );
        }
        if self.events.left_out() > 0 {
            let bytes = self.events.left_out();
            let message =
                format!("{} bytes of text were left out of the turn's events", thousands(bytes));
            notes.push(
                Diagnostic::new(diagnostics::AGENT_EVENTS_TRUNCATED, message).with_bytes(bytes),
            );
        }
        for note in notes {
            let event = AgentEvent::own(AgentEventKind::Warning(note.clone()));
            self.waiting.push_back(redact_notice(event, self.redactor));
            result.diagnostics.push(note);
        }
        for event in std::mem::take(&mut self.waiting) {
            side.send(event).await;
        }
        result
    }
}

/// Returns the diagnostic for output that cannot be read.
fn unreadable(what: &str, error: &io::Error) -> Diagnostic {
    let message = format!("the {what} of the program could not be read to its end: {error}");
    Diagnostic::new(diagnostics::AGENT_OUTPUT_UNREADABLE, message)
}

/// Returns the reason to stop a turn whose agent is about to retry a request, if retrying is pointless.
fn hopeless_retry(
    event: &AgentEventKind<'_>,
    retries: u64,
    longest_wait: Duration,
) -> Option<TerminationCause> {
    let AgentEventKind::Retry { attempt, status, reason, wait, .. } = event else {
        return None;
    };
    let known = status.map(FailureReason::from_status);
    let why = known.or_else(|| reason_in_words(reason));
    let wait = wait.unwrap_or_default();
    match (known, *status) {
        _ if wait > longest_wait => {
            Some(TerminationCause::RetryTooLate(why.unwrap_or(FailureReason::RateLimit), wait))
        }
        // The first refusal may be due to an expired token, which the agent renews.
        (Some(why), Some(status)) if *attempt > 1 && why.is_final() => {
            Some(TerminationCause::PermanentError(status))
        }
        // Not every agent has a setting for retries.
        _ if *attempt > retries => {
            let why = match why.unwrap_or(FailureReason::Network) {
                FailureReason::Network if is_unconnected(reason) => FailureReason::Unreachable,
                why => why,
            };
            Some(TerminationCause::RetryLimit(why))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_that_comes_too_late_or_too_often_ends_the_turn() {
        let retry = |attempt, status, wait| {
            let reason = "the server is busy".into();
            let event = AgentEventKind::Retry { attempt, max: None, status, wait, reason };
            hopeless_retry(&event, 3, MAX_WAIT)
        };
        assert_eq!(retry(1, Some(429), Some(Duration::from_secs(1))), None);
        let hour = retry(1, Some(429), Some(Duration::from_hours(1)));
        let wait = Duration::from_hours(1);
        assert_eq!(hour, Some(TerminationCause::RetryTooLate(FailureReason::RateLimit, wait)));
        assert_eq!(retry(3, Some(500), None), None);
        let often = Some(TerminationCause::RetryLimit(FailureReason::Server));
        assert_eq!(retry(4, Some(500), None), often);
    }
}
