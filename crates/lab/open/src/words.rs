//! The words of texts: how they are split, and what of a session is searched.

use std::borrow::Cow;

use convoke_source::EntryKind;
use serde_json::Value;

/// The maximum number of characters of a word by which the index knows it.
pub(crate) const MAX_WORD: usize = 40;

/// Returns what of an entry can be found without reading outputs of tools, and what kind of text it is.
pub(crate) fn said<'e>(kind: &'e EntryKind<'_>) -> Option<(&'static str, Cow<'e, str>)> {
    match kind {
        EntryKind::Person { text } => Some(("message", Cow::Borrowed(text))),
        EntryKind::Text { text } => Some(("reply", Cow::Borrowed(text))),
        EntryKind::Call { name, input, .. } => Some(("command", command(name, input).into())),
        EntryKind::Changed(changes) => {
            let paths: Vec<&str> = changes.iter().map(|change| &*change.path).collect();
            Some(("file", paths.join(" ").into()))
        }
        _ => None,
    }
}

/// Returns a call as a person would read it: the texts of its input without the signs of JSON.
fn command(name: &str, input: &str) -> String {
    let mut text = name.to_owned();
    if let Ok(input) = serde_json::from_str(input) {
        add_values(&input, &mut text);
    } else {
        text.push(' ');
        text.push_str(input);
    }
    text
}

fn add_values(value: &Value, text: &mut String) {
    match value {
        Value::String(value) => {
            text.push(' ');
            text.push_str(value);
        }
        Value::Array(values) => values.iter().for_each(|value| add_values(value, text)),
        Value::Object(fields) => fields.values().for_each(|value| add_values(value, text)),
        Value::Number(number) => {
            text.push(' ');
            text.push_str(&number.to_string());
        }
        Value::Bool(_) | Value::Null => {}
    }
}

/// Calls a function with each word of a text in lower case, with its first characters only.
pub(crate) fn each_word(text: &str, mut take: impl FnMut(&str)) {
    let mut word = String::new();
    let runs = text.split(|character: char| !character.is_alphanumeric());
    for run in runs.filter(|run| !run.is_empty()) {
        word.clear();
        word.extend(run.chars().flat_map(char::to_lowercase).take(MAX_WORD));
        take(&word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_without_the_signs_of_json() {
        let input = r#"{"command":"echo \"one\"\nneedle","timeout":30,"flags":["-l"]}"#;
        let kind = EntryKind::Call { id: "1", name: "Bash", input };
        let (kind, text) = said(&kind).unwrap();
        assert_eq!((kind, &*text), ("command", "Bash echo \"one\"\nneedle 30 -l"));
        let mut words = Vec::new();
        each_word("The LOGIN_page, prüfen", |word| words.push(word.to_owned()));
        assert_eq!(words, ["the", "login", "page", "prüfen"]);
    }
}
