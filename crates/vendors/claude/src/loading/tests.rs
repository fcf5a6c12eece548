//! Rules of Claude Code, one test each; places are below `/w`, the home directory is `/w/home`.

use convoke_files::MemoryTree;

use super::*;
use convoke_explain::diagnostics;

mod agents_md;
mod rules;

struct Place {
    tree: MemoryTree,
    session: Session,
    edition: Release,
}

fn place(cwd: &str, files: &[(&str, &str)]) -> Place {
    let mut tree = MemoryTree::default();
    tree.create_directory("/w/home");
    tree.create_directory(cwd);
    for (path, text) in files {
        tree.write(path, *text);
    }
    let session = Session::new(cwd, "/w/home");
    Place { tree, session, edition: Release::V197 }
}

impl Place {
    fn explain(&self) -> AgentReport {
        explain(&self.tree, &self.session, self.edition)
    }

    fn loaded(&self) -> Vec<String> {
        let files = self.explain().loaded.into_iter();
        files.map(|file| file.path.display().to_string()).collect()
    }

    fn rule(&self, path: &str) -> String {
        let report = self.explain();
        let found = report.ignored.iter().find(|file| file.path == Path::new(path));
        found.map(|file| file.rule.to_string()).unwrap_or_default()
    }

    fn codes(&self) -> Vec<String> {
        self.explain().diagnostics.iter().map(|it| it.code.name().to_owned()).collect()
    }

    fn set(mut self, name: &str, value: &str) -> Self {
        self.session.variables.insert(name.into(), value.into());
        self
    }

    fn started_with(mut self, arguments: &[&str]) -> Self {
        self.session.arguments = arguments.iter().map(|it| (*it).to_owned()).collect();
        self
    }

    fn after_reading(mut self, path: &str) -> Self {
        self.session.reads.push(path.into());
        self
    }
}

/// A file of each kind in one directory.
fn all_kinds(directory: &str) -> Vec<(String, &'static str)> {
    let names = ["CLAUDE.md", ".claude/CLAUDE.md", ".claude/rules/r.md", "CLAUDE.local.md"];
    let names = names.into_iter().chain([".claude/CLAUDE.local.md"]);
    names.map(|name| (format!("{directory}/{name}"), "text")).collect()
}

fn with_all_kinds(directories: &[&str]) -> Place {
    let files: Vec<_> = directories.iter().flat_map(|it| all_kinds(it)).collect();
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    place("/w/repo/sub", &files)
}

