//! Tests of Codex's configuration; the rules of the documents have their own tests.

use convoke_files::MemoryTree;

use super::*;

const BOTH: [Rules; 2] = [Rules::V0_98, Rules::V0_166];

struct Place {
    tree: MemoryTree,
    session: Session,
}

/// A repository at `/w/repo` with two documents, started in `/w/repo/sub`.
fn place(config: &str) -> Place {
    let mut tree = MemoryTree::default();
    tree.write("/w/repo/.git/HEAD", "x");
    tree.write("/w/repo/AGENTS.md", "root");
    tree.write("/w/repo/sub/AGENTS.md", "sub");
    tree.write("/w/home/.codex/config.toml", config);
    Place { tree, session: Session::new("/w/repo/sub", "/w/home") }
}

impl Place {
    fn loaded(&self, edition: Rules) -> Vec<String> {
        let report = explain(&self.tree, &self.session, edition);
        let files = report.loaded.into_iter();
        files.map(|file| file.path.display().to_string()).collect()
    }

    fn codes(&self, edition: Rules) -> Vec<String> {
        let report = explain(&self.tree, &self.session, edition);
        report.diagnostics.iter().map(|it| it.code.name().to_owned()).collect()
    }
}

const CHAIN: [&str; 2] = ["/w/repo/AGENTS.md", "/w/repo/sub/AGENTS.md"];

#[test]
fn the_nearest_entry_of_directory_root_and_main_checkout_decides_trust() {
    let entry =
        |path: &str, level: &str| format!("[projects.\"{path}\"]\ntrust_level = \"{level}\"\n");
    let cases: [(String, &[&str]); 6] = [
        (String::new(), &CHAIN),
        (entry("/w/repo", "untrusted"), &[]),
        (entry("/w/repo/sub", "untrusted"), &[]),
        (entry("/w/repo", "untrusted") + &entry("/w/repo/sub", "trusted"), &CHAIN),
        (entry("/w", "untrusted"), &CHAIN),
        (entry("/w/repo", "trusted"), &CHAIN),
    ];
    for (config, expected) in cases {
        assert_eq!(place(&config).loaded(Rules::V0_166), expected, "{config}");
        assert_eq!(place(&config).loaded(Rules::V0_98), CHAIN, "{config}");
    }
    let mut worktree = place(&entry("/w/main", "untrusted"));
    worktree.tree.remove("/w/repo/.git");
    worktree.tree.write("/w/main/.git/worktrees/repo/commondir", "../..");
    worktree.tree.write("/w/repo/.git", "gitdir: /w/main/.git/worktrees/repo");
    assert!(worktree.loaded(Rules::V0_166).is_empty());
    assert_eq!(worktree.codes(Rules::V0_166), ["agents-md.untrusted"]);
}

#[test]
fn a_projects_own_configuration_counts_only_when_it_is_trusted() {
    for (level, expected) in [("trusted", &["/w/repo/GUIDE.md"][..]), ("untrusted", &[])] {
        let config = format!("[projects.\"/w/repo\"]\ntrust_level = \"{level}\"\n");
        let mut place = place(&config);
        place.tree.remove("/w/repo/AGENTS.md");
        place.tree.remove("/w/repo/sub/AGENTS.md");
        place.tree.write("/w/repo/GUIDE.md", "guide");
        let own = "project_doc_fallback_filenames = [\"GUIDE.md\"]\n";
        place.tree.write("/w/repo/.codex/config.toml", own);
        assert_eq!(place.loaded(Rules::V0_98), expected, "{level}");
    }
}

#[test]
fn arguments_beat_the_configuration_and_move_the_working_directory() {
    let mut place = place("project_doc_max_bytes = 0\n");
    for edition in BOTH {
        assert!(place.loaded(edition).is_empty());
    }
    place.session.arguments =
        ["-c", "project_doc_max_bytes=2", "-C", ".."].map(str::to_owned).to_vec();
    for edition in BOTH {
        assert_eq!(place.loaded(edition), ["/w/repo/AGENTS.md"]);
        assert_eq!(place.codes(edition), ["agents-md.truncated"]);
    }
}

