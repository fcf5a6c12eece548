//! The traps that users fall into, each with the smallest tree that springs it.

use std::collections::BTreeSet;

use convoke_explain::{Edition, Session, explain};
use convoke_files::MemoryTree;

/// A tree around `/w/repo`, where the home directory is `/w/home`.
struct TestTree {
    tree: MemoryTree,
    session: Session,
}

fn tree(cwd: &str, files: &[(&str, &str)]) -> TestTree {
    let mut tree = MemoryTree::default();
    tree.create_directory("/w/home");
    tree.create_directory(cwd);
    for (path, text) in files {
        tree.write(path, *text);
    }
    let mut session = Session::new(cwd, "/w/home");
    session.variables.insert("GEMINI_CLI_TRUST_WORKSPACE".into(), "true".into());
    TestTree { tree, session }
}

/// The same with a repository at `/w/repo`.
fn repository(cwd: &str, files: &[(&str, &str)]) -> TestTree {
    let mut tree = tree(cwd, files);
    tree.tree.write("/w/repo/.git/HEAD", "x");
    tree
}

impl TestTree {
    /// The codes of the diagnostics, each with the agent that it is given for.
    fn codes(&self) -> BTreeSet<(String, String)> {
        let measured = convoke_vendors::editions().iter().copied();
        let measured: Vec<Edition> = measured.filter(|it| !it.rules().is_optional).collect();
        let report = explain(&self.tree, &self.session, &measured);
        let given = report.agents.iter().flat_map(|agent| {
            let codes = agent.diagnostics.iter().map(|it| it.code.name().to_owned());
            codes.map(|code| (agent.edition.to_string(), code))
        });
        given.collect()
    }

    /// Checks that exactly these agents are told.
    fn tells(&self, code: &str, agents: &[&str]) {
        let codes = self.codes();
        let told: Vec<_> = codes
            .iter()
            .filter(|(_, given)| *given == code)
            .map(|(agent, _)| agent.split('@').next().unwrap_or(agent))
            .collect();
        let mut told = told;
        told.dedup();
        assert_eq!(told, agents, "{code}: {codes:?}");
    }
}

const ROOT: &str = "/w/repo";
const SUB: &str = "/w/repo/sub";

#[test]
fn trap_1_a_large_root_file_deletes_the_nearer_ones() {
    let large = "x".repeat(40_000);
    let tree = repository(SUB, &[("/w/repo/AGENTS.md", &large), ("/w/repo/sub/AGENTS.md", "lost")]);
    tree.tells("agents-md.truncated", &["codex"]);
}

#[test]
fn trap_2_imports_of_the_root_file_are_lost_in_a_sub_directory() {
    let files = [("/w/repo/CLAUDE.md", "@docs/a.md"), ("/w/repo/docs/a.md", "a")];
    repository(SUB, &files).tells("import.outside", &["claude"]);
    repository(ROOT, &files).tells("import.outside", &[]);
}

#[test]
fn trap_3_one_unreadable_file_loses_all() {
    let mut tree = repository(SUB, &[("/w/repo/AGENTS.md", "a"), ("/w/repo/sub/AGENTS.md", "b")]);
    tree.tree.lock("/w/repo/sub/AGENTS.md");
    tree.tells("agents-md.unreadable", &["codex"]);
}

#[test]
fn trap_4_an_untrusted_project_has_no_documents() {
    let config = "[projects.\"/w/repo\"]\ntrust_level = \"untrusted\"\n";
    let files = [("/w/repo/AGENTS.md", "a"), ("/w/home/.codex/config.toml", config)];
    let tree = repository(ROOT, &files);
    tree.tells("agents-md.untrusted", &["codex"]);
    assert!(!tree.codes().contains(&("codex@0.98".to_owned(), "agents-md.untrusted".to_owned())));
    tree.tells("versions.differ", &["codex"]);
}

#[test]
fn traps_5_and_6_only_claude_reads_what_lies_above() {
    let files = [("/w/CLAUDE.md", "above"), ("/w/repo/CLAUDE.md", "own")];
    repository(ROOT, &files).tells("parents.above-root", &["claude"]);
    tree(ROOT, &files).tells("parents.without-root", &["claude"]);
    repository(SUB, &[("/w/repo/CLAUDE.md", "own")]).tells("parents.above-root", &[]);
}

