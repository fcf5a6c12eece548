//! Stores and routes messages.

use std::time::Duration;

use convoke_core::marker::Intent;
use convoke_core::{Diagnostic, MessageId, NewMessage};
use convoke_protocol::event::{EventKind, StopReason};
use convoke_protocol::id::{MemberName, MessageNumber, SessionId};
use convoke_team::Team;
use serde_json::Value;
use tokio::time::timeout;
use uuid::Uuid;

use super::team_calls::PAGE;
use super::{Coordinator, CoordinatorError, Step};
use crate::diagnostics;
use crate::routing::conversation::MessageOrigin;
use crate::routing::{CalledMember, Routed, route};
use crate::sharing::SEND_KEY;
use crate::store::{ArrivalNumber, Store, StoreError};

/// The time limit for passing a message to the process that holds a shared session, and the pause between two attempts.
const PUT_TIMEOUT: Duration = Duration::from_secs(20);
const PUT_INTERVAL: Duration = Duration::from_millis(250);

/// A person's message that may not be stored yet.
pub(crate) struct UnsentMessage {
    pub(crate) message: NewMessage,
    /// The last message of the session when this message was first sent; `None` if it was not sent yet.
    after: Option<MessageNumber>,
}

impl From<NewMessage> for UnsentMessage {
    fn from(message: NewMessage) -> Self {
        Self { message, after: None }
    }
}

impl<S: Store> Coordinator<S> {
    /// Stores and routes a person's message. The message is durable when this returns. Returns its id; `None`
    /// if another process holds the session, which then stores the message between two turns. An unreachable
    /// server is asked again until the person leaves.
    ///
    /// The recipients of the message are used only if its text has no `[NEXT: …]`. Markers in its
    /// [attachments](convoke_protocol::attachment::Attachment) have no effect.
    pub async fn accept(
        &mut self,
        given: NewMessage,
    ) -> Result<Option<MessageId>, CoordinatorError> {
        self.person_of(&given)?;
        self.controls.reset_cancel();
        // Messages that arrived before this one come first; in a shared store once the session is held.
        if self.sharing.is_none() {
            Box::pin(self.store_unsent()).await?;
            Box::pin(self.take_arrived()).await?;
        }
        self.unsent.push_back(given.into());
        let mut unreachable = None;
        loop {
            let is_shared = self.sharing.is_some();
            let leaving = self.leaving();
            let sending = timeout(2 * self.store_timeout(), Box::pin(self.send_all()));
            let sent = tokio::select! {
                sent = sending => sent.unwrap_or_else(|_| Err(StoreError::unanswered().into())),
                () = leaving, if is_shared => Err(StoreError::unanswered().into()),
            };
            match sent {
                Err(CoordinatorError::Store(error)) if self.sharing.is_some() => match error {
                    StoreError::HoldLost { .. } => self.lose_hold(),
                    error if error.is_transient() => {
                        self.is_stale = true;
                        self.wait_for_store(&mut unreachable, error).await?;
                    }
                    error => return Err(error.into()),
                },
                sent => return sent,
            }
        }
    }

    /// Stores the unsent messages, or passes them to the process that holds the session. Returns the id of the last
    /// message if it was stored.
    async fn send_all(&mut self) -> Result<Option<MessageId>, CoordinatorError> {
        let mut id = None;
        while let Some(message) = self.next_unsent().await? {
            id = if self.try_claim().await? {
                self.refresh().await?;
                // A new message continues a conversation that was cancelled.
                self.stop = None;
                if self.sharing.is_some() {
                    Box::pin(self.take_arrived()).await?;
                }
                let stored = self.store_message(message, None, None).await;
                Some(self.settle_first(stored)?)
            } else {
                let put = self.pass_to_holder(&message).await.map_err(Into::into);
                self.settle_first(put)?;
                None
            };
        }
        Ok(id)
    }

