//! Redaction of a text that arrives in pieces: a secret may be cut anywhere.
//!
//! What could be the beginning of a secret is held back until the text shows whether it is one. Most
//! texts are handed on as they come, because few words begin like a secret.

use std::borrow::Cow;

use memchr::memmem;

use super::pem::{self, Reach};
use super::{FORMS, MARK, Redactor, SHORTEST, begins_a_word, form_body, is_body, masked};

/// How much is held back at the most, beside what could be a known secret. What is longer and shows no
/// secret is none.
const MOST_HELD: usize = 8 << 10;

/// Takes secrets out of one text that arrives in pieces.
#[derive(Debug, Clone)]
pub struct StreamRedactor {
    redactor: Redactor,
    /// What may be the beginning of a secret, or still belong to the one whose beginning is past.
    held: String,
    /// The byte before it.
    before: Option<u8>,
    /// The secret whose mark was handed on, and whose end has not come.
    inside: Option<Inside>,
}

/// A secret that goes on for as long as the text looks like it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Form,
    Key,
}

impl Redactor {
    /// Begins to redact a text that arrives in pieces.
    pub fn pieces(&self) -> StreamRedactor {
        StreamRedactor { redactor: self.clone(), held: String::new(), before: None, inside: None }
    }

    /// Returns how much of a text is settled: no text after it can make a secret of it, or a secret longer.
    fn settled(&self, text: &str, before: Option<u8>) -> usize {
        // A form is made of nothing but the characters of a secret's body, and so is what it may become.
        let run = text.bytes().rev().take_while(|&byte| is_body(byte)).count();
        let run = text.len() - run;
        let begins = |start: &usize| begins_a_word(text, *start, before);
        let forms = FORMS.iter().filter_map(|(beginning, _)| {
            let found = memmem::find_iter(&text.as_bytes()[run..], beginning.as_bytes());
            let found = found.map(|start| run + start).find(begins);
            found.or_else(|| overlap(text, beginning).filter(begins))
        });
        let keys = text.match_indices(pem::BEGINS).map(|(start, _)| start);
        let key = keys.into_iter().find(|&start| {
            matches!(pem::key(&text[start..]), Reach::Undecided | Reach::AtLeast(_))
        });
        let starts = forms.chain(key).chain(overlap(text, pem::BEGINS));
        starts.min().unwrap_or(text.len()).min(self.known_settled(text))
    }

    /// Returns how much of a text is settled as far as known secrets go.
    fn known_settled(&self, text: &str) -> usize {
        let known = self.known.iter().filter_map(|secret| {
            // A short one is a secret only when no letter follows.
            let is_open = secret.len() < SHORTEST && text.ends_with(&**secret);
            if is_open { Some(text.len() - secret.len()) } else { overlap(text, secret) }
        });
        known.min().unwrap_or(text.len())
    }
}

impl Inside {
    /// Returns the secret that a text begins with and that is not over, and how much of it is there.
    fn enter(text: &str) -> Option<(Self, usize)> {
        if let Reach::AtLeast(length) = pem::key(text) {
            return Some((Self::Key, length));
        }
        FORMS.iter().find_map(|(beginning, fewest)| {
            let body = text.strip_prefix(beginning)?;
            let (length, sure) = form_body(body);
            let is_open = length == body.len() && sure >= *fewest;
            is_open.then_some((Self::Form, beginning.len() + sure))
        })
    }

    /// Returns how far a secret goes on in a text.
    fn reach(self, text: &str) -> Reach {
        match self {
            Self::Key => pem::rest_of_key(text),
            Self::Form => {
                let (length, sure) = form_body(text);
                if length == text.len() { Reach::AtLeast(sure) } else { Reach::To(sure) }
            }
        }
    }
}

