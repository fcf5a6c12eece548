//! Removes the known secrets (the key and those of the environment) from everything that enters a thread. The sent
//! text, the stored text and the thread are therefore the same, and none of them contains a secret.

use std::borrow::Cow;

use convoke_core::ledger::{ENVELOPE, Entry, Rule, Source};
use convoke_core::{Fragment, SourcedText, TextWriter};
use convoke_files::Head;
use convoke_redact::Redactor;
use convoke_thread::diagnostics;
use convoke_thread::prompt::Request;

use crate::wire::ParsedResponse;
use crate::wire::strings::each_string;

/// The maximum length of a secret. Files are read this far beyond a limit, so that a limit never cuts a secret.
pub(crate) const MAX_SECRET_BYTES: u64 = 8 << 10;

/// The rule of entries whose texts contained a secret.
const REMOVED: &str = "a secret was removed";

/// Returns a text without secrets, with the entries that cover it. A text without entries was not assembled: it has one
/// source, `whole`. If the entries do not cover the text, or a secret spans two of them, its source is not known.
pub(crate) fn sourced(
    redactor: &Redactor,
    text: &str,
    entries: Vec<Entry<'static>>,
    section: &'static str,
    whole: Source<'static>,
) -> SourcedText<'static> {
    let clean = redactor.redact_known(text).into_owned();
    if entries.is_empty() {
        return SourcedText::new(section, Fragment::new(clean, whole));
    }
    let sourced = SourcedText::covered(text.to_owned(), entries);
    let sourced = match sourced {
        Some(sourced) if clean != text => Some(without_secrets_in(redactor, &sourced)),
        sourced => sourced,
    };
    sourced
        .filter(|sourced| sourced.text() == clean)
        .unwrap_or_else(|| unattributed(section, clean))
}