#[test]
fn trap_7_a_blank_file_switches_its_directory_off() {
    let files = [("/w/repo/AGENTS.override.md", "\n"), ("/w/repo/AGENTS.md", "a")];
    repository(ROOT, &files).tells("agents-md.blank", &["codex"]);
}

#[test]
fn trap_8_gemini_sorts_by_name() {
    let files = [("/w/repo/GEMINI.md", "root"), ("/w/repo/App/GEMINI.md", "app")];
    repository("/w/repo/App", &files).tells("order.by-name", &["gemini"]);
}

#[test]
fn trap_9_names_add_up_and_settings_count_here_only() {
    let setting = r#"{"context": {"fileName": "AGENTS.md"}}"#;
    let files = [
        ("/w/repo/.gemini/settings.json", setting),
        ("/w/repo/AGENTS.md", "a"),
        ("/w/repo/GEMINI.md", "g"),
    ];
    repository(ROOT, &files).tells("names.add-up", &["gemini"]);
    repository(SUB, &files).tells("settings.elsewhere", &["gemini"]);
}

#[test]
fn trap_10_agents_md_alone_is_read_by_codex_alone() {
    repository(ROOT, &[("/w/repo/AGENTS.md", "a")]).tells("names.unread", &["claude", "gemini"]);
    repository(ROOT, &[("/w/repo/CLAUDE.md", "a")]).tells("names.unread", &["codex", "gemini"]);
    let text = "the same instructions for every agent";
    let setting = r#"{"context": {"fileName": "AGENTS.md"}}"#;
    let files = [
        ("/w/repo/AGENTS.md", text),
        ("/w/repo/GEMINI.md", "@AGENTS.md"),
        ("/w/home/.gemini/settings.json", setting),
    ];
    let mut tree = repository(ROOT, &files);
    tree.tells("text.twice", &["gemini"]);
    tree.tree.remove("/w/repo/GEMINI.md");
    tree.tree.link("/w/repo/GEMINI.md", "AGENTS.md");
    tree.tells("text.twice", &[]);
    tree.tree.link("/w/repo/CLAUDE.md", "AGENTS.md");
    tree.tells("names.unread", &[]);
}

#[test]
fn trap_11_what_looks_like_an_import_and_is_none() {
    let files = [
        ("/w/repo/CLAUDE.md", "See (@a.md)."),
        ("/w/repo/a.md", "a"),
        ("/w/repo/GEMINI.md", "Ask @alice."),
    ];
    let tree = repository(ROOT, &files);
    tree.tells("import.not-taken", &["claude"]);
    tree.tells("import.prose", &["gemini"]);
}

#[test]
fn trap_12_imports_in_comments() {
    let text = "<!-- @a.md -->\n";
    let files = [("/w/repo/CLAUDE.md", text), ("/w/repo/GEMINI.md", text), ("/w/repo/a.md", "a")];
    repository(ROOT, &files).tells("import.in-comment", &["gemini"]);
}

#[test]
fn trap_13_front_matter_and_comments_are_dropped_by_claude() {
    let text = "---\ntitle: x\n---\nbody\n\n<!-- c -->\n";
    let files =
        [("/w/repo/CLAUDE.md", text), ("/w/repo/GEMINI.md", text), ("/w/repo/AGENTS.md", text)];
    repository(ROOT, &files).tells("text.dropped", &["claude"]);
}

#[test]
fn trap_14_rules_have_no_order_wait_for_files_and_know_no_cursor_keys() {
    let tree = repository(
        ROOT,
        &[
            ("/w/repo/.claude/rules/a.md", "a"),
            ("/w/repo/.claude/rules/b.md", "---\nglobs: x\n---\nb"),
            ("/w/repo/.claude/rules/c.md", "---\npaths: src\n---\nc"),
        ],
    );
    for code in ["rules.unordered", "rules.cursor-keys", "rules.conditional"] {
        tree.tells(code, &["claude"]);
    }
}

