//! Tools, within the permissions of a turn.

use std::path::Path;

use convoke_agent::turn_input::Permissions;
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::verdict::Verdict;
use convoke_rehearsal::{Answer, Script};
use serde_json::json;
use tempfile::TempDir;

use crate::test_host::{Cli, TestHost};

pub async fn runs_a_tool(cli: Cli) {
    let script = Script::new([cli.shell("echo made by a tool >made.txt"), Answer::say("Done.")]);
    let Some(test) = TestHost::new(cli, script).await else {
        return;
    };
    let mut turn_input = test.turn_input("make a file");
    turn_input.permissions = Permissions::Full;
    let mut turn = test.agent.start(turn_input);
    let (mut started, mut finished) = (0, 0);
    while let Some(event) = turn.next().await {
        match event.kind {
            AgentEventKind::ToolStarted { .. } => started += 1,
            AgentEventKind::ToolFinished { ok: true, .. } => finished += 1,
            _ => {}
        }
    }
    let outcome = turn.result().await;
    assert_eq!((outcome.verdict, outcome.reply.as_str()), (Verdict::Done, "Done."));
    assert_eq!((started, finished), (1, 1));
    let made = std::fs::read_to_string(test.work.path().join("made.txt")).unwrap();
    assert_eq!(made, "made by a tool\n");
    assert_eq!(test.processes(), [0; 0]);
}

pub async fn edits_a_file(cli: Cli) {
    let file = |work: &Path| work.join("made.txt").display().to_string();
    let work = TempDir::new().unwrap();
    let content = "made by an edit\n";
    let (tool, input) = match cli.kind() {
        "claude" => ("Write", json!({"file_path": file(work.path()), "content": content})),
        "gemini" => ("write_file", json!({"file_path": file(work.path()), "content": content})),
        _ => (
            "apply_patch",
            json!("*** Begin Patch\n*** Add File: made.txt\n+made by an edit\n*** End Patch\n"),
        ),
    };
    let script = Script::new([Answer::call(tool, input), Answer::say("Done.")]);
    let Some(mut test) = TestHost::new(cli, script).await else {
        return;
    };
    test.work = work;
    let mut turn_input = test.turn_input("make a file");
    turn_input.permissions = Permissions::Edit;
    let mut turn = test.agent.start(turn_input);
    let mut changed = Vec::new();
    while let Some(event) = turn.next().await {
        if let AgentEventKind::FileChange { changes } = event.kind {
            changed.extend(changes.into_iter().map(|change| change.path.into_owned()));
        }
    }
    let outcome = turn.result().await;
    assert_eq!(outcome.verdict, Verdict::Done, "{outcome:?}");
    assert_eq!(std::fs::read_to_string(file(test.work.path())).unwrap(), content);
    assert_eq!(changed, [file(test.work.path())]);
    let config = std::fs::read_to_string(test.home.path().join("codex/config.toml"));
    assert!(config.is_err(), "it wrote to its configuration: {config:?}");
}

pub async fn reads_without_permission_to_write(cli: Cli) {
    let script = Script::new([cli.shell("echo x >made.txt"), Answer::say("Done.")]);
    let Some(test) = TestHost::new(cli, script).await else {
        return;
    };
    let outcome = test.run(test.turn_input("make a file")).await;
    assert_eq!(outcome.verdict, Verdict::Done, "{outcome:?}");
    assert!(!test.work.path().join("made.txt").exists());
}
