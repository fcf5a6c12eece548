//! A prompt against the length of its context, with room for everything.

use convoke_core::assembler::{AssemblerOutput, Assemblers};
use convoke_core::{AssemblerInput, ContextSource, Fencing, PromptContextMessage};

use crate::measure::{measure, measure_copy};
use crate::table::{self, number, ratio, time};
use crate::texts::{CJK, CODE, PROSE, TYPOGRAPHIC, lines_of};

/// The bytes of one message.
pub const MESSAGE: usize = 1024;

pub fn run() {
    table::begin(
        "Assembling: every message of 1 KB is kept",
        &["agent", "messages", "prompt bytes", "assemble", "copy", "ratio", "allocations"],
    );
    for agent in ["claude", "gemini", "plain"] {
        for count in [5, 50, 500, 5_000, 50_000] {
            row(agent, agent, &input(count, PROSE));
        }
    }
    table::begin(
        "Assembling: 5,000 messages of other kinds",
        &["text", "messages", "prompt bytes", "assemble", "copy", "ratio", "allocations"],
    );
    let kinds = [("prose", PROSE), ("typographic", TYPOGRAPHIC), ("Chinese", CJK), ("code", CODE)];
    for (name, lines) in kinds {
        row(name, "codex", &input(5_000, lines));
    }
    let fenced = AssemblerInput { fencing: Fencing::Indented, ..input(5_000, PROSE) };
    row("prose, fenced", "codex", &fenced);
    cold();
}

/// A prompt is assembled once, from messages that nobody has touched for a while: each run takes another
/// of so many inputs that they do not fit into any cache, and so does the copy.
fn cold() {
    const INPUTS: usize = 128;
    table::begin(
        "Assembling 768 KiB from memory that is in no cache",
        &["agent", "messages", "prompt bytes", "assemble", "copy", "ratio"],
    );
    let assemblers = Assemblers::default();
    let inputs: Vec<AssemblerInput<'_>> = (0..INPUTS).map(|_| input(750, PROSE)).collect();
    for agent in ["claude", "gemini", "plain"] {
        let outputs = inputs.iter().filter_map(|input| assembled(&assemblers, agent, input));
        let prompts: Vec<String> = outputs.map(|output| output.prompt).collect();
        let mut turn = (0..INPUTS).cycle();
        let mut next = || turn.next().unwrap_or(0);
        let cost = measure(|| assembled(&assemblers, agent, &inputs[next()]));
        let copy = measure(|| prompts[next()].as_str().to_owned());
        table::row(&[
            agent.to_owned(),
            number(750),
            number(prompts[0].len()),
            time(cost.nanos),
            time(copy.nanos),
            ratio(cost.nanos, copy.nanos),
        ]);
    }
}

fn row(label: &str, agent: &str, input: &AssemblerInput<'_>) {
    let assemblers = Assemblers::default();
    let Some(output) = assembled(&assemblers, agent, input) else { return };
    let cost = measure(|| assembled(&assemblers, agent, input));
    let copy = measure_copy(&output.prompt);
    table::row(&[
        label.to_owned(),
        number(input.context_messages.len()),
        number(output.prompt.len()),
        time(cost.nanos),
        time(copy.nanos),
        ratio(cost.nanos, copy.nanos),
        cost.allocations.to_string(),
    ]);
}

/// Assembles, or says that it cannot.
pub fn assembled<'a>(
    assemblers: &Assemblers,
    agent: &str,
    input: &'a AssemblerInput<'a>,
) -> Option<AssemblerOutput<'a>> {
    assemblers.assemble(agent, input).inspect_err(|error| println!("{error}")).ok()
}

/// An input with so many messages of 1 KB, and no limit.
pub fn input(count: usize, lines: &[&str]) -> AssemblerInput<'static> {
    let names = ["kailai", "max", "sarah"];
    let message = |index: usize| {
        let mut content = lines_of(lines, MESSAGE - 16);
        content.insert_str(0, &format!("{index} "));
        PromptContextMessage {
            from: names[index % names.len()].into(),
            to: Some("all".into()),
            content: content.into(),
            source: ContextSource::Message(Some(format!("msg-{index}").into())),
        }
    };
    AssemblerInput {
        context_messages: (0..count).map(message).collect(),
        current_message: "What is left to do?".into(),
        team_task: Some("Review the authentication module".into()),
        system_instruction: Some("You are Max, who reviews code.".into()),
        max_bytes: u64::MAX,
        ..AssemblerInput::default()
    }
}
