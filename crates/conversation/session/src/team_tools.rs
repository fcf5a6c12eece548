//! Parses the calls of team tools, with which an agent reaches its team during its turn. The coordinator
//! executes them.

use convoke_agent::team_tools::MAX_READ;
pub use convoke_agent::team_tools::TeamTool;
use convoke_team::ChangesInContext;
use serde_json::{Map, Value};

/// The number of messages that `read_context` returns by default.
pub const USUALLY_READ: usize = 10;

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
    /// Parses a call. The error text is for the model that made the call.
    pub(crate) fn parse(tool: &str, arguments: Map<String, Value>) -> Result<Self, String> {
        let Some(tool) = TeamTool::ALL.into_iter().find(|known| known.name() == tool) else {
            let known = TeamTool::ALL.map(TeamTool::name).join(", ");
            return Err(format!("unknown tool `{tool}`; the tools are {known}"));
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
        let wrong = || format!("`window` must be a whole number from 1 to {MAX_READ}");
        match self.0.remove("window") {
            None | Some(Value::Null) => Ok(USUALLY_READ),
            Some(value) => {
                let window = value.as_u64().and_then(|window| usize::try_from(window).ok());
                window.filter(|window| (1..=MAX_READ).contains(window)).ok_or_else(wrong)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
                "unknown tool `shout`; the tools are say, ask, read_context, task, changes",
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
