//! The terminal output of a run: headings, streamed replies, and a live status line for the running agent.

mod questions;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use convoke_agent::diagnostics::SANDBOX_PARTIAL;
use convoke_core::marker::Intent;
use convoke_core::{Diagnostic, Severity};
use convoke_inspect::diagnostics::RELAY_HOST_REFUSED;
use convoke_protocol::agent_event::{AgentEventKind, Received, TextPart};
use convoke_protocol::changes::{ChangeCounts, ChangedBy};
use convoke_protocol::event::EventKind;
use convoke_protocol::event::waits_for;
use convoke_protocol::id::{MemberName, MessageNumber, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::turn::{AttemptResult, TurnState};
use convoke_protocol::view::{QueuedTurn, RequestFigures};
use unicode_width::UnicodeWidthChar as _;

use self::questions::AskedQuestion;
use super::text::FlowingText;
use crate::figures::{count, dollars, number, seconds};
use crate::requests::{retry, sent, tokens};
use crate::terminal::{Paint, clear_line, printable};

/// The layout of the output.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) paint: Paint,
    /// The width of the terminal; `None` for a file, which gets no live line.
    pub(super) columns: Option<usize>,
    /// Whether several agents may run at once: then each reply is shown when it is complete.
    pub(super) parallel: bool,
    /// The form of quiet output; `None` for normal output.
    pub(super) quiet: Option<Quiet>,
}

/// The form of replies in quiet output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quiet {
    /// The text alone: there is one agent.
    Text,
    /// The text after the name of its author.
    Named,
}

/// Writes the output of a run.
pub(super) struct View<W> {
    out: W,
    layout: Layout,
    at_work: Vec<RunningAgent>,
    queue: Vec<QueuedTurn>,
    live: bool,
    /// The turns queued by the newest message, until the end of its turn is shown.
    called: Vec<QueuedTurn>,
    speakers: HashMap<MessageNumber, MemberName>,
    /// The messages about sandboxes and refused hosts that were shown.
    partial: HashSet<String>,
    /// The turn that the last heading is about.
    headed: Option<TurnId>,
    /// The open questions, of which the first is shown. Its answer is typed in place of the live line.
    questions: VecDeque<AskedQuestion>,
    has_line_after_prompt: bool,
}

/// A running agent.
struct RunningAgent {
    turn: TurnId,
    member: MemberName,
    since: Instant,
    events: u64,
    tokens: Option<u64>,
    /// The requests that Convoke sent for it.
    requests: RequestFigures,
    /// The summary of the requests that its program sent to its model.
    received: Option<Received>,
    doing: Option<String>,
    text: FlowingText,
    /// Whether the current text arrives in pieces.
    pieces: bool,
}

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

impl<W: Write> View<W> {
    pub(super) fn new(out: W, layout: Layout) -> Self {
        Self {
            out,
            layout,
            at_work: Vec::new(),
            queue: Vec::new(),
            live: false,
            questions: VecDeque::new(),
            has_line_after_prompt: false,
            called: Vec::new(),
            speakers: HashMap::new(),
            partial: HashSet::new(),
            headed: None,
        }
    }

    /// Returns the colours of the screen.
    pub(super) fn paint(&self) -> Paint {
        self.layout.paint
    }

    /// Records the author of an earlier message.
    pub(super) fn add_author(&mut self, message: MessageNumber, author: MemberName) {
        self.speakers.insert(message, author);
    }

    /// Writes a separate line.
    pub(super) fn line(&mut self, line: &str) -> io::Result<()> {
        self.clear_live()?;
        for at_work in &mut self.at_work {
            at_work.text.break_line(&mut self.out)?;
        }
        self.has_line_after_prompt = true;
        writeln!(self.out, "{line}")
    }

    /// Writes a diagnostic.
    pub(super) fn diagnostic(&mut self, diagnostic: &Diagnostic) -> io::Result<()> {
        if self.layout.quiet.is_some() && diagnostic.code.severity() == Severity::Note {
            return Ok(());
        }
        // It is the same for every turn.
        let is_of_every_turn = [SANDBOX_PARTIAL, RELAY_HOST_REFUSED].contains(&diagnostic.code);
        if is_of_every_turn && !self.partial.insert(diagnostic.message.clone()) {
            return Ok(());
        }
        let paint = self.layout.paint;
        let code = paint.warning(&format!("! {}", diagnostic.code));
        let message = printable(&diagnostic.message);
        self.line(&format!("  {code} {}", paint.faint(&message)))
    }

