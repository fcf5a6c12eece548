//! Tests of the lists of skills.

use convoke_files::MemoryTree;

use convoke_explain::skills::{Stated, loaded_bytes};
use convoke_explain::{AgentReport, Edition, Session, SkillRule, explain};

use crate::known;

#[test]
fn a_description_is_found_however_it_is_written() {
    let cases = [
        ("---\ndescription: a b\n---\n", "a b"),
        ("\n\u{feff}---\ndescription: a\n---\n", "a"),
        ("---\ndescription: never closed\nbody\n", "never closed"),
        ("---\ndescription: a\n\tb: c\n---\nbody", "a"),
        ("---\ndescription:\n  - a\n  - b\n---\n", "a"),
        ("---\ndescription: 12\n---\n", "12"),
        ("---\nname: a\n---\ndescription: b\n", ""),
        ("description: a", ""),
    ];
    for (text, expected) in cases {
        assert_eq!(Stated::leniently(text).0, expected, "{text:?}");
    }
}

#[test]
fn what_arrives_of_a_description_is_counted_from_its_start() {
    let cases = [
        ("abc def", "abc def", 7),
        ("abc def", "abc ", 4),
        ("abc def", "abc def - more", 7),
        ("a\n  b", "a b", 5),
        ("a\n  b c", "a b", 5),
        ("abc", "xbc", 0),
        ("abc", "", 0),
        ("", "from the body", 0),
    ];
    for (stated, arrived, expected) in cases {
        assert_eq!(loaded_bytes(stated, arrived), expected, "{stated:?} {arrived:?}");
    }
}

fn tree() -> MemoryTree {
    let mut tree = MemoryTree::default();
    tree.create_directory("/r/.git");
    tree.create_directory("/h");
    tree
}

fn skill(tree: &mut MemoryTree, folder: &str, description: &str) {
    let name = folder.rsplit('/').next().unwrap();
    let text = format!("---\nname: {name}\ndescription: {description}\n---\nbody\n");
    tree.write(format!("{folder}/SKILL.md"), text);
}

fn reported(tree: &MemoryTree, edition: Edition, arguments: &[&str]) -> AgentReport {
    let mut session = Session::new("/r", "/h");
    session.variables.insert("GEMINI_CLI_TRUST_WORKSPACE".into(), "true".into());
    session.arguments = arguments.iter().map(|it| (*it).to_owned()).collect();
    explain(tree, &session, &[edition]).agents.remove(0)
}

fn codes(report: &AgentReport) -> Vec<&str> {
    report.diagnostics.iter().map(|it| it.code.name()).collect()
}

#[test]
fn cut_and_dropped_descriptions_are_reported_with_their_figures() {
    let mut tree = tree();
    for number in 10..70 {
        skill(&mut tree, &format!("/r/.agents/skills/s{number}"), &"d".repeat(1000));
    }
    tree.link("/r/.claude/skills", "../.agents/skills");
    let codex = reported(&tree, known("codex"), &[]);
    let cut = &codex.diagnostics[0];
    assert_eq!(cut.code.name(), "skill.description-cut");
    assert!(cut.message.ends_with("the list takes 5440 of 5440 tokens"), "{}", cut.message);
    let lost = |it: &convoke_explain::Skill| it.description_bytes - it.description_bytes_loaded;
    assert_eq!(cut.bytes, Some(codex.skills.iter().map(lost).sum()));
    let claude = reported(&tree, known("claude"), &[]);
    assert_eq!(codes(&claude), ["skill.description-cut"]);
    assert!(
        claude.diagnostics[0].message.contains("do not arrive: s3"),
        "{:?}",
        claude.diagnostics
    );
    assert_eq!(codes(&reported(&tree, known("gemini"), &[])), [""; 0]);
    let old = reported(&tree, known("codex@0.98"), &[]);
    assert!(old.skills.iter().all(|it| it.whole) && old.skills_budget.unwrap().limit.is_none());

    let tiny = ["-c", "skills.max_context_tokens=100"];
    let codex = reported(&tree, known("codex"), &tiny);
    assert!(codes(&codex).contains(&"skill.dropped"), "{:?}", codes(&codex));
    assert_eq!(codex.skills.len() + codex.skills_omitted.len(), 64);
}

