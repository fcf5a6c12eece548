//! Redaction: secrets are taken out of a text before it is logged, stored or shown.
//!
//! Two nets: the values of secrets that we know, because they stand in an agent's environment, and
//! forms that only secrets have.

mod pem;
mod pieces;

use std::borrow::Cow;
use std::ffi::OsString;
use std::sync::Arc;

use convoke_core::Diagnostic;
use memchr::memmem;

use self::pem::Reach;
pub use self::pieces::StreamRedactor;
use crate::event::{Event, EventKind};
use crate::verdict::{Failure, Verdict};

/// What stands in a secret's place.
const MARK: &str = "[redacted]";
/// Values of variables that are shorter than this are words, not secrets.
const SHORTEST: usize = 8;
/// A key that is shorter than this stands in too many words to be taken out of them.
const SHORTEST_KEY: usize = 4;
/// What servers that want no key are given in its place. It is no secret, and people write of it.
const PLACEHOLDERS: [&str; 16] = [
    "anything",
    "apikey",
    "api-key",
    "default",
    "dummy",
    "empty",
    "fake",
    "key",
    "lm-studio",
    "local",
    "no-key",
    "none",
    "null",
    "ollama",
    "test",
    "unused",
];

/// Beginnings that only secrets have, and the fewest characters that follow.
const FORMS: &[(&str, usize)] = &[
    ("sk-", 20),
    ("sk_live_", 16),
    ("rk_live_", 16),
    ("ghp_", 30),
    ("gho_", 30),
    ("ghs_", 30),
    ("ghu_", 30),
    ("github_pat_", 40),
    ("glpat-", 18),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("xapp-", 20),
    ("AIza", 33),
    ("ya29.", 20),
    ("AKIA", 16),
    ("ASIA", 16),
    ("npm_", 34),
    ("hf_", 30),
    ("eyJ", 60),
];

/// Words in a variable's name that say its value is a secret.
const SECRET_NAMES: &[&str] =
    &["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "COOKIE"];

/// Takes secrets out of texts.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Longest first, so that a secret that begins with another is taken out whole.
    known: Arc<[String]>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} known secrets)", self.known.len())
    }
}

impl Redactor {
    /// Creates a redactor that knows the secrets of an environment.
    pub fn for_env(env: &[(OsString, OsString)]) -> Self {
        let secrets = env.iter().filter_map(|(name, value)| {
            let value = value.to_str()?;
            (is_secret_name(name.to_str()?) && value.len() >= SHORTEST).then_some(value)
        });
        Self::knowing(secrets.flat_map(spellings).collect())
    }

    /// Returns a redactor that knows a key, too.
    ///
    /// A key of fewer than eight characters is taken out where it stands as a word of its own. One of
    /// fewer than four, and what is given in place of a key (`none`, `ollama`), is left alone.
    #[must_use]
    pub fn and_key(&self, key: &str) -> Self {
        let lower = key.to_ascii_lowercase();
        if key.len() < SHORTEST_KEY || PLACEHOLDERS.contains(&&*lower) {
            return self.clone();
        }
        let mut known = self.known.to_vec();
        known.extend(spellings(key));
        Self::knowing(known)
    }

    fn knowing(mut known: Vec<String>) -> Self {
        known.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        known.dedup();
        Self { known: known.into() }
    }

