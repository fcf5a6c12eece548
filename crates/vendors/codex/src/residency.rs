//! Data residency: a `ChatGPT` workspace can be bound to a region. Codex looks the region up before each turn,
//! but not when it is pointed to another address; so Codex is asked before a relay replaces the endpoint.

use serde_json::{Value, json};

use convoke_agent::process::Input;
use convoke_agent::relayed::RegionQuestion;

/// The first version that has workspaces bound to a region.
const SINCE: (u64, u64) = (0, 156);

fn check(initialized: &Value, account: &Value) -> Result<(), String> {
    let routing = ["workspaceRouting", "workspace_routing", "workspaceBackendOrigin"]
        .iter()
        .find_map(|name| find(account, name));
    match routing {
        Some(routing) if is_free(routing) => Ok(()),
        Some(_) => Err("the ChatGPT workspace is bound to a region, and a relay would send its \
                        requests elsewhere"
            .to_owned()),
        None if version(initialized).is_some_and(|version| version < SINCE) => Ok(()),
        None => Err(
            "this version of Codex does not report whether the ChatGPT workspace is bound to a \
                     region"
                .to_owned(),
        ),
    }
}

/// Returns the value of a field at any depth.
fn find<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    match value {
        Value::Object(fields) => {
            fields.get(name).or_else(|| fields.values().find_map(|it| find(it, name)))
        }
        Value::Array(values) => values.iter().find_map(|it| find(it, name)),
        _ => None,
    }
}

fn is_free(routing: &Value) -> bool {
    match routing {
        Value::Null => true,
        Value::String(text) => {
            matches!(
                text.to_ascii_uppercase().as_str(),
                "NO_CONSTRAINT" | "NOCONSTRAINT" | "NONE" | ""
            )
        }
        Value::Object(fields) => fields.values().all(is_free),
        Value::Bool(is_bound) => !is_bound,
        Value::Number(_) | Value::Array(_) => false,
    }
}

/// Returns the version that the program names in its user agent, `NAME/0.98.0 (…)`.
fn version(initialized: &Value) -> Option<(u64, u64)> {
    let agent = find(initialized, "userAgent")?.as_str()?;
    let number = agent.split('/').nth(1)?.split([' ', '(']).next()?;
    let mut parts = number.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

/// The dialogue with the app server: `initialize`, then `account/read`.
#[derive(Default)]
pub(super) struct Conversation {
    initialized: Option<Value>,
    account: Option<Value>,
}

impl RegionQuestion for Conversation {
    fn arguments(&self) -> &'static [&'static str] {
        &["app-server"]
    }

    fn opening(&self) -> Input {
        let client = json!({"name": "convoke", "version": env!("CARGO_PKG_VERSION")});
        let capabilities = json!({"experimentalApi": true});
        let params = json!({"clientInfo": client, "capabilities": capabilities});
        lines(&[json!({"id": 1, "method": "initialize", "params": params})])
    }

    fn next(&mut self, line: &str) -> Option<Input> {
        let Ok(answer) = serde_json::from_str::<Value>(line) else { return Some(Input::nothing()) };
        if answer["id"] == 1 && self.initialized.is_none() {
            self.initialized = Some(answer);
            let account =
                json!({"id": 2, "method": "account/read", "params": {"refreshToken": false}});
            return Some(lines(&[json!({"method": "initialized"}), account]));
        }
        if answer["id"] == 2 {
            self.account = Some(answer);
            return None;
        }
        Some(Input::nothing())
    }

    fn result(&self) -> Result<(), String> {
        match (&self.initialized, &self.account) {
            (Some(initialized), Some(account)) => check(initialized, account),
            _ => Err(self.unknown("it ended without an answer")),
        }
    }

    fn unknown(&self, why: &str) -> String {
        format!("cannot find out whether the ChatGPT workspace is bound to a region: {why}")
    }
}

fn lines(messages: &[Value]) -> Input {
    let lines = messages.iter().flat_map(|message| [message.to_string(), "\n".to_owned()]);
    Input::more(lines.collect::<String>().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_that_is_bound_or_may_be_is_not_relayed() {
        let newer = json!({"result": {"userAgent": "codex_cli_rs/0.166.0 (Linux)"}});
        let older = json!({"result": {"userAgent": "convoke/0.98.0 (Linux)"}});
        let account =
            |routing: Value| json!({"result": {"account": {"workspaceRouting": routing}}});
        let free = ["NO_CONSTRAINT".into(), Value::Null, json!({"origin": "NO_CONSTRAINT"})];
        for routing in free {
            assert_eq!(check(&newer, &account(routing)), Ok(()));
        }
        for routing in ["us".into(), json!({"origin": "https://us.chatgpt.com", "override": "us"})]
        {
            assert!(check(&newer, &account(routing)).unwrap_err().contains("bound to a region"));
        }
        let silent = json!({"result": {"account": {"type": "chatgpt"}}});
        assert_eq!(check(&older, &silent), Ok(()));
        assert!(check(&newer, &silent).unwrap_err().contains("does not report"));
    }
}
