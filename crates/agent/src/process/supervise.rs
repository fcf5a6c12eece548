//! The supervision of one turn: reads output, applies time limits, and always ends.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use convoke_core::Diagnostic;
use convoke_core::figures::{count, thousands};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::event_budget::EventBudget;
use super::guarded_child::{ChildEnd, GuardedChild, Pipes, StartError};
use super::guardian::Guardian;
use super::open_tools::OpenTools;
use super::{Decision, Dialogue, Input, Launch};
use convoke_redact::Redactor;

use crate::diagnostics;
use crate::event::{Event, EventKind};
use crate::id::now;
use crate::permission::{AnsweredBy, Approvals, PermissionAnswer, PermissionQuestion};
use crate::redaction::redact_notice;
use crate::stream::lines::{Line, Lines, MAX_VALUES};
use crate::stream::{Sink, TurnPhase, is_unconnected, reason_in_words};
use crate::turn::{TurnResult, TurnSide};
use crate::turn_input::{Lease, Limits};
use crate::verdict::{Ending, Exit, FailureReason, TerminationCause, Verdict};

/// The size of the tail of the error output that is kept.
const STDERR_KEPT: usize = 16 << 10;
/// The maximum size of a line of error output.
const ERROR_LINE: usize = 4 << 10;
/// The maximum number of queued events; beyond it the child waits for the reader.
const WAITING_EVENTS: usize = 16 << 10;
/// The maximum size of the answers that a child has asked for and not read.
const UNREAD_BYTES: usize = 64 << 20;
/// The time for a process to exit after the end of the turn.
const LINGER: Duration = Duration::from_secs(10);
/// The longest wait before a retry. The turn fails if a server asks for more.
const LONGEST_WAIT: Duration = Duration::from_mins(5);
/// The time limit for a guardian to kill everything; longer than its own limit.
const END_LIMIT: Duration = Duration::from_secs(45);
/// The time limit for remaining output after all processes have ended.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// Starts a program, runs the dialogue, and returns when it and all that it started have ended. Nothing is started for a
/// turn that is cancelled already.
pub async fn supervise(
    launch: &Launch,
    guardian: &Guardian,
    dialogue: &mut dyn Dialogue,
    limits: &Limits,
    approvals: &Approvals,
    lease: Option<Lease>,
    side: &TurnSide,
) -> Result<TurnResult, StartError> {
    if side.is_cancelled() {
        return Ok(TurnResult::new(Verdict::Withdrawn));
    }
    let (held, pipes) = GuardedChild::start(launch, guardian).await?;
    let Pipes { stdin, mut stdout, mut stderr } = pipes;
    let mut watch = Watch::new(held, stdin, dialogue, side.redactor(), *limits);
    watch.approvals = approvals.clone();
    let (mut lease, held_lease) = (lease.clone(), lease);
    if let Some(lease) = &mut lease {
        watch.held.allow(lease.left()).await;
    }
    let mut out = vec![0; 64 << 10];
    let mut err = vec![0; 8 << 10];
    let mut err_open = true;

    let opening = watch.dialogue.open();
    watch.say(opening);
    watch.go_on();
    let mut report = None;
    while report.is_none() || watch.out_open {
        let room = watch.waiting.len() < WAITING_EVENTS;
        tokio::select! {
            biased;
            () = side.cancelled(), if watch.stop.is_none() && report.is_none() => watch.stop(TerminationCause::Cancelled).await,
            left = extended(&mut lease), if report.is_none() => watch.held.allow(left).await,
            // A slow reader does not shorten the time for remaining output.
            () = sleep_until(watch.deadline), if room || report.is_none() => {
                if report.is_some() {
                    // A process escaped; its output belongs to no turn.
                    break;
                }
                report = watch.late().await;
            }
            // Taken before any question too, so that an answer in advance is not one to a later question.
            (question, answer) = side.answer() => {
                watch.person_answers(&question, answer);
            }
            () = approvals.unattended(), if !watch.questions.is_empty() => watch.abandon_questions(),
            () = side.has_room(), if !watch.waiting.is_empty() => {
                side.send_waiting(&mut watch.waiting);
                watch.listen_on();
            }
            () = poll_fn(|context| watch.dialogue.poll_wake(context)), if room => {
                let input = watch.read(|dialogue, sink| dialogue.wake(sink));
                watch.say(input);
                watch.after_lines().await;
            }
            count = read(&mut stdout, &mut out), if watch.out_open && room => {
                watch.output(&out[..count]).await;
            }
            count = read(&mut stderr, &mut err), if err_open => {
                err_open = count > 0;
                watch.error_output(&err[..count]).await;
            }
            ended = watch.held.ended(), if report.is_none() => {
                report = Some(ended);
                // Read the output that was written before the end.
                watch.stop_step = StopStep::Ended;
                watch.listen_on();
            }
        }
    }
    let report = report.unwrap_or_else(ChildEnd::unknown);
    if let Some(lease) = held_lease.filter(|_| report.is_lease_over) {
        lease.end();
    }
    watch.dialogue.end_commands().await;
    watch.drain(&mut stderr, &mut err).await;
    Ok(watch.close(report, side).await)
}