    /// Returns the text without secrets; the same text when it has none.
    ///
    /// Costs one pass over the text for each known secret and each form.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        masked(text, &self.spans(text, None))
    }

    /// Takes the secrets out of a text, and returns in how many places there were any.
    pub fn redact_in_place(&self, text: &mut String) -> u64 {
        let spans = self.spans(text, None);
        let mut places = 0;
        let mut from = 0;
        for &(start, end) in &spans {
            places += u64::from(start >= from);
            from = from.max(end);
        }
        if let Cow::Owned(clean) = masked(text, &spans) {
            *text = clean;
        }
        places
    }

    /// Returns the text without the secrets that are known; everything else stays as it is.
    ///
    /// Costs one pass over the text for each known secret.
    pub fn redact_known<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut spans = self.known_in(text, None);
        spans.sort_unstable();
        masked(text, &spans)
    }

    /// Returns where the secrets of a text are, in order. They may overlap.
    fn spans(&self, text: &str, before: Option<u8>) -> Vec<(usize, usize)> {
        let mut spans = self.known_in(text, before);
        for &(beginning, fewest) in FORMS {
            for start in memmem::find_iter(text.as_bytes(), beginning.as_bytes()) {
                if begins_a_word(text, start, before) {
                    let body = start + beginning.len();
                    let length = form_body(&text[body..]).1;
                    if length >= fewest {
                        spans.push((start, body + length));
                    }
                }
            }
        }
        for start in memmem::find_iter(text.as_bytes(), pem::BEGINS.as_bytes()) {
            match pem::key(&text[start..]) {
                Reach::Nothing | Reach::Undecided => {}
                Reach::To(length) => spans.push((start, start + length)),
                Reach::AtLeast(_) => spans.push((start, text.len())),
            }
        }
        spans.sort_unstable();
        spans
    }

    fn known_in(&self, text: &str, before: Option<u8>) -> Vec<(usize, usize)> {
        let mut spans = Vec::new();
        for secret in self.known.iter() {
            let found = memmem::find_iter(text.as_bytes(), secret.as_bytes());
            let found = found.map(|start| (start, start + secret.len()));
            spans.extend(
                found.filter(|span| secret.len() >= SHORTEST || is_word(text, *span, before)),
            );
        }
        spans
    }
}

/// Tells whether the name of a variable says that its value is a secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_NAMES.iter().any(|word| name.contains(word))
}

/// Returns how a secret may be spelt: as it is, and in JSON.
fn spellings(secret: &str) -> [String; 2] {
    let quoted = serde_json::to_string(secret).unwrap_or_default();
    let escaped = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    [secret.to_owned(), escaped.unwrap_or(secret).to_owned()]
}

/// Returns a text with a mark in the place of each span.
fn masked<'t>(text: &'t str, spans: &[(usize, usize)]) -> Cow<'t, str> {
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut from = 0;
    for &(start, end) in spans {
        if start >= from {
            clean.push_str(&text[from..start]);
            clean.push_str(MARK);
        }
        from = from.max(end);
    }
    clean.push_str(&text[from..]);
    Cow::Owned(clean)
}

impl Redactor {
    /// Returns an event without secrets, for a log or a store.
    #[must_use]
    pub fn redact_event(&self, event: Event<'static>) -> Event<'static> {
        let clean = |text: Cow<'static, str>| match self.redact(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(clean) => Cow::Owned(clean),
        };
        let kind = match event.kind {
            EventKind::Text { text, part } => EventKind::Text { text: clean(text), part },
            EventKind::Thinking { text, part } => EventKind::Thinking { text: clean(text), part },
            EventKind::ToolStarted { id, name, input } => {
                EventKind::ToolStarted { id, name, input: clean(input) }
            }
            EventKind::ToolFinished { id, ok, output } => {
                EventKind::ToolFinished { id, ok, output: clean(output) }
            }
            EventKind::Unknown { name, json } => EventKind::Unknown { name, json: clean(json) },
            EventKind::Todo { mut items } => {
                for item in &mut items {
                    item.text = clean(std::mem::take(&mut item.text));
                }
                EventKind::Todo { items }
            }
            EventKind::Finished { verdict } => {
                EventKind::Finished { verdict: self.redact_verdict(verdict) }
            }
            other => return self.redact_notice(Event { kind: other, ..event }),
        };
        Event { kind, ..event }
    }

