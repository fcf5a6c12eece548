//! Prefix caches: requests in the order in which providers cache them, and their differences in that order.
//!
//! A provider caches tools first, then the system text, then the conversation, whatever the order of the
//! JSON. Fields that it leaves out of the comparison are left out here: `cache_control`, and the billing
//! line that Claude Code puts before its system text.

use std::collections::BTreeMap;
use std::ops::Range;

use convoke_protocol::wire::Wire;
use serde::Serialize;
use serde_json::Value;

use crate::dates;
use crate::parts::{Part, PartKind, RequestParts};

/// A piece of a request, in cache order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The group that it belongs to.
    pub group: Group,
    /// Its place in the body, for example `messages[0].content[1]`.
    pub place: String,
    /// Its title: the name of a tool, or the beginning of a text.
    pub title: String,
    /// Its bytes in the body; empty for the settings.
    pub range: Range<usize>,
    role: Option<String>,
    text: String,
    /// Whether it is a text of the body, and not a JSON value.
    is_text: bool,
}

/// A group of segments. Their order is the order of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Group {
    /// The model and the settings that a cache depends on.
    Settings,
    /// The tools.
    Tools,
    /// The instructions above the conversation.
    System,
    /// The conversation.
    Messages,
}

/// The comparison of a request with the one before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// The number of bytes, from the beginning in cache order, that both have.
    pub unchanged_bytes: u64,
    /// The bytes of the earlier request in cache order: the most that can be unchanged.
    pub earlier_bytes: u64,
    /// The first difference; `None` if the request continues the earlier one.
    pub difference: Option<Difference>,
}

/// The first difference between two requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The group in which they differ.
    pub group: Group,
    /// The place in the later request; in the earlier one, if the later has nothing there.
    pub place: String,
    /// The title of the segment.
    pub title: String,
    /// The byte of the later body at which they differ, as closely as it is known; `None` if it has nothing
    /// there.
    pub at: Option<usize>,
    /// The bytes of the segment in the earlier body.
    pub before: Range<usize>,
    pub cause: Cause,
    /// The number of messages by which the later request is shorter.
    pub lost_messages: usize,
    /// The words in which the two texts begin to differ, the earlier one first; `None` if they are not the same text.
    pub words: Option<[String; 2]>,
}

/// The cause of a difference, as far as the requests show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Cause {
    /// Another model, another reasoning effort, or another lifetime of the cache.
    SettingsChanged,
    /// The same tools in another order.
    ToolsReordered,
    /// Other tools, or tools with other descriptions.
    ToolsChanged,
    /// A date or a time in a text.
    DateChanged,
    /// A history that was compacted or shortened.
    HistoryShortened,
    /// A text that is no longer sent, while what followed it still is.
    TextRemoved,
    /// Another text.
    TextChanged,
}

impl Cause {
    /// Returns the name of the cause.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SettingsChanged => "settings-changed",
            Self::ToolsReordered => "tools-reordered",
            Self::ToolsChanged => "tools-changed",
            Self::DateChanged => "date-changed",
            Self::HistoryShortened => "history-shortened",
            Self::TextRemoved => "text-removed",
            Self::TextChanged => "text-changed",
        }
    }

    /// Returns the cause in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SettingsChanged => "the model or its settings changed",
            Self::ToolsReordered => "the tools are in another order",
            Self::ToolsChanged => "the tools changed",
            Self::DateChanged => "a date or time changed",
            Self::HistoryShortened => "the history was compacted or shortened",
            Self::TextRemoved => "a text is no longer sent",
            Self::TextChanged => "the text changed",
        }
    }
}

/// Returns a request in cache order; some formats name the model in the path.
pub fn segments(wire: Wire, path: &str, body: &[u8]) -> Result<Vec<Segment>, serde_json::Error> {
    let whole: Value = serde_json::from_slice(body)?;
    let parts = RequestParts::parse(wire, body)?.parts;
    let mut segments = vec![settings(wire, path, &whole)];
    if wire == Wire::Messages {
        segments.push(settings_of_messages(&whole));
    }
    let parts = parts.into_iter().filter(|part| !is_billing_line(wire, part));
    segments.extend(parts.map(|part| segment(part, body)));
    // The sort is stable: within a group the order is that of the request.
    segments.sort_by_key(|segment| segment.group);
    Ok(segments)
}

