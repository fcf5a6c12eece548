//! The block between `---` lines at the top of a file, read as Claude Code reads YAML.
//!
//! Invalid YAML is repaired and parsed again: people write `paths: **/*.ts`, which YAML reads as an alias. If that fails,
//! there is no front matter.

use std::borrow::Cow;
use std::fmt;

use convoke_core::whitespace::is_space;
use convoke_files::yaml;
use serde::de::{
    Deserialize, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
};

/// A file's text, split after its front matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split<'a> {
    /// The text between the `---` marks, if there are any.
    pub front: Option<&'a str>,
    /// The text that is sent.
    pub body: &'a str,
}

/// Splits a text after its front matter.
pub fn split(text: &str) -> Split<'_> {
    inside(text).unwrap_or(Split { front: None, body: text })
}

fn inside(text: &str) -> Option<Split<'_>> {
    const MARK: &str = "---";
    let rest = text.strip_prefix(MARK)?;
    let blank = &rest[..rest.len() - rest.trim_start_matches(is_space).len()];
    let front = &rest[blank.rfind('\n')? + 1..];
    let end = front.find(MARK)?;
    Some(Split {
        front: Some(&front[..end]),
        body: front[end + MARK.len()..].trim_start_matches(is_space),
    })
}

/// Parsed front matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrontMatter {
    /// Keys and values, in order.
    Fields(Vec<(Yaml, Yaml)>),
    /// YAML without fields.
    Other,
    /// Invalid YAML, even after repairs.
    Malformed,
    /// Too long or nested too deep to be read.
    Refused(yaml::Refused),
}

/// A value of YAML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Yaml {
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Yaml>),
    /// Keys with their values.
    Map(Vec<(Yaml, Yaml)>),
    /// A number or a boolean, as JavaScript prints it.
    Scalar(String),
    /// No value.
    Null,
}

impl FrontMatter {
    /// Parses the text between the marks.
    pub fn read(front: &str) -> Self {
        if let Err(refused) = yaml::check(front) {
            return Self::Refused(refused);
        }
        if let Some(fields) = yaml::plain_fields(front) {
            let text = |text: &str| Yaml::Text(text.to_owned());
            let fields = fields.into_iter().map(|(key, value)| (text(key), text(value)));
            return Self::Fields(fields.collect());
        }
        // Comments alone are valid YAML without a value.
        let mut lines = front.lines().map(str::trim_start);
        if lines.all(|line| line.is_empty() || line.starts_with('#')) {
            return Self::Other;
        }
        let read = |text: &str| yaml_serde::from_str::<Yaml>(text);
        match read(front).or_else(|_| read(&repaired(front))) {
            Ok(Yaml::Map(fields)) => Self::Fields(fields),
            Ok(_) => Self::Other,
            Err(_) => Self::Malformed,
        }
    }

    /// Returns the value of a field; of two, the last counts.
    pub fn field(&self, name: &str) -> Option<&Yaml> {
        match self {
            Self::Fields(fields) => field(fields, name),
            Self::Other | Self::Malformed | Self::Refused(_) => None,
        }
    }
}

fn field<'a>(fields: &'a [(Yaml, Yaml)], name: &str) -> Option<&'a Yaml> {
    let named = |wanted: &str| {
        let is_wanted =
            move |(key, _): &&(Yaml, Yaml)| matches!(key, Yaml::Text(key) if *key == *wanted);
        fields.iter().rev().find(is_wanted).map(|(_, value)| value)
    };
    named(name).or_else(|| match named("<<")? {
        Yaml::Map(merged) => field(merged, name),
        Yaml::List(merged) => merged.iter().find_map(|it| match it {
            Yaml::Map(merged) => field(merged, name),
            _ => None,
        }),
        _ => None,
    })
}

/// Repairs YAML: replaces tabs in the indentation, and quotes values with special characters.
fn repaired(front: &str) -> String {
    let lines: Vec<_> = front.split('\n').map(repaired_line).collect();
    lines.join("\n")
}

fn repaired_line(line: &str) -> Cow<'_, str> {
    let text = line.trim_start_matches('\t');
    let tabs = line.len() - text.len();
    if tabs > 0 {
        return Cow::Owned(format!("{}{text}", "  ".repeat(tabs)));
    }
    match key_and_value(line) {
        Some((key, value)) if !is_quoted(value) && !is_list(value) && breaks_up(value) => {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            Cow::Owned(format!("{key}: \"{value}\""))
        }
        _ => Cow::Borrowed(line),
    }
}

fn key_and_value(line: &str) -> Option<(&str, &str)> {
    let (key, rest) = line.split_once(':')?;
    let is_plain = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-');
    let value = rest.trim_start_matches(is_space);
    let is_field = !key.is_empty()
        && key.bytes().all(is_plain)
        && value.len() < rest.len()
        && !value.is_empty()
        && !value.contains(['\r', '\u{2028}', '\u{2029}']);
    is_field.then_some((key, value))
}

fn is_quoted(value: &str) -> bool {
    let between = |quote| value.starts_with(quote) && value.ends_with(quote);
    between('"') || between('\'')
}

fn is_list(value: &str) -> bool {
    value.starts_with('[')
        && value.ends_with(']')
        && matches!(yaml_serde::from_str(value), Ok(Yaml::List(_)))
}

