//! Tools about a directory, for use outside of a conversation.

use std::path::{Path, PathBuf};

use convoke_core::input_schema;
use convoke_pipe::assemble::{UnknownFields, assemble_lines};
use convoke_pipe::mcp::{Cancellation, Tool, ToolResult, Tools};
use serde_json::{Map, Value, json};

use crate::commands::{capture, explain, review};
use crate::outcome::UsageError;

/// The tools without a conversation.
pub(super) struct DirectoryTools;

impl Tools for DirectoryTools {
    fn list(&self) -> Vec<Tool> {
        let text = |about: &str| json!({ "type": "string", "description": about });
        let tool = |name: &str, description: &str, properties: Value, required: &[&str]| Tool {
            name: name.to_owned(),
            description: description.to_owned(),
            schema: json!({
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            }),
            only_reads: true,
        };
        let agents = "The agents: claude, gemini, codex, or an edition such as codex@0.98.";
        vec![
            tool(
                "explain",
                "Returns which instruction files and skills Claude Code, Gemini CLI and Codex load in a directory, in \
                 what order, how many bytes, what is cut and by which rule. JSON, as written by `convoke explain --json`.",
                json!({
                    "path": text("The directory; by default the one that this server runs in."),
                    "agents": { "type": "array", "items": { "type": "string" }, "description": agents },
                }),
                &[],
            ),
            tool(
                "review",
                "Has the change in a git repository's working tree reviewed by agents of other vendors, which may only read. Takes minutes. \
                 JSON, as written by `convoke review --json`: only the verdict `approve` is an approval.",
                json!({
                    "path": text("The directory; by default the one that this server runs in."),
                    "by": { "type": "array", "items": { "type": "string" }, "description": "The reviewers, such as codex or claude; by default one of another vendor than the author's." },
                    "against": text("The revision from which the work branched off; by default the main branch."),
                }),
                &[],
            ),
            tool(
                "capture_diff",
                "Compares two captures that `convoke capture --save` wrote: the parts of the request that were added, \
                 removed and changed. JSON, as written by `convoke capture --diff A B --json`.",
                json!({ "a": text("The directory of the first."), "b": text("The directory of the second.") }),
                &["a", "b"],
            ),
            tool(
                "assemble",
                "Assembles a prompt from messages within its budget, and returns it with its ledger: the source of \
                 every byte, and what was cut. JSON, as written by `convoke assemble`.",
                json!({
                    "agent": text("The type of agent, such as claude or codex."),
                    "input": input_schema(),
                }),
                &["agent", "input"],
            ),
        ]
    }

    fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        _: &Cancellation,
    ) -> Option<ToolResult> {
        let tool = self.list().into_iter().find(|tool| tool.name == name)?;
        if let Some(unknown) =
            arguments.keys().find(|key| tool.schema["properties"].get(key.as_str()).is_none())
        {
            let text = format!("`{name}` has no argument `{unknown}`");
            return Some(ToolResult { text, is_error: true });
        }
        let given = Value::Object(arguments);
        let result = match name {
            "explain" => explained(&given),
            "review" => reviewed(&given),
            "capture_diff" => compared(&given),
            "assemble" => return Some(assembled(&given)),
            _ => return None,
        };
        Some(match result {
            Ok(text) => ToolResult { text, is_error: false },
            Err(error) => ToolResult { text: format!("{error:#}"), is_error: true },
        })
    }

    fn instructions(&self) -> &'static str {
        "Shows which files coding agents load in a directory, has changes reviewed, compares the requests that agents send, and assembles prompts."
    }
}

fn explained(given: &Value) -> anyhow::Result<String> {
    let path = given["path"].as_str().unwrap_or(".");
    let agents = match &given["agents"] {
        Value::Null => Vec::new(),
        agents => serde_json::from_value(agents.clone())
            .map_err(|_| UsageError("`agents` must be a list of names".into()))?,
    };
    Ok(serde_json::to_string(&explain::report(PathBuf::from(path), agents)?)?)
}

fn reviewed(given: &Value) -> anyhow::Result<String> {
    let path = given["path"].as_str().unwrap_or(".");
    let by = match &given["by"] {
        Value::Null => Vec::new(),
        by => serde_json::from_value(by.clone())
            .map_err(|_| UsageError("`by` must be a list of names".into()))?,
    };
    let against = given["against"].as_str().map(str::to_owned);
    Ok(review::reviewed(PathBuf::from(path), by, against)?.to_string())
}

fn compared(given: &Value) -> anyhow::Result<String> {
    let path = |name: &str| {
        let path = given[name].as_str().map(Path::new);
        path.ok_or_else(|| UsageError(format!("`{name}` must be the directory of a capture")))
    };
    Ok(serde_json::to_string(&capture::difference(path("a")?, path("b")?)?)?)
}

fn assembled(given: &Value) -> ToolResult {
    let mut output = Vec::new();
    let line = given.to_string();
    let result =
        assemble_lines(line.as_bytes(), &mut output, line.len() as u64, UnknownFields::Refused);
    let text = match result {
        Ok(_) => String::from_utf8_lossy(&output).trim_end().to_owned(),
        Err(error) => error.to_string(),
    };
    let is_error = serde_json::from_str::<Value>(&text).map_or(true, |it| !it["error"].is_null());
    ToolResult { text, is_error }
}
