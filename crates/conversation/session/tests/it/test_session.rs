//! A session for tests: a team of scripted agents, a store in a temporary directory, and a clock that ticks.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use convoke_agent::adapter::{Script, StandIn, Step};
use convoke_agent::{Agent, AgentTurn, TurnInput, TurnResult};
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{MemberName, Millis, SessionId};
use convoke_protocol::session::NewSession;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use convoke_redact::Redactor;
use convoke_session::event_queue::Observer;
use convoke_session::store::failpoint::Failpoint;
use convoke_session::store::sqlite::Durability;
use convoke_session::transfer::ThreadCheck;
use convoke_session::{Coordinator, MemberAgent, SqliteStore, TeamAgents};
use convoke_team::Team;
use sqlx::{ConnectOptions as _, Connection as _};
use tempfile::TempDir;
use tokio::sync::Barrier;

/// Accepts any lines of a thread.
pub fn unchecked() -> ThreadCheck<'static> {
    &|_| Ok(())
}

/// The steps of an agent in its next turn, given its input.
pub type Act = Arc<dyn Fn(&TurnInput) -> Vec<Step> + Send + Sync>;

/// An agent whose every turn is decided by a function.
pub struct Scripted {
    pub act: Act,
    pub deliveries: Arc<Mutex<Vec<TurnInput>>>,
}

impl Agent for Scripted {
    fn start(&self, turn_input: TurnInput) -> AgentTurn {
        self.deliveries.lock().unwrap().push(turn_input.clone());
        let turns = vec![(self.act)(&turn_input)];
        StandIn::new(Script { turns }).start(turn_input)
    }
}

/// An agent that replies only once all agents are running.
struct MeetingAgent {
    agent: Scripted,
    all: Arc<Barrier>,
}

impl Agent for MeetingAgent {
    fn start(&self, turn_input: TurnInput) -> AgentTurn {
        let mut at_work = self.agent.start(turn_input);
        let (turn, side) = AgentTurn::open(Redactor::for_env(&[]));
        let all = self.all.clone();
        tokio::spawn(async move {
            all.wait().await;
            while let Some(event) = at_work.next().await {
                if !matches!(event.kind, AgentEventKind::Finished { .. }) {
                    side.send(event).await;
                }
            }
            side.finish(at_work.result().await).await;
        });
        turn
    }
}

/// The actions of an agent in a turn, until its result.
pub type Work =
    Arc<dyn Fn(TurnInput) -> Pin<Box<dyn Future<Output = TurnResult> + Send>> + Send + Sync>;

/// Returns the work of an agent.
pub fn works<F: Future<Output = String> + Send + 'static>(
    work: impl Fn(TurnInput) -> F + Send + Sync + 'static,
) -> Work {
    Arc::new(move |turn_input| {
        let work = work(turn_input);
        Box::pin(async { TurnResult { reply: work.await, ..TurnResult::new(Verdict::Done) } })
    })
}

/// Returns the work of an agent that fails.
pub fn fails(why: &'static str) -> Work {
    let failure = move || Failure::new(FailureReason::Other, why);
    Arc::new(move |_| Box::pin(async move { TurnResult::failed(failure()) }))
}

/// An agent that runs a function until it replies.
struct WorkingAgent {
    work: Work,
    deliveries: Arc<Mutex<Vec<TurnInput>>>,
}

impl Agent for WorkingAgent {
    fn start(&self, turn_input: TurnInput) -> AgentTurn {
        self.deliveries.lock().unwrap().push(turn_input.clone());
        let (turn, side) = AgentTurn::open(Redactor::for_env(&[]));
        let work = (self.work)(turn_input);
        tokio::spawn(async move {
            let result = tokio::select! {
                result = work => result,
                () = side.cancelled() => TurnResult::new(Verdict::Cancelled),
            };
            side.finish(result).await;
        });
        turn
    }
}

/// Returns an agent that replies with these texts, and then with the size of its prompt.
pub fn says(texts: &[&str]) -> Act {
    let left = Mutex::new(texts.iter().rev().map(ToString::to_string).collect::<Vec<_>>());
    Arc::new(move |_| {
        let text = left.lock().unwrap().pop().unwrap_or_else(|| "nothing more to say".to_owned());
        vec![Step::Say(text)]
    })
}

/// Returns an agent that takes the same steps in every turn.
pub fn does(steps: Vec<Step>) -> Act {
    Arc::new(move |_| steps.clone())
}

pub struct TestSession {
    directory: TempDir,
    pub store: SqliteStore,
    pub session: SessionId,
    pub deliveries: HashMap<String, Arc<Mutex<Vec<TurnInput>>>>,
    pub team_agents: TeamAgents,
    /// The text of the team file.
    pub team: String,
    pub events: Arc<Mutex<Vec<Event>>>,
}

impl TestSession {
    /// Sets up a team: the settings, then two people, then one agent for each act.
    pub async fn new(settings: &str, acts: &[(&str, Act)]) -> Self {
        Self::with_agent("codex", settings, acts).await
    }

    /// Sets up a team whose agents are of one kind.
    pub async fn with_agent(kind: &str, settings: &str, acts: &[(&str, Act)]) -> Self {
        Self::member_agent(kind, settings, acts, |agent| Arc::new(agent)).await
    }