    /// Returns an event whose notices hold no secrets: an error message may quote a key.
    pub(crate) fn redact_notice(&self, mut event: Event<'static>) -> Event<'static> {
        match &mut event.kind {
            EventKind::Warning(diagnostic) => self.redact_diagnostic(diagnostic),
            EventKind::Retry { reason, .. } => {
                *reason = Cow::Owned(self.redact(reason).into_owned());
            }
            _ => {}
        }
        event
    }

    pub(crate) fn redact_diagnostic(&self, diagnostic: &mut Diagnostic) {
        if let Cow::Owned(clean) = self.redact(&diagnostic.message) {
            diagnostic.message = clean;
        }
    }

    pub(crate) fn redact_verdict(&self, verdict: Verdict) -> Verdict {
        match verdict {
            Verdict::Failed(Failure { reason, message }) => {
                Verdict::Failed(Failure::new(reason, self.redact(&message)))
            }
            other => other,
        }
    }
}

/// Tells whether a word begins at a place of a text, before which there was this byte.
fn begins_a_word(text: &str, at: usize, before: Option<u8>) -> bool {
    let before = text.as_bytes()[..at].last().copied().or(before);
    before.is_none_or(|byte| !byte.is_ascii_alphanumeric())
}

/// Tells whether a span is a word of its own. In JSON, `\n` before it is a line break and no letter.
fn is_word(text: &str, (start, end): (usize, usize), before: Option<u8>) -> bool {
    let is_letter = |c: char| c.is_alphanumeric();
    let so_far = &text[..start];
    let escape = so_far.len() >= 2 && so_far.as_bytes()[so_far.len() - 2] == b'\\';
    let begins = escape || !so_far.ends_with(is_letter) && begins_a_word(text, start, before);
    begins && !text[end..].starts_with(is_letter)
}

fn is_body(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// Returns how much of a text's beginning may be the body of a form, and how much of that is: a full stop
/// ends the sentence, not the secret.
fn form_body(text: &str) -> (usize, usize) {
    let length = text.bytes().take_while(|&b| is_body(b)).count();
    (length, text[..length].trim_end_matches('.').len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Part, TodoItem, TodoState};

    fn env(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        let pairs = pairs.iter();
        pairs.map(|(k, v)| ((*k).into(), (*v).into())).collect()
    }

    #[test]
    fn values_of_secret_variables_are_taken_out_wherever_they_stand() {
        let redactor = Redactor::for_env(&env(&[
            ("MY_API_KEY", "correct-horse"),
            ("HOME", "/home/somebody"),
            ("DB_PASSWORD", "short"),
        ]));
        assert_eq!(
            redactor.redact("at /home/somebody: correct-horse, short"),
            "at /home/somebody: [redacted], short"
        );
    }

    #[test]
    fn a_short_key_is_taken_out_where_it_is_a_word_and_a_placeholder_is_not() {
        let redacted =
            |key: &str, text: &str| Redactor::default().and_key(key).redact(text).into_owned();
        assert_eq!(
            redacted("hunter2", "is it hunter2? {\"k\":\"hunter2\"}"),
            "is it [redacted]? {\"k\":\"[redacted]\"}"
        );
        assert_eq!(
            redacted("pass", "pass a password:\\npass"),
            "[redacted] a password:\\n[redacted]"
        );
        assert_eq!(redacted("a\"b\\c1", "{\"x\":\"a\\\"b\\\\c1\"}"), "{\"x\":\"[redacted]\"}");
        for key in ["x", "abc", "none", "ollama", "EMPTY"] {
            let text = format!("the key is {key}");
            assert_eq!(redacted(key, &text), text);
        }
    }

    #[test]
    fn forms_of_secrets_are_taken_out_without_being_known() {
        let redactor = Redactor::default();
        let body = "a1B2".repeat(10);
        for (text, clean) in [
            (format!("key sk-{body}."), "key [redacted]."),
            (format!("ghp_{body}"), "[redacted]"),
            ("a task-list of sk-items".to_owned(), "a task-list of sk-items"),
            (
                format!("-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\n"),
                "[redacted]\n",
            ),
        ] {
            assert_eq!(redactor.redact(&text), clean);
        }
    }

    #[test]
    fn a_private_key_is_taken_out_to_its_end_and_its_title_alone_is_none() {
        let redactor = Redactor::default();
        let line = "a1B2+/c3".repeat(8);
        let title = "-----BEGIN RSA PRIVATE KEY-----";
        let end = "-----END RSA PRIVATE KEY-----";
        for (text, clean) in [
            (format!("it looks for `{title}`.\n\nIt misses EC keys\n[NEXT: you]"), None),
            (format!("{title}\n\nThe title stands alone.\n"), None),
            (format!("between {title} and {end} there is base64"), None),
            (format!("{title}\n{end}"), None),
            (format!("{title}\n...\n{end}\n"), None),
            (format!("{title}\n{line}\n{line}\nAb1=\n{end}\nover"), Some("[redacted]\nover")),
            (format!("{title}\r\n{line}\r\nAb1=\r\n{end}\r\nover"), Some("[redacted]\r\nover")),
            (format!("{title}\nMIIEabc\n{end} over"), Some("[redacted] over")),
            (
                format!(
                    "{title}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\n{line}\n{end}"
                ),
                Some("[redacted]"),
            ),
            (
                format!("{title}\n{line}\n{line}\n\nNo end. [NEXT: you]"),
                Some("[redacted]\n\nNo end. [NEXT: you]"),
            ),
            (format!("{title}\n{line}\n[NEXT: you]"), Some("[redacted]\n[NEXT: you]")),
            (format!("> {title}\n> {line}\n> {end}\nover"), Some("> [redacted]\nover")),
            (format!(" 1\t{title}\n 2\t{line}\n 3\t{line}\n"), Some(" 1\t[redacted]")),
            (
                format!("{{\"k\":\"{title}\\n{line}\\n{end}\\n\",\"a\":1}}"),
                Some("{\"k\":\"[redacted]\\n\",\"a\":1}"),
            ),
            (format!("K='{title} {line} {line} {end}'"), Some("K='[redacted]'")),
        ] {
            assert_eq!(redactor.redact(&text), clean.unwrap_or(&text), "{text}");
        }
    }

    #[test]
    fn a_known_secret_is_found_in_its_json_spelling_too() {
        let redactor = Redactor::for_env(&env(&[("A_TOKEN", "corr\"ect\\horse\"")]));
        assert_eq!(
            redactor.redact(r#"{"k":"corr\"ect\\horse\""} corr"ect\horse""#),
            r#"{"k":"[redacted]"} [redacted]"#
        );
    }

    #[test]
    fn every_text_of_an_event_is_redacted() {
        let redactor = Redactor::for_env(&env(&[("A_TOKEN", "correct-horse")]));
        let secret = || Cow::Borrowed("a correct-horse");
        let failure = Failure::new(crate::verdict::Reason::Auth, "a correct-horse");
        let item = TodoItem { text: secret(), state: TodoState::Pending };
        let notice = Diagnostic::new(crate::diagnostics::AGENT_NOTICE, "a correct-horse");
        for kind in [
            EventKind::Text { text: secret(), part: Part::Whole },
            EventKind::Thinking { text: secret(), part: Part::Delta },
            EventKind::ToolStarted { id: "1".into(), name: "sh".into(), input: secret() },
            EventKind::ToolFinished { id: "1".into(), ok: true, output: secret() },
            EventKind::Todo { items: vec![item] },
            EventKind::Unknown { name: "x".into(), json: secret() },
            EventKind::Retry {
                attempt: 1,
                max: None,
                status: None,
                wait_ms: None,
                reason: secret(),
            },
            EventKind::Warning(notice),
            EventKind::Finished { verdict: Verdict::Failed(failure) },
        ] {
            let text = format!("{:?}", redactor.redact_event(Event::own(kind)));
            assert!(text.contains("a [redacted]") && !text.contains("horse"), "{text}");
        }
    }

    #[test]
    fn whatever_follows_the_beginning_of_a_key_is_no_panic() {
        for text in ["é".repeat(40), format!("x{}", "é".repeat(40))] {
            let text = format!("-----BEGIN {text}");
            assert_eq!(Redactor::default().redact(&text), text);
        }
    }

    #[test]
    fn a_text_without_secrets_is_not_copied() {
        assert!(matches!(Redactor::default().redact("nothing to see"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_redactor_never_shows_what_it_knows() {
        let redactor = Redactor::for_env(&env(&[("A_TOKEN", "correct-horse")]));
        assert!(!format!("{redactor:?}").contains("correct"));
    }
}