    /// Stores the messages of which it was unknown whether they are stored.
    pub(crate) async fn store_unsent(&mut self) -> Result<(), CoordinatorError> {
        while let Some(message) = self.next_unsent().await? {
            let stored = self.store_message(message, None, None).await;
            self.settle_first(stored)?;
        }
        Ok(())
    }

    /// Returns the first unsent message, with its key if others write the session too. Removes one that an attempt
    /// stored which seemed to fail.
    async fn next_unsent(&mut self) -> Result<Option<NewMessage>, StoreError> {
        if self.sharing.is_none() {
            self.refresh().await?;
        }
        let last = self.conversation.last_message();
        loop {
            let Some(first) = self.unsent.front_mut() else { return Ok(None) };
            let Some(after) = first.after else {
                first.after = Some(last);
                if self.sharing.is_some() {
                    let key = Uuid::now_v7().to_string();
                    first.message.extra.insert(SEND_KEY.to_owned(), key.into());
                }
                return Ok(Some(first.message.clone()));
            };
            let key = first.message.extra.get(SEND_KEY);
            let is_sent = match &self.sharing {
                // Only this process writes, and it stores nothing before this message.
                None => last > after,
                Some(_) => {
                    has_arrived(&self.store, self.session, key).await?
                        || is_stored(&self.store, self.session, after, key).await?
                }
            };
            if !is_sent {
                return Ok(Some(first.message.clone()));
            }
            self.unsent.pop_front();
        }
    }

    /// Removes the first unsent message, unless it is unknown whether it was stored.
    fn settle_first<T>(
        &mut self,
        sent: Result<T, CoordinatorError>,
    ) -> Result<T, CoordinatorError> {
        let is_unknown = matches!(&sent, Err(CoordinatorError::Store(error))
            if error.is_transient() || matches!(error, StoreError::HoldLost { .. }));
        if !is_unknown {
            self.unsent.pop_front();
        }
        sent
    }

    /// Returns the author of a message.
    pub(crate) fn person_of(&self, given: &NewMessage) -> Result<MemberName, CoordinatorError> {
        let team = self.team_agents.team();
        let name = given.speaker.name();
        team.resolve_person(name).cloned().ok_or_else(|| {
            let people = team.people().cloned().collect();
            CoordinatorError::NoPerson { name: name.to_owned(), people }
        })
    }

    /// Stores and routes a person's message, which may have arrived earlier, after what was noted about it.
    pub(crate) async fn store_message(
        &mut self,
        mut message: NewMessage,
        taken: Option<ArrivalNumber>,
        noted: Option<EventKind>,
    ) -> Result<MessageId, CoordinatorError> {
        let person = self.person_of(&message)?;
        let team = self.team_agents.team();
        let mut routed = route(team, &person, &message.content);
        // If the message names only unknown members, the person has to correct it; no other member answers
        // instead.
        if routed.calls.is_empty() && !routed.has_recipients {
            call_instead(&mut routed, message.addressees(), team);
        }
        message.speaker = team.speaker(&routed.speaker);
        message.routing = None;
        let mut next = self.conversation.clone();
        // If the next turn is the person's own, this message is its reply.
        let is_answered = next.queue.peek().is_some_and(|turn| turn.member == routed.speaker);
        let answered = match next.queue.peek().map(|turn| turn.id) {
            Some(id) if is_answered => next.queue.remove(id),
            _ => None,
        };
        let answers = answered.as_ref().map(|turn| turn.answers);
        if let Some(number) = answers {
            message.in_reply_to = Some(self.store.message(self.session, number).await?.message.id);
        }
        let at = self.team_agents.now();
        let origin = MessageOrigin { answers, turn: answered.map(|turn| turn.id) };
        let effects = next.add(message, origin, &routed, &routed.speaker, at, |_| true);
        let id = effects.message.id().clone();
        let overflow = self.overflow(effects.left_out);
        let mut step = Step { taken, ..Step::of(at, noted) };
        step.events.extend(effects.into_events(&routed));
        step.events.extend(overflow);
        self.append(next, step).await?;
        self.guard.reset();
        Ok(id)
    }

