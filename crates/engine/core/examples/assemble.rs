//! Assembles a prompt that does not fit as a whole, and shows what is in it: `cargo run -p convoke-core --example assemble`.

#![expect(clippy::print_stdout, reason = "it shows its result")]

use convoke_core::ledger::{Style, Table};
use convoke_core::{
    AgentContext, BudgetTooSmall, ContextManager, NewMessage, Speaker, SpeakerType,
};

fn main() -> Result<(), BudgetTooSmall> {
    let mut manager = ContextManager::default();
    let ana = Speaker::new("ana", "ana", SpeakerType::Human);
    let max = Speaker::new("max", "max", SpeakerType::Ai);
    manager.add_message(NewMessage::new(ana.clone(), "Which tests fail? [NEXT: max]"));
    let log = "test login::accepts_a_token ... FAILED\n".repeat(2_000);
    manager.add_message(NewMessage::new(max, format!("All of these:\n{log}[NEXT: ana]")));
    manager.add_message(NewMessage::new(ana, "Fix the first one. [NEXT: max]"));

    let input = manager.context_for_agent("max", AgentContext::default());
    let output = manager.assemble_prompt("claude", &input)?;
    println!("{}\n", output.prompt);
    // Where every byte of it came from, and which rule cut what is not there.
    println!("{}", Table { ledger: &output.ledger, style: Style::default() });
    Ok(())
}
