use std::path::Path;

use super::{
    DEFAULT_MAX_BYTES, IgnoreReason, ProjectDocs, Rules, Settings, Trust, discover, user_doc,
};
use convoke_files::MemoryTree;

const BOTH: [Rules; 2] = [Rules::V0_98, Rules::V0_166];

struct Place {
    tree: MemoryTree,
    cwd: &'static str,
    max_bytes: u64,
    fallback_names: Vec<String>,
    root_markers: Vec<String>,
    trust: Trust,
}

/// A git repository at `/r` with a working directory below it.
fn repository(files: &[(&str, &str)]) -> Place {
    let mut tree = MemoryTree::default();
    tree.create_directory("/r/.git");
    tree.create_directory("/r/sub/deep");
    for (path, text) in files {
        tree.write(path, *text);
    }
    Place {
        tree,
        cwd: "/r/sub/deep",
        max_bytes: DEFAULT_MAX_BYTES,
        fallback_names: Vec::new(),
        root_markers: vec![".git".to_owned()],
        trust: Trust::Unknown,
    }
}

impl Place {
    fn discover(&self, rules: Rules) -> ProjectDocs {
        let settings = Settings {
            rules,
            cwd: Path::new(self.cwd),
            max_bytes: self.max_bytes,
            fallback_names: &self.fallback_names,
            root_markers: &self.root_markers,
            trust: self.trust,
        };
        discover(&self.tree, &settings)
    }

    fn text(&self, rules: Rules) -> Option<String> {
        self.discover(rules).text()
    }
}

fn reason_for(found: &ProjectDocs, path: &str) -> Option<IgnoreReason> {
    let ignored = found.ignored.iter().find(|it| it.path == Path::new(path));
    ignored.map(|ignored| ignored.reason.clone())
}

fn codes(found: &ProjectDocs) -> Vec<&str> {
    found.diagnostics.iter().map(|it| it.code.name()).collect()
}

#[test]
fn documents_are_joined_from_the_root_to_the_working_directory() {
    let place = repository(&[
        ("/AGENTS.md", "above the root"),
        ("/r/AGENTS.md", "root\n"),
        ("/r/sub/deep/AGENTS.md", "deep"),
        ("/r/sub/deep/below/AGENTS.md", "below"),
    ]);
    for rules in BOTH {
        assert_eq!(place.text(rules).as_deref(), Some("root\n\n\ndeep"));
    }
}

#[test]
fn without_a_root_only_the_working_directory_counts() {
    let mut place = repository(&[("/r/AGENTS.md", "root"), ("/r/sub/deep/AGENTS.md", "deep")]);
    place.tree.remove("/r/.git");
    for rules in BOTH {
        assert_eq!(place.text(rules).as_deref(), Some("deep"));
    }
}

#[test]
fn one_file_of_a_directory_is_sent_and_the_others_are_shadowed() {
    let mut place = repository(&[
        ("/r/AGENTS.override.md", "override"),
        ("/r/AGENTS.md", "default"),
        ("/r/sub/CLAUDE.md", "fallback"),
    ]);
    place.fallback_names = vec!["  ".into(), " CLAUDE.md ".into(), "AGENTS.md".into()];
    for rules in BOTH {
        let found = place.discover(rules);
        assert_eq!(found.text().as_deref(), Some("override\n\nfallback"));
        let by = "/r/AGENTS.override.md".into();
        assert_eq!(reason_for(&found, "/r/AGENTS.md"), Some(IgnoreReason::Shadowed { by }));
    }
}

#[test]
fn a_blank_file_shadows_and_costs_nothing() {
    let mut place = repository(&[
        ("/r/AGENTS.override.md", " \n \n "),
        ("/r/AGENTS.md", "default"),
        ("/r/sub/AGENTS.md", "abcdefgh"),
    ]);
    place.max_bytes = 8;
    for rules in BOTH {
        let found = place.discover(rules);
        assert_eq!(found.text().as_deref(), Some("abcdefgh"));
        assert_eq!(reason_for(&found, "/r/AGENTS.override.md"), Some(IgnoreReason::Blank));
        assert!(found.diagnostics.is_empty());
    }
}

#[test]
fn the_budget_is_spent_root_first_and_every_loss_is_named() {
    let mut place = repository(&[("/r/AGENTS.md", "世界"), ("/r/sub/AGENTS.md", "never")]);
    place.max_bytes = 5;
    for rules in BOTH {
        let found = place.discover(rules);
        assert_eq!(found.text().as_deref(), Some("世\u{FFFD}"));
        assert_eq!(codes(&found), ["agents-md.truncated", "agents-md.truncated"]);
        let lost: Vec<_> = found.diagnostics.iter().map(|it| it.bytes).collect();
        assert_eq!(lost, [Some(1), Some(5)]);
        assert_eq!(reason_for(&found, "/r/sub/AGENTS.md"), Some(IgnoreReason::OverBudget));
    }
}

#[test]
fn a_budget_of_nothing_switches_documents_off() {
    let mut place = repository(&[("/r/AGENTS.md", "root")]);
    place.max_bytes = 0;
    for rules in BOTH {
        let found = place.discover(rules);
        assert_eq!(found.text(), None);
        assert_eq!(reason_for(&found, "/r/AGENTS.md"), Some(IgnoreReason::SwitchedOff));
    }
}

