//! The page: conversations and the prompt inspector in a browser.
//!
//! Read in this order: [`listener`] accepts connections, [`guard`] decides which requests are answered, [`routes`] maps
//! paths to readers of the store and to actions, [`stream`] follows a conversation, and [`views`] renders HTML and SVG.
//! The [`Host`] provides the services of the machine: agents, recorded changes, `explain`.
//!
//! # Modules
//!
//! The page: conversations and the inspector in a browser.
//!
//! - `listener` accepts a bounded number of connections and closes those that make no progress.
//! - `guard` checks host, origin and token before a request is routed.
//! - `routes` maps each path to a reader of the store (`stored`, `difference`) or an action; `sent` reads a text that a model was
//!   given, wherever it is kept, and `comparison` compares two of them by part; `query` reads the parameters of
//!   requests, `error` writes their errors.
//! - `running_sessions` runs the sessions that people act in.
//! - `stream` sends the events of a session, from what its viewers share (`feed`).
//! - `views` render HTML and SVG; `document` writes the same as one file; `assets` has the typed ES modules and the style sheet.
//! - `host` is what the binary provides: agents, recorded changes, `explain`; `other_sessions` is the same for sessions of other
//!   programs, read by functions that block, on threads of their own.
//!
//! # Invariants
//!
//! - Every request is checked by `guard` (`crates/front/server/tests/it/guard.rs: every_route_checks_its_host`,
//!   `crates/front/server/tests/it/guard.rs: data_needs_the_token_in_its_header`); no response has a CORS header.
//! - A text of a conversation reaches HTML only through `views::text::exact`, which shows characters that would act
//!   (`crates/front/server/tests/it/views.rs: hostile_texts_are_text_in_every_view`).
//! - A viewer has no queue: it compares the shared state with what it has sent, so that memory does not grow with
//!   slow viewers (`crates/front/server/src/listener.rs: a_client_that_reads_nothing_is_disconnected`).

pub mod assets;
mod comparison;
mod difference;
pub mod document;
mod error;
mod feed;
pub mod guard;
pub mod host;
pub mod listener;
pub mod other_sessions;
mod query;
pub mod routes;
mod running_sessions;
mod sent;
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
pub use self::other_sessions::OtherSessions;
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
        match self.app.scope {
            Scope::All => self.url_of("/"),
            Scope::One(session) => self.url_of(&format!("/sessions/{session}")),
        }
    }

    /// Returns the address of the view with this path, with the token in its fragment.
    pub fn url_of(&self, path: &str) -> String {
        format!("http://{}{path}#{}", self.address, self.app.guard.token().as_str())
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
