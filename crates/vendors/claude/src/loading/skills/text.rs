//! The description of a skill, as Claude Code reads and sends it.

use std::borrow::Cow;

use convoke_core::whitespace::trim;
use unicode_width::UnicodeWidthStr;

use super::super::scope::{Budget, Scope};
use crate::loading::Release;
use convoke_explain::front_matter::{FrontMatter, Yaml, split};
use convoke_explain::skills::Stated;

/// The longest first line of a text that is shown whole, in characters.
const MAX_FIRST_LINE: usize = 100;

/// The fields of a skill's front matter.
#[derive(Debug)]
pub(super) struct About {
    /// `name`.
    pub name: Option<String>,
    pub description: Description,
    /// The key that keeps it out of the list.
    pub hidden_by: Option<&'static str>,
    /// The `paths:` with which it is listed only after a read.
    pub paths: Option<String>,
}

/// The description of a skill.
#[derive(Debug)]
pub(super) struct Description {
    /// As the file states it.
    pub stated: String,
    /// As Claude Code reads it, `when_to_use` included.
    pub shown: String,
    /// Whether the first line of the text replaces it.
    pub is_from_body: bool,
}

/// The form of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Skill,
    /// A file of a `commands` directory. It has no other name, and is listed whatever its `paths`.
    Command,
}

impl Form {
    /// Returns the description of a file without any text.
    const fn undescribed(self) -> &'static str {
        match self {
            Self::Skill => "Skill",
            Self::Command => "Custom command",
        }
    }
}

impl About {
    /// Reads the head of a file.
    pub(super) fn read(text: &str, edition: Release, form: Form) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let split = split(text);
        let front = split.front.map_or(FrontMatter::Other, FrontMatter::read);
        let value = |key: &str| front.field(key).and_then(plain);
        let described = value("description").filter(|it| !it.is_empty());
        let is_from_body = described.is_none();
        let stated = match &described {
            Some(description) => description.clone(),
            None => Stated::leniently(text).0,
        };
        let mut shown = described.unwrap_or_else(|| first_line(split.body, form.undescribed()));
        if let Some(when) = value("when_to_use").filter(|it| !it.is_empty()) {
            shown = format!("{shown} - {when}");
        }
        let is_true = |value: String| match edition {
            Release::V197 => value == "true",
            Release::V325 => matches!(&*value.to_lowercase(), "true" | "yes" | "on" | "1"),
        };
        let is_hidden = value("disable-model-invocation").is_some_and(is_true);
        let paths = match Scope::new(&front, &mut Budget::default()) {
            Scope::Always => None,
            Scope::Matching(paths) => Some(paths.written.join(", ")),
        };
        let name = match front.field("name") {
            Some(Yaml::List(items)) if items.len() == 1 => items.first().and_then(plain),
            Some(value) => plain(value),
            None => None,
        };
        let is_skill = form == Form::Skill;
        Self {
            name: name.filter(|_| is_skill && edition != Release::V197),
            description: Description { stated, shown, is_from_body },
            hidden_by: is_hidden.then_some("disable-model-invocation"),
            paths: paths.filter(|_| is_skill),
        }
    }
}

fn plain(value: &Yaml) -> Option<String> {
    match value {
        Yaml::Text(text) | Yaml::Scalar(text) => Some(trim(text).to_owned()),
        Yaml::List(_) | Yaml::Map(_) | Yaml::Null => None,
    }
}

/// The first line of a text, without the mark of a heading.
fn first_line(body: &str, empty: &str) -> String {
    let Some(line) = body.lines().map(trim).find(|line| !line.is_empty()) else {
        return empty.to_owned();
    };
    let heading = line.trim_start_matches('#');
    let is_heading = heading.len() < line.len() && heading.starts_with([' ', '\t']);
    let line = if is_heading { trim(heading) } else { line };
    if line.chars().count() <= MAX_FIRST_LINE {
        return line.to_owned();
    }
    let kept: String = line.chars().take(MAX_FIRST_LINE - "...".len()).collect();
    format!("{kept}...")
}

/// A description as it is sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// The kept part of the description, without the mark of a cut.
    pub kept: String,
    /// The columns that it takes, the mark included.
    pub columns: u64,
    /// The text of the request: the kept part, its angle brackets as entities, and the mark of a cut.
    pub text: String,
}

/// Cuts a description to so many UTF-16 units, and counts its columns.
pub(super) fn sent(shown: &str, edition: Release, max: usize) -> Sent {
    let is_old = edition == Release::V197;
    let text = trim(shown);
    let text = if is_old { Cow::Borrowed(text) } else { without_invisible(text) };
    let text = &*text;
    let units = if text.is_ascii() { text.len() } else { text.encode_utf16().count() };
    if units <= max {
        let kept = text.to_owned();
        return Sent { columns: columns(text, is_old), text: escaped(text, is_old), kept };
    }
    let mut left = max.saturating_sub(1);
    let mut end = 0;
    for character in text.chars() {
        let Some(rest) = left.checked_sub(character.len_utf16()) else { break };
        left = rest;
        end += character.len_utf8();
    }
    // Half of a character outside of the basic plane is sent as a replacement character.
    let halved = u64::from(left > 0);
    let kept = text[..end].to_owned();
    let half = if left > 0 { "\u{fffd}" } else { "" };
    let text = format!("{}{half}…", escaped(&kept, is_old));
    Sent { columns: columns(&kept, is_old) + halved + 1, kept, text }
}