/// Waits until a lease is extended, and returns the time that is left; for ever without one.
async fn extended(lease: &mut Option<Lease>) -> Duration {
    if let Some(held) = lease
        && let Some(left) = held.extended().await
    {
        return left;
    }
    // The lease was released or lost: no extension follows.
    *lease = None;
    std::future::pending().await
}

/// Reads bytes; zero means the end or an error.
async fn read(pipe: &mut (impl AsyncRead + Unpin), buffer: &mut [u8]) -> usize {
    pipe.read(buffer).await.unwrap_or(0)
}

/// Returns the instant after a duration, far in the future if it overflows.
fn in_time(time: Duration) -> Instant {
    const LONGEST: Duration = Duration::from_hours(24 * 365);
    Instant::now() + time.min(LONGEST)
}

/// The steps of stopping an agent: ask, interrupt, kill. One that stays after its turn is terminated, then killed.
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

struct Watch<'d> {
    held: GuardedChild,
    input: Option<mpsc::UnboundedSender<Input>>,
    /// The bytes that were written to the child and that it has not read.
    unread: Arc<AtomicUsize>,
    dialogue: &'d mut dyn Dialogue,
    redactor: &'d Redactor,
    limits: Limits,
    approvals: Approvals,
    /// Questions that the dialogue has just read.
    asked: Vec<PermissionQuestion>,
    /// Questions that the agent has withdrawn.
    withdrawn: Vec<String>,
    /// Questions that wait for a person.
    questions: Vec<OpenQuestion>,
    lines: Lines,
    error_lines: Lines,
    tools: OpenTools,
    events: EventBudget,
    waiting: VecDeque<Event<'static>>,
    stderr: VecDeque<u8>,
    bytes: u64,
    turn_end: Instant,
    deadline: Instant,
    /// The deadline for background tasks after the reply.
    answered: Option<Instant>,
    out_open: bool,
    stop_step: StopStep,
    stop: Option<TerminationCause>,
    /// Whether the program stayed after its turn, or after it had closed its output, and was ended.
    is_dismissed: bool,
}

impl<'d> Watch<'d> {
    fn new(
        held: GuardedChild,
        stdin: ChildStdin,
        dialogue: &'d mut dyn Dialogue,
        redactor: &'d Redactor,
        limits: Limits,
    ) -> Self {
        // `say` bounds it by bytes: a dialogue does not wait, and one input may be larger than many.
        let (input, inputs) = mpsc::unbounded_channel();
        let unread = Arc::new(AtomicUsize::new(0));
        // A separate task, so that a child that does not read cannot block reading from it.
        tokio::spawn(feed(stdin, inputs, unread.clone()));
        let turn_end = in_time(limits.turn);
        let lines = if dialogue.reader().is_text() { Lines::text } else { Lines::json };
        let lines = lines(limits.line_bytes);
        Self {
            held,
            input: Some(input),
            unread,
            dialogue,
            redactor,
            limits,
            approvals: Approvals::default(),
            asked: Vec::new(),
            withdrawn: Vec::new(),
            questions: Vec::new(),
            lines,
            error_lines: Lines::json(ERROR_LINE),
            tools: OpenTools::default(),
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
        }
    }

    fn say(&mut self, input: Input) {
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

    /// Reads a chunk of output; an empty one is its end.
    async fn output(&mut self, chunk: &[u8]) {
        // The end of the output is handled even over the limit.
        if self.count(chunk.len()).await && !chunk.is_empty() {
            return;
        }
        let mut lines = std::mem::replace(&mut self.lines, Lines::text(0));
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
            self.leave();
        }
    }

    fn line(&mut self, line: Line<'_>) {
        if self.stop == Some(TerminationCause::OutputLimit) {
            return;
        }
        self.dialogue.reader_mut().line_lacks(line.left_out);
        let input = self.read(|dialogue, sink| dialogue.line(line.bytes, sink));
        self.say(input);
    }