#[test]
fn a_skill_behind_another_of_its_name_is_reported() {
    let mut tree = tree();
    skill(&mut tree, "/h/.claude/skills/same", "the user's");
    skill(&mut tree, "/r/.claude/skills/same", "the project's");
    skill(&mut tree, "/h/.gemini/skills/same", "the user's");
    skill(&mut tree, "/r/.gemini/skills/same", "the project's");
    let shadowed = |edition| {
        let report = reported(&tree, edition, &[]);
        let mut shadowed = report.skills_omitted.into_iter();
        let found = shadowed.find(|it| matches!(it.rule, SkillRule::Shadowed(_))).unwrap();
        found.path.display().to_string()
    };
    assert_eq!(shadowed(known("claude")), "/r/.claude/skills/same/SKILL.md");
    assert_eq!(shadowed(known("gemini")), "/h/.gemini/skills/same/SKILL.md");
    assert!(codes(&reported(&tree, known("claude"), &[])).contains(&"skill.shadowed"));
}

#[test]
fn skills_in_other_agents_places_are_reported_once_for_each_place() {
    let mut tree = tree();
    skill(&mut tree, "/r/.claude/skills/a", "d");
    skill(&mut tree, "/r/.claude/skills/b", "d");
    let codex = reported(&tree, known("codex"), &[]);
    assert_eq!(codes(&codex), ["skill.unsearched"]);
    assert_eq!(codex.diagnostics[0].count, Some(2));
    assert_eq!(codex.skills_omitted.len(), 2);
}

