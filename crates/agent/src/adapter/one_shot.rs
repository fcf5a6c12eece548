//! The simplest dialogue: write the prompt, close the input, read the output to its end.

use crate::process::{Dialogue, Input};
use crate::stream::{Reader, Sink, TurnPhase};
use crate::turn::TurnResult;
use crate::verdict::Ending;

/// Writes one prompt and reads the reply.
pub(super) struct OneShot<R> {
    reader: R,
    prompt: Vec<u8>,
}

impl<R> OneShot<R> {
    pub fn new(reader: R, prompt: impl Into<Vec<u8>>) -> Self {
        Self { reader, prompt: prompt.into() }
    }
}

impl<R: Reader> Dialogue for OneShot<R> {
    fn open(&mut self) -> Input {
        Input::last(std::mem::take(&mut self.prompt))
    }

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Input {
        self.reader.line(line, sink);
        Input::nothing()
    }

    fn error_line(&mut self, line: &str, sink: &mut Sink<'_>) {
        self.reader.error_line(line, sink);
    }

    fn line_lacks(&mut self, bytes: u64) {
        self.reader.line_lacks(bytes);
    }

    fn interrupt(&mut self) -> Option<Input> {
        None
    }

    fn phase(&self) -> TurnPhase {
        self.reader.phase()
    }

    fn finish(&mut self, ending: &Ending<'_>, sink: &mut Sink<'_>) -> TurnResult {
        self.reader.finish(ending, sink)
    }

    fn session(&self) -> Option<&str> {
        self.reader.session()
    }
}
