//! The page of a conversation that `run` or `chat` holds.

use std::sync::{Arc, Mutex, PoisonError};

use convoke_chat::RemoteRequests;
use convoke_inspect::HostEnvironment;
use convoke_protocol::event::Event;
use convoke_server::{
    ActionError, ActionResult, HeldRequest, Scope, Server, Token, session_requests,
};
use convoke_session::event_queue::{Observer, Ready};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::composing::compose;
use super::machine::Machine;
use super::other_sessions::Others;
use crate::conversation::Conversation;

/// The page of a conversation of this process. It ends when it is dropped.
pub(in crate::commands) struct SessionPage {
    /// The address, with its token.
    pub(in crate::commands) url: String,
    requests: mpsc::Receiver<HeldRequest>,
    serving: JoinHandle<()>,
}

impl Drop for SessionPage {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A slot for the observer of a page, filled when the page is opened.
#[derive(Clone, Default)]
pub(in crate::commands) struct PageObserver(Arc<Mutex<Option<Box<dyn Observer>>>>);

/// An observer that also passes events to a page, if there is one.
struct SharedObserver {
    own: Box<dyn Observer>,
    page: PageObserver,
}

impl Observer for SharedObserver {
    fn observe(&mut self, event: Event) {
        let mut page = self.page.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(page) = page.as_mut() {
            page.observe(event.clone());
        }
        drop(page);
        self.own.observe(event);
    }

    fn ready(&mut self) -> Ready<'_> {
        self.own.ready()
    }
}

/// Returns an observer for a conversation, and the slot for its page.
pub(in crate::commands) fn shared(own: Box<dyn Observer>) -> (Box<dyn Observer>, PageObserver) {
    let page = PageObserver::default();
    (Box::new(SharedObserver { own, page: page.clone() }), page)
}

impl SessionPage {
    /// Serves a page of an open conversation on a free port.
    pub(in crate::commands) async fn open(
        host_environment: &HostEnvironment,
        conversation: &Conversation,
        observer: &PageObserver,
    ) -> anyhow::Result<Self> {
        let coordinator = &conversation.coordinator;
        let (store, session) = (coordinator.store().clone(), coordinator.session());
        // The page of one conversation shows no sessions of other programs.
        let machine =
            Machine::new(host_environment.clone(), store.clone(), Arc::new(Others::default()));
        // The address of a conversation ends with its process.
        let token = Token::generate();
        let server =
            Server::bind(0, Vec::new(), token, store, Arc::new(machine), Scope::One(session))
                .await?;
        let team = coordinator.team_agents().team().clone();
        let compose = compose(conversation, host_environment);
        let (requests, asked) = session_requests(coordinator.controls(), team, compose);
        let heard = server.attend(session, requests);
        *observer.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(heard);
        let url = server.url();
        let serving = tokio::spawn(server.serve(std::future::pending()));
        Ok(Self { url, requests: asked, serving })
    }

    /// Forwards the requests of the page to a chat. The page ends with the chat.
    pub(in crate::commands) fn into_remote(mut self) -> RemoteRequests {
        let (sender, remote) = mpsc::channel(1);
        tokio::spawn(async move {
            while let Some(request) = self.requests.recv().await {
                let (request, reply) = match request {
                    HeldRequest::Act(request, reply) => (request, reply),
                    HeldRequest::Release(reply) => {
                        let _ = reply.send(Err(kept()));
                        continue;
                    }
                };
                let (answer, answered) = oneshot::channel();
                if sender.send((request, answer)).await.is_err() {
                    return;
                }
                let result = match answered.await {
                    Ok(Ok(waits)) => Ok(ActionResult { message: None, waits }),
                    Ok(Err(why)) => Err(ActionError(why)),
                    Err(_) => Err(ActionError("the chat has ended".to_owned())),
                };
                let _ = reply.send(result);
            }
        });
        remote
    }
}

/// The refusal to release a session that the terminal holds.
pub(in crate::commands) fn kept() -> ActionError {
    ActionError("this session is open in the terminal; end it there".to_owned())
}

/// Waits for a request of a page; forever without a page.
pub(in crate::commands) async fn next(page: &mut Option<SessionPage>) -> HeldRequest {
    if let Some(open) = page
        && let Some(request) = open.requests.recv().await
    {
        return request;
    }
    std::future::pending().await
}
