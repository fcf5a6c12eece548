//! Which user-role messages a user wrote: by their texts, as Codex decides, or by their origins.

use std::ops::Range;

use super::{Entry, Origin, Section};
use crate::item::{ContentItem, Message, ResponseItem};
use crate::user_instructions::is_user_instructions;

/// The rule by which compactions and roll-backs distinguish the messages of a user from injected ones, which have the
/// same role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum UserMessages {
    /// By the text, as Codex does: a message that begins like an injected one counts as injected.
    #[default]
    AsCodex,
    /// By the recorded origin. Only messages without one are recognised by their text.
    ByOrigin,
}

impl Entry {
    /// Returns the ranges of the user's text in a message that a compaction keeps, and the section that it is kept in.
    pub(crate) fn kept_text(
        &self,
        summary_prefix: &str,
        users: UserMessages,
    ) -> Option<(Section, Vec<Range<usize>>)> {
        let message = user_message(&self.item)?;
        let ranges = text_ranges(&message.content);
        let section = match self.user_section(users) {
            Some(section) if is_of_user(section) => Section::Kept,
            Some(Section::TurnAborted) => Section::TurnAborted,
            Some(_) => return None,
            None if is_injected(message) => return None,
            None => {
                let all: String = self.item.texts().collect();
                let text: String = ranges.iter().map(|range| &all[range.clone()]).collect();
                if text.strip_prefix(summary_prefix).is_some_and(|it| it.starts_with('\n')) {
                    return None;
                }
                if is_aborted(&text) { Section::TurnAborted } else { Section::Kept }
            }
        };
        Some((section, ranges))
    }

    /// Returns whether a turn begins with this item: a message of the user or a summary, and not a note.
    pub(crate) fn is_turn_start(&self, users: UserMessages) -> bool {
        let aborted = |part: &ContentItem| is_aborted(part.text());
        user_message(&self.item).is_some_and(|message| match self.user_section(users) {
            Some(section) => is_of_user(section) || section == Section::Summary,
            None => !is_injected(message) && !message.content.iter().any(aborted),
        })
    }

    /// Returns the section of a user-role message, if the origin decides about it. It does not if a server returned the
    /// message for a compaction, or nothing recorded its origin.
    fn user_section(&self, users: UserMessages) -> Option<Section> {
        match (users, &self.origin) {
            (UserMessages::AsCodex, _) | (_, Origin::Section(Section::Summary)) => None,
            (UserMessages::ByOrigin, origin) => {
                origin.section().filter(|section| *section != Section::History)
            }
        }
    }

    /// Returns whether the origin says that a user wrote the item.
    pub(crate) fn is_of_user(&self) -> bool {
        self.origin.section().is_some_and(is_of_user)
    }
}

/// Returns whether the user-role messages of a section count as the user's. Messages beside the outputs of tools, for
/// example with an image that the model asked for, do.
fn is_of_user(section: Section) -> bool {
    matches!(section, Section::User | Section::Kept | Section::Tool)
}

fn user_message(item: &ResponseItem) -> Option<&Message> {
    match item {
        ResponseItem::Message(message) if message.role == "user" => Some(message),
        _ => None,
    }
}

/// Returns the ranges of the texts of a message without the tags of its images.
fn text_ranges(content: &[ContentItem]) -> Vec<Range<usize>> {
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
    text.collect()
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

/// Returns whether a text is the note that a turn was interrupted.
fn is_aborted(text: &str) -> bool {
    begins_with(text, "<turn_aborted>")
}

/// Returns whether a text begins with a tag, ignoring ASCII case and leading white space.
fn begins_with(text: &str, tag: &str) -> bool {
    let start = text.trim_start().as_bytes().get(..tag.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes()))
}

fn is_open_tag(text: &str) -> bool {
    text == "<image>" || (text.starts_with("<image name=") && text.ends_with('>'))
}
