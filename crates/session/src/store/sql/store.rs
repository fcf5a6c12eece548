//! The implementation of the store. Every method is one query or one transaction.

use convoke_agent::thread::{
    RequestOutcome, RequestRecord, RequestTexts, Stored, ThreadAppend, ThreadLine, ThreadStore,
};

use super::import::OpenImport;
use super::{Hold, SqlStore, costs, read, requests, search, threads, write};
use crate::content::ContentHash;
use crate::id::{Head, MessageNumber, Millis, SessionId, ThreadId, TurnId};
use crate::request::RequestDelta;
use crate::session::{
    FoundMessage, MemberCost, NewSession, NumberedMessage, RemovedSession, Session, Summary,
};
use crate::store::postgres::PostgresStore;
use crate::store::{Commit, Holder, SessionHold as _, Store, StoreError, Window};
use crate::thread::{LoneThread, ThreadOwner};
use crate::turn::{Attempt, Turn};

impl Store for SqlStore {
    type Hold = Hold;
    type Import = OpenImport;

    async fn hold(&self, session: SessionId, holder: Holder) -> Result<Hold, StoreError> {
        self.take_hold(session, holder).await
    }

    async fn create(&self, session: NewSession) -> Result<(), StoreError> {
        self.writer.failpoint.reach();
        write::create(&mut *self.writer.pool.acquire().await?, session).await?;
        self.writer.failpoint.reach();
        Ok(())
    }

    async fn commit(&self, session: SessionId, commit: Commit) -> Result<Head, StoreError> {
        let ends = commit.attempts.iter().any(|attempt| attempt.ended.is_some());
        let head = write::commit(&self.writer, session, commit).await?;
        if ends {
            // The removed progress may have been large.
            self.give_back_pages().await;
        }
        Ok(head)
    }

    async fn import(&self, session: NewSession) -> Result<OpenImport, StoreError> {
        OpenImport::begin(&self.writer, session).await
    }

    async fn snapshot(&self) -> Result<Self, StoreError> {
        self.read_only().await
    }

    async fn session(&self, session: SessionId) -> Result<Session, StoreError> {
        read::session(&self.writer.pool, session).await
    }

    async fn sessions(&self) -> Result<Vec<Summary>, StoreError> {
        read::sessions(&self.writer.pool).await
    }

    async fn removed_sessions(&self) -> Result<Vec<RemovedSession>, StoreError> {
        read::removed_sessions(&self.writer.pool).await
    }

    async fn set_removed(&self, session: SessionId, at: Option<Millis>) -> Result<(), StoreError> {
        let hold = self.hold_briefly(session).await?;
        let removed = write::set_removed(&self.writer, session, at).await;
        hold.release().await;
        removed
    }

    async fn rename(&self, session: SessionId, name: &str) -> Result<(), StoreError> {
        write::rename(&self.writer, session, name).await
    }

    async fn search(
        &self,
        words: &[String],
        within: Option<&[SessionId]>,
        limit: usize,
    ) -> Result<Vec<FoundMessage>, StoreError> {
        search::messages(&self.writer.pool, words, within, limit).await
    }

    async fn costs(&self, session: SessionId) -> Result<Vec<MemberCost>, StoreError> {
        costs::of_session(&self.writer.pool, session).await
    }

    async fn message(
        &self,
        session: SessionId,
        number: MessageNumber,
    ) -> Result<NumberedMessage, StoreError> {
        read::message(&self.writer.pool, session, number).await
    }

    async fn messages_after(
        &self,
        session: SessionId,
        after: MessageNumber,
        limit: usize,
    ) -> Result<Vec<NumberedMessage>, StoreError> {
        read::messages_after(&self.writer.pool, session, after, limit).await
    }

    async fn window(
        &self,
        session: SessionId,
        window: Window,
    ) -> Result<Vec<NumberedMessage>, StoreError> {
        read::window(&self.writer.pool, session, &window).await
    }

