//! The answers of a person, or of a program for one, to the questions of agents.
//!
//! Answers are read from standard input, which has no other reader while a conversation runs.

use std::collections::VecDeque;
use std::io::{self, BufRead, IsTerminal as _, Read as _, stdin};
use std::time::{Duration, Instant};

use convoke_protocol::event::EventKind;
use convoke_protocol::permission::PermissionAnswer;
use convoke_server::{HeldRequest, Interjections};
use convoke_session::{Controls, Store as _};
use rustix::termios::{QueueSelector, tcflush};
use serde::Deserialize;
use tokio::sync::mpsc::{Receiver, channel};

use crate::commands::serve::page::{self, SessionPage};
use crate::conversation::Conversation;

/// The maximum size of a line.
const LINE_LIMIT: u64 = 64 << 10;
/// The time for which a question must be visible before a line answers it: the line may have been begun for another one.
const UNREAD: Duration = Duration::from_millis(700);
/// The maximum number of queued lines; a program that writes more waits.
const LINES_WAITING: usize = 64;

/// Answers questions.
pub(in crate::commands) struct Answers {
    form: InputFormat,
    lines: Option<Receiver<Line>>,
    /// The open questions, the oldest first, which is the one shown.
    open: VecDeque<String>,
    /// The time at which it was shown.
    shown: Option<Instant>,
    /// The page of the conversation, through which people can take part.
    page: Option<SessionPage>,
    /// Whether a message of the page was queued.
    interjections: Interjections,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputFormat {
    /// A word of a person at a terminal.
    Word,
    /// A JSON object of a program.
    Json,
}

/// A line of standard input, its end, or a request of the page.
pub(super) enum Line {
    Text(String),
    End,
    /// Standard input cannot be read further.
    Unreadable(io::Error),
    /// A request of the page.
    Request(HeldRequest),
    /// A request of the page was handled.
    Interjected,
}

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineResult {
    /// It answered a question, or no question was open.
    Done,
    /// It was not an answer.
    NotUnderstood,
    /// It was typed too soon after its question was shown.
    TooEarly,
    /// It answered a question that is not open.
    NotOpen,
    /// Standard input cannot be read, for this reason. No answer follows.
    Unreadable(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAnswer {
    #[serde(rename = "type")]
    kind: String,
    id: String,
    answer: PermissionAnswer,
}

impl Answers {
    /// Starts to read, if an agent of the conversation may ask. If no person can answer, questions are refused at once.
    pub(super) fn listen(
        conversation: &Conversation,
        json: bool,
        is_input_used: bool,
        page: Option<SessionPage>,
    ) -> Self {
        let coordinator = &conversation.coordinator;
        // Agents on other machines may ask too.
        let may_ask = coordinator.team_agents().has_asking_agents()
            || coordinator.store().sharing().is_some();
        let form = if json { InputFormat::Json } else { InputFormat::Word };
        let can_hear = !is_input_used && (json || stdin().is_terminal());
        let mut lines = None;
        if may_ask {
            if can_hear {
                lines = Some(read_lines());
            } else if page.is_none() {
                coordinator.controls().set_attended(false);
            }
        }
        let interjections = Interjections::new(coordinator.controls());
        Self { form, lines, open: VecDeque::new(), shown: None, page, interjections }
    }

    /// Reads nothing: standard input has another reader.
    pub(in crate::commands) fn without_input(
        conversation: &Conversation,
        page: Option<SessionPage>,
    ) -> Self {
        let controls = conversation.coordinator.controls();
        if page.is_none() {
            controls.set_attended(false);
        }
        let (form, open) = (InputFormat::Word, VecDeque::new());
        let interjections = Interjections::new(controls);
        Self { form, lines: None, open, shown: None, page, interjections }
    }

    /// Returns the page.
    pub(in crate::commands) fn into_page(self) -> Option<SessionPage> {
        self.page
    }

    /// Returns whether a message of the page was put into the inbox since the last call.
    pub(super) async fn has_interjected(&mut self) -> bool {
        self.interjections.finish().await
    }

    /// Records an event.
    pub(super) fn note(&mut self, event: &EventKind) {
        let before = self.open.front().cloned();
        match event {
            EventKind::PermissionAsked { question, answers, .. } if !answers.is_empty() => {
                self.open.push_back(question.id.clone());
            }
            EventKind::PermissionAnswered { id, .. } => self.open.retain(|it| it != id),
            _ => {}
        }
        if self.open.front() != before.as_ref() {
            self.shown = Some(Instant::now());
            if self.form == InputFormat::Word && self.lines.is_some() {
                // Discards the beginning of a line that was typed for another question; a line that remains is too early.
                let _ = tcflush(stdin(), QueueSelector::IFlush);
            }
        }
    }

    /// Waits for a line; forever if there is no writer.
    pub(super) async fn next(&mut self) -> Line {
        let lines = async {
            match &mut self.lines {
                Some(lines) => lines.recv().await.unwrap_or(Line::End),
                None => std::future::pending().await,
            }
        };
        let interjections = &mut self.interjections;
        let is_ready = interjections.is_ready();
        tokio::select! {
            line = lines => line,
            () = interjections.next() => Line::Interjected,
            request = page::next(&mut self.page), if is_ready => Line::Request(request),
        }
    }

    /// Carries out a line.
    pub(super) fn carry_out(&mut self, line: Line, controls: &Controls) -> LineResult {
        let text = match line {
            Line::Text(text) => text,
            Line::End => {
                self.end(controls);
                return LineResult::Done;
            }
            Line::Unreadable(error) => {
                self.end(controls);
                return LineResult::Unreadable(error.to_string());
            }
            Line::Request(request) => {
                self.interjections.begin(request);
                return LineResult::Done;
            }
            Line::Interjected => return LineResult::Done,
        };
        match self.form {
            InputFormat::Json if text.trim().is_empty() => LineResult::Done,
            InputFormat::Json => match serde_json::from_str::<WrittenAnswer>(&text) {
                Ok(written) if written.kind == "permission" => {
                    if !self.open.contains(&written.id) {
                        return LineResult::NotOpen;
                    }
                    controls.answer(&written.id, written.answer);
                    LineResult::Done
                }
                _ => LineResult::NotUnderstood,
            },
            InputFormat::Word => {
                let Some(id) = self.open.front() else { return LineResult::Done };
                let answer = match text.trim().to_ascii_lowercase().as_str() {
                    "o" | "once" => PermissionAnswer::Once,
                    "s" | "session" => PermissionAnswer::Session,
                    "n" | "never" | "no" => PermissionAnswer::Never,
                    _ => return LineResult::NotUnderstood,
                };
                if self.shown.is_some_and(|shown| shown.elapsed() < UNREAD) {
                    return LineResult::TooEarly;
                }
                controls.answer(id, answer);
                LineResult::Done
            }
        }
    }

    /// Refuses the open questions: no answer follows.
    fn end(&mut self, controls: &Controls) {
        self.lines = None;
        for id in std::mem::take(&mut self.open) {
            controls.refuse(&id);
        }
    }

    /// Returns whether the input has ended, so that further questions are refused.
    pub(super) fn is_over(&self) -> bool {
        self.lines.is_none() && self.page.is_none()
    }
}

/// Reads standard input on its own thread: a read cannot be cancelled, and must not keep the program from exiting.
fn read_lines() -> Receiver<Line> {
    let (sender, lines) = channel(LINES_WAITING);
    std::thread::spawn(move || {
        loop {
            let next = read_line(&mut stdin().lock());
            let is_end = matches!(next, Line::End | Line::Unreadable(_));
            if sender.blocking_send(next).is_err() || is_end {
                return;
            }
        }
    });
    lines
}

/// Reads a line. One that is too long or not UTF-8 is not an answer; later ones may be.
fn read_line(input: &mut impl BufRead) -> Line {
    let mut line = Vec::new();
    match input.by_ref().take(LINE_LIMIT).read_until(b'\n', &mut line) {
        Ok(1..) => {}
        Ok(0) => return Line::End,
        Err(error) => return Line::Unreadable(error),
    }
    if !line.ends_with(b"\n")
        && line.len() as u64 == LINE_LIMIT
        && let Err(error) = input.skip_until(b'\n')
    {
        return Line::Unreadable(error);
    }
    Line::Text(String::from_utf8_lossy(&line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_or_not_text_does_not_hide_the_next() {
        let long = "x".repeat(3 * usize::try_from(LINE_LIMIT).unwrap());
        let input = [long.as_bytes(), b"\n\xff\xfe\nonce\nlast"].concat();
        let mut input = &input[..];
        let mut lines = Vec::new();
        while let Line::Text(text) = read_line(&mut input) {
            lines.push(text);
        }
        let [long, invalid, once, last] = &lines[..] else { panic!("{} lines", lines.len()) };
        assert_eq!(long.len() as u64, LINE_LIMIT);
        assert_eq!(invalid, "\u{fffd}\u{fffd}\n");
        assert_eq!((&**once, &**last), ("once\n", "last"));
    }

    #[test]
    fn an_input_that_cannot_be_read_is_not_one_that_has_ended() {
        struct Broken;
        impl io::Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the device is gone"))
            }
        }
        assert!(matches!(read_line(&mut io::BufReader::new(Broken)), Line::Unreadable(_)));
        assert!(matches!(read_line(&mut io::empty()), Line::End));
        let long = io::repeat(b'x').take(LINE_LIMIT).chain(Broken);
        assert!(matches!(read_line(&mut io::BufReader::new(long)), Line::Unreadable(_)));
    }
}
