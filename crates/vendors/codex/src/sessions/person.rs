//! What a person wrote, told from what the program puts into messages of the user.

use super::item::Kind;

/// The beginning of the mark of an interruption.
pub(super) const ABORTED: &str = "<turn_aborted>";

/// The beginning of the message that holds the summary of a compaction.
pub(super) const SUMMARY: &str =
    "Another language model started to solve this problem and produced a summary";

/// The beginnings of texts that the program writes in the name of the user.
const CONTEXT: &[&str] = &[
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<INSTRUCTIONS>",
    "<skill>",
    "<skills>",
    "<user_shell_command>",
    "<subagent_notification>",
    "<multi_agent",
    "<permissions instructions>",
    "<collaboration_mode>",
    "<apps_instructions>",
    "<plugins_instructions>",
    "<skills_instructions>",
    "<model_switch>",
    "<recommended_plugins>",
    "<hook_prompt",
    "<goal_context>",
    "Warning: The maximum number of unified exec processes",
];

/// Returns whether a text was written by the program.
pub(super) fn is_context(text: &str) -> bool {
    let text = text.trim_start();
    CONTEXT.iter().any(|start| text.starts_with(start)) || text.starts_with(ABORTED)
}

/// Returns the summary in the message of a compaction.
pub(super) fn summary(message: &str) -> &str {
    let is_framed = message.starts_with(SUMMARY);
    message.split_once('\n').filter(|_| is_framed).map_or(message, |(_, summary)| summary)
}

/// Returns whether a text only frames an image.
pub(super) fn is_frame(text: &str) -> bool {
    text.starts_with("<image name=[Image #") || text == "<image>" || text == "</image>"
}

/// Returns what a message of the user is, by its texts.
pub(super) fn kind<'t>(texts: impl Iterator<Item = &'t str>) -> Kind {
    let mut kind = Kind::Person;
    for text in texts {
        match text {
            _ if text.starts_with(SUMMARY) => return Kind::Summary,
            _ if text.starts_with(ABORTED) => return Kind::Aborted,
            _ if is_frame(text) => {}
            _ if is_context(text) => kind = Kind::Context,
            _ => return Kind::Person,
        }
    }
    kind
}

/// Returns whether the result of a tool says that a person interrupted it.
pub(super) fn is_abort_result(output: &str) -> bool {
    output == "aborted" || output.lines().take(3).any(|line| line.starts_with("aborted by user"))
}
