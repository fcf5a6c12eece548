//! Turns in a directory that was recorded before: what a stamp shows, what it cannot, and what is done for it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use convoke_changes::{Changes, Host};

use crate::tree::{SESSION, Tree, key, repository_of, shown};

/// Waits until no later change of the files here can fall into the same tick of the clock.
fn settle() {
    std::thread::sleep(Duration::from_millis(150));
}

/// Creates a recorded tree whose stamps are settled.
fn recorded() -> Tree {
    let tree = Tree::repository();
    for number in 0..20 {
        tree.write(format!("d{}/f{number}", number % 4), "aaaa");
    }
    fs::create_dir(tree.path("empty")).unwrap();
    symlink("d0", tree.path("link")).unwrap();
    settle();
    tree.turn(1, |_| {});
    tree
}

/// Returns the stored state of the only recorded directory.
fn manifest(tree: &Tree) -> PathBuf {
    let stores = tree.temp.path().join("data/changes/stores");
    let store = fs::read_dir(stores).unwrap().next().unwrap().unwrap().path();
    store.join("manifest")
}

#[test]
fn a_turn_without_changes_starts_no_program_and_writes_no_state() {
    let tree = recorded();
    let before = repository_of(&tree.temp.path().join("data"));
    // A program that is not there cannot be started.
    let home = tree.home();
    let host = Host { path: "/nowhere".into(), config: home.join(".config"), home };
    let changes = Changes::new(&tree.temp.path().join("data"), host);
    let begun = changes.begin(&tree.project(), key(2)).unwrap();
    assert!(begun.is_complete && begun.person.is_none());
    assert!(begun.turn.finish().unwrap().changes.is_empty());
    let after = repository_of(&tree.temp.path().join("data"));
    let state = manifest(&tree);
    assert!(before[&state] == after[&state]);
    tree.write("d0/f0", "bbbb");
    assert!(!changes.begin(&tree.project(), key(3)).unwrap().is_complete, "a change needs git");
}

/// New files are what a turn without changes costs most, on some file systems.
#[test]
fn the_turn_after_a_change_writes_no_state_either() {
    let tree = recorded();
    tree.turn(2, |tree| tree.write("later", "1"));
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    let (state, running) = (manifest(&tree), manifest(&tree).with_file_name("running"));
    let spare = inode(&running.join("spare"));
    let written = inode(&state);
    settle();
    let begun = tree.begin(3);
    let names = fs::read_dir(&running).unwrap().map(|entry| entry.unwrap().path());
    let markers: Vec<PathBuf> =
        names.filter(|path| path.extension().is_some_and(|it| it == "json")).collect();
    assert_eq!(
        (markers.len(), inode(&markers[0])),
        (1, spare),
        "the file of the last turn is used"
    );
    assert!(begun.turn.finish().unwrap().changes.is_empty());
    assert_eq!(inode(&state), written);
    // What changes then is seen.
    assert_eq!(shown(&tree.turn(4, |tree| tree.write("later", "2"))), ["modified later"]);
}