    /// Passes output to the dialogue, and queues its events.
    fn read<R>(&mut self, read: impl FnOnce(&mut dyn Dialogue, &mut Sink<'_>) -> R) -> R {
        let retries = u64::from(self.limits.retries);
        let left = self.turn_end.saturating_duration_since(Instant::now());
        read(self.dialogue, &mut |mut event| {
            if !self.tools.note(&event) {
                return;
            }
            match &mut event.kind {
                EventKind::PermissionAsked { question, expires_at } => {
                    let wait = i64::try_from(self.limits.ask.as_millis()).unwrap_or(i64::MAX);
                    question.shorten();
                    self.approvals.simplify(question);
                    let decided = self.approvals.decide(question);
                    if let Some((_, AnsweredBy::Sandbox)) = decided {
                        // It may show a file that the agent cannot read.
                        question.diff = None;
                    }
                    self.asked.push(question.clone());
                    // A question that is answered without a person never expires.
                    *expires_at = if decided.is_some() { 0 } else { now().0.saturating_add(wait) };
                }
                EventKind::PermissionAnswered { id, .. } => self.withdrawn.push(id.clone()),
                _ => {}
            }
            let cause = hopeless_retry(&event.kind, retries, left.min(LONGEST_WAIT));
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
            (StopStep::Running, None) => self.go_on(),
            // The program has started another turn instead of exiting.
            (StopStep::Leaving, None)
                if self.dialogue.reader().phase() == TurnPhase::Running && self.out_open =>
            {
                self.stop_step = StopStep::Running;
                self.go_on();
            }
            _ => self.listen_on(),
        }
    }

    /// Resets the deadline for output.
    fn go_on(&mut self) {
        let silence = self.turn_end.min(in_time(self.limits.silence));
        // An agent that waits for a person is silent, and its time limits are suspended.
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
            TurnPhase::Over => self.leave(),
        }
    }

    /// Terminates the background tasks of an agent that has replied.
    fn dismiss(&mut self) {
        let input = self.read(|dialogue, sink| dialogue.dismiss(sink));
        self.say(input);
        self.leave();
    }

    /// Extends the deadline for remaining output.
    fn listen_on(&mut self) {
        if self.stop_step == StopStep::Ended {
            self.deadline = in_time(DRAIN_LIMIT);
        }
    }

    /// Waits for the process to exit by itself.
    fn leave(&mut self) {
        if self.stop_step == StopStep::Running {
            self.stop_step = StopStep::Leaving;
            self.input = None;
            let usual = LINGER.max(self.limits.grace);
            self.deadline = in_time(self.dialogue.exit_limit().unwrap_or(usual));
        }
    }

    async fn error_output(&mut self, chunk: &[u8]) {
        let mut lines = std::mem::replace(&mut self.error_lines, Lines::text(0));
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
        for open in std::mem::take(&mut self.questions) {
            self.answer(&open.question, PermissionAnswer::Never, AnsweredBy::Withdrawn);
        }
        match self.dialogue.interrupt() {
            Some(input) if self.input.is_some() => {
                self.say(input);
                self.stop_step = StopStep::Asked;
                self.deadline = in_time(self.limits.grace);
            }
            _ => self.interrupt().await,
        }
    }

    /// Ends a program that stays after its turn.
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
                    self.say(input);
                    self.go_on();
                }
                _ => self.stop(TerminationCause::TimedOut).await,
            },
            StopStep::Asked => self.interrupt().await,
            StopStep::Leaving => self.terminate().await,
            StopStep::Terminated | StopStep::Interrupted => self.kill().await,
            // The guardian does not answer; closing the socket is the last resort.
            StopStep::Killed | StopStep::Ended => {
                return Some(ChildEnd::unknown());
            }
        }
        None
    }

    /// Reads the rest of the error output after all processes have ended.
    async fn drain(&mut self, stderr: &mut (impl AsyncRead + Unpin), buffer: &mut [u8]) {
        let end = in_time(Duration::from_secs(1));
        while let Ok(count @ 1..) = tokio::time::timeout_at(end, read(stderr, buffer)).await {
            self.error_output(&buffer[..count]).await;
        }
    }

    async fn close(mut self, report: ChildEnd, side: &TurnSide) -> TurnResult {
        let mut bytes: Vec<u8> = std::mem::take(&mut self.stderr).into();
        if let Some(problem) = &report.problem {
            bytes.extend_from_slice(problem.as_bytes());
        }
        let stderr = String::from_utf8_lossy(&bytes).into_owned();
        let stderr = self.redactor.redact(&stderr).into_owned();
        let exit = if self.is_dismissed { Exit::Dismissed } else { report.exit };
        let ending = Ending { exit, stop: self.stop, stderr: &stderr };
        let mut result = self.read(|dialogue, sink| dialogue.finish(&ending, sink));
        self.waiting.extend(self.tools.end());
        let mut notes = Vec::new();
        if report.left > 0 {
            let message =
                format!("terminated processes that the agent left running: {}", report.left);
            notes.push(
                Diagnostic::new(diagnostics::AGENT_PROCESSES_LEFT, message).with_count(report.left),
            );
        }
        if self.lines.too_long() > 0 {
            let message = format!(
                "{} over {} bytes or {} values: shortened",
                count(self.lines.too_long(), "line"),
                thousands(self.limits.line_bytes as u64),
                thousands(MAX_VALUES as u64)
            );
            notes.push(
                Diagnostic::new(diagnostics::AGENT_LINE_TOO_LONG, message)
                    .with_count(self.lines.too_long()),
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
            self.waiting.push_back(Event::own(EventKind::Warning(note.clone())));
            result.diagnostics.push(note);
        }
        for event in self.waiting {
            side.send(event).await;
        }
        result
    }
}

