//! One pass over a text that finds all secrets.
//!
//! Each byte is passed once to each detector: the automaton of known values, the automaton of formats with its
//! open candidates, and the private key and URL that are being read, if any. A detector keeps everything it
//! needs in its state, so no byte is read again.

use std::sync::Arc;

use aho_corasick::automaton::StateID;

use crate::boundary::Boundary;
use crate::encoding::{EncodedScan, Encodings};
use crate::format::{FormatScan, Prefix};
use crate::known::{Known, Place};
use crate::mask::Span;
use crate::pem::PrivateKey;
use crate::url::Authority;

/// Known values, as given and in other spellings.
#[derive(Debug)]
pub(crate) struct KnownValues {
    pub plain: Arc<Known>,
    pub encodings: Encodings,
}

/// Finds the secrets of one text, given in any pieces.
#[derive(Debug, Clone)]
pub(crate) struct Scan {
    /// The number of bytes read.
    at: usize,
    boundary: Boundary,
    known: Option<(Arc<Known>, StateID)>,
    encoded: Option<EncodedScan>,
    /// A known value that counts if the word ends here.
    word: Option<Span>,
    formats: Option<FormatScan>,
    private_key: Option<PrivateKey>,
    authority: Option<Authority>,
    spans: Vec<Span>,
    #[cfg(test)]
    pub steps: u64,
}

impl Scan {
    /// Starts a text, searching for known values and optionally for formats.
    pub fn new(known: Option<&KnownValues>, formats: bool) -> Self {
        Self {
            at: 0,
            boundary: Boundary::default(),
            known: known.map(|known| (Arc::clone(&known.plain), known.plain.start())),
            encoded: known.map(|known| EncodedScan::new(&known.encodings)),
            word: None,
            formats: formats.then(FormatScan::new),
            private_key: None,
            authority: None,
            spans: Vec::new(),
            #[cfg(test)]
            steps: 0,
        }
    }

    /// Returns how many bytes were read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Reads a piece of the text.
    pub fn read(&mut self, piece: &str) {
        for byte in piece.bytes() {
            #[cfg(test)]
            self.count_steps();
            self.boundary.step(byte);
            self.step_known(byte);
            if let Some(encoded) = &mut self.encoded {
                encoded.step(byte, self.at, &mut self.spans);
            }
            if self.formats.is_some() {
                self.step_formats(byte);
            }
            self.at += 1;
        }
    }

    /// Ends the text, which decides everything that is open.
    pub fn finish(&mut self) {
        self.spans.extend(self.word.take());
        if let Some(formats) = &mut self.formats {
            formats.finish(self.at, &mut self.spans);
        }
        self.spans.extend(self.private_key.take().and_then(|key| key.at_end_of_text(self.at)));
        self.spans.extend(self.authority.take().and_then(|authority| authority.password()));
    }

    /// Returns the position before which nothing can change, and the spans that begin before it. For a secret
    /// that continues, the part before the position is complete.
    pub fn settled(&mut self) -> (usize, &mut Vec<Span>) {
        let mut settled = self.at;
        if let Some((known, state)) = &self.known {
            settled -= known.open_bytes(*state);
        }
        let encoded = self.encoded.as_ref().and_then(EncodedScan::open_from);
        let word = self.word.map(|word| word.start);
        let formats = self.formats.as_ref();
        let format = formats.map(|formats| formats.open_from(self.at, &self.boundary));
        let key = self.private_key.as_ref().map(PrivateKey::open_from);
        let password = self.authority.as_ref().and_then(Authority::open_from);
        settled =
            [encoded, word, format, key, password].into_iter().flatten().fold(settled, usize::min);
        if let Some(formats) = formats {
            formats.report(self.at, &mut self.spans);
        }
        self.spans.extend(self.private_key.as_ref().and_then(PrivateKey::so_far));
        (settled, &mut self.spans)
    }

    /// Returns the spans of a finished text.
    pub fn into_spans(self) -> Vec<Span> {
        self.spans
    }

