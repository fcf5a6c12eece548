//! Invariant 2: nothing is lost in silence. Invariant 3: the ledger adds up.

use convoke_core::assembler::{AssemblerOutput, Format, assemble};
use convoke_core::ledger::{Entry, Rule, Source, State, Target};
use convoke_core::{AssemblerInput, Code, Diagnostic};
use proptest::prelude::*;

use crate::hostile;
use crate::reference::{Parts, line, message_parts};
use convoke_core::diagnostics;

proptest! {
    #[test]
    fn the_entries_of_a_text_slice_it_exactly((input, format) in hostile::tight()) {
        let Ok(output) = assemble(&format, &input) else { return Ok(()) };
        sliced(&output, Target::Prompt, &output.prompt, &input, &format)?;
        let system = output.system_flag.as_deref().unwrap_or_default();
        sliced(&output, Target::System, system, &input, &format)?;
        let sent = (output.prompt.len() + system.len()) as u64;
        prop_assert_eq!(output.ledger.used_bytes(), sent);
    }

    #[test]
    fn every_omission_is_reported_and_every_report_is_an_omission(
        (input, format) in hostile::tight(),
    ) {
        let Ok(output) = assemble(&format, &input) else { return Ok(()) };
        let entries: Vec<Entry<'_>> = output.ledger.entries().collect();

        let dropped: Vec<_> = entries.iter().filter(|e| is_oldest_first(e)).collect();
        let bytes: u64 = dropped.iter().map(|entry| entry.cut_bytes).sum();
        let expected = (dropped.len() as u64, bytes);
        prop_assert_eq!(reported(&output, &diagnostics::CONTEXT_DROPPED), expected);

        let cut = |section: &str| -> u64 {
            let of_section = entries.iter().filter(|e| e.section == section && !is_oldest_first(e));
            of_section.map(|entry| entry.cut_bytes).sum()
        };
        prop_assert_eq!(reported(&output, &diagnostics::MESSAGE_TRUNCATED).1, cut("MESSAGE"));
        prop_assert_eq!(reported(&output, &diagnostics::INSTRUCTIONS_TRUNCATED).1, cut("SYSTEM"));
        prop_assert_eq!(cut("CONTEXT") + cut("TEAM_TASK"), 0);

        for entry in &entries {
            let explained = match entry.rule {
                Rule::OldestFirst { needed, available } => {
                    entry.state() == State::Dropped && needed > available
                }
                Rule::EndCut { needed, available } | Rule::MiddleCut { needed, available } => {
                    needed > available
                }
                _ => entry.state() == State::Kept,
            };
            prop_assert!(explained, "{:?}", entry);
        }
        for found in &output.diagnostics {
            if found.code == diagnostics::CONTENT_ESCAPED {
                prop_assert!(found.count > Some(0), "{}", found);
                continue;
            }
            let section = found.section.as_deref().expect("every other diagnostic has a section");
            prop_assert!(entries.iter().any(|entry| entry.section == section), "{}", found);
        }
    }

    #[test]
    fn every_message_has_one_entry_and_all_its_bytes_are_in_it((input, format) in hostile::tight()) {
        let Ok(output) = assemble(&format, &input) else { return Ok(()) };
        for (index, message) in input.context_messages.iter().enumerate() {
            let its = output.ledger.entries().filter(|entry| index_of(entry) == Some(index));
            let sizes: Vec<u64> = its.map(|entry| entry.kept_bytes() + entry.cut_bytes).collect();
            prop_assert_eq!(sizes, [line(&format, message, &input).len() as u64]);
        }
    }
}

fn is_oldest_first(entry: &Entry<'_>) -> bool {
    matches!(entry.rule, Rule::OldestFirst { .. })
}

