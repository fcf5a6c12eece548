//! The store as what machines share.

use std::pin::Pin;
use std::time::Duration;

use convoke_protocol::event::StopReason;
use convoke_protocol::id::{EventNumber, SessionId};
use convoke_protocol::permission::PermissionAnswer;
use convoke_protocol::question::QuestionId;

use super::{Attendance, Commits, PostgresStore};
use crate::sharing::{
    self, Announcements, Answer, NextTurn, NodeState, ProjectOrigin, SharedState, Sharing,
    TurnSignal,
};
use crate::store::StoreError;

impl Sharing for PostgresStore {
    type Error = StoreError;

    fn patience(&self) -> Duration {
        self.lease_duration()
    }

    fn listen(&self) -> Answer<'_, Box<dyn Announcements<Error = StoreError>>, StoreError> {
        Box::pin(async {
            let commits: Box<dyn Announcements<Error = StoreError>> =
                Box::new(self.listen().await?);
            Ok(commits)
        })
    }

    fn rest(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.rest())
    }

    fn state(&self, session: SessionId) -> Answer<'_, SharedState, StoreError> {
        Box::pin(self.shared_state(session))
    }

    fn glance(&self, session: SessionId) -> Answer<'_, Option<String>, StoreError> {
        Box::pin(self.glance(session))
    }

    fn stop<'s>(
        &'s self,
        session: SessionId,
        head: EventNumber,
        stop: &'s StopReason,
    ) -> Answer<'s, bool, StoreError> {
        Box::pin(self.stop(session, head, stop))
    }

    fn hand_over<'s>(
        &'s self,
        session: SessionId,
        head: EventNumber,
        next: &'s NextTurn,
    ) -> Answer<'s, (), StoreError> {
        Box::pin(self.hand_over(session, head, next))
    }

    fn nodes(&self) -> Answer<'_, Vec<NodeState>, StoreError> {
        Box::pin(self.nodes())
    }

    fn signals(&self, session: SessionId) -> Answer<'_, Vec<TurnSignal>, StoreError> {
        Box::pin(self.signals(session))
    }

    fn cancel_turns(&self, session: SessionId) -> Answer<'_, usize, StoreError> {
        Box::pin(self.cancel_turns(session))
    }

    fn answer_question<'s>(
        &'s self,
        session: SessionId,
        question: &'s QuestionId,
        answer: PermissionAnswer,
    ) -> Answer<'s, bool, StoreError> {
        Box::pin(self.answer_question(session, question, answer))
    }

    fn is_attended(&self, session: SessionId) -> Answer<'_, bool, StoreError> {
        Box::pin(self.is_attended(session))
    }

    fn attend(&self, session: SessionId) -> Answer<'_, Box<dyn sharing::Attendance>, StoreError> {
        Box::pin(async move {
            let attendance: Box<dyn sharing::Attendance> = Box::new(self.attend(session).await?);
            Ok(attendance)
        })
    }

    fn origin(&self, session: SessionId) -> Answer<'_, Option<ProjectOrigin>, StoreError> {
        Box::pin(self.origin(session))
    }

    fn set_origin<'s>(
        &'s self,
        session: SessionId,
        origin: &'s ProjectOrigin,
    ) -> Answer<'s, (), StoreError> {
        Box::pin(self.set_origin(session, origin))
    }
}

impl Announcements for Commits {
    type Error = StoreError;

    fn wait_for(&mut self, session: SessionId) -> Answer<'_, (), StoreError> {
        Box::pin(self.wait_for(session))
    }
}

impl sharing::Attendance for Attendance {}
