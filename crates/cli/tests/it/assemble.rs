//! `convoke assemble`.

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
fn an_unknown_code_is_bad_usage() {
    insta::assert_snapshot!(TestContext::new().run(&["assemble", "--deny", "nothing"]));
}
