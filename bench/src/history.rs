//! The manager against the length of its history.

use convoke_core::{
    AgentContext, ContextManager, ContextOptions, Hooks, NewMessage, Speaker, SpeakerType,
    Visibility,
};

use crate::allocations;
use crate::measure::{Stopwatch, measure, measure_copy};
use crate::table::{self, float, number, time};
use crate::texts::{PROSE, lines_of};

/// The bytes of one message: a million of them must fit into memory.
const MESSAGE: usize = 256;

pub fn run() {
    table::begin(
        "History: messages of 256 bytes, window 5",
        &[
            "messages",
            "add, each",
            "allocations, each",
            "copy of one message",
            "context for agent",
            "allocations",
            "only what is addressed",
            "copy of its 6 messages",
        ],
    );
    for count in [100, 1_000, 10_000, 100_000, 1_000_000] {
        row(count);
    }
}

fn row(count: usize) {
    let text = lines_of(PROSE, MESSAGE);
    let messages: Vec<NewMessage> = (0..count).map(|index| message(index, &text)).collect();
    let addressed =
        ContextOptions { visibility: Visibility::Addressed, ..ContextOptions::default() }.into();
    let mut manager = ContextManager::default();
    let (mut adding, mut allocated) = (f64::MAX, 0);
    for _ in 0..if count > 100_000 { 2 } else { 8 } {
        manager = ContextManager::default();
        let messages = messages.clone();
        let before = allocations::count();
        let begin = Stopwatch::start();
        for message in messages {
            manager.add_message(message);
        }
        adding = adding.min(begin.nanos());
        allocated = allocations::count() - before;
    }

    let mut filtered = ContextManager::new(addressed, Hooks::default());
    for message in messages {
        filtered.add_message(message);
    }
    let context = measure(|| manager.context_for_agent("max", AgentContext::default()));
    let visible = measure(|| filtered.context_for_agent("max", AgentContext::default()));
    let each = float(count);
    table::row(&[
        number(count),
        time(adding / each),
        format!("{:.1}", float(usize::try_from(allocated).unwrap_or(0)) / each),
        time(measure_copy(&text).nanos),
        time(context.nanos),
        context.allocations.to_string(),
        time(visible.nanos),
        time(measure_copy(&text.repeat(6)).nanos),
    ]);
}

fn message(index: usize, text: &str) -> NewMessage {
    let members = ["kailai", "max", "sarah", "carol"];
    let speaker = members[index % members.len()];
    let kind = if speaker == "kailai" { SpeakerType::Human } else { SpeakerType::Ai };
    let message = NewMessage::new(Speaker::new(speaker, speaker, kind), format!("{index} {text}"));
    // Every third message is for one member alone.
    if index.is_multiple_of(3) { message.to([members[index / 3 % members.len()]]) } else { message }
}
