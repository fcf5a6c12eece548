//! The key is taken out of what enters a thread, wherever it comes from. So what is sent, what is stored
//! and what the model is taken to know are one text, and none of it holds the key.

use std::borrow::Cow;

use convoke_core::ledger::{ENVELOPE, Entry, Ledger, Source};
use convoke_core::{Fragment, SourcedText, TextWriter};
use convoke_files::Head;
use convoke_thread::prompt::Request;

use crate::secret::Key;
use crate::wire::Answer;
use crate::wire::strings::each_string;

/// No key is longer. So much more of a file is read, that no limit leaves a part of one.
pub(crate) const LONGEST_KEY: u64 = 8 << 10;

/// Returns a text without the key, with the entries that cover it. A text that the given entries do not
/// cover, or whose key stands across two of them, is one message of the user.
pub(crate) fn sourced(
    key: Option<&Key>,
    text: &str,
    entries: Vec<Entry<'static>>,
    section: &'static str,
) -> SourcedText<'static> {
    let mut clean = text.to_owned();
    if let Some(key) = key {
        key.take_out_of(&mut clean);
    }
    let sourced = SourcedText::covered(text.to_owned(), entries);
    let sourced = match (sourced, key) {
        (Some(sourced), Some(key)) if clean != text => Some(without_key_in(key, &sourced)),
        (sourced, _) => sourced,
    };
    sourced.filter(|sourced| sourced.text() == clean).unwrap_or_else(|| {
        let source = Source::Message { id: None, index: None };
        SourcedText::of(section, Fragment::new(clean, source))
    })
}

/// Takes the key out of each entry's own text.
fn without_key_in(key: &Key, text: &SourcedText<'static>) -> SourcedText<'static> {
    let mut out = TextWriter::new("");
    for (own, entry) in text.pieces() {
        let mut own = own.to_owned();
        key.take_out_of(&mut own);
        out.section(entry.section.clone());
        let fragment = Fragment::new(own, entry.source.clone());
        out.cut_fragment(fragment, entry.cut_bytes, entry.rule.clone());
    }
    out.finish()
}

/// Removes the key from everything that a server sent: texts, calls, ids, names.
pub(crate) fn answer(key: &Key, answer: &mut Answer) {
    answer.model.iter_mut().for_each(|model| key.take_out_of(model));
    for item in &mut answer.items {
        each_string(item, &mut |_, text| key.take_out_of(text));
    }
}

/// Returns a request without the key, when it stands in one all the same: in the name of a directory. Its
/// ledger covers the body that is sent.
pub(crate) fn request(key: &Key, request: &Request) -> Option<Request> {
    let Cow::Owned(body) = key.redactor().redact_known(&request.body) else { return None };
    let entries = request.ledger.entries().collect();
    let sourced = SourcedText::covered(request.body.clone(), entries);
    let sourced = sourced.map(|sourced| without_key_in(key, &sourced));
    let sourced = sourced.filter(|sourced| sourced.text() == body).unwrap_or_else(|| {
        let source = Source::Convoke { what: Cow::Borrowed(ENVELOPE) };
        SourcedText::of(ENVELOPE, Fragment::new(body, source))
    });
    let (body, entries) = sourced.into_parts();
    let mut ledger = Ledger::new(None);
    for entry in entries {
        ledger.push(entry);
    }
    Some(Request { body, ledger, ..request.clone() })
}

/// Takes the key out of the start of a file, of which `limit` bytes are wanted and more were read.
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
    // What is no text stays as it is; a key is text.
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
    use super::*;

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