    fn step_known(&mut self, byte: u8) {
        let word = self.word.take();
        self.spans.extend(word.filter(|_| !byte.is_ascii_alphanumeric()));
        let Some((known, state)) = &mut self.known else { return };
        *state = known.step(*state, byte);
        let end = self.at + 1;
        for (length, place) in known.found(*state) {
            let span = Span { start: end - length, end };
            match place {
                Place::Anywhere => self.spans.push(span),
                Place::Word if self.boundary.is_start_of_last(length) => {
                    // The longest one begins first.
                    self.word = self.word.min(Some(span)).or(Some(span));
                }
                Place::Word => {}
            }
        }
    }

    fn step_formats(&mut self, byte: u8) {
        let at = self.at;
        if let Some(key) = &mut self.private_key
            && !key.step(byte, at)
        {
            self.spans.extend(key.so_far());
            self.private_key = None;
        }
        if let Some(authority) = &mut self.authority
            && !authority.step(byte, at)
        {
            self.spans.extend(authority.password());
            self.authority = None;
        }
        let Some(formats) = &mut self.formats else { return };
        match formats.step(byte, at, &self.boundary, &mut self.spans) {
            Some((Prefix::Pem, length)) => {
                self.spans.extend(self.private_key.take().and_then(|key| key.so_far()));
                self.private_key = Some(PrivateKey::new(at + 1 - length));
            }
            Some((Prefix::Url, _)) => self.authority = Some(Authority::new(at + 1)),
            Some((Prefix::Format(_), _)) | None => {}
        }
    }

    #[cfg(test)]
    fn count_steps(&mut self) {
        let open = [self.private_key.is_some(), self.authority.is_some()];
        let found = self.known.as_ref().map_or(0, |(known, state)| known.found(*state).count());
        let formats = self.formats.as_ref().map_or(0, FormatScan::cost);
        let open = open.into_iter().filter(|open| *open).count();
        self.steps += (1 + found + formats + open) as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Returns texts that make a detector start again and again.
    fn hostile(bytes: usize) -> Vec<String> {
        let repeated = |text: &str| text.repeat(bytes / text.len());
        [
            "sk-",
            "sk-a1B2",
            "sk-glpat-xoxb-pypi-nvapi-ghp_github_pat_eyJ.SG.",
            "-----BEGIN PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----\n",
            "-----BEGIN PRIVATE KEY-----\nVersion: 1",
            "-----BEGIN PRIVATE KEY-----\nab",
            "-----",
            "eyJ.",
            "Bearer ",
            "Bearer eyJ.sk-ya29.",
            "http://a:b@",
            "://a:",
            "secret_access_key=",
            "aaaaaaaa",
            "aaaaaaab",
            "\\",
            "%25",
            "%2525",
            "\\u00",
            "Y29ycm    ",
            "Y29ycmVjdC1ob3JzZS1i\n",
            ".",
        ]
        .map(repeated)
        .to_vec()
    }

    #[test]
    fn every_byte_costs_a_bounded_number_of_steps() {
        let values = (8..40).map(|length| ("a".repeat(length).into_bytes(), Place::Anywhere));
        let plain = Known::new(&values.collect::<BTreeMap<_, _>>()).map(Arc::new).unwrap();
        let encodings = Encodings::new(["correct-horse-battery"].into_iter());
        let known = KnownValues { plain, encodings };
        for (small, large) in hostile(20_000).iter().zip(hostile(80_000)) {
            let steps = |text: &str| {
                let mut scan = Scan::new(Some(&known), true);
                scan.read(text);
                scan.steps
            };
            let (few, many) = (steps(small), steps(&large));
            let most = 64 * large.len() as u64;
            assert!(many <= few * 9 / 2 && many <= most, "{few} and {many}: {large:.60}");
        }
    }

    #[test]
    fn what_is_held_back_is_bounded() {
        let plain = Known::new(&BTreeMap::from([(b"xxxxxxxx".to_vec(), Place::Anywhere)])).unwrap();
        let encodings = Encodings::new(["correct-horse-battery"].into_iter());
        let known = KnownValues { plain: Arc::new(plain), encodings };
        for text in hostile(50_000) {
            let mut scan = Scan::new(Some(&known), true);
            for piece in text.as_bytes().chunks(1000) {
                scan.read(str::from_utf8(piece).unwrap());
                let (settled, spans) = scan.settled();
                spans.clear();
                assert!(scan.at - settled <= 9 << 10, "{} {:.60}", scan.at - settled, text);
            }
        }
    }
}