    /// Shows an event in quiet output: replies, errors and losses only.
    fn show_quietly(&mut self, event: &EventKind, quiet: Quiet) -> io::Result<()> {
        match event {
            EventKind::Message(message) if message.message.in_reply_to.is_some() => match quiet {
                Quiet::Text => self.line(&message.text),
                Quiet::Named => self.line(&format!("{}: {}", message.from(), message.text)),
            },
            EventKind::TurnEnded { member, state, result, .. } if *state != TurnState::Done => {
                let verdict = result.verdict.to_string();
                let line = format!("{} {member}: {}", self.paint().bad("✗"), printable(&verdict));
                self.line(&line)
            }
            EventKind::Diagnostic { diagnostic, .. } => self.diagnostic(diagnostic),
            EventKind::Agent { event, .. } => match &event.kind {
                AgentEventKind::Warning(diagnostic) => self.diagnostic(diagnostic),
                _ => Ok(()),
            },
            EventKind::PermissionAsked { member, question, answers, .. } if !answers.is_empty() => {
                self.ask(AskedQuestion::new(member, question, answers))
            }
            EventKind::PermissionAnswered { member, id, answer, by, .. }
                if self.questions.iter().any(|asked| asked.question.id == *id) =>
            {
                self.answer(member, id, *answer, *by)
            }
            _ => Ok(()),
        }
    }

    /// Shows an event.
    pub(super) fn show(&mut self, event: &EventKind) -> io::Result<()> {
        if let Some(quiet) = self.layout.quiet {
            self.show_quietly(event, quiet)?;
            return self.out.flush();
        }
        match event {
            EventKind::Message(message) => self.message(message)?,
            EventKind::TurnQueued { turn, member, answers, intent, .. } => {
                let (turn, member, answers) = (*turn, member.clone(), *answers);
                let queued = QueuedTurn { turn, member, answers, intent: *intent };
                self.called.push(queued.clone());
                self.queue.push(queued);
            }
            EventKind::TurnDropped { turn, member, .. } => {
                self.queue.retain(|queued| queued.turn != *turn);
                let paint = self.layout.paint;
                self.line(&paint.faint(&format!("  {member}'s turn was dropped")))?;
            }
            EventKind::MessageWaits { .. } => {
                let line =
                    "  your message waits until the running turn on another machine has ended";
                let line = self.layout.paint.faint(line);
                self.line(&line)?;
            }
            EventKind::TurnOffered { turn, member, node, problem } => {
                let waits = waits_for(node.as_deref(), problem.as_deref());
                let line = format!("  turn {turn} of {member} {}", printable(&waits));
                let line = self.layout.paint.faint(&line);
                self.line(&line)?;
            }
            EventKind::TurnStarted { .. } => self.turn_started(event)?,
            EventKind::Agent { turn, event, .. } => self.agent(*turn, event)?,
            EventKind::PermissionAsked { member, question, answers, .. } => {
                self.ask(AskedQuestion::new(member, question, answers))?;
            }
            EventKind::PermissionAnswered { member, id, answer, by, .. } => {
                self.answer(member, id, *answer, *by)?;
            }
            EventKind::TurnEnded { turn, member, state, result, elapsed, .. } => {
                self.turn_ended(*turn, member, *state, result, *elapsed)?;
            }
            EventKind::FilesChanged { turn, member, by, counts } => {
                self.files_changed(*turn, member, *by, *counts)?;
            }
            EventKind::Diagnostic { diagnostic, .. } => self.diagnostic(diagnostic)?,
            EventKind::Task { task, by } => {
                let paint = self.layout.paint;
                self.line(&format!(
                    "  {}",
                    paint.faint(&format!("{by} set the team task: {}", printable(task)))
                ))?;
            }
            EventKind::Opened { interrupted, .. } => {
                for turn in interrupted {
                    let paint = self.layout.paint;
                    let line = format!(
                        "turn {turn} was interrupted; retrying (its partial output is kept as an earlier \
                         attempt)"
                    );
                    self.line(&paint.warning(&line))?;
                }
            }
            _ => {}
        }
        if self.has_line_after_prompt {
            self.prompt_again()?;
        }
        self.out.flush()
    }