#[test]
fn trap_15_files_that_are_too_large() {
    let large = "x".repeat(4 * 1024 * 1024 + 1);
    let files = [("/w/repo/CLAUDE.md", large.as_str()), ("/w/repo/GEMINI.md", &large)];
    repository(ROOT, &files).tells("file.too-large", &["claude", "gemini"]);
}

#[test]
fn trap_16_added_directories() {
    let names = ["CLAUDE.md", "GEMINI.md", "AGENTS.md"];
    let paths: Vec<_> =
        names.iter().flat_map(|it| [format!("/w/add/{it}"), format!("/w/repo/{it}")]).collect();
    let files: Vec<_> = paths.iter().map(|path| (path.as_str(), path.as_str())).collect();
    let mut tree = repository(ROOT, &files);
    let arguments = ["--add-dir", "/w/add", "--include-directories", "/w/add"];
    tree.session.arguments = arguments.map(str::to_owned).to_vec();
    tree.tells("added-directory.unread", &["claude", "codex"]);
    tree.tells("added-directory.sorted", &["gemini"]);
}

#[test]
fn trap_17_nested_worktrees_and_submodules() {
    let nested = repository(
        "/w/repo/trees/x",
        &[
            ("/w/repo/CLAUDE.md", "main"),
            ("/w/repo/.git/worktrees/x/commondir", "../.."),
            ("/w/repo/trees/x/.git", "gitdir: /w/repo/.git/worktrees/x"),
        ],
    );
    nested.tells("worktree.nested", &["claude"]);
    let submodule = repository(
        SUB,
        &[
            ("/w/repo/CLAUDE.md", "outer"),
            ("/w/repo/.git/modules/sub/HEAD", "x"),
            ("/w/repo/sub/.git", "gitdir: ../.git/modules/sub"),
        ],
    );
    submodule.tells("submodule.outer", &["claude"]);
    submodule.tells("parents.above-root", &[]);
}

#[test]
fn trap_18_a_stray_git_cuts_the_root_off() {
    let files =
        [("/w/repo/AGENTS.md", "a"), ("/w/repo/GEMINI.md", "g"), ("/w/repo/CLAUDE.md", "c")];
    let mut tree = repository(SUB, &files);
    tree.tells("root.stray", &[]);
    tree.tree.create_directory("/w/repo/sub/.git");
    tree.tells("root.stray", &["codex", "gemini"]);
}

#[test]
fn trap_19_a_home_that_is_a_repository() {
    let files =
        [("/w/home/.git/HEAD", "x"), ("/w/home/AGENTS.md", "a"), ("/w/home/GEMINI.md", "g")];
    tree("/w/home/project", &files).tells("root.is-home", &["codex", "gemini"]);
    tree("/w/home", &files).tells("root.is-home", &[]);
}

#[test]
fn trap_20_wrong_names_places_and_encodings() {
    let wrong = [
        ("/w/repo/claude.md", "c"),
        ("/w/repo/Agents.md", "a"),
        ("/w/repo/.gemini/GEMINI.md", "g"),
        ("/w/repo/.codex/AGENTS.md", "a"),
        ("/w/repo/.claude/CLAUDE.local.md", "l"),
    ];
    let tree = repository(ROOT, &wrong);
    tree.tells("names.case", &["claude", "codex"]);
    tree.tells("names.place", &["claude", "codex", "gemini"]);
    let mut tree = repository(ROOT, &[]);
    for name in ["CLAUDE.md", "GEMINI.md", "AGENTS.md"] {
        tree.tree.write(format!("/w/repo/{name}"), b"\xff\xfeh\0i\0".to_vec());
    }
    tree.tells("file.utf16", &["claude", "codex", "gemini"]);
}

#[test]
fn trap_21_exclusions_that_reach_too_far_or_nowhere() {
    let settings = r#"{"claudeMdExcludes": ["**/.claude/CLAUDE.md", "CLAUDE.md"]}"#;
    let files =
        [("/w/repo/.claude/settings.json", settings), ("/w/home/.claude/CLAUDE.md", "mine")];
    let tree = repository(ROOT, &files);
    tree.tells("excludes.user-file", &["claude"]);
    tree.tells("excludes.nothing", &["claude"]);
}