#[test]
fn every_kind_of_change_is_seen_in_a_recorded_directory() {
    type Act = fn(&Tree);
    let cases: [(&str, Act, &[&str]); 14] = [
        ("same size", |tree| tree.write("d0/f0", "bbbb"), &["modified d0/f0"]),
        ("mode", |tree| tree.chmod("d1/f1", 0o600), &["mode d1/f1"]),
        ("mode of a directory", |tree| tree.chmod("d1", 0o700), &["mode d1"]),
        ("new file", |tree| tree.write("d2/new", "x"), &["added d2/new"]),
        ("new in a new directory", |tree| tree.write("e/f/g", "x"), &["added e/f/g"]),
        ("removed", |tree| fs::remove_file(tree.path("d3/f3")).unwrap(), &["deleted d3/f3"]),
        (
            "replaced by a file with an older time",
            |tree| {
                tree.write("next", "bbbb");
                let file = fs::File::options().write(true).open(tree.path("next")).unwrap();
                file.set_modified(SystemTime::now() - Duration::from_secs(5000)).unwrap();
                fs::rename(tree.path("next"), tree.path("d0/f4")).unwrap();
            },
            &["modified d0/f4"],
        ),
        (
            "time put back",
            |tree| {
                let time = fs::metadata(tree.path("d0/f0")).unwrap().modified().unwrap();
                tree.write("d0/f0", "bbbb");
                let file = fs::File::options().write(true).open(tree.path("d0/f0")).unwrap();
                file.set_modified(time).unwrap();
            },
            &["modified d0/f0"],
        ),
        (
            "directory replaced by a link to a copy of it",
            |tree| {
                fs::rename(tree.path("d1"), tree.temp.path().join("away")).unwrap();
                symlink(tree.temp.path().join("away"), tree.path("d1")).unwrap();
            },
            &[
                "type d1",
                "deleted d1/f1",
                "deleted d1/f13",
                "deleted d1/f17",
                "deleted d1/f5",
                "deleted d1/f9",
            ],
        ),
        (
            "link replaced by a link of the same length",
            |tree| {
                fs::remove_file(tree.path("link")).unwrap();
                symlink("d2", tree.path("link")).unwrap();
            },
            &["modified link"],
        ),
        (
            "file replaced by a directory",
            |tree| {
                fs::remove_file(tree.path("d2/f2")).unwrap();
                fs::create_dir(tree.path("d2/f2")).unwrap();
            },
            &["type d2/f2"],
        ),
        (
            "empty directory gone",
            |tree| fs::remove_dir(tree.path("empty")).unwrap(),
            &["deleted empty"],
        ),
        (
            "new empty directory",
            |tree| fs::create_dir(tree.path("d3/void")).unwrap(),
            &["added d3/void"],
        ),
        (
            "two files exchanged",
            |tree| {
                tree.write("d0/f0", "cccc");
                for (from, to) in [("d0/f0", "x"), ("d0/f8", "d0/f0"), ("x", "d0/f8")] {
                    fs::rename(tree.path(from), tree.path(to)).unwrap();
                }
            },
            &["modified d0/f8"],
        ),
    ];
    let tree = recorded();
    let start = tree.state();
    for (turn, (what, act, expected)) in (2..).zip(cases) {
        let record = tree.turn(turn, act);
        assert_eq!(shown(&record), expected, "{what}");
        tree.undo(turn);
        assert!(tree.state() == start, "{what}");
        settle();
        assert!(tree.turn(100 + turn, |_| {}).changes.is_empty(), "{what}");
    }
}

#[test]
fn an_edit_of_the_same_size_in_the_tick_of_the_last_recording_is_seen() {
    let tree = Tree::plain();
    for turn in 1..30 {
        // The file is written, recorded and written again at once, so that some of them fall into one tick.
        tree.write("f", format!("{turn:04}"));
        let begun = tree.begin(turn);
        tree.write("f", format!("{:04}", turn + 1000));
        let record = begun.turn.finish().unwrap();
        assert_eq!(shown(&record), ["modified f"], "turn {turn}");
        tree.write("f", format!("{:04}", turn + 2000));
        let begun = tree.begin(100 + turn);
        let person = begun.person.as_ref().map(shown);
        // A turn that is left open would count as interrupted, and take the next change for its own.
        begun.turn.finish().unwrap();
        assert_eq!(person, Some(vec!["modified f".to_owned()]), "turn {turn}");
    }
}

#[test]
fn a_file_from_the_future_is_compared_by_its_content() {
    // A clock that was put back leaves files whose times are ahead of it; the store is told of it by the times alone.
    let tree = recorded();
    let ahead = SystemTime::now() + Duration::from_secs(5000);
    for turn in 2..5 {
        let text = format!("bbb{turn}");
        let record = tree.turn(turn, |tree| {
            tree.write("d0/f0", &text);
            let file = fs::File::options().write(true).open(tree.path("d0/f0")).unwrap();
            file.set_modified(ahead).unwrap();
        });
        assert_eq!(shown(&record), ["modified d0/f0"], "turn {turn}");
        assert!(tree.turn(10 + turn, |_| {}).changes.is_empty());
    }
}

