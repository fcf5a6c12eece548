//! Messages of the Agent Client Protocol, checked by the types of its official crate. A crate of its own, so that the
//! other tests do not depend on those types.

#![allow(
    clippy::panic,
    clippy::wildcard_imports,
    reason = "only tests use this crate; it names nearly all of those types"
)]

use std::fmt::Debug;

pub use agent_client_protocol_schema::v1 as official;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Fields that the official types do not write, because their absence means the same.
const DEFAULTS: [(&str, &str); 2] = [("kind", "other"), ("status", "pending")];

/// Checks that the official types read a message, and write every field of it as it was. `asked` is the method of the
/// request that a response answers.
///
/// # Panics
///
/// Panics if they do not.
pub fn check(message: &Value, asked: Option<&str>) {
    let problem = match (message["method"].as_str(), message.get("error")) {
        (Some(method), _) if message.get("id").is_some() => request(method, message),
        (Some(method), _) => notification(method, message),
        (None, Some(_)) => whole::<official::Response<Value>>(message),
        (None, None) => asked
            .ok_or_else(|| "it answers no request".to_owned())
            .and_then(|method| response(method, message)),
    };
    if let Err(problem) = problem {
        panic!("{problem}: {message}");
    }
}

fn request(method: &str, message: &Value) -> Result<(), String> {
    use official::*;
    match method {
        "initialize" => whole::<Request<InitializeRequest>>(message),
        "authenticate" => whole::<Request<AuthenticateRequest>>(message),
        "session/new" => whole::<Request<NewSessionRequest>>(message),
        "session/load" => whole::<Request<LoadSessionRequest>>(message),
        "session/resume" => whole::<Request<ResumeSessionRequest>>(message),
        "session/list" => whole::<Request<ListSessionsRequest>>(message),
        "session/close" => whole::<Request<CloseSessionRequest>>(message),
        "session/prompt" => whole::<Request<PromptRequest>>(message),
        "session/set_mode" => whole::<Request<SetSessionModeRequest>>(message),
        "session/set_config_option" => whole::<Request<SetSessionConfigOptionRequest>>(message),
        // Gemini, Codex and Qwen offer their models in this older form only.
        "session/set_model" => {
            let params = message["params"].as_object().map(|it| it.keys().collect::<Vec<_>>());
            let is_known = params.is_some_and(|mut keys| {
                keys.sort();
                keys == ["modelId", "sessionId"]
            });
            if is_known { Ok(()) } else { Err("unknown parameters".to_owned()) }
        }
        "session/request_permission" => whole::<Request<RequestPermissionRequest>>(message),
        "fs/read_text_file" => whole::<Request<ReadTextFileRequest>>(message),
        "fs/write_text_file" => whole::<Request<WriteTextFileRequest>>(message),
        "terminal/create" => whole::<Request<CreateTerminalRequest>>(message),
        "terminal/output" => whole::<Request<TerminalOutputRequest>>(message),
        "terminal/wait_for_exit" => whole::<Request<WaitForTerminalExitRequest>>(message),
        "terminal/kill" => whole::<Request<KillTerminalRequest>>(message),
        "terminal/release" => whole::<Request<ReleaseTerminalRequest>>(message),
        _ => Err("no request of the protocol".to_owned()),
    }
}

fn notification(method: &str, message: &Value) -> Result<(), String> {
    use official::*;
    match method {
        "session/update" => whole::<Notification<SessionNotification>>(message),
        "session/cancel" => whole::<Notification<CancelNotification>>(message),
        "$/cancel_request" => whole::<Notification<CancelRequestNotification>>(message),
        _ => Err("no notification of the protocol".to_owned()),
    }
}

fn response(method: &str, message: &Value) -> Result<(), String> {
    use official::*;
    match method {
        "initialize" => whole::<Response<InitializeResponse>>(message),
        "authenticate" => whole::<Response<AuthenticateResponse>>(message),
        "session/new" => whole::<Response<NewSessionResponse>>(message),
        "session/load" => whole::<Response<LoadSessionResponse>>(message),
        "session/resume" => whole::<Response<ResumeSessionResponse>>(message),
        "session/list" => whole::<Response<ListSessionsResponse>>(message),
        "session/close" => whole::<Response<CloseSessionResponse>>(message),
        "session/prompt" => whole::<Response<PromptResponse>>(message),
        "session/request_permission" => whole::<Response<RequestPermissionResponse>>(message),
        "fs/read_text_file" => whole::<Response<ReadTextFileResponse>>(message),
        "fs/write_text_file" => whole::<Response<WriteTextFileResponse>>(message),
        "terminal/create" => whole::<Response<CreateTerminalResponse>>(message),
        "terminal/output" => whole::<Response<TerminalOutputResponse>>(message),
        "terminal/wait_for_exit" => whole::<Response<WaitForTerminalExitResponse>>(message),
        "terminal/kill" => whole::<Response<KillTerminalResponse>>(message),
        "terminal/release" => whole::<Response<ReleaseTerminalResponse>>(message),
        _ => Err(format!("`{method}` has no response")),
    }
}

/// Reads a message with its envelope, writes it again, and compares.
fn whole<T>(message: &Value) -> Result<(), String>
where
    T: Serialize + DeserializeOwned + Debug,
{
    let read: official::JsonRpcMessage<T> =
        serde_json::from_value(message.clone()).map_err(|error| error.to_string())?;
    let written = serde_json::to_value(&read).map_err(|error| error.to_string())?;
    match lost(message, &written) {
        None => Ok(()),
        Some(path) => Err(format!("`{path}` is lost: the official types write {written}")),
    }
}

/// Returns the path of a value that the second one does not have.
fn lost(ours: &Value, theirs: &Value) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => ours.iter().find_map(|(name, value)| {
            let is_default =
                || DEFAULTS.iter().any(|it| *it == (&**name, value.as_str().unwrap_or_default()));
            match theirs.get(name) {
                None if is_default() => None,
                None => Some(name.clone()),
                Some(kept) => lost(value, kept).map(|path| format!("{name}.{path}")),
            }
        }),
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            let pairs = ours.iter().zip(theirs).enumerate();
            pairs.into_iter().find_map(|(at, (ours, theirs))| {
                lost(ours, theirs).map(|path| format!("{at}.{path}"))
            })
        }
        _ => (ours != theirs).then(String::new),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_official_types_do_not_know_is_found() {
        let update = json!({"sessionUpdate": "plan", "entries": []});
        let message = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}});
        check(&message, None);
        for (path, value) in [
            ("/params/update/sessionUpdate", json!("hologram")),
            ("/params/update", json!({"sessionUpdate": "plan", "entries": [], "odd": 1})),
            (
                "/params/update/entries",
                json!([{"content": "x", "priority": "none", "status": "pending"}]),
            ),
            ("/method", json!("session/other")),
            ("/jsonrpc", json!("1.0")),
        ] {
            let mut wrong = message.clone();
            *wrong.pointer_mut(path).unwrap() = value;
            assert!(std::panic::catch_unwind(|| check(&wrong, None)).is_err(), "{wrong}");
        }
    }
}
