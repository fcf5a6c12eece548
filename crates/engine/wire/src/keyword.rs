//! Keywords of the events that carry facts, found without parsing.
//!
//! A word is a key or a value with its first quotation mark: in a text of a model every quotation mark is escaped.

use std::sync::LazyLock;

use convoke_protocol::wire::Wire;
use memchr::memmem::{Finder, FinderRev};

/// The key of counted tokens: `usage`, `usageMetadata`.
const USAGE: &str = "\"usage";
/// The key of the model: `model`, `modelVersion`. It counts until the model is known: some providers name it in every event.
const MODEL: &str = "\"model";

/// The words of other facts.
const OF_MESSAGES: &[&str] =
    &["\"error\"", "\"message_stop\"", "\"cache_miss_reason\"", "\"stop_reason\""];
const OF_RESPONSES: &[&str] = &[
    "\"error\"",
    "\"response.completed\"",
    "\"response.incomplete\"",
    "\"response.done\"",
    "\"refusal\"",
];
const OF_CHAT: &[&str] = &["\"error\"", "\"finish", "[DONE]", "\"refusal\""];
const OF_GEMINI: &[&str] = &["\"error\"", "\"finish", "\"blockReason\""];

/// The searches of one wire. The first two are for the words of tokens and of the model.
struct Finders {
    words: Vec<Finder<'static>>,
    last_usage: FinderRev<'static>,
}

const USAGE_AT: usize = 0;
const MODEL_AT: usize = 1;
/// The maximum number of words of a wire.
const MAX_KEYWORDS: usize = 7;

impl Finders {
    fn new(others: &'static [&'static str]) -> Self {
        let words = [USAGE, MODEL].iter().chain(others);
        Self {
            words: words.map(|it| Finder::new(*it)).collect(),
            last_usage: FinderRev::new(USAGE),
        }
    }

    fn for_wire(wire: Wire) -> &'static Self {
        static MESSAGES: LazyLock<Finders> = LazyLock::new(|| Finders::new(OF_MESSAGES));
        static RESPONSES: LazyLock<Finders> = LazyLock::new(|| Finders::new(OF_RESPONSES));
        static CHAT: LazyLock<Finders> = LazyLock::new(|| Finders::new(OF_CHAT));
        static GEMINI: LazyLock<Finders> = LazyLock::new(|| Finders::new(OF_GEMINI));
        match wire {
            Wire::Messages => &MESSAGES,
            Wire::Responses => &RESPONSES,
            Wire::Chat => &CHAT,
            Wire::Gemini => &GEMINI,
        }
    }
}

/// The keywords of a text, in order. Searches the text once for each keyword.
pub(crate) struct Keywords<'a> {
    text: &'a [u8],
    finders: &'static Finders,
    /// The next place of each word; `None` before the first search.
    next: [Option<usize>; MAX_KEYWORDS],
    /// The place before which counted tokens and models do not count, because later ones replace them.
    replaced_before: usize,
}

impl<'a> Keywords<'a> {
    pub(crate) fn in_text(wire: Wire, text: &'a [u8]) -> Self {
        Self {
            text,
            finders: Finders::for_wire(wire),
            next: [None; MAX_KEYWORDS],
            replaced_before: 0,
        }
    }

    /// Returns the place of the first word at `from` or later. `from` does not decrease from call to call.
    pub(crate) fn next(&mut self, from: usize, is_model_known: bool) -> Option<usize> {
        let mut first = self.text.len();
        for (index, finder) in self.finders.words.iter().enumerate() {
            if index == MODEL_AT && is_model_known {
                continue;
            }
            let is_replaceable = matches!(index, USAGE_AT | MODEL_AT);
            let from = if is_replaceable { from.max(self.replaced_before) } else { from };
            let next = &mut self.next[index];
            if next.is_none_or(|next| next < from) {
                *next = Some(find(finder, self.text, from));
            }
            first = first.min(next.unwrap_or(first));
        }
        (first < self.text.len()).then_some(first)
    }