#[test]
fn configured_markers_and_fallback_paths_distinguish_the_versions() {
    let mut markers = place("project_root_markers = [\"pom.xml\"]\n");
    markers.tree.write("/w/repo/sub/pom.xml", "");
    assert_eq!(markers.loaded(Rules::V0_98), CHAIN);
    assert_eq!(markers.loaded(Rules::V0_166), [CHAIN[1]]);

    let mut fallback = place("project_doc_fallback_filenames = [\"docs/GUIDE.md\"]\n");
    fallback.tree.remove(CHAIN[1]);
    fallback.tree.write("/w/repo/sub/docs/GUIDE.md", "guide");
    assert_eq!(fallback.loaded(Rules::V0_98), [CHAIN[0], "/w/repo/sub/docs/GUIDE.md"]);
    assert_eq!(fallback.loaded(Rules::V0_166), [CHAIN[0]]);
}

#[test]
fn a_blank_file_that_shadows_is_reported() {
    let mut place = place("");
    place.tree.write("/w/repo/AGENTS.override.md", " \n");
    for edition in BOTH {
        assert_eq!(place.loaded(edition), [CHAIN[1]]);
        assert_eq!(place.codes(edition), ["agents-md.blank"]);
    }
}

#[test]
fn with_a_malformed_configuration_codex_does_not_start() {
    let cases = [
        ("project_doc_max_bytes = \n", "config.toml: string values must be quoted"),
        ("project_doc_max_bytes = \"9\"\n", "`project_doc_max_bytes` is \"9\": use a whole number"),
        ("project_doc_max_bytes = -1\n", "`project_doc_max_bytes` is -1: use a whole number"),
        ("project_doc_fallback_filenames = \"A\"\n", "use a list of texts"),
        ("project_root_markers = [1]\n", "`project_root_markers` is [1]: use a list of texts"),
        ("[projects.\"/w\"]\ntrust_level = \"maybe\"\n", "use trusted or untrusted"),
    ];
    for edition in BOTH {
        for (config, expected) in cases {
            let broken = place(config);
            assert!(broken.loaded(edition).is_empty(), "{config}");
            let report = explain(&broken.tree, &broken.session, edition);
            let messages: Vec<_> = report.diagnostics.iter().map(|it| &*it.message).collect();
            assert_eq!(broken.codes(edition), ["settings.malformed"], "{config}");
            assert!(messages[0].starts_with("/w/home/.codex/config.toml: "), "{messages:?}");
            assert!(messages[0].contains(expected), "{messages:?}");
        }
    }
}

/// Every case was tried on both real programs.
#[test]
fn a_value_of_the_wrong_kind_under_any_key_keeps_codex_from_starting() {
    let cases = [
        ("model = 3", "`model` is 3: use a text"),
        ("sandbox_mode = \"foo\"", "`sandbox_mode` is \"foo\": use one of read-only"),
        ("approval_policy = \"x\"", "`approval_policy` is \"x\": use one of untrusted"),
        ("profile = \"nope\"", "`nope`"),
        ("notify = \"x\"", "`notify` is \"x\": use a list of texts"),
        ("tui = 4", "`tui` is 4: use a table"),
        ("[mcp_servers.a]\ncommand = 3", "`mcp_servers.a.command` is 3: use a text"),
        ("[mcp_servers.a]\nenabled = true", "`mcp_servers.a.command` is missing: use it, or `url`"),
        ("[mcp_servers.a]\nurl = \"x\"\nargs = [\"a\"]", "use it only with `command`"),
        (
            "[mcp_servers.a]\ncommand = \"x\"\nenv = {A = 3}",
            "`mcp_servers.a.env.A` is 3: use a text",
        ),
        (
            "[model_providers.a]\nbase_url = \"x\"",
            "`model_providers.a.name` is missing: use a text",
        ),
        ("model_provider = \"nope\"", "the provider `nope` is unknown"),
        ("model_instructions_file = \"gone.md\"", "cannot read /w/home/.codex/gone.md"),
        ("features = 3", "`features` is 3: use a table"),
        ("[profiles.p]\nmodel_verbosity = \"x\"", "`profiles.p.model_verbosity` is \"x\""),
        (
            "history.max_bytes = \"x\"",
            "`history.max_bytes` is \"x\": use a whole number, 0 or more",
        ),
        ("projects = {\"/x\" = 3}", "`projects./x` is 3: use a table"),
    ];
    for edition in BOTH {
        for (config, expected) in cases {
            let broken = place(config);
            assert!(broken.loaded(edition).is_empty(), "{config}");
            assert_eq!(broken.codes(edition), ["settings.malformed"], "{config}");
            let report = explain(&broken.tree, &broken.session, edition);
            let message = &report.diagnostics[0].message;
            assert!(message.contains(expected), "{message}");
        }
    }
}