    /// Sets up a team whose agents must all run at the same time.
    pub async fn meeting(settings: &str, acts: &[(&str, Act)]) -> Self {
        let all = Arc::new(Barrier::new(acts.len()));
        let meeting =
            |agent| -> Arc<dyn Agent> { Arc::new(MeetingAgent { agent, all: all.clone() }) };
        Self::member_agent("codex", settings, acts, meeting).await
    }

    /// Sets up a team whose agents run functions until they reply.
    pub async fn working(settings: &str, works: &[(&str, Work)]) -> Self {
        let acts: Vec<(&str, Act)> = works.iter().map(|(name, _)| (*name, says(&[]))).collect();
        let left = Mutex::new(works.iter().rev().map(|(_, work)| work.clone()).collect::<Vec<_>>());
        Self::member_agent("codex", settings, &acts, |agent| {
            let work = left.lock().unwrap().pop().unwrap();
            Arc::new(WorkingAgent { work, deliveries: agent.deliveries })
        })
        .await
    }

    /// Sets up a team whose agents are made of scripted ones.
    pub async fn member_agent(
        kind: &str,
        settings: &str,
        acts: &[(&str, Act)],
        agent: impl Fn(Scripted) -> Arc<dyn Agent>,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open_with(
            &directory.path().join("data"),
            Durability::Process,
            Failpoint::default(),
        )
        .await
        .unwrap();
        let mut file = settings.to_owned();
        for person in ["kailai", "lee"] {
            let _ = writeln!(file, "\n[[member]]\nname = \"{person}\"\nhuman = true");
        }
        let mut seats = HashMap::new();
        let mut deliveries = HashMap::new();
        for (name, act) in acts {
            let _ = writeln!(file, "\n[[member]]\nname = \"{name}\"\nagent = \"{kind}\"");
            let list = Arc::new(Mutex::new(Vec::new()));
            let agent = agent(Scripted { act: act.clone(), deliveries: list.clone() });
            deliveries.insert((*name).to_owned(), list);
            seats.insert(MemberName::from(*name), MemberAgent::new(agent, directory.path()));
        }
        let team = Team::parse(&file).unwrap();
        for (name, seat) in &mut seats {
            let settings = team.member(name.as_str()).and_then(|member| member.agent());
            seat.has_team_tools = settings.and_then(|it| it.team_tools).unwrap_or(false);
        }
        let mut team_agents = TeamAgents::new(team, seats);
        let ticks = AtomicI64::new(1_000);
        team_agents.clock = Arc::new(move || Millis(ticks.fetch_add(1, Ordering::Relaxed)));
        let session = SessionId::generate();
        let events = Arc::default();
        Self { directory, store, session, deliveries, team_agents, team: file, events }
    }

    /// Creates the session.
    pub async fn begin(&self) -> Coordinator<SqliteStore> {
        let new = NewSession {
            id: self.session,
            created_at: Millis(1),
            name: Some("test".to_owned()),
            directory: "/work".to_owned(),
            team: self.team.clone(),
            task: self.team_agents.team().task.clone(),
            rehearsal: None,
        };
        let observer = self.observer();
        Coordinator::create(self.store.clone(), new, self.team_agents.clone(), observer)
            .await
            .unwrap()
    }

    /// Opens the session again.
    pub async fn resume(&self) -> Coordinator<SqliteStore> {
        let observer = self.observer();
        Coordinator::open(self.store.clone(), self.session, self.team_agents.clone(), observer)
            .await
            .unwrap()
    }

    fn observer(&self) -> Box<dyn Observer> {
        let events = self.events.clone();
        Box::new(move |event: Event| events.lock().unwrap().push(event))
    }

    /// Waits until an event has happened.
    pub fn happened(&self, what: fn(&EventKind) -> bool) -> impl Future<Output = ()> + use<> {
        let events = self.events.clone();
        async move {
            while !events.lock().unwrap().iter().any(|event| what(&event.kind)) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    }

    /// Returns the author and text of every message.
    pub fn transcript(&self) -> Vec<String> {
        let events = self.events.lock().unwrap();
        let line = |event: &EventKind| match event {
            EventKind::Message(message) => Some(format!("{}: {}", message.from(), message.text)),
            _ => None,
        };
        events.iter().map(|event| &event.kind).filter_map(line).collect()
    }

    /// Returns the prompts that a member was sent.
    pub fn prompts(&self, member: &str) -> Vec<String> {
        let deliveries = self.deliveries[member].lock().unwrap();
        deliveries.iter().map(|turn_input| turn_input.prompt.clone()).collect()
    }

    /// Changes the database directly.
    pub async fn execute(&self, statement: &'static str) {
        let path = self.directory.path().join("data/sessions.db");
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
        let mut connection = options.connect().await.unwrap();
        sqlx::raw_sql(statement).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }

    /// Returns the codes of the diagnostics.
    pub fn codes(&self) -> Vec<String> {
        let events = self.events.lock().unwrap();
        let code = |event: &EventKind| match event {
            EventKind::Diagnostic { diagnostic, .. } => Some(diagnostic.code.name().to_owned()),
            _ => None,
        };
        events.iter().map(|event| &event.kind).filter_map(code).collect()
    }
}
