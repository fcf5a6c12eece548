//! Redaction of a text that arrives in pieces: a secret may be cut anywhere.
//!
//! What could be the beginning of a secret is held back until the text shows whether it is one. Most
//! texts are handed on as they come, because few words begin like a secret.

use std::borrow::Cow;

use memchr::memmem;

use super::{FORMS, KEY_BEGINS, KEY_TITLE, Redactor, SHORTEST, begins_a_word, is_body, masked};

/// How much is held back at the most, beside what could be a known secret; what is longer is a secret
/// whose middle nobody needs.
const MOST_HELD: usize = 8 << 10;
/// How much of a long secret's beginning is needed to know it for one.
const HEAD: usize = 128;

/// Takes secrets out of one text that arrives in pieces.
#[derive(Debug, Clone)]
pub struct Pieces {
    redactor: Redactor,
    /// What may be the beginning of a secret.
    held: String,
    /// The byte before it.
    before: Option<u8>,
}

impl Redactor {
    /// Begins to redact a text that arrives in pieces.
    pub fn pieces(&self) -> Pieces {
        Pieces { redactor: self.clone(), held: String::new(), before: None }
    }

    /// Returns how much of a text is settled: no text after it can make a secret of it, or a secret longer.
    fn settled(&self, text: &str, before: Option<u8>) -> usize {
        let known = self.known.iter().filter_map(|secret| {
            // A short one is a secret only when no letter follows.
            let is_open = secret.len() < SHORTEST && text.ends_with(&**secret);
            if is_open { Some(text.len() - secret.len()) } else { overlap(text, secret) }
        });
        // A form is made of nothing but the characters of a secret's body, and so is what it may become.
        let run = text.bytes().rev().take_while(|&byte| is_body(byte)).count();
        let run = text.len() - run;
        let begins = |start: &usize| begins_a_word(text, *start, before);
        let forms = FORMS.iter().filter_map(|(beginning, _)| {
            let found = memmem::find_iter(&text.as_bytes()[run..], beginning.as_bytes());
            let found = found.map(|start| run + start).find(begins);
            found.or_else(|| overlap(text, beginning).filter(begins))
        });
        let key = text.match_indices(KEY_BEGINS).map(|(start, _)| start);
        let key = key.into_iter().find(|&start| !is_key_settled(&text[start..]));
        let starts = known.chain(forms).chain(key).chain(overlap(text, KEY_BEGINS));
        starts.min().unwrap_or(text.len())
    }
}

impl Pieces {
    /// Takes in a piece and returns what can be shown now.
    ///
    /// Costs one pass over the piece, and over what is held back, for each known secret and each form.
    pub fn push<'p>(&mut self, piece: &'p str) -> Cow<'p, str> {
        let held = std::mem::take(&mut self.held);
        let text = if held.is_empty() { Cow::Borrowed(piece) } else { Cow::Owned(held + piece) };
        let spans = self.redactor.spans(&text, self.before);
        let mut settled = self.redactor.settled(&text, self.before);
        // A secret that is there already is not cut where another may begin in it.
        while let Some((start, _)) =
            spans.iter().find(|(start, end)| *start < settled && settled < *end)
        {
            settled = *start;
        }
        if text.len() - settled > self.most_held() {
            let is_secret = spans.iter().any(|(start, _)| *start == settled);
            if !is_secret {
                settled = text.len();
            }
        }
        self.hold(&text[settled..]);
        let spans: Vec<_> = spans.into_iter().filter(|(_, end)| *end <= settled).collect();
        if settled > 0 {
            self.before = text.as_bytes().get(settled - 1).copied();
        }
        match text {
            Cow::Borrowed(text) => masked(&text[..settled], &spans),
            Cow::Owned(text) => Cow::Owned(masked(&text[..settled], &spans).into_owned()),
        }
    }

    /// Returns what was held back, when no more pieces will come.
    pub fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        let spans = self.redactor.spans(&held, self.before);
        self.before = None;
        masked(&held, &spans).into_owned()
    }

    fn longest_known(&self) -> usize {
        self.redactor.known.first().map_or(0, String::len)
    }

    fn most_held(&self) -> usize {
        MOST_HELD + self.longest_known()
    }

    /// Holds a text back; of a long secret only what is needed to know it, and to see its end.
    fn hold(&mut self, text: &str) {
        if text.len() <= self.most_held() {
            text.clone_into(&mut self.held);
            return;
        }
        let head = text.ceil_char_boundary(HEAD);
        let tail = text.floor_char_boundary(text.len() - HEAD - self.longest_known());
        self.held = format!("{}{}", &text[..head], &text[tail..]);
    }
}

/// Returns where the longest end of a text begins that is the beginning, and not all, of a word.
fn overlap(text: &str, word: &str) -> Option<usize> {
    let longest = text.len().min(word.len().saturating_sub(1));
    let mut lengths = (1..=longest).rev();
    let length = lengths.find(|&length| text.as_bytes().ends_with(&word.as_bytes()[..length]))?;
    Some(text.len() - length)
}

/// Tells whether a text that begins like a private key is none, or whether its end is there.
fn is_key_settled(text: &str) -> bool {
    let line = text.find('\n');
    if line.is_none() && text.len() < KEY_TITLE {
        return false;
    }
    match super::private_key(text, 0) {
        None => true,
        Some((_, end)) => end < text.len(),
    }
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
                assert!(stream.held.len() <= stream.most_held());
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
