//! What the configuration of Codex decides; the rules of the documents have their own tests.

use convoke_thread::files::MemoryTree;

use super::*;

const BOTH: [Edition; 2] = [Edition::Codex098, Edition::Codex0166];

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
    fn loaded(&self, edition: Edition) -> Vec<String> {
        let report = explain(&self.tree, &self.session, edition);
        let files = report.loaded.into_iter();
        files.map(|file| file.path.display().to_string()).collect()
    }

    fn codes(&self, edition: Edition) -> Vec<&'static str> {
        let report = explain(&self.tree, &self.session, edition);
        report.diagnostics.iter().map(|it| it.code.name()).collect()
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
        assert_eq!(place(&config).loaded(Edition::Codex0166), expected, "{config}");
        assert_eq!(place(&config).loaded(Edition::Codex098), CHAIN, "{config}");
    }
    let mut worktree = place(&entry("/w/main", "untrusted"));
    worktree.tree.remove("/w/repo/.git");
    worktree.tree.write("/w/main/.git/worktrees/repo/commondir", "../..");
    worktree.tree.write("/w/repo/.git", "gitdir: /w/main/.git/worktrees/repo");
    assert!(worktree.loaded(Edition::Codex0166).is_empty());
    assert_eq!(worktree.codes(Edition::Codex0166), ["agents-md.untrusted"]);
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
        assert_eq!(place.loaded(Edition::Codex098), expected, "{level}");
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
fn configured_markers_and_fallback_paths_tell_the_versions_apart() {
    let mut markers = place("project_root_markers = [\"pom.xml\"]\n");
    markers.tree.write("/w/repo/sub/pom.xml", "");
    assert_eq!(markers.loaded(Edition::Codex098), CHAIN);
    assert_eq!(markers.loaded(Edition::Codex0166), [CHAIN[1]]);

    let mut fallback = place("project_doc_fallback_filenames = [\"docs/GUIDE.md\"]\n");
    fallback.tree.remove(CHAIN[1]);
    fallback.tree.write("/w/repo/sub/docs/GUIDE.md", "guide");
    assert_eq!(fallback.loaded(Edition::Codex098), [CHAIN[0], "/w/repo/sub/docs/GUIDE.md"]);
    assert_eq!(fallback.loaded(Edition::Codex0166), [CHAIN[0]]);
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