#[test]
fn a_state_that_is_damaged_or_of_another_version_is_recorded_again() {
    let tree = recorded();
    tree.turn(2, |tree| tree.write("d0/f0", "bbbb"));
    let good = fs::read(manifest(&tree)).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 0x10;
    let mut old = good.clone();
    old[b"convoke manifest ".len()] = b'1';
    for (turn, bad) in (3..).zip([&good[..good.len() / 2], &flipped, &old, b""]) {
        fs::write(manifest(&tree), bad).unwrap();
        let begun = tree.begin(turn);
        assert!(begun.is_complete && begun.person.is_none(), "{:?}", begun.person);
        tree.write("d0/f4", format!("{turn}"));
        assert_eq!(shown(&begun.turn.finish().unwrap()), ["modified d0/f4"]);
        tree.undo(turn);
    }
    tree.undo(2);
    assert_eq!((tree.read("d0/f0"), tree.read("d0/f4")), ("aaaa".into(), "aaaa".into()));
}

#[test]
fn an_interrupted_turn_whose_state_is_damaged_takes_nothing_back() {
    let tree = recorded();
    drop(tree.begin(2));
    tree.write("d0/f0", "bbbb");
    let running = manifest(&tree).with_file_name("running");
    for file in fs::read_dir(running).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "manifest") {
            // The link and the state are one file: both are replaced.
            fs::remove_file(&path).unwrap();
            fs::write(&path, "convoke manifest 1\n").unwrap();
        }
    }
    let state = tree.state();
    let records = tree.changes().records(SESSION).unwrap();
    assert!(records.iter().all(|record| record.changes.is_empty()), "{records:?}");
    assert!(tree.begin(3).person.is_none(), "a person did not make the changes of a turn");
    assert!(tree.state() == state);
}

#[test]
fn a_rule_that_comes_or_goes_changes_what_is_recorded_from_then_on() {
    let tree = recorded();
    // A recorded file stays recorded; a new one of the name is not.
    tree.write(".gitignore", "f0\n*.log\ncache/\n");
    let record = tree.turn(2, |tree| {
        tree.write("d0/f0", "bbbb");
        tree.write("d1/f0", "new");
        tree.write("a.log", "l");
        tree.write("cache/x", "x");
    });
    assert_eq!(shown(&record), ["modified d0/f0"]);
    // An ignored directory that becomes a file is not meant by the rule any more.
    let record = tree.turn(3, |tree| {
        fs::remove_dir_all(tree.path("cache")).unwrap();
        tree.write("cache", "a file");
    });
    assert_eq!(shown(&record), ["added cache"]);
    // What a rule no longer hides was there before, and is recorded from now on.
    let record = tree.turn(4, |tree| tree.write(".gitignore", ""));
    assert_eq!(shown(&record), ["modified .gitignore"]);
    let record = tree.turn(5, |tree| {
        tree.write("a.log", "2");
        tree.write("d1/f0", "2");
    });
    assert_eq!(shown(&record), ["modified a.log", "modified d1/f0"]);
    // Rules outside of the tree.
    for (turn, rules) in
        [(6, tree.path(".git/info/exclude")), (7, tree.home().join(".config/git/ignore"))]
    {
        fs::create_dir_all(rules.parent().unwrap()).unwrap();
        fs::write(&rules, format!("hidden{turn}\n")).unwrap();
        let hidden = format!("hidden{turn}");
        assert!(tree.turn(turn, |tree| tree.write(&hidden, "h")).changes.is_empty());
        fs::write(&rules, "").unwrap();
        let record = tree.turn(10 + turn, |tree| tree.write(&hidden, "2"));
        assert_eq!(shown(&record), [format!("modified {hidden}")], "the begin of the turn saw it");
    }
}

