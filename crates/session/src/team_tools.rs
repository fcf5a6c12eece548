//! The tools with which an agent reaches its team while its turn runs: their names, arguments and descriptions.
//!
//! The coordinator carries out the calls. `convoke mcp` offers the tools to an agent's program.

use convoke_core::ConversationMessage;
use convoke_team::ChangesInContext;
use serde_json::{Map, Value, json};

/// The field of a stored message that names the call which sent it.
pub(crate) const FIELD: &str = "teamCall";
/// The most messages that `read_context` returns.
pub const MOST_READ: usize = 50;
/// The messages that `read_context` returns by default.
pub const USUALLY_READ: usize = 10;

/// Returns the name of the tool that sent a message; `None` for other messages.
pub fn sent_by(message: &ConversationMessage) -> Option<&str> {
    message.extra.get(FIELD)?["tool"].as_str()
}

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
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
                "Sends a message to a teammate, to a person, or to `all`. The recipients take their turns after yours; \
                 do not wait for them. The same message of one turn is sent once, however often it is called."
            }
            Self::Ask => {
                "Asks a teammate that is an agent, and waits for the answer, which is the result. The teammate takes \
                 its turn while yours waits. A teammate that waits for you cannot be asked."
            }
            Self::ReadContext => {
                "Reads earlier messages of the conversation with their ids, the newest last: the last ones, or those \
                 that contain every word of `search`."
            }
            Self::Task => "Returns the team task. With `text`, replaces it.",
            Self::Changes => {
                "Shows what teammates changed in the working directory since your last turn: the files, or with \
                 `form` = `diff` the differences."
            }
        }
    }

    /// Returns whether it changes nothing.
    pub const fn only_reads(self) -> bool {
        matches!(self, Self::ReadContext | Self::Changes)
    }

    /// Returns the JSON schema of its arguments.
    pub fn schema(self) -> Value {
        let text = |about: &str| json!({ "type": "string", "description": about });
        let (properties, required): (Value, &[&str]) = match self {
            Self::Say => (
                json!({
                    "to": text("The name of a member, or `all`."),
                    "text": text("The message."),
                    "id": text("A name for this message within the turn; a second call with it sends nothing."),
                }),
                &["to", "text"],
            ),
            Self::Ask => (
                json!({ "to": text("The name of a member that is an agent."), "text": text("The question.") }),
                &["to", "text"],
            ),
            Self::ReadContext => {
                let about = "The number of messages.";
                let window = json!({ "type": "integer", "minimum": 1, "maximum": MOST_READ, "description": about });
                (json!({ "window": window, "search": text("Words, in any case.") }), &[])
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

/// A call with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TeamRequest {
    Say { to: String, text: String, id: Option<String> },
    Ask { to: String, text: String },
    ReadContext { window: usize, search: Vec<String> },
    Task { text: Option<String> },
    Changes { form: ChangesInContext },
}

impl TeamRequest {
    /// Parses a call. The error is for the model that made it.
    pub(crate) fn parse(tool: &str, arguments: Map<String, Value>) -> Result<Self, String> {
        let Some(tool) = TeamTool::ALL.into_iter().find(|known| known.name() == tool) else {
            let known = TeamTool::ALL.map(TeamTool::name).join(", ");
            return Err(format!("there is no tool `{tool}`; there are {known}"));
        };
        let mut arguments = Arguments(arguments);
        let request = match tool {
            TeamTool::Say => Self::Say {
                to: arguments.required("to")?,
                text: arguments.required("text")?,
                id: arguments.text("id")?,
            },
            TeamTool::Ask => {
                Self::Ask { to: arguments.required("to")?, text: arguments.required("text")? }
            }
            TeamTool::ReadContext => Self::ReadContext {
                window: arguments.window()?,
                search: arguments
                    .text("search")?
                    .map(|words| words.split_whitespace().map(str::to_lowercase).collect())
                    .unwrap_or_default(),
            },
            TeamTool::Task => Self::Task { text: arguments.text("text")? },
            TeamTool::Changes => {
                let form = arguments.text("form")?.unwrap_or_else(|| "stat".to_owned());
                let form = ChangesInContext::parse(&form)
                    .filter(|form| *form != ChangesInContext::None)
                    .ok_or("`form` must be `stat` or `diff`")?;
                Self::Changes { form }
            }
        };
        match arguments.0.keys().next() {
            Some(unknown) => Err(format!("`{}` has no argument `{unknown}`", tool.name())),
            None => Ok(request),
        }
    }
}

/// The arguments of a call, removed as they are read.
struct Arguments(Map<String, Value>);

impl Arguments {
    fn text(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("`{name}` must be a string")),
        }
    }

    fn required(&mut self, name: &str) -> Result<String, String> {
        let text = self.text(name)?.filter(|text| !text.trim().is_empty());
        text.ok_or_else(|| format!("`{name}` is missing or empty"))
    }

    fn window(&mut self) -> Result<usize, String> {
        let wrong = || format!("`window` must be a whole number from 1 to {MOST_READ}");
        match self.0.remove("window") {
            None | Some(Value::Null) => Ok(USUALLY_READ),
            Some(value) => {
                let window = value.as_u64().and_then(|window| usize::try_from(window).ok());
                window.filter(|window| (1..=MOST_READ).contains(window)).ok_or_else(wrong)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(tool: &str, arguments: Value) -> Result<TeamRequest, String> {
        let Value::Object(arguments) = arguments else { panic!("no object") };
        TeamRequest::parse(tool, arguments)
    }

    #[test]
    fn arguments_that_are_wrong_are_named() {
        for (tool, arguments, expected) in [
            (
                "shout",
                json!({}),
                "there is no tool `shout`; there are say, ask, read_context, task, changes",
            ),
            ("ask", json!({"text": "x"}), "`to` is missing or empty"),
            ("ask", json!({"to": "max", "text": " "}), "`text` is missing or empty"),
            ("say", json!({"to": 1, "text": "x"}), "`to` must be a string"),
            (
                "say",
                json!({"to": "max", "text": "x", "from": "kai"}),
                "`say` has no argument `from`",
            ),
            ("read_context", json!({"window": 0}), "`window` must be a whole number from 1 to 50"),
            (
                "read_context",
                json!({"window": "5"}),
                "`window` must be a whole number from 1 to 50",
            ),
            ("changes", json!({"form": "none"}), "`form` must be `stat` or `diff`"),
        ] {
            assert_eq!(parse(tool, arguments).unwrap_err(), expected);
        }
        let read = parse("read_context", json!({"search": "Login  page", "window": null})).unwrap();
        let search = vec!["login".to_owned(), "page".to_owned()];
        assert_eq!(read, TeamRequest::ReadContext { window: USUALLY_READ, search });
    }

    #[test]
    fn every_argument_of_a_schema_is_taken() {
        for tool in TeamTool::ALL {
            let schema = tool.schema();
            let sample = |name: &String| match name.as_str() {
                "window" => json!(3),
                "form" => json!("diff"),
                _ => json!("x"),
            };
            let names = schema["properties"].as_object().unwrap().keys();
            let all: Map<String, Value> = names.map(|name| (name.clone(), sample(name))).collect();
            TeamRequest::parse(tool.name(), all).unwrap();
        }
    }
}