    async fn open_turns(&self, session: SessionId) -> Result<Vec<Turn>, StoreError> {
        read::open_turns(&self.writer.pool, session).await
    }

    async fn turns_after(
        &self,
        session: SessionId,
        after: TurnId,
        limit: usize,
    ) -> Result<Vec<Turn>, StoreError> {
        read::turns_after(&self.writer.pool, session, after, limit).await
    }

    async fn attempts(&self, session: SessionId, turn: TurnId) -> Result<Vec<Attempt>, StoreError> {
        read::attempts(&self.writer.pool, session, turn).await
    }

    async fn progress(
        &self,
        session: SessionId,
        turn: TurnId,
        attempt: u32,
    ) -> Result<String, StoreError> {
        read::progress(&self.writer.pool, session, turn, attempt).await
    }

    async fn content(&self, hash: ContentHash) -> Result<String, StoreError> {
        read::content(&self.writer.pool, hash).await
    }

    async fn threads(&self, session: SessionId) -> Result<Vec<ThreadId>, StoreError> {
        threads::of_session(&self.writer.pool, session).await
    }

    async fn thread_owner(&self, thread: &ThreadId) -> Result<Option<ThreadOwner>, StoreError> {
        threads::owner(&self.writer.pool, thread).await
    }

    async fn lone_threads(&self) -> Result<Vec<LoneThread>, StoreError> {
        threads::of_nobody(&self.writer.pool).await
    }

    async fn remove_lone_thread(&self, thread: &ThreadId) -> Result<bool, StoreError> {
        let removed = threads::remove_lone(&self.writer, thread).await?;
        self.give_back_pages().await;
        Ok(removed)
    }

    async fn request_deltas(
        &self,
        thread: &ThreadId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<RequestRecord<RequestDelta>>, StoreError> {
        requests::deltas_after(&mut *self.writer.pool.acquire().await?, thread, after, limit).await
    }

    async fn remove(&self, session: SessionId) -> Result<(), StoreError> {
        let hold = self.hold_briefly(session).await?;
        write::remove(&self.writer, session).await?;
        self.give_back_pages().await;
        hold.discard().await;
        Ok(())
    }

    fn shared(&self) -> Option<&PostgresStore> {
        self.as_shared()
    }
}

impl ThreadStore for SqlStore {
    fn thread_lines<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Vec<ThreadLine>> {
        Box::pin(async { Ok(threads::lines(&self.writer.pool, thread).await?) })
    }

    fn append_lines<'s>(&'s self, append: &'s ThreadAppend) -> Stored<'s, ()> {
        Box::pin(async { Ok(threads::extend(&self.writer, append).await?) })
    }

    fn add_request<'s>(
        &'s self,
        record: &'s RequestRecord,
        before: Option<&'s RequestTexts>,
    ) -> Stored<'s, u64> {
        Box::pin(async move { Ok(requests::add(&self.writer, record, before).await?) })
    }

    fn set_outcome<'s>(
        &'s self,
        thread: &'s ThreadId,
        number: u64,
        outcome: &'s RequestOutcome,
    ) -> Stored<'s, ()> {
        Box::pin(
            async move { Ok(requests::set_outcome(&self.writer, thread, number, outcome).await?) },
        )
    }

    fn requests<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Vec<RequestRecord<()>>> {
        Box::pin(async {
            let mut connection = self.writer.pool.acquire().await.map_err(StoreError::from)?;
            Ok(requests::after(&mut connection, thread, 0, None).await?)
        })
    }

    fn request_texts<'s>(&'s self, thread: &'s ThreadId, number: u64) -> Stored<'s, RequestTexts> {
        Box::pin(async move {
            let mut connection = self.writer.pool.acquire().await.map_err(StoreError::from)?;
            Ok(requests::texts(&mut connection, thread, number).await?)
        })
    }

    fn last_request<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Option<RequestRecord>> {
        Box::pin(async {
            let mut connection = self.writer.pool.acquire().await.map_err(StoreError::from)?;
            Ok(requests::last(&mut connection, thread).await?)
        })
    }
}
