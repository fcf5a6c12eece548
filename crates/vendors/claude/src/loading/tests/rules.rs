//! Rules directories.

use super::*;
use convoke_explain::diagnostics;

#[test]
fn rules_with_paths_wait_for_a_file_that_matches() {
    let files = [
        ("/w/repo/.claude/rules/ts.md", "---\npaths: \"src/**/*.{ts,tsx}\"\n---\nts"),
        ("/w/repo/.claude/rules/all.md", "---\npaths: \"**/*\"\n---\nall"),
        ("/w/repo/.claude/rules/always.md", "---\npaths: \"**\"\n---\nalways"),
        ("/w/repo/.claude/rules/cursor.md", "---\nglobs: \"*.ts\"\n---\ncursor"),
        ("/w/home/.claude/rules/user.md", "---\npaths: src\n---\nuser"),
    ];
    let start = place("/w/repo", &files);
    let expected = ["/w/repo/.claude/rules/always.md", "/w/repo/.claude/rules/cursor.md"];
    assert_eq!(start.loaded(), expected);
    let rule = "only when a file that matches src/**/*.{ts,tsx} is read";
    assert_eq!(start.rule("/w/repo/.claude/rules/ts.md"), rule);
    let codes = start.codes();
    assert!(
        codes.contains(&"rules.conditional".to_owned())
            && codes.contains(&"rules.cursor-keys".to_owned())
    );

    let read = place("/w/repo", &files).after_reading("/w/repo/src/a/b.ts");
    let expected = [
        "/w/repo/.claude/rules/always.md",
        "/w/repo/.claude/rules/cursor.md",
        "/w/home/.claude/rules/user.md",
        "/w/repo/.claude/rules/all.md",
        "/w/repo/.claude/rules/ts.md",
    ];
    assert_eq!(read.loaded(), expected);
    let outside = place("/w/repo", &files).after_reading("/w/other/src/b.ts");
    assert_eq!(outside.loaded().len(), 2);
}

#[test]
fn a_rule_whose_front_matter_is_no_yaml_is_always_loaded() {
    let files = [
        ("/w/repo/.claude/rules/list.md", "---\npaths:\n  - *.ts\n---\nlist"),
        ("/w/repo/.claude/rules/mended.md", "---\npaths: *.ts\n---\nmended"),
    ];
    let start = place("/w/repo", &files);
    assert_eq!(start.loaded(), ["/w/repo/.claude/rules/list.md"]);
    assert!(start.codes().contains(&"rules.front-matter".to_owned()));
}

#[test]
fn empty_front_matter_is_nothing_to_report() {
    let start = place("/w/repo", &[("/w/repo/.claude/rules/a.md", "---\n---\ntext")]);
    assert_eq!(start.loaded(), ["/w/repo/.claude/rules/a.md"]);
    assert!(!start.codes().contains(&"rules.front-matter".to_owned()));
}

#[test]
fn a_pattern_that_cannot_be_read_loses_the_rules_with_paths_of_its_directory() {
    let files = [
        ("/w/repo/.claude/rules/bad.md", "---\npaths: \"[z-!]\"\n---\nbad"),
        ("/w/repo/.claude/rules/good.md", "---\npaths: \"*.ts\"\n---\ngood"),
        ("/w/repo/.claude/rules/plain.md", "plain"),
        ("/w/home/.claude/rules/user.md", "---\npaths: \"*.ts\"\n---\nuser"),
    ];
    let read = place("/w/repo", &files).after_reading("/w/repo/a.ts");
    let expected = ["/w/repo/.claude/rules/plain.md", "/w/home/.claude/rules/user.md"];
    assert_eq!(read.loaded(), expected);
    let report = read.explain();
    let found = report.diagnostics.iter().find(|it| it.code == diagnostics::RULES_PATTERN);
    assert_eq!(found.and_then(|it| it.count), Some(2));
}

