//! Holds a conversation of a team whose agents are models, and writes it down.
//!
//! `cargo run -p convoke-model --example conversation -- TEAM.toml STATE-DIRECTORY TEXT`
//!
//! The team file is taken as trusted: it says itself where its models are.

#![allow(clippy::print_stdout, missing_docs)]

use std::collections::HashMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_agent::config::{Definition, Kind};
use convoke_agent::delivery::Trust;
use convoke_model::{Host, MemoryStore, ModelAgent, Settings, ThreadId};
use convoke_session::{
    Coordinator, Crew, Event, MemberName, NewSession, Saying, Seat, SessionId, SqliteStore,
};
use convoke_team::Team;
use convoke_thread::config::Machine;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [team_file, state, text] = &arguments[..] else {
        return Err("usage: conversation TEAM.toml STATE-DIRECTORY TEXT".into());
    };
    let file = std::fs::read_to_string(team_file)?;
    let team = Team::parse(&file)?;
    let session = SessionId::generate();
    let cwd = std::env::current_dir()?;
    let host = host(&cwd)?;
    let mut seats = HashMap::new();
    for member in &team.members {
        let Some(settings) = member.agent() else { continue };
        let thread = ThreadId::of_member(&session.to_string(), &member.name);
        let configured = Definition::built_in(Kind::Api);
        let (settings, _) =
            Settings::for_member(settings, &configured, Trust::Trusted, Some(thread));
        let agent = ModelAgent::new(settings, host.clone());
        seats.insert(MemberName::from(member.name.as_str()), Seat::new(Arc::new(agent), &cwd));
    }
    let person = team.members.iter().find(|member| member.agent().is_none());
    let person = person.map_or_else(|| "user".to_owned(), |member| member.name.clone());
    let new = NewSession {
        id: session,
        created_at: 0,
        name: team.name.clone(),
        directory: cwd.display().to_string(),
        team: file,
        task: team.task.clone(),
    };
    let store = SqliteStore::open(Path::new(state)).await?;
    let crew = Crew::new(team, seats);
    let mut coordinator =
        Coordinator::create(store, new, crew, Box::new(|event| show(&event))).await?;
    coordinator.accept(Saying::new(person.as_str(), text.as_str())).await?;
    let stop = coordinator.run().await?;
    println!("----- {stop:?}");
    Ok(())
}

fn host(cwd: &Path) -> Result<Host, Box<dyn Error>> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    Ok(Host {
        env: std::env::vars_os().collect(),
        machine: Machine {
            codex_home: home.clone().unwrap_or_default().join(".config/convoke"),
            home,
            cwd: cwd.to_owned(),
            shell: "bash".to_owned(),
            tmpdir: None,
            openai_base_url: None,
        },
        pack: Arc::new(convoke_packs::convoke()?),
        store: Arc::new(MemoryStore::default()),
        observer: None,
    })
}

fn show(event: &Event) {
    match event {
        Event::Message { from, text, .. } => println!("----- {from}\n{text}"),
        Event::Diagnostic { diagnostic, .. } => println!("----- {diagnostic}"),
        _ => {}
    }
}
