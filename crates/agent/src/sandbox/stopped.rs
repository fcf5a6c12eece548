//! Finds tools that the sandbox stopped. The kernel reports a refusal to the tool, and no event of the program
//! contains it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use convoke_core::Diagnostic;

use crate::diagnostics;
use crate::event::EventKind;
use crate::process::{Decision, Dialogue, HostAccess, Input};
use crate::stream::{Reader, Sink};
use crate::turn::TurnResult;
use crate::turn_input::Permissions;
use crate::verdict::Ending;

/// Texts with which tools report a refusal of the kernel.
const REFUSALS: &[&str] =
    &["Permission denied", "permission denied", "EACCES", "Operation not permitted", "EPERM"];

/// The number of bytes of a tool's output that are searched, from both ends.
const LOOKED_AT: usize = 64 << 10;
/// The maximum size of a shown refusal.
const SHOWN: usize = 200;

/// A dialogue with a program in the sandbox.
pub(crate) struct RefusalWatcher {
    dialogue: Box<dyn Dialogue>,
    permissions: Permissions,
    /// Whether the program writes no events, so that refusals are searched for in its error output.
    has_no_events: bool,
    count: u64,
    first: Option<String>,
}

impl RefusalWatcher {
    pub fn new(dialogue: Box<dyn Dialogue>, permissions: Permissions, has_no_events: bool) -> Self {
        Self { dialogue, permissions, has_no_events, count: 0, first: None }
    }

    fn note(&mut self, output: &str) {
        if let Some(line) = refusal(output) {
            self.count += 1;
            self.first.get_or_insert(line);
        }
    }

    /// Forwards events, and checks the output of tools.
    fn watch<R>(
        &mut self,
        sink: &mut Sink<'_>,
        read: impl FnOnce(&mut dyn Dialogue, &mut Sink<'_>) -> R,
    ) -> R {
        let mut outputs: Vec<String> = Vec::new();
        let result = read(self.dialogue.as_mut(), &mut |event| {
            if let EventKind::ToolFinished { output, .. } = &event.kind {
                outputs.extend(refusal(output));
            }
            sink(event);
        });
        for line in outputs {
            self.note(&line);
        }
        result
    }
}

/// Returns the line of an output that reports a refusal of the kernel.
fn refusal(output: &str) -> Option<String> {
    let head = &output[..output.floor_char_boundary(LOOKED_AT.min(output.len()))];
    let tail = &output[output.ceil_char_boundary(output.len().saturating_sub(LOOKED_AT))..];
    let mut lines = head.lines().chain(tail.lines());
    let line = lines.find(|line| REFUSALS.iter().any(|words| line.contains(words)))?.trim();
    Some(line[..line.floor_char_boundary(SHOWN.min(line.len()))].to_owned())
}

impl Dialogue for RefusalWatcher {
    fn open(&mut self) -> Input {
        self.dialogue.open()
    }

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Input {
        self.watch(sink, |dialogue, sink| dialogue.line(line, sink))
    }

    fn error_line(&mut self, line: &str, sink: &mut Sink<'_>) {
        self.watch(sink, |dialogue, sink| dialogue.error_line(line, sink));
    }

    fn interrupt(&mut self) -> Option<Input> {
        self.dialogue.interrupt()
    }

    fn equip(&mut self, access: HostAccess<'_>) -> io::Result<()> {
        self.dialogue.equip(access)
    }

    fn answer(&mut self, question: &str, answer: Decision, sink: &mut Sink<'_>) -> Input {
        self.watch(sink, |dialogue, sink| dialogue.answer(question, answer, sink))
    }

    fn poll_wake(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.dialogue.poll_wake(context)
    }

    fn wake(&mut self, sink: &mut Sink<'_>) -> Input {
        self.watch(sink, |dialogue, sink| dialogue.wake(sink))
    }

    fn end_commands(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.dialogue.end_commands()
    }

    fn silence_limit(&self) -> Option<Duration> {
        self.dialogue.silence_limit()
    }

    fn exit_limit(&self) -> Option<Duration> {
        self.dialogue.exit_limit()
    }

    fn on_silence(&mut self) -> Option<Input> {
        self.dialogue.on_silence()
    }

    fn dismiss(&mut self, sink: &mut Sink<'_>) -> Input {
        self.watch(sink, |dialogue, sink| dialogue.dismiss(sink))
    }

    fn finish(&mut self, ending: &Ending<'_>, sink: &mut Sink<'_>) -> TurnResult {
        let mut result = self.watch(sink, |dialogue, sink| dialogue.finish(ending, sink));
        if self.has_no_events {
            self.note(ending.stderr);
        }
        if let Some(line) = self.first.take() {
            let message = format!("`{}` stopped a tool: {line}", self.permissions.as_str());
            let stopped =
                Diagnostic::new(diagnostics::SANDBOX_STOPPED, message).with_count(self.count);
            sink(crate::event::Event::own(EventKind::Warning(stopped.clone())));
            result.diagnostics.push(stopped);
        }
        result
    }

    fn reader(&self) -> &dyn Reader {
        self.dialogue.reader()
    }

    fn reader_mut(&mut self) -> &mut dyn Reader {
        self.dialogue.reader_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_with_the_refusal_is_shown() {
        let output = "one\n/bin/sh: 1: cannot create x: Permission denied\nthree";
        assert_eq!(refusal(output).unwrap(), "/bin/sh: 1: cannot create x: Permission denied");
        assert_eq!(refusal("EACCES: é").unwrap(), "EACCES: é");
        assert_eq!(refusal("all is well"), None);
        let long = format!("{}EPERM", "é".repeat(1 << 20));
        assert!(refusal(&long).is_some_and(|line| line.len() <= SHOWN));
    }
}
