//! Following a session that another process holds: reports its events, and waits until this process can claim it.

use convoke_core::Diagnostic;
use convoke_protocol::event::{EventKind, StopReason};
use convoke_protocol::permission::PermissionAnswer;
use convoke_protocol::question::QuestionId;
use convoke_protocol::turn::TurnState;
use tokio::time::timeout;

use super::{POLL_INTERVAL, SharedSession};
use crate::coordinator::controls::StopRequest;
use crate::coordinator::{Coordinator, CoordinatorError};
use crate::diagnostics;
use crate::follow::Follower;
use crate::routing::conversation::Conversation;
use crate::sharing::{FollowStep, NextTurn, unclaimable};
use crate::store::{Store, StoreError};

impl<S: Store> Coordinator<S> {
    /// Reads the conversation without holding the session.
    pub(crate) async fn read_conversation(&mut self) -> Result<(), StoreError> {
        let session = self.store.session(self.session).await?;
        let open = self.store.open_turns(self.session).await?;
        if let Some(sharing) = &mut self.sharing
            && sharing.follower.is_none()
        {
            sharing.follower = Some(Follower::at(&self.store, self.session, session.head).await?);
        }
        let queued = open.into_iter().filter(|turn| turn.state == TurnState::Queued).collect();
        let limit = self.team_agents.team().limits.queue;
        self.head = session.head;
        self.conversation = Conversation::new(session.state, queued, limit);
        self.is_stale = true;
        Ok(())
    }

    /// Starts to follow after the last event of this process.
    pub(crate) fn follow_from_here(&mut self) {
        let follower = Follower::after(self.session, self.head);
        if let Some(sharing) = &mut self.sharing {
            sharing.follower = Some(follower);
        }
    }

    /// Sends an answer to the process that runs the turn of a question.
    async fn put_answer(
        &mut self,
        question: &QuestionId,
        answer: PermissionAnswer,
    ) -> Result<(), StoreError> {
        let Some(store) = self.store.sharing() else { return Ok(()) };
        if !store.answer_question(self.session, question, answer).await? {
            let message = "the answer came too late: the question was already answered, or its turn has ended";
            let diagnostic = Diagnostic::new(diagnostics::ANSWER_LATE, message);
            let kind = EventKind::Diagnostic { turn: Some(question.turn), diagnostic };
            self.report(kind);
        }
        Ok(())
    }

    /// Follows the session until this process can claim it (`None`) or the conversation has stopped.
    pub(crate) async fn follow(
        &mut self,
        is_asked_for: bool,
    ) -> Result<Option<StopReason>, CoordinatorError> {
        let mut is_asked_for = is_asked_for;
        let mut unreachable = None;
        loop {
            let leaving = self.leaving();
            let looking = timeout(self.store_timeout(), Box::pin(self.follow_once(is_asked_for)));
            let looked = tokio::select! {
                looked = looking => looked.unwrap_or_else(|_| Err(StoreError::unanswered().into())),
                () = leaving => Err(StoreError::unanswered().into()),
            };
            match looked {
                Ok(FollowStep::Claim(offer)) => {
                    if let Some(sharing) = &mut self.sharing {
                        sharing.resumed = offer.filter(|_| !is_asked_for);
                    }
                    return Ok(None);
                }
                Ok(FollowStep::Stop(stop)) => return Ok(Some(stop)),
                Ok(FollowStep::Wait) => (is_asked_for, unreachable) = (false, None),
                Err(CoordinatorError::Store(error)) if error.is_transient() => {
                    self.wait_for_store(&mut unreachable, error).await?;
                }
                Err(error) => return Err(error),
            }
            // The turn continues in the process that runs it.
            if self.controls.stop_request() == StopRequest::Leave {
                return Ok(Some(StopReason::Left));
            }
        }
    }

