//! Reads earlier messages, by number or by words.

use std::collections::VecDeque;
use std::fmt::Write as _;

use convoke_core::name::NameKey;
use convoke_core::{ConversationMessage, Visibility};
use convoke_protocol::id::{MemberName, MessageNumber};
use convoke_protocol::message::Message;
use serde_json::{Value, json};

use super::super::Coordinator;
use crate::rows::each_message;
use crate::store::{Store, StoreError};

/// The maximum bytes of a message that `read_context` returns.
const SHOWN_TEXT: usize = 8 << 10;
/// The number of newest messages that a search covers.
const SEARCHED: u64 = 2000;

impl<S: Store> Coordinator<S> {
    /// Returns messages that a member may read, oldest first, as JSON.
    pub(super) async fn read_context(
        &mut self,
        member: &MemberName,
        window: usize,
        search: &[String],
    ) -> Result<String, StoreError> {
        let names: Vec<NameKey> = self
            .team_agents
            .team()
            .member(member.as_str())
            .map(|member| member.names().map(NameKey::new).collect())
            .unwrap_or_default();
        let sees_all = self.team_agents.team().member(member.as_str()).is_none_or(|member| {
            let options = self.team_agents.team().context_options(member);
            options.visibility == Visibility::All
        });
        let is_visible = |message: &ConversationMessage| {
            let is_own = |name: &str| names.contains(&NameKey::new(name));
            sees_all
                || message.is_to_everyone()
                || is_own(message.speaker.name())
                || message.addressees().iter().any(|name| is_own(name))
        };
        let policy = self.team_agents.team().context.text;
        let last = self.conversation.last_message().0;
        let not_searched = last.saturating_sub(SEARCHED);
        let mut found = VecDeque::with_capacity(window);
        let after = MessageNumber(not_searched);
        each_message(&self.store, self.session, after, |Message { message, .. }| {
            if !is_visible(&message) {
                return Ok::<_, StoreError>(());
            }
            let text = message.text(policy);
            let lower = if search.is_empty() { String::new() } else { text.to_lowercase() };
            if search.iter().all(|word| lower.contains(word)) {
                if found.len() == window {
                    found.pop_front();
                }
                found.push_back(shown(&message, &text));
            }
            Ok(())
        })
        .await?;
        let mut result = json!({ "messages": found });
        if not_searched > 0 {
            result["notLookedAt"] = not_searched.into();
        }
        Ok(result.to_string())
    }
}

fn shown(message: &ConversationMessage, text: &str) -> Value {
    let kept = text.floor_char_boundary(SHOWN_TEXT);
    let cut = text.len() - kept;
    let mut shown = text[..kept].to_owned();
    if cut > 0 {
        let _ = write!(shown, "\n[… {cut} bytes cut]");
    }
    json!({
        "id": message.id,
        "from": message.speaker.name(),
        "to": message.addressees(),
        "inReplyTo": message.in_reply_to,
        "text": shown,
    })
}
