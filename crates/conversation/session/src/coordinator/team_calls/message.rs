//! Messages of calls. Each is stored with the key of its call, so that no attempt of a turn sends a message
//! twice.

use convoke_core::marker::{Intent, scan};
use convoke_core::name::NameKey;
use convoke_core::{ConversationMessage, MessageId, NewMessage};
use convoke_protocol::content::ContentHash;
use convoke_protocol::id::{MemberName, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::turn::Turn;
use serde_json::{Value, json};

use super::super::controls::StopRequest;
use super::super::{Coordinator, CoordinatorError, Step};
use super::{Batch, SentMessage};
use crate::routing::conversation::MessageOrigin;
use crate::routing::{CalledMember, DropTurns, Routed, route};
use crate::rows::each_message;
use crate::store::{Store, StoreError};

/// The maximum number of messages that one turn can send through calls.
pub const MAX_MESSAGES: u32 = 16;
/// The maximum size of a message, in bytes.
pub const MAX_TEXT_BYTES: usize = 64 << 10;

impl<S: Store> Coordinator<S> {
    /// Sends a message, once.
    pub(super) async fn say(
        &mut self,
        batch: &mut Batch,
        turn: &Turn,
        to: &str,
        text: String,
        id: Option<String>,
    ) -> Result<Result<String, String>, CoordinatorError> {
        let team = self.team_agents.team();
        let recipients = if NameKey::new(to).is_all() {
            team.everyone_but(&turn.member)
        } else {
            match team.resolve(to) {
                None => {
                    return Ok(Err(format!("no member has the name `{to}`; {}", team.hint(to))));
                }
                Some(own) if *own == turn.member => {
                    return Ok(Err("you cannot send a message to yourself".to_owned()));
                }
                Some(member) => vec![member.clone()],
            }
        };
        let text = match self.checked(text) {
            Ok(text) => text,
            Err(why) => return Ok(Err(why)),
        };
        self.read_earlier_messages(batch, turn).await?;
        let names = recipients.iter().map(MemberName::as_str).collect::<Vec<_>>().join(", ");
        let content = key("say", &[&names, &text]);
        let key = id.as_ref().map_or(content, |id| key("id", &[id]));
        if let Some(sent) = batch.calls.turns.entry(turn.id).or_default().sent.get(&key) {
            let SentMessage { id: message, content: other } = sent;
            return Ok(if *other == content {
                Ok(format!("message {message} was sent before"))
            } else {
                Err(format!("message {message} has that `id` and another text"))
            });
        }
        if let Err(why) = self.check_may_send(batch, turn, recipients.len()) {
            return Ok(Err(why));
        }
        let (id, _) = self.post(turn, recipients, text, "say", &key).await?;
        let answer = format!("message {id} was sent to {names}");
        let sent = SentMessage { id, content };
        batch.calls.turns.entry(turn.id).or_default().sent.insert(key, sent);
        Ok(Ok(answer))
    }

    /// Sets the team task, by a message.
    pub(super) async fn set_task(
        &mut self,
        batch: &mut Batch,
        turn: &Turn,
        text: &str,
    ) -> Result<Result<String, String>, CoordinatorError> {
        let text = match self.checked(text.to_owned()) {
            Ok(text) if !text.trim().is_empty() => text,
            Ok(_) => return Ok(Err("`text` is empty".to_owned())),
            Err(why) => return Ok(Err(why)),
        };
        // The same form as in an agent's reply.
        let content = format!("The team task has changed.\n\n[TEAM_TASK]\n{text}");
        let routed = route(self.team_agents.team(), &turn.member, &content);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        if routed.task.as_deref() != Some(&*lines.collect::<Vec<_>>().join("\n")) {
            let why = "a task is at most 5 KiB of plain lines: no blank line, code fence or quotation in between";
            return Ok(Err(why.to_owned()));
        }
        if self.conversation.task() == routed.task.as_deref() {
            return Ok(Ok("the task is already set to this text".to_owned()));
        }
        self.read_earlier_messages(batch, turn).await?;
        if let Err(why) = self.check_may_send(batch, turn, 0) {
            return Ok(Err(why));
        }
        let key = key("task", &[&text]);
        let (id, _) = self.add_message(turn, content, &routed, "task", &key).await?;
        Ok(Ok(format!("the task was set by message {id}")))
    }

    /// Checks a text: within the limit, without secrets, and without markers, which would have no effect.
    pub(super) fn checked(&self, mut text: String) -> Result<String, String> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(format!("`text` has {} bytes; the limit is {MAX_TEXT_BYTES}", text.len()));
        }
        self.team_agents.redactor.redact_in_place(&mut text);
        let scanned = scan(&text, self.team_agents.team().context.text);
        let has_markers = !scanned.next.is_empty()
            || !scanned.drop.is_empty()
            || scanned.from.is_some()
            || scanned.task.is_some();
        if has_markers {
            return Err("markers such as `[NEXT: …]` have no effect here: `to` names the recipient, and the tool \
                        `task` sets the task; quote them in backticks to mention them"
                .to_owned());
        }
        Ok(text)
    }

    /// Checks whether a turn may send another message to these recipients.
    pub(super) fn check_may_send(
        &self,
        batch: &mut Batch,
        turn: &Turn,
        recipients: usize,
    ) -> Result<(), String> {
        if self.controls.stop_request() != StopRequest::None {
            return Err("the conversation is being stopped".to_owned());
        }
        let of_turn = batch.calls.turns.entry(turn.id).or_default();
        if of_turn.messages >= MAX_MESSAGES {
            return Err(format!("a turn sends at most {MAX_MESSAGES} messages"));
        }
        let limit = self.team_agents.team().limits.queue;
        if (self.waiting().len() + recipients) as u64 > limit {
            return Err(format!("the queue of turns is full: its limit is {limit}"));
        }
        of_turn.messages += 1;
        Ok(())
    }

    /// Reads the messages that earlier attempts of a turn sent.
    pub(super) async fn read_earlier_messages(
        &mut self,
        batch: &mut Batch,
        turn: &Turn,
    ) -> Result<(), StoreError> {
        if turn.attempts <= 1 || batch.calls.turns.contains_key(&turn.id) {
            return Ok(());
        }
        let of_turn = batch.calls.turns.entry(turn.id).or_default();
        each_message(&self.store, self.session, turn.answers, |found| {
            let call = &found.message.extra.get(Message::TEAM_CALL).unwrap_or(&Value::Null);
            let key = call["key"].as_str().and_then(|key| key.parse::<ContentHash>().ok());
            let Some(key) = key.filter(|_| call["turn"] == turn.id.0) else { return Ok(()) };
            if call["tool"] == "ask" {
                of_turn.earlier_asks.insert(key, found.number);
            } else {
                let to = found.message.addressees().join(", ");
                let ConversationMessage { id, content, .. } = found.message;
                let content = self::key("say", &[&to, &content]);
                of_turn.sent.insert(key, SentMessage { id, content });
            }
            Ok(())
        })
        .await
    }

    /// Stores a message of a call, with the turns that it queues. Returns its id and the first of them.
    pub(super) async fn post(
        &mut self,
        turn: &Turn,
        recipients: Vec<MemberName>,
        text: String,
        tool: &str,
        key: &ContentHash,
    ) -> Result<(MessageId, Option<TurnId>), CoordinatorError> {
        let calls =
            recipients.into_iter().map(|member| CalledMember { member, intent: Intent::default() });
        let routed = Routed {
            speaker: turn.member.clone(),
            text,
            drop: DropTurns::Members(Vec::new()),
            calls: calls.collect(),
            has_recipients: true,
            task: None,
            diagnostics: Vec::new(),
        };
        let content = routed.text.clone();
        self.add_message(turn, content, &routed, tool, key).await
    }

    async fn add_message(
        &mut self,
        turn: &Turn,
        content: String,
        routed: &Routed,
        tool: &str,
        key: &ContentHash,
    ) -> Result<(MessageId, Option<TurnId>), CoordinatorError> {
        let answered = self.store.message(self.session, turn.answers).await?.message.id;
        let speaker = self.team_agents.team().speaker(&turn.member);
        let mut message = NewMessage::new(speaker, content).in_reply_to(answered);
        let call = json!({ "turn": turn.id.0, "tool": tool, "key": key.to_string() });
        message.extra.insert(Message::TEAM_CALL.to_owned(), call);
        let mut next = self.conversation.clone();
        let at = self.team_agents.now();
        let team = self.team_agents.team();
        let origin = MessageOrigin { answers: Some(turn.answers), turn: None };
        // A person reads the message when control returns. A turn of the person would block the other turns.
        let is_agent = |member: &MemberName| !team.is_person(member);
        let effects = next.add(message, origin, routed, &turn.asker, at, is_agent);
        let id = effects.message.id().clone();
        let posted = (id, effects.queued.first().map(|turn| turn.id));
        let overflow = self.overflow(effects.left_out);
        let mut step = Step::of(at, effects.into_events(routed));
        step.events.extend(overflow);
        self.append(next, step).await?;
        Ok(posted)
    }
}

/// Returns the key of a call; equal calls have equal keys.
pub(super) fn key(tool: &str, parts: &[&str]) -> ContentHash {
    ContentHash::new(&json!([tool, parts]).to_string())
}
