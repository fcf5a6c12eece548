//! Redacts a text that arrives in pieces; a secret may be split anywhere.

use std::borrow::Cow;
use std::fmt;

use crate::mask::Masker;
use crate::redactor::Redactor;
use crate::scan::Scan;

/// Removes the secrets from one text that arrives in pieces.
///
/// The possible start of a secret is held back until it is known whether it is one; everything else is returned
/// immediately.
#[derive(Clone)]
pub struct StreamRedactor {
    redactor: Redactor,
    scan: Scan,
    masker: Masker,
    /// The text that was read but not returned yet.
    held: String,
}

impl fmt::Debug for StreamRedactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamRedactor({} bytes held)", self.held.len())
    }
}

impl StreamRedactor {
    pub(crate) fn new(redactor: &Redactor) -> Self {
        Self {
            redactor: redactor.clone(),
            scan: redactor.scan(),
            masker: Masker::default(),
            held: String::new(),
        }
    }

    /// Adds a piece and returns the text that can be shown now.
    pub fn push<'p>(&mut self, piece: &'p str) -> Cow<'p, str> {
        let base = self.scan.position();
        self.scan.read(piece);
        let (settled, spans) = self.scan.settled();
        if self.held.is_empty() && spans.is_empty() && self.masker.is_clear_at(base) {
            let (shown, held) = piece.split_at(settled - base);
            self.held.push_str(held);
            return Cow::Borrowed(shown);
        }
        let base = base - self.held.len();
        self.held.push_str(piece);
        let mut shown = String::new();
        self.masker.write((base, &self.held), settled, spans, &mut shown);
        self.held.drain(..settled - base);
        Cow::Owned(shown)
    }

    /// Ends the text and returns what was held back. The next piece starts another text.
    pub fn finish(&mut self) -> String {
        let ended = std::mem::replace(self, Self::new(&self.redactor));
        let (mut scan, mut masker, held) = (ended.scan, ended.masker, ended.held);
        let (end, mut shown) = (scan.position(), String::new());
        scan.finish();
        masker.write((end - held.len(), &held), end, &mut scan.into_spans(), &mut shown);
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor() -> Redactor {
        Redactor::default().and_key("correct-horse-battery").and_key("pass")
    }

    #[test]
    fn only_what_could_be_a_secret_waits() {
        let mut stream = redactor().stream();
        let pieces = ["Hello ", "there, ", "it is corr", "ect", " and ", "task", " s"];
        let shown = pieces.map(|piece| stream.push(piece).into_owned());
        assert_eq!(shown, ["Hello ", "there, ", "it is ", "", "correct and ", "task", " "]);
        assert_eq!(stream.finish(), "s");
        assert!(matches!(stream.push("nothing to see"), Cow::Borrowed("nothing to see")));
        assert_eq!(
            stream.push(". correct-horse-battery"),
            ". [redacted]",
            "what is whole is shown"
        );
    }

    #[test]
    fn a_secret_without_an_end_is_not_kept() {
        let key = ("-----BEGIN PRIVATE KEY-----\n", "\n-----END PRIVATE KEY-----\nover", "\nover");
        for (beginning, end, rest) in [("sk-", " over", " over"), ("eyJ.", "...", "..."), key] {
            let mut stream = redactor().stream();
            let mut shown = stream.push(beginning).into_owned();
            let piece = "a1B2c3D4e5".repeat(1000);
            for _ in 0..20 {
                shown += &stream.push(&piece);
                assert!(stream.held.len() <= 64, "{}", stream.held.len());
            }
            shown += &stream.push(end);
            shown += &stream.finish();
            assert_eq!(shown, format!("[redacted]{rest}"));
        }
    }

    #[test]
    fn a_long_known_value_is_held_back_and_a_long_word_is_not() {
        let long = format!("a long secret {}", "y ".repeat(10_000));
        let mut stream = Redactor::default().and_key(&long).stream();
        let (beginning, end) = long.split_at(long.len() - 1);
        assert_eq!(stream.push("it is "), "it is ");
        assert_eq!(stream.push(beginning), "");
        assert_eq!(stream.push(end), "[redacted]");
        let words = format!("sk-{}", "word-".repeat(4_000));
        let shown = stream.push(&words).len();
        assert!(shown > 10_000 && shown < words.len(), "{shown}");
        assert_eq!(shown + stream.finish().len(), words.len());
    }
}
