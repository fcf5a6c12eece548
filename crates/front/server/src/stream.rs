//! The stream of a session: server-sent events, to be read with `fetch`.
//!
//! - `message`: a message, once, in order. Its id is the store's number of the message, and a client that connects
//!   again sends the last one as `Last-Event-ID`: it gets every later message, and none twice.
//! - `standing`: the queue, questions, holder and costs, whole, whenever they change.
//! - `live`: a part of a running turn's text, with its offset. A new connection begins at offset 0.
//!
//! Comments keep an idle connection alive and detect a disconnected client.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use convoke_protocol::id::{MessageNumber, SessionId, TurnId};
use convoke_protocol::message::Message;
use convoke_session::{AnyStore, Store as _, StoreError};
use futures_util::Stream;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::feed::{LivePart, SentPart, Viewer};
use crate::query::ResponseForm;
use crate::stored::{SessionStatus, message_json};
use crate::views;

/// The interval of comments.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The maximum number of messages that are read at a time.
const PAGE: usize = 32;
/// The number of queued parts for a slow client; beyond it the stream waits, and skips outdated parts.
const AHEAD: usize = 4;

/// A part of the stream.
pub(crate) type Part = Result<Bytes, std::convert::Infallible>;

/// Follows a session after a message, until the client disconnects.
pub(crate) fn follow(
    store: AnyStore,
    session: SessionId,
    viewer: Viewer,
    after: Option<MessageNumber>,
    form: ResponseForm,
) -> impl Stream<Item = Part> + Send {
    let (sender, mut receiver) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        let after = match after {
            Some(after) => after,
            None => match store.session(session).await {
                Ok(session) => session.state.last_message,
                Err(_) => return,
            },
        };
        let mut follower = Follower {
            store,
            session,
            viewer,
            form,
            sender,
            sent: after,
            status: None,
            seen: HashMap::new(),
        };
        // An error of the store ends the stream, and the client connects again.
        let _ = follower.run().await;
    });
    futures_util::stream::poll_fn(move |context| receiver.poll_recv(context))
}

struct Follower {
    store: AnyStore,
    session: SessionId,
    viewer: Viewer,
    form: ResponseForm,
    sender: mpsc::Sender<Part>,
    sent: MessageNumber,
    /// The version of the status that the client has.
    status: Option<u64>,
    seen: HashMap<TurnId, SentPart>,
}

/// The reason why a stream ended.
enum StreamEnd {
    Gone,
    Store,
}

impl From<StoreError> for StreamEnd {
    fn from(_: StoreError) -> Self {
        Self::Store
    }
}

impl Follower {
    async fn run(&mut self) -> Result<(), StreamEnd> {
        let mut changed = self.viewer.0.watch();
        // Makes the response begin at once.
        self.send(Bytes::from_static(b": a stream of the session\n\n")).await?;
        loop {
            changed.mark_unchanged();
            self.catch_up().await?;
            let sender = self.sender.clone();
            tokio::select! {
                changed = changed.changed() => changed.map_err(|_| StreamEnd::Gone)?,
                () = tokio::time::sleep(KEEP_ALIVE) => self.send(Bytes::from_static(b":\n\n")).await?,
                () = sender.closed() => return Err(StreamEnd::Gone),
            }
        }
    }

    /// Sends everything that the client does not have.
    async fn catch_up(&mut self) -> Result<(), StreamEnd> {
        let Some(last) = self.viewer.0.last_message() else { return Ok(()) };
        while self.sent < last {
            let next = MessageNumber(self.sent.0 + 1);
            let events = match self.viewer.0.message_event(next, self.form) {
                Some(event) => vec![(next, event)],
                None => self.read_messages().await?,
            };
            for (number, event) in events {
                self.sent = number;
                self.send(event).await?;
            }
        }
        let (session, form) = (self.session, self.form);
        let render = |status: &SessionStatus| status_event(session, status, form);
        if let Some((version, event)) = self.viewer.0.status_event(form, self.status, render) {
            self.status = Some(version);
            self.send(event).await?;
        }
        loop {
            let parts = self.viewer.0.unseen(&mut self.seen);
            if parts.is_empty() {
                return Ok(());
            }
            for part in parts {
                self.send(event("live", None, &live(part, self.form)).into()).await?;
            }
        }
    }

    /// Reads the next messages; the last ones of the session are kept for other viewers.
    async fn read_messages(&self) -> Result<Vec<(MessageNumber, Bytes)>, StreamEnd> {
        let feed = &self.viewer.0;
        let _reading = feed.reading.lock().await;
        let next = MessageNumber(self.sent.0 + 1);
        // Another viewer may have read it meanwhile.
        if let Some(event) = feed.message_event(next, self.form) {
            return Ok(vec![(next, event)]);
        }
        let messages = self.store.messages_after(self.session, self.sent, PAGE).await?;
        let mut events = Vec::with_capacity(messages.len());
        for message in messages {
            let number = message.number;
            let event = Bytes::from(event("message", Some(number), &self.message(&message)));
            feed.keep_message_event(number, self.form, &event);
            events.push((number, event));
        }
        if events.is_empty() { Err(StreamEnd::Store) } else { Ok(events) }
    }

    fn message(&self, message: &Message) -> Value {
        match self.form {
            ResponseForm::Json => message_json(message),
            ResponseForm::Html => json!({
                "number": message.number,
                "html": views::conversation::message(self.session, message).into_string(),
            }),
        }
    }

    async fn send(&self, bytes: Bytes) -> Result<(), StreamEnd> {
        self.sender.send(Ok(bytes)).await.map_err(|_| StreamEnd::Gone)
    }
}

fn status_event(session: SessionId, status: &SessionStatus, form: ResponseForm) -> String {
    let data = match form {
        ResponseForm::Json => json!(status),
        ResponseForm::Html => json!({
            "head": status.head,
            "live": status.live,
            "html": views::conversation::status(session, status).into_string(),
            "cost": views::conversation::cost(&status.costs).into_string(),
        }),
    };
    event("standing", None, &data)
}

fn live(part: LivePart, form: ResponseForm) -> Value {
    let LivePart { turn, generation, offset, text, steps, .. } = part;
    let mut data = json!({"turn": turn, "generation": generation, "offset": offset, "text": text});
    if let Some(steps) = steps {
        data["steps"] = match form {
            ResponseForm::Html => json!(views::conversation::steps(&steps).into_string()),
            ResponseForm::Json => steps
                .iter()
                .map(|step| {
                    json!({"id": step.id, "name": step.name, "input": step.input,
                    "ok": step.output.as_ref().map(|(ok, _)| *ok)})
                })
                .collect(),
        };
    }
    data
}

/// Returns an event. JSON has no line breaks, so its data is one line.
fn event(name: &str, id: Option<MessageNumber>, data: &Value) -> String {
    let id = id.map_or_else(String::new, |id| format!("id: {id}\n"));
    format!("event: {name}\n{id}data: {data}\n\n")
}