impl StreamRedactor {
    /// Takes in a piece and returns what can be shown now.
    ///
    /// Costs one pass over the piece, and over what is held back, for each known secret and each form.
    /// Nothing is held back of a secret whose mark was handed on but what shows where it ends.
    pub fn push<'p>(&mut self, piece: &'p str) -> Cow<'p, str> {
        let held = std::mem::take(&mut self.held);
        let text = if held.is_empty() { Cow::Borrowed(piece) } else { Cow::Owned(held + piece) };
        let Some(from) = self.leave(&text) else { return Cow::Borrowed("") };
        match text {
            Cow::Borrowed(text) => self.show(&text[from..]),
            Cow::Owned(text) => Cow::Owned(self.show(&text[from..]).into_owned()),
        }
    }

    /// Returns what was held back, when no more pieces will come.
    pub fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        let from = match self.inside.take() {
            None => 0,
            Some(Inside::Key) => held.len(),
            Some(Inside::Form) => form_body(&held).1,
        };
        let spans = self.redactor.spans(&held[from..], self.before);
        self.before = None;
        masked(&held[from..], &spans).into_owned()
    }

    /// Returns where the secret is over whose mark was handed on; none, and holds back what decides it,
    /// where it may go on.
    fn leave(&mut self, text: &str) -> Option<usize> {
        let Some(inside) = self.inside else { return Some(0) };
        let end = match inside.reach(text) {
            Reach::AtLeast(sure) => {
                let kept = sure.min(self.redactor.known_settled(text));
                text[kept..].clone_into(&mut self.held);
                return None;
            }
            Reach::To(end) => end,
            Reach::Nothing | Reach::Undecided => 0,
        };
        // A known secret that begins in this one is no less secret where this one is over.
        let known = self.redactor.known_in(text, self.before);
        let ends = known.iter().filter(|(start, _)| *start < end).map(|(_, end)| *end);
        let end = ends.max().map_or(end, |known| known.max(end));
        let unsettled = self.redactor.known_settled(text);
        if unsettled < end {
            text[unsettled..].clone_into(&mut self.held);
            return None;
        }
        self.inside = None;
        self.before = text.as_bytes()[..end].last().copied().or(self.before);
        Some(end)
    }

    /// Returns what can be shown of a text now, and holds back the rest.
    fn show<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        let mut spans = self.redactor.spans(text, self.before);
        let mut settled = self.redactor.settled(text, self.before);
        // A secret that is there already is not cut where another may begin in it.
        while let Some((start, _)) =
            spans.iter().find(|(start, end)| *start < settled && settled < *end)
        {
            settled = *start;
        }
        let entered = Inside::enter(&text[settled..]);
        let is_long = text.len() - settled > MOST_HELD + self.longest_known();
        if entered.is_none() && is_long {
            settled = text.len();
        }
        let sure = entered.map_or(0, |(_, length)| length);
        self.inside = entered.map(|(inside, _)| inside);
        let mut rest = settled + sure;
        if entered.is_some() {
            rest = rest.min(self.redactor.known_settled(text).max(settled));
        }
        text[rest..].clone_into(&mut self.held);
        self.before = text.as_bytes()[..rest].last().copied().or(self.before);
        spans.retain(|(_, end)| *end <= settled);
        let shown = masked(&text[..settled], &spans);
        if entered.is_some() { shown + MARK } else { shown }
    }

    fn longest_known(&self) -> usize {
        self.redactor.known.first().map_or(0, String::len)
    }
}

