//! Parses positional parameters and options, with errors that name the parameter.

use std::collections::HashMap;

use convoke_core::json::{InvalidField, whole_number};
use convoke_core::name::nearest;
use convoke_core::{AgentContext, ContextManagerOptions, Fencing};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::envelope::Error;

/// The parameters of a call, read in order.
pub(super) struct Params(std::vec::IntoIter<Value>);

impl Params {
    pub(super) fn new(params: Value) -> Result<Self, Error> {
        match params {
            Value::Array(list) => Ok(Self(list.into_iter())),
            Value::Null => Ok(Self(Vec::new().into_iter())),
            Value::Object(_) => {
                Err(Error::invalid_params("parameters are positional: `params` must be a list"))
            }
            _ => Err(Error::invalid_request("`params` must be a list")),
        }
    }

    /// Returns the next parameter; a missing one is null.
    pub(super) fn value(&mut self) -> Value {
        self.0.next().unwrap_or(Value::Null)
    }

    pub(super) fn string(&mut self, name: &str) -> Result<String, Error> {
        match self.value() {
            Value::String(text) => Ok(text),
            _ => Err(Error::invalid_params(format!("`{name}` must be a string"))),
        }
    }

    /// Returns an object of options; null is an empty object.
    pub(super) fn options(&mut self) -> Result<Map<String, Value>, Error> {
        match self.value() {
            Value::Object(options) => Ok(options),
            Value::Null => Ok(Map::new()),
            _ => Err(Error::invalid_params("`options` must be an object")),
        }
    }
}

/// Reads the options of `getContextForAgent`.
pub(super) fn read_agent_context(
    options: &Map<String, Value>,
) -> Result<AgentContext<'_>, InvalidField> {
    Ok(AgentContext {
        window_size_override: window(options.get("windowSizeOverride"), "windowSizeOverride")?,
        role_summary: read_text(options, "roleSummary")?,
        system_instruction: read_text(options, "systemInstruction")?,
        instruction_file_text: read_text(options, "instructionFileText")?,
        ..AgentContext::default()
    })
}

/// Reads an optional text.
pub(super) fn read_text<'o>(
    options: &'o Map<String, Value>,
    field: &str,
) -> Result<Option<&'o str>, InvalidField> {
    match options.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(InvalidField::must_be(field, "a string")),
    }
}

/// Reads the options of `configure`; missing ones keep the values of `options`.
pub(super) fn read_manager_options(
    given: Map<String, Value>,
    mut options: ContextManagerOptions,
) -> Result<ContextManagerOptions, InvalidField> {
    const NAMES: [&str; 6] =
        ["contextWindowSize", "agentWindows", "maxBytes", "text", "visibility", "fence"];
    for (name, value) in given {
        if value.is_null() {
            continue;
        }
        match name.as_str() {
            "contextWindowSize" => {
                options.context.window =
                    window(Some(&value), "contextWindowSize")?.unwrap_or_default();
            }
            "agentWindows" => options.agent_windows = agent_windows(&value)?,
            "maxBytes" => {
                options.context.max_bytes = whole_number(&value)
                    .ok_or_else(|| InvalidField::must_be("maxBytes", "a whole number of bytes"))?;
            }
            "text" => options.context.text = named(value, "text", "\"preserve\" or \"compat\"")?,
            "visibility" => {
                options.context.visibility =
                    named(value, "visibility", "\"all\" or \"addressed\"")?;
            }
            "fence" => options.context.fencing = fencing(&value)?,
            _ => {
                let problem = match nearest(&name, NAMES) {
                    Some(near) => format!("is not an option; did you mean `{near}`?"),
                    None => format!("is not an option; the options are {}", NAMES.join(", ")),
                };
                return Err(InvalidField { field: name, problem });
            }
        }
    }
    Ok(options)
}

/// Reads a window, a whole number; null means none.
fn window(value: Option<&Value>, field: &str) -> Result<Option<usize>, InvalidField> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => whole_number(value)
            .and_then(|window| usize::try_from(window).ok())
            .map(Some)
            .ok_or_else(|| InvalidField::must_be(field, "a whole number of messages")),
    }
}

fn agent_windows(value: &Value) -> Result<HashMap<String, usize>, InvalidField> {
    let wrong = || InvalidField::must_be("agentWindows", "an object of whole numbers by agent id");
    let windows = value.as_object().ok_or_else(wrong)?;
    let read = |(agent, value): (&String, &Value)| {
        Ok((agent.clone(), window(Some(value), "agentWindows")?.ok_or_else(wrong)?))
    };
    windows.iter().map(read).collect()
}

/// Parses a value by its name.
fn named<T: DeserializeOwned>(value: Value, field: &str, names: &str) -> Result<T, InvalidField> {
    let name = Some(value).filter(Value::is_string).unwrap_or_default();
    serde_json::from_value(name).map_err(|_| InvalidField::must_be(field, names))
}

fn fencing(value: &Value) -> Result<Fencing, InvalidField> {
    match value.as_bool() {
        Some(true) => Ok(Fencing::Indented),
        Some(false) => Ok(Fencing::AsWritten),
        None => Err(InvalidField::must_be("fence", "true or false")),
    }
}
