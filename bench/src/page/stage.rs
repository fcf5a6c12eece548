//! A server over a store with many sessions, whose agent is a stand-in.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on ends")]

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use convoke_agent::adapter::{Script, StandIn};
use convoke_conformance_store::{Log, message, new_session, queued, replied, said, started};
use convoke_explain::DirectoryReport;
use convoke_protocol::content::Content;
use convoke_protocol::id::{Millis, SessionId};
use convoke_protocol::session::NewSession;
use convoke_server::other_sessions::{
    FileState, OtherFilter, OtherList, OtherName, OtherSession, OtherSessions, PageEnds,
    PricedRequest, ReadError, TextName, UsageFigures,
};
use convoke_server::{
    CacheRow, ExportForm, Host, HostFuture, OpenedSession, Scope, Server, SessionChanges, Token,
    UndoReply,
};
use convoke_session::event_queue::Observer;
use convoke_session::file_changes::UndoRequest;
use convoke_session::store::{Page, SessionImport as _};
use convoke_session::{AnyStore, Coordinator, MemberAgent, SqliteStore, Store as _, TeamAgents};
use convoke_team::Team;
use tempfile::TempDir;

const TEAM: &str = "[[member]]\nname = \"kim\"\nhuman = true\n\
     [[member]]\nname = \"max\"\nagent = \"claude\"\n";
/// The ledger of every turn.
const LEDGER: &str = "{\"maxBytes\":786432,\"entries\":[{\"target\":\"prompt\",\"section\":\"MESSAGE\",\
     \"source\":{\"kind\":\"message\",\"id\":\"msg-1\"},\"range\":[0,6],\"keptBytes\":6,\"cutBytes\":0,\
     \"rule\":\"fits\"}]}";

/// A server and its store.
pub struct Stage {
    _directory: TempDir,
    store: AnyStore,
    /// The session with many messages.
    pub long: SessionId,
    pub port: u16,
    pub token: String,
}

impl Stage {
    /// Fills a store and serves it.
    pub async fn new(sessions: u64, messages: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store: AnyStore = SqliteStore::open(directory.path()).await.unwrap().into();
        for number in 0..sessions {
            fill(&store, number, 4).await;
        }
        let long = fill(&store, sessions, messages).await;
        let host = Arc::new(StageHost { store: store.clone(), directory: directory.path().into() });
        let server =
            Server::bind(0, Vec::new(), Token::generate(), store.clone(), host, Scope::All)
                .await
                .unwrap();
        let url = server.url();
        let (address, token) = url.split_once('#').unwrap();
        let port = address.split(['/', ':']).find_map(|part| part.parse().ok()).unwrap();
        let token = token.to_owned();
        tokio::spawn(server.serve(std::future::pending()));
        Self { _directory: directory, store, long, port, token }
    }

    /// Creates a session in which people can take part.
    pub async fn create(&self) -> SessionId {
        let new = NewSession { team: TEAM.to_owned(), ..new_session() };
        let session = new.id;
        self.store.create(new).await.unwrap();
        session
    }
}

/// Stores a session of so many messages, every second one the reply of a turn.
async fn fill(store: &AnyStore, number: u64, count: u64) -> SessionId {
    let directory = format!("/projects/{}", number % 20);
    let new = NewSession { team: TEAM.to_owned(), directory, ..new_session() };
    let session = new.id;
    let text =
        |number: u64| format!("{} word{}", "some words of a message, ".repeat(12), number % 100);
    let contents = ["prompt", "{}", LEDGER].map(Content::new);
    let mut log = Log::of(&new);
    let mut import = store.import(new).await.unwrap();
    let numbers: Vec<u64> = (1..=count).collect();
    for numbers in numbers.chunks(1000) {
        let mut events = Vec::new();
        for &number in numbers {
            let is_reply = number % 2 == 0;
            let (from, to) = if is_reply { ("max", "kim") } else { ("kim", "max") };
            let answers = is_reply.then_some(number - 1);
            let message = message(number, answers, from, &[to], &text(number));
            if is_reply {
                let turn = number / 2;
                events.extend([queued(turn, number - 1), started(turn, 1, &contents)]);
                events.extend(replied(turn, 1, message));
            } else {
                events.push(said(message));
            }
        }
        let (contents, events) = (contents.to_vec(), log.events(events));
        import.write(Page { contents, events, ..Page::default() }).await.unwrap();
    }
    import.finish().await.unwrap();
    session
}

/// A host whose agent is a stand-in.
struct StageHost {
    store: AnyStore,
    directory: PathBuf,
}

fn nothing<T: Send + 'static>() -> HostFuture<T> {
    Box::pin(async { Err("not measured".to_owned()) })
}

/// A machine without sessions of other programs.
struct NoSessions;

impl NoSessions {
    fn none<T>() -> Result<T, ReadError> {
        Err(ReadError::NotFound("not measured".to_owned()))
    }
}

impl OtherSessions for NoSessions {
    fn programs(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn list(
        &self,
        _filter: &OtherFilter,
        _from: usize,
        _limit: usize,
    ) -> Result<OtherList, ReadError> {
        Ok(OtherList::default())
    }

    fn read(&self, _name: &OtherName, _ends: &PageEnds) -> Result<OtherSession, ReadError> {
        Self::none()
    }

    fn request(&self, _name: &OtherName, _number: u64) -> Result<Arc<PricedRequest>, ReadError> {
        Self::none()
    }

    fn text(&self, _name: &OtherName, _text: &TextName) -> Result<String, ReadError> {
        Self::none()
    }

    fn usage(&self, _since: Option<Millis>) -> Result<UsageFigures, ReadError> {
        Self::none()
    }

    fn state(&self, _name: &OtherName) -> Result<FileState, ReadError> {
        Self::none()
    }
}

impl Host for StageHost {
    fn other_sessions(&self) -> Arc<dyn OtherSessions> {
        Arc::new(NoSessions)
    }

    fn open(
        &self,
        session: Option<SessionId>,
        observer: Box<dyn Observer>,
    ) -> HostFuture<OpenedSession> {
        let (store, directory) = (self.store.clone(), self.directory.clone());
        Box::pin(async move {
            let max = MemberAgent::new(Arc::new(StandIn::new(Script::default())), &directory);
            let agents = HashMap::from([("max".into(), max)]);
            let team_agents = TeamAgents::new(Team::parse(TEAM).unwrap(), agents);
            let session = session.ok_or("a session is needed")?;
            let coordinator = Coordinator::open(store, session, team_agents, observer).await;
            Ok(OpenedSession {
                coordinator: coordinator.map_err(|error| error.to_string())?,
                diagnostics: Vec::new(),
                compose: Arc::new(|message| Box::pin(async move { Ok(message) })),
                keep: Box::new(()),
            })
        })
    }

    fn changes(&self, _: SessionId) -> HostFuture<SessionChanges> {
        nothing()
    }

    fn undo(&self, _: UndoRequest) -> HostFuture<UndoReply> {
        nothing()
    }

    fn explain(&self, _: Option<PathBuf>) -> HostFuture<DirectoryReport> {
        nothing()
    }

    fn cache(&self, _: SessionId) -> HostFuture<Vec<CacheRow>> {
        nothing()
    }

    fn export(&self, _: SessionId, _: ExportForm) -> HostFuture<Vec<u8>> {
        nothing()
    }

    fn shown_directory(&self, directory: &str) -> String {
        directory.to_owned()
    }

    fn no_new_session(&self) -> Option<String> {
        None
    }
}
