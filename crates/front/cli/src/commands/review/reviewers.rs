//! The reviewers: a session of agents that may only read, in an empty directory, with a deadline.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use convoke_agent::config::{AgentKind, Definition};
use convoke_agent::sandbox::Enforcer;
use convoke_inspect::HostEnvironment;
use convoke_open::prices::{Charged, Cost, OwnPrices, cost};
use convoke_protocol::event::{Event, EventKind};
use convoke_protocol::id::{SessionId, TurnId};
use convoke_protocol::turn::AttemptResult;
use convoke_protocol::usage::Usage;
use convoke_protocol::verdict::Verdict;
use convoke_session::NewMessage;
use convoke_session::event_queue::{EventQueue, EventReceiver};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::conversation::composed::Composed;
use crate::conversation::{self, Conversation, ConversationOptions, Rehearse};

/// The person who asks.
const PERSON: &str = "reviewed";
/// The time after the deadline for the end of running turns to be stored.
const AFTER_DEADLINE: Duration = Duration::from_secs(1);

/// An open session of reviewers. Their programs are ended with it.
pub(super) struct Reviewers {
    conversation: Conversation,
    events: EventReceiver<Event>,
    /// The names, in the order in which they were asked for.
    pub(super) names: Vec<String>,
    deadline: Instant,
    pub(super) spent: BTreeMap<String, Spent>,
    /// Where they work: nothing of the repository, in particular no instructions of the change.
    _directory: TempDir,
}

/// Returns why an agent cannot review here: the kernel cannot keep it from writing.
pub(super) fn unconfined(definition: &Definition, host: &HostEnvironment) -> Option<String> {
    let is_program = !matches!(definition.kind, AgentKind::Api | AgentKind::StandIn);
    let enforcer = Enforcer::on_this_machine(definition.vendor(), host.newest_landlock());
    (is_program && !enforcer.is_kernel()).then(|| {
        "the kernel of this machine cannot keep a reviewer from writing: it has no Landlock, or an old one".to_owned()
    })
}

/// What a reviewer has used.
#[derive(Debug, Clone, Default)]
pub(super) struct Spent {
    pub(super) turns: u64,
    pub(super) tokens: u64,
    pub(super) cost: Cost,
    pub(super) model: Option<String>,
}

/// What a reviewer replied.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    /// The turn; `None` if none was begun.
    pub(super) turn: Option<TurnId>,
    /// The text, or why there is none.
    pub(super) text: Result<String, String>,
}

impl Reviewers {
    /// Opens a session of reviewers.
    pub(super) async fn open(
        names: Vec<String>,
        time: Duration,
        rehearse: Option<Rehearse>,
        host: &HostEnvironment,
    ) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("review-").tempdir()?;
        let place = directory.path().to_owned();
        let deadline = Instant::now() + time;
        let (observer, events) = EventQueue::new();
        let composed = composed(&names, time, place);
        let options = ConversationOptions {
            rehearse,
            composed: Some(Box::new(composed)),
            ..ConversationOptions::default()
        };
        let conversation = conversation::open(&options, host, Box::new(observer)).await?;
        conversation.coordinator.controls().set_attended(false);
        let spent = names.iter().map(|name| (name.clone(), Spent::default())).collect();
        Ok(Self { conversation, events, names, deadline, spent, _directory: directory })
    }

    pub(super) fn session(&self) -> SessionId {
        self.conversation.coordinator.session()
    }

    /// Returns whether no time is left.
    pub(super) fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Returns what all have used.
    pub(super) fn total(&self) -> (u64, Cost) {
        let mut total = (0, Cost::default());
        for spent in self.spent.values() {
            total.0 += spent.tokens;
            total.1.add_sum(spent.cost);
        }
        total
    }

    /// Asks reviewers, at the same time, and waits for their replies until the deadline.
    pub(super) async fn ask(
        &mut self,
        names: &[String],
        text: &str,
    ) -> anyhow::Result<BTreeMap<String, Reply>> {
        let late = || "the deadline has passed".to_owned();
        let silent = Reply { turn: None, text: Err(late()) };
        let mut replies: BTreeMap<String, Reply> =
            names.iter().map(|name| (name.clone(), silent.clone())).collect();
        if self.is_late() {
            return Ok(replies);
        }
        let message = NewMessage::from_person(PERSON, text.to_owned()).to(names.to_vec());
        self.conversation.coordinator.accept(message).await?;
        let controls = self.conversation.coordinator.controls();
        let deadline = self.deadline;
        let (events, spent) = (&mut self.events, &mut self.spent);
        let mut note = |event: &Event| note_event(event, &mut replies, spent);
        let mut running = Box::pin(self.conversation.coordinator.run());
        let mut end = deadline;
        loop {
            tokio::select! {
                biased;
                Some(event) = events.recv() => note(&event),
                stopped = &mut running => {
                    stopped?;
                    break;
                }
                () = tokio::time::sleep_until(end) => {
                    if end > deadline {
                        break;
                    }
                    controls.leave();
                    end = deadline + AFTER_DEADLINE;
                }
            }
        }
        // What still runs is ended with the session.
        drop(running);
        while let Some(event) = self.events.try_recv() {
            note_event(&event, &mut replies, &mut self.spent);
        }
        Ok(replies)
    }

    /// Ends the session, and all programs with it.
    pub(super) async fn close(self) {
        let store = self.conversation.coordinator.store().clone();
        drop(self);
        // A store that hangs must not keep the verdict back.
        let _ = tokio::time::timeout(AFTER_DEADLINE, store.close()).await;
    }
}

