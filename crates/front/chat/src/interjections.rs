//! Messages on their way into the inbox of the session. A store that is busy or away may take long to accept them: the
//! screen goes on meanwhile.

use std::collections::VecDeque;
use std::future::pending;
use std::pin::Pin;

use convoke_session::{Controls, NewMessage, StoreError};

use crate::event_loop::RemoteReply;
use crate::model::Input;

/// A message that is put into the inbox.
pub(crate) struct Interjection {
    pub(crate) message: NewMessage,
    pub(crate) sender: Sender,
}

/// The sender of a message.
pub(crate) enum Sender {
    /// The person at the screen, who entered a line.
    Here(String),
    /// A client that waits for the reply.
    Remote(RemoteReply),
}

type Put = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send>>;

/// Puts messages into the inbox, one after the other. The conversation must be polled together with it: both write to the
/// store, and one may wait for the other.
pub(crate) struct Interjections {
    put: Box<dyn Fn(NewMessage) -> Put + Send>,
    queue: VecDeque<Interjection>,
    /// Puts the first message of the queue.
    current: Option<Put>,
}

/// A message of the person at the screen that the store did not accept.
pub(crate) struct NotPut {
    pub(crate) message: NewMessage,
    pub(crate) line: String,
    pub(crate) error: StoreError,
}

impl Interjections {
    pub(crate) fn new(controls: Controls) -> Self {
        Self::with(move |message| {
            let controls = controls.clone();
            Box::pin(async move { controls.interject(message).await })
        })
    }

    fn with(put: impl Fn(NewMessage) -> Put + Send + 'static) -> Self {
        Self { put: Box::new(put), queue: VecDeque::new(), current: None }
    }

    pub(crate) fn push(&mut self, interjection: Interjection) {
        self.queue.push_back(interjection);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Waits until the first message is put, and returns what the screen is to know of it; waits forever if there is none.
    /// Can be dropped and called again.
    pub(crate) async fn next(&mut self) -> Result<Option<Input>, NotPut> {
        let Some(first) = self.queue.front() else { return pending().await };
        let put = self.current.get_or_insert_with(|| (self.put)(first.message.clone()));
        let done = put.await;
        self.current = None;
        let Some(Interjection { message, sender }) = self.queue.pop_front() else {
            return Ok(None);
        };
        match (sender, done) {
            (Sender::Here(_), Ok(())) => Ok(None),
            (Sender::Here(line), Err(error)) => Err(NotPut { message, line, error }),
            (Sender::Remote(reply), done) => {
                let is_put = done.is_ok();
                // The sender may have disconnected.
                let _ = reply.send(done.map(|()| true).map_err(|error| error.to_string()));
                Ok(is_put.then(|| Input::Interjected(Box::new(message))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt as _;
    use tokio::sync::{Semaphore, oneshot};

    use super::*;

    fn says(text: &str) -> NewMessage {
        NewMessage::from_person("you", text)
    }

    /// Returns a queue whose store accepts as many messages as it is permitted, and refuses `no`.
    fn queue(permits: &Arc<Semaphore>) -> Interjections {
        let permits = permits.clone();
        Interjections::with(move |message| {
            let permits = permits.clone();
            Box::pin(async move {
                permits.acquire().await.unwrap().forget();
                let refused = StoreError::Damaged("the disk is full".to_owned());
                if message.content == "no" { Err(refused) } else { Ok(()) }
            })
        })
    }

    #[tokio::test]
    async fn messages_wait_for_a_busy_store_in_order_while_the_screen_goes_on() {
        let permits = Arc::new(Semaphore::new(0));
        let mut queue = queue(&permits);
        let (reply, replied) = oneshot::channel();
        queue.push(Interjection { message: says("one"), sender: Sender::Here("one".into()) });
        queue.push(Interjection { message: says("no"), sender: Sender::Here("@ada no".into()) });
        queue.push(Interjection { message: says("two"), sender: Sender::Remote(reply) });
        // Keys and frames end the wait again and again.
        for _ in 0..3 {
            assert!(queue.next().now_or_never().is_none());
        }
        permits.add_permits(1);
        assert!(matches!(queue.next().await, Ok(None)));
        assert!(queue.next().now_or_never().is_none(), "one was put once");
        permits.add_permits(2);
        let Err(refused) = queue.next().await else { panic!("the store refused it") };
        assert_eq!((refused.message, &*refused.line), (says("no"), "@ada no"));
        let Ok(Some(Input::Interjected(put))) = queue.next().await else { panic!("it was put") };
        assert_eq!((*put, replied.await.unwrap()), (says("two"), Ok(true)));
        assert!(queue.is_empty());
    }
}