#[test]
fn a_rules_directory_that_cannot_be_listed_is_reported() {
    let mut start = place("/w/repo", &[("/w/repo/.claude/rules/r.md", "r")]);
    start.tree.lock("/w/repo/.claude/rules");
    assert_eq!(start.codes(), ["file.unreadable"]);

    let mut start = place("/w/repo", &[("/w/repo/.claude/rules/r.md", "r")]);
    start.tree.link("/w/repo/.claude/rules/loop", "loop");
    start.tree.link("/w/repo/.claude/rules/up", "..");
    assert!(start.codes().is_empty(), "{:?}", start.codes());
    assert!(place("/w/repo", &[]).codes().is_empty());
}

#[test]
fn a_rules_directory_that_holds_too_much_is_reported() {
    let mut start = place("/w/repo", &[]);
    for number in 0..20_001 {
        start.tree.write(format!("/w/repo/.claude/rules/{number}.txt"), "");
    }
    assert_eq!(start.codes(), ["rules.unsearched"]);
}

#[test]
fn a_link_that_leads_nowhere_or_in_circles_is_reported() {
    for target in ["CLAUDE.md", "missing.md"] {
        let mut start = place("/w/repo", &[]);
        start.tree.link("/w/repo/CLAUDE.md", target);
        assert_eq!(start.codes(), ["file.unreadable"], "{target}");
    }
}

#[test]
fn what_a_waiting_rule_imports_is_loaded_at_once_unless_it_waits_too() {
    let files = [
        ("/w/repo/.claude/rules/a.md", "---\npaths: sub\n---\na @../../z.md @../../w.md"),
        ("/w/repo/z.md", "z"),
        ("/w/repo/w.md", "---\npaths: \"*.txt\"\n---\nw"),
    ];
    assert_eq!(place("/w/repo", &files).loaded(), ["/w/repo/z.md"]);
    let read = place("/w/repo", &files).after_reading("/w/repo/sub/f.txt");
    let expected = ["/w/repo/z.md", "/w/repo/.claude/rules/a.md", "/w/repo/w.md"];
    assert_eq!(read.loaded(), expected);
}

#[test]
fn matching_rules_of_a_directory_come_with_it_and_those_of_the_start_last() {
    let waiting = "---\npaths: \"*.txt\"\n---\nx";
    let files = [
        ("/w/repo/.claude/rules/top.md", waiting),
        ("/w/repo/sub/.claude/rules/nested.md", waiting),
        ("/w/repo/sub/deep/CLAUDE.md", "deep"),
    ];
    let read = place("/w/repo", &files).after_reading("/w/repo/sub/deep/f.txt");
    let expected = [
        "/w/repo/sub/.claude/rules/nested.md",
        "/w/repo/sub/deep/CLAUDE.md",
        "/w/repo/.claude/rules/top.md",
    ];
    assert_eq!(read.loaded(), expected);
}

#[test]
fn settings_whose_exclusions_are_no_list_count_for_nothing() {
    for excludes in ["\"**/CLAUDE.md\"", "[\"**/CLAUDE.md\", 5]"] {
        let settings = format!("{{\"claudeMdExcludes\": {excludes}}}");
        let files =
            [("/w/repo/CLAUDE.md", "c"), ("/w/repo/.claude/settings.json", settings.as_str())];
        let start = place("/w/repo", &files);
        assert_eq!(start.loaded(), ["/w/repo/CLAUDE.md"]);
        assert_eq!(start.codes(), ["settings.malformed"]);
    }
}

/// As Claude Code 2.1.197 sent them from a directory of that shape.
#[test]
fn rules_come_as_the_disk_lists_them_each_directory_in_its_place() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    let rules = home.join("repo/.claude/rules");
    for directory in ["bub", "sub"] {
        std::fs::create_dir_all(rules.join(directory)).unwrap();
    }
    for name in ["m", "z", "a", "sub/y", "sub/b", "bub/q", "bub/c", "k", "x"] {
        std::fs::write(rules.join(name).with_extension("md"), name).unwrap();
    }
    let mut expected = Vec::new();
    let listed = |directory: &Path| {
        let entries = std::fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    for path in listed(&rules) {
        if path.is_dir() {
            expected.extend(listed(&path));
        } else {
            expected.push(path);
        }
    }
    let session = Session::new(home.join("repo"), home.join("nobody"));
    let report = explain(&convoke_files::Disk, &session, Release::V325);
    let found: Vec<_> = report.loaded.into_iter().map(|file| file.path).collect();
    assert_eq!(found, expected);
}
