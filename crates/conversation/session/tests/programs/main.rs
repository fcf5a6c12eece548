//! Conversations with real programs: their output is bytes, and not always text.
//!
//! Without a harness, because agents are started through this program.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "the functions of a test")]

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use convoke_agent::adapter::{Host, agent};
use convoke_agent::config::{AgentKind, Definition};
use convoke_agent::process::guardian::{Guardian, run_if_asked};
use convoke_agent::sandbox::SandboxSettings;
use convoke_agent::turn_input::Permissions;
use convoke_conformance_store::new_session;
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::event::{Event, EventKind, StopReason};
use convoke_protocol::id::{MessageNumber, TurnId};
use convoke_session::{Coordinator, MemberAgent, NewMessage, SqliteStore, Store, TeamAgents};
use convoke_team::Team;
use tokio::sync::Notify;

/// The observer of a conversation.
type Observer = Box<dyn convoke_session::event_queue::Observer>;

const TEAM: &str =
    "[limits]\nturn-timeout = \"10m\"\n\n[[member]]\nname = \"sh\"\nagent = \"plain\"\n";

fn main() -> ExitCode {
    if let Some(code) = run_if_asked() {
        return code;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        what_is_not_utf8_is_replaced_and_reported().await;
        println!("ok: what is not UTF-8 is replaced and said");
        a_reply_without_a_line_break_is_whole().await;
        println!("ok: a reply without a line break is whole");
        the_prompt_that_is_stored_is_the_one_that_arrives().await;
        println!("ok: the prompt that is stored is the one that arrives");
    });
    // On a runtime whose clock can be advanced.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(a_program_that_takes_too_long_leaves_what_it_wrote());
    println!("ok: a program that takes too long leaves what it wrote");
    println!("4 passed, 0 failed, 0 skipped");
    ExitCode::SUCCESS
}

/// Runs a conversation with a shell script.
async fn talk(
    directory: &Path,
    script: &str,
    observer: Observer,
) -> (SqliteStore, convoke_protocol::id::SessionId, StopReason) {
    let definition = Definition {
        command: Some("/bin/sh".to_owned()),
        args: vec!["-c".to_owned(), script.to_owned()],
        ..Definition::built_in(AgentKind::Plain)
    };
    let host = Host {
        guardian: Guardian::this_program().unwrap(),
        env: std::env::vars_os().collect(),
        temp_root: directory.to_owned(),
        state_dir: directory.to_owned(),
        sandbox: SandboxSettings::default(),
        programs: convoke_agent::Programs::default(),
    };
    let mut member_agent = MemberAgent::new(Arc::from(agent(definition, host)), directory);
    member_agent.permissions = Permissions::Full;
    let seats = HashMap::from([("sh".into(), member_agent)]);
    let team_agents = TeamAgents::new(Team::parse(TEAM).unwrap(), seats);
    let store = SqliteStore::open(&directory.join("data")).await.unwrap();
    let new = new_session();
    let id = new.id;
    let created = Coordinator::create(store.clone(), new, team_agents, observer).await;
    let mut coordinator = created.unwrap();
    coordinator
        .accept(NewMessage::from_person("user", "héllo\n\n  indented [NEXT: sh]"))
        .await
        .unwrap();
    let stop = coordinator.run().await.unwrap();
    (store, id, stop)
}

/// Ignores all events.
fn nobody() -> Observer {
    Box::new(|_: Event| {})
}

async fn what_is_not_utf8_is_replaced_and_reported() {
    let directory = tempfile::tempdir().unwrap();
    let script = r"cat >/dev/null; printf 'a\377\376b\n'";
    let (store, id, stop) = talk(directory.path(), script, nobody()).await;
    assert!(matches!(stop, StopReason::Idle { .. }), "{stop:?}");
    let reply = store.message(id, MessageNumber(2)).await.unwrap();
    assert_eq!(reply.message.content, "a\u{FFFD}\u{FFFD}b");
    let ended = store.attempts(id, TurnId(1)).await.unwrap().remove(0).ended.unwrap();
    assert_eq!(ended.diagnostics[0].code.name(), "agent.output-damaged");
}

async fn a_reply_without_a_line_break_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let script = "cat >/dev/null; head -c 1000000 /dev/zero | tr '\\0' x";
    let (store, id, stop) = talk(directory.path(), script, nobody()).await;
    assert!(matches!(stop, StopReason::Idle { .. }), "{stop:?}");
    let reply = store.message(id, MessageNumber(2)).await.unwrap();
    assert_eq!(reply.message.content, "x".repeat(1_000_000));
}

async fn the_prompt_that_is_stored_is_the_one_that_arrives() {
    let directory = tempfile::tempdir().unwrap();
    let (store, id, _) = talk(directory.path(), "cat > arrived; echo done", nobody()).await;
    let arrived = std::fs::read_to_string(directory.path().join("arrived")).unwrap();
    let attempt = store.attempts(id, TurnId(1)).await.unwrap().remove(0);
    assert_eq!(store.content(attempt.prompt.hash).await.unwrap(), arrived);
    assert!(arrived.ends_with("héllo\n\n  indented"), "{arrived}");
}

async fn a_program_that_takes_too_long_leaves_what_it_wrote() {
    let directory = tempfile::tempdir().unwrap();
    let script = "cat >/dev/null; echo 'half [NEXT: user]'; sleep 1000";
    let wrote = Arc::new(Notify::new());
    let seen = wrote.clone();
    let observer = Box::new(move |event: Event| {
        if matches!(&event.kind, EventKind::Agent { event, .. } if matches!(event.kind, AgentEventKind::Text { .. }))
        {
            seen.notify_one();
        }
    });
    let later = async {
        wrote.notified().await;
        tokio::time::pause();
        tokio::time::advance(Duration::from_mins(10)).await;
        tokio::time::resume();
    };
    let ((store, id, stop), ()) = tokio::join!(talk(directory.path(), script, observer), later);
    assert!(matches!(stop, StopReason::TurnFailed { .. }), "{stop:?}");
    let ended = store.attempts(id, TurnId(1)).await.unwrap().remove(0).ended.unwrap();
    assert_eq!(ended.verdict.as_str(), "timed-out");
    let partial = store.content(ended.partial.unwrap().hash).await.unwrap();
    assert_eq!(partial.trim_end(), "half [NEXT: user]");
    assert_eq!(store.session(id).await.unwrap().state.last_message, MessageNumber(1));
}
