//! Three models in one conversation, each with its own thread.

use std::collections::HashMap;
use std::sync::Arc;

use convoke_agent::config::{AgentKind, ApiWire, Catalog, Definition};
use convoke_agent::thread::ThreadStore;
use convoke_core::ledger::{ENVELOPE, Entry, Rule, Source, Target};
use convoke_model::{Log, Settings};
use convoke_protocol::id::{MemberName, Millis, SessionId, ThreadId};
use convoke_protocol::request::RequestRecord;
use convoke_protocol::session::NewSession;
use convoke_rehearsal::{Answer, Script};
use convoke_session::{Coordinator, MemberAgent, NewMessage, SqliteStore, TeamAgents};
use convoke_team::Team;
use serde_json::json;

use crate::lab::Lab;

const TEAM: &str = r#"
task = "Agree on a name"

[[member]]
name = "kailai"
human = true

[[member]]
name = "ada"
agent = "api"
instructions = "You are Ada."

[[member]]
name = "bob"
agent = "api"
wire = "chat"

[[member]]
name = "cy"
agent = "api"
"#;

#[tokio::test]
async fn three_models_talk_to_each_other_and_each_remembers_its_own_part() {
    let script = Script::new(
        [
            "I say Alpha. [NEXT: bob]",
            "I say Beta. [NEXT: cy]",
            "I say Gamma. [NEXT: ada]",
            "Gamma it is.",
        ]
        .map(Answer::say),
    );
    let lab = Lab::new(ApiWire::Responses, script).await;
    let team = Team::parse(TEAM).unwrap();
    let session = SessionId::generate();
    let thread = |member: &str| ThreadId::of_member(session, member);
    let mut configured = Definition::built_in(AgentKind::Api);
    configured.api = lab.api.clone();
    configured.model = Some("m".to_owned());
    let store = SqliteStore::open(&lab.folder.path().join("state")).await.unwrap();
    let threads: Arc<dyn ThreadStore> = Arc::new(store.clone());
    let mut seats = HashMap::new();
    for member in &team.members {
        let Some(agent) = member.agent() else { continue };
        let own = Some(thread(member.name.as_str()));
        let catalog = Catalog::built_in(convoke_agent::Programs::default());
        let (settings, _) = Settings::for_member(agent, &configured, &catalog, own);
        let model = lab.member_with(settings, Arc::clone(&threads));
        let member_agent = MemberAgent::new(Arc::new(model), lab.work());
        seats.insert(MemberName::from(member.name.as_str()), member_agent);
    }
    let new = NewSession {
        id: session,
        created_at: Millis(0),
        name: None,
        directory: lab.work().display().to_string(),
        team: TEAM.to_owned(),
        task: team.task.clone(),
        rehearsal: None,
    };
    let team_agents = TeamAgents::new(team, seats);
    let mut coordinator =
        Coordinator::create(store, new, team_agents, Box::new(|_| {})).await.unwrap();
    let question = NewMessage::from_person("kailai", "What do we call it? [NEXT: ada]");
    coordinator.accept(question).await.unwrap();
    coordinator.run().await.unwrap();

    let calls = lab.server.model_calls();
    assert_eq!(calls.len(), 4);
    let paths: Vec<&str> = calls.iter().map(|call| call.target.as_str()).collect();
    assert_eq!(paths[1], "/v1/chat/completions");
    // Ada's second request begins with her first, and contains nothing of the others' threads.
    let bodies = lab.bodies();
    let end = bodies[0].find("],\"tools\":").unwrap();
    assert_eq!(bodies[0][..end], bodies[3][..end]);
    assert!(bodies[3].contains("I say Gamma.") && bodies[0].contains("You are Ada."));
    the_team_prompt_is_in_the_ledger(&threads.last_request(&thread("ada")).await.unwrap().unwrap());
    for (member, turns) in [("ada", vec!["1/1", "4/4"]), ("bob", vec!["2/2"]), ("cy", vec!["3/3"])]
    {
        let log = Log::load(&*threads, &thread(member)).await.unwrap().unwrap();
        assert_eq!(log.turns, turns, "{member}");
    }
}

/// The entries of both turns' team prompts are in the ledger of the second request.
fn the_team_prompt_is_in_the_ledger(request: &RequestRecord) {
    let body = &request.texts.body;
    let ledger = request.texts.parse_ledger(&request.meta).unwrap();
    assert!(ledger.covers(Target::Prompt, body.len() as u64));
    assert_eq!(convoke_conformance::check_ledger(&json!(ledger)), Ok(()));
    let texts = ledger.entries().filter(|entry| entry.section != ENVELOPE).map(|entry| {
        let place = |at: u64| usize::try_from(at).unwrap();
        let raw = &body[place(entry.range.start)..place(entry.range.end)];
        let text: String =
            serde_json::from_str(&format!("\"{raw}\"")).unwrap_or_else(|_| raw.to_owned());
        (entry, text)
    });
    let texts: Vec<_> = texts.collect();
    let has = |section: &str, rule: &Rule<'_>, is_right: &dyn Fn(&Source<'_>, &str) -> bool| {
        let found = |(entry, text): &(Entry<'_>, String)| {
            entry.section == section && entry.rule == *rule && is_right(&entry.source, text)
        };
        assert!(texts.iter().any(found), "{section} {rule:?} is not in {texts:#?}");
    };
    let is_message = |source: &Source<'_>| matches!(source, Source::Message { id: Some(_), .. });
    has("SYSTEM", &Rule::FromThread, &|source, text| {
        *source == Source::setting("systemInstruction") && text == "You are Ada."
    });
    has("TEAM_TASK", &Rule::FromThread, &|source, text| {
        *source == Source::setting("teamTask") && text == "Agree on a name"
    });
    has("MESSAGE", &Rule::FromThread, &|source, text| {
        is_message(source) && text == "What do we call it?"
    });
    has("model", &Rule::FromThread, &|source, text| {
        matches!(source, Source::Model { .. }) && text.starts_with("I say Alpha.")
    });
    has("CONTEXT", &Rule::Fits, &|source, text| is_message(source) && text == "bob: I say Beta.");
    has("MESSAGE", &Rule::Fits, &|source, text| is_message(source) && text == "I say Gamma.");
}