/// A question that waits for a person.
struct OpenQuestion {
    question: PermissionQuestion,
    asked: Instant,
    expires: Instant,
}

impl Watch<'_> {
    /// Answers new questions that need no person, and queues the others.
    fn take_questions(&mut self) {
        for id in std::mem::take(&mut self.withdrawn) {
            self.close_question(&id);
        }
        for question in std::mem::take(&mut self.asked) {
            if let Some((answer, by)) = self.approvals.decide(&question) {
                self.answer(&question, answer, by);
            } else {
                let (asked, expires) = (Instant::now(), in_time(self.limits.ask));
                self.questions.push(OpenQuestion { question, asked, expires });
            }
        }
    }

    fn person_answers(&mut self, id: &str, answer: PermissionAnswer) {
        if let Some(question) = self.close_question(id) {
            self.approvals.remember(&question, answer);
            self.answer(&question, answer, AnsweredBy::Person);
            self.go_on();
        }
    }

    /// Refuses the questions that no person can answer.
    fn abandon_questions(&mut self) {
        for open in std::mem::take(&mut self.questions) {
            self.turn_end += open.asked.elapsed();
            self.answer(&open.question, PermissionAnswer::Never, AnsweredBy::Nobody);
        }
        self.go_on();
    }

    /// Refuses the questions whose time is over.
    fn expire_questions(&mut self) {
        let now = Instant::now();
        let open = std::mem::take(&mut self.questions).into_iter();
        let (late, waiting) = open.partition(|open| open.expires <= now);
        self.questions = waiting;
        let late: Vec<OpenQuestion> = late;
        for open in late {
            self.turn_end += open.asked.elapsed();
            self.answer(&open.question, PermissionAnswer::Never, AnsweredBy::Timeout);
        }
        self.go_on();
    }

    /// Removes a question, and extends the time limits that it suspended.
    fn close_question(&mut self, id: &str) -> Option<PermissionQuestion> {
        let at = self.questions.iter().position(|open| open.question.id == id)?;
        let open = self.questions.remove(at);
        self.turn_end += open.asked.elapsed();
        Some(open.question)
    }

    fn answer(&mut self, question: &PermissionQuestion, answer: PermissionAnswer, by: AnsweredBy) {
        let decision = match by {
            AnsweredBy::Withdrawn => Decision::Withdrawn,
            _ if answer.allows() => Decision::Allowed,
            _ => Decision::Refused,
        };
        let kind = EventKind::PermissionAnswered { id: question.id.clone(), answer, by };
        self.waiting.push_back(Event::own(kind));
        let input = self.read(|dialogue, sink| dialogue.answer(&question.id, decision, sink));
        self.say(input);
    }
}

/// Returns the reason to stop a turn whose agent is about to retry a request.
fn hopeless_retry(
    event: &EventKind<'_>,
    retries: u64,
    longest_wait: Duration,
) -> Option<TerminationCause> {
    let EventKind::Retry { attempt, status, reason, wait, .. } = event else {
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

/// Writes inputs in order, until the child closes its input or there are no more.
async fn feed(
    mut stdin: ChildStdin,
    mut inputs: mpsc::UnboundedReceiver<Input>,
    unread: Arc<AtomicUsize>,
) {
    while let Some(input) = inputs.recv().await {
        unread.fetch_sub(input.bytes.len(), Ordering::Relaxed);
        if stdin.write_all(&input.bytes).await.is_err() || input.last {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_that_comes_too_late_or_too_often_ends_the_turn() {
        let retry = |attempt, status, wait| {
            let reason = "the server is busy".into();
            let event = EventKind::Retry { attempt, max: None, status, wait, reason };
            hopeless_retry(&event, 3, LONGEST_WAIT)
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
