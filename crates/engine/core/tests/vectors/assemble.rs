//! `assemble.jsonl`, and properties that every prompt must have.

use convoke_core::ledger::Target;
use convoke_core::{AssemblerInput, AssemblerOutput, Assemblers};
use serde_json::Value;

use crate::{check, expect};
use convoke_core::diagnostics;

#[test]
fn prompts_are_as_expected() {
    let assemblers = Assemblers::default();
    check("assemble.jsonl", |vector| {
        let agent = vector["agent"].as_str().expect("agent");
        let input =
            AssemblerInput::from_json(vector["input"].clone()).map_err(|e| e.to_string())?;
        let expected = &vector["expect"];
        let output = match assemblers.assemble(agent, &input) {
            Ok(output) => output,
            Err(error) => {
                let allowed =
                    expected["error"] == "budget" || expected["cut"] == "message-or-instructions";
                return expect(&allowed, &true)
                    .and(expect(&(error.needed > error.available), &true));
            }
        };
        adds_up(&input, &output)?;
        match expected.get("cut").and_then(Value::as_str) {
            None => is_exactly(expected, &output),
            Some("message") => message_is_cut(&input, &output),
            Some(_) => Ok(()),
        }
    });
}

/// Checks that the ledger covers every byte, and that the budget holds.
fn adds_up(input: &AssemblerInput<'_>, output: &AssemblerOutput<'_>) -> Result<(), String> {
    let sum = |target| -> u64 {
        let entries = output.ledger.entries().filter(|entry| entry.target == target);
        entries.map(|entry| entry.kept_bytes()).sum()
    };
    let system = output.system_flag.as_ref().map_or(0, String::len) as u64;
    expect(&(output.prompt.len() as u64, system), &(sum(Target::Prompt), sum(Target::System)))?;
    expect(&(output.prompt.len() as u64 + system), &output.ledger.used_bytes())?;
    expect(&(output.ledger.used_bytes() <= input.max_bytes), &true)
}

fn is_exactly(expected: &Value, output: &AssemblerOutput<'_>) -> Result<(), String> {
    expect(&expected["prompt"].as_str(), &Some(&*output.prompt))?;
    expect(&expected["systemFlag"].as_str(), &output.system_flag.as_deref())?;
    expect(&expected["dropped"].as_u64().unwrap_or(0), &dropped(output))
}

fn dropped(output: &AssemblerOutput<'_>) -> u64 {
    let drops =
        output.diagnostics.iter().filter(|found| found.code == diagnostics::CONTEXT_DROPPED);
    drops.filter_map(|found| found.count).sum()
}

fn message_is_cut(input: &AssemblerInput<'_>, output: &AssemblerOutput<'_>) -> Result<(), String> {
    expect(&(input.context_messages.len() as u64), &dropped(output))?;
    expect(&output.prompt.ends_with(" bytes cut]"), &true)?;
    let told = output.diagnostics.iter().any(|found| found.code == diagnostics::MESSAGE_TRUNCATED);
    expect(&told, &true)
}
