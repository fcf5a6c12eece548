//! Tests of the copies of users' configurations.

use std::os::unix::fs::symlink;
use std::path::Path;

use convoke_vendor::{ConfigurationCopy, MeasuredCli, UserHome};
use serde_json::Value;

fn cli(name: &str) -> &'static dyn MeasuredCli {
    convoke_vendors::cli(name).unwrap()
}

fn write(home: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = home.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

#[test]
fn configuration_is_copied_and_credentials_are_not() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(
        from.path(),
        &[
            (".codex/config.toml", "model = \"x\""),
            (".codex/fast.config.toml", "model = \"y\""),
            (".codex/skills/a/SKILL.md", "skill"),
            (".agents/skills/b/SKILL.md", "skill"),
            (".codex/auth.json", "secret"),
            (".codex/log/x.log", "log"),
            (".claude/CLAUDE.md", "not this CLI's"),
        ],
    );
    let user = UserHome::below(cli("codex"), from.path());
    ConfigurationCopy::make(cli("codex"), &user, to.path(), Path::new("/p")).unwrap();
    let there = |path: &str| to.path().join(path).exists();
    assert!(there(".codex/config.toml") && there(".codex/skills/a/SKILL.md"));
    assert!(there(".codex/fast.config.toml") && there(".agents/skills/b/SKILL.md"));
    assert!(!there(".codex/auth.json") && !there(".codex/log") && !there(".claude"));
}

#[test]
fn of_claudes_state_only_what_decides_over_files_and_skills_is_copied() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let state = r#"{"primaryApiKey": "k", "oauthAccount": {"emailAddress": "e"}, "skillUsage": {"a": {"usageCount": 1}},
        "projects": {"/p": {"hasClaudeMdExternalIncludesApproved": true, "lastCost": 3, "history": ["h"]}}}"#;
    write(
        from.path(),
        &[
            (".claude.json", state),
            (".claude/projects/-p/memory/MEMORY.md", "notes"),
            (".claude/projects/-p/session.jsonl", "transcript"),
            (".claude/projects/-other/memory/MEMORY.md", "notes"),
            (".claude/.credentials.json", "secret"),
            (".claude/plugins/installed_plugins.json", "{}"),
        ],
    );
    let user = UserHome::below(cli("claude"), from.path());
    let left =
        ConfigurationCopy::make(cli("claude"), &user, to.path(), Path::new("/p/sub")).unwrap();
    assert_eq!(left, [from.path().join(".claude/plugins")]);
    let state = std::fs::read_to_string(to.path().join(".claude.json")).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&state).unwrap(),
        serde_json::json!({
            "projects": {"/p": {"hasClaudeMdExternalIncludesApproved": true}},
            "skillUsage": {"a": {"usageCount": 1}},
        })
    );
    let there = |path: &str| to.path().join(".claude").join(path).exists();
    assert!(there("projects/-p/memory/MEMORY.md") && !there("projects/-p/session.jsonl"));
    assert!(!there("projects/-other") && !there(".credentials.json"));
}

#[test]
fn files_of_the_home_directory_that_claudes_instructions_import_are_copied() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(
        from.path(),
        &[
            (".claude/CLAUDE.md", "Read @~/notes/a.md and @~/missing.md."),
            ("notes/a.md", "a, see @b.md"),
            ("notes/b.md", "b"),
            ("notes/c.md", "c"),
        ],
    );
    let user = UserHome::below(cli("claude"), from.path());
    ConfigurationCopy::make(cli("claude"), &user, to.path(), Path::new("/p")).unwrap();
    let there = |path: &str| to.path().join(path).exists();
    assert!(there(".claude/CLAUDE.md") && there("notes/a.md") && there("notes/b.md"));
    assert!(!there("notes/c.md"));
}

