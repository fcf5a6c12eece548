//! `context.jsonl`: scripts of context manager calls.

use std::sync::mpsc::{Sender, channel};

use convoke_core::marker::TextPolicy;
use convoke_core::{
    AgentContext, ContextManager, ContextManagerOptions, Hooks, Millis, NewMessage,
};
use serde_json::{Value, json};

use crate::{check, expect};

#[test]
fn calls_answer_as_expected() {
    check("context.jsonl", |vector| {
        let (sender, events) = channel();
        let mut manager = ContextManager::new(options(&vector["options"]), hooks(&sender));
        for (number, step) in vector["steps"].as_array().expect("steps").iter().enumerate() {
            let method = step["method"].as_str().expect("method");
            let answer = call(&mut manager, method, &step["params"]);
            let expected = match step.get("error") {
                Some(error) => Err(error.as_str().expect("an error text").to_owned()),
                None => Ok(expected_result(method, &step["result"])),
            };
            expect(&expected, &answer).map_err(|why| format!("step {number}, {method}: {why}"))?;
        }
        drop((sender, manager));
        expect(&vector["events"], &json!(events.iter().collect::<Vec<_>>()))
    });
}

fn options(options: &Value) -> ContextManagerOptions {
    let mut read = ContextManagerOptions::default();
    if let Some(window) = options["contextWindowSize"].as_u64() {
        read.context.window = usize::try_from(window).expect("a window");
    }
    read.context.max_bytes = options["maxBytes"].as_u64().unwrap_or(read.context.max_bytes);
    if options["text"] == "compat" {
        read.context.text = TextPolicy::Compat;
    }
    read
}

fn hooks(events: &Sender<Value>) -> Hooks {
    let (added, changed) = (events.clone(), events.clone());
    Hooks {
        message_added: Some(Box::new(move |message| {
            added.send(json!(["messageAdded", message.id])).expect("a receiver");
        })),
        team_task_changed: Some(Box::new(move |task| {
            changed.send(json!(["teamTaskChanged", task])).expect("a receiver");
        })),
        limit: None,
    }
}

/// Removes the fields that vectors do not compare.
fn expected_result(method: &str, result: &Value) -> Value {
    match method {
        "addMessage" => result["id"].clone(),
        _ => result.clone(),
    }
}

fn call(manager: &mut ContextManager, method: &str, params: &Value) -> Result<Value, String> {
    let text = |index: usize| params[index].as_str().expect("a string");
    Ok(match method {
        "addMessage" => {
            let message = NewMessage::from_json(params[0].clone()).map_err(|e| e.to_string())?;
            json!(manager.add_message(message).id)
        }
        "getMessages" => json!(manager.messages().map(|message| &message.id).collect::<Vec<_>>()),
        "getLatestMessage" => json!(manager.latest_message().map(|message| &message.id)),
        "setTeamTask" => {
            manager.set_team_task(text(0));
            Value::Null
        }
        "getTeamTask" => json!(manager.team_task()),
        "clear" => {
            manager.clear();
            Value::Null
        }
        "exportSnapshot" => {
            let mut snapshot = json!(manager.export_snapshot(Millis(0)));
            snapshot.as_object_mut().expect("an object").shift_remove("timestamp");
            snapshot
        }
        "importSnapshot" => {
            manager.import_snapshot(params[0].clone()).map_err(|e| e.to_string())?;
            Value::Null
        }
        "getContextForAgent" => {
            let options = &params[2];
            let window = options["windowSizeOverride"].as_u64();
            let context = AgentContext {
                window_size_override: window
                    .map(|window| usize::try_from(window).expect("a window")),
                system_instruction: options["systemInstruction"].as_str(),
                instruction_file_text: options["instructionFileText"].as_str(),
                ..AgentContext::default()
            };
            json!(manager.context_for_agent(text(0), context))
        }
        _ => panic!("unknown method {method}"),
    })
}
