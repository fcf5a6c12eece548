//! The simplest dialogue: write the prompt, close the input, read the output to its end.

use crate::process::{Dialogue, Input};
use crate::stream::{EventReader, Sink};

/// Writes one prompt and reads the reply.
#[derive(Debug)]
pub struct OneShot<R> {
    reader: R,
    prompt: Vec<u8>,
}

impl<R> OneShot<R> {
    /// Creates the dialogue of a prompt.
    pub fn new(reader: R, prompt: impl Into<Vec<u8>>) -> Self {
        Self { reader, prompt: prompt.into() }
    }
}

impl<R: EventReader> Dialogue for OneShot<R> {
    fn open(&mut self) -> Input {
        Input::last(std::mem::take(&mut self.prompt))
    }

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Input {
        self.reader.line(line, sink);
        Input::nothing()
    }

    fn reader(&self) -> &dyn EventReader {
        &self.reader
    }

    fn reader_mut(&mut self) -> &mut dyn EventReader {
        &mut self.reader
    }
}