#[test]
fn a_file_that_is_a_link_is_copied_and_links_below_a_directory_stay_links() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(from.path(), &[("dotfiles/config.toml", "a = 1"), (".codex/skills/a/x", "x")]);
    let below = |path: &str| from.path().join(path);
    symlink(below("dotfiles/config.toml"), below(".codex/config.toml")).unwrap();
    symlink("../skills", below(".codex/skills/loop")).unwrap();
    let user = UserHome::below(cli("codex"), from.path());
    ConfigurationCopy::make(cli("codex"), &user, to.path(), Path::new("/p")).unwrap();
    let copied = to.path().join(".codex/config.toml").symlink_metadata().unwrap();
    assert!(copied.is_file(), "writing to it leaves the user's file alone");
    assert!(to.path().join(".codex/skills/loop").symlink_metadata().unwrap().is_symlink());
}

#[test]
fn gemini_instructions_of_another_name_are_copied() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let settings =
        r#"{"context": {"fileName": ["X.md", "oauth_creds.json", "../out.md"]}} // mine"#;
    let files = [
        (".gemini/settings.json", settings),
        (".gemini/X.md", "x"),
        (".gemini/oauth_creds.json", "secret"),
        ("out.md", "o"),
    ];
    write(from.path(), &files);
    let user = UserHome::below(cli("gemini"), from.path());
    ConfigurationCopy::make(cli("gemini"), &user, to.path(), Path::new("/p")).unwrap();
    assert!(to.path().join(".gemini/X.md").exists());
    assert!(!to.path().join(".gemini/oauth_creds.json").exists());
    assert!(!to.path().join("out.md").exists());
}

#[test]
fn the_variables_that_move_a_configuration_count() {
    let user = |vendor: &str, variable: &str, value: &str| {
        let moved = |name: &str| (name == variable).then(|| Path::new("/w").join(value));
        UserHome::new(cli(vendor), Path::new("/home/kim"), moved)
    };
    let directory = |vendor, name, value| user(vendor, name, value).directory;
    assert_eq!(directory("codex", "CODEX_HOME", "c"), Path::new("/w/c"));
    assert_eq!(directory("claude", "CLAUDE_CONFIG_DIR", "/c"), Path::new("/c"));
    let gemini = user("gemini", "GEMINI_CLI_HOME", "/g");
    assert_eq!(gemini, UserHome::below(cli("gemini"), Path::new("/g")));
    assert_eq!(directory("codex", "X", "1"), Path::new("/home/kim/.codex"));
}

#[test]
fn what_claudes_instructions_import_is_copied_to_where_it_is_looked_for() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let home = from.path().canonicalize().unwrap();
    write(
        &home,
        &[
            (".claude/CLAUDE.md", "@notes/deep.md\n@~/shared/style.md\n@.credentials.json\n"),
            (".claude/notes/deep.md", "@deeper.md\n"),
            (".claude/notes/deeper.md", "deeper"),
            (".claude/.credentials.json", "secret"),
            ("shared/style.md", "style"),
            ("project/own.md", "own"),
            ("project/CLAUDE.md", "@~/project/own.md\n"),
        ],
    );
    let user = UserHome::below(cli("claude"), &home);
    ConfigurationCopy::make(cli("claude"), &user, to.path(), &home.join("project")).unwrap();
    for path in
        [".claude/notes/deep.md", ".claude/notes/deeper.md", "shared/style.md", "project/own.md"]
    {
        assert!(to.path().join(path).exists(), "{path}");
    }
    assert!(!to.path().join(".claude/.credentials.json").exists());
}

#[test]
fn what_geminis_instructions_import_is_copied_to_where_it_is_looked_for() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let home = from.path().canonicalize().unwrap();
    write(
        &home,
        &[
            (".gemini/GEMINI.md", "@./notes/deep.md\n@./oauth_creds.json\n"),
            (".gemini/notes/deep.md", "@./deeper.md\n"),
            (".gemini/notes/deeper.md", "deeper"),
            (".gemini/oauth_creds.json", "secret"),
            ("project/GEMINI.md", "own"),
        ],
    );
    let user = UserHome::below(cli("gemini"), &home);
    ConfigurationCopy::make(cli("gemini"), &user, to.path(), &home.join("project")).unwrap();
    for path in [".gemini/notes/deep.md", ".gemini/notes/deeper.md"] {
        assert!(to.path().join(path).exists(), "{path}");
    }
    assert!(!to.path().join(".gemini/oauth_creds.json").exists());
}
