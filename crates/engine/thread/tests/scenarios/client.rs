//! The requests of a client of the long-lived program.

use std::path::PathBuf;

use convoke_thread::config::Overrides;
use convoke_thread::permissions::{SandboxPolicy, WorkspaceWrite};
use convoke_thread::thread::{CollaborationMode, TurnOverrides};
use convoke_thread::user_input::UserInput;
use serde_json::{Value, json};

use crate::scenario::{list, texts};

/// Reads the parameters of a start, a resume or a fork.
pub(crate) fn overrides(params: &Value, cwd: Option<PathBuf>) -> Result<Overrides, String> {
    let settings = params["config"].as_object().into_iter().flatten();
    let settings = settings.filter_map(|(key, value)| Some((key.clone(), as_toml(value)?)));
    Ok(Overrides {
        cwd: text(params, "cwd").map(PathBuf::from).or(cwd),
        model: text(params, "model"),
        model_provider: text(params, "modelProvider"),
        sandbox_mode: parsed(params, "sandbox")?,
        approval_policy: parsed(params, "approvalPolicy")?,
        base_instructions: text(params, "baseInstructions"),
        developer_instructions: text(params, "developerInstructions"),
        personality: parsed(params, "personality")?,
        settings: settings.collect(),
        ..Overrides::default()
    })
}

/// Reads the parameters of a turn.
pub(crate) fn turn_overrides(params: &Value) -> Result<TurnOverrides, String> {
    let collaboration = params.get("collaborationMode").filter(|it| !it.is_null());
    Ok(TurnOverrides {
        cwd: text(params, "cwd").map(PathBuf::from),
        approval_policy: parsed(params, "approvalPolicy")?,
        sandbox_policy: match params.get("sandboxPolicy").filter(|it| !it.is_null()) {
            Some(policy) => Some(sandbox_policy(policy)?),
            None => None,
        },
        model: text(params, "model"),
        effort: text(params, "effort"),
        summary: text(params, "summary"),
        personality: parsed(params, "personality")?,
        collaboration: collaboration.map(|mode| {
            let settings = &mode["settings"];
            CollaborationMode {
                mode: text(mode, "mode").unwrap_or_default(),
                model: text(settings, "model").unwrap_or_default(),
                effort: text(settings, "reasoning_effort"),
                developer_instructions: text(settings, "developer_instructions"),
            }
        }),
        output_schema: params.get("outputSchema").filter(|it| !it.is_null()).cloned(),
    })
}

/// Reads what the user sends in a turn.
pub(crate) fn inputs(step: &Value) -> Result<Vec<UserInput>, String> {
    let Some(given) = step["params"]["input"].as_array() else {
        let text = text(step, "text").unwrap_or_default();
        return Ok(vec![UserInput::Text(text)]);
    };
    let mut inputs = Vec::new();
    for input in given {
        match input["type"].as_str() {
            Some("text") => inputs.extend(text(input, "text").map(UserInput::Text)),
            Some("image") => inputs.extend(text(input, "url").map(UserInput::Image)),
            Some("localImage") => {
                let path = text(input, "path").map(PathBuf::from);
                inputs.extend(path.map(UserInput::LocalImage));
            }
            // Structured mentions add nothing to the message.
            Some("skill" | "mention") => {}
            other => return Err(format!("the input {other:?} is not known")),
        }
    }
    Ok(inputs)
}

/// Returns the command prefix that a decision approves permanently.
pub(crate) fn approved_prefix(decision: &Value) -> Option<Vec<String>> {
    match decision {
        Value::Array(words) if words.iter().all(Value::is_string) && !words.is_empty() => {
            Some(texts(decision))
        }
        Value::Array(values) => values.iter().find_map(approved_prefix),
        Value::Object(fields) => fields.values().find_map(approved_prefix),
        _ => None,
    }
}

/// Returns a tool in the format of the Responses API, whatever the wire.
pub(crate) fn as_responses_tool(tool: &Value) -> Value {
    let function = &tool["function"];
    if !function.is_object() {
        return tool.clone();
    }
    json!({
        "type": "function",
        "name": function["name"],
        "description": function["description"],
        "strict": function["strict"],
        "parameters": function["parameters"],
    })
}

fn sandbox_policy(policy: &Value) -> Result<SandboxPolicy, String> {
    let truth = |key: &str| policy[key].as_bool().unwrap_or(false);
    Ok(match policy["type"].as_str() {
        Some("dangerFullAccess") => SandboxPolicy::DangerFullAccess,
        Some("readOnly") => SandboxPolicy::ReadOnly,
        Some("externalSandbox") => {
            SandboxPolicy::ExternalSandbox { network_access: policy["networkAccess"] == "enabled" }
        }
        Some("workspaceWrite") => SandboxPolicy::WorkspaceWrite(WorkspaceWrite {
            writable_roots: list(&policy["writableRoots"])
                .iter()
                .filter_map(|root| root.as_str().map(PathBuf::from))
                .collect(),
            network_access: truth("networkAccess"),
            exclude_tmpdir_env_var: truth("excludeTmpdirEnvVar"),
            exclude_slash_tmp: truth("excludeSlashTmp"),
        }),
        other => return Err(format!("the sandbox {other:?} is not known")),
    })
}

fn text(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().map(str::to_owned)
}

fn parsed<T>(value: &Value, key: &str) -> Result<Option<T>, String>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    let name = value[key].as_str();
    let parsed = name.map(|name| name.parse().map_err(|wrong| format!("{key}: {wrong}")));
    parsed.transpose()
}

fn as_toml(value: &Value) -> Option<toml::Value> {
    toml::Value::try_from(value).ok()
}
