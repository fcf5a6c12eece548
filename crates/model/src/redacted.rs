//! Removes the key from everything that enters a thread. The sent text, the stored text and the thread are
//! therefore the same, and none of them contains the key.

use std::borrow::Cow;

use convoke_core::ledger::{ENVELOPE, Entry, Rule, Source};
use convoke_core::{Fragment, SourcedText, TextWriter};
use convoke_files::Head;
use convoke_thread::diagnostics;
use convoke_thread::prompt::Request;

use crate::secret::Key;
use crate::wire::ParsedResponse;
use crate::wire::strings::each_string;

/// The maximum length of a key. Files are read this far beyond a limit, so that a limit never cuts a key.
pub(crate) const MAX_KEY_BYTES: u64 = 8 << 10;

/// The rule of entries whose texts contained the key.
const REMOVED: &str = "the key was removed";

/// Returns a text without the key, with the entries that cover it. A text without entries was not assembled: it has one
/// source, `whole`. If the entries do not cover the text, or the key spans two of them, its source is not known.
pub(crate) fn sourced(
    key: Option<&Key>,
    text: &str,
    entries: Vec<Entry<'static>>,
    section: &'static str,
    whole: Source<'static>,
) -> SourcedText<'static> {
    let mut clean = text.to_owned();
    if let Some(key) = key {
        key.take_out_of(&mut clean);
    }
    if entries.is_empty() {
        return SourcedText::new(section, Fragment::new(clean, whole));
    }
    let sourced = SourcedText::covered(text.to_owned(), entries);
    let sourced = match (sourced, key) {
        (Some(sourced), Some(key)) if clean != text => Some(without_key_in(key, &sourced)),
        (sourced, _) => sourced,
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

/// Removes the key from the text of each entry.
fn without_key_in(key: &Key, text: &SourcedText<'static>) -> SourcedText<'static> {
    let mut out = TextWriter::new("");
    for (own, entry) in text.pieces() {
        let mut clean = own.to_owned();
        key.take_out_of(&mut clean);
        let rule = if clean == own { entry.rule.clone() } else { Rule::Other(REMOVED.into()) };
        // The mark may be longer than the key.
        let removed = own.len().saturating_sub(clean.len()) as u64;
        out.section(entry.section.clone());
        let fragment = Fragment::new(clean, entry.source.clone());
        out.cut_fragment(fragment, entry.cut_bytes + removed, rule);
    }
    out.finish()
}

/// Removes the key from everything in a response: texts, calls, ids, names.
pub(crate) fn answer(key: &Key, answer: &mut ParsedResponse) {
    answer.model.iter_mut().for_each(|model| key.take_out_of(model));
    for item in &mut answer.items {
        each_string(item, &mut |_, text| key.take_out_of(text));
    }
}

/// Returns a request without the key if it still contains the key, for example in the name of a directory. The
/// ledger covers the new body.
pub(crate) fn request(key: &Key, request: &Request) -> Option<Request> {
    let Cow::Owned(body) = key.redactor().redact_known(&request.body) else { return None };
    let entries = request.ledger.entries().collect();
    let sourced = SourcedText::covered(request.body.clone(), entries);
    let sourced = sourced.map(|sourced| without_key_in(key, &sourced));
    let mut diagnostics = request.diagnostics.clone();
    let sourced = sourced.filter(|sourced| sourced.text() == body).unwrap_or_else(|| {
        // The key spans two entries: what belongs to which is no longer known.
        diagnostics.push(diagnostics::unattributed(body.len() as u64));
        unattributed(ENVELOPE, body)
    });
    let (body, entries) = sourced.into_parts();
    let ledger = entries.into_iter().collect();
    Some(Request { body, ledger, diagnostics, ..request.clone() })
}

/// Removes the key from the start of a file, of which more than `limit` bytes were read.
pub(crate) fn head(key: &Key, read: Head, limit: u64) -> Head {
    let Head { bytes, size } = read;
    let rest = size.saturating_sub(bytes.len() as u64);
    let mut bytes = without_key(key, &bytes);
    let size = rest + bytes.len() as u64;
    bytes.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Head { bytes, size }
}

fn without_key(key: &Key, bytes: &[u8]) -> Vec<u8> {
    let mut clean = Vec::with_capacity(bytes.len());
    // Invalid UTF-8 is left unchanged, because a key is text.
    for chunk in bytes.utf8_chunks() {
        let mut text = chunk.valid().to_owned();
        key.take_out_of(&mut text);
        clean.extend_from_slice(text.as_bytes());
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
        let text = sourced(None, "hello", vec![entry], "user", typed());
        assert_eq!(text.entries()[0].source, Source::History { index: None });
        assert_eq!(text.entries()[0].rule, Rule::Unattributed);
        let text = sourced(None, "hello", Vec::new(), "user", typed());
        assert_eq!((&text.entries()[0].source, &text.entries()[0].rule), (&typed(), &Rule::Fits));
    }

    #[test]
    fn entries_whose_texts_contained_the_key_say_so() {
        let key = Key::from_env("K", &[("K".into(), "correct-horse".into())]).unwrap();
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
        let clean = sourced(Some(&key), text, entries, "user", typed());
        let pieces: Vec<_> = clean
            .pieces()
            .map(|(own, entry)| (own, entry.rule.to_string(), entry.cut_bytes))
            .collect();
        let expected = [("in ", "fits".to_owned(), 0), ("/[redacted]/a", REMOVED.to_owned(), 3)];
        assert_eq!(pieces, expected);
    }

    #[test]
    fn a_key_that_a_limit_would_cut_in_two_is_taken_out_whole() {
        let key = Key::from_env("K", &[("K".into(), "correct-horse".into())]).unwrap();
        let read = |text: &[u8], limit| {
            head(&key, Head { bytes: text.to_vec(), size: text.len() as u64 }, limit)
        };
        let cut = read(b"is correct-horse", 8);
        assert_eq!((cut.bytes.as_slice(), cut.size), (b"is [reda".as_slice(), 13));
        let odd = read(b"\xffcorrect-horse\xff", 100);
        assert_eq!((odd.bytes.as_slice(), odd.size), (b"\xff[redacted]\xff".as_slice(), 12));
    }
}
