//! The page: conversations and the prompt inspector in a browser.
//!
//! Read in this order: [`listener`] accepts connections, [`guard`] decides which requests are answered, [`routes`] maps
//! paths to readers of the store and to actions, [`stream`] follows a conversation, and [`views`] renders HTML and SVG.
//! The [`Host`] provides the services of the machine: agents, recorded changes, `explain`.

pub mod assets;
mod difference;
pub mod document;
mod error;
mod feed;
pub mod guard;
pub mod host;
pub mod listener;
mod query;
pub mod routes;
mod running_sessions;
pub mod stored;
pub mod stream;
pub mod views;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use convoke_protocol::id::SessionId;
use convoke_session::AnyStore;
use convoke_session::event_queue::Observer;
use tokio::net::TcpListener;

use self::feed::Feeds;
use self::guard::Guard;
pub use self::guard::Token;
pub use self::host::{
    CacheRow, ChangedFile, Compose, ExportForm, Host, HostFuture, HostResult, MemberWorkspace,
    OpenedSession, SessionChanges, TurnChanges, UndoReply,
};
use self::running_sessions::RunningSessions;
pub use self::running_sessions::{
    ActionError, ActionResult, HeldRequest, Interjections, Reply, SessionRequests, answer,
    session_requests,
};

/// The sessions that a server shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Every session of the store.
    All,
    /// One session, which the process of the server holds.
    One(SessionId),
}

/// A server that listens and does not answer yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    app: Arc<App>,
}

/// The shared state of the request handlers.
pub(crate) struct App {
    pub store: AnyStore,
    pub host: Arc<dyn Host>,
    pub guard: Guard,
    pub scope: Scope,
    pub feeds: Arc<Feeds>,
    pub running: RunningSessions,
}

impl Server {
    /// Listens on a port of 127.0.0.1; port 0 is any free one. No other address is supported: a forwarded port
    /// arrives at this one, with a name of `allowed_hosts`.
    pub async fn bind(
        port: u16,
        allowed_hosts: Vec<String>,
        token: Token,
        store: AnyStore,
        host: Arc<dyn Host>,
        scope: Scope,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let guard = Guard::new(address.port(), allowed_hosts, token);
        let feeds = Arc::new(Feeds::new(store.clone()));
        let running = RunningSessions::new(Arc::clone(&host), Arc::clone(&feeds));
        let app = Arc::new(App { store, host, guard, scope, feeds, running });
        Ok(Self { listener, address, app })
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the address of a view, with the token in its fragment, which a browser never sends.
    pub fn url(&self) -> String {
        let path = match self.app.scope {
            Scope::All => String::new(),
            Scope::One(session) => format!("sessions/{session}"),
        };
        format!("http://{}/{path}#{}", self.address, self.app.guard.token().as_str())
    }

    /// Lets the page act on a session that this process runs: requests go to `requests`, and the returned observer
    /// must see the events of the conversation.
    pub fn attend(&self, session: SessionId, requests: SessionRequests) -> Box<dyn Observer> {
        self.app.running.attend(session, requests)
    }

    /// Answers requests until `end` is ready. Then it leaves the conversations that it runs: everything is stored,
    /// and their agents end.
    pub async fn serve(self, end: impl Future<Output = ()>) {
        let router = routes::router(&self.app);
        tokio::select! {
            () = listener::accept(self.listener, router) => {}
            () = end => {}
        }
        self.app.running.leave().await;
    }
}
