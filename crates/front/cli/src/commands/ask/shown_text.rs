//! Tracks which part of a streamed message was shown, across retried attempts.

/// The number of bytes of a message that are kept for comparison. Beyond it, a repeated message is assumed
/// to be the same.
const MAX_KEPT_BYTES: usize = 4 << 20;

/// The shown part of the message that is being written.
#[derive(Debug, Default)]
pub(super) struct ShownText {
    /// Its beginning.
    start: String,
    bytes: usize,
    /// The number of bytes that the current attempt has repeated.
    again: Option<usize>,
}

/// The part of a piece that is left to show.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NewText<'t> {
    /// Continues the shown text.
    More(&'t str),
    /// A separate text: the shown text belongs to an attempt that failed.
    Separate(String),
}

impl ShownText {
    /// Starts another attempt.
    pub fn start_attempt(&mut self) {
        self.again = Some(0);
    }

    /// Returns whether nothing of the message was shown yet.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Accepts a piece and returns the part of it that was not shown before.
    pub fn piece<'t>(&mut self, text: &'t str) -> NewText<'t> {
        let Some(come) = self.again else {
            self.add(text);
            return NewText::More(text);
        };
        let known = self.start.as_bytes().get(come..).unwrap_or_default();
        let compared = known.len().min(text.len());
        if text.as_bytes()[..compared] != known[..compared] {
            // The attempts may differ in the middle of a character; then the whole character is shown again.
            let same = self.start.get(..come).unwrap_or_default();
            return self.anew(format!("{same}{text}"));
        }
        if come + text.len() <= self.bytes {
            self.again = Some(come + text.len());
            return NewText::More("");
        }
        self.again = None;
        let rest = text.get(self.bytes - come..).unwrap_or(text);
        self.add(rest);
        NewText::More(rest)
    }

    /// Accepts the whole message and returns the part of it that was not shown before.
    pub fn whole<'t>(&mut self, text: &'t str) -> NewText<'t> {
        // The attempt is shorter than the one that failed.
        let is_shorter = self.again.is_some() && text.len() < self.bytes;
        let fresh = if is_shorter {
            self.anew(text.to_owned())
        } else {
            self.start_attempt();
            self.piece(text)
        };
        // Text shown beyond it belongs to the next message, or was over the limit.
        self.again = None;
        self.bytes = self.bytes.saturating_sub(text.len());
        self.start = self.start.get(text.len()..).unwrap_or_default().to_owned();
        fresh
    }

    fn anew(&mut self, text: String) -> NewText<'static> {
        *self = Self::default();
        self.add(&text);
        NewText::Separate(text)
    }

    fn add(&mut self, text: &str) {
        let room = MAX_KEPT_BYTES.saturating_sub(self.start.len());
        // Only an unbroken beginning can be compared.
        if self.start.len() == self.bytes {
            self.start.push_str(&text[..text.floor_char_boundary(room)]);
        }
        self.bytes += text.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows pieces and then the whole message; `None` begins another attempt.
    fn shown(pieces: &[Option<&str>], whole: &str) -> String {
        let mut shown = ShownText::default();
        let mut text = String::new();
        let mut print = |fresh: NewText<'_>| match fresh {
            NewText::More(more) => text.push_str(more),
            NewText::Separate(separate) => text = format!("{text}\n\n{separate}"),
        };
        for piece in pieces {
            match piece {
                Some(piece) => print(shown.piece(piece)),
                None => shown.start_attempt(),
            }
        }
        print(shown.whole(whole));
        text
    }

    #[test]
    fn a_message_is_shown_once_however_it_comes() {
        let cases: &[(&[Option<&str>], &str, &str)] = &[
            (&[], "one two", "one two"),
            (&[Some("one "), Some("two")], "one two", "one two"),
            (&[Some("one ")], "one two", "one two"),
            // The same text again, in other pieces.
            (&[Some("one tw"), None, Some("o"), Some("ne two")], "one two", "one two"),
            (&[Some("one"), None, Some("o"), None, Some("one two")], "one two", "one two"),
            // Another text.
            (&[Some("one"), None, Some("o"), Some("ther")], "other", "one\n\nother"),
            (&[Some("é"), None, Some("è")], "è", "é\n\nè"),
            (&[Some("one two"), None, Some("one")], "one", "one two\n\none"),
            (&[Some("one")], "two", "one\n\ntwo"),
            // Text over the limit was shown and is not part of the message.
            (&[Some("one "), Some("two")], "one", "one two"),
        ];
        for (pieces, whole, expected) in cases {
            assert_eq!(shown(pieces, whole), *expected, "{pieces:?}");
        }
    }

    #[test]
    fn two_messages_of_one_answer_are_shown_once() {
        let mut shown = ShownText::default();
        assert_eq!(shown.piece("one two"), NewText::More("one two"));
        assert_eq!(shown.whole("one "), NewText::More(""));
        assert_eq!(shown.whole("two!"), NewText::More("!"));
        assert!(shown.is_empty());
    }

    #[test]
    fn of_a_message_without_end_a_bounded_beginning_is_kept() {
        let piece = "é".repeat(1 << 20);
        let mut shown = ShownText::default();
        for _ in 0..5 {
            assert_eq!(shown.piece(&piece), NewText::More(&piece));
        }
        assert_eq!(shown.start.len(), MAX_KEPT_BYTES);
        shown.start_attempt();
        for _ in 0..5 {
            assert_eq!(shown.piece(&piece), NewText::More(""));
        }
        assert_eq!(shown.piece("more"), NewText::More("more"));
        assert_eq!(shown.whole(&piece), NewText::More(""));
    }
}
