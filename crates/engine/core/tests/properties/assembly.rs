//! Invariant 1: the same input gives the same bytes. Invariant 5: any text is accepted without a panic. An edit
//! of a message changes only that message's bytes.

use convoke_core::assembler::{AssemblerOutput, Format, assemble};
use convoke_core::ledger::{Entry, Source, Style, Table, Target};
use convoke_core::{AssemblerInput, Diagnostic, diagnostics};
use proptest::prelude::*;

use crate::hostile;

proptest! {
    #[test]
    fn the_same_input_gives_the_same_bytes((input, format) in hostile::tight()) {
        let same_input = input.clone();
        let first = assemble(&format, &input);
        let second = assemble(&format, &same_input);
        let json = |output: &AssemblerOutput<'_>| {
            serde_json::to_string(&(&output.ledger, &output.diagnostics)).expect("JSON")
        };
        prop_assert_eq!(&first, &second);
        if let (Ok(first), Ok(second)) = (first, second) {
            prop_assert_eq!(json(&first), json(&second));
            prop_assert_eq!(json(&first), json(&first.clone().into_owned()));
        }
    }

    #[test]
    fn every_ledger_can_be_shown((input, format) in hostile::tight()) {
        if let Ok(output) = assemble(&format, &input) {
            let table = Table { ledger: &output.ledger, style: Style::default() }.to_string();
            for entry in output.ledger.entries() {
                prop_assert!(table.contains(&*entry.section), "{}", table);
            }
        }
    }

    #[test]
    fn an_edit_changes_only_its_own_entry_and_its_own_bytes(
        (input, format, index, content) in edit(),
    ) {
        let edited = with_content(&input, index, content);
        only_one_entry_differs(&format, &input, &edited, index)?;
    }

    #[test]
    fn an_edit_that_keeps_its_length_changes_no_decision(
        (input, format) in hostile::tight(),
        index in any::<prop::sample::Index>(),
    ) {
        if input.context_messages.is_empty() {
            return Ok(());
        }
        let index = index.index(input.context_messages.len());
        let len = input.context_messages[index].content.len();
        // Without line breaks, so that fencing adds nothing.
        let content = "x".repeat(len);
        let plain = with_content(&input, index, content);
        let edited = with_content(&input, index, "y".repeat(len));
        if assemble(&format, &plain).is_ok() {
            only_one_entry_differs(&format, &plain, &edited, index)?;
        }
    }
}

/// An input with room for everything, one of its messages, and the replacement text.
fn edit() -> impl Strategy<Value = (AssemblerInput<'static>, Format, usize, String)> {
    (hostile::input(), hostile::format(), any::<prop::sample::Index>(), hostile::text())
        .prop_filter("needs a message", |(input, ..)| !input.context_messages.is_empty())
        .prop_map(|(input, format, index, content)| {
            let index = index.index(input.context_messages.len());
            (input, format, index, content)
        })
}

fn with_content(
    input: &AssemblerInput<'static>,
    index: usize,
    content: String,
) -> AssemblerInput<'static> {
    let mut edited = input.clone();
    edited.context_messages[index].content = content.into();
    edited
}

fn only_one_entry_differs(
    format: &Format,
    before: &AssemblerInput<'_>,
    after: &AssemblerInput<'_>,
    edited: usize,
) -> Result<(), TestCaseError> {
    let (before, after) = (assemble(format, before), assemble(format, after));
    let (Ok(before), Ok(after)) = (before, after) else {
        return Err(TestCaseError::fail("an edit made a budget too small"));
    };
    prop_assert_eq!(&before.system_flag, &after.system_flag);
    let (before_entries, after_entries) = (slices(&before), slices(&after));
    prop_assert_eq!(before_entries.len(), after_entries.len());
    for ((old, old_bytes), (new, new_bytes)) in before_entries.iter().zip(&after_entries) {
        if is_of(old, edited) {
            prop_assert!(is_of(new, edited));
        } else {
            prop_assert_eq!((old, old_bytes), (new, new_bytes));
        }
    }
    prop_assert_eq!(others(&before, edited), others(&after, edited));
    Ok(())
}

/// The entries of the prompt without their positions, each with its bytes.
fn slices<'o>(output: &'o AssemblerOutput<'_>) -> Vec<(Entry<'o>, &'o str)> {
    let mut rest = output.prompt.as_str();
    let mut slices = Vec::new();
    for mut entry in output.ledger.entries() {
        let bytes = match entry.target {
            Target::Prompt => {
                let (own, after) =
                    rest.split_at(usize::try_from(entry.kept_bytes()).expect("bytes"));
                rest = after;
                own
            }
            Target::System => "",
        };
        entry.range = 0..entry.kept_bytes();
        slices.push((entry, bytes));
    }
    slices
}

fn is_of(entry: &Entry<'_>, message: usize) -> bool {
    matches!(entry.source, Source::Message { index: Some(index), .. } if index == message)
}

/// The diagnostics about anything but the edited message, which is named by id or index.
fn others(output: &AssemblerOutput<'_>, edited: usize) -> Vec<Diagnostic> {
    let entry = output.ledger.entries().find(|entry| is_of(entry, edited)).expect("its entry");
    let name = match entry.source {
        Source::Message { id: Some(id), .. } => id.into_owned(),
        _ => format!("context message {edited} "),
    };
    let about_it = |diagnostic: &Diagnostic| {
        let about_context = diagnostic.section.as_deref() == Some("CONTEXT");
        (about_context && diagnostic.message.contains(&name))
            // Counts the escapes of the whole prompt.
            || diagnostic.code == diagnostics::CONTENT_ESCAPED
    };
    output.diagnostics.iter().filter(|diagnostic| !about_it(diagnostic)).cloned().collect()
}
