//! Budgets hold, and as much as possible is kept: compared with an implementation that builds strings and drops
//! one message at a time.

use convoke_core::assembler::{Format, assemble};
use convoke_core::ledger::{Source, State};
use convoke_core::{AssemblerInput, AssemblerOutput, Fencing};
use proptest::prelude::*;

use crate::hostile;
use crate::reference::{self, Outcome, Parts};

proptest! {
    #[test]
    fn what_is_kept_is_what_the_rules_leave((input, format) in hostile::tight()) {
        let actual = assemble(&format, &input);
        if let Ok(output) = &actual {
            prop_assert!(output.ledger.used_bytes() <= input.max_bytes);
        }
        match (reference::assemble(&format, &input), actual) {
            (Outcome::Fits { texts, dropped }, Ok(output)) => {
                prop_assert_eq!((&output.prompt, &output.system_flag), (&texts.0, &texts.1));
                prop_assert_eq!(dropped_messages(&output), dropped);
            }
            (Outcome::MessageCut { texts } | Outcome::BothCut { texts }, Ok(output)) => {
                prop_assert_eq!((&output.prompt, &output.system_flag), (&texts.0, &texts.1));
                prop_assert_eq!(dropped_messages(&output), input.context_messages.len());
            }
            (Outcome::FileCut { message }, Ok(output)) => {
                file_lost_no_more_than_it_must(&output, message, &input, &format)?;
            }
            (Outcome::TooSmall, Err(error)) => {
                prop_assert_eq!(error.available, input.max_bytes);
                prop_assert!(error.needed > error.available);
            }
            (expected, actual) => prop_assert!(false, "{:?}\n{:?}", expected, actual),
        }
    }

    #[test]
    fn a_budget_that_is_said_to_be_needed_is_enough_for_what_is_never_cut(
        (mut input, format) in hostile::tight(),
    ) {
        let Err(error) = assemble(&format, &input) else { return Ok(()) };
        // Everything that may be cut is removed, and the rest remains.
        if error.needed == never_cut(&format, &input) {
            input.current_message = "".into();
            input.attachments.clear();
            input.instruction_file_text = None;
            input.context_messages.clear();
        }
        input.max_bytes = error.needed;
        prop_assert!(assemble(&format, &input).is_ok());
    }
}

fn never_cut(format: &Format, input: &AssemblerInput<'_>) -> u64 {
    let parts = Parts { file: String::new(), message: String::new(), ..Parts::of(input) };
    let (prompt, system) = parts.texts(format, input, input.context_messages.len());
    (prompt.len() + system.map_or(0, |system| system.len())) as u64
}

fn dropped_messages(output: &AssemblerOutput<'_>) -> usize {
    let context = output.ledger.entries().filter(|entry| entry.section == "CONTEXT");
    context.filter(|entry| entry.state() == State::Dropped).count()
}

/// The head and the tail of the file, of about equal length, surround the mark and fill the room, except for a
/// few bytes lost to character boundaries and the mark's digits.
fn file_lost_no_more_than_it_must(
    output: &AssemblerOutput<'_>,
    message: String,
    input: &AssemblerInput<'_>,
    format: &Format,
) -> Result<(), TestCaseError> {
    const SLACK: usize = 10;
    let used = usize::try_from(output.ledger.used_bytes()).expect("a length");
    let whole = Parts::of(input);
    let kept: Vec<usize> = output
        .ledger
        .entries()
        .filter(|entry| entry.section == "SYSTEM" && is_instruction_file(&entry.source))
        .map(|entry| usize::try_from(entry.kept_bytes()).expect("a length"))
        .collect();
    let (head, tail) = (kept[0], kept.get(1).copied().unwrap_or(0));
    prop_assert!(used as u64 + SLACK as u64 >= input.max_bytes);
    prop_assert!(head.abs_diff(tail) <= SLACK, "{} {}", head, tail);

    let line_break = |bytes: usize| if bytes > 0 { "\n" } else { "" };
    let indent = if tail > 0 && input.fencing == Fencing::Indented { "  " } else { "" };
    let file = format!(
        "{}{}[… {} bytes cut]{}{indent}{}",
        &whole.file[..head],
        line_break(head),
        whole.file.len() - head - tail,
        line_break(tail),
        &whole.file[whole.file.len() - tail..],
    );
    let (prompt, system) =
        Parts { file, message, ..whole }.texts(format, input, input.context_messages.len());
    prop_assert_eq!((&output.prompt, &output.system_flag), (&prompt, &system));
    Ok(())
}

fn is_instruction_file(source: &Source<'_>) -> bool {
    match source {
        Source::File { .. } => true,
        Source::Setting { name } => name == "instructionFileText",
        _ => false,
    }
}
