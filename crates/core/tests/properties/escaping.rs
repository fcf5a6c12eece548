//! No program can act on escaped content, wherever the budget cuts it.

use convoke_core::assembler::{GeminiAssembler, assemble};
use convoke_core::{AssemblerInput, Escaping, diagnostics};
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

/// The tail of a file may begin at any character: also at one whose backslash was cut away.
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
    assert_eq!((diagnostic.code, diagnostic.count), (diagnostics::CONTENT_ESCAPED, Some(2)));
}
