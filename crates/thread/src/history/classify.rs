//! Recognises items by their text, like Codex: which user-role messages a user wrote, and the kinds of items in
//! a Codex session file.

use std::ops::Range;

use super::Section;
use crate::item::{ContentItem, Message, ResponseItem};
use crate::user_instructions::is_user_instructions;

/// Returns the ranges of the user's text in a real user message.
pub(crate) fn user_text_ranges(item: &ResponseItem) -> Option<Vec<Range<usize>>> {
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
    let mut end = 0;
    let text = content.iter().enumerate().filter_map(|(index, part)| {
        let start = end;
        end += part.text().len();
        let ContentItem::InputText(text) = part else {
            return None;
        };
        let opens = is_open_tag(text) && is_image(Some(index + 1));
        let closes = text == "</image>" && is_image(index.checked_sub(1));
        (!opens && !closes).then_some(start..end)
    });
    Some(text.collect())
}

/// Returns whether a turn begins with this item: a real user message, not a note.
pub fn is_turn_start(item: &ResponseItem) -> bool {
    let ResponseItem::Message(message) = item else {
        return false;
    };
    let aborted = |part: &ContentItem| begins_with(part.text(), "<turn_aborted>");
    message.role == "user" && !is_injected(message) && !message.content.iter().any(aborted)
}

/// Returns the section of a message in a Codex session file, which records no sources. The section is
/// recognised from the role and the first tag, as compaction does.
pub(super) fn recognise(item: &ResponseItem, summary_prefix: &str) -> Section {
    let ResponseItem::Message(message) = item else {
        return Section::History;
    };
    let first = message.content.first().map_or("", ContentItem::text);
    let tagged = |tags: &[(&str, Section)]| {
        let found = tags.iter().find(|(tag, _)| begins_with(first, tag));
        found.map(|(_, section)| *section)
    };
    match &*message.role {
        "developer" => tagged(&[
            ("<permissions instructions>", Section::Permissions),
            ("<collaboration_mode>", Section::CollaborationMode),
            ("<personality_spec>", Section::Personality),
            ("<model_switch>", Section::ModelSwitch),
        ])
        .unwrap_or(Section::DeveloperInstructions),
        "user" if is_user_instructions(first) => Section::UserInstructions,
        "user" if first.strip_prefix(summary_prefix).is_some_and(|it| it.starts_with('\n')) => {
            Section::Summary
        }
        "user" => tagged(&[
            ("<environment_context>", Section::Environment),
            ("<skill>", Section::Skill),
            ("<turn_aborted>", Section::TurnAborted),
        ])
        .unwrap_or(Section::User),
        _ => Section::History,
    }
}

/// Returns whether a user-role message was injected.
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

/// Returns whether a text begins with a tag, ignoring ASCII case and leading white space.
fn begins_with(text: &str, tag: &str) -> bool {
    let start = text.trim_start().as_bytes().get(..tag.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes()))
}

fn is_open_tag(text: &str) -> bool {
    text == "<image>" || (text.starts_with("<image name=") && text.ends_with('>'))
}
