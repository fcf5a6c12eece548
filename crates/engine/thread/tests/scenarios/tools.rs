//! The simulated tools of a scenario: their results come from the captures, and Codex's additions are created
//! here.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use convoke_files::{Files, absolute};
use convoke_thread::images;
use convoke_thread::item::{
    ContentItem, CustomToolCallOutput, FunctionCall, FunctionCallOutput, FunctionOutput,
    ResponseItem,
};
use serde_json::Value;

use crate::scenario::{Scenario, list};

const IMAGE_ATTACHED: &str = "attached local image path";

/// The outputs of the tools, by call.
pub(crate) struct Tools<'a> {
    /// The outputs in the session files, as the tools returned them.
    recorded: HashMap<String, VecDeque<ResponseItem>>,
    scenario: &'a Scenario,
}

impl<'a> Tools<'a> {
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        let mut recorded: HashMap<String, VecDeque<ResponseItem>> = HashMap::new();
        for line in scenario.rollouts().iter().flatten() {
            if line["type"] != "response_item" {
                continue;
            }
            if let Ok(item) = ResponseItem::try_from(line["payload"].clone())
                && let Some(id) = answered_call(&item)
            {
                recorded.entry(id.to_owned()).or_default().push_back(item);
            }
        }
        Self { recorded, scenario }
    }

    /// Returns the results of the calls in the response to request `number`, and Codex's additions, in the
    /// order in which they are recorded.
    pub(crate) fn run(
        &mut self,
        calls: &[ResponseItem],
        number: usize,
        cwd: &Path,
        files: &dyn Files,
    ) -> Vec<ResponseItem> {
        let outputs = calls.iter().filter_map(|call| self.output(call, number));
        let outputs: Vec<_> = outputs.collect();
        let warnings = calls.iter().filter_map(|call| patch_warning(call, &outputs));
        let images = calls.iter().filter_map(|call| seen_image(call, &outputs, cwd, files));
        let mut results: Vec<_> = warnings.collect();
        let images: Vec<_> = images.collect();
        results.extend(outputs);
        results.extend(images);
        results
    }

    fn output(&mut self, call: &ResponseItem, number: usize) -> Option<ResponseItem> {
        let id = call_id(call)?;
        if let Some(outputs) = self.recorded.get_mut(id)
            && let Some(output) = outputs.pop_front()
        {
            return Some(output);
        }
        let later = &self.scenario.requests()[number..];
        later.iter().find_map(|request| {
            let body = &request["body"];
            let items = list(&body["input"]).iter().rev();
            let on_responses = items
                .filter_map(|item| ResponseItem::try_from(item.clone()).ok())
                .find(|item| answered_call(item) == Some(id));
            let messages = list(&body["messages"]).iter().rev();
            let on_chat = || {
                let told = messages.clone().find(|it| it["tool_call_id"] == id)?;
                let text = told["content"].as_str()?;
                Some(match call {
                    ResponseItem::CustomToolCall(_) => {
                        ResponseItem::CustomToolCallOutput(CustomToolCallOutput {
                            call_id: id.to_owned(),
                            output: text.to_owned(),
                        })
                    }
                    _ => ResponseItem::function_output(id, text),
                })
            };
            on_responses.or_else(on_chat)
        })
    }
}

fn call_id(call: &ResponseItem) -> Option<&str> {
    match call {
        ResponseItem::FunctionCall(call) => Some(&call.call_id),
        ResponseItem::CustomToolCall(call) => Some(&call.call_id),
        ResponseItem::LocalShellCall(call) => call.call_id.as_deref().or(call.id.as_deref()),
        _ => None,
    }
}

fn answered_call(item: &ResponseItem) -> Option<&str> {
    match item {
        ResponseItem::FunctionCallOutput(output) => Some(&output.call_id),
        ResponseItem::CustomToolCallOutput(output) => Some(&output.call_id),
        _ => None,
    }
}

fn output_text<'a>(call: &FunctionCall, outputs: &'a [ResponseItem]) -> Option<&'a str> {
    outputs.iter().find_map(|item| match item {
        ResponseItem::FunctionCallOutput(FunctionCallOutput {
            call_id,
            output: FunctionOutput::Text(text),
        }) if *call_id == call.call_id => Some(text.as_str()),
        _ => None,
    })
}

/// Returns the warning about a patch that was applied through a shell.
fn patch_warning(call: &ResponseItem, outputs: &[ResponseItem]) -> Option<ResponseItem> {
    let ResponseItem::FunctionCall(call) = call else {
        return None;
    };
    let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
    let script = match &*call.name {
        "exec_command" => arguments["cmd"].as_str()?,
        "shell_command" => arguments["command"].as_str()?,
        "shell" | "container.exec" => list(&arguments["command"]).last()?.as_str()?,
        _ => return None,
    };
    let script = script.trim_start();
    let command = match script.strip_prefix("cd ").and_then(|it| it.split_once("&&")) {
        Some((_, command)) => command.trim_start(),
        None => script,
    };
    let names = ["apply_patch", "applypatch"];
    let is_patch = names.iter().any(|name| command.starts_with(name))
        || list(&arguments["command"]).first().is_some_and(|it| it == "apply_patch");
    let refused = output_text(call, outputs)?.starts_with("apply_patch verification failed");
    (is_patch && !refused).then(|| {
        let tool = &call.name;
        ResponseItem::user(format!(
            "Warning: apply_patch was requested via {tool}. Use the apply_patch tool instead of \
             exec_command."
        ))
    })
}

/// Returns the message with an image that the model asked to see, which follows the outputs.
fn seen_image(
    call: &ResponseItem,
    outputs: &[ResponseItem],
    cwd: &Path,
    files: &dyn Files,
) -> Option<ResponseItem> {
    let ResponseItem::FunctionCall(call) = call else {
        return None;
    };
    if call.name != "view_image" || output_text(call, outputs)? != IMAGE_ATTACHED {
        return None;
    }
    let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
    let path = absolute(cwd, Path::new(arguments["path"].as_str()?));
    let part = match images::data_url(files, &path, &path) {
        Ok(url) => ContentItem::InputImage(url),
        Err(instead) => ContentItem::InputText(instead),
    };
    Some(ResponseItem::message("user", vec![part]))
}
