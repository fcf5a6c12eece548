//! Runs a conversation of two agents with scripted replies, and follows its log:
//! `cargo run -p convoke-session --example conversation`.

#![expect(clippy::print_stdout, reason = "it shows its result")]

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use convoke_agent::adapter::{Script, StandIn, Step};
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{MemberName, Millis, SessionId};
use convoke_protocol::session::NewSession;
use convoke_session::{Coordinator, MemberAgent, NewMessage, SqliteStore, TeamAgents};
use convoke_team::Team;

const TEAM: &str = r#"
[[member]]
name = "ana"
human = true

[[member]]
name = "max"
agent = "claude"

[[member]]
name = "lin"
agent = "codex"
"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let store = SqliteStore::open(&directory.path().join("data")).await?;
    let says = |text: &str| {
        let turns = vec![vec![Step::Say(text.to_owned())]];
        MemberAgent::new(Arc::new(StandIn::new(Script { turns })), directory.path())
    };
    let agents: HashMap<MemberName, MemberAgent> = [
        ("max".into(), says("It is the clock. [NEXT: lin]")),
        ("lin".into(), says("Fixed. [NEXT: ana]")),
    ]
    .into();
    let session = NewSession {
        id: SessionId::generate(),
        created_at: Millis(0),
        name: None,
        directory: directory.path().display().to_string(),
        team: TEAM.to_owned(),
        task: None,
        rehearsal: None,
    };
    // An event is shown when it is in the log.
    let show = Box::new(|event: Event| match event.kind {
        EventKind::Message(message) => println!("{}: {}", message.from(), message.text),
        EventKind::TurnStarted { member, prompt, .. } => {
            println!("{member} is sent {} bytes", prompt.bytes);
        }
        EventKind::Stopped(stop) => println!("{stop:?}"),
        _ => {}
    });
    let team_agents = TeamAgents::new(Team::parse(TEAM)?, agents);
    let mut coordinator = Coordinator::create(store, session, team_agents, show).await?;
    coordinator
        .accept(NewMessage::from_person("ana", "Why does the test fail? [NEXT: max]"))
        .await?;
    coordinator.run().await?;
    coordinator.close().await;
    Ok(())
}