    /// Heads the output of a turn.
    fn turn_started(&mut self, event: &EventKind) -> io::Result<()> {
        let EventKind::TurnStarted {
            turn,
            member,
            answers,
            attempt,
            prompt,
            system,
            tokens_estimate,
            ..
        } = event
        else {
            return Ok(());
        };
        let bytes = prompt.bytes + system.map_or(0, |system| system.bytes);
        let again = if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
        let about = format!(
            "turn {turn}{again}, {} · a prompt of about {} tokens, {} bytes",
            self.answering(*answers),
            number(*tokens_estimate),
            number(bytes)
        );
        self.begin(*turn, member, &about)
    }

    /// Shows how a turn ended, and what it took.
    fn turn_ended(
        &mut self,
        turn: TurnId,
        member: &MemberName,
        state: TurnState,
        result: &AttemptResult,
        elapsed: Duration,
    ) -> io::Result<()> {
        let elapsed = seconds(elapsed);
        let elapsed = match result.cost_usd {
            Some(cost) => format!("{elapsed}, {}", dollars(cost)),
            None => elapsed,
        };
        self.head_again(turn)?;
        let (requests, received) = self.end_text(turn)?;
        let paint = self.layout.paint;
        if let Some(received) = received {
            let received = received.to_string();
            self.line(&paint.faint(&format!("  {}", printable(&received))))?;
        } else {
            let sent = (requests.count > 0).then(|| sent(requests));
            let counted = result.usage.as_ref();
            let counted = counted.map(|usage| format!("counted {}", tokens(usage)));
            let figures: Vec<String> = sent.into_iter().chain(counted).collect();
            if !figures.is_empty() {
                self.line(&paint.faint(&format!("  {}", figures.join("; "))))?;
            }
        }
        let line = if state == TurnState::Done {
            paint.faint(&self.next_members(&elapsed))
        } else {
            let kept = result.partial.map_or_else(String::new, |partial| {
                format!("; {} bytes of its reply are kept", number(partial.bytes))
            });
            let verdict = result.verdict.to_string();
            let verdict = printable(&verdict);
            format!("{} {member}: {verdict} ({elapsed}){kept}", paint.bad("✗"))
        };
        self.line(&format!("  {line}"))
    }

    fn files_changed(
        &mut self,
        turn: TurnId,
        member: &MemberName,
        by: ChangedBy,
        counts: ChangeCounts,
    ) -> io::Result<()> {
        let text = match by {
            ChangedBy::Agent => {
                self.pause_text(turn)?;
                let name = if self.layout.parallel { format!("{member} ") } else { String::new() };
                format!("{name}changed {counts}")
            }
            ChangedBy::Person => format!("you changed {counts} since the last turn"),
        };
        self.line(&format!("  {}", self.layout.paint.faint(&text)))
    }

    /// Redraws the live line, if the cursor is at the start of a line.
    pub(super) fn tick(&mut self) -> io::Result<()> {
        let Some(columns) = self.layout.columns else { return Ok(()) };
        let is_free = self.at_work.iter().all(|at_work| at_work.text.is_at_line_start());
        if self.at_work.is_empty() || !is_free || !self.questions.is_empty() {
            return Ok(());
        }
        let parts: Vec<String> = self.at_work.iter().map(RunningAgent::line).collect();
        let mut line = format!("  {}", parts.join("   "));
        let mut width = 0;
        let is_over = |c: char| {
            width += c.width().unwrap_or(0);
            width >= columns
        };
        if let Some(end) = line.find(is_over) {
            line.truncate(end);
        }
        self.live = true;
        write!(self.out, "{}{}", clear_line(), self.layout.paint.faint(&line))?;
        self.out.flush()
    }

