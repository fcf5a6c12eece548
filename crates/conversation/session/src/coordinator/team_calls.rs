//! Calls of team tools: an agent sends, asks and reads while its turn runs.
//!
//! A message of a call is stored and routed like a reply. The turn of an asked member is queued with the
//! message and runs as soon as possible: if turns run one after another, when every running turn waits for an
//! answer. Because it is queued, it also runs after a crash. If the asker stops waiting, or its turn ends, the
//! turn of the asked member is cancelled.

mod message;
mod read;

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::task::Poll;

use convoke_agent::team_tools::{TeamAnswer, TeamCall, TeamTools};
use convoke_core::{ConversationMessage, MessageId};
use convoke_protocol::content::ContentHash;
use convoke_protocol::event::EventKind;
use convoke_protocol::id::{AttemptRef, MemberName, MessageNumber, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::turn::Turn;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use self::message::key;
use super::batch::{Batch, StoredEnd};
use super::controls::StopRequest;
use super::{Coordinator, CoordinatorError, Step};
use crate::file_changes::TeammateChanges;
use crate::routing::queue::Concurrency;
use crate::store::{Store, StoreError};
use crate::team_tools::TeamRequest;

/// The maximum number of turns that wait for each other's answers.
pub const MAX_DEPTH: usize = 3;
/// The number of messages that are read at once.
pub(super) const PAGE: usize = 256;
/// The maximum number of queued calls. Beyond it, callers wait.
const CALL_QUEUE: usize = 32;

/// The calls of a batch.
pub(super) struct TeamCalls {
    sender: mpsc::Sender<TeamCall>,
    receiver: mpsc::Receiver<TeamCall>,
    /// The open questions, in the order of arrival.
    asks: Vec<OpenAsk>,
    turns: HashMap<TurnId, CallsOfTurn>,
    /// The running turns that were cancelled because no asker waits for them.
    withdrawn: HashSet<TurnId>,
}

/// An event that a batch must handle.
pub(super) enum CallNews {
    Call(TeamCall),
    /// An asker stopped waiting for its answer.
    GivenUp,
}

/// An open question of one member to another.
struct OpenAsk {
    asker: TurnId,
    asker_name: MemberName,
    asked: MemberName,
    /// The turn that answers.
    turn: TurnId,
    is_running: bool,
    reply: oneshot::Sender<TeamAnswer>,
}

/// The calls of one turn.
#[derive(Default)]
struct CallsOfTurn {
    messages: u32,
    /// The messages of this turn and its earlier attempts, by key.
    sent: HashMap<ContentHash, SentMessage>,
    /// The questions of earlier attempts that this attempt has not asked again.
    earlier_asks: HashMap<ContentHash, MessageNumber>,
}

/// A message that a turn sent.
struct SentMessage {
    id: MessageId,
    /// The key of the recipients and the text.
    content: ContentHash,
}

impl TeamCalls {
    pub(super) fn new() -> Self {
        let (sender, receiver) = mpsc::channel(CALL_QUEUE);
        Self {
            sender,
            receiver,
            asks: Vec::new(),
            turns: HashMap::new(),
            withdrawn: HashSet::new(),
        }
    }

    /// Returns the tools of an attempt.
    pub(super) fn tools_of(&self, attempt: AttemptRef) -> TeamTools {
        TeamTools::new(attempt, self.sender.clone())
    }

    /// Waits for a call, or for an abandoned question.
    pub(super) async fn next(&mut self) -> Option<CallNews> {
        let Self { receiver, asks, .. } = self;
        let given_up = poll_fn(|context| {
            let is_given_up = asks.iter_mut().any(|ask| ask.reply.poll_closed(context).is_ready());
            if is_given_up { Poll::Ready(()) } else { Poll::Pending }
        });
        tokio::select! {
            biased;
            () = given_up => Some(CallNews::GivenUp),
            call = receiver.recv() => call.map(CallNews::Call),
        }
    }

    /// Returns whether a turn was cancelled because no asker waits for it.
    pub(super) fn was_withdrawn(&mut self, turn: TurnId) -> bool {
        self.withdrawn.remove(&turn)
    }

    /// Returns the length of the chain of turns that wait for this turn's answer.
    fn depth(&self, turn: TurnId) -> usize {
        let asker =
            |turn: &TurnId| self.asks.iter().find(|ask| ask.turn == *turn).map(|ask| ask.asker);
        std::iter::successors(asker(&turn), asker).count()
    }

    /// Returns whether a member waits, directly or indirectly, for another member's answer.
    fn waits_for(&self, waiting: &MemberName, other: &MemberName) -> bool {
        let mut seen = vec![waiting];
        let mut index = 0;
        while let Some(member) = seen.get(index).copied() {
            if member == other {
                return true;
            }
            for ask in self.asks.iter().filter(|ask| ask.asker_name == *member) {
                if !seen.contains(&&ask.asked) {
                    seen.push(&ask.asked);
                }
            }
            index += 1;
        }
        false
    }

    fn is_waiting(&self, turn: TurnId) -> bool {
        self.asks.iter().any(|ask| ask.asker == turn)
    }
}

impl Batch {
    fn is_running(&self, member: &MemberName) -> bool {
        self.running.values().any(|running| running.turn.member == *member)
    }

    /// Returns the next question whose member can take its turn now.
    fn ready_ask(&self, pace: Concurrency) -> Option<usize> {
        let calls = &self.calls;
        let all_wait = || self.running.values().all(|it| calls.is_waiting(it.turn.id));
        if pace == Concurrency::Serial && !all_wait() {
            return None;
        }
        calls.asks.iter().position(|ask| !ask.is_running && !self.is_running(&ask.asked))
    }
}

impl<S: Store> Coordinator<S> {
    /// Executes a call. The answer to a question is sent when the turn that answers it ends.
    pub(super) async fn on_call(
        &mut self,
        batch: &mut Batch,
        call: TeamCall,
    ) -> Result<(), CoordinatorError> {
        let TeamCall { caller, tool, arguments, reply } = call;
        let running = batch.running.values().find(|running| running.turn.id == caller.turn);
        let running = running.filter(|running| running.attempt.number == caller.attempt);
        let Some(turn) = running.map(|running| running.turn.clone()) else {
            let _ = reply.send(TeamAnswer::error("the turn is over"));
            return Ok(());
        };
        let answered = match TeamRequest::parse(&tool, arguments) {
            Err(why) => Err(why),
            Ok(TeamRequest::Say { to, text, id }) => self.say(batch, &turn, &to, text, id).await?,
            Ok(TeamRequest::Ask { to, text }) => {
                match self.ask(batch, &turn, &to, text, reply).await? {
                    Ok(()) => return Ok(()),
                    Err((reply, why)) => {
                        let _ = reply.send(TeamAnswer::error(why));
                        return Ok(());
                    }
                }
            }
            Ok(TeamRequest::ReadContext { window, search }) => {
                Ok(self.read_context(&turn.member, window, &search).await?)
            }
            Ok(TeamRequest::Task { text: None }) => {
                Ok(json!({ "task": self.conversation.task() }).to_string())
            }
            Ok(TeamRequest::Task { text: Some(text) }) => {
                self.set_task(batch, &turn, &text).await?
            }
            Ok(TeamRequest::Changes { form }) => match self.team_agents.recorder.clone() {
                None => Ok("no changes are recorded in this conversation".to_owned()),
                Some(recorder) => {
                    let (session, member) = (self.session, turn.member);
                    let request = TeammateChanges { session, member, form };
                    let text = recorder.teammate_changes(request).await;
                    let nothing = || "nothing changed since your last turn".to_owned();
                    let text = text.map(|text| text.unwrap_or_else(nothing));
                    text.map_err(|diagnostic| diagnostic.message)
                }
            },
        };
        let _ = reply.send(answered.map_or_else(TeamAnswer::error, TeamAnswer::new));
        Ok(())
    }

    /// Sends a question and registers `reply` for its answer. If the question cannot be asked, returns `reply`
    /// with the reason.
    async fn ask(
        &mut self,
        batch: &mut Batch,
        turn: &Turn,
        to: &str,
        text: String,
        reply: oneshot::Sender<TeamAnswer>,
    ) -> Result<Result<(), (oneshot::Sender<TeamAnswer>, String)>, CoordinatorError> {
        let asked = match self.askable(batch, turn, to) {
            Ok(asked) => asked,
            Err(why) => return Ok(Err((reply, why))),
        };
        let text = match self.checked(text) {
            Ok(text) => text,
            Err(why) => return Ok(Err((reply, why))),
        };
        self.read_earlier_messages(batch, turn).await?;
        let key = key("ask", &[asked.as_str(), &text]);
        let of_turn = batch.calls.turns.entry(turn.id).or_default();
        let earlier = match of_turn.earlier_asks.remove(&key) {
            Some(number) => self.earlier_answer(number, &asked).await?,
            None => EarlierAnswer::None,
        };
        let answering = match earlier {
            EarlierAnswer::Given(text) => {
                let _ = reply.send(TeamAnswer::new(text));
                return Ok(Ok(()));
            }
            EarlierAnswer::Queued(turn) => Some(turn),
            EarlierAnswer::None => {
                if let Err(why) = self.check_may_send(batch, turn, 1) {
                    return Ok(Err((reply, why)));
                }
                self.post(turn, vec![asked.clone()], text, "ask", &key).await?.1
            }
        };
        let Some(answering) = answering else {
            return Ok(Err((
                reply,
                format!("{asked} is not available: its turn could not be queued"),
            )));
        };
        batch.calls.asks.push(OpenAsk {
            asker: turn.id,
            asker_name: turn.member.clone(),
            asked,
            turn: answering,
            is_running: false,
            reply,
        });
        Ok(Ok(()))
    }

    /// Returns the member to ask, or the reason why it cannot be asked.
    fn askable(&self, batch: &Batch, turn: &Turn, to: &str) -> Result<MemberName, String> {
        let team = self.team_agents.team();
        let hint = || team.hint(to);
        let asked =
            team.resolve(to).ok_or_else(|| format!("no agent has the name `{to}`; {}", hint()))?;
        if team.is_person(asked) {
            return Err(format!(
                "{asked} is a person, who answers between turns; use `say`, or end your reply with `[NEXT: {asked}]`"
            ));
        }
        if self.sharing.is_some() && self.team_agents.is_elsewhere(asked) {
            return Err(format!(
                "{asked} runs on another machine and cannot answer during this turn; call {asked} in your reply"
            ));
        }
        if batch.calls.waits_for(asked, &turn.member) {
            return Err(if *asked == turn.member {
                "you cannot ask yourself".to_owned()
            } else {
                format!("{asked} waits for your answer and cannot be asked; answer first")
            });
        }
        if batch.calls.depth(turn.id) >= MAX_DEPTH {
            return Err(format!(
                "{MAX_DEPTH} turns wait for each other already; answer without asking"
            ));
        }
        if self.guard.turns_left(team.limits.turns) == 0 {
            return Err("the limit of turns without a person is reached".to_owned());
        }
        Ok(asked.clone())
    }

    /// Returns the answer to a question of an earlier attempt, or the turn that will give it.
    async fn earlier_answer(
        &mut self,
        question: MessageNumber,
        asked: &MemberName,
    ) -> Result<EarlierAnswer, StoreError> {
        let mut waiting = self.waiting().iter();
        let queued = waiting.find(|turn| turn.answers == question && turn.member == *asked);
        if let Some(turn) = queued {
            return Ok(EarlierAnswer::Queued(turn.id));
        }
        let mut after = question;
        loop {
            let page = self.store.messages_after(self.session, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(EarlierAnswer::None) };
            after = last.number;
            let is_it = |it: &&Message| {
                it.answers == Some(question) && it.message.speaker.role_id == asked.as_str()
            };
            if let Some(answer) = page.iter().find(is_it) {
                return Ok(EarlierAnswer::Given(self.answer_text(asked, &answer.message)));
            }
        }
    }

    /// Starts the turns of asked members that can run now.
    pub(super) async fn start_asked(&mut self, batch: &mut Batch) -> Result<(), CoordinatorError> {
        while let Some(index) = batch.ready_ask(self.pace()) {
            match self.start_turn(batch, batch.calls.asks[index].turn).await? {
                Ok(()) => batch.calls.asks[index].is_running = true,
                Err(why) => {
                    let ask = batch.calls.asks.remove(index);
                    let _ = ask.reply.send(TeamAnswer::error(why));
                }
            }
        }
        Ok(())
    }

    /// Cancels the turns that no asker waits for any longer. `has_ended` is the turn of an asker that has
    /// ended.
    pub(super) async fn withdraw_asks(
        &mut self,
        batch: &mut Batch,
        has_ended: Option<TurnId>,
    ) -> Result<(), CoordinatorError> {
        let is_given_up = |ask: &mut OpenAsk| ask.reply.is_closed() || Some(ask.asker) == has_ended;
        let given_up: Vec<OpenAsk> = batch.calls.asks.extract_if(.., is_given_up).collect();
        for OpenAsk { turn, .. } in given_up {
            if batch.calls.asks.iter().any(|ask| ask.turn == turn) {
                continue;
            }
            if let Some(running) = batch.running.values().find(|it| it.turn.id == turn) {
                running.canceller.cancel();
                batch.calls.withdrawn.insert(turn);
            } else {
                self.drop_queued(turn).await?;
            }
        }
        Ok(())
    }

    /// Removes a turn from the queue, if it is queued.
    async fn drop_queued(&mut self, turn: TurnId) -> Result<(), CoordinatorError> {
        let mut next = self.conversation.clone();
        let Some(Turn { id: turn, member, .. }) = next.queue.remove(turn) else { return Ok(()) };
        let problem = "the asker stopped waiting for the answer".to_owned();
        let dropped = EventKind::TurnDropped { turn, member, problem };
        Ok(self.append(next, Step::of(self.team_agents.now(), [dropped])).await?)
    }

    /// Starts a queued turn beside the running ones. The inner error is the reason why it cannot start.
    async fn start_turn(
        &mut self,
        batch: &mut Batch,
        turn: TurnId,
    ) -> Result<Result<(), String>, CoordinatorError> {
        if self.controls.stop_request() != StopRequest::None {
            return Ok(Err("the conversation is being stopped".to_owned()));
        }
        let mut next = self.conversation.clone();
        let Some(turn) = next.queue.remove(turn) else {
            return Ok(Err("the question was dropped from the queue".to_owned()));
        };
        let running: Vec<MemberName> =
            batch.running.values().map(|running| running.turn.member.clone()).collect();
        match self.prepare(turn, &running).await? {
            Ok(ready) => {
                self.begin(batch, next, vec![ready]).await?;
                Ok(Ok(()))
            }
            Err(unprepared) => {
                let failed = self.store_refusal(unprepared).await?;
                Ok(Err(format!("{} could not answer: {}", failed.member, failed.outcome)))
            }
        }
    }

    /// Sends the answer of an ended turn to the turns that asked for it. Returns whether a turn had asked.
    pub(super) async fn answer_askers(
        &mut self,
        batch: &mut Batch,
        turn: &Turn,
        end: &StoredEnd,
    ) -> Result<bool, CoordinatorError> {
        if matches!(end, StoredEnd::Again) {
            // It is started again for those who wait for it.
            let asks = batch.calls.asks.iter_mut().filter(|ask| ask.turn == turn.id);
            asks.for_each(|ask| ask.is_running = false);
            return Ok(false);
        }
        // Questions that this turn asked are abandoned with it.
        self.withdraw_asks(batch, Some(turn.id)).await?;
        batch.calls.turns.remove(&turn.id);
        let told: Vec<OpenAsk> =
            batch.calls.asks.extract_if(.., |ask| ask.turn == turn.id).collect();
        if told.is_empty() {
            return Ok(false);
        }
        let answer = match end {
            StoredEnd::Done(_) => {
                // The reply is the newest message.
                let reply = self.conversation.last_message();
                let reply = self.store.message(self.session, reply).await?.message;
                TeamAnswer::new(self.answer_text(&turn.member, &reply))
            }
            StoredEnd::Again => return Ok(false),
            StoredEnd::Failed(failed) => {
                TeamAnswer::error(format!("{} did not answer: {}", turn.member, failed.outcome))
            }
        };
        let mut is_told = false;
        for ask in told {
            is_told |= ask.reply.send(answer.clone()).is_ok();
        }
        Ok(is_told)
    }

    fn answer_text(&self, member: &MemberName, answer: &ConversationMessage) -> String {
        let policy = self.team_agents.team().context.text;
        let text = answer.text(policy);
        format!("{member} answered in message {}:\n\n{text}", answer.id)
    }
}

/// The answer to a question of an earlier attempt.
enum EarlierAnswer {
    Given(String),
    Queued(TurnId),
    None,
}
