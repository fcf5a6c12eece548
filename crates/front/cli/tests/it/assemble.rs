//! `convoke assemble`.

use serde_json::Value;

use crate::context::TestContext;

#[test]
fn every_line_is_answered_good_or_bad() {
    let input = concat!(
        r#"{"name":"whole","agent":"codex","input":{"contextMessages":[{"from":"a","content":"hi"},{"from":"b","to":"","content":"ho"}],"currentMessage":" go ","systemInstruction":"You are C."}}"#,
        "\n   \n",
        r#"{"name":"dropped","agent":"claude","input":{"contextMessages":[{"from":"a","content":"hi"}],"currentMessage":"go","systemInstruction":"S","maxBytes":20}}"#,
        "\n",
        r#"{"agent":"plain","input":{}}"#,
        "\nnonsense\n[1]\n",
        r#"{"name":"no agent","input":{}}"#,
        "\n",
        r#"{"name":"no content","agent":"codex","input":{"contextMessages":[{"from":"a"}]}}"#,
        "\n",
        r#"{"name":"fraction","agent":"codex","input":{"maxBytes":1.5}}"#,
        "\n",
        r#"{"name":"too small","agent":"gemini","input":{"teamTask":"long","maxBytes":5}}"#,
    );
    insta::assert_snapshot!(TestContext::new().run_with_input(&["assemble"], input.as_bytes()));
}

#[test]
fn unknown_fields_are_ignored_unless_the_input_has_no_other_or_the_user_is_strict() {
    let lines = concat!(
        r#"{"agent":"plain","input":{"currentMessage":"a","odd":1},"expect":{}}"#,
        "\n",
        r#"{"agent":"plain","input":{"currentMesage":"a"}}"#,
        "\n",
        r#"{"agent":"plain","input":{"contextMessages":[{"from":"a","content":"b","at":1}]},"name":{"x":1}}"#,
        "\n",
    );
    let answers = |arguments: &[&str]| -> Vec<String> {
        let output = TestContext::new().output(arguments, lines.as_bytes());
        assert!(output.status.success());
        let answers = String::from_utf8(output.stdout).unwrap();
        let answers = answers.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let shown = |it: Value| it["error"]["message"].as_str().unwrap_or("assembled").to_owned();
        answers.map(shown).collect()
    };
    let known = "contextMessages, currentMessage, currentMessageId, teamTask, roleSummary, systemInstruction, \
                 briefing, instructionFileText, instructionFilePath, maxBytes, fence";
    let none = format!("`input` has none of the known fields: {known}");
    assert_eq!(answers(&["assemble"]), ["assembled", &*none, "assembled"]);
    let strict = answers(&["assemble", "--strict"]);
    assert_eq!(strict[0], "`input.odd` is not a known field");
    assert_eq!(strict[1], "`input.currentMesage` is not a known field");
    assert_eq!(strict[2], "`input.contextMessages[0].at` is not a known field");
}

#[test]
fn bytes_that_are_not_utf8_are_a_bad_line() {
    let test = TestContext::new();
    insta::assert_snapshot!(test.run_with_input(&["assemble"], b"{\"agent\":\"\xff\"}\n"));
}

#[test]
fn a_denied_diagnostic_is_exit_code_3() {
    let line = br#"{"agent":"x","input":{"currentMessage":"hi"}}"#;
    let arguments = ["assemble", "--deny", "agent.unknown"];
    insta::assert_snapshot!(TestContext::new().run_with_input(&arguments, line));
}

#[test]
fn a_limit_that_no_line_is_within_is_bad_usage() {
    let said = TestContext::new().run(&["assemble", "--max-line-bytes", "0"]);
    assert!(said.starts_with("exit code: 2"), "{said}");
}

#[test]
fn an_unknown_code_is_bad_usage() {
    insta::assert_snapshot!(TestContext::new().run(&["assemble", "--deny", "nothing"]));
}
