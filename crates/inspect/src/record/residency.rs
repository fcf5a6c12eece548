//! Data residency: a `ChatGPT` workspace can be bound to a region. Codex looks the region up before each turn,
//! but not when it is pointed to another address; so Codex is asked before a relay replaces the endpoint.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use convoke_agent::launch::ConfinedEnvironment;
use serde_json::{Value, json};

/// The time limit: enough to start a program on a busy machine and to wait for the network.
const TIMEOUT: Duration = Duration::from_secs(45);

/// The maximum size of an answer.
const MAX_ANSWER_BYTES: u64 = 4 << 20;

/// The first version that has workspaces bound to a region.
const SINCE: (u64, u64) = (0, 156);

/// Asks Codex whether the workspace of its account is bound to a region; the error is why its requests
/// cannot be relayed.
pub(super) fn ask(
    program: &Path,
    arguments: &[&str],
    env: &ConfinedEnvironment,
    cwd: &Path,
) -> Result<(), String> {
    let unknown =
        || "cannot find out whether the ChatGPT workspace is bound to a region".to_owned();
    let (initialized, account) = converse(program, arguments, env, cwd).ok_or_else(unknown)?;
    check(&initialized, &account)
}

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

/// Returns the answers to `initialize` and `account/read`.
fn converse(
    program: &Path,
    arguments: &[&str],
    env: &ConfinedEnvironment,
    cwd: &Path,
) -> Option<(Value, Value)> {
    let mut child = Command::new(program)
        .args(arguments)
        .arg("app-server")
        .env_clear()
        .envs(env.variables())
        .current_dir(cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut input = child.stdin.take()?;
    let output = child.stdout.take()?;
    let (sender, answers) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        for line in BufReader::new(output.take(MAX_ANSWER_BYTES)).lines().map_while(Result::ok) {
            if let Ok(value) = serde_json::from_str::<Value>(&line)
                && sender.send(value).is_err()
            {
                return;
            }
        }
    });
    let deadline = Instant::now() + TIMEOUT;
    let mut request = |message: Value| writeln!(input, "{message}").ok();
    let answer = |id: u64| loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let value = answers.recv_timeout(left).ok()?;
        if value["id"] == id {
            return Some(value);
        }
    };
    let found = (|| {
        let client = json!({"name": "convoke", "version": env!("CARGO_PKG_VERSION")});
        let capabilities = json!({"experimentalApi": true});
        request(
            json!({"id": 1, "method": "initialize", "params": {"clientInfo": client, "capabilities": capabilities}}),
        )?;
        let initialized = answer(1)?;
        request(json!({"method": "initialized"}))?;
        request(json!({"id": 2, "method": "account/read", "params": {"refreshToken": false}}))?;
        Some((initialized, answer(2)?))
    })();
    let _ = child.kill();
    let _ = child.wait();
    found
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
