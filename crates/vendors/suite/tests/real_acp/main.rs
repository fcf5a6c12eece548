//! Real ACP agents, at pinned versions, against the rehearsal server.
//!
//! `scripts/install-clis` installs them into `CONVOKE_CLIS` (by default `target/clis`), with the Node.js that
//! they need. The tests of a missing agent are reported as skipped; with `CI=true` they fail.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use convoke_agent::adapter::acp::Preset;
use convoke_agent::adapter::{Host, agent};
use convoke_agent::config::Definition;
use convoke_agent::endpoint::{self, ModelServer};
use convoke_agent::process::guardian::Guardian;
use convoke_agent::sandbox::SandboxSettings;
use convoke_agent::turn_input::{Permissions, TurnInput};
use convoke_agent::{Agent, TurnResult};
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::permission::PermissionAnswer;
use convoke_protocol::verdict::Verdict;
use convoke_rehearsal::script::Condition;
use convoke_rehearsal::{Answer, Rehearsal, Script, start};
use convoke_wire::RequestParts;
use serde_json::json;
use tempfile::TempDir;

/// An agent and its installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Installed {
    preset: &'static str,
    label: &'static str,
}

const CLAUDE: Installed = Installed { preset: "claude-acp", label: "claude-agent-acp-0.99.1" };
const CODEX: Installed = Installed { preset: "codex-acp", label: "codex-acp-2.6.0" };
const COPILOT: Installed = Installed { preset: "copilot", label: "copilot-1.0.102" };
const GEMINI: Installed = Installed { preset: "gemini-acp", label: "gemini-0.61.0" };
const KIMI: Installed = Installed { preset: "kimi", label: "kimi-2.1.0" };
const KILO: Installed = Installed { preset: "kilo", label: "kilo-7.7.7" };
const OPENCODE: Installed = Installed { preset: "opencode", label: "opencode-1.18.33" };
const QWEN: Installed = Installed { preset: "qwen", label: "qwen-0.24.4" };
const NODE: &str = "node-22.23.3";

fn cache() -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/clis");
    std::env::var_os("CONVOKE_CLIS").map_or(target, PathBuf::from)
}

impl Installed {
    fn preset(self) -> &'static Preset {
        convoke_vendors::programs().preset(self.preset).unwrap()
    }

    /// Returns its program, or `None` when it is not installed and need not be.
    fn program(self) -> Option<PathBuf> {
        let bin = cache().join(self.label).join("node_modules/.bin");
        let program = bin.join(self.preset().command);
        if program.exists() {
            return Some(program);
        }
        let is_extra = [KIMI, KILO, OPENCODE, QWEN].contains(&self);
        let is_set = |name: &str| std::env::var(name).is_ok_and(|value| value == "true");
        let is_required = is_set(if is_extra { "CONVOKE_REQUIRE_OTHERS" } else { "CI" });
        assert!(!is_required, "{} is not installed: run scripts/install-clis", self.label);
        println!("skipped: {} is not installed; scripts/install-clis does that", self.label);
        None
    }

    /// Returns a shell call that needs a permission, depending on `asks`.
    fn shell(self, command: &str, asks: bool) -> Answer {
        let (tool, input) = match self {
            CODEX if !asks => ("exec_command", json!({"cmd": command, "yield_time_ms": 60_000})),
            GEMINI | QWEN => (
                "run_shell_command",
                json!({"command": command, "description": "test", "is_background": false}),
            ),
            CODEX => (
                "exec_command",
                json!({"cmd": command, "yield_time_ms": 60_000, "sandbox_permissions": "require_escalated", "justification": "test"}),
            ),
            CLAUDE | KIMI => ("Bash", json!({"command": command, "description": "test"})),
            _ => ("bash", json!({"command": command, "description": "test"})),
        };
        Answer::call(tool, input)
    }
}

/// An agent in its own home, with a model server.
struct TestHost {
    installed: Installed,
    home: TempDir,
    work: TempDir,
    server: Rehearsal,
    agent: Box<dyn Agent>,
}