fn breaks_up(value: &str) -> bool {
    let special = ['{', '}', '[', ']', '*', '&', '#', '!', '|', '>', '%', '@', '`'];
    value.contains(special) || value.contains(": ")
}

impl<'de> Deserialize<'de> for Yaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(YamlVisitor)
    }
}

macro_rules! visit_scalars {
    ($($visit:ident($type:ty))+) => {$(
        fn $visit<E>(self, value: $type) -> Result<Yaml, E> {
            Ok(Yaml::Scalar(value.to_string()))
        }
    )+};
}

/// Accepts any value: keys may be of any type, and duplicate.
struct YamlVisitor;

impl<'de> Visitor<'de> for YamlVisitor {
    type Value = Yaml;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value of YAML")
    }

    fn visit_str<E>(self, text: &str) -> Result<Yaml, E> {
        Ok(Yaml::Text(text.to_owned()))
    }

    visit_scalars! {
        visit_bool(bool) visit_i64(i64) visit_u64(u64) visit_i128(i128) visit_u128(u128) visit_f64(f64)
    }

    fn visit_unit<E>(self) -> Result<Yaml, E> {
        Ok(Yaml::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Yaml, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Yaml::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Yaml, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Yaml::Map(map))
    }

    /// Ignores the tag.
    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Yaml, A::Error> {
        let (_, value) = tagged.variant::<String>()?;
        value.newtype_variant()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_matter_ends_at_the_next_mark_and_takes_the_white_space_after_it() {
        let cases = [
            ("---\na: 1\n---\n\nbody\n", Some("a: 1\n"), "body\n"),
            ("---\r\na: 1\r\n---\r\nbody", Some("a: 1\r\n"), "body"),
            ("---\n---\nbody", Some(""), "body"),
            ("--- \n\na\n---body", Some("a\n"), "body"),
            ("---\na: x---y\n---\nbody", Some("a: x"), "y\n---\nbody"),
            ("---\nnever closed", None, "---\nnever closed"),
            ("--- no line\n---\n", None, "--- no line\n---\n"),
            ("text\n---\na\n---\n", None, "text\n---\na\n---\n"),
            ("", None, ""),
        ];
        for (text, front, body) in cases {
            assert_eq!(split(text), Split { front, body }, "{text:?}");
        }
    }

    #[test]
    fn fields_are_read_in_every_form_of_yaml() {
        let text = |value: &str| Some(Yaml::Text(value.to_owned()));
        let cases = [
            ("a: b", text("b")),
            ("\"a\": 'b'", text("b")),
            (" x: 1\n a: b", text("b")),
            ("a: >-\n  b\n  c", text("b c")),
            ("a: |\n  b\n", text("b\n")),
            ("{a: b}", text("b")),
            ("x: &x b\na: *x", text("b")),
            ("a: !tag b", text("b")),
            ("<<: {a: b}", text("b")),
            ("a: b\na: c", text("c")),
            ("a: b # why\r\n", text("b")),
            ("a: yes", text("yes")),
            ("a: 1", Some(Yaml::Scalar("1".to_owned()))),
            ("a: true", Some(Yaml::Scalar("true".to_owned()))),
            ("a: 1e3", Some(Yaml::Scalar("1000".to_owned()))),
            ("a:", Some(Yaml::Null)),
            ("A: b", None),
            ("- a: b", None),
            ("just text", None),
        ];
        for (front, expected) in cases {
            assert_eq!(FrontMatter::read(front).field("a"), expected.as_ref(), "{front:?}");
        }
    }

    #[test]
    fn front_matter_may_be_empty() {
        for front in ["", "\n", "  \r\n", "# why\n", "\t# why\n\n"] {
            assert_eq!(FrontMatter::read(front), FrontMatter::Other, "{front:?}");
        }
    }

    #[test]
    fn what_nests_too_deep_is_not_read() {
        for deep in ["[", "{", "[{", "- [", "{a: "] {
            let front = deep.repeat(60_000 / deep.len());
            let refused = FrontMatter::Refused(yaml::Refused::TooDeep);
            assert_eq!(FrontMatter::read(&front), refused, "{deep}");
        }
    }

    #[test]
    fn what_is_no_yaml_is_repaired() {
        let text = |value: &str| Some(Yaml::Text(value.to_owned()));
        let cases = [
            ("a: **/*.ts", text("**/*.ts")),
            ("a: {b,c}/**", text("{b,c}/**")),
            ("x: y: z\na: b # kept", text("b # kept")),
            ("x: *y\na: \"b\"", text("b")),
            ("x:\n\t- y\na: b", text("b")),
            ("x: *y\na: [b]", Some(Yaml::List(text("b").into_iter().collect()))),
            ("a: [*b]", text("[*b]")),
            ("a: \"b*", text("\"b*")),
        ];
        for (front, expected) in cases {
            assert_eq!(FrontMatter::read(front).field("a"), expected.as_ref(), "{front:?}");
        }
        for front in ["a: \"b", "a:\n  - *b", "x: *y\r\na: b", "x1: *y", "\ta: b\nx: *y"] {
            assert_eq!(FrontMatter::read(front), FrontMatter::Malformed, "{front:?}");
        }
    }
}