fn unattributed(section: &'static str, text: String) -> SourcedText<'static> {
    let mut out = TextWriter::new(section);
    let fragment = Fragment::new(text, Source::History { index: None });
    out.cut_fragment(fragment, 0, Rule::Unattributed);
    out.finish()
}

/// Removes secrets from the text of each entry.
fn without_secrets_in(redactor: &Redactor, text: &SourcedText<'static>) -> SourcedText<'static> {
    let mut out = TextWriter::new("");
    for (own, entry) in text.pieces() {
        let clean = redactor.redact_known(own).into_owned();
        let rule = if clean == own { entry.rule.clone() } else { Rule::Other(REMOVED.into()) };
        // The mark may be longer than the secret.
        let removed = own.len().saturating_sub(clean.len()) as u64;
        out.section(entry.section.clone());
        let fragment = Fragment::new(clean, entry.source.clone());
        out.cut_fragment(fragment, entry.cut_bytes + removed, rule);
    }
    out.finish()
}

/// Removes secrets from everything in a response: texts, calls, ids, names.
pub(crate) fn answer(redactor: &Redactor, answer: &mut ParsedResponse) {
    answer.model.iter_mut().for_each(|model| text(redactor, model));
    for item in &mut answer.items {
        each_string(item, &mut |_, found| text(redactor, found));
    }
}

/// Removes secrets from a text.
pub(crate) fn text(redactor: &Redactor, text: &mut String) {
    if let Cow::Owned(clean) = redactor.redact_known(text) {
        *text = clean;
    }
}

/// Returns a request without secrets if it still contains one, for example in the name of a directory. The ledger
/// covers the new body.
pub(crate) fn request(redactor: &Redactor, request: &Request) -> Option<Request> {
    let Cow::Owned(body) = redactor.redact_known(&request.body) else { return None };
    let entries = request.ledger.entries().collect();
    let sourced = SourcedText::covered(request.body.clone(), entries);
    let sourced = sourced.map(|sourced| without_secrets_in(redactor, &sourced));
    let mut diagnostics = request.diagnostics.clone();
    let sourced = sourced.filter(|sourced| sourced.text() == body).unwrap_or_else(|| {
        // A secret spans two entries: what belongs to which is no longer known.
        diagnostics.push(diagnostics::unattributed(body.len() as u64));
        unattributed(ENVELOPE, body)
    });
    let (body, entries) = sourced.into_parts();
    let ledger = entries.into_iter().collect();
    Some(Request { body, ledger, diagnostics, ..request.clone() })
}

/// Removes secrets from the start of a file, of which more than `limit` bytes were read.
pub(crate) fn head(redactor: &Redactor, read: Head, limit: u64) -> Head {
    let Head { bytes, size } = read;
    let rest = size.saturating_sub(bytes.len() as u64);
    let mut bytes = without_secrets(redactor, &bytes);
    let size = rest + bytes.len() as u64;
    bytes.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Head { bytes, size }
}

fn without_secrets(redactor: &Redactor, bytes: &[u8]) -> Vec<u8> {
    let mut clean = Vec::with_capacity(bytes.len());
    // Invalid UTF-8 is left unchanged, because a secret is text.
    for chunk in bytes.utf8_chunks() {
        clean.extend_from_slice(redactor.redact_known(chunk.valid()).as_bytes());
        clean.extend_from_slice(chunk.invalid());
    }
    clean
}

#[cfg(test)]
mod tests {
    use convoke_core::ledger::Target;

    use super::*;

    fn typed() -> Source<'static> {
        Source::Message { id: None, index: None }
    }

    #[test]
    fn a_text_whose_entries_do_not_cover_it_is_no_message_of_the_user() {
        let entry = Entry {
            target: Target::Prompt,
            section: "MESSAGE".into(),
            source: typed(),
            range: 0..3,
            cut_bytes: 0,
            rule: Rule::Fits,
        };
        let none = Redactor::default();
        let text = sourced(&none, "hello", vec![entry], "user", typed());
        assert_eq!(text.entries()[0].source, Source::History { index: None });
        assert_eq!(text.entries()[0].rule, Rule::Unattributed);
        let text = sourced(&none, "hello", Vec::new(), "user", typed());
        assert_eq!((&text.entries()[0].source, &text.entries()[0].rule), (&typed(), &Rule::Fits));
    }

    #[test]
    fn entries_whose_texts_contained_a_secret_say_so() {
        let redactor = Redactor::for_env(&[("MY_KEY".into(), "correct-horse".into())]);
        let entry = |section: &'static str, range| Entry {
            target: Target::Prompt,
            section: section.into(),
            source: Source::setting("cwd"),
            range,
            cut_bytes: 0,
            rule: Rule::Fits,
        };
        let text = "in /correct-horse/a";
        let entries = vec![entry("a", 0..3), entry("b", 3..19)];
        let clean = sourced(&redactor, text, entries, "user", typed());
        let pieces: Vec<_> = clean
            .pieces()
            .map(|(own, entry)| (own, entry.rule.to_string(), entry.cut_bytes))
            .collect();
        let expected = [("in ", "fits".to_owned(), 0), ("/[redacted]/a", REMOVED.to_owned(), 3)];
        assert_eq!(pieces, expected);
    }

    #[test]
    fn a_key_that_a_limit_would_cut_in_two_is_taken_out_whole() {
        let redactor = Redactor::for_env(&[("MY_KEY".into(), "correct-horse".into())]);
        let read = |text: &[u8], limit| {
            head(&redactor, Head { bytes: text.to_vec(), size: text.len() as u64 }, limit)
        };
        let cut = read(b"is correct-horse", 8);
        assert_eq!((cut.bytes.as_slice(), cut.size), (b"is [reda".as_slice(), 13));
        let odd = read(b"\xffcorrect-horse\xff", 100);
        assert_eq!((odd.bytes.as_slice(), odd.size), (b"\xff[redacted]\xff".as_slice(), 12));
    }
}
