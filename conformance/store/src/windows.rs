//! Windows: a store must find the same context as the context manager, which has all messages in memory.

use convoke_core::context::context_for;
use convoke_core::name::NameKey;
use convoke_core::{
    AgentContext, ContextManager, ContextOptions, Hooks, MessageId, PromptContextMessage,
    Visibility,
};
use convoke_protocol::id::MessageNumber;
use convoke_protocol::message::Message;
use convoke_session::store::{ContextReader, Store, StoreError, Window};

use super::rows::{Log, message, new_session, said};

const MEMBERS: [&str; 4] = ["kailai", "max", "Code-Reviewer", "tom"];
const MESSAGES: u64 = 120;

pub(super) async fn are_those_of_the_context_manager(store: &impl Store) -> Result<(), StoreError> {
    let new = new_session();
    let messages = conversation();
    let mut log = Log::create(store, &new).await?;
    log.add(store, messages.iter().cloned().map(said)).await?;
    for visibility in [Visibility::All, Visibility::Addressed] {
        let mut manager = ContextManager::new(
            ContextOptions { visibility, ..ContextOptions::default() }.into(),
            Hooks::default(),
        );
        // Ask at several times: later messages must not be included.
        for (count, message) in (1..).zip(&messages) {
            manager.add_message(message.message.clone().without_id());
            if count % 40 != 0 {
                continue;
            }
            for answers in (1..=count).step_by(7) {
                for (limit, member) in [0, 1, 5, 33].into_iter().zip(MEMBERS) {
                    let expected = expected(&manager, answers, limit, member);
                    let reader = match visibility {
                        Visibility::All => ContextReader::Everything,
                        Visibility::Addressed => ContextReader::Member(vec![NameKey::new(member)]),
                    };
                    let window = Window {
                        answers: MessageNumber(answers),
                        as_of: MessageNumber(count),
                        limit,
                        reader,
                    };
                    let current = store.message(new.id, window.answers).await?;
                    let earlier = store.window(new.id, window).await?;
                    let found = ids(&current, &earlier, limit);
                    assert_eq!(
                        found, expected,
                        "message {answers} of {count} looks back on the same for {member}, \
                         {limit} at most, {visibility:?}"
                    );
                }
            }
        }
    }
    Ok(())
}

fn expected(manager: &ContextManager, answers: u64, limit: usize, member: &str) -> Vec<String> {
    let context = AgentContext { window_size_override: Some(limit), ..AgentContext::default() };
    let input = manager.context_for_reply(&MessageId::numbered(answers), member, context);
    let messages = input.map(|input| input.context_messages).unwrap_or_default();
    messages.into_iter().filter_map(|message| message.id().map(str::to_owned)).collect()
}

fn ids(current: &Message, earlier: &[Message], limit: usize) -> Vec<String> {
    let clean = |message: &'_ Message| message.message.content.clone();
    let text = clean(current);
    let texts: Vec<String> = earlier.iter().map(clean).collect();
    let earlier = earlier
        .iter()
        .zip(&texts)
        .map(|(message, text)| PromptContextMessage::new(&message.message, text));
    let context = context_for(&current.message, &text, earlier, limit);
    context.into_iter().filter_map(|message| message.id().map(str::to_owned)).collect()
}

/// Creates a conversation in which messages answer earlier ones, to some members and to all.
fn conversation() -> Vec<Message> {
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut messages = Vec::new();
    for number in 1..=MESSAGES {
        let answers = (number > 1 && random(3) > 0).then(|| 1 + random(number - 1));
        let member = |index: u64| MEMBERS[usize::try_from(index).unwrap_or(0)];
        let from = member(random(4));
        let to: Vec<&str> = match random(4) {
            0 => Vec::new(),
            1 => vec!["all"],
            2 => vec![member(random(4))],
            _ => vec![member(random(4)), member(random(4))],
        };
        let text = format!("text {}", random(3));
        messages.push(message(number, answers, from, &to, &text));
    }
    messages
}
