//! A team whose members remember their turns and send requests.

use std::collections::HashMap;
use std::sync::Arc;

use convoke_agent::thread::ThreadStore as _;
use convoke_agent::turn_input::ThreadWriter;
use convoke_agent::{Agent, AgentTurn, TurnInput, TurnResult};
use convoke_conformance_store::request;
use convoke_protocol::event::Event;
use convoke_protocol::id::{AttemptRef, MemberName, MessageNumber, Millis, SessionId, ThreadId};
use convoke_protocol::request::{RequestEnd, RequestOutcome, RequestTexts};
use convoke_protocol::session::NewSession;
use convoke_protocol::thread::ThreadAppend;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use convoke_redact::Redactor;
use convoke_session::transfer::{export, fork};
use convoke_session::{Coordinator, MemberAgent, NewMessage, SqliteStore, TeamAgents};
use convoke_team::Team;
use serde_json::json;
use tempfile::TempDir;

const TEAM: &str = "[[member]]\nname = \"kim\"\nhuman = true\n\n\
    [[member]]\nname = \"ada\"\nagent = \"plain\"\n\n[[member]]\nname = \"bob b\"\nagent = \"plain\"\n";

/// Remembers the name of every turn, unless told to forget it, and replies with the number of remembered turns.
/// Sends a request and fails when told to.
struct RememberingAgent {
    store: SqliteStore,
    thread: ThreadId,
}

impl Agent for RememberingAgent {
    fn start(&self, turn_input: TurnInput) -> AgentTurn {
        let (turn, side) = AgentTurn::open(Redactor::default());
        let (store, thread) = (self.store.clone(), self.thread.clone());
        tokio::spawn(async move {
            let lines = store.thread_lines(&thread).await.unwrap();
            let known = lines.len();
            let ThreadWriter::Caller { turn } = &turn_input.thread_writer else {
                panic!("who keeps it?")
            };
            let mut outcome =
                TurnResult::failed(Failure::new(FailureReason::OutputFull, "too much"));
            outcome.reply = format!("{known} remembered");
            if !turn_input.prompt.contains("fail") {
                outcome.verdict = Verdict::Done;
            }
            // Only once, although later prompts contain the message too.
            let is_meddled_with = lines.iter().any(|line| line.text == "by somebody else");
            if turn_input.prompt.contains("meddle") && !is_meddled_with {
                let lines = vec!["by somebody else".to_owned()];
                let append = ThreadAppend { thread: thread.clone(), known, lines };
                store.append_lines(&append).await.unwrap();
            }
            if turn_input.prompt.contains("send") {
                send(&store, &thread, turn_input.attempt, turn).await;
            }
            if !turn_input.prompt.contains("forget") {
                outcome.thread_append =
                    Some(ThreadAppend { thread, known, lines: vec![turn.clone()] });
            }
            side.finish(outcome).await;
        });
        turn
    }
}

/// Stores a request that extends the previous one, with a ledger that covers it.
pub async fn send(store: &SqliteStore, thread: &ThreadId, attempt: Option<AttemptRef>, what: &str) {
    let last = store.last_request(thread).await.unwrap();
    let before = last.as_ref().map(|last| &last.texts);
    let (body, ledger) = before.map_or(("[\"\"]", ""), |it| (&*it.body, &*it.ledger));
    let body = body.trim_end_matches("\"]");
    let body = format!("{body}{what} \u{FEFF}\u{2028}é漢🦀\"]");
    let entry = |bytes: usize| {
        json!({
            "target": "prompt", "section": "user", "source": {"kind": "setting", "name": what},
            "state": "kept", "keptBytes": bytes, "cutBytes": 0, "tokensEstimate": 1, "rule": "fits",
        })
    };
    let accounted = before.map_or(0, |before| before.body.len());
    let ledger = format!("{ledger}{}\n", entry(body.len() - accounted));
    let number = last.as_ref().map_or(0, |last| last.number) + 1;
    let mut record = request(thread, number, attempt, RequestTexts { body, ledger });
    record.meta.path = format!("/{what}");
    store.add_request(&record, before).await.unwrap();
    let end = Some(RequestEnd::Answered);
    let outcome = RequestOutcome { end, ..RequestOutcome::default() };
    store.set_outcome(thread, number, &outcome).await.unwrap();
}

/// The number of a request, the turn and attempt that sent it, its path and its texts.
pub type Whole = (u64, Option<(u64, u32)>, String, RequestTexts);