fn settings(wire: Wire, path: &str, body: &Value) -> Segment {
    let fields: &[&str] = match wire {
        Wire::Messages => &["model", "output_config"],
        Wire::Responses => &["model", "reasoning"],
        Wire::Chat => &["model", "reasoning_effort"],
        Wire::Gemini => &[],
    };
    let mut values: BTreeMap<&str, Value> =
        fields.iter().map(|name| (*name, body[*name].clone())).collect();
    let model = match wire {
        Wire::Gemini => model_in(path),
        Wire::Messages | Wire::Responses | Wire::Chat => body["model"].as_str(),
    };
    if wire == Wire::Gemini {
        values.insert("model", Value::from(model));
    }
    if wire == Wire::Messages {
        values.insert("ttl", Value::from(longest_lifetime(body)));
    }
    let title = model.unwrap_or("settings").to_owned();
    setting(Group::Settings, "model", title, values)
}

/// Returns the model of a path such as `/v1beta/models/NAME:streamGenerateContent`.
fn model_in(path: &str) -> Option<&str> {
    let (_, rest) = path.split_once("/models/")?;
    rest.split([':', '/', '?']).next()
}

/// The settings with which Anthropic caches the conversation; tools and system text stay cached when they change.
fn settings_of_messages(body: &Value) -> Segment {
    let values = ["thinking", "tool_choice"].map(|name| (name, body[name].clone()));
    setting(Group::Messages, "thinking", "settings".to_owned(), values.into())
}

fn setting(group: Group, place: &str, title: String, values: BTreeMap<&str, Value>) -> Segment {
    let values = values.into_iter().map(|(name, value)| (name.to_owned(), value));
    Segment {
        group,
        place: place.to_owned(),
        title,
        range: 0..0,
        role: None,
        text: values.collect::<Value>().to_string(),
        is_text: false,
    }
}

/// Returns the lifetime that the cache marks of the system text ask for.
fn longest_lifetime(body: &Value) -> &str {
    let marks = body["system"].as_array().into_iter().flatten();
    let lifetimes = marks.filter_map(|block| block["cache_control"]["ttl"].as_str());
    lifetimes.max_by_key(|ttl| *ttl == "1h").unwrap_or_default()
}

/// Claude Code begins its system text with a line for billing, which differs in every request.
fn is_billing_line(wire: Wire, part: &Part) -> bool {
    wire == Wire::Messages
        && part.kind == PartKind::System
        && part.text.starts_with("x-anthropic-billing-header")
}

fn segment(part: Part, body: &[u8]) -> Segment {
    let is_above = ["instructions", "system", "systemInstruction"]
        .iter()
        .any(|place| part.place.starts_with(place));
    let group = match part.kind {
        PartKind::Tool => Group::Tools,
        _ if is_above => Group::System,
        _ => Group::Messages,
    };
    let Part { place, role, title, text, range, .. } = part;
    let text = if text.contains("cache_control") { without_cache_marks(text) } else { text };
    let is_text = body.get(range.end) == Some(&b'"');
    Segment { group, place, title, range, role, text, is_text }
}

/// Returns JSON without `cache_control`; text that is not JSON is unchanged.
fn without_cache_marks(text: String) -> String {
    match serde_json::from_str::<Value>(&text) {
        Ok(mut value) if value.is_object() => {
            strip(&mut value);
            value.to_string()
        }
        _ => text,
    }
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.shift_remove("cache_control");
            fields.values_mut().for_each(strip);
        }
        Value::Array(values) => values.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Compares a request with the one before it.
pub fn compare(earlier: &[Segment], later: &[Segment]) -> Comparison {
    let pairs = earlier.iter().zip(later);
    let same = pairs.take_while(|(one, other)| one.is_same(other)).count();
    let bytes = |segments: &[Segment]| segments.iter().map(|it| it.range.len() as u64).sum::<u64>();
    let mut unchanged_bytes = bytes(&later[..same]);
    let difference = earlier.get(same).map(|before| {
        let after = later.get(same);
        let (mut common, mut words) = (0, None);
        if let Some(after) = after.filter(|it| it.group == before.group && it.role == before.role) {
            common = common_start(&before.text, &after.text);
            unchanged_bytes += common.min(after.range.len() as u64);
            words = Some([before, after].map(|segment| word_at(&segment.text, common).to_owned()));
        }
        let cause = cause(earlier, later, same);
        let after = after.filter(|_| cause != Cause::TextRemoved);
        let shown = after.unwrap_or(before);
        Difference {
            group: before.group.min(shown.group),
            place: shown.place.clone(),
            title: shown.title.clone(),
            at: after.map(|after| after.place_of(common)),
            before: before.range.clone(),
            cause,
            lost_messages: messages(earlier).saturating_sub(messages(later)),
            words,
        }
    });
    Comparison { unchanged_bytes, earlier_bytes: bytes(earlier), difference }
}