/// Every case was tried on both real programs.
#[test]
fn what_codex_does_not_know_or_admits_in_one_version_only_is_distinguished() {
    let both: &[Rules] = &BOTH;
    let old: &[Rules] = &[Rules::V0_98];
    let new: &[Rules] = &[Rules::V0_166];
    let cases = [
        ("nope = 3", both),
        ("model_context_window = -1", both),
        ("[mcp_servers.a]\ncommand = \"x\"\nnope = 3", both),
        ("features.zzz = true", both),
        ("tui.notifications = [\"a\"]", both),
        ("model_provider = \"a\"\nmodel_providers.a.name = \"a\"", both),
        ("profile = \"p\"\n[profiles.p]\nmodel = \"x\"", old),
        ("[model_providers.openai]\nname = \"a\"", old),
        ("tui.theme = 3", old),
        ("history.max_bytes = 3", new),
        ("model_reasoning_effort = \"max\"", new),
        ("model_supports_reasoning_summaries = 3", new),
        ("web_search = \"indexed\"", new),
        (
            "approval_policy.granular = {sandbox_approval = true, rules = true, mcp_elicitations = true}",
            new,
        ),
        ("model_provider = \"amazon-bedrock\"", new),
    ];
    for (config, starting) in cases {
        let place = place(config);
        for edition in BOTH {
            let starts = !place.loaded(edition).is_empty();
            assert_eq!(starts, starting.contains(&edition), "{config} {edition:?}");
        }
    }
}

/// Every case was tried on both real programs.
#[test]
fn layers_are_judged_together_and_what_a_project_may_not_say_is_passed_over() {
    let new: &[Rules] = &[Rules::V0_166];
    let trusted = "[projects.\"/w/repo\"]\ntrust_level = \"trusted\"\n";
    let cases: [(&str, &str, &[&str], &[Rules]); 6] = [
        ("model = 3", "", &["-c", "model=x"], &BOTH),
        ("", "project_doc_max_bytes = \"a\"", &["-c", "project_doc_max_bytes=30"], &BOTH),
        ("", "model = 3", &[], &[]),
        ("", "", &["-c", "notify=x"], &[]),
        ("model = 3", "model = \"x\"", &[], new),
        ("", "model_provider = \"nope\"", &[], new),
    ];
    for (user, project, arguments, starting) in cases {
        let mut place = place(&format!("{user}\n{trusted}"));
        place.tree.write("/w/repo/.codex/config.toml", project);
        place.session.arguments = arguments.iter().map(|it| (*it).to_owned()).collect();
        for edition in BOTH {
            let starts = !place.loaded(edition).is_empty();
            assert_eq!(starts, starting.contains(&edition), "{user} {project} {edition:?}");
        }
    }
    let mut place = place(trusted);
    place.tree.write("/w/repo/.codex/config.toml", "model = 3\n");
    for edition in BOTH {
        let report = explain(&place.tree, &place.session, edition);
        let expected = "/w/repo/.codex/config.toml: `model` is 3: use a text";
        assert_eq!(report.diagnostics[0].message, expected);
    }
}

#[test]
fn links_that_lead_nowhere_are_reported() {
    let mut place = place("");
    place.tree.remove(CHAIN[1]);
    place.tree.link(CHAIN[1], "missing.md");
    for edition in BOTH {
        assert_eq!(place.loaded(edition), [CHAIN[0]]);
        assert_eq!(place.codes(edition), ["file.unreadable"]);
    }
}

#[test]
fn added_directories_bring_nothing() {
    let mut place = place("");
    place.tree.write("/w/extra/AGENTS.md", "extra");
    place.session.arguments = vec!["--add-dir".into(), "/w/extra".into()];
    for edition in BOTH {
        assert_eq!(place.loaded(edition), CHAIN);
        assert_eq!(place.codes(edition), ["added-directory.unread"]);
    }
}