/// Replaces each run of invisible characters by one space.
fn without_invisible(text: &str) -> Cow<'_, str> {
    if is_printable_ascii(text) || !text.contains(is_invisible) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len());
    let mut is_in_run = false;
    for character in text.chars() {
        let is_hidden = is_invisible(character);
        if !is_hidden {
            cleaned.push(character);
        } else if !is_in_run {
            cleaned.push(' ');
        }
        is_in_run = is_hidden;
    }
    Cow::Owned(cleaned)
}

/// Returns whether a character has no shape of its own: controls, format and private characters, line separators, and
/// what Unicode lets a program ignore.
fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{8e2}'
            | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{e000}'..='\u{f8ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{10ffff}')
}

fn escaped(text: &str, is_old: bool) -> String {
    if is_old { text.to_owned() } else { text.replace('<', "&lt;").replace('>', "&gt;") }
}

/// The columns of a text; angle brackets are sent as entities, except by the oldest edition.
fn columns(text: &str, is_old: bool) -> u64 {
    let brackets = text.bytes().filter(|it| matches!(it, b'<' | b'>')).count();
    let entities = if is_old { 0 } else { brackets * ("&lt;".len() - 1) };
    if is_printable_ascii(text) {
        return (text.len() + entities) as u64;
    }
    let visible: String = text.chars().filter(|it| !it.is_control()).collect();
    (visible.width() + entities) as u64
}

/// Returns whether every character of a text has one byte and one column.
fn is_printable_ascii(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let about = About::read(text, Release::V325, Form::Skill);
        sent(&about.description.shown, Release::V325, 1536).kept
    }

    #[test]
    fn the_description_or_the_first_line_is_shown() {
        let long = "w".repeat(101);
        let cut = format!("{}...", "w".repeat(97));
        let cases = [
            ("---\ndescription: a\n---\nb", "a"),
            ("\u{feff}---\ndescription: a\n---\nb", "a"),
            ("---\ndescription: a: b #c\n---\nb", "a: b #c"),
            ("---\ndescription: |\n  a\n    b\n\n  c\n---\nb", "a   b c"),
            ("---\ndescription: a\u{200b}\u{200d}b\u{ad}\n---\nb", "a b "),
            ("---\ndescription: 1e3\n---\nb", "1000"),
            ("---\ndescription: false\n---\nb", "false"),
            ("---\ndescription: ~\n---\nb", "b"),
            ("---\ndescription: [a]\n---\nb", "b"),
            ("---\ndescription: a\n\tb: c\n---\nd", "d"),
            ("---\ndescription: \" \"\n---\nb", "b"),
            ("---\ndescription: a\nwhen_to_use: b\n---\n", "a - b"),
            ("---\nwhen_to_use: b\n---\nfirst", "first - b"),
            ("---\nname: a\n---\n\n##  Heading  two \nb", "Heading  two"),
            ("---\nname: a\n---\n#tag\n", "#tag"),
            ("---\ndescription: never closed\n", "---"),
            ("\n---\ndescription: late\n---\n", "---"),
            ("", "Skill"),
            (&long, &cut),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_long_description_is_cut_in_utf16_units() {
        let sent = |text: &str, max| {
            let sent = sent(text, Release::V325, max);
            (sent.kept, sent.columns)
        };
        assert_eq!(sent("abcd", 4), ("abcd".to_owned(), 4));
        assert_eq!(sent("abcde", 4), ("abc".to_owned(), 4));
        assert_eq!(sent("技能技能", 3), ("技能".to_owned(), 5));
        assert_eq!(sent("ab😀cd", 4), ("ab".to_owned(), 4));
        assert_eq!(sent("<b>", 4), ("<b>".to_owned(), 9));
    }

    #[test]
    fn keys_keep_a_skill_out_of_the_list() {
        let read = |front: &str, edition| {
            About::read(&format!("---\ndescription: d\n{front}\n---\n"), edition, Form::Skill)
        };
        for value in ["true", "\"true\"", "yes"] {
            let front = format!("disable-model-invocation: {value}");
            assert!(read(&front, Release::V325).hidden_by.is_some(), "{value}");
            let old = read(&front, Release::V197);
            assert_eq!(old.hidden_by.is_some(), value != "yes", "{value}");
        }
        assert!(read("user-invocable: false", Release::V325).hidden_by.is_none());
        let paths = |front: &str| read(front, Release::V325).paths;
        assert_eq!(paths("paths: src/**"), Some("src/**".to_owned()));
        assert_eq!(paths("paths: \"**\""), None);
        assert_eq!(paths("paths:"), None);
    }
}