    /// Clears the live line.
    pub(super) fn clear_live(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.live) {
            write!(self.out, "{}", clear_line())?;
        }
        Ok(())
    }

    fn message(&mut self, message: &Message) -> io::Result<()> {
        let Message { number, text, .. } = message;
        let from = &message.from();
        self.called.clear();
        self.speakers.insert(*number, from.clone());
        let is_call = message.tool().is_some();
        let said_in = self.at_work.iter().find(|it| is_call && it.member == *from);
        if let Some(turn) = said_in.map(|at_work| at_work.turn) {
            self.pause_text(turn)?;
        }
        // A message sent during a turn is not its reply.
        let mut at_work = self.at_work.iter_mut();
        let turn = at_work.find(|at_work| !is_call && at_work.member == *from);
        match turn {
            // The reply was streamed, or is shown now that it is complete.
            Some(at_work) if !self.layout.parallel => {
                let mut text = std::mem::replace(&mut at_work.text, FlowingText::new(2, None));
                self.clear_live()?;
                text.finish(&mut self.out)
            }
            Some(at_work) => {
                let turn = at_work.turn;
                self.heading(from, &format!("turn {turn}"))?;
                self.paragraph(text)
            }
            None => {
                let to = message.message.addressees().join(", ");
                let to = if to.is_empty() { "everyone".to_owned() } else { to };
                let name = self.layout.paint.strong(from.as_str());
                self.headed = None;
                self.line(&format!("\n{name} → {to}"))?;
                self.paragraph(text)?;
                let paint = self.layout.paint;
                message.attachments().iter().try_for_each(|attachment| {
                    let line = format!("  + {}", printable(&attachment.to_string()));
                    self.line(&paint.faint(&line))
                })
            }
        }
    }

    fn paragraph(&mut self, text: &str) -> io::Result<()> {
        let mut flow = FlowingText::new(2, self.layout.columns);
        flow.write(text, &mut self.out)?;
        flow.finish(&mut self.out)
    }

    fn begin(&mut self, turn: TurnId, member: &MemberName, about: &str) -> io::Result<()> {
        self.queue.retain(|queued| queued.turn != turn);
        // No event ends an interrupted attempt.
        self.end_text(turn)?;
        self.heading(member, about)?;
        self.headed = Some(turn);
        self.at_work.push(RunningAgent {
            turn,
            member: member.clone(),
            since: Instant::now(),
            events: 0,
            tokens: None,
            requests: RequestFigures::default(),
            received: None,
            doing: None,
            text: FlowingText::of_reply(2, self.layout.columns),
            pieces: false,
        });
        Ok(())
    }

    /// Prints the heading of a turn again if another heading was printed since.
    fn head_again(&mut self, turn: TurnId) -> io::Result<()> {
        let at_work = self.at_work.iter().find(|at_work| at_work.turn == turn);
        let Some(at_work) = at_work.filter(|_| !self.layout.parallel) else { return Ok(()) };
        if self.headed == Some(turn) {
            return Ok(());
        }
        let member = at_work.member.clone();
        self.headed = Some(turn);
        self.heading(&member, &format!("turn {turn}, continued"))
    }

    fn heading(&mut self, member: &MemberName, about: &str) -> io::Result<()> {
        let paint = self.layout.paint;
        self.line(&format!("\n{}  {}", paint.strong(member.as_str()), paint.faint(about)))
    }

    fn agent(
        &mut self,
        turn: TurnId,
        event: &convoke_protocol::agent_event::AgentEvent<'static>,
    ) -> io::Result<()> {
        let Some(index) = self.at_work.iter().position(|at_work| at_work.turn == turn) else {
            return Ok(());
        };
        self.at_work[index].note(event);
        if let AgentEventKind::Warning(diagnostic) = &event.kind {
            return self.diagnostic(diagnostic);
        }
        if let Some(retry) = retry(&event.kind) {
            return self.retry(index, &retry);
        }
        let AgentEventKind::Text { text, part } = &event.kind else { return Ok(()) };
        if event.sub_agent.is_some() || self.layout.parallel {
            return Ok(());
        }
        self.head_again(turn)?;
        let said_in_pieces =
            std::mem::replace(&mut self.at_work[index].pieces, *part == TextPart::Delta);
        self.clear_live()?;
        let flow = &mut self.at_work[index].text;
        match part {
            TextPart::Delta => flow.write(text, &mut self.out),
            TextPart::Whole if said_in_pieces => flow.finish(&mut self.out),
            TextPart::Whole => {
                flow.write(text, &mut self.out)?;
                flow.finish(&mut self.out)
            }
        }
    }

    /// Shows that a request is retried. The partial text of the failed attempt does not count.
    fn retry(&mut self, index: usize, retry: &str) -> io::Result<()> {
        self.clear_live()?;
        let RunningAgent { member, text, pieces, .. } = &mut self.at_work[index];
        *pieces = false;
        text.finish(&mut self.out)?;
        let name = if self.layout.parallel { format!("{member}: ") } else { String::new() };
        let line = self.layout.paint.faint(&format!("{name}{retry}"));
        self.line(&format!("  {line}"))
    }

    /// Ends the line that an agent is writing.
    fn pause_text(&mut self, turn: TurnId) -> io::Result<()> {
        self.clear_live()?;
        let at_work = self.at_work.iter_mut().find(|at_work| at_work.turn == turn);
        at_work.map_or(Ok(()), |at_work| at_work.text.finish(&mut self.out))
    }

    /// Ends the text of an agent, and returns its requests.
    fn end_text(&mut self, turn: TurnId) -> io::Result<(RequestFigures, Option<Received>)> {
        let Some(index) = self.at_work.iter().position(|at_work| at_work.turn == turn) else {
            return Ok((RequestFigures::default(), None));
        };
        let mut at_work = self.at_work.remove(index);
        self.clear_live()?;
        at_work.text.finish(&mut self.out)?;
        Ok((at_work.requests, at_work.received))
    }

    /// Returns the members that run next.
    fn next_members(&mut self, elapsed: &str) -> String {
        let called = std::mem::take(&mut self.called);
        let waits = self
            .queue
            .iter()
            .filter(|queued| called.iter().all(|called| called.turn != queued.turn));
        let waits: Vec<&str> = waits.map(|queued| queued.member.as_str()).collect();
        let names: Vec<String> = called.iter().map(shown).collect();
        match (names.is_empty(), waits.is_empty()) {
            (true, true) => format!("({elapsed})"),
            (true, false) => format!("→ {}, from the queue ({elapsed})", waits.join(", ")),
            (false, true) => format!("→ {} ({elapsed})", names.join(", ")),
            (false, false) => {
                format!("→ {}; {} queued ({elapsed})", names.join(", "), waits.join(", "))
            }
        }
    }

    fn answering(&self, message: MessageNumber) -> String {
        match self.speakers.get(&message) {
            Some(name) => format!("answers {name}"),
            None => format!("answers message {message}"),
        }
    }
}