    /// Waits until the person leaves and nothing happens for some time, because the server does not answer.
    pub(crate) fn leaving(&self) -> impl Future<Output = ()> + Send + use<S> {
        let mut requests = self.controls.watch();
        async move {
            // Fails only if the coordinator is gone.
            let _ = requests.wait_for(|request| *request == StopRequest::Leave).await;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Reports new events, and waits for more unless there is something to do.
    async fn follow_once(&mut self, is_asked_for: bool) -> Result<FollowStep, CoordinatorError> {
        self.update_attendance().await;
        self.listen().await?;
        let heard = self.controls.stop_request();
        if self.is_unchanged() && !is_asked_for && heard == StopRequest::None {
            self.wait_for_change(heard).await?;
            return Ok(FollowStep::Wait);
        }
        self.catch_up().await?;
        while let Ok((question, answer)) = self.answers.try_recv() {
            self.put_answer(&question, answer).await?;
        }
        let (Some(sharing), Some(store)) = (&mut self.sharing, self.store.sharing()) else {
            return Ok(FollowStep::Claim(None));
        };
        let state = store.state(self.session).await?;
        let offer = state.next.clone().filter(|_| state.holder.is_none());
        let is_held = state.holder.is_some();
        let next = match FollowStep::new(
            state,
            |member| self.team_agents.is_elsewhere(member),
            is_asked_for,
        ) {
            FollowStep::Wait if heard == StopRequest::CancelTurn => {
                if is_held {
                    // Repeated on every read, because the next turn may have started.
                    store.cancel_turns(self.session).await?;
                    FollowStep::Wait
                } else {
                    // No turn runs. The conversation stops here, and the queued turns are not offered.
                    FollowStep::Claim(None)
                }
            }
            next => next,
        };
        if !matches!(next, FollowStep::Wait) {
            // Deliver earlier events first.
            self.catch_up().await?;
            return Ok(next);
        }
        if let Some(offer) = offer {
            let problem = unclaimable(&store.nodes().await?, self.session, &offer);
            let NextTurn { turn, member, requirements, .. } = offer;
            let reported = Some((turn, problem.clone()));
            if std::mem::replace(&mut sharing.reported_offer, reported.clone()) != reported {
                let node = requirements.node;
                let kind = EventKind::TurnOffered { turn, member, node, problem };
                self.report(kind);
            }
        }
        self.wait_for_change(heard).await?;
        Ok(FollowStep::Wait)
    }

    /// Waits until the session may have changed, or the person asks for something.
    async fn wait_for_change(&mut self, heard: StopRequest) -> Result<(), CoordinatorError> {
        let (Some(sharing), Some(store)) = (&mut self.sharing, self.store.sharing()) else {
            return Ok(());
        };
        let mut requests = self.controls.watch();
        tokio::select! {
            changed = sharing.changed(store, self.session) => changed?,
            () = async {
                // Fails only if the coordinator is gone.
                let _ = requests.wait_for(|request| *request > heard).await;
            } => {}
            answer = self.answers.recv() => {
                if let Some((question, answer)) = answer {
                    self.put_answer(&question, answer).await?;
                }
            }
        }
        Ok(())
    }

    /// Returns whether the session is as it was when it was last read.
    fn is_unchanged(&mut self) -> bool {
        self.sharing.as_mut().is_some_and(SharedSession::take_unchanged)
    }

    /// Reports what other processes have stored.
    pub(crate) async fn catch_up(&mut self) -> Result<(), CoordinatorError> {
        let Some(follower) = self.sharing.as_mut().and_then(|sharing| sharing.follower.as_mut())
        else {
            return Ok(());
        };
        let events = follower.advance(&self.store).await?;
        if events.is_empty() {
            return Ok(());
        }
        for event in events {
            self.emit(event);
        }
        self.read_conversation().await?;
        Ok(())
    }

    /// Waits until another process changes a stopped session, and reports its events. Returns when the
    /// conversation continues, so that the caller can call [`Self::run`]. Never returns if the store is not
    /// shared.
    pub async fn wake(&mut self) -> Result<(), CoordinatorError> {
        loop {
            if self.sharing.is_none() || self.hold.is_some() {
                std::future::pending::<()>().await;
            }
            let looked = timeout(self.store_timeout(), Box::pin(self.has_work())).await;
            match looked.unwrap_or_else(|_| Err(StoreError::unanswered().into())) {
                Ok(true) => return Ok(()),
                Err(CoordinatorError::Store(error)) if error.is_transient() => {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                other => {
                    other?;
                }
            }
        }
    }

    async fn has_work(&mut self) -> Result<bool, CoordinatorError> {
        self.update_attendance().await;
        self.listen().await?;
        let is_unchanged = self.is_unchanged();
        if !is_unchanged {
            self.catch_up().await?;
        }
        let (Some(sharing), Some(store)) = (&mut self.sharing, self.store.sharing()) else {
            return Ok(false);
        };
        if !is_unchanged {
            let state = store.state(self.session).await?;
            if state.holder.is_some() || state.continues {
                return Ok(true);
            }
        }
        sharing.changed(store, self.session).await?;
        Ok(false)
    }

    /// Reports what other processes store, without changing anything, until it is dropped. Returns only with an
    /// error. Waits forever if the store is not shared.
    pub async fn watch(&mut self) -> CoordinatorError {
        loop {
            if self.sharing.is_none() || self.hold.is_some() {
                std::future::pending::<()>().await;
            }
            let told = timeout(self.store_timeout(), Box::pin(self.report_changes())).await;
            match told.unwrap_or_else(|_| Err(StoreError::unanswered().into())) {
                Ok(()) => {}
                Err(CoordinatorError::Store(error)) if error.is_transient() => {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                Err(error) => return error,
            }
        }
    }

    /// Reports new events, and waits until there may be more.
    async fn report_changes(&mut self) -> Result<(), CoordinatorError> {
        self.listen().await?;
        if !self.is_unchanged() {
            self.catch_up().await?;
        }
        if let (Some(sharing), Some(store)) = (&mut self.sharing, self.store.sharing()) {
            sharing.changed(store, self.session).await?;
        }
        Ok(())
    }

    async fn listen(&mut self) -> Result<(), StoreError> {
        match (&mut self.sharing, self.store.sharing()) {
            (Some(sharing), Some(store)) => sharing.listen(store).await,
            _ => Ok(()),
        }
    }
}