    /// Returns the place of the last counted tokens before `end`.
    pub(crate) fn last_usage(&self, from: usize, end: usize) -> Option<usize> {
        let at = from + self.finders.last_usage.rfind(&self.text[from..end])?;
        is_keyword(self.text, at, at + USAGE.len()).then_some(at)
    }

    /// Returns whether a model is named between two places.
    pub(crate) fn names_model(&self, from: usize, end: usize) -> bool {
        self.finders.words[MODEL_AT].find(&self.text[from..end]).is_some()
    }

    /// Passes over the counted tokens and models before a place, because later ones replace them.
    pub(crate) fn replace_before(&mut self, place: usize) {
        self.replaced_before = place;
    }
}

/// Returns the position of a keyword whose value is not null, or the end.
fn find(finder: &Finder<'_>, text: &[u8], mut from: usize) -> usize {
    while let Some(at) = text.get(from..).and_then(|text| finder.find(text)) {
        let (at, end) = (from + at, from + at + finder.needle().len());
        if is_keyword(text, at, end) {
            return at;
        }
        from = end;
    }
    text.len()
}

/// Returns whether a word is a key, not part of a text (where its quotation mark would be escaped), and its value is not null.
fn is_keyword(text: &[u8], at: usize, end: usize) -> bool {
    let is_escaped = at > 0 && text[at - 1] == b'\\';
    !is_escaped && !is_null(&text[end..])
}

/// Returns whether the rest of a key is followed by null, as in `"finish_reason":null`, which some providers write in every
/// event.
fn is_null(rest: &[u8]) -> bool {
    let rest = after(rest, |byte| byte.is_ascii_alphabetic() || byte == b'_');
    let rest = rest.strip_prefix(b"\"").unwrap_or(rest);
    let value = after(rest, |byte| byte == b' ').strip_prefix(b":");
    value.is_some_and(|rest| after(rest, |byte| byte == b' ').starts_with(b"null"))
}

fn after(text: &[u8], skip: impl Fn(u8) -> bool) -> &[u8] {
    let end = text.iter().position(|&byte| !skip(byte)).unwrap_or(text.len());
    &text[end..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(text: &str, is_model_known: bool, replaced_before: usize) -> Vec<&str> {
        let mut words = Keywords::in_text(Wire::Chat, text.as_bytes());
        words.replace_before(replaced_before);
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(at) = words.next(from, is_model_known) {
            found.push(&text[at + 1..text.len().min(at + 6)]);
            from = at + 1;
        }
        found
    }

    #[test]
    fn words_are_found_in_order_and_keys_without_a_value_are_none() {
        let text = r#"{"model":"m","finish_reason":null,"usage" : null,"error" :null,"usage":{},"error":1,"usage""#;
        assert_eq!(places(text, true, 0), ["usage", "error", "usage"]);
        assert_eq!(places(text, false, 0), ["model", "usage", "error", "usage"]);
    }

    #[test]
    fn words_in_a_text_do_not_count() {
        let text = r#"{"content":"an error in the usage: \"usage\": 1, \"error\" \"finish"}"#;
        assert_eq!(places(text, false, 0), [""; 0]);
    }

    #[test]
    fn replaced_tokens_and_models_do_not_count_and_other_facts_do() {
        let text = r#"{"model":"m","usage":{}}{"error":{},"usage":{}}{"usage":{}}"#;
        assert_eq!(places(text, false, 30), ["error", "usage", "usage"]);
        assert_eq!(places(text, false, text.len() - 12), ["error", "usage"]);
        let words = Keywords::in_text(Wire::Chat, text.as_bytes());
        assert_eq!(words.last_usage(0, text.len()), Some(text.len() - 11));
        assert!(words.names_model(0, 20) && !words.names_model(20, text.len()));
    }
}
