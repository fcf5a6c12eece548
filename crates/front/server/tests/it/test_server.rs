//! A server with a temporary store, whose agents are stand-ins.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use convoke_agent::adapter::{Script, StandIn, Step};
use convoke_agent::clock::now;
use convoke_explain::DirectoryReport;
use convoke_protocol::id::SessionId;
use convoke_protocol::session::NewSession;
use convoke_server::{
    CacheRow, ExportForm, Host, HostFuture, OpenedSession, OtherSessions, Scope, Server,
    SessionChanges, Token, UndoReply,
};
use convoke_session::event_queue::Observer;
use convoke_session::file_changes::UndoRequest;
use convoke_session::{AnyStore, Coordinator, MemberAgent, NewMessage, SqliteStore, TeamAgents};
use convoke_team::Team;
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::client::{EventStream, Response, send};
use crate::test_sessions::TestSessions;

const TEAM: &str = "name = \"test\"\n[[member]]\nname = \"kim\"\nhuman = true\n\
     [[member]]\nname = \"max\"\nagent = \"claude\"\ninstructions = \"Be brief.\"\n\
     [[member]]\nname = \"ada\"\nagent = \"gemini\"\n";

/// A server and its store.
pub struct TestServer {
    pub directory: TempDir,
    pub store: AnyStore,
    pub port: u16,
    pub token: String,
    host: Arc<TestHost>,
    scope: Scope,
    serving: JoinHandle<()>,
}

/// A host whose agents reply with the `steps` of the test.
pub struct TestHost {
    store: AnyStore,
    directory: PathBuf,
    max: Mutex<StandIn>,
}

impl TestServer {
    pub async fn start() -> Self {
        Self::with(vec![vec![Step::Say("Looks good to me.".to_owned())]]).await
    }

    /// Starts a server whose agent `max` takes these turns.
    pub async fn with(turns: Vec<Vec<Step>>) -> Self {
        Self::scoped(turns, Scope::All, Vec::new()).await
    }

    pub async fn scoped(turns: Vec<Vec<Step>>, scope: Scope, hosts: Vec<String>) -> Self {
        let directory = TempDir::new().unwrap();
        let store: AnyStore = SqliteStore::open(directory.path()).await.unwrap().into();
        let max = Mutex::new(StandIn::new(Script { turns }));
        let host =
            Arc::new(TestHost { store: store.clone(), directory: directory.path().into(), max });
        let (port, token, serving) = serve(&store, &host, scope, hosts).await;
        Self { directory, store, port, token, host, scope, serving }
    }

    /// Kills the server and starts another one on the same store.
    pub async fn restart(&mut self) {
        self.serving.abort();
        let (port, token, serving) = serve(&self.store, &self.host, self.scope, Vec::new()).await;
        (self.port, self.token, self.serving) = (port, token, serving);
    }

    /// Creates a session in which `max` has answered a message.
    pub async fn conversation(&self, text: &str) -> SessionId {
        let observer = Box::new(|_| {});
        let mut opened = self.host.open(None, observer).await.unwrap();
        let message = NewMessage::from_person("kim", text).to(["max"]);
        opened.coordinator.accept(message).await.unwrap();
        Box::pin(opened.coordinator.run()).await.unwrap();
        opened.coordinator.session()
    }

    /// Opens a session as another process would.
    pub async fn hold(&self, session: Option<SessionId>) -> OpenedSession {
        self.host.open(session, Box::new(|_| {})).await.unwrap()
    }

    fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n\
             Connection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            self.port,
            self.token,
            body.len()
        )
    }

    pub async fn get(&self, path: &str) -> Response {
        send(self.port, &self.request("GET", path, "", "")).await
    }

    pub async fn json(&self, path: &str) -> Value {
        let response = self.get(path).await;
        assert_eq!(response.status, 200, "{path}: {response:?}");
        response.json()
    }

    pub async fn html(&self, path: &str) -> String {
        let response =
            send(self.port, &self.request("GET", path, "Accept: text/html\r\n", "")).await;
        assert_eq!(response.status, 200, "{path}: {response:?}");
        response.body
    }

    pub async fn post(&self, path: &str, body: &Value) -> Response {
        let headers = "Content-Type: application/json\r\n";
        send(self.port, &self.request("POST", path, headers, &body.to_string())).await
    }

    pub async fn stream(&self, session: SessionId, last: Option<&str>) -> EventStream {
        let last = last.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
        let path = format!("/api/sessions/{session}/stream");
        EventStream::open(self.port, &self.request("GET", &path, &last, "")).await
    }
}

async fn serve(
    store: &AnyStore,
    host: &Arc<TestHost>,
    scope: Scope,
    hosts: Vec<String>,
) -> (u16, String, JoinHandle<()>) {
    let host: Arc<dyn Host> = host.clone();
    let server =
        Server::bind(0, hosts, Token::generate(), store.clone(), host, scope).await.unwrap();
    let url = server.url();
    let (address, token) = url.split_once('#').unwrap();
    let port = address.split(['/', ':']).find_map(|part| part.parse().ok()).unwrap();
    let token = token.to_owned();
    (port, token, tokio::spawn(server.serve(std::future::pending())))
}

impl Host for TestHost {
    fn open(
        &self,
        session: Option<SessionId>,
        observer: Box<dyn Observer>,
    ) -> HostFuture<OpenedSession> {
        let (store, directory) = (self.store.clone(), self.directory.clone());
        let max = self.max.lock().unwrap().clone();
        Box::pin(async move {
            let member = |agent: StandIn| MemberAgent::new(Arc::new(agent), &directory);
            let agents = HashMap::from([
                ("max".into(), member(max)),
                ("ada".into(), member(StandIn::new(Script::default()))),
            ]);
            let team_agents = TeamAgents::new(Team::parse(TEAM).unwrap(), agents);
            let coordinator = if let Some(session) = session {
                Coordinator::open(store, session, team_agents, observer).await
            } else {
                let new = NewSession {
                    id: SessionId::generate(),
                    created_at: now(),
                    name: Some("test".to_owned()),
                    directory: directory.display().to_string(),
                    team: TEAM.to_owned(),
                    task: None,
                    rehearsal: None,
                };
                Coordinator::create(store, new, team_agents, observer).await
            };
            let coordinator = coordinator.map_err(|error| error.to_string())?;
            Ok(OpenedSession {
                coordinator,
                diagnostics: Vec::new(),
                compose: Arc::new(|message| Box::pin(async move { Ok(message) })),
                keep: Box::new(()),
            })
        })
    }

    fn changes(&self, _: SessionId) -> HostFuture<SessionChanges> {
        Box::pin(async { Ok(SessionChanges::default()) })
    }

    fn undo(&self, _: UndoRequest) -> HostFuture<UndoReply> {
        Box::pin(async { Err("there is nothing to undo".to_owned()) })
    }

    fn explain(&self, _: Option<PathBuf>) -> HostFuture<DirectoryReport> {
        let session = convoke_explain::Session::new(self.directory.clone(), self.directory.clone());
        let report = convoke_explain::explain(
            &convoke_files::Disk,
            &session,
            &convoke_vendors::newest_editions(),
        );
        Box::pin(async { Ok(report) })
    }

    fn cache(&self, _: SessionId) -> HostFuture<Vec<CacheRow>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn export(&self, session: SessionId, _: ExportForm) -> HostFuture<Vec<u8>> {
        let store = self.store.clone();
        Box::pin(async move {
            let mut bytes = Vec::new();
            let written = convoke_server::document::write(&store, session, &mut bytes).await;
            written.map(|()| bytes).map_err(|error| error.to_string())
        })
    }

    fn shown_directory(&self, directory: &str) -> String {
        directory.to_owned()
    }

    fn no_new_session(&self) -> Option<String> {
        None
    }

    fn other_sessions(&self) -> Arc<dyn OtherSessions> {
        Arc::new(TestSessions)
    }
}
