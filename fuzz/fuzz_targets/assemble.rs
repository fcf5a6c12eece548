//! Any input, assembled for any agent: within its budget, and accounted for to the byte.

#![no_main]

use arbitrary::Arbitrary;
use convoke_core::ledger::Target;
use convoke_core::{AssemblerInput, Assemblers, Fencing, PromptContextMessage};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
struct Case<'a> {
    agent: u8,
    context: Vec<(&'a str, Option<&'a str>, &'a str)>,
    message: &'a str,
    /// Texts are short here; this many times is long.
    repeat: u8,
    task: Option<&'a str>,
    role: Option<&'a str>,
    system: Option<&'a str>,
    file: Option<&'a str>,
    path: Option<&'a str>,
    max_bytes: u16,
    fenced: bool,
}

fuzz_target!(|case: Case<'_>| {
    const AGENTS: [&str; 5] = ["claude", "codex", "gemini", "plain", "another"];
    let agent = AGENTS[usize::from(case.agent) % AGENTS.len()];
    let repeated = |text: &str| text.repeat(usize::from(case.repeat % 16) + 1);
    let context = case.context.iter().map(|&(from, to, content)| PromptContextMessage {
        from: from.into(),
        to: to.map(Into::into),
        content: content.into(),
        id: None,
    });
    let input = AssemblerInput {
        context_messages: context.collect(),
        current_message: repeated(case.message).into(),
        current_message_id: None,
        team_task: case.task.map(Into::into),
        role_summary: case.role.map(Into::into),
        system_instruction: case.system.map(Into::into),
        instruction_file_text: case.file.map(|file| repeated(file).into()),
        instruction_file_path: case.path.map(Into::into),
        max_bytes: u64::from(case.max_bytes),
        fencing: if case.fenced { Fencing::Indented } else { Fencing::AsWritten },
    };
    let output = match Assemblers::default().assemble(agent, &input) {
        Ok(output) => output,
        Err(error) => return assert!(error.needed > error.available),
    };
    assert!(output.ledger.used_bytes() <= input.max_bytes);
    let system = output.system_flag.as_deref().unwrap_or_default();
    for (target, text) in [(Target::Prompt, output.prompt.as_str()), (Target::System, system)] {
        let mut at = 0;
        for entry in output.ledger.entries().filter(|entry| entry.target == target) {
            at += usize::try_from(entry.kept_bytes()).expect("a length");
            assert!(text.is_char_boundary(at), "{entry:?}");
        }
        assert_eq!(at, text.len(), "the ledger adds up");
    }
});
