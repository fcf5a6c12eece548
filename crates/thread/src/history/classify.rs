//! Telling what a user wrote from what was written in the user's name, and what the items of an earlier
//! run are.

use crate::item::{ContentItem, Message, ResponseItem};
use crate::user_instructions::is_user_instructions;

/// Returns the text of a real user message, its parts joined and its images left out.
pub fn user_text(item: &ResponseItem) -> Option<String> {
    let ResponseItem::Message(message) = item else {
        return None;
    };
    if message.role != "user" || is_injected(message) {
        return None;
    }
    let content = &message.content;
    let is_image = |index: Option<usize>| {
        let part = index.and_then(|index| content.get(index));
        matches!(part, Some(ContentItem::InputImage(_)))
    };
    let text = content.iter().enumerate().filter_map(|(index, part)| {
        let ContentItem::InputText(text) = part else {
            return None;
        };
        let opens = is_open_tag(text) && is_image(Some(index + 1));
        let closes = text == "</image>" && is_image(index.checked_sub(1));
        (!opens && !closes).then_some(text.as_str())
    });
    Some(text.collect())
}

/// Returns whether a turn begins with this item: a real user message that is no note of ours.
pub fn is_turn_start(item: &ResponseItem) -> bool {
    let ResponseItem::Message(message) = item else {
        return false;
    };
    let aborted = |part: &ContentItem| begins_with(part.text(), "<turn_aborted>");
    message.role == "user" && !is_injected(message) && !message.content.iter().any(aborted)
}

/// Returns the section of a ledger that an item of an earlier run belongs to.
///
/// A record keeps items and not where they came from, so this goes by who says them and by the tag that
/// they begin with, as compaction does.
pub fn section_of(item: &ResponseItem, summary_prefix: &str) -> &'static str {
    let message = match item {
        ResponseItem::Message(message) => message,
        ResponseItem::FunctionCallOutput(_) | ResponseItem::CustomToolCallOutput(_) => {
            return "tool";
        }
        ResponseItem::Compaction(_) => return "summary",
        ResponseItem::Other(_) | ResponseItem::GhostSnapshot(_) => return "restored",
        _ => return "model",
    };
    let first = message.content.first().map_or("", ContentItem::text);
    let tagged = |tags: &[(&str, &'static str)]| {
        let found = tags.iter().find(|(tag, _)| begins_with(first, tag));
        found.map(|(_, section)| *section)
    };
    match &*message.role {
        "assistant" => "model",
        "developer" => tagged(&[
            ("<permissions instructions>", "permissions"),
            ("<collaboration_mode>", "collaboration-mode"),
            ("<personality_spec>", "personality"),
            ("<model_switch>", "model-switch"),
        ])
        .unwrap_or("developer-instructions"),
        "user" if is_user_instructions(first) => "user-instructions",
        "user" if first.strip_prefix(summary_prefix).is_some_and(|it| it.starts_with('\n')) => {
            "summary"
        }
        "user" => tagged(&[
            ("<environment_context>", "environment"),
            ("<skill>", "skill"),
            ("<turn_aborted>", "turn-aborted"),
        ])
        .unwrap_or("user"),
        _ => "restored",
    }
}

/// Returns whether a message of the user role is something that was injected.
fn is_injected(message: &Message) -> bool {
    if let [ContentItem::InputText(text)] = &message.content[..]
        && (is_user_instructions(text) || text.starts_with("<skill"))
    {
        return true;
    }
    message.content.iter().any(|part| match part {
        ContentItem::InputText(text) => {
            begins_with(text, "<environment_context>") || begins_with(text, "<user_shell_command>")
        }
        ContentItem::OutputText(text) => begins_with(text, "<environment_context>"),
        ContentItem::InputImage(_) => false,
    })
}

/// Returns whether a text begins with a tag, in any case and after any white space.
fn begins_with(text: &str, tag: &str) -> bool {
    let start = text.trim_start().as_bytes().get(..tag.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes()))
}

fn is_open_tag(text: &str) -> bool {
    text == "<image>" || (text.starts_with("<image name=") && text.ends_with('>'))
}