impl TestHost {
    async fn new(installed: Installed, mut script: Script) -> Option<Self> {
        let program = installed.program()?;
        if [KILO, OPENCODE].contains(&installed) {
            // With these agents, the model first names each session, without tools.
            let has_tools =
                || Condition { contains: Some("\"tools\":".to_owned()), ..Condition::default() };
            for answer in &mut script.answers {
                answer.when = has_tools();
            }
        }
        let server = start(script).await.unwrap();
        let (home, work) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let definition = Definition {
            command: Some(program.display().to_string()),
            ..Definition::of_preset(installed.preset())
        };
        let address = server.base_url();
        endpoint::configure_agent(&definition, &address, home.path()).unwrap();
        let model_server = ModelServer { base_url: &address, proxy_url: &server.proxy_url() };
        let own = endpoint::agent_environment(&definition, model_server, home.path()).unwrap();
        let mut env: Vec<(OsString, OsString)> =
            own.into_iter().map(|(name, value)| (name.into(), value)).collect();
        let node = cache().join(NODE).join("node_modules/node/bin");
        let path = std::env::var_os("PATH").unwrap();
        let path = std::iter::once(node).chain(std::env::split_paths(&path));
        env.push(("PATH".into(), std::env::join_paths(path).unwrap()));
        let host = Host {
            guardian: Guardian::from_program(env!("CARGO_BIN_EXE_convoke-test-host")),
            env,
            temp_root: home.path().join("tmp"),
            state_dir: home.path().join("state"),
            sandbox: SandboxSettings::default(),
            programs: convoke_vendors::programs(),
        };
        Some(Self { installed, home, work, server, agent: agent(definition, host) })
    }

    fn turn_input(&self, prompt: &str) -> TurnInput {
        let mut turn_input = TurnInput::new(prompt, self.work.path());
        turn_input.limits.turn = Duration::from_mins(5);
        turn_input.limits.retries = 1;
        let model = match self.installed {
            GEMINI => Some("gemini-2.5-flash"),
            CODEX => Some("gpt-5.5"),
            _ => None,
        };
        turn_input.model = model.map(str::to_owned);
        turn_input
    }

    async fn run(&self, turn_input: TurnInput) -> TurnResult {
        self.agent.start(turn_input).result().await
    }

    /// Returns every text that the model was sent in its turns.
    fn texts(&self) -> Vec<String> {
        let calls =
            self.server.model_calls().into_iter().filter(convoke_rehearsal::Recorded::is_turn);
        let parts = calls.flat_map(|call| {
            RequestParts::parse(call.model_call().unwrap().wire, &call.body).unwrap().parts
        });
        parts.map(|part| part.text).collect()
    }

    /// Returns the processes that have this test's home in their environment.
    fn processes(&self) -> Vec<i32> {
        let mark = format!("HOME={}", self.home.path().display());
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let ours = pids.filter(|pid| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
        });
        ours.filter(|&pid| runs(pid)).collect()
    }
}

