//! No program can act on escaped content, wherever the budget cuts it.

use convoke_core::assembler::{GeminiAssembler, PlainTextAssembler, assemble};
use convoke_core::ledger::{Source, Target};
use convoke_core::{
    AssemblerInput, ContextSource, Escaping, PromptContextMessage, begins_with_slash, diagnostics,
};
use proptest::prelude::*;

use crate::hostile;

proptest! {
    #[test]
    fn an_escaped_prompt_has_no_at_sign_to_act_on((mut input, format) in hostile::tight()) {
        input.escaping = Escaping::AtSigns;
        let Ok(output) = assemble(&format, &input) else { return Ok(()) };
        for text in output.system_flag.iter().chain([&output.prompt]) {
            prop_assert_eq!(&*Escaping::AtSigns.escape(text), &**text);
        }
        let sent = output.prompt.len() + output.system_flag.map_or(0, |text| text.len());
        prop_assert_eq!(output.ledger.used_bytes(), sent as u64);
        prop_assert!(sent as u64 <= input.max_bytes);
    }
}

proptest! {
    #[test]
    fn no_guarded_prompt_begins_with_a_slash(
        (mut input, format) in hostile::tight(),
        slashes in proptest::array::uniform5(any::<bool>()),
    ) {
        input.escaping = Escaping::LeadingSlash;
        for (text, is_command) in [
            &mut input.role_summary,
            &mut input.system_instruction,
            &mut input.instruction_file_text,
            &mut input.team_task,
        ].into_iter().zip(slashes) {
            if let Some(text) = text.as_mut().filter(|_| is_command) {
                *text = format!("\u{1}/{text}").into();
            }
        }
        if slashes[4] {
            input.current_message = format!(" /{}", input.current_message).into();
        }
        let Ok(output) = assemble(&format, &input) else { return Ok(()) };
        prop_assert_ne!(begins_with_slash(&output.prompt), Some(true), "{}", output.prompt);
        let sent = output.prompt.len() + output.system_flag.as_deref().map_or(0, str::len);
        prop_assert_eq!(output.ledger.used_bytes(), sent as u64);
        prop_assert!(sent as u64 <= input.max_bytes);
    }
}

/// The line is part of the prompt: it is in the ledger and in the budget, also if context was dropped.
#[test]
fn the_line_before_a_slash_is_an_entry_of_the_ledger() {
    let from_max = PromptContextMessage {
        from: "max".into(),
        to: None,
        content: "an earlier message".into(),
        source: ContextSource::Message(None),
    };
    for (context, max_bytes, expected) in [
        (Vec::new(), 1000, "The message is:\n/help me"),
        (vec![from_max.clone()], 1000, "max: an earlier message\n\nThe message is:\n/help me"),
        (vec![from_max], 30, "The message is:\n/help me"),
    ] {
        let input = AssemblerInput {
            context_messages: context,
            current_message: "/help me".into(),
            escaping: Escaping::LeadingSlash,
            max_bytes,
            ..AssemblerInput::default()
        };
        let output = assemble(&PlainTextAssembler::FORMAT, &input).expect("there is room");
        assert_eq!(output.prompt, expected);
        let mut entries = output.ledger.entries().filter(|entry| entry.target == Target::Prompt);
        let header = entries.find(|entry| entry.source == Source::convoke("header")).expect("one");
        assert_eq!(header.kept_bytes(), "The message is:\n".len() as u64);
        let codes: Vec<_> = output.diagnostics.iter().map(|found| found.code.clone()).collect();
        assert!(codes.contains(&diagnostics::CONTENT_ESCAPED), "{codes:?}");
    }
    let input = AssemblerInput {
        team_task: Some("the task".into()),
        current_message: "/help me".into(),
        escaping: Escaping::LeadingSlash,
        ..AssemblerInput::default()
    };
    let output = assemble(&PlainTextAssembler::FORMAT, &input).expect("there is room");
    assert_eq!((&*output.prompt, output.diagnostics.len()), ("the task\n\n/help me", 0));
}

/// The tail of a file may begin at any character, even one whose backslash was cut.
#[test]
fn a_cut_never_separates_a_backslash_from_its_at_sign() {
    let input = AssemblerInput {
        instruction_file_text: Some("@a".repeat(200).into()),
        escaping: Escaping::AtSigns,
        ..AssemblerInput::default()
    };
    for max_bytes in 60..200 {
        let input = AssemblerInput { max_bytes, ..input.clone() };
        let output = assemble(&GeminiAssembler::FORMAT, &input).expect("there is room");
        assert_eq!(Escaping::AtSigns.escape(&output.prompt), output.prompt, "{max_bytes}");
    }
}

#[test]
fn escapes_are_counted_in_a_diagnostic() {
    let input = AssemblerInput {
        team_task: Some("write to me@example.org".into()),
        current_message: "@generalist and \\@done".into(),
        escaping: Escaping::AtSigns,
        ..AssemblerInput::default()
    };
    let output = assemble(&GeminiAssembler::FORMAT, &input).expect("there is room");
    let expected = "Team Task:\nwrite to me\\@example.org\n\nYour task:\n\\@generalist and \\@done";
    assert_eq!(output.prompt, expected);
    let [diagnostic] = &output.diagnostics[..] else { panic!("{:?}", output.diagnostics) };
    assert_eq!((&diagnostic.code, diagnostic.count), (&diagnostics::CONTENT_ESCAPED, Some(2)));
}