    /// Returns the diagnostic about turns that did not fit into the queue, and stops the conversation.
    pub(crate) fn overflow(&mut self, left_out: u64) -> Option<EventKind> {
        if left_out == 0 {
            return None;
        }
        let limit = self.team_agents.team().limits.queue;
        let earlier = match self.stop {
            Some(StopReason::QueueFull { left_out, .. }) => left_out,
            _ => 0,
        };
        let message = format!("queue full: {limit} turns queued, {left_out} not added");
        let diagnostic = Diagnostic::new(diagnostics::QUEUE_FULL, message).with_count(left_out);
        let (person, left_out) = (self.asker(), earlier + left_out);
        self.stop = Some(StopReason::QueueFull { person, limit, left_out });
        Some(EventKind::Diagnostic { turn: None, diagnostic })
    }
}

/// Passes a message to the process that holds a session, once: a server that cannot be reached is asked again for a while, and whether
/// it has the message.
pub(crate) async fn put_message(
    store: impl Store,
    session: SessionId,
    mut message: NewMessage,
) -> Result<(), StoreError> {
    if store.sharing().is_none() {
        return store.say(session, &message).await;
    }
    let key = Value::from(Uuid::now_v7().to_string());
    message.extra.insert(SEND_KEY.to_owned(), key.clone());
    let mut sent_after = None;
    let put = async {
        loop {
            match put_once(&store, session, &message, &key, &mut sent_after).await {
                Err(error) if error.is_transient() => tokio::time::sleep(PUT_INTERVAL).await,
                put => return put,
            }
        }
    };
    timeout(PUT_TIMEOUT, put).await.unwrap_or_else(|_| Err(StoreError::unanswered()))
}

/// Passes a message with a key on, unless an attempt that seemed to fail did so. `sent_after` is the last message of
/// the session before the first attempt.
async fn put_once(
    store: &impl Store,
    session: SessionId,
    message: &NewMessage,
    key: &Value,
    sent_after: &mut Option<MessageNumber>,
) -> Result<(), StoreError> {
    match *sent_after {
        None => *sent_after = Some(store.session(session).await?.state.last_message),
        Some(after) => {
            if has_arrived(store, session, Some(key)).await?
                || is_stored(store, session, after, Some(key)).await?
            {
                return Ok(());
            }
        }
    }
    store.say(session, message).await
}

/// Returns whether a message with a key has arrived and is not stored yet.
async fn has_arrived(
    store: &impl Store,
    session: SessionId,
    key: Option<&Value>,
) -> Result<bool, StoreError> {
    let arrived = store.arrived(session).await?;
    Ok(arrived.iter().any(|(_, message)| message.extra.get(SEND_KEY) == key))
}

/// Returns whether a message with a key was stored after another one.
async fn is_stored(
    store: &impl Store,
    session: SessionId,
    mut after: MessageNumber,
    key: Option<&Value>,
) -> Result<bool, StoreError> {
    loop {
        let page = store.messages_after(session, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(false) };
        after = last.number;
        if page.iter().any(|stored| stored.message.extra.get(SEND_KEY) == key) {
            return Ok(true);
        }
    }
}

/// Queues turns for recipients that are not named in the text.
fn call_instead(routed: &mut Routed, to: &[String], team: &Team) {
    for name in to {
        match team.resolve(name) {
            Some(member) if routed.calls.iter().any(|call| call.member == *member) => {}
            Some(member) => {
                routed
                    .calls
                    .push(CalledMember { member: member.clone(), intent: Intent::default() });
            }
            None => {
                let message = format!("no member has the name `{name}`; {}", team.hint(name));
                routed.diagnostics.push(Diagnostic::new(diagnostics::MARKER_UNRESOLVED, message));
            }
        }
    }
}
