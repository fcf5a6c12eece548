//! Formats of keys: a prefix that only keys have, and a body of known characters and length.
//!
//! Names can begin like keys (`sk-`, `hf_`, `glpat-`), so the body must also look random. If the length of a
//! key is known, a body of that length may look less random.

use std::collections::HashMap;
use std::sync::LazyLock;

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::dfa::DFA;
use aho_corasick::{Anchored, MatchKind};

use crate::boundary::Boundary;
use crate::mask::Span;
use crate::randomness::Randomness;

/// The maximum length of a candidate. Longer ones are not keys.
const MAX_OPEN: usize = 8 << 10;
/// The maximum number of characters between the name of a key and its value.
const MAX_GLUE: usize = 8;

const ALNUM: u8 = UPPER | LOWER | DIGIT;
const UPPER: u8 = 1;
const LOWER: u8 = 1 << 1;
const DIGIT: u8 = 1 << 2;
const UNDERSCORE: u8 = 1 << 3;
const DASH: u8 = 1 << 4;
const DOT: u8 = 1 << 5;
/// `+`, `/` and `=`.
const BASE64: u8 = 1 << 6;
/// `-` and `_`.
const URL: u8 = DASH | UNDERSCORE;

/// A format of keys.
struct Format {
    beginnings: &'static [&'static str],
    /// Whether the prefix names the key, which follows after white space, `=`, `:` or quotation marks.
    is_name: bool,
    /// The characters of the body.
    alphabet: u8,
    /// The minimum length of the body.
    length: usize,
    test: Test,
}

/// The condition on a body besides its length.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Test {
    Random,
    /// Random, or an irregular mix of upper and lower case.
    Mixed,
    /// Random, or of exactly that length with all kinds of characters or an irregular mix of cases.
    Length,
    /// Of exactly that length, and not made of words.
    Exact,
    /// Parts joined by dots.
    Dotted,
}

const fn format(
    beginnings: &'static [&'static str],
    alphabet: u8,
    length: usize,
    test: Test,
) -> Format {
    Format { beginnings, is_name: false, alphabet, length, test }
}

const fn named(
    beginnings: &'static [&'static str],
    alphabet: u8,
    length: usize,
    test: Test,
) -> Format {
    Format { beginnings, is_name: true, alphabet, length, test }
}

