//! Tests of the report of all agents, and of the editions of their rules.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod skills;

use convoke_explain::{AgentReport, Edition, Session, config, explain};
use convoke_files::MemoryTree;
use convoke_files::limit::MAX_ENTRIES;

/// Returns an edition.
fn known(name: &str) -> Edition {
    convoke_vendors::edition(name).unwrap()
}

#[test]
fn agents_that_are_explained_at_once_are_explained_as_alone() {
    let mut tree = MemoryTree::default();
    tree.create_directory("/r/.git");
    tree.write("/h/.gemini/trustedFolders.json", r#"{"/r": "TRUST_FOLDER"}"#);
    for number in 0..100 {
        for place in [".agents", ".claude", ".gemini"] {
            let text = format!("---\nname: s{number}\ndescription: {number}, {place}\n---\n");
            tree.write(format!("/r/{place}/skills/s{number}/SKILL.md"), text);
        }
    }
    let session = Session::new("/r", "/h");
    let at_once = explain(&tree, &session, convoke_vendors::editions());
    for (edition, report) in convoke_vendors::editions().iter().zip(&at_once.agents) {
        let alone = explain(&tree, &session, &[*edition]).agents.remove(0);
        assert!(alone.skills.len() > 99, "{edition:?}: {}", alone.skills.len());
        assert_eq!(serde_json::json!(alone.skills), serde_json::json!(report.skills));
    }
}

#[test]
fn a_directory_with_too_many_entries_is_reported_by_the_agents_that_search_it() {
    for (directory, readers) in [
        ("/h/.gemini/extensions", &[known("gemini")][..]),
        ("/h/.gemini/tmp", &[known("gemini")]),
        ("/h/.gemini/skills", &[known("gemini")]),
        ("/r/.agents/skills", &[known("gemini"), known("codex")]),
        ("/r/.claude/skills", &[known("claude")]),
        ("/r/.claude/commands", &[known("claude")]),
        ("/r/.claude/rules", &[known("claude")]),
    ] {
        let mut tree = MemoryTree::default();
        tree.create_directory("/r/.git");
        for number in 0..=MAX_ENTRIES {
            tree.write(format!("{directory}/{number}"), "");
        }
        let editions = [known("gemini"), known("claude"), known("codex")];
        let report = explain(&tree, &Session::new("/r", "/h"), &editions);
        for agent in &report.agents {
            let told = agent
                .diagnostics
                .iter()
                .filter(|it| it.message.contains("more than 100000 entries"));
            let expected = usize::from(readers.contains(&agent.edition));
            assert_eq!(told.count(), expected, "{directory}: {:?}", agent.diagnostics);
        }
    }
}

#[test]
fn a_name_alone_means_the_newest() {
    let cases = [
        ("claude", known("claude")),
        ("gemini", known("gemini")),
        ("codex", known("codex")),
        ("codex@0.98", known("codex@0.98")),
        ("codex@0.166", known("codex")),
        ("claude@2.1.197", known("claude@2.1.197")),
        ("claude@2.1.325", known("claude")),
    ];
    for (name, expected) in cases {
        assert_eq!(convoke_vendors::edition(name), Ok(expected), "{name}");
    }
    assert!(convoke_vendors::edition("cursor").is_err());
    assert!(convoke_vendors::edition("codex@1").is_err());
    assert!(convoke_vendors::edition("claude@2.1.326").is_err());
}

#[test]
fn an_edition_covers_the_versions_after_the_one_before() {
    let cases = [
        ("codex", "0.94.0", known("codex@0.98")),
        ("codex", "0.98.0", known("codex@0.98")),
        ("codex", "0.99.1", known("codex")),
        ("codex", "1.0.0", known("codex")),
        ("codex", "nightly", known("codex")),
        ("claude", "1.0.5", known("claude@2.1.197")),
        ("claude", "2.1.197", known("claude@2.1.197")),
        ("claude", "2.1.198", known("claude")),
        ("claude", "2.1.325", known("claude")),
        ("claude", "2.2", known("claude")),
        ("gemini", "3.0", known("gemini")),
    ];
    for (agent, version, expected) in cases {
        let named = convoke_vendors::edition(agent).unwrap();
        assert_eq!(named.nearest(version), expected, "{agent} {version}");
    }
}

#[test]
fn a_version_is_newer_than_an_edition_if_its_numbers_are() {
    let cases = [
        (known("claude"), "2.1.325", false),
        (known("claude"), "2.1.326", true),
        (known("claude"), "3.0.0-beta.1", true),
        (known("claude"), "2.1.197", false),
        (known("codex"), "0.166.4", false),
        (known("codex"), "0.167.0-alpha.2", true),
        (known("gemini"), "nightly", false),
    ];
    for (edition, version, expected) in cases {
        assert_eq!(edition.is_older_than(version), expected, "{edition} {version}");
    }
}

#[test]
fn what_is_wrong_with_a_file_is_reported_with_its_place() {
    let mut tree = MemoryTree::default();
    tree.write("/bad.json", "{\n  \"a\": ,\n}");
    tree.write("/list.json", "[]");
    tree.write("/bad.toml", "a = 1\nb = \n");
    tree.create_directory("/dir.json");
    let mut report = AgentReport::new(known("claude@2.1.197"));
    assert!(config::json(&tree, "/bad.json".as_ref(), &mut report).is_none());
    assert!(config::json(&tree, "/list.json".as_ref(), &mut report).is_none());
    assert!(config::toml(&tree, "/bad.toml".as_ref(), &mut report).is_none());
    assert!(config::json(&tree, "/dir.json".as_ref(), &mut report).is_none());
    assert!(config::json(&tree, "/missing.json".as_ref(), &mut report).is_none());
    let messages: Vec<_> = report.diagnostics.iter().map(|it| &*it.message).collect();
    assert_eq!(messages.len(), 4, "{messages:?}");
    assert!(messages[0].starts_with("/bad.json: expected value at line 2"));
    assert_eq!(messages[1], "/list.json: it is not a JSON object");
    assert!(messages[2].ends_with("on line 2"), "{}", messages[2]);
}