/// Returns the count and bytes of the diagnostics with a code, of which there may be at most one.
fn reported(output: &AssemblerOutput<'_>, code: &Code) -> (u64, u64) {
    let found: Vec<&Diagnostic> = output.diagnostics.iter().filter(|d| d.code == *code).collect();
    assert!(found.len() <= 1, "{code} is said once");
    found.first().map_or((0, 0), |found| (found.count.unwrap_or(0), found.bytes.unwrap_or(0)))
}

fn index_of(entry: &Entry<'_>) -> Option<usize> {
    match entry.source {
        Source::Message { index, .. } => index,
        _ => None,
    }
}

/// Walks through a text entry by entry, and checks each entry's content.
fn sliced(
    output: &AssemblerOutput<'_>,
    target: Target,
    mut rest: &str,
    input: &AssemblerInput<'_>,
    format: &Format,
) -> Result<(), TestCaseError> {
    let parts = Parts::of(input);
    let (mut tail_of_file, mut at) = (false, 0);
    let message_parts = message_parts(input);
    let mut attached = message_parts.iter().skip(1);
    for entry in output.ledger.entries().filter(|entry| entry.target == target) {
        prop_assert_eq!(entry.range.start, at, "{:?} does not follow the one before", entry);
        at = entry.range.end;
        let kept = usize::try_from(entry.kept_bytes()).expect("a length");
        prop_assert!(rest.is_char_boundary(kept), "{:?} ends between characters", entry);
        let (own, after) = rest.split_at(kept);
        rest = after;
        let (whole, from_end) = match &entry.source {
            Source::File { .. } if entry.section == "MESSAGE" => {
                (attached.next().expect("a file is attached").clone(), false)
            }
            Source::Convoke { what } if what == "attachment" => {
                (attached.next().expect("a file is attached").clone(), false)
            }
            Source::Convoke { what } => {
                is_ours(what, own, format)?;
                continue;
            }
            Source::Message { index: Some(index), .. } => {
                (line(format, &input.context_messages[*index], input), false)
            }
            Source::Message { index: None, .. } => (message_parts[0].clone(), false),
            Source::File { .. } => {
                let from_end = std::mem::replace(&mut tail_of_file, true);
                (parts.file.clone(), from_end)
            }
            Source::Setting { name } => match &**name {
                "roleSummary" => (parts.role.clone(), false),
                "systemInstruction" => (parts.configured.clone(), false),
                "briefing" => (parts.briefing.clone(), false),
                "teamTask" => (parts.task.clone(), false),
                "instructionFileText" => {
                    let from_end = std::mem::replace(&mut tail_of_file, true);
                    (parts.file.clone(), from_end)
                }
                other => return Err(TestCaseError::fail(format!("no setting is called {other}"))),
            },
            other => return Err(TestCaseError::fail(format!("no source of a prompt: {other:?}"))),
        };
        match (entry.state(), from_end) {
            (_, true) => prop_assert!(whole.ends_with(own)),
            (State::Kept, false) => prop_assert_eq!(own, whole),
            (State::Cut, false) => prop_assert!(whole.starts_with(own)),
            (State::Dropped, false) => prop_assert_eq!(own, ""),
        }
    }
    if target == Target::Prompt {
        prop_assert_eq!(attached.next(), None, "a part of an attachment without an entry");
    }
    prop_assert_eq!(rest, "", "bytes that no entry accounts for");
    Ok(())
}

fn is_ours(what: &str, own: &str, format: &Format) -> Result<(), TestCaseError> {
    let headers = &format.headers;
    let expected = match what {
        "separator" => matches!(own, "\n" | "\n\n"),
        "header" => [headers.system, headers.task, headers.context, headers.message]
            .iter()
            .any(|header| own.strip_suffix('\n') == Some(header)),
        "mark" => is_mark(own.trim_matches(['\n', ' '])) && own.len() <= 48,
        _ => false,
    };
    prop_assert!(expected, "{} {:?}", what, own);
    Ok(())
}

fn is_mark(text: &str) -> bool {
    let number = text.strip_prefix("[… ").and_then(|rest| rest.strip_suffix(" bytes cut]"));
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}
