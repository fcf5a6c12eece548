//! `explain --fix`: shows its changes first, and proves that the problems are gone.

use serde_json::Value;

use crate::context::TestContext;

/// A repository with one problem of each kind that links and names remove.
fn repository() -> TestContext {
    let skill = "---\nname: deploy\ndescription: How to deploy.\n---\nSteps.\n";
    TestContext::new()
        .env("GEMINI_CLI_TRUST_WORKSPACE", "true")
        .file(".git/HEAD", "ref: refs/heads/main\n")
        .file("AGENTS.md", "Use tabs.\n")
        .file("AGENTS.override.md", "\n")
        .file("claude.md", "Be brief.\n")
        .file(".agents/skills/deploy/SKILL.md", skill)
}

fn codes(context: &TestContext) -> Vec<String> {
    let arguments = ["explain", "--json", "--agent", "claude,gemini,codex"];
    let output = context.command(&arguments).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let agents = report["agents"].as_array().unwrap();
    let diagnostics = agents.iter().flat_map(|it| it["diagnostics"].as_array().unwrap());
    diagnostics.map(|it| it["code"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn problems_are_shown_as_a_diff_fixed_and_proved_to_be_gone() {
    let context = repository();
    let fix = |arguments: &[&str]| {
        let all = [&["explain", "--agent", "claude,gemini,codex", "--fix"], arguments].concat();
        let output = context.command(&all).output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.status.code())
    };
    let fixed = ["names.unread", "names.case", "agents-md.blank", "skill.unsearched"];
    let before = codes(&context);
    assert!(fixed.iter().all(|code| before.iter().any(|it| it == code)), "{before:?}");
    let (shown, code) = fix(&[]);
    assert_eq!(code, Some(0));
    for line in
        ["rename to CLAUDE.md", "+++ b/GEMINI.md", "+++ b/.claude/skills", "deleted file mode"]
    {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert_eq!(codes(&context), before, "nothing was to be changed yet");
    let (told, code) = fix(&["--yes"]);
    assert!(code == Some(0) && told.contains("problems are gone"), "{told}");
    let after = codes(&context);
    assert!(fixed.iter().all(|code| after.iter().all(|it| it != code)), "{after:?}");
    let (told, _) = fix(&["--yes"]);
    assert!(told.contains("nothing that can be fixed"), "{told}");
}
