//! Trimming: what is left out costs a look at its size.

use convoke_core::AssemblerInput;
use convoke_core::assembler::Assemblers;

use crate::context::{assembled, input};
use crate::measure::{measure, measure_copy};
use crate::table::{self, number, ratio, time};
use crate::texts::PROSE;

const KIB: u64 = 1024;

pub fn run() {
    table::begin(
        "Trimming: 50,000 messages of 1 KB to a budget",
        &[
            "agent",
            "budget",
            "kept",
            "trim",
            "assemble what is kept",
            "look at each size",
            "trim / (both)",
            "copy",
            "allocations",
        ],
    );
    let whole = input(50_000, PROSE);
    for agent in ["claude", "gemini", "plain"] {
        for budget in [16 * KIB, 128 * KIB, 768 * KIB, 8192 * KIB] {
            let trimmed = AssemblerInput { max_bytes: budget, ..whole.clone() };
            row(agent, format!("{} KiB", budget / KIB), &trimmed);
        }
    }
    table::begin(
        "Trimming to 768 KiB: against the length of the context",
        &[
            "agent",
            "messages",
            "kept",
            "trim",
            "assemble what is kept",
            "look at each size",
            "trim / (both)",
            "copy",
            "allocations",
        ],
    );
    for count in [1_000, 5_000, 50_000] {
        let trimmed = AssemblerInput { max_bytes: 768 * KIB, ..input(count, PROSE) };
        row("codex", number(count), &trimmed);
    }
}

fn row(agent: &str, label: String, whole: &AssemblerInput<'_>) {
    let assemblers = Assemblers::default();
    let Some(output) = assembled(&assemblers, agent, whole) else { return };
    let dropped: u64 = output.diagnostics.iter().filter_map(|found| found.count).sum();
    let dropped = usize::try_from(dropped).unwrap_or(0);
    // The messages that are kept are the same strings: they lie where they lay.
    let mut kept = whole.clone();
    kept.context_messages.drain(..dropped);
    let alone = measure(|| assembled(&assemblers, agent, &kept));
    let trim = measure(|| assembled(&assemblers, agent, whole));
    let look = measure(|| {
        let sizes = whole.context_messages.iter().map(|message| {
            message.from.len()
                + message.to.as_ref().map_or(0, |to| to.len())
                + message.content.len()
        });
        sizes.sum::<usize>()
    });
    let copy = measure_copy(&output.prompt);
    table::row(&[
        agent.to_owned(),
        label,
        number(kept.context_messages.len()),
        time(trim.nanos),
        time(alone.nanos),
        time(look.nanos),
        ratio(trim.nanos, alone.nanos + look.nanos),
        time(copy.nanos),
        trim.allocations.to_string(),
    ]);
}
