//! The team tools: their names, arguments and descriptions.

use serde_json::{Value, json};

/// The maximum number of messages that `read_context` returns.
pub const MAX_READ: usize = 50;

/// A tool.
///
/// Exhaustive on purpose: a new kind must be handled everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TeamTool {
    /// Sends a message.
    Say,
    /// Sends a message and waits for the reply.
    Ask,
    /// Reads earlier messages.
    ReadContext,
    /// Reads or sets the team task.
    Task,
    /// Reads what teammates changed.
    Changes,
}

impl TeamTool {
    /// Every tool.
    pub const ALL: [Self; 5] = [Self::Say, Self::Ask, Self::ReadContext, Self::Task, Self::Changes];

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Say => "say",
            Self::Ask => "ask",
            Self::ReadContext => "read_context",
            Self::Task => "task",
            Self::Changes => "changes",
        }
    }

    /// Returns the description for a model.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Say => {
                "Sends a message to a teammate, to a person, or to `all`. Agents take their turns after yours, and people read it \
                 later: do not wait for a reply. Within one turn the same message is sent only once."
            }
            Self::Ask => {
                "Asks a teammate that is an agent and waits; the result is its reply. The teammate takes its turn while yours \
                 waits. A teammate that is waiting for your reply cannot be asked."
            }
            Self::ReadContext => {
                "Returns earlier messages of the conversation with their ids, oldest first: the most recent ones, or those \
                 that contain every word of `search`."
            }
            Self::Task => "Returns the team task. With `text`, replaces it.",
            Self::Changes => {
                "Shows what teammates changed in the working directory since your last turn: a list of files, or a diff if \
                 `form` is `diff`."
            }
        }
    }

    /// Returns whether the tool changes nothing.
    pub const fn only_reads(self) -> bool {
        matches!(self, Self::ReadContext | Self::Changes)
    }

    /// Returns the JSON schema of the arguments.
    pub fn schema(self) -> Value {
        let text = |about: &str| json!({ "type": "string", "description": about });
        let (properties, required): (Value, &[&str]) = match self {
            Self::Say => (
                json!({
                    "to": text("The name of a member, or `all`."),
                    "text": text("The message."),
                    "id": text("An id of your choice for this message; a second call with the same id in this turn sends nothing."),
                }),
                &["to", "text"],
            ),
            Self::Ask => (
                json!({ "to": text("The name of a member that is an agent."), "text": text("The question.") }),
                &["to", "text"],
            ),
            Self::ReadContext => {
                let about = "The number of messages.";
                let window = json!({ "type": "integer", "minimum": 1, "maximum": MAX_READ, "description": about });
                (
                    json!({ "window": window, "search": text("Words to search for; case is ignored.") }),
                    &[],
                )
            }
            Self::Task => (json!({ "text": text("The new task.") }), &[]),
            Self::Changes => {
                (json!({ "form": { "type": "string", "enum": ["stat", "diff"] } }), &[])
            }
        };
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }
}
