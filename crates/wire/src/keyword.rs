//! Keywords of the events that carry facts, found without parsing.

use std::sync::LazyLock;

use memchr::memmem::Finder;

/// The words. The last counts until the model is known: some providers name it in every event.
const WORDS: [&str; 6] = ["usage", "message_stop", "error", "finish", "[DONE]", "\"model\""];
const MODEL: usize = WORDS.len() - 1;

static FINDERS: LazyLock<[Finder<'static>; WORDS.len()]> = LazyLock::new(|| WORDS.map(Finder::new));

/// The keywords of a text, in order. Searches the text once for each keyword.
pub(crate) struct Keywords<'a> {
    text: &'a [u8],
    /// The next place of each word; `None` before the first search.
    next: [Option<usize>; WORDS.len()],
}

impl<'a> Keywords<'a> {
    pub(crate) fn in_text(text: &'a [u8]) -> Self {
        Self { text, next: [None; WORDS.len()] }
    }

    /// Returns the place of the first word at `from` or later. `from` does not decrease from call to call.
    pub(crate) fn next(&mut self, from: usize, is_model_known: bool) -> Option<usize> {
        let finders = &*FINDERS;
        let count = if is_model_known { MODEL } else { WORDS.len() };
        for (finder, next) in finders.iter().zip(&mut self.next).take(count) {
            if next.is_none_or(|next| next < from) {
                *next = Some(find(finder, self.text, from));
            }
        }
        let first = self.next[..count].iter().flatten().copied().min();
        first.filter(|&first| first < self.text.len())
    }
}

/// Returns the position of a keyword whose value is not null, or the end.
fn find(finder: &Finder<'_>, text: &[u8], mut from: usize) -> usize {
    while let Some(at) = finder.find(&text[from..]) {
        let end = from + at + finder.needle().len();
        if !is_null(&text[end..]) {
            return from + at;
        }
        from = end;
    }
    text.len()
}

/// Returns whether the rest of a key is followed by null, as in `"finish_reason":null`, which some providers write in every
/// event.
fn is_null(rest: &[u8]) -> bool {
    let rest = after(rest, |byte| byte.is_ascii_alphabetic() || byte == b'_');
    let value = rest.strip_prefix(b"\"").map(|rest| after(rest, |byte| byte == b' '));
    let value = value.and_then(|rest| rest.strip_prefix(b":"));
    value.is_some_and(|rest| after(rest, |byte| byte == b' ').starts_with(b"null"))
}

fn after(text: &[u8], skip: impl Fn(u8) -> bool) -> &[u8] {
    let end = text.iter().position(|&byte| !skip(byte)).unwrap_or(text.len());
    &text[end..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_order_and_keys_without_a_value_are_none() {
        let text =
            br#"{"model":"m","finish_reason":null,"usage" : null,"usage":{},"error":1,"usage"#;
        let places = |is_model_known| {
            let mut words = Keywords::in_text(text);
            let mut found = Vec::new();
            let mut from = 0;
            while let Some(at) = words.next(from, is_model_known) {
                found.push(std::str::from_utf8(&text[at..text.len().min(at + 7)]).unwrap());
                from = at + 1;
            }
            found
        };
        assert_eq!(places(true), ["usage\":", "error\":", "usage"]);
        assert_eq!(places(false), ["\"model\"", "usage\":", "error\":", "usage"]);
    }
}