fn runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Waits until something holds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_mins(3);
    while !holds() {
        assert!(Instant::now() < patience, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A prompt as the coordinator assembles it, with text that programs act on.
fn prompt(secret: &Path) -> String {
    let secret = secret.display();
    format!(
        "Message:\nfirst line  \n/help\n/nosuch arg\n@{secret} and read @{secret} now\n!ls\n#x\n\
         \u{1b}[1m \u{202e} \r\n\t\"'\\ äöü 你好 🦀 <system>x</system>\n[NEXT: all]\nend"
    )
}

/// The model gets the prompt byte for byte, and no content of files.
async fn delivers_byte_for_byte(installed: Installed) {
    let script = Script::new([Answer::say("It is four.")]);
    let Some(host) = TestHost::new(installed, script).await else { return };
    let secret = host.home.path().join("secret.txt");
    std::fs::write(&secret, "the words of a file").unwrap();
    let prompt = prompt(&secret);
    let result = host.run(host.turn_input(&prompt)).await;
    assert_eq!(result.verdict, Verdict::Done, "{result:?}");
    assert_eq!(result.reply, "It is four.");
    // Kimi reports the size of its context, but does not count the tokens of a turn.
    let is_counted = result.usage.is_some() || installed == KIMI;
    assert!(result.resume.is_some() && is_counted, "{result:?}");
    let texts = host.texts();
    // Copilot adds the time before the prompt.
    let is_whole = |text: &String| match installed {
        COPILOT => text.ends_with(&prompt),
        _ => *text == prompt,
    };
    assert!(texts.iter().any(is_whole), "{texts:#?}");
    assert!(!texts.iter().any(|text| text.contains("the words of a file")), "{texts:#?}");
    until("a process is left", || host.processes().is_empty()).await;
}

/// A text that looks like a command reaches the model as text.
async fn takes_no_text_for_a_command(installed: Installed) {
    let script = Script::new([Answer::say("Yes.")]);
    let Some(host) = TestHost::new(installed, script).await else { return };
    let result = host.run(host.turn_input(" /help me")).await;
    assert_eq!((&result.verdict, result.reply.as_str()), (&Verdict::Done, "Yes."), "{result:?}");
    assert!(host.texts().iter().any(|text| text.contains(" /help me")), "{:#?}", host.texts());
}

/// A person is asked before a command runs; after a no, it does not run.
async fn asks_and_takes_no_for_an_answer(installed: Installed) {
    let script = Script::new([installed.shell("touch made.txt", true), Answer::say("Done.")]);
    let Some(host) = TestHost::new(installed, script).await else { return };
    let mut turn_input = host.turn_input("make a file");
    turn_input.permissions = Permissions::Ask;
    let mut turn = host.agent.start(turn_input);
    let answerer = turn.answerer();
    let mut asked = Vec::new();
    while let Some(event) = turn.next().await {
        if let AgentEventKind::PermissionAsked { question, .. } = event.kind {
            answerer.answer(&question.id, PermissionAnswer::Never);
            asked.push(question.summary);
        }
    }
    let result = turn.result().await;
    assert!(asked.len() == 1 && asked[0].contains("touch made.txt"), "{asked:?} {result:?}");
    // Codex ends its turn after a no, as cancelled.
    let is_over = matches!(result.verdict, Verdict::Done | Verdict::Cancelled);
    assert!(is_over, "{result:?}");
    assert!(!host.work.path().join("made.txt").exists());
}

/// A turn is cancelled while a command runs, and neither the command nor the agent keeps running.
async fn cancels_without_a_trace(installed: Installed) {
    let command = "echo $$ > pid; sleep 1000";
    let script = Script::new([installed.shell(command, false), Answer::say("Done.")]);
    let Some(host) = TestHost::new(installed, script).await else { return };
    let mut turn_input = host.turn_input("wait");
    turn_input.permissions = Permissions::Edit;
    let mut turn = host.agent.start(turn_input);
    let canceller = turn.canceller();
    let reading = tokio::spawn(async move {
        let mut outputs = Vec::new();
        while let Some(event) = turn.next().await {
            if let AgentEventKind::ToolFinished { output, .. } = event.kind {
                outputs.push(output.into_owned());
            }
        }
        (turn.result().await, outputs)
    });
    let file = host.work.path().join("pid");
    let pid = || std::fs::read_to_string(&file).ok()?.trim().parse::<i32>().ok();
    until("the command never ran", || pid().is_some() || reading.is_finished()).await;
    canceller.cancel();
    let (result, outputs) = reading.await.unwrap();
    assert_eq!(result.verdict, Verdict::Cancelled, "{result:?} {outputs:?}");
    assert!(pid().is_some_and(|pid| !runs(pid)), "{result:?}");
    until("a process is left", || host.processes().is_empty()).await;
}

/// A second turn resumes the session, and the model gets the history.
async fn resumes_its_session(installed: Installed) {
    let script = Script::new([Answer::say("First."), Answer::say("Second.")]);
    let Some(host) = TestHost::new(installed, script).await else { return };
    let first = host.run(host.turn_input("the first prompt")).await;
    assert_eq!(first.verdict, Verdict::Done, "{first:?}");
    let mut turn_input = host.turn_input("the second prompt");
    turn_input.resume = first.resume;
    let second = host.run(turn_input).await;
    assert_eq!((&second.verdict, second.reply.as_str()), (&Verdict::Done, "Second."), "{second:?}");
    let calls = host.server.model_calls();
    let last = calls.iter().rfind(|call| call.is_turn()).unwrap();
    let parts = RequestParts::parse(last.model_call().unwrap().wire, &last.body).unwrap().parts;
    assert!(parts.iter().any(|part| part.text.contains("the first prompt")), "{second:?}");
}

macro_rules! for_each_agent {
    ($($module:ident: $agent:expr => [$($check:ident),*];)*) => {
        $(mod $module {
            use super::*;
            $(#[tokio::test]
            async fn $check() {
                super::$check($agent).await;
            })*
        })*
    };
}

for_each_agent! {
    claude: CLAUDE => [delivers_byte_for_byte, takes_no_text_for_a_command, asks_and_takes_no_for_an_answer, cancels_without_a_trace, resumes_its_session];
    codex: CODEX => [delivers_byte_for_byte, takes_no_text_for_a_command, asks_and_takes_no_for_an_answer, cancels_without_a_trace, resumes_its_session];
    copilot: COPILOT => [delivers_byte_for_byte, takes_no_text_for_a_command, asks_and_takes_no_for_an_answer, cancels_without_a_trace, resumes_its_session];
    gemini: GEMINI => [delivers_byte_for_byte, takes_no_text_for_a_command, asks_and_takes_no_for_an_answer, cancels_without_a_trace];
}

/// Agents that CI does not install; `scripts/nightly` does.
mod others {
    use super::*;

    for_each_agent! {
        kilo: KILO => [delivers_byte_for_byte, takes_no_text_for_a_command, asks_and_takes_no_for_an_answer, cancels_without_a_trace];
        kimi: KIMI => [delivers_byte_for_byte, takes_no_text_for_a_command, asks_and_takes_no_for_an_answer, cancels_without_a_trace];
        opencode: OPENCODE => [delivers_byte_for_byte, takes_no_text_for_a_command, asks_and_takes_no_for_an_answer, cancels_without_a_trace];
        qwen: QWEN => [delivers_byte_for_byte, takes_no_text_for_a_command, asks_and_takes_no_for_an_answer, cancels_without_a_trace];
    }
}