#[test]
fn a_list_that_is_switched_off_is_empty_and_says_why() {
    let mut tree = tree();
    skill(&mut tree, "/r/.agents/skills/a", "d");
    skill(&mut tree, "/r/.claude/skills/a", "d");
    tree.write("/h/.gemini/settings.json", r#"{"skills": {"enabled": false}}"#);
    let cases: [(Edition, &[&str]); 3] = [
        (known("codex"), &["-c", "skills.include_instructions=false"]),
        (known("claude"), &["--disable-slash-commands"]),
        (known("gemini"), &[]),
    ];
    for (edition, arguments) in cases {
        let report = reported(&tree, edition, arguments);
        assert!(report.skills.is_empty(), "{edition}");
        assert!(codes(&report).contains(&"skills.switched-off"), "{edition}");
        let off = report.skills_omitted.iter();
        let off = off.filter(|it| matches!(it.rule, SkillRule::SwitchedOff(_)));
        assert_eq!(off.count(), 1, "{edition}");
    }
}

#[test]
fn the_json_form_has_the_agreed_names() {
    let mut tree = tree();
    skill(&mut tree, "/r/.agents/skills/a", "d");
    skill(&mut tree, "/r/.claude/skills/b", "d");
    let report = reported(&tree, known("codex"), &["-c", "skills.bundled.enabled=false"]);
    let value = serde_json::to_value(report).unwrap();
    let expected = serde_json::json!([{
        "name": "a",
        "path": "/r/.agents/skills/a/SKILL.md",
        "descriptionBytes": 1,
        "descriptionBytesLoaded": 1,
        "whole": true,
        "source": "project",
    }]);
    assert_eq!(value["skills"], expected);
    let omitted = serde_json::json!([{
        "name": "b",
        "path": "/r/.claude/skills/b/SKILL.md",
        "rule": "not looked for in this place",
    }]);
    assert_eq!(value["skillsOmitted"], omitted);
    let budget = serde_json::json!({"limit": 5440, "unit": "tokens", "used": 8});
    assert_eq!(value["skillsBudget"], budget);
}

fn names(report: &AgentReport) -> Vec<&str> {
    let own = report.skills.iter().filter(|it| it.text.is_some());
    own.map(|it| it.name.as_str()).collect()
}

#[test]
fn claude_sorts_the_commands_of_all_places_together() {
    let mut tree = tree();
    for (path, text) in [
        ("/h/.claude/commands/m.md", "user"),
        ("/h/.claude/commands/z.md", "user"),
        ("/r/.claude/commands/m.md", "project"),
        ("/r/.claude/commands/a.md", "project"),
        ("/x/.claude/commands/n.md", "added"),
    ] {
        tree.write(path, text);
    }
    let report = reported(&tree, known("claude"), &["--add-dir", "/x"]);
    assert_eq!(names(&report), ["a", "m", "n", "z"]);
    assert_eq!(report.skills[1].text.as_deref(), Some("user"));
    let report = reported(&tree, known("claude@2.1.197"), &["--add-dir", "/x"]);
    assert_eq!(names(&report), ["a", "m", "m", "n", "z"], "the older one lists all of a name");
}

#[test]
fn a_skill_of_an_added_directory_is_listed_with_its_scope_where_its_name_is_taken() {
    let mut tree = tree();
    skill(&mut tree, "/r/.claude/skills/dup", "ours");
    skill(&mut tree, "/a/x/.claude/skills/dup", "first");
    skill(&mut tree, "/b/x/.claude/skills/dup", "second");
    skill(&mut tree, "/b/y/.claude/skills/dup", "third");
    skill(&mut tree, "/b/y/.claude/skills/only", "fourth");
    let added = ["--add-dir", "/a/x", "/b/x", "/b/y"];
    let report = reported(&tree, known("claude"), &added);
    assert_eq!(names(&report), ["dup", "only", "a/x:dup", "b/x:dup", "y:dup"]);
    assert!(report.skills.iter().all(|it| it.whole));
}

#[test]
fn codex_checks_names_of_directories_and_products() {
    let mut tree = tree();
    let root = "/r/.agents/skills";
    let long = "d".repeat(65);
    tree.write(format!("{root}/{long}/SKILL.md"), "---\ndescription: d\n---\n");
    tree.write(format!("{root}/unset/SKILL.md"), "---\nname: ~\ndescription: d\n---\n");
    tree.write(format!("{root}/map/SKILL.md"), "---\ndescription: {a: b}\n---\n");
    tree.write(format!("{root}/list/SKILL.md"), "---\ndescription: [a, b]\n---\n");
    for (name, policy) in [
        ("for-codex", "products: [chatgpt, codex]"),
        ("for-others", "products: [atlas]"),
        ("for-unknown", "products: [codex, zz]\n  allow_implicit_invocation: false"),
        ("hidden", "allow_implicit_invocation: false"),
    ] {
        skill(&mut tree, &format!("{root}/{name}"), "d");
        tree.write(format!("{root}/{name}/agents/openai.yaml"), format!("policy:\n  {policy}\n"));
    }
    let report = reported(&tree, known("codex"), &[]);
    assert_eq!(names(&report), ["for-codex", "for-unknown", "map", "unset"]);
}

/// The skills that Codex lists with a limit of tokens, each with the bytes of its description. The same tree was measured.
fn listed_by_codex(tokens: u64) -> Vec<(String, u64)> {
    let mut tree = MemoryTree::default();
    tree.write("/lab/w/repo/.git/HEAD", "ref: refs/heads/main\n");
    let config = format!("[skills]\nmax_context_tokens = {tokens}\n");
    tree.write("/lab/home/.codex/config.toml", config);
    let places = [
        "w/repo/.agents",
        "home/.codex",
        "home/.agents",
        "w/repo/sub/.agents",
        "w/repo/sub/.codex",
    ];
    for place in places {
        for start in ["aa", "bb", "cc", "dd"] {
            let name = format!("{start}-{}_skills", place.replace(['/', '.'], "_"));
            let description = "some words about it that are long enough to be cut";
            skill(&mut tree, &format!("/lab/{place}/skills/{name}"), description);
        }
    }
    let session = Session::new("/lab/w/repo/sub", "/lab/home");
    let report = explain(&tree, &session, &[known("codex")]).agents.remove(0);
    report.skills.into_iter().map(|it| (it.name, it.description_bytes_loaded)).collect()
}

#[test]
fn the_table_of_roots_takes_part_of_the_budget_of_codex() {
    let listed = listed_by_codex(600);
    let bytes: Vec<u64> = listed.iter().map(|(_, bytes)| *bytes).collect();
    let expected = [26, 28, 28, 24, 26, 26, 24, 26, 26, 24, 26, 26, 24, 26, 26, 24];
    assert_eq!(bytes[..16], expected);
    assert_eq!(bytes[16..], [26, 24, 26, 24, 26, 24, 26, 24]);
}

#[test]
fn a_tiny_budget_of_codex_lists_whole_paths_where_more_names_fit_then() {
    let names = |tokens| -> Vec<String> {
        listed_by_codex(tokens).into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names(40), ["imagegen", "openai-docs"]);
    assert_eq!(names(100).len(), 5);
    assert_eq!(names(200).len(), 10);
}

#[test]
fn commands_are_listed_by_their_own_name_and_whatever_their_paths() {
    let mut tree = tree();
    skill(&mut tree, "/r/.claude/skills/one", "d");
    let front = |name: &str| format!("---\nname: {name}\ndescription: d\npaths: src/**\n---\n");
    tree.write("/r/.claude/commands/two.md", front("other"));
    tree.write("/r/.claude/skills/three/SKILL.md", front("more"));
    let used = |edition| {
        let report = reported(&tree, edition, &[]);
        let own = report.skills.iter().filter(|it| it.path.is_some()).map(|it| it.name.clone());
        assert_eq!(own.collect::<Vec<_>>(), ["one", "two"], "{edition:?}");
        report.skills_budget.unwrap().used
    };
    let with_command = [known("claude@2.1.197"), known("claude")].map(used);
    let mut without = tree.clone();
    without.remove("/r/.claude/commands");
    for (edition, with_command) in
        [known("claude@2.1.197"), known("claude")].into_iter().zip(with_command)
    {
        let without = reported(&without, edition, &[]).skills_budget.unwrap().used;
        assert_eq!(with_command - without, "- two: d\n".len() as u64, "{edition:?}");
    }
}

#[test]
fn gemini_finds_no_skill_in_node_modules() {
    let mut tree = tree();
    skill(&mut tree, "/r/.gemini/skills/node_modules", "d");
    skill(&mut tree, "/r/.gemini/skills/one", "d");
    let report = reported(&tree, known("gemini"), &[]);
    let own = report.skills.iter().filter(|it| it.path.is_some()).map(|it| &*it.name);
    assert_eq!(own.collect::<Vec<_>>(), ["one"]);
}

#[test]
fn claude_lists_no_skill_without_the_tool_that_runs_them() {
    let mut tree = tree();
    skill(&mut tree, "/r/.claude/skills/one", "d");
    let count = |tree: &MemoryTree, arguments: &[&str]| {
        reported(tree, known("claude"), arguments).skills.len()
    };
    let all = count(&tree, &[]);
    assert!(all > 1);
    let cases: [(&[&str], bool); 8] = [
        (&["--tools", "Bash,Read"], false),
        (&["--tools", ""], false),
        (&["--tools", "Bash,Skill"], true),
        (&["--tools", "Bash", "Skill"], true),
        (&["--tools", "default"], true),
        (&["--disallowedTools", "Skill"], false),
        (&["--disallowedTools", "Skill(one)"], true),
        (&["--disallowed-tools", "Bash,Skill"], false),
    ];
    for (arguments, is_listed) in cases {
        let expected = if is_listed { all } else { 0 };
        assert_eq!(count(&tree, arguments), expected, "{arguments:?}");
    }
    for (rule, is_listed) in
        [("Skill", false), ("Skill(*)", false), ("*", false), ("skill", true), ("Skill(one)", true)]
    {
        let settings = format!(r#"{{"permissions": {{"deny": ["{rule}"]}}}}"#);
        tree.write("/r/.claude/settings.json", settings);
        assert_eq!(count(&tree, &[]), if is_listed { all } else { 0 }, "{rule}");
    }
}