fn note_event(
    event: &Event,
    replies: &mut BTreeMap<String, Reply>,
    spent: &mut BTreeMap<String, Spent>,
) {
    match &event.kind {
        EventKind::TurnStarted { turn, member, .. } => {
            if let Some(reply) = replies.get_mut(member.as_str()) {
                reply.turn = Some(*turn);
            }
        }
        EventKind::Message(message) => {
            let speaker = message.message.speaker.role_id.clone();
            if let (Some(turn), Some(reply)) = (message.turn, replies.get_mut(&speaker)) {
                *reply = Reply { turn: Some(turn), text: Ok(message.message.content.clone()) };
            }
        }
        EventKind::TurnEnded { turn, member, result, .. } => {
            if let Some(spent) = spent.get_mut(member.as_str()) {
                spent.add(result);
            }
            if let Some(reply) = replies.get_mut(member.as_str()) {
                reply.turn = Some(*turn);
                if let Some(why) = failure(result) {
                    reply.text = Err(why);
                } else if reply.text.is_err() {
                    reply.text = Ok(String::new());
                }
            }
        }
        _ => {}
    }
}

/// Returns why a turn has no reply that counts.
fn failure(result: &AttemptResult) -> Option<String> {
    match &result.verdict {
        Verdict::Done => None,
        Verdict::Failed(failure) => Some(failure.message.clone()),
        Verdict::TimedOut => Some("the deadline has passed".to_owned()),
        Verdict::Cancelled | Verdict::Withdrawn => Some("the turn was cancelled".to_owned()),
    }
}

impl Spent {
    fn add(&mut self, result: &AttemptResult) {
        self.turns += 1;
        self.model = result.model.clone().or_else(|| self.model.take());
        let Usage { input, output, .. } = result.usage.unwrap_or_default();
        self.tokens += input + output;
        let charged = result.usage.zip(result.model.as_deref()).map(|(usage, model)| Charged {
            provider: None,
            model,
            usage,
            cache_write_hour: 0,
            tier: None,
            at: Some(result.at),
        });
        let priced = charged.and_then(|charged| cost(&charged, &OwnPrices::new()));
        self.cost.add(result.cost_usd.or(priced));
    }
}

/// Returns the team: every reviewer may only read, and sees nothing of the others.
fn composed(names: &[String], time: Duration, directory: PathBuf) -> Composed {
    let seconds = time.as_secs() + 1;
    let mut team = format!(
        "name = \"review\"\nbriefing = false\n\n[context]\nwindow = 0\nvisibility = \"addressed\"\n\n\
         [limits]\nturns = 1000\nparallel = true\nturn-timeout = \"{seconds}s\"\n\n[[member]]\nname = \"{PERSON}\"\nhuman = true\n"
    );
    for name in names {
        let name = toml::Value::from(name.as_str());
        let _ =
            write!(team, "\n[[member]]\nname = {name}\nagent = {name}\nsandbox = \"read-only\"\n");
    }
    Composed { name: "the team of a review", team, directory }
}
