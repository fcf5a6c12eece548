//! The conversation that a program would send next, in bounded memory.

use std::mem::swap;

use convoke_protocol::window::{Part, Window, WindowPart};

/// The maximum size of the texts of a history, in bytes.
pub const MAX_BYTES: usize = 24 << 20;
/// The maximum number of parts of a history.
pub const MAX_PARTS: usize = 100_000;

/// The conversation that a program would send next.
///
/// A history that has become too large keeps its size and forgets its parts until it is [cleared](Self::clear): no model
/// has such a window, so the file is not what it seems, and a window of it is partial.
#[derive(Debug, Default)]
pub struct History {
    parts: Vec<WindowPart>,
    bytes: usize,
    is_too_large: bool,
}

impl History {
    /// Returns the parts.
    pub fn parts(&self) -> &[WindowPart] {
        &self.parts
    }

    /// Returns whether parts were forgotten.
    pub fn is_too_large(&self) -> bool {
        self.is_too_large
    }

    /// Adds a part.
    pub fn push(&mut self, part: WindowPart) {
        self.bytes += kept_bytes(&part.part.what);
        self.parts.push(part);
        if self.bytes > MAX_BYTES || self.parts.len() > MAX_PARTS {
            *self = Self { is_too_large: true, ..Self::default() };
        }
    }

    /// Adds parts.
    pub fn extend(&mut self, parts: impl IntoIterator<Item = WindowPart>) {
        parts.into_iter().for_each(|part| self.push(part));
    }

    /// Removes all parts from this one on.
    pub fn truncate(&mut self, length: usize) {
        let removed = self.parts.drain(length.min(self.parts.len())..);
        self.bytes -= removed.map(|part| kept_bytes(&part.part.what)).sum::<usize>();
    }

    /// Lends the first parts as those of a window.
    pub fn lend<T>(
        &mut self,
        length: usize,
        window: &mut Window,
        used: impl FnOnce(&Window) -> T,
    ) -> T {
        let rest = self.parts.split_off(length.min(self.parts.len()));
        swap(&mut self.parts, &mut window.parts);
        let returned = used(window);
        swap(&mut self.parts, &mut window.parts);
        self.parts.extend(rest);
        returned
    }

    /// Removes all parts.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Returns the memory that a part takes, which may be shared.
fn kept_bytes(part: &Part) -> usize {
    let text = match part {
        Part::Text(text) | Part::Result(text) | Part::Thinking(text) | Part::Image(text) => {
            text.text.as_ref().map_or(0, |text| text.len())
        }
        Part::Call { name, input } => name.len() + input.len(),
    };
    text + size_of::<Part>()
}
