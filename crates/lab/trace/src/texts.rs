//! Which texts of a session are in a trace.

use convoke_redact::Redactor;

/// The maximum size of one text, in bytes.
const MAX_TEXT: usize = 64 << 10;
/// The maximum size of the texts of a session, in bytes: a trace is held in memory.
const MAX_TEXTS: usize = 64 << 20;

/// Which texts of a session are in a trace: none, or those of which secrets were removed.
#[derive(Debug)]
pub struct Texts<'r> {
    redactor: Option<&'r Redactor>,
    left: usize,
    /// The texts that were cut or left out because they were too large.
    pub shortened: u64,
}

impl<'r> Texts<'r> {
    /// Leaves all texts out.
    pub const fn none() -> Self {
        Self { redactor: None, left: 0, shortened: 0 }
    }

    /// Takes texts without their secrets.
    pub const fn redacted(redactor: &'r Redactor) -> Self {
        Self { redactor: Some(redactor), left: MAX_TEXTS, shortened: 0 }
    }

    /// Returns a text as it is in the trace.
    pub(crate) fn take(&mut self, text: &str) -> Option<String> {
        let redacted = self.redactor?.redact(text);
        let size = redacted.floor_char_boundary(MAX_TEXT.min(self.left));
        self.left -= size;
        self.shortened += u64::from(size < redacted.len());
        Some(redacted[..size].to_owned())
    }
}
