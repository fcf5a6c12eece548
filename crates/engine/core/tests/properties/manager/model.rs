//! A conversation as a list, where every answer is computed from scratch.

use std::num::NonZeroUsize;

use convoke_core::marker::{TextPolicy, strip_all_markers};
use convoke_core::{ConversationMessage, MessageId, NewMessage, Visibility};
use serde_json::{Value, json};

/// The common input of manager and model.
#[derive(Debug, Clone)]
pub struct Settings {
    pub window: usize,
    pub window_of_max: usize,
    pub limit: Option<NonZeroUsize>,
    pub visibility: Visibility,
    pub policy: TextPolicy,
}

pub struct Model {
    settings: Settings,
    pub messages: Vec<ConversationMessage>,
    pub archived: Vec<ConversationMessage>,
    pub task: Option<String>,
    next_id: u64,
}

impl Model {
    pub fn new(settings: Settings) -> Self {
        Self { settings, messages: Vec::new(), archived: Vec::new(), task: None, next_id: 1 }
    }

    pub fn add(&mut self, message: NewMessage) -> ConversationMessage {
        let message = message.with_id(format!("msg-{}", self.next_id).into());
        self.next_id += 1;
        self.messages.push(message.clone());
        self.archive();
        message
    }

    fn archive(&mut self) {
        while self.settings.limit.is_some_and(|limit| self.messages.len() > limit.get()) {
            self.archived.push(self.messages.remove(0));
        }
    }

    pub fn set_task(&mut self, task: Option<&str>) {
        let cut = |task: &str| {
            let mut kept = task.to_owned();
            while kept.len() > 5 * 1024 {
                kept.pop();
            }
            kept
        };
        self.task = task.map(cut);
    }

    pub fn clear(&mut self) {
        self.messages.clear();
        self.task = None;
        self.next_id = 1;
    }

    pub fn import(&mut self, snapshot: &Value) {
        let messages = snapshot["messages"].as_array().expect("a list");
        let read = |message: &Value| {
            ConversationMessage::from_json_with_id(message.clone()).expect("valid")
        };
        self.messages = messages.iter().map(read).collect();
        self.next_id = 1;
        for message in &self.messages {
            let number = message.id.as_str().strip_prefix("msg-").and_then(|n| n.parse().ok());
            self.next_id = self.next_id.max(number.unwrap_or(0) + 1);
        }
        self.set_task(snapshot["teamTask"].as_str());
        self.archive();
    }

    pub fn position(&self, id: &MessageId) -> Option<usize> {
        self.messages.iter().rposition(|message| message.id == *id)
    }

    pub fn by_id(&self, id: &MessageId) -> Option<&ConversationMessage> {
        self.position(id).map(|position| &self.messages[position])
    }

    pub fn filtered(
        &self,
        is_wanted: impl Fn(&ConversationMessage) -> bool,
    ) -> Vec<ConversationMessage> {
        self.messages.iter().filter(|message| is_wanted(message)).cloned().collect()
    }

    /// The context for answering the message at a position, or the latest one, as JSON.
    pub fn context(&self, position: Option<usize>, agent: &str, window: Option<usize>) -> Value {
        let position = position.or(self.messages.len().checked_sub(1));
        let mut context: Vec<&ConversationMessage> = Vec::new();
        let mut current_text = String::new();
        if let Some(position) = position {
            let current = &self.messages[position];
            current_text = self.text(current);
            let (before, after) = self.messages.split_at(position);
            let siblings =
                after[1..].iter().filter(|m| m.in_reply_to.as_ref() == Some(&current.id));
            context = before.iter().chain(siblings).filter(|m| self.sees(agent, m)).collect();
            let own =
                if agent == "max" { self.settings.window_of_max } else { self.settings.window };
            let excess = context.len().saturating_sub(window.unwrap_or(own));
            context.drain(..excess);
            let is_ai = json!(current.speaker)["type"] == "ai";
            if let Some(last) = context.last()
                && is_ai
                && (last.id == current.id
                    || (last.speaker.role_name == current.speaker.role_name
                        && self.text(last) == current_text))
            {
                context.pop();
            }
        }
        let line = |message: &&ConversationMessage| {
            let to = match message.addressees() {
                [] => "all".to_owned(),
                names => names.join(", "),
            };
            json!({"from": message.speaker.role_name, "to": to, "content": self.text(message)})
        };
        json!({
            "contextMessages": context.iter().map(line).collect::<Vec<_>>(),
            "currentMessage": current_text,
            "teamTask": self.task,
            "systemInstruction": null,
            "instructionFileText": null,
            "maxBytes": 768 * 1024,
        })
    }

    fn text(&self, message: &ConversationMessage) -> String {
        strip_all_markers(&message.content, self.settings.policy).into_owned()
    }

    fn sees(&self, agent: &str, message: &ConversationMessage) -> bool {
        let key = |name: &str| name.to_lowercase().replace(['-', '_', ' '], "");
        let speaker = &message.speaker;
        let is_me = |name: &str| key(name) == key(agent);
        let addressees = message.addressees();
        self.settings.visibility == Visibility::All
            || addressees.is_empty()
            || addressees.iter().any(|name| is_me(name) || key(name) == "all")
            || is_me(&speaker.role_id)
            || speaker.role_name.as_deref().is_some_and(is_me)
    }
}