impl Segment {
    /// Returns whether it is no piece of the body.
    fn is_setting(&self) -> bool {
        !self.is_text && self.range.is_empty()
    }

    /// Returns whether a provider takes two segments for the same.
    fn is_same(&self, other: &Self) -> bool {
        (self.group, &self.role, &self.text) == (other.group, &other.role, &other.text)
    }

    /// Returns the position in the body of a byte of the text.
    fn place_of(&self, byte: u64) -> usize {
        if !self.is_text {
            return self.range.start;
        }
        let byte = self.text.floor_char_boundary(usize::try_from(byte).unwrap_or(usize::MAX));
        let escaped = Value::from(&self.text[..byte]).to_string().len() - 2;
        (self.range.start + escaped).min(self.range.end.saturating_sub(1))
    }
}

/// Returns the length of the common prefix of two texts, in bytes.
pub fn common_start(one: &str, other: &str) -> u64 {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count() as u64
}

/// The maximum number of bytes of a word before and after the byte in question.
const MAX_WORD_BYTES: usize = 1024;

/// Returns the word around a byte of a text.
fn word_at(text: &str, byte: u64) -> &str {
    let byte = text.floor_char_boundary(usize::try_from(byte).unwrap_or(usize::MAX));
    let start = text.ceil_char_boundary(byte.saturating_sub(MAX_WORD_BYTES));
    let end = text.floor_char_boundary(byte.saturating_add(MAX_WORD_BYTES));
    let is_break = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>');
    let (before, after) = (&text[start..byte], &text[byte..end]);
    let head =
        before.rfind(is_break).map_or(before, |at| before[at..].trim_start_matches(is_break));
    let tail = after.find(is_break).unwrap_or(after.len());
    &text[byte - head.len()..byte + tail]
}

fn cause(earlier: &[Segment], later: &[Segment], same: usize) -> Cause {
    let before = &earlier[same];
    let Some(after) = later.get(same) else { return Cause::HistoryShortened };
    if before.is_setting() && after.is_setting() {
        return Cause::SettingsChanged;
    }
    match before.group.min(after.group) {
        Group::Settings => Cause::SettingsChanged,
        Group::Tools => {
            let sorted = |segments: &[Segment]| {
                let tools = segments.iter().filter(|it| it.group == Group::Tools);
                let mut texts: Vec<String> = tools.map(|it| it.text.clone()).collect();
                texts.sort_unstable();
                texts
            };
            if sorted(earlier) == sorted(later) {
                Cause::ToolsReordered
            } else {
                Cause::ToolsChanged
            }
        }
        Group::System | Group::Messages if without_dates(before, after) => Cause::DateChanged,
        Group::System | Group::Messages
            if earlier.get(same + 1).is_some_and(|next| next.is_same(after)) =>
        {
            Cause::TextRemoved
        }
        Group::Messages if messages(later) < messages(earlier) => Cause::HistoryShortened,
        Group::System | Group::Messages => Cause::TextChanged,
    }
}

fn messages(segments: &[Segment]) -> usize {
    segments.iter().filter(|segment| segment.group == Group::Messages).count()
}

