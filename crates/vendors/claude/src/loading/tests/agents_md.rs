//! Tests of the rules that are new in Claude Code 2.1.325.

use super::*;

/// A place where the newer edition is started.
fn newer(cwd: &str, files: &[(&str, &str)]) -> Place {
    Place { edition: Release::V325, ..place(cwd, files) }
}

fn with_option(option: &str, value: &str) -> String {
    format!(r#"{{"pluginConfigs":{{"agents-md@builtin":{{"options":{{"{option}":"{value}"}}}}}}}}"#)
}

const USER_SETTINGS: &str = "/w/home/.claude/settings.json";

#[test]
fn agents_md_of_every_directory_loads_where_there_is_no_claude_md() {
    let files = [
        ("/w/AGENTS.md", "above"),
        ("/w/repo/AGENTS.md", "root"),
        ("/w/repo/.claude/AGENTS.md", "dot"),
        ("/w/repo/sub/.claude/rules/r.md", "rule"),
        ("/w/repo/sub/AGENTS.md", "sub"),
        ("/w/repo/sub/AGENTS.override.md", "never"),
        ("/w/home/.claude/AGENTS.md", "never"),
    ];
    let expected = [
        "/w/AGENTS.md",
        "/w/repo/AGENTS.md",
        "/w/repo/.claude/AGENTS.md",
        "/w/repo/sub/.claude/rules/r.md",
        "/w/repo/sub/AGENTS.md",
    ];
    assert_eq!(newer("/w/repo/sub", &files).loaded(), expected);
    assert_eq!(place("/w/repo/sub", &files).loaded(), ["/w/repo/sub/.claude/rules/r.md"]);
}

#[test]
fn one_claude_md_on_the_way_switches_every_agents_md_off() {
    for claude_md in ["/w/CLAUDE.md", "/w/repo/.claude/CLAUDE.md", "/w/repo/sub/CLAUDE.local.md"] {
        let files = [(claude_md, "c"), ("/w/repo/AGENTS.md", "a"), ("/w/repo/sub/AGENTS.md", "s")];
        let place = newer("/w/repo/sub", &files);
        assert_eq!(place.loaded(), [claude_md]);
        assert_eq!(place.rule("/w/repo/AGENTS.md"), format!("shadowed by {claude_md}"));
    }
    for nothing in [" \n", "<!-- only a comment -->\n", "---\na: b\n---\n"] {
        let files = [("/w/repo/CLAUDE.md", nothing), ("/w/repo/AGENTS.md", "a")];
        assert_eq!(newer("/w/repo", &files).loaded(), ["/w/repo/AGENTS.md"], "{nothing:?}");
    }
}

#[test]
fn a_local_file_counts_even_where_it_is_not_loaded() {
    let files = [("/w/repo/CLAUDE.local.md", "l"), ("/w/repo/AGENTS.md", "a")];
    let place = newer("/w/repo", &files).started_with(&["--setting-sources", "project"]);
    assert!(place.loaded().is_empty());
    let files = [("/w/repo/AGENTS.md", "a")];
    let place = newer("/w/repo", &files).started_with(&["--setting-sources", "user"]);
    assert!(place.loaded().is_empty());
}

#[test]
fn the_users_own_file_on_the_way_is_not_the_projects() {
    let files = [
        ("/w/home/.claude/CLAUDE.md", "mine"),
        ("/w/home/.claude/AGENTS.md", "dot"),
        ("/w/home/p/AGENTS.md", "project"),
    ];
    let expected =
        ["/w/home/.claude/CLAUDE.md", "/w/home/.claude/AGENTS.md", "/w/home/p/AGENTS.md"];
    assert_eq!(newer("/w/home/p", &files).loaded(), expected);
}

#[test]
fn an_option_decides_which_files_are_read() {
    let (claude, agents) = ("/w/repo/CLAUDE.md", "/w/repo/AGENTS.md");
    let cases: [(&str, &str, &[&str]); 9] = [
        ("instructionFiles", "claude-md-or-agents-md", &[claude]),
        ("instructionFiles", "claude-md-and-agents-md", &[claude, agents]),
        ("instructionFiles", "claude-md", &[claude]),
        ("instructionFiles", "nonsense", &[claude]),
        ("instructionFiles", "managed-only", &[]),
        ("projectInstructions", "both", &[claude, agents]),
        ("projectInstructions", "none", &[]),
        ("projectInstructions", "agents-fallback", &[claude]),
        ("projectInstructions", "zzz", &[claude]),
    ];
    for (option, value, expected) in cases {
        let settings = with_option(option, value);
        let files = [(claude, "c"), (agents, "a"), (USER_SETTINGS, settings.as_str())];
        assert_eq!(newer("/w/repo", &files).loaded(), expected, "{option} {value}");
    }
    let both = with_option("instructionFiles", "claude-md-and-agents-md");
    let files = [(claude, "c"), (agents, "a"), ("/w/repo/.claude/settings.json", both.as_str())];
    assert_eq!(newer("/w/repo", &files).loaded(), [claude], "a project does not decide this");
    let place = newer("/w/repo", &files[..2]).started_with(&["--settings", &both]);
    assert_eq!(place.loaded(), [claude, agents]);
}

#[test]
fn a_project_may_switch_the_plugin_off() {
    let off = r#"{"enabledPlugins":{"agents-md@builtin":false}}"#;
    let on = r#"{"enabledPlugins":{"cc-plugin-agents-md@builtin":true}}"#;
    let files =
        [("/w/repo/AGENTS.md", "a"), ("/w/repo/.claude/settings.json", off), (USER_SETTINGS, on)];
    let place = newer("/w/repo", &files);
    assert!(place.loaded().is_empty());
    let rule = "switched off by the agents-md plugin's settings";
    assert_eq!(place.rule("/w/repo/AGENTS.md"), rule);
}

#[test]
fn copies_of_other_files_are_left_out_and_copies_of_agents_md_are_not() {
    let files = [
        ("/w/repo/.claude/rules/r.md", "same\n"),
        ("/w/repo/AGENTS.md", "same"),
        ("/w/repo/sub/AGENTS.md", "own"),
        ("/w/repo/sub/.claude/AGENTS.md", "own"),
    ];
    let place = newer("/w/repo/sub", &files);
    let expected =
        ["/w/repo/.claude/rules/r.md", "/w/repo/sub/AGENTS.md", "/w/repo/sub/.claude/AGENTS.md"];
    assert_eq!(place.loaded(), expected);
    let rule = "the same text as /w/repo/.claude/rules/r.md";
    assert_eq!(place.rule("/w/repo/AGENTS.md"), rule);
}

#[test]
fn below_the_working_directory_each_directory_decides_for_itself() {
    let files = [
        ("/w/repo/a/AGENTS.md", "a"),
        ("/w/repo/a/b/AGENTS.md", "b"),
        ("/w/repo/a/b/CLAUDE.md", "c"),
        ("/w/repo/a/b/c/.claude/AGENTS.md", "d"),
    ];
    let read = "/w/repo/a/b/c/f.txt";
    let expected =
        ["/w/repo/a/b/CLAUDE.md", "/w/repo/a/AGENTS.md", "/w/repo/a/b/c/.claude/AGENTS.md"];
    let nested = newer("/w/repo", &files).after_reading(read).after_reading(read);
    assert_eq!(nested.loaded(), expected);
    let without = newer("/w/repo", &files).after_reading(read);
    assert!(without.set("CLAUDE_CODE_DISABLE_ATTACHMENTS", "1").loaded().is_empty());
    let mut files = files.to_vec();
    files.push(("/w/repo/CLAUDE.md", "root"));
    let expected = ["/w/repo/CLAUDE.md", "/w/repo/a/b/CLAUDE.md"];
    assert_eq!(newer("/w/repo", &files).after_reading(read).loaded(), expected);
}

#[test]
fn agents_md_follows_added_directories_if_nothing_deeper_does() {
    let files = [("/w/repo/AGENTS.md", "a"), ("/w/other/CLAUDE.md", "o")];
    let place = newer("/w/repo", &files)
        .started_with(&["--add-dir", "/w/other"])
        .set("CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD", "1");
    assert_eq!(place.loaded(), ["/w/other/CLAUDE.md", "/w/repo/AGENTS.md"]);
}

#[test]
fn links_that_leave_the_working_directory_bring_no_imports_and_no_rules() {
    let files =
        [("/w/repo/CLAUDE.md", "@in.md @out.md"), ("/w/x/o.md", "o"), ("/w/repo/i.md", "i")];
    let linked = |edition| {
        let mut place = Place { edition, ..place("/w/repo", &files) };
        place.tree.link("/w/repo/in.md", "i.md");
        place.tree.link("/w/repo/out.md", "/w/x/o.md");
        place.tree.link("/w/repo/.claude/rules/o.md", "/w/x/o.md");
        place
    };
    assert_eq!(linked(Release::V325).loaded(), ["/w/repo/CLAUDE.md", "/w/repo/in.md"]);
    assert_eq!(
        linked(Release::V325).rule("/w/repo/.claude/rules/o.md"),
        "a link that leads out of /w/repo"
    );
    let expected = ["/w/repo/CLAUDE.md", "/w/repo/in.md", "/w/repo/out.md"];
    assert_eq!(linked(Release::V197).loaded(), expected);
    let approved = r#"{"projects":{"/w/repo":{"hasClaudeMdExternalIncludesApproved":true}}}"#;
    let mut place = linked(Release::V325);
    place.tree.write("/w/home/.claude.json", approved);
    assert_eq!(place.loaded(), expected);
    let block = r#"{"permissions":{"blockReadsOutsideWorkingDirectories":true}}"#;
    place.tree.write(USER_SETTINGS, block);
    assert_eq!(place.loaded(), ["/w/repo/CLAUDE.md", "/w/repo/in.md"]);
}

#[test]
fn whole_rules_directories_may_be_links_that_stay_inside() {
    let files = [("/w/repo/shared/r.md", "r"), ("/w/repo/sub/f", "x")];
    let linked = |cwd| {
        let mut place = newer(cwd, &files);
        place.tree.link("/w/repo/.claude/rules", "/w/repo/shared");
        place
    };
    assert_eq!(linked("/w/repo").loaded(), ["/w/repo/shared/r.md"]);
    assert!(linked("/w/repo/sub").loaded().is_empty());
}

#[test]
fn deny_rules_hide_the_files_of_a_project_and_no_others() {
    let deny = r#"{"permissions":{"deny":["Read"]}}"#;
    let files = [
        (USER_SETTINGS, deny),
        ("/w/home/.claude/CLAUDE.md", "mine"),
        ("/w/repo/CLAUDE.md", "c"),
        ("/w/repo/AGENTS.md", "a"),
    ];
    let place = newer("/w/repo", &files);
    assert_eq!(place.loaded(), ["/w/home/.claude/CLAUDE.md"]);
    assert_eq!(place.rule("/w/repo/CLAUDE.md"), "denied by the permission rule Read");
    let place =
        newer("/w/repo", &files[1..]).started_with(&["--disallowedTools", "Read(./CLAUDE.md)"]);
    assert_eq!(place.loaded(), ["/w/home/.claude/CLAUDE.md", "/w/repo/AGENTS.md"]);
}

#[test]
fn local_settings_of_the_root_count_below_it() {
    let excludes = r#"{"claudeMdExcludes":["**/CLAUDE.md"]}"#;
    let files = [
        ("/w/repo/.git/HEAD", "x"),
        ("/w/repo/.claude/settings.local.json", excludes),
        ("/w/repo/sub/CLAUDE.md", "c"),
    ];
    assert!(newer("/w/repo/sub", &files).loaded().is_empty());
    assert_eq!(place("/w/repo/sub", &files).loaded(), ["/w/repo/sub/CLAUDE.md"]);
    assert_eq!(newer("/w/repo/sub", &files[1..]).loaded(), ["/w/repo/sub/CLAUDE.md"]);
}