#[test]
fn managed_then_user_then_every_directory_from_the_top_down() {
    let place = place(
        "/w/repo",
        &[
            ("/etc/claude-code/CLAUDE.md", "m"),
            ("/etc/claude-code/managed-settings.json", r#"{"claudeMd": " from settings "}"#),
            ("/etc/claude-code/.claude/rules/m.md", "m"),
            ("/etc/claude-code/.claude/CLAUDE.md", "not read"),
            ("/w/home/.claude/CLAUDE.md", "u"),
            ("/w/home/.claude/rules/deep/u.md", "u"),
            ("/w/CLAUDE.md", "above"),
            ("/w/repo/CLAUDE.md", "p"),
            ("/CLAUDE.md", "the file system's root is not looked at"),
        ],
    );
    let expected = [
        "/etc/claude-code/CLAUDE.md",
        "/etc/claude-code/managed-settings.json",
        "/etc/claude-code/.claude/rules/m.md",
        "/w/home/.claude/CLAUDE.md",
        "/w/home/.claude/rules/deep/u.md",
        "/w/CLAUDE.md",
        "/w/repo/CLAUDE.md",
    ];
    assert_eq!(place.loaded(), expected);
    assert_eq!(place.explain().loaded[1].text, "from settings");
}

#[test]
fn all_kinds_of_a_directory_are_loaded_and_none_shadows_another() {
    let expected = [
        "/w/repo/CLAUDE.md",
        "/w/repo/.claude/CLAUDE.md",
        "/w/repo/.claude/rules/r.md",
        "/w/repo/CLAUDE.local.md",
        "/w/repo/sub/CLAUDE.md",
        "/w/repo/sub/.claude/CLAUDE.md",
        "/w/repo/sub/.claude/rules/r.md",
        "/w/repo/sub/CLAUDE.local.md",
    ];
    assert_eq!(with_all_kinds(&["/w/repo", "/w/repo/sub"]).loaded(), expected);
}

#[test]
fn setting_sources_choose_whose_files_count() {
    let all = || {
        let mut place = with_all_kinds(&["/w/repo"]);
        place.tree.write("/w/home/.claude/CLAUDE.md", "u");
        place
    };
    let cases: [(&str, &[&str]); 4] = [
        ("user", &["/w/home/.claude/CLAUDE.md"]),
        (
            "project",
            &["/w/repo/CLAUDE.md", "/w/repo/.claude/CLAUDE.md", "/w/repo/.claude/rules/r.md"],
        ),
        ("local", &["/w/repo/CLAUDE.local.md"]),
        ("", &[]),
    ];
    for (sources, expected) in cases {
        let place = all().started_with(&["--setting-sources", sources]);
        assert_eq!(place.loaded(), expected, "{sources:?}");
    }
    let off = all().started_with(&["--setting-sources", ""]);
    assert_eq!(off.rule("/w/repo/CLAUDE.md"), "switched off by --setting-sources");
}

#[test]
fn switches_turn_everything_off() {
    for place in [
        with_all_kinds(&["/w/repo"]).set("CLAUDE_CODE_DISABLE_CLAUDE_MDS", "1"),
        with_all_kinds(&["/w/repo"]).started_with(&["--bare"]),
    ] {
        assert!(place.loaded().is_empty());
        assert!(place.rule("/w/repo/CLAUDE.md").starts_with("switched off by"));
    }
    let kept = with_all_kinds(&["/w/repo"]).started_with(&["--system-prompt", "x"]);
    assert_eq!(kept.loaded().len(), 4);
}

#[test]
fn added_directories_count_only_with_the_switch_and_come_last() {
    let place = with_all_kinds(&["/w/extra"]).started_with(&["--add-dir", "/w/extra"]);
    assert!(place.loaded().is_empty());
    assert_eq!(place.codes(), ["added-directory.unread"]);
    let mut place = place.set("CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD", "1");
    place.tree.write("/w/repo/CLAUDE.md", "own");
    let expected = [
        "/w/repo/CLAUDE.md",
        "/w/extra/CLAUDE.md",
        "/w/extra/.claude/CLAUDE.md",
        "/w/extra/.claude/rules/r.md",
        "/w/extra/CLAUDE.local.md",
    ];
    assert_eq!(place.loaded(), expected);
}

#[test]
fn memory_belongs_to_the_repository_and_is_cut() {
    let notes = "line\n".repeat(250);
    let path = "/w/home/.claude/projects/-w-repo/memory/MEMORY.md";
    let files = [("/w/repo/.git/HEAD", "x"), (path, notes.as_str())];
    let place = place("/w/repo/sub", &files);
    let report = place.explain();
    assert_eq!(report.loaded.len(), 1);
    let memory = &report.loaded[0];
    assert_eq!((memory.bytes_loaded, memory.whole), (200 * 5, false));
    assert_eq!(place.codes(), ["memory.truncated"]);
    assert!(place.set("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1").loaded().is_empty());
}

#[test]
fn worktrees_share_the_memory_of_their_main_checkout() {
    let place = place(
        "/w/side",
        &[
            ("/w/repo/.git/HEAD", "x"),
            ("/w/repo/.git/worktrees/side/commondir", "../.."),
            ("/w/side/.git", "gitdir: /w/repo/.git/worktrees/side"),
            ("/w/repo/CLAUDE.md", "not of the worktree"),
            ("/w/home/.claude/projects/-w-repo/memory/MEMORY.md", "notes"),
        ],
    );
    assert_eq!(place.loaded(), ["/w/home/.claude/projects/-w-repo/memory/MEMORY.md"]);
    assert_eq!(place.codes(), ["memory.loaded"]);
}

#[test]
fn a_linked_worktree_lists_the_skills_and_commands_of_its_main_checkout_where_it_has_no_such_directory()
 {
    let skill = "---\ndescription: d\n---\n";
    let mut place = place(
        "/w/side/sub",
        &[
            ("/w/repo/.git/HEAD", "x"),
            ("/w/repo/.git/worktrees/side/commondir", "../.."),
            ("/w/side/.git", "gitdir: /w/repo/.git/worktrees/side"),
            ("/w/repo/.claude/skills/of-main/SKILL.md", skill),
            ("/w/repo/.claude/commands/do-main.md", skill),
            ("/w/side/sub/.claude/skills/of-sub/SKILL.md", skill),
        ],
    );
    let listed = |place: &Place| {
        let skills = place.explain().skills.into_iter().filter(|it| it.path.is_some());
        skills.map(|it| it.name).collect::<Vec<_>>()
    };
    assert_eq!(listed(&place), ["of-sub", "do-main"]);
    place.edition = Release::V325;
    assert_eq!(listed(&place), ["of-sub", "of-main", "do-main"]);
    place.tree.create_directory("/w/side/.claude/skills");
    assert_eq!(listed(&place), ["of-sub", "do-main"]);
}

#[test]
fn skills_are_not_looked_for_in_the_home_and_above_it() {
    let skill = "---\ndescription: d\n---\n";
    let place = place(
        "/w/home/project",
        &[
            ("/w/home/project/.claude/skills/near/SKILL.md", skill),
            ("/w/.claude/skills/above/SKILL.md", skill),
        ],
    );
    let names = place.explain().skills.into_iter().filter(|it| it.path.is_some());
    assert_eq!(names.map(|it| it.name).collect::<Vec<_>>(), ["near"]);
}

#[test]
fn a_worktree_inside_its_main_checkout_skips_that_checkout_but_for_local_files() {
    let place = place(
        "/w/repo/trees/side/sub",
        &[
            ("/w/CLAUDE.md", "above"),
            ("/w/repo/.git/HEAD", "x"),
            ("/w/repo/.git/worktrees/side/commondir", "../.."),
            ("/w/repo/trees/side/.git", "gitdir: /w/repo/.git/worktrees/side"),
            ("/w/repo/CLAUDE.md", "main"),
            ("/w/repo/.claude/rules/r.md", "main"),
            ("/w/repo/CLAUDE.local.md", "local"),
            ("/w/repo/trees/side/CLAUDE.md", "side"),
            ("/w/repo/trees/side/sub/CLAUDE.md", "sub"),
        ],
    );
    let expected = [
        "/w/CLAUDE.md",
        "/w/repo/CLAUDE.local.md",
        "/w/repo/trees/side/CLAUDE.md",
        "/w/repo/trees/side/sub/CLAUDE.md",
    ];
    assert_eq!(place.loaded(), expected);
    assert_eq!(place.codes(), ["worktree.nested"]);
}

#[test]
fn rules_are_markdown_files_at_any_depth_and_links_show_their_target() {
    let mut place = place(
        "/w/repo",
        &[
            ("/w/repo/.claude/rules/.dot.md", "dot"),
            ("/w/repo/.claude/rules/deep/er/a.md", "a"),
            ("/w/repo/.claude/rules/UP.MD", "not this"),
            ("/w/repo/.claude/rules/note.txt", "nor this"),
            ("/w/shared/linked.md", "linked"),
            ("/w/shared/tree/t.md", "tree"),
        ],
    );
    place.tree.link("/w/repo/.claude/rules/l.md", "/w/shared/linked.md");
    place.tree.link("/w/repo/.claude/rules/tree", "/w/shared/tree");
    place.tree.link("/w/repo/.claude/rules/loop", "/w/repo/.claude/rules");
    let mut loaded = place.loaded();
    loaded.sort();
    let expected = [
        "/w/repo/.claude/rules/.dot.md",
        "/w/repo/.claude/rules/deep/er/a.md",
        "/w/shared/linked.md",
        "/w/shared/tree/t.md",
    ];
    assert_eq!(loaded, expected);
}

#[test]
fn a_read_brings_the_directories_between_the_working_directory_and_the_file() {
    let place =
        with_all_kinds(&["/w/repo/sub", "/w/repo/sub/a", "/w/repo/sub/a/b", "/w/repo/other"])
            .after_reading("/w/repo/sub/a/b/f.txt")
            .after_reading("/w/repo/other/f.txt");
    let nested: Vec<_> = place.loaded().split_off(4);
    let expected = [
        "/w/repo/sub/a/CLAUDE.md",
        "/w/repo/sub/a/.claude/CLAUDE.md",
        "/w/repo/sub/a/CLAUDE.local.md",
        "/w/repo/sub/a/.claude/rules/r.md",
        "/w/repo/sub/a/b/CLAUDE.md",
        "/w/repo/sub/a/b/.claude/CLAUDE.md",
        "/w/repo/sub/a/b/CLAUDE.local.md",
        "/w/repo/sub/a/b/.claude/rules/r.md",
    ];
    assert_eq!(nested, expected);
}

#[test]
fn imports_follow_their_file_depth_first_once_and_four_deep() {
    let place = place(
        "/w/repo",
        &[
            ("/w/repo/CLAUDE.md", "@i1.md @b.md @CLAUDE.md"),
            ("/w/repo/i1.md", "@i2.md"),
            ("/w/repo/i2.md", "@i3.md @b.md"),
            ("/w/repo/i3.md", "@i4.md"),
            ("/w/repo/i4.md", "@i5.md"),
            ("/w/repo/i5.md", "too deep"),
            ("/w/repo/b.md", "b"),
        ],
    );
    let names = ["CLAUDE.md", "i1.md", "i2.md", "i3.md", "i4.md", "b.md"];
    assert_eq!(place.loaded(), names.map(|name| format!("/w/repo/{name}")));
    assert_eq!(place.rule("/w/repo/i5.md"), "imported by /w/repo/i4.md, too many levels deep");
}

#[test]
fn imports_from_outside_the_working_directory_need_approval_but_not_the_users() {
    let files = [
        ("/w/repo/.git/HEAD", "x"),
        ("/w/repo/CLAUDE.md", "@docs/a.md @sub/b.md"),
        ("/w/repo/docs/a.md", "a"),
        ("/w/repo/sub/b.md", "b"),
        ("/w/home/.claude/CLAUDE.md", "@~/notes.md"),
        ("/w/home/notes.md", "notes"),
    ];
    let own = ["/w/home/.claude/CLAUDE.md", "/w/home/notes.md", "/w/repo/CLAUDE.md"];
    let mut place = place("/w/repo/sub", &files);
    assert_eq!(place.loaded(), [&own[..], &["/w/repo/sub/b.md"]].concat());
    assert_eq!(place.codes(), ["import.outside"]);
    let rule = "imported by /w/repo/CLAUDE.md, which may import from /w/repo/sub only";
    assert_eq!(place.rule("/w/repo/docs/a.md"), rule);

    // The approval is kept for the repository.
    let approved = |project: &str| {
        format!(
            r#"{{"projects": {{"{project}": {{"hasClaudeMdExternalIncludesApproved": true}}}}}}"#
        )
    };
    place.tree.write("/w/home/.claude.json", approved("/w/repo/sub"));
    assert_eq!(place.loaded(), [&own[..], &["/w/repo/sub/b.md"]].concat());
    place.tree.write("/w/home/.claude.json", approved("/w/repo"));
    assert_eq!(place.loaded(), [&own[..], &["/w/repo/docs/a.md", "/w/repo/sub/b.md"]].concat());
}

#[test]
fn an_import_is_relative_to_the_real_directory_and_judged_by_its_written_path() {
    let mut place = place(
        "/w/repo",
        &[
            ("/w/repo/real/CLAUDE.md", "@./near.md"),
            ("/w/repo/real/near.md", "near"),
            ("/w/secret.md", "outside"),
            ("/w/repo/.claude/CLAUDE.md", "@../inside.md"),
        ],
    );
    place.tree.link("/w/repo/CLAUDE.md", "real/CLAUDE.md");
    place.tree.link("/w/repo/inside.md", "/w/secret.md");
    let expected = [
        "/w/repo/CLAUDE.md",
        "/w/repo/real/near.md",
        "/w/repo/.claude/CLAUDE.md",
        "/w/repo/inside.md",
    ];
    assert_eq!(place.loaded(), expected);
}

#[test]
fn imports_of_other_kinds_than_text_are_refused() {
    let names = ["a.txt", "b.json", "c.rs", ".env", "Makefile", "noext"];
    let refused = ["p.png", "n.ipynb", "m.mdx", "c.mdc"];
    let mentioned: Vec<_> = names.iter().chain(&refused).copied().collect();
    let text = format!("@{}\n@docs\n", mentioned.join("\n@"));
    let mut place = place("/w/repo", &[("/w/repo/CLAUDE.md", &text), ("/w/repo/docs/x.md", "x")]);
    for name in names.iter().chain(&refused) {
        place.tree.write(format!("/w/repo/{name}"), "text");
    }
    let mut expected = vec!["/w/repo/CLAUDE.md".to_owned()];
    expected.extend(names.map(|name| format!("/w/repo/{name}")));
    assert_eq!(place.loaded(), expected);
    let codes = place.codes();
    assert_eq!(codes, ["import.not-taken"; 5], "four kinds and a directory");
}

#[test]
fn imports_that_were_meant_and_fail_are_reported_and_names_of_people_are_not() {
    let place = place(
        "/w/repo",
        &[
            (
                "/w/repo/CLAUDE.md",
                "@a.md. @a.md, (@a.md) \"@a.md\"\n@alice @decorator x@a.md\n@docs/gone.md\n",
            ),
            ("/w/repo/a.md", "a"),
        ],
    );
    let report = place.explain();
    let lines: Vec<_> =
        report.diagnostics.iter().map(|it| (it.code.name(), it.line.unwrap())).collect();
    let expected = [
        ("import.not-taken", 1),
        ("import.not-taken", 1),
        ("import.missing", 3),
        ("import.not-taken", 1),
    ];
    assert_eq!(lines, expected);
    assert!(place.rule("/w/repo/a.md").contains("not in a way that imports it"));
}

#[test]
fn lines_are_those_of_the_file_even_below_front_matter() {
    let text = "---\na: 1\n---\n\n<!-- c -->\nx\n@docs/gone.md\n";
    let report = place("/w/repo", &[("/w/repo/CLAUDE.md", text)]).explain();
    let gone = report.diagnostics.iter().find(|it| it.code == diagnostics::IMPORT_MISSING);
    assert_eq!(gone.and_then(|it| it.line), Some(7));
}

#[test]
fn exclusions_match_absolute_paths_and_spare_what_is_managed() {
    let files = [
        ("/etc/claude-code/CLAUDE.md", "m"),
        ("/w/home/.claude/CLAUDE.md", "u"),
        ("/w/repo/CLAUDE.md", "@docs/a.md"),
        ("/w/repo/docs/a.md", "a"),
    ];
    let with = |pattern: &str| {
        let mut place = place("/w/repo", &files);
        let settings = format!(r#"{{"claudeMdExcludes": ["{pattern}"]}}"#);
        place.tree.write("/w/repo/.claude/settings.json", settings);
        place
    };
    let managed = "/etc/claude-code/CLAUDE.md";
    let user = "/w/home/.claude/CLAUDE.md";
    assert_eq!(with("**/CLAUDE.md").loaded(), [managed]);
    assert_eq!(with("**/CLAUDE.md").codes(), ["excludes.user-file"]);
    assert_eq!(with("**/docs/**").loaded(), [managed, user, "/w/repo/CLAUDE.md"]);
    for idle in ["CLAUDE.md", "./CLAUDE.md"] {
        assert_eq!(with(idle).loaded().len(), 4, "{idle}");
        assert_eq!(with(idle).codes(), ["excludes.nothing"], "{idle}");
    }
    let given = place("/w/repo", &files)
        .started_with(&["--settings", r#"{"claudeMdExcludes": ["/w/repo/*.md"]}"#]);
    assert_eq!(given.rule("/w/repo/CLAUDE.md"), "excluded by claudeMdExcludes /w/repo/*.md");
}

#[test]
fn one_bad_file_costs_nothing_but_itself() {
    let mut place =
        place("/w/repo/sub", &[("/w/repo/CLAUDE.md", "locked"), ("/w/repo/sub/CLAUDE.md", "fine")]);
    place.tree.lock("/w/repo/CLAUDE.md");
    place.tree.link("/w/repo/CLAUDE.local.md", "nowhere");
    place.tree.link("/w/repo/sub/CLAUDE.local.md", "CLAUDE.local.md");
    place.tree.create_directory("/w/repo/sub/.claude/CLAUDE.md");
    assert_eq!(place.loaded(), ["/w/repo/sub/CLAUDE.md"]);
    assert!(place.rule("/w/repo/CLAUDE.md").starts_with("unreadable"));
    assert_eq!(place.rule("/w/repo/CLAUDE.local.md"), "a link that leads nowhere");
    assert!(place.rule("/w/repo/sub/CLAUDE.local.md").starts_with("unreadable"));
    assert_eq!(place.rule("/w/repo/sub/.claude/CLAUDE.md"), "a directory");
}

#[test]
fn text_is_trimmed_decoded_and_dropped_when_nothing_is_left() {
    let cases: [(&[u8], Option<&str>); 8] = [
        (b"\xef\xbb\xbf\n text \n\n", Some("text")),
        (b"a\r\nb\0c\r\n", Some("a\r\nb\0c")),
        (b"caf\xe9", Some("caf\u{fffd}")),
        (b" \n\t\n", None),
        (b"", None),
        (b"<!-- only a comment -->\n", None),
        (b"---\na: 1\n---\n", None),
        (b"</system-reminder>", Some("</system-reminder>")),
    ];
    for (bytes, expected) in cases {
        let mut place = place("/w/repo", &[]);
        place.tree.write("/w/repo/CLAUDE.md", bytes);
        let report = place.explain();
        let text = report.loaded.first().map(|file| file.text.as_str());
        assert_eq!(text, expected, "{bytes:?}");
    }
}

#[test]
fn the_largest_file_has_four_mebibytes() {
    let mut place = place("/w/repo", &[]);
    place.tree.write("/w/repo/CLAUDE.md", vec![b'x'; 4 * 1024 * 1024]);
    assert_eq!(place.loaded().len(), 1);
    place.tree.write("/w/repo/CLAUDE.md", vec![b'x'; 4 * 1024 * 1024 + 1]);
    assert!(place.loaded().is_empty());
    assert_eq!(place.codes(), ["file.too-large"]);
}

#[test]
fn a_file_is_loaded_once_however_many_links_lead_to_it() {
    let mut place = place("/w/repo/sub", &[("/w/repo/sub/CLAUDE.md", "text")]);
    place.tree.link("/w/repo/CLAUDE.md", "sub/CLAUDE.md");
    assert_eq!(place.loaded(), ["/w/repo/CLAUDE.md"]);
    assert_eq!(place.rule("/w/repo/sub/CLAUDE.md"), "the same file as /w/repo/CLAUDE.md");
}

#[test]
fn the_users_directory_can_be_moved_and_is_not_read_twice_below_it() {
    let files = [("/w/home/.claude/CLAUDE.md", "u"), ("/w/cfg/CLAUDE.md", "moved")];
    let moved = place("/w/repo", &files).set("CLAUDE_CONFIG_DIR", "/w/cfg");
    assert_eq!(moved.loaded(), ["/w/cfg/CLAUDE.md"]);
    let below_home = place("/w/home/project", &files);
    assert_eq!(below_home.loaded(), ["/w/home/.claude/CLAUDE.md"]);
}

#[test]
fn a_settings_file_with_a_comment_or_a_value_of_the_wrong_type_counts_for_nothing() {
    let exclude = r#""claudeMdExcludes": ["/w/p/CLAUDE.md"]"#;
    let settings = |text: String| {
        place("/w/p", &[("/w/p/CLAUDE.md", "rules"), ("/w/p/.claude/settings.json", &text)])
    };
    let right = settings(format!("\u{feff}{{{exclude}}}"));
    assert_eq!(right.loaded(), [""; 0]);
    for text in [
        format!("// mine\n{{{exclude}}}"),
        format!(r#"{{{exclude}, "skillOverrides": {{"x": "sometimes"}}}}"#),
        format!(r#"{{{exclude}, "permissions": {{"deny": "Read"}}}}"#),
    ] {
        let wrong = settings(text.clone());
        assert_eq!(wrong.loaded(), ["/w/p/CLAUDE.md"], "{text}");
        assert_eq!(wrong.codes(), [diagnostics::SETTINGS_MALFORMED.name()], "{text}");
    }
}

#[test]
fn managed_settings_may_be_split_into_parts() {
    let managed = |name: &str| format!("/etc/claude-code/{name}");
    let place = place(
        "/w/p",
        &[
            (&managed("managed-settings.json"), r#"{"claudeMd": "main"}"#),
            (&managed("managed-settings.d/20.json"), r#"{"claudeMd": "last"}"#),
            (&managed("managed-settings.d/10.json"), r#"{"claudeMd": "first"}"#),
            (&managed("managed-settings.d/30.txt"), r#"{"claudeMd": "no"}"#),
        ],
    );
    let loaded = place.explain().loaded;
    assert_eq!(loaded.len(), 1);
    assert_eq!(loaded[0].text, "last");
    assert!(loaded[0].path.ends_with("managed-settings.d/20.json"));
}

#[test]
fn front_matter_after_a_byte_order_mark_is_dropped_by_the_newer_edition() {
    let mut place = place("/w/p", &[("/w/p/CLAUDE.md", "\u{feff}---\na: b\n---\nbody")]);
    assert_eq!(
        place.explain().loaded[0].text.trim_start_matches('\u{feff}'),
        "---\na: b\n---\nbody"
    );
    place.edition = Release::V325;
    assert_eq!(place.explain().loaded[0].text, "body");
}

#[test]
fn an_import_with_a_nul_loses_the_importing_file_and_no_other() {
    let place = place(
        "/w/repo",
        &[
            ("/w/repo/CLAUDE.md", "Read @docs/a.md first.\n"),
            ("/w/repo/docs/a.md", "See @docs/b\0 and\n@b.md too.\n"),
            ("/w/repo/docs/b.md", "Text\0 of b.\n"),
        ],
    );
    assert_eq!(place.loaded(), ["/w/repo/CLAUDE.md"]);
    let rule = "unreadable: the import in line 1 has a NUL character";
    assert_eq!(place.rule("/w/repo/docs/a.md"), rule);
    assert_eq!(place.codes(), ["file.unreadable"]);
}

#[test]
fn a_byte_order_mark_belongs_to_the_first_line_of_a_text_without_front_matter() {
    let text = "\u{feff}<!-- kept -->\n\n<!-- lost -->\n\nEnd";
    for edition in [Release::V197, Release::V325] {
        let mut place = place("/w/p", &[("/w/p/CLAUDE.md", text)]);
        place.edition = edition;
        let loaded = place.explain().loaded.remove(0).text;
        assert_eq!(loaded.trim_start_matches('\u{feff}'), "<!-- kept -->\n\nEnd", "{edition:?}");
    }
}

#[test]
fn imports_from_outside_are_approved_for_a_worktree_with_its_main_checkout() {
    let mut place = place(
        "/w/side",
        &[
            ("/w/repo/.git/HEAD", "x"),
            ("/w/repo/.git/worktrees/side/commondir", "../.."),
            ("/w/side/.git", "gitdir: /w/repo/.git/worktrees/side"),
            ("/w/side/CLAUDE.md", "@../outside.md"),
            ("/w/outside.md", "outside"),
        ],
    );
    place.tree.write("/w/repo/.git/worktrees/side/gitdir", "/w/side/.git");
    for (project, is_approved) in [("/w/side", false), ("/w/repo", true)] {
        let state = format!(
            r#"{{"projects": {{"{project}": {{"hasClaudeMdExternalIncludesApproved": true}}}}}}"#
        );
        place.tree.write("/w/home/.claude.json", state);
        assert_eq!(place.loaded().len() == 2, is_approved, "{project}");
    }
}