#[test]
fn one_unreadable_file_loses_all_of_them() {
    let mut place = repository(&[("/r/AGENTS.md", "root"), ("/r/sub/AGENTS.md", "sub")]);
    place.tree.lock("/r/sub/AGENTS.md");
    for rules in BOTH {
        let found = place.discover(rules);
        assert_eq!(found.text(), None);
        assert_eq!(codes(&found), ["agents-md.unreadable"]);
        let unreadable = "/r/sub/AGENTS.md".into();
        assert_eq!(reason_for(&found, "/r/AGENTS.md"), Some(IgnoreReason::LostWith { unreadable }));
    }
}

#[test]
fn a_link_loop_loses_all_of_them() {
    let mut place = repository(&[("/r/AGENTS.md", "root")]);
    place.tree.link("/r/sub/AGENTS.md", "AGENTS.md");
    for rules in BOTH {
        assert_eq!(place.text(rules), None);
    }
}

#[test]
fn a_link_is_followed_wherever_it_leads() {
    let mut place = repository(&[("/elsewhere/doc.md", "linked")]);
    place.tree.link("/r/AGENTS.md", "/elsewhere/doc.md");
    for rules in BOTH {
        assert_eq!(place.text(rules).as_deref(), Some("linked"));
    }
}

#[test]
fn a_link_to_a_directory_loses_all_of_them_until_a_later_version_skips_it() {
    let mut place = repository(&[("/r/AGENTS.md", "root")]);
    place.tree.link("/r/sub/AGENTS.md", "/r");
    assert_eq!(place.text(Rules::V0_98), None);
    assert_eq!(place.text(Rules::V0_166).as_deref(), Some("root"));
}

#[test]
fn a_dangling_override_shadows_in_the_earlier_version_only() {
    let mut place = repository(&[("/r/AGENTS.md", "root")]);
    place.tree.link("/r/AGENTS.override.md", "nowhere");
    assert_eq!(place.text(Rules::V0_98), None);
    assert_eq!(place.text(Rules::V0_166).as_deref(), Some("root"));
}

#[test]
fn a_directory_of_that_name_is_passed_over() {
    let mut place = repository(&[("/r/AGENTS.md", "root")]);
    place.tree.create_directory("/r/AGENTS.override.md");
    for rules in BOTH {
        assert_eq!(place.text(rules).as_deref(), Some("root"));
    }
}

#[test]
fn a_fallback_name_may_be_a_path_in_the_earlier_version_only() {
    let mut place = repository(&[("/r/docs/GUIDE.md", "guide")]);
    place.fallback_names = vec!["docs/GUIDE.md".to_owned()];
    assert_eq!(place.text(Rules::V0_98).as_deref(), Some("guide"));
    let found = place.discover(Rules::V0_166);
    assert_eq!(found.text(), None);
    assert_eq!(reason_for(&found, "/r/docs/GUIDE.md"), Some(IgnoreReason::NotAFileName));
}

#[test]
fn root_markers_and_trust_count_in_the_later_version_only() {
    let mut place = repository(&[
        ("/r/AGENTS.md", "root"),
        ("/r/sub/package.json", "{}"),
        ("/r/sub/AGENTS.md", "sub"),
    ]);
    place.root_markers = vec!["package.json".to_owned()];
    assert_eq!(place.text(Rules::V0_98).as_deref(), Some("root\n\nsub"));
    assert_eq!(place.text(Rules::V0_166).as_deref(), Some("sub"));

    place.trust = Trust::Untrusted;
    assert_eq!(place.text(Rules::V0_98).as_deref(), Some("root\n\nsub"));
    let found = place.discover(Rules::V0_166);
    assert_eq!(found.text(), None);
    assert_eq!(codes(&found), ["agents-md.untrusted"]);
}

#[test]
fn a_linked_working_directory_counts_where_it_really_is_in_the_earlier_version_only() {
    let mut place = repository(&[("/r/AGENTS.md", "root"), ("/r/sub/deep/AGENTS.md", "deep")]);
    place.tree.link("/link", "/r/sub/deep");
    place.cwd = "/link";
    assert_eq!(place.text(Rules::V0_98).as_deref(), Some("root\n\ndeep"));
    assert_eq!(place.text(Rules::V0_166).as_deref(), Some("deep"));
}

#[test]
fn the_user_document_is_the_first_that_is_readable_and_not_blank() {
    let mut tree = MemoryTree::default();
    tree.write("/h/AGENTS.override.md", "  \n");
    tree.write("/h/AGENTS.md", "\n  Global rule.\n\n");
    for rules in BOTH {
        let found = user_doc(&tree, "/h".as_ref(), rules);
        assert_eq!(found.document.unwrap().text, "Global rule.");
    }

    tree.write("/h/AGENTS.override.md", b"caf\xe9".to_vec());
    let found = user_doc(&tree, "/h".as_ref(), Rules::V0_98);
    assert_eq!(found.document.unwrap().text, "Global rule.");
    assert_eq!(found.diagnostics.len(), 1);
    let found = user_doc(&tree, "/h".as_ref(), Rules::V0_166);
    assert_eq!(found.document.unwrap().text, "caf\u{FFFD}");
}