/// Returns whether two texts are equal but for dates and times.
fn without_dates(before: &Segment, after: &Segment) -> bool {
    before.role == after.role && dates::differ_in_dates_only(&before.text, &after.text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_model_in_the_path_is_a_setting() {
        let body = json!({"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]});
        let tools = json!({"tools": [{"name": "read"}], "contents": body["contents"]});
        let of = |model: &str, body: &Value| {
            let path = format!("/v1beta/models/{model}:streamGenerateContent?alt=sse");
            segments(Wire::Gemini, &path, body.to_string().as_bytes()).unwrap()
        };
        let cause = |earlier: &[Segment], later: &[Segment]| {
            compare(earlier, later).difference.map(|it| it.cause)
        };
        assert_eq!(cause(&of("pro", &body), &of("pro", &body)), None);
        assert_eq!(cause(&of("pro", &body), &of("flash", &body)), Some(Cause::SettingsChanged));
        assert_eq!(cause(&of("pro", &body), &of("flash", &tools)), Some(Cause::SettingsChanged));
    }

    fn compared(wire: Wire, earlier: &Value, later: &Value) -> Comparison {
        let of = |body: &Value| segments(wire, "", body.to_string().as_bytes()).unwrap();
        compare(&of(earlier), &of(later))
    }

    fn claude(billing: &str, date: &str, messages: &Value) -> Value {
        json!({
            "model": "claude", "messages": messages,
            "system": [
                {"type": "text", "text": format!("x-anthropic-billing-header: {billing}")},
                {"type": "text", "text": format!("You are an agent.\nToday is {date}."), "cache_control": {"type": "ephemeral"}},
            ],
            "tools": [
                {"name": "Bash", "input_schema": {"type": "object"}},
                {"name": "Read", "cache_control": {"type": "ephemeral"}},
            ],
        })
    }

    fn user(text: &str) -> Value {
        json!({"role": "user", "content": text})
    }

    #[test]
    fn a_breakpoint_that_moves_changes_nothing() {
        let first = json!([{"role": "user", "content": [
            {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
        ]}]);
        let mut second = claude(
            "b",
            "2026-11-15",
            &json!([user("hi"), {"role": "assistant", "content": "hello"}, user("more")]),
        );
        second["tools"][1]["cache_control"] = Value::Null;
        second["tools"][1].as_object_mut().unwrap().shift_remove("cache_control");
        let comparison = compared(Wire::Messages, &claude("a", "2026-11-15", &first), &second);
        assert_eq!(comparison.difference, None);
        assert!(comparison.unchanged_bytes > 0);
    }

    #[test]
    fn the_first_difference_has_its_place_and_its_cause() {
        let talk = json!([user("hi"), user("more")]);
        let base = claude("a", "2026-11-15", &talk);
        let changed = |change: &dyn Fn(&mut Value)| {
            let mut later = base.clone();
            change(&mut later);
            let difference = compared(Wire::Messages, &base, &later).difference.unwrap();
            (difference.group, difference.place, difference.cause)
        };
        assert_eq!(
            changed(
                &|it| it["system"][1]["text"] = json!("You are an agent.\nToday is 2026-11-16.")
            ),
            (Group::System, "system[1]".to_owned(), Cause::DateChanged)
        );
        let dated = claude("a", "2026-11-16", &talk);
        let words = compared(Wire::Messages, &base, &dated).difference.unwrap().words;
        assert_eq!(words, Some(["2026-11-15.", "2026-11-16."].map(str::to_owned)));
        assert_eq!(
            changed(&|it| it["tools"].as_array_mut().unwrap().reverse()),
            (Group::Tools, "tools[0]".to_owned(), Cause::ToolsReordered)
        );
        assert_eq!(
            changed(&|it| it["tools"][0]["description"] = json!("x")),
            (Group::Tools, "tools[0]".to_owned(), Cause::ToolsChanged)
        );
        assert_eq!(
            changed(&|it| it["model"] = json!("other")),
            (Group::Settings, "model".to_owned(), Cause::SettingsChanged)
        );
        // Tools and system text stay cached.
        assert_eq!(
            changed(&|it| it["thinking"] = json!({"type": "adaptive"})),
            (Group::Messages, "thinking".to_owned(), Cause::SettingsChanged)
        );
        assert_eq!(
            changed(&|it| it["messages"] = json!([user("a summary")])),
            (Group::Messages, "messages[0].content".to_owned(), Cause::HistoryShortened)
        );
        assert_eq!(
            changed(&|it| it["messages"] = json!([user("hi")])),
            (Group::Messages, "messages[1].content".to_owned(), Cause::HistoryShortened)
        );
        assert_eq!(
            changed(&|it| it["messages"] = json!([user("more")])),
            (Group::Messages, "messages[0].content".to_owned(), Cause::TextRemoved)
        );
        assert_eq!(
            changed(&|it| it["messages"][1] = user("less")),
            (Group::Messages, "messages[1].content".to_owned(), Cause::TextChanged)
        );
    }

    #[test]
    fn a_developer_message_in_the_conversation_is_not_moved_before_it() {
        let item = |role: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]});
        let body =
            |items: Value| json!({"model": "m", "instructions": "Be brief.", "input": items});
        let earlier = body(json!([item("developer", "rules"), item("user", "hi")]));
        let later = body(json!([
            item("developer", "rules"),
            item("user", "hi"),
            item("developer", "new rules"),
            item("user", "more"),
        ]));
        let comparison = compared(Wire::Responses, &earlier, &later);
        assert_eq!(comparison.difference, None);
        assert_eq!(comparison.unchanged_bytes, "Be brief.rules hi".len() as u64 - 1);
    }
}