pub struct Room {
    _directory: TempDir,
    pub store: SqliteStore,
    pub session: SessionId,
}

impl Room {
    pub async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(directory.path()).await.unwrap();
        Self { _directory: directory, store, session: SessionId::generate() }
    }

    /// Runs a conversation with three answered messages: ada, bob and ada remember one turn each.
    pub async fn talked() -> Self {
        let room = Self::new().await;
        let mut coordinator = room.begin().await;
        for (says, to) in [("one", "ada"), ("two", "bob b"), ("three", "ada")] {
            coordinator.accept(NewMessage::from_person("kim", says).to([to])).await.unwrap();
            coordinator.run().await.unwrap();
        }
        room
    }

    /// Runs a conversation in which ada sends a request, another by hand and a third, and bob sends one and
    /// fails; his retry stays queued.
    pub async fn sent() -> Self {
        let room = Self::new().await;
        let mut coordinator = room.begin().await;
        for says in ["send one", "send two"] {
            coordinator.accept(NewMessage::from_person("kim", says).to(["ada"])).await.unwrap();
            coordinator.run().await.unwrap();
            if says == "send one" {
                send(&room.store, &thread(room.session, "ada"), None, "by hand").await;
            }
        }
        coordinator
            .accept(NewMessage::from_person("kim", "send, forget, fail").to(["bob b"]))
            .await
            .unwrap();
        coordinator.run().await.unwrap();
        coordinator.accept(NewMessage::from_person("kim", "again").to(["bob b"])).await.unwrap();
        room
    }

    /// Returns the requests of a member.
    pub async fn requests(&self, session: SessionId, member: &str) -> Vec<Whole> {
        let thread = thread(session, member);
        let mut whole = Vec::new();
        for record in self.store.requests(&thread).await.unwrap() {
            let texts = self.store.request_texts(&thread, record.number).await.unwrap();
            let attempt = record.attempt.map(|attempt| {
                assert_eq!(attempt.session, session);
                (attempt.turn.0, attempt.attempt)
            });
            whole.push((record.number, attempt, record.meta.path, texts));
        }
        whole
    }

    fn team_agents(&self, session: SessionId) -> TeamAgents {
        let seats = ["ada", "bob b"].map(|name| {
            let thread = thread(session, name);
            let agent = RememberingAgent { store: self.store.clone(), thread };
            (MemberName::from(name), MemberAgent::new(Arc::new(agent), "/"))
        });
        TeamAgents::new(Team::parse(TEAM).unwrap(), HashMap::from(seats))
    }

    pub async fn begin(&self) -> Coordinator<SqliteStore> {
        let new = new_session(self.session);
        let team_agents = self.team_agents(self.session);
        Coordinator::create(self.store.clone(), new, team_agents, Box::new(|_: Event| {}))
            .await
            .unwrap()
    }

    pub async fn open(&self, session: SessionId) -> Coordinator<SqliteStore> {
        let team_agents = self.team_agents(session);
        Coordinator::open(self.store.clone(), session, team_agents, Box::new(|_: Event| {}))
            .await
            .unwrap()
    }

    pub async fn lines(&self, session: SessionId, member: &str) -> Vec<(Option<u64>, String)> {
        let lines = self.store.thread_lines(&thread(session, member)).await.unwrap();
        lines.into_iter().map(|line| (line.as_of.map(|number| number.0), line.text)).collect()
    }

    pub async fn fork(&self, after: Option<u64>) -> (SessionId, Vec<String>) {
        let copy = SessionId::generate();
        let after = after.map(MessageNumber);
        let told = fork(&self.store, self.session, after, copy, Millis(7), None).await.unwrap();
        (copy, told.iter().map(|diagnostic| diagnostic.code.name().to_owned()).collect())
    }

    pub async fn exported(&self) -> String {
        let mut out = Vec::new();
        export(&self.store, self.session, &mut out).await.unwrap();
        String::from_utf8(out).unwrap()
    }
}

pub fn thread(session: SessionId, member: &str) -> ThreadId {
    ThreadId::of_member(session, member)
}

pub fn new_session(id: SessionId) -> NewSession {
    NewSession {
        id,
        created_at: Millis(1),
        name: None,
        directory: "/work".to_owned(),
        team: TEAM.to_owned(),
        task: None,
        rehearsal: None,
    }
}