static FORMATS: &[Format] = &[
    // OpenAI, Anthropic, OpenRouter, DeepSeek, Langfuse and others.
    format(&["sk-"], ALNUM | URL, 20, Test::Random),
    format(&["xai-"], ALNUM | UNDERSCORE, 32, Test::Random),
    format(&["gsk_", "pplx-"], ALNUM, 32, Test::Mixed),
    format(&["hf_", "api_org_"], ALNUM, 30, Test::Mixed),
    format(&["nvapi-"], ALNUM | URL, 40, Test::Random),
    format(&["r8_"], ALNUM, 34, Test::Mixed),
    // Stripe and webhooks.
    format(&["sk_live_", "sk_test_", "rk_live_", "rk_test_"], ALNUM, 24, Test::Length),
    format(&["whsec_"], ALNUM | BASE64, 32, Test::Length),
    // Forges and registries.
    format(&["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], ALNUM, 30, Test::Mixed),
    format(&["github_pat_"], ALNUM | UNDERSCORE, 40, Test::Random),
    format(
        &["glpat-", "gldt-", "glrt-", "glptt-", "glft-", "glsoat-", "glcbt-", "glagent-"],
        ALNUM | URL | DOT,
        20,
        Test::Length,
    ),
    format(&["npm_"], ALNUM, 34, Test::Mixed),
    format(&["pypi-"], ALNUM | URL, 40, Test::Random),
    format(&["rubygems_", "pul-"], ALNUM, 40, Test::Mixed),
    format(&["dckr_pat_"], ALNUM | URL, 27, Test::Length),
    format(&["ATATT3"], ALNUM | URL | BASE64, 60, Test::Random),
    // Slack.
    format(
        &["xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxo-", "xoxe-", "xoxe.", "xapp-"],
        ALNUM | DASH | DOT,
        20,
        Test::Random,
    ),
    // Clouds.
    format(&["AKIA", "ASIA", "ABIA", "ACCA"], UPPER | DIGIT, 16, Test::Exact),
    named(
        &[
            "secret_access_key",
            "SECRET_ACCESS_KEY",
            "SecretAccessKey",
            "secretAccessKey",
            "awsSecretAccessKey",
        ],
        ALNUM | BASE64,
        40,
        Test::Exact,
    ),
    named(&["AccountKey", "SharedAccessKey"], ALNUM | BASE64, 40, Test::Mixed),
    format(&["AIza"], ALNUM | URL, 35, Test::Length),
    format(&["ya29."], ALNUM | URL | DOT, 20, Test::Random),
    format(&["GOCSPX-"], ALNUM | URL, 28, Test::Length),
    format(&["dop_v1_", "doo_v1_", "dor_v1_"], ALNUM, 60, Test::Mixed),
    format(&["dapi"], ALNUM, 32, Test::Mixed),
    format(&["hvs.", "hvb."], ALNUM | URL, 24, Test::Random),
    // Other services.
    format(&["SG."], ALNUM | URL | DOT, 50, Test::Random),
    format(&["shpat_", "shpss_", "shppa_", "shpca_"], ALNUM, 32, Test::Mixed),
    format(&["sntrys_", "sntryu_"], ALNUM | URL | BASE64, 40, Test::Random),
    format(&["glsa_", "glc_"], ALNUM | UNDERSCORE | BASE64, 30, Test::Random),
    format(&["lin_api_", "ntn_"], ALNUM, 32, Test::Mixed),
    format(&["figd_", "PMAK-"], ALNUM | URL, 36, Test::Random),
    format(&["AGE-SECRET-KEY-1"], UPPER | DIGIT, 50, Test::Mixed),
    // Tokens of any service.
    format(&["eyJ"], ALNUM | URL | DOT, 40, Test::Dotted),
    named(&["Basic", "basic"], ALNUM | BASE64, 16, Test::Mixed),
    named(&["Bearer", "bearer"], ALNUM | URL | DOT | BASE64, 20, Test::Random),
];

/// A prefix that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// The prefix of a format, by its index in the table.
    Format(usize),
    /// The start of the title of a private key.
    Pem,
    /// The start of a URL's authority.
    Url,
}

impl Prefix {
    /// Returns whether the prefix counts only at the start of a word.
    fn begins_word(self) -> bool {
        matches!(self, Self::Format(_))
    }
}

/// Finds the prefixes of all formats.
struct PrefixAutomaton {
    automaton: DFA,
    start: StateID,
    kinds: Vec<Prefix>,
    /// For each state, the lengths of the suffixes read so far that are incomplete prefixes, longest first,
    /// each with whether it counts only at the start of a word.
    open: HashMap<StateID, Vec<(usize, bool)>>,
}

static LEADS: LazyLock<Option<PrefixAutomaton>> = LazyLock::new(PrefixAutomaton::new);

impl PrefixAutomaton {
    /// Builds the automaton. Cannot fail for a table of this size.
    fn new() -> Option<Self> {
        let formats = FORMATS.iter().enumerate().flat_map(|(index, format)| {
            format.beginnings.iter().map(move |beginning| (*beginning, Prefix::Format(index)))
        });
        let others =
            [(crate::pem::BEGINS, Prefix::Pem), ("://", Prefix::Url), (":\\/\\/", Prefix::Url)];
        let (texts, kinds): (Vec<&str>, Vec<Prefix>) = formats.chain(others).unzip();
        let automaton = DFA::builder().match_kind(MatchKind::Standard).build(&texts).ok()?;
        let start = automaton.start_state(Anchored::No).ok()?;
        let beginning = |end: &str| {
            let longer = texts.iter().zip(&kinds);
            let mut longer = longer.filter(|(text, _)| text.len() > end.len());
            let mut found = longer.by_ref().filter(|(text, _)| text.starts_with(end)).peekable();
            found.peek()?;
            Some((end.len(), found.all(|(_, lead)| lead.begins_word())))
        };
        let mut open = HashMap::new();
        for text in &texts {
            let mut state = start;
            for (before, byte) in text.bytes().enumerate() {
                state = automaton.next_state(Anchored::No, state, byte);
                let ends = (0..=before).map(|from| &text[from..=before]);
                open.insert(state, ends.filter_map(beginning).collect());
            }
        }
        Some(Self { automaton, start, kinds, open })
    }

    fn found(&self, state: StateID) -> impl Iterator<Item = (Prefix, usize)> {
        let count =
            if self.automaton.is_match(state) { self.automaton.match_len(state) } else { 0 };
        (0..count).map(move |index| {
            let pattern = self.automaton.match_pattern(state, index);
            (self.kinds[pattern.as_usize()], self.automaton.pattern_len(pattern))
        })
    }
}

/// Finds keys by their formats.
#[derive(Debug, Clone)]
pub(crate) struct FormatScan {
    state: StateID,
    candidates: Vec<Candidate>,
    randomness: Randomness,
}

/// A candidate for a key.
#[derive(Debug, Clone)]
struct Candidate {
    format: usize,
    /// The starts of the key and of its body.
    start: usize,
    body: usize,
    /// The number of characters that may still follow between a name and its value.
    glue: usize,
    is_random: bool,
    /// The number of upper-case letters, lower-case letters and digits.
    capitals: usize,
    small: usize,
    digits: usize,
    has_dot: bool,
    /// Whether the last byte is a dot, which ends a sentence unless more follows.
    ends_with_dot: bool,
    /// Whether it is certainly a key, whatever follows.
    is_sure: bool,
}

impl FormatScan {
    /// Starts a text.
    pub fn new() -> Self {
        let state = LEADS.as_ref().map(|leads| leads.start).unwrap_or_default();
        Self { state, candidates: Vec::new(), randomness: Randomness::default() }
    }

    /// Reads the byte at a position. Adds the keys that end before it, and returns what else begins after it.
    pub fn step(
        &mut self,
        byte: u8,
        at: usize,
        boundary: &Boundary,
        spans: &mut Vec<Span>,
    ) -> Option<(Prefix, usize)> {
        if !self.candidates.is_empty() {
            self.step_candidates(byte, at, spans);
        }
        let leads = LEADS.as_ref()?;
        self.state = leads.automaton.next_state(Anchored::No, self.state, byte);
        let mut other = None;
        for (lead, length) in leads.found(self.state) {
            if lead.begins_word() && !boundary.is_start_of_last(length) {
                continue;
            }
            match lead {
                Prefix::Format(format) => self.begin(format, at + 1 - length, at + 1),
                Prefix::Pem | Prefix::Url => other = Some((lead, length)),
            }
        }
        other
    }

    /// Ends the text: adds the keys that end with it.
    pub fn finish(&mut self, at: usize, spans: &mut Vec<Span>) {
        let is_random = self.randomness.end_segment();
        for mut candidate in self.candidates.drain(..) {
            candidate.is_random |= is_random;
            spans.extend(candidate.ended(at, true));
        }
    }

    /// Adds the known part of the keys that continue.
    pub fn report(&self, at: usize, spans: &mut Vec<Span>) {
        for candidate in self.candidates.iter().filter(|candidate| candidate.is_sure) {
            spans.push(Span { start: candidate.start, end: candidate.end(at) });
        }
    }

    /// Returns the position after which more text is needed to decide.
    pub fn open_from(&self, at: usize, boundary: &Boundary) -> usize {
        let candidates = self
            .candidates
            .iter()
            .map(|candidate| if candidate.is_sure { candidate.end(at) } else { candidate.start });
        let open = LEADS.as_ref().and_then(|leads| leads.open.get(&self.state));
        let beginning = open
            .into_iter()
            .flatten()
            .find(|(length, begins_word)| !begins_word || boundary.is_start_of_last(*length));
        let beginning = beginning.map(|(length, _)| at - length);
        candidates.chain(beginning).fold(at, usize::min)
    }

    /// Returns the number of steps that the next byte costs.
    #[cfg(test)]
    pub fn cost(&self) -> usize {
        1 + self.candidates.len()
    }

    fn begin(&mut self, format: usize, start: usize, body: usize) {
        // A candidate inside another of the same format ends with it.
        if self.candidates.iter().any(|candidate| candidate.format == format) {
            return;
        }
        if self.candidates.is_empty() {
            self.randomness = Randomness::default();
        }
        let is_name = FORMATS[format].is_name;
        self.candidates.push(Candidate {
            format,
            start: if is_name { body } else { start },
            body,
            glue: if is_name { MAX_GLUE } else { 0 },
            is_random: false,
            capitals: 0,
            small: 0,
            digits: 0,
            has_dot: false,
            ends_with_dot: false,
            is_sure: false,
        });
    }

    fn step_candidates(&mut self, byte: u8, at: usize, spans: &mut Vec<Span>) {
        let is_random = self.randomness.step(byte);
        let kind = kind(byte);
        self.candidates.retain_mut(|candidate| {
            candidate.is_random |= is_random;
            match candidate.step(byte, kind, at) {
                Step::More => true,
                Step::Drop => false,
                Step::Ended => {
                    spans.extend(candidate.ended(at, !byte.is_ascii_alphanumeric()));
                    false
                }
            }
        });
    }
}

enum Step {
    More,
    Ended,
    Drop,
}

impl Candidate {
    fn format(&self) -> &'static Format {
        &FORMATS[self.format]
    }

    /// Returns where the candidate ends, if it ends before a position.
    fn end(&self, at: usize) -> usize {
        at - usize::from(self.ends_with_dot)
    }

    fn step(&mut self, byte: u8, kind: u8, at: usize) -> Step {
        if self.glue > 0 {
            if matches!(byte, b' ' | b'\t' | b'=' | b':' | b'>' | b'"' | b'\'' | b'\\') {
                self.glue -= 1;
                (self.start, self.body) = (at + 1, at + 1);
                return Step::More;
            }
            self.glue = 0;
        }
        if kind & self.format().alphabet == 0 || kind == DOT && self.ends_with_dot {
            return Step::Ended;
        }
        if kind == DOT {
            self.ends_with_dot = true;
            return Step::More;
        }
        self.has_dot |= std::mem::take(&mut self.ends_with_dot);
        match kind {
            UPPER => self.capitals += 1,
            LOWER => self.small += 1,
            DIGIT => self.digits += 1,
            _ => {}
        }
        self.is_sure |= self.format().test != Test::Exact && self.is_key(at + 1);
        if !self.is_sure && at + 1 - self.start > MAX_OPEN { Step::Drop } else { Step::More }
    }

    /// Returns the key that ended before a position, at the end of a word or not.
    fn ended(&self, at: usize, ends_word: bool) -> Option<Span> {
        let end = self.end(at);
        let is_exact = ends_word && end - self.body == self.format().length;
        let is_key = match self.format().test {
            Test::Exact => is_exact && (self.digits > 0 || self.is_random),
            Test::Length if is_exact && (self.has_all_kinds() || self.has_mixed_case()) => true,
            _ => self.is_sure || self.is_key(end),
        };
        is_key.then_some(Span { start: self.start, end })
    }

    fn is_key(&self, end: usize) -> bool {
        let is_long = end - self.body >= self.format().length;
        is_long
            && match self.format().test {
                Test::Exact => true,
                Test::Random | Test::Length => self.is_random,
                Test::Mixed => self.is_random || self.has_mixed_case(),
                Test::Dotted => self.has_dot,
            }
    }
}

impl Candidate {
    fn has_all_kinds(&self) -> bool {
        self.capitals > 0 && self.small > 0 && self.digits > 0
    }

    /// Returns whether there are more upper-case letters than in names of functions and types.
    fn has_mixed_case(&self) -> bool {
        self.capitals.min(self.small) * 4 >= self.capitals + self.small && self.small > 0
    }
}

fn kind(byte: u8) -> u8 {
    match byte {
        b'A'..=b'Z' => UPPER,
        b'a'..=b'z' => LOWER,
        b'0'..=b'9' => DIGIT,
        b'_' => UNDERSCORE,
        b'-' => DASH,
        b'.' => DOT,
        b'+' | b'/' | b'=' => BASE64,
        _ => 0,
    }
}