fn shown(QueuedTurn { member, intent, .. }: &QueuedTurn) -> String {
    match intent {
        Intent::P2 => member.to_string(),
        Intent::P1 => format!("{member}!P1"),
        Intent::P3 => format!("{member}!P3"),
    }
}

impl RunningAgent {
    fn note(&mut self, event: &convoke_protocol::agent_event::AgentEvent<'static>) {
        self.events += 1;
        match &event.kind {
            AgentEventKind::Request { bytes, unchanged_bytes, .. } => {
                self.requests.add(*bytes, *unchanged_bytes);
            }
            AgentEventKind::Received(received) => self.received = Some(received.clone()),
            AgentEventKind::Usage(usage) => {
                self.tokens = Some(usage.input.saturating_add(usage.output));
            }
            AgentEventKind::ToolStarted { name, .. } => {
                self.doing = Some(format!("running {name}"));
            }
            AgentEventKind::ToolFinished { .. } => self.doing = None,
            AgentEventKind::Thinking { .. } => self.doing = Some("thinking".to_owned()),
            AgentEventKind::Text { .. } => self.doing = Some("writing".to_owned()),
            AgentEventKind::Retry { attempt, .. } => {
                self.doing = Some(format!("retrying after attempt {attempt}"));
            }
            _ => {}
        }
    }

    fn line(&self) -> String {
        let elapsed = self.since.elapsed();
        let frame = usize::try_from(elapsed.as_millis() / 100).unwrap_or(0) % FRAMES.len();
        let mut line = format!(
            "{} {} {} · {} · {}",
            FRAMES[frame],
            self.member,
            self.doing.as_deref().unwrap_or("working"),
            seconds(elapsed),
            count(self.events, "event")
        );
        if let Some(tokens) = self.tokens {
            let _ = write!(line, " · {} tokens", number(tokens));
        }
        line
    }
}

#[cfg(test)]
mod tests;