#[test]
fn rules_and_indexes_of_nested_repositories_are_compared_too() {
    let tree = recorded();
    fs::create_dir(tree.path("nested")).unwrap();
    tree.git_in("nested", &["init", "-q"]);
    tree.write("nested/.git/info/exclude", "hidden\n*.log\n");
    tree.write("nested/hidden", "1");
    tree.write("nested/a.log", "1");
    assert!(tree.turn(2, |tree| tree.write("nested/hidden", "2")).changes.is_empty());
    settle();
    tree.turn(3, |_| {});
    tree.write("nested/.git/info/exclude", "*.log\n");
    let record = tree.turn(4, |tree| tree.write("nested/hidden", "3"));
    assert_eq!(shown(&record), ["modified nested/hidden"]);
    // A file that is tracked now is recorded though a rule ignores it.
    tree.git_in("nested", &["add", "-f", "a.log"]);
    let record = tree.turn(5, |tree| tree.write("nested/a.log", "2"));
    assert_eq!(shown(&record), ["modified nested/a.log"]);
}

/// Compares what is recorded of new files with what `git add -A` takes, for rules of many kinds.
#[test]
fn new_files_are_recorded_exactly_if_git_would_add_them() {
    let names = [
        "a.log",
        "keep.log",
        "d0/a.log",
        "build/x",
        "d0/build/x",
        "x/build",
        "doc/a/frotz",
        "a/doc/frotz",
        "foo/bar/x",
        "foo/baz",
        "deep/a/b/c.o",
        "deep/c.o",
        " lead",
        "#hash",
        "!bang",
        "q?",
        "[a]",
        "a",
        "b",
        "tr ail",
        "ü/é",
        "UPPER",
        "upper",
        "sub/only/x",
        "sub/other",
        "*",
        "back\\slash",
    ];
    let rules = [
        "*.log\n!keep.log\n",
        "build/\n",
        "/build\n",
        "doc/frotz\n/doc/a\n",
        "foo/*\n!foo/bar\n",
        "**/c.o\n",
        "deep/**/c.o\n",
        "\\#hash\n\\!bang\n",
        "q\\?\n[[]a]\n",
        "[ab]\n",
        "tr ail   \n",
        "ü\nUPPER\n",
        "sub/*\n!sub/only/\n",
        "*\n!*/\n!*.o\n",
        "\\*\n",
        "# nothing\n\n   \n",
        "a\r\n",
        "back\\\\slash\n",
    ];
    for rule in rules {
        let tree = Tree::repository();
        tree.write(".gitignore", rule);
        tree.write("d0/.gitignore", "!a.log\n");
        tree.git(&["add", "-A"]);
        tree.turn(1, |_| {});
        let record = tree.turn(2, |tree| {
            for name in names {
                if !tree.path(name).exists() {
                    tree.write(name, "x");
                }
            }
        });
        let output = Command::new("git")
            .args(["ls-files", "-z", "--others", "--exclude-standard"])
            .current_dir(tree.project())
            .env("HOME", tree.home())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env_remove("XDG_CONFIG_HOME")
            .output()
            .unwrap();
        let mut wanted: Vec<String> = output
            .stdout
            .split(|&byte| byte == 0)
            .filter(|name| !name.is_empty())
            .map(|name| String::from_utf8(name.to_vec()).unwrap())
            .collect();
        wanted.sort_unstable();
        let files = record
            .changes
            .iter()
            .filter(|change| change.after.as_ref().is_some_and(|it| it.content().is_some()));
        let found: Vec<String> = files
            .map(|change| String::from_utf8(change.path.as_bytes().to_vec()).unwrap())
            .collect();
        assert_eq!(found, wanted, "{rule:?}");
    }
}

#[test]
fn a_closed_file_and_a_special_one_do_not_stop_a_turn() {
    let tree = recorded();
    let path = tree.path("d0/f0");
    fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let begun = tree.begin(2);
    assert_eq!(begun.person.as_ref().map(shown), Some(vec!["deleted d0/f0".to_owned()]));
    fs::remove_file(&path).unwrap();
    tree.write("d0/f0", "aaaa");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(shown(&begun.turn.finish().unwrap()), ["added d0/f0"]);
}