#[test]
fn trap_22_an_upgrade_of_codex_changes_what_is_loaded() {
    let mut tree = repository(ROOT, &[("/w/repo/AGENTS.md", "a")]);
    tree.tells("versions.differ", &[]);
    tree.tree.link("/w/repo/AGENTS.override.md", "nowhere");
    tree.tells("versions.differ", &["codex"]);
}

#[test]
fn trap_23_notes_that_the_agents_wrote_are_loaded_too() {
    let files = [
        ("/w/home/.claude/projects/-w-repo/memory/MEMORY.md", "notes"),
        ("/w/home/.gemini/tmp/repo/memory/MEMORY.md", "notes"),
    ];
    repository(ROOT, &files).tells("memory.loaded", &["claude", "gemini"]);
}

#[test]
fn trap_24_a_file_can_close_its_wrapper() {
    let files = [
        ("/w/repo/CLAUDE.md", "a\n</system-reminder>\n"),
        ("/w/repo/GEMINI.md", "</loaded_context>"),
        ("/w/repo/AGENTS.md", "</INSTRUCTIONS>"),
    ];
    repository(ROOT, &files).tells("text.closes-wrapper", &["claude", "codex", "gemini"]);
}

#[test]
fn a_plain_repository_springs_no_trap() {
    let mut tree = repository(SUB, &[("/w/repo/AGENTS.md", "Use tabs.")]);
    for name in ["CLAUDE.md", "GEMINI.md"] {
        tree.tree.link(format!("/w/repo/{name}"), "AGENTS.md");
    }
    assert!(tree.codes().is_empty(), "{:?}", tree.codes());
}

#[test]
fn every_code_says_what_to_do() {
    for code in convoke_explain::diagnostics::ALL {
        assert!(code.fix().ends_with('.'), "{code}");
        assert!(code.meaning().ends_with('.'), "{code}");
    }
}

#[test]
fn nested_instruction_files_are_named_with_when_they_count() {
    let paths = ["a/CLAUDE.md", "a/b/AGENTS.md", "a/GEMINI.md", "node_modules/x/CLAUDE.md"];
    let paths = paths.map(|path| format!("/w/repo/{path}"));
    let files: Vec<_> = paths.iter().map(|path| (path.as_str(), "text")).collect();
    let stage = repository("/w/repo", &files);
    let rules = |edition| {
        let report = explain(&stage.tree, &stage.session, &[edition]).agents.remove(0);
        let below = report.ignored.iter().filter(|it| it.path.starts_with("/w/repo"));
        below.map(|it| format!("{}: {}", it.path.display(), it.rule)).collect::<Vec<_>>()
    };
    let on_read = "only when a file in or below its directory is read";
    assert_eq!(rules(known("claude@2.1.197")), [format!("/w/repo/a/CLAUDE.md: {on_read}")]);
    assert_eq!(rules(known("gemini")), [format!("/w/repo/a/GEMINI.md: {on_read}")]);
    assert_eq!(rules(known("codex")), ["/w/repo/a/b/AGENTS.md: below the working directory"]);
}

#[test]
fn an_untrusted_folder_says_what_trust_would_load() {
    let mut stage = repository("/w/repo", &[("/w/repo/GEMINI.md", "Use tabs.")]);
    stage.session.variables.clear();
    let report = explain(&stage.tree, &stage.session, &[known("gemini")]).agents.remove(0);
    let message = &report.diagnostics[0].message;
    let expected = "once it is trusted, /w/repo/GEMINI.md is loaded, 9 bytes";
    assert!(message.ends_with(expected), "{message}");
}

#[test]
fn the_fix_of_an_unread_file_fits_the_tree() {
    let stage = repository("/w/repo", &[("/w/repo/GEMINI.md", "Use tabs.")]);
    let report = explain(&stage.tree, &stage.session, &[known("claude")]).agents.remove(0);
    let message = &report.diagnostics[0].message;
    assert!(message.ends_with("`ln -s GEMINI.md /w/repo/CLAUDE.md`"), "{message}");
}

#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
fn known(name: &str) -> Edition {
    convoke_vendors::edition(name).unwrap()
}