/// Returns where the longest end of a text begins that is the beginning, and not all, of a word.
fn overlap(text: &str, word: &str) -> Option<usize> {
    let longest = text.len().min(word.len().saturating_sub(1));
    let mut lengths = (1..=longest).rev();
    let length = lengths.find(|&length| text.as_bytes().ends_with(&word.as_bytes()[..length]))?;
    Some(text.len() - length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_pieces(redactor: &Redactor, pieces: &[&str]) -> Vec<String> {
        let mut stream = redactor.pieces();
        let mut shown: Vec<String> =
            pieces.iter().map(|piece| stream.push(piece).into_owned()).collect();
        shown.push(stream.finish());
        shown
    }

    fn redactor() -> Redactor {
        let keys = ["correct-horse-battery", "horse-battery/staple", "ünïcödé-secret", "pass"];
        keys.into_iter().fold(Redactor::default(), |redactor, key| redactor.and_key(key))
    }

    #[test]
    fn wherever_a_text_is_cut_it_comes_out_as_if_it_had_come_whole() {
        let body = "a1B2".repeat(16);
        let texts = [
            "the key is correct-horse-battery, or not".to_owned(),
            "correct-horse-battery/staple and correct-horse-batterie".to_owned(),
            "pass the password to bypass pass, and then pass".to_owned(),
            "an ünïcödé-secret and an ünïcödé-secre".to_owned(),
            format!("key sk-{body}. And sk-short, task-{body}, _sk-{body}"),
            format!("ask-{body} s sk sk- sk-{body}correct-horse-battery/x"),
            format!("eyJ{body}{body}.{body}…"),
            format!("ya29.{body} ----- -----BEGIN nothing -----BEGIN {}", "é".repeat(60)),
            format!("a -----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\nb"),
            format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIV"),
            format!(
                "-----BEGIN PRIVATE KEY-----\n{body}\n{body}\nAb1=\n-----END PRIVATE KEY-----."
            ),
            format!("-----BEGIN PRIVATE KEY-----\n{body}\n\nIt misses EC keys.\n[NEXT: you]"),
            format!("{{\"k\":\"-----BEGIN PRIVATE KEY-----\\n{body}\\n{body}\\n\",\"a\":1}}"),
            "`-----BEGIN RSA PRIVATE KEY-----`.\n\nIt misses EC keys\n[NEXT: you]".to_owned(),
            "-----BEGIN RSA PRIVATE KEY-----\nYes\n\nIt misses EC keys".to_owned(),
            format!("sk-{body}horse-battery/staple, sk-{body}horse-battery/stapler"),
            "-----BEGIN PRIVATE K".to_owned(),
        ];
        let redactor = redactor();
        for text in &texts {
            let whole = redactor.redact(text);
            let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            for &cut in &ends {
                let shown = in_pieces(&redactor, &[&text[..cut], &text[cut..]]);
                assert_eq!(shown.concat(), whole, "{text} at {cut}");
            }
            for size in 1..9 {
                let mut pieces = Vec::new();
                let mut rest = text.as_str();
                while !rest.is_empty() {
                    let (piece, left) = rest.split_at(rest.ceil_char_boundary(size));
                    pieces.push(piece);
                    rest = left;
                }
                assert_eq!(in_pieces(&redactor, &pieces).concat(), whole, "{text} by {size}");
            }
        }
    }

    #[test]
    fn only_what_could_be_a_secret_waits() {
        let shown =
            in_pieces(&redactor(), &["Hello ", "there, ", "it is corr", "ect", " and ", "s"]);
        assert_eq!(shown, ["Hello ", "there, ", "it is ", "", "correct and ", "", "s"]);
        let mut stream = redactor().pieces();
        assert!(matches!(stream.push("nothing to see"), Cow::Borrowed("nothing to see")));
    }

    #[test]
    fn a_secret_without_an_end_is_not_kept() {
        for (beginning, end, clean) in [
            ("sk-", " over", "[redacted] over"),
            (
                "-----BEGIN PRIVATE KEY-----\n",
                "\n-----END PRIVATE KEY-----\nover",
                "[redacted]\nover",
            ),
        ] {
            let mut stream = redactor().pieces();
            let mut shown = stream.push(beginning).into_owned();
            let piece = "x".repeat(10_000);
            for _ in 0..100 {
                shown += &stream.push(&piece);
                assert!(stream.held.len() <= 64, "{}", stream.held.len());
            }
            shown += &stream.push(end);
            shown += &stream.finish();
            assert_eq!(shown, clean);
        }
        let long = format!("a long secret {}", "y ".repeat(MOST_HELD));
        let (beginning, end) = long.split_at(long.len() - 1);
        let shown = in_pieces(&Redactor::default().and_key(&long), &["it is ", beginning, end]);
        assert_eq!(shown.concat(), "it is [redacted]");
        let mut stream = redactor().pieces();
        let dots = format!("sk-{}", ".".repeat(2 * MOST_HELD));
        assert_eq!(stream.push(&dots), dots, "what is too long to wait and no secret is shown");
    }
}