#[test]
fn the_home_of_codex_can_be_moved_and_may_lie_in_the_project() {
    let mut place = place("");
    place.session.variables.insert("CODEX_HOME".into(), "/w/repo".into());
    for edition in BOTH {
        assert_eq!(place.loaded(edition), [CHAIN[0], CHAIN[0], CHAIN[1]]);
    }
}

#[test]
fn the_machines_configuration_lies_below_the_users_and_the_managed_one_above_all() {
    let sizes = |files: &[(&str, &str)], arguments: &[&str]| {
        let mut place = place(files.iter().find(|(path, _)| path.is_empty()).map_or("", |it| it.1));
        for (path, text) in files.iter().filter(|(path, _)| !path.is_empty()) {
            place.tree.write(format!("/machine/codex/{path}"), *text);
        }
        place.session.etc = "/machine".into();
        place.session.arguments = arguments.iter().map(|it| (*it).to_owned()).collect();
        BOTH.map(|edition| {
            let report = explain(&place.tree, &place.session, edition);
            report.loaded.iter().map(|file| file.bytes_loaded).collect::<Vec<_>>()
        })
    };
    let max = |bytes: u8| format!("project_doc_max_bytes = {bytes}\n");
    let [two, three, four] = [2, 3, 4].map(max);
    assert_eq!(sizes(&[("config.toml", &*two)], &[]), [[2], [2]]);
    assert_eq!(sizes(&[("config.toml", &*two), ("", &*three)], &[]), [[3], [3]]);
    let managed = [("config.toml", &*two), ("", &*three), ("managed_config.toml", &*four)];
    assert_eq!(sizes(&managed, &["-c", "project_doc_max_bytes=1"]), [[4], [4]]);
    assert_eq!(sizes(&[("managed_config.toml", "no TOML")], &[]), [[0; 0]; 2]);
    assert_eq!(sizes(&[("requirements.toml", "no TOML")], &[]), [[0; 0]; 2]);
}

#[test]
fn the_machine_can_distrust_a_project() {
    let mut place = place("");
    let entry = "[projects.\"/w/repo\"]\ntrust_level = \"untrusted\"\n";
    place.tree.write("/etc/codex/managed_config.toml", entry);
    assert!(place.loaded(Rules::V0_166).is_empty());
}

#[test]
fn a_given_directory_is_taken_with_its_links_by_the_newer_edition_only() {
    let mut place = place("");
    place.tree.link("/w/link", "/w/repo/sub");
    place.session.arguments = vec!["-C".to_owned(), "/w/link".to_owned()];
    assert_eq!(place.loaded(Rules::V0_98), CHAIN);
    assert_eq!(place.loaded(Rules::V0_166), ["/w/link/AGENTS.md"]);
}

#[test]
fn skills_that_another_version_installed_are_replaced_when_codex_starts() {
    let mut tree = MemoryTree::default();
    tree.create_directory("/r/.git");
    let system = "/h/.codex/skills/.system";
    let text = "---\nname: imagegen\ndescription: Draws.\n---\n";
    tree.write(format!("{system}/imagegen/SKILL.md"), text);
    let listed = |tree: &MemoryTree, edition| {
        let report =
            convoke_explain::explain(tree, &Session::new("/r", "/h"), &[super::edition(edition)])
                .agents
                .remove(0);
        report
            .skills
            .into_iter()
            .map(|skill| (skill.name, skill.description_bytes))
            .collect::<Vec<_>>()
    };
    let installed = [("imagegen".to_owned(), 6)];
    for (marker, is_kept) in [
        ("c177538279c21315\n", [true, false]),
        ("a49d0ab9dc3eb676\n", [false, true]),
        // A version that is not known, for example a newer one.
        ("0123456789abcdef\n", [true, true]),
    ] {
        tree.write(format!("{system}/.codex-system-skills.marker"), marker);
        let found = [Rules::V0_98, Rules::V0_166].map(|it| listed(&tree, it));
        assert_eq!(found.each_ref().map(|it| *it == installed), is_kept, "{marker}: {found:?}");
        let own = found.iter().find(|it| **it != installed);
        let creator =
            |own: &Vec<(String, u64)>| own.iter().any(|(name, _)| name == "skill-creator");
        assert!(own.is_none_or(creator), "{own:?}");
    }
}
