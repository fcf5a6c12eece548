//! The implementation of the store. Every method is one query or one transaction.

use convoke_agent::thread::{Stored, ThreadStore};
use convoke_core::NewMessage;
use convoke_protocol::content::ContentHash;
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{EventNumber, MessageNumber, Millis, SessionId, ThreadId, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::request::{RequestOutcome, RequestRecord, RequestTexts};
use convoke_protocol::session::{
    FoundMessage, MemberCost, NewSession, RemovedSession, Session, Summary,
};
use convoke_protocol::thread::{ThreadAppend, ThreadLine};
use convoke_protocol::turn::{Attempt, Turn};

use super::connection::SqlConnection as _;
use super::import::OpenImport;
use super::{Backend, SqlStore, costs, inbox, log, pieces, read, requests, threads, write};
use crate::request::RequestDelta;
use crate::store::{
    ArrivalNumber, Commit, Holder, SessionHold as _, SharedStore, Store, StoreError, Window,
};
use crate::thread::{LoneThread, ThreadOwner};

/// Implements methods of the store by a query each.
macro_rules! by_query {
    ($(async fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty = $query:path;)+) => {$(
        async fn $name(&self, $($argument: $type),*) -> Result<$result, StoreError> {
            $query(&mut *self.pool.acquire().await?, $($argument),*).await
        }
    )+};
}

impl<B: Backend> Store for SqlStore<B> {
    type Hold = B::Hold;
    type Import = OpenImport<B>;

    async fn hold(&self, session: SessionId, holder: Holder) -> Result<B::Hold, StoreError> {
        self.backend.hold(session, holder).await
    }

    async fn create(&self, session: NewSession) -> Result<(), StoreError> {
        self.failpoint.reach();
        let mut transaction = self.begin().await?;
        write::create(&mut *transaction, &self.failpoint, session).await?;
        transaction.commit().await?;
        self.failpoint.reach();
        Ok(())
    }

    async fn commit(&self, session: SessionId, commit: Commit) -> Result<EventNumber, StoreError> {
        let ends =
            commit.events.iter().any(|event| matches!(event.kind, EventKind::TurnEnded { .. }));
        let head = B::commit(self, session, commit).await?;
        if ends {
            // The removed pieces may have been large.
            B::give_back_pages(&self.pool).await;
        }
        Ok(head)
    }

    async fn import(&self, session: NewSession) -> Result<OpenImport<B>, StoreError> {
        OpenImport::begin(self, session).await
    }

    async fn snapshot(&self) -> Result<Self, StoreError> {
        let pool = self.backend.snapshot(&self.pool).await?;
        Ok(Self { pool, ..self.clone() })
    }

    async fn set_removed(&self, session: SessionId, at: Option<Millis>) -> Result<(), StoreError> {
        let hold = self.hold_briefly(session).await?;
        let removed = write::set_removed(self, session, at).await;
        hold.release().await;
        removed
    }

    async fn rename(&self, session: SessionId, name: &str) -> Result<(), StoreError> {
        write::rename(self, session, name).await
    }

    by_query! {
        async fn session(session: SessionId) -> Session = read::session;
        async fn sessions() -> Vec<Summary> = read::sessions;
        async fn removed_sessions() -> Vec<RemovedSession> = read::removed_sessions;
        async fn costs(session: SessionId) -> Vec<MemberCost> = costs::of_session;
        async fn message(session: SessionId, number: MessageNumber) -> Message = read::message;
        async fn messages_after(session: SessionId, after: MessageNumber, limit: usize) -> Vec<Message>
            = read::messages_after;
        async fn open_turns(session: SessionId) -> Vec<Turn> = read::open_turns;
        async fn turns_after(session: SessionId, after: TurnId, limit: usize) -> Vec<Turn> = read::turns_after;
        async fn attempts(session: SessionId, turn: TurnId) -> Vec<Attempt> = read::attempts;
        async fn pieces(session: SessionId, turn: TurnId, attempt: u32) -> String = pieces::of_attempt;
        async fn events(session: SessionId, after: EventNumber, limit: usize) -> Vec<Event> = log::after;
        async fn content(hash: ContentHash) -> String = read::content;
        async fn say(session: SessionId, message: &NewMessage) -> () = inbox::say;
        async fn arrived(session: SessionId) -> Vec<(ArrivalNumber, NewMessage)> = inbox::messages;
        async fn threads(session: SessionId) -> Vec<ThreadId> = threads::of_session;
        async fn thread_owner(thread: &ThreadId) -> Option<ThreadOwner> = threads::owner;
        async fn lone_threads() -> Vec<LoneThread> = threads::lone;
    }

    async fn search(
        &self,
        words: &[String],
        within: Option<&[SessionId]>,
        limit: usize,
    ) -> Result<Vec<FoundMessage>, StoreError> {
        self.pool.acquire().await?.search(words, within, limit).await
    }

    async fn window(&self, session: SessionId, window: Window) -> Result<Vec<Message>, StoreError> {
        read::window(&mut *self.pool.acquire().await?, session, &window).await
    }

    async fn remove_lone_thread(&self, thread: &ThreadId) -> Result<bool, StoreError> {
        let removed = threads::remove_lone(self, thread).await?;
        B::give_back_pages(&self.pool).await;
        Ok(removed)
    }

    async fn request_deltas(
        &self,
        thread: &ThreadId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<RequestRecord<RequestDelta>>, StoreError> {
        requests::deltas_after(&mut *self.pool.acquire().await?, thread, after, limit).await
    }

    async fn remove(&self, session: SessionId) -> Result<(), StoreError> {
        let hold = self.hold_briefly(session).await?;
        write::remove(self, session).await?;
        B::give_back_pages(&self.pool).await;
        hold.discard().await;
        Ok(())
    }

    fn sharing(&self) -> Option<&SharedStore> {
        B::sharing(self)
    }

    fn now(&self) -> Millis {
        self.backend.now()
    }
}

impl<B: Backend> ThreadStore for SqlStore<B> {
    fn thread_lines<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Vec<ThreadLine>> {
        Box::pin(async {
            let mut connection = self.pool.acquire().await.map_err(StoreError::from)?;
            Ok(threads::lines(&mut *connection, thread).await?)
        })
    }

    fn append_lines<'s>(&'s self, append: &'s ThreadAppend) -> Stored<'s, ()> {
        Box::pin(async { Ok(threads::extend(self, append).await?) })
    }

    fn add_request<'s>(
        &'s self,
        record: &'s RequestRecord,
        before: Option<&'s RequestTexts>,
    ) -> Stored<'s, u64> {
        Box::pin(async move { Ok(requests::add(self, record, before).await?) })
    }

    fn set_outcome<'s>(
        &'s self,
        thread: &'s ThreadId,
        number: u64,
        outcome: &'s RequestOutcome,
    ) -> Stored<'s, ()> {
        Box::pin(async move { Ok(requests::set_outcome(self, thread, number, outcome).await?) })
    }

    fn requests<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Vec<RequestRecord<()>>> {
        Box::pin(async {
            let mut connection = self.pool.acquire().await.map_err(StoreError::from)?;
            Ok(requests::after(&mut *connection, thread, 0, None).await?)
        })
    }

    fn request_texts<'s>(&'s self, thread: &'s ThreadId, number: u64) -> Stored<'s, RequestTexts> {
        Box::pin(async move {
            let mut connection = self.pool.acquire().await.map_err(StoreError::from)?;
            Ok(requests::texts(&mut *connection, thread, number).await?)
        })
    }

    fn last_request<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Option<RequestRecord>> {
        Box::pin(async {
            let mut connection = self.pool.acquire().await.map_err(StoreError::from)?;
            Ok(requests::last(&mut *connection, thread).await?)
        })
    }

    fn limit_texts<'s>(&'s self, thread: &'s ThreadId, max_bytes: u64) -> Stored<'s, u64> {
        Box::pin(async move { Ok(requests::limit_texts(self, thread, max_bytes).await?) })
    }
}
