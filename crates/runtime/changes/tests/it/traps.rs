//! The known traps of recording a working directory with git.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::tree::{SESSION, Tree, repository_of, shown};

#[test]
fn ignored_files_are_left_out_whatever_ignores_them() {
    let tree = Tree::repository();
    tree.write(".gitignore", "by-gitignore\n*.log\n!keep.log\n");
    tree.write(".git/info/exclude", "by-exclude\n");
    fs::create_dir_all(tree.home().join(".config/git")).unwrap();
    fs::write(tree.home().join(".config/git/ignore"), "by-user\n").unwrap();
    let record = tree.turn(1, |tree| {
        for name in
            ["by-gitignore", "by-exclude", "by-user", "x.log", "keep.log", "seen", "node/by-user"]
        {
            tree.write(name, name);
        }
    });
    assert_eq!(shown(&record), ["added keep.log", "added node", "added seen"]);
    tree.undo(1);
    assert!(tree.path("node/by-user").exists() && !tree.path("seen").exists());
}

#[test]
fn the_users_own_excludes_file_counts() {
    let tree = Tree::plain();
    fs::write(
        tree.home().join(".gitconfig"),
        "[user]\nname = x\n[core]\n\texcludesFile = ~/mine\n",
    )
    .unwrap();
    fs::write(tree.home().join("mine"), "secret").unwrap();
    let record = tree.turn(1, |tree| tree.write("secret", "s"));
    assert!(record.changes.is_empty());
}

#[test]
fn a_tracked_file_is_recorded_though_it_is_ignored() {
    for version in ["2", "4"] {
        let tree = Tree::repository();
        tree.write("build/kept", "1");
        tree.write("build/other", "1");
        tree.write("a.log", "1");
        tree.write(".gitignore", "build\n*.log\n");
        tree.git(&["add", "-f", "build/kept", "a.log"]);
        tree.git(&["update-index", "--index-version", version]);
        let record = tree.turn(1, |tree| {
            for name in ["build/kept", "build/other", "a.log", "b.log"] {
                tree.write(name, "2");
            }
        });
        assert_eq!(shown(&record), ["modified a.log", "modified build/kept"], "version {version}");
    }
}

#[test]
fn an_index_that_cannot_be_read_is_named_and_asked_again() {
    let tree = Tree::repository();
    tree.write("a.log", "1");
    tree.write(".gitignore", "*.log\n");
    tree.git(&["add", "-f", "a.log"]);
    let index = fs::read(tree.path(".git/index")).unwrap();
    for damaged in [&b"no index"[..], &index[..index.len() / 2]] {
        tree.write(".git/index", damaged);
        let record = tree.turn(1, |tree| tree.write("a.log", "2"));
        assert_eq!(record.unreadable(), [".git/index"]);
        assert!(record.changes.is_empty());
    }
    tree.write(".git/index", &index);
    let record = tree.turn(2, |tree| tree.write("a.log", "3"));
    assert_eq!((shown(&record), record.unreadable()), (vec!["modified a.log".to_owned()], vec![]));
    // A repository without an index tracks nothing.
    fs::remove_file(tree.path(".git/index")).unwrap();
    tree.write("b.log", "1");
    assert!(tree.turn(3, |_| {}).unreadable().is_empty());
}

#[test]
fn what_was_ignored_before_is_not_taken_for_new() {
    let tree = Tree::repository();
    tree.write(".gitignore", "data\n");
    tree.write("data/precious", "p");
    tree.write("kept", "k");
    let record = tree.turn(1, |tree| {
        tree.write(".gitignore", "");
        tree.write("added", "a");
    });
    assert_eq!(shown(&record), ["modified .gitignore", "added added"]);
    tree.undo(1);
    assert_eq!(tree.read("data/precious"), "p");
}

/// Nobody but the turn can have made it, and what was there cannot come back while it is.
#[test]
fn what_a_turn_puts_in_the_place_of_something_is_removed_though_it_is_ignored() {
    let tree = Tree::repository();
    tree.write(".gitignore", "/tracked.log\nbuilt/\n/out\n");
    tree.write("built", "a file, which the rule does not name");
    tree.write("tracked.log", "1");
    tree.write("out/tracked", "2");
    tree.git(&["add", "-f", "tracked.log", "out/tracked"]);
    let before = tree.state();
    tree.turn(1, |tree| {
        for name in ["built", "tracked.log"] {
            fs::remove_file(tree.path(name)).unwrap();
            tree.write(Path::new(name).join("deep/new"), "n");
        }
        fs::remove_dir_all(tree.path("out")).unwrap();
        tree.write("out", "a file");
    });
    let after = tree.state();
    tree.undo(1);
    assert_eq!(tree.state(), before);
    tree.redo(1);
    assert_eq!(tree.state(), after);
}

/// A line in a file of rules must not hide what a turn created.
#[test]
fn what_a_turn_creates_and_ignores_itself_counts_as_created() {
    let tree = Tree::repository();
    tree.write(".gitignore", "old\nbuilt/\n");
    tree.write("sub/.gitignore", "*.tmp\n");
    tree.write("below/kept", "1");
    tree.write("old", "precious");
    tree.write(".git/info/exclude", "");
    let before = tree.state();
    let record = tree.turn(1, |tree| {
        tree.write(".gitignore", "old\nbuilt/\nout\n.gitignore\n");
        tree.write("out/1", "1");
        tree.write("out/deep/2", "2");
        tree.write("built/by-the-old-rule", "b");
        tree.write("sub/x.tmp", "by the old rule");
        tree.write("sub/.gitignore", "*.tmp\nhidden\n");
        tree.write("sub/hidden", "h");
        tree.write("below/.gitignore", "*\n");
        tree.write("below/new", "n");
        tree.write(".git/info/exclude", "excluded\n");
        tree.write("excluded", "e");
        tree.write("nested/.gitignore", "inside/\n");
        tree.write("nested/inside/3", "3");
        tree.git_in("nested", &["init", "-q"]);
    });
    let expected = [
        "modified .gitignore",
        "added below/.gitignore",
        "added below/new",
        "added excluded",
        "added nested/.gitignore",
        "added nested/inside/3",
        "added out/1",
        "added out/deep/2",
        "modified sub/.gitignore",
        "added sub/hidden",
    ];
    assert_eq!(shown(&record), expected);
    assert!(record.hidden.is_empty());
    let after = tree.state();
    tree.undo(1);
    fs::remove_dir_all(tree.path("nested")).unwrap();
    for name in ["built", "sub/x.tmp"] {
        let path = tree.path(name);
        fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path)).unwrap();
    }
    assert_eq!(tree.state(), before);
    assert!(after != before);
    // What was ignored when it was created stays so, whatever else a turn changes, also by rules that ignore themselves.
    tree.write("own/.gitignore", "*\n");
    tree.write("own/1", "mine");
    tree.write("built/1", "mine");
    let record = tree.turn(2, |tree| {
        tree.write(".gitignore", "old\nbuilt/\nout\n");
        tree.write("built/2", "b");
        tree.write("own/2", "o");
    });
    assert_eq!(shown(&record), ["modified .gitignore"]);
}

/// An installation of packages, ignored by the turn that made it, must not turn recording off.
#[test]
fn more_than_a_record_takes_of_what_a_turn_ignores_is_named_and_left() {
    let mut tree = Tree::repository();
    tree.limits.hidden_files = 10;
    tree.limits.hidden_bytes = 1000;
    let record = tree.turn(1, |tree| {
        tree.write(".gitignore", "few\nmany\nheavy\n");
        for number in 0..20 {
            tree.write(format!("many/{number}"), "x");
        }
        tree.write("heavy", vec![0; 2000]);
        tree.write("few", "x");
    });
    assert_eq!(shown(&record), ["added .gitignore", "added few"]);
    let mut hidden: Vec<String> = record.hidden.iter().map(ToString::to_string).collect();
    hidden.sort();
    assert_eq!(hidden, ["heavy", "many"]);
    let plan = tree.changes().plan_undo(SESSION, None).unwrap();
    let mut left: Vec<String> = plan.left_alone.iter().map(|it| it.path.to_string()).collect();
    left.sort();
    assert_eq!(left, ["heavy", "many"]);
    tree.changes().undo(&plan).unwrap();
    assert!(!tree.path("few").exists() && tree.path("many/3").exists());
}

#[test]
fn bytes_are_recorded_raw_under_every_attribute() {
    let tree = Tree::repository();
    tree.git(&["config", "core.autocrlf", "true"]);
    tree.git(&["config", "filter.shout.clean", "tr a-z A-Z"]);
    tree.git(&["config", "filter.shout.smudge", "cat"]);
    tree.write(
        ".gitattributes",
        "*.txt text eol=crlf\n*.shout filter=shout\n*.id ident\n*.utf working-tree-encoding=UTF-16\n",
    );
    let files: [(&str, &[u8]); 5] = [
        ("a.txt", b"a\r\nb\n\r"),
        ("b.shout", b"quiet"),
        ("c.id", b"$Id$ $Id: x $"),
        ("d.utf", b"\xff\xfea\0\n\0"),
        ("e", b"\r\n\0\xff"),
    ];
    for (name, bytes) in files {
        tree.write(name, bytes);
    }
    let before = tree.state();
    tree.turn(1, |tree| {
        for (name, _) in files {
            tree.write(name, "x");
        }
    });
    tree.undo(1);
    assert_eq!(tree.state(), before);
}

#[test]
fn nested_repositories_and_submodules_are_recorded_inside() {
    let tree = Tree::repository();
    fs::create_dir(tree.temp.path().join("project/nested")).unwrap();
    tree.git_in("nested", &["init", "-q"]);
    tree.write("nested/file", "1");
    tree.write("nested/.gitignore", "own\n");
    // The pattern of the outer repository does not count in the nested one.
    tree.write(".gitignore", "*.tmp\n");
    tree.git(&["init", "-q", "../origin"]);
    let origin = tree.temp.path().join("origin");
    fs::write(origin.join("s"), "1").unwrap();
    for arguments in [&["add", "-A"][..], &["commit", "-q", "-m", "x"]] {
        let status = Command::new("git")
            .args(["-c", "user.name=u", "-c", "user.email=u@example.org"])
            .args(arguments)
            .current_dir(&origin)
            .status();
        assert!(status.unwrap().success());
    }
    tree.git(&["submodule", "add", "-q", origin.to_str().unwrap(), "sub"]);
    assert!(tree.path("sub/.git").is_file());
    let before = tree.state();
    let record = tree.turn(1, |tree| {
        tree.write("nested/file", "2");
        tree.write("nested/a.tmp", "2");
        tree.write("nested/own", "2");
        tree.write("sub/s", "2");
        tree.write("b.tmp", "2");
    });
    assert_eq!(shown(&record), ["added nested/a.tmp", "modified nested/file", "modified sub/s"]);
    tree.undo(1);
    fs::remove_file(tree.path("nested/own")).unwrap();
    fs::remove_file(tree.path("b.tmp")).unwrap();
    assert_eq!(tree.state(), before);
}

#[test]
fn odd_names_are_recorded_and_restored() {
    let tree = Tree::plain();
    let odd: [&[u8]; 9] = [
        b"a\nb",
        b"\"q\"",
        b"\xff\xfe",
        b"Aa",
        b"aa",
        b" lead",
        b":(top)x",
        b"-n",
        b"back\\slash\x01",
    ];
    for name in odd {
        tree.write(std::ffi::OsStr::from_bytes(name), "1");
    }
    symlink("a\nb", tree.path("link")).unwrap();
    let before = tree.state();
    let record = tree.turn(1, |tree| {
        for name in odd {
            tree.write(std::ffi::OsStr::from_bytes(name), "22");
        }
    });
    assert_eq!(record.changes.len(), odd.len());
    tree.undo(1);
    assert_eq!(tree.state(), before);
}

#[test]
fn a_change_with_the_old_size_and_time_is_seen() {
    let tree = Tree::plain();
    tree.write("f", "aaaa");
    let old = SystemTime::now() - Duration::from_secs(1000);
    let set = |tree: &Tree| {
        fs::File::options().write(true).open(tree.path("f")).unwrap().set_modified(old).unwrap();
    };
    set(&tree);
    // In quick succession, so that all of it falls into one second, and into one tick of the clock.
    for turn in 1..6 {
        let text = format!("bbb{turn}");
        let record = tree.turn(turn, |tree| {
            tree.write("f", &text);
            set(tree);
        });
        assert_eq!(shown(&record), ["modified f"], "turn {turn}");
    }
}

#[test]
fn pipes_sockets_and_devices_are_passed_over() {
    let tree = Tree::plain();
    let pipe = tree.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let record = tree.turn(1, |tree| {
        let socket = std::os::unix::net::UnixListener::bind(tree.path("socket")).unwrap();
        drop(socket);
        tree.write("file", "f");
    });
    assert_eq!(shown(&record), ["added file"]);
    tree.undo(1);
    assert!(pipe.exists() && tree.path("socket").exists());
}

#[test]
fn large_files_are_recorded_by_hash() {
    let mut tree = Tree::plain();
    tree.limits.file_bytes = 1000;
    tree.write("big", vec![1; 2000]);
    tree.write("grows", "small");
    let record = tree.turn(1, |tree| {
        tree.write("big", vec![2; 2000]);
        tree.write("grows", vec![3; 3000]);
        tree.write("small", "s");
    });
    assert_eq!(shown(&record), ["modified big", "modified grows", "added small"]);
    assert_eq!(record.large(), ["big", "grows"]);
    let plan = tree.changes().plan_undo(SESSION, None).unwrap();
    let left: Vec<String> = plan.left_alone.iter().map(|left| left.path.to_string()).collect();
    assert_eq!(left, ["big", "grows"]);
    tree.changes().undo(&plan).unwrap();
    assert!(!tree.path("small").exists());
    assert_eq!(fs::read(tree.path("big")).unwrap(), vec![2; 2000]);
    let same = tree.turn(2, |_| {});
    assert!(same.changes.is_empty());
}

#[test]
fn a_file_over_a_megabyte_is_stored_and_restored() {
    let tree = Tree::plain();
    let bytes: Vec<u8> = (0..1_000_000_u32)
        .flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    tree.write("big", &bytes);
    tree.turn(1, |tree| tree.write("big", "small"));
    tree.undo(1);
    assert!(fs::read(tree.path("big")).unwrap() == bytes);
}

#[test]
fn a_sub_directory_has_the_rules_of_its_repository() {
    let tree = Tree::repository();
    tree.write(".gitignore", "*.log\n/below/top\n");
    tree.write("below/a", "1");
    let changes = tree.changes();
    let begun = changes.begin(&tree.path("below"), crate::tree::key(1)).unwrap();
    tree.write("below/x.log", "x");
    tree.write("below/top", "x");
    tree.write("below/a", "2");
    tree.write("outside", "x");
    assert_eq!(shown(&begun.turn.finish().unwrap()), ["modified a"]);
}

#[test]
fn a_worktree_and_a_repository_in_the_middle_of_a_merge_are_recorded() {
    let tree = Tree::repository();
    tree.git(&["checkout", "-q", "-b", "other"]);
    tree.write("README", "theirs\n");
    tree.git(&["commit", "-q", "-am", "theirs"]);
    tree.git(&["checkout", "-q", "main"]);
    tree.write("README", "ours\n");
    tree.git(&["commit", "-q", "-am", "ours"]);
    assert!(tree.git(&["merge", "other"]).contains("CONFLICT"));
    tree.write("staged", "s");
    tree.git(&["add", "staged"]);
    let before = repository_of(&tree.path(".git"));
    let record = tree.turn(1, |tree| tree.write("README", "resolved\n"));
    assert_eq!(shown(&record), ["modified README"]);
    tree.undo(1);
    assert!(tree.read("README").contains("<<<<<<<"));
    assert!(before == repository_of(&tree.path(".git")));
    tree.git(&["merge", "--abort"]);
    tree.git(&["worktree", "add", "-q", "../linked", "-b", "linked"]);
    let linked = tree.temp.path().join("linked");
    assert!(linked.join(".git").is_file());
    fs::write(tree.path(".git/info/exclude"), "hidden\n").unwrap();
    let begun = tree.changes().begin(&linked, crate::tree::key(2)).unwrap();
    fs::write(linked.join("hidden"), "h").unwrap();
    fs::write(linked.join("seen"), "s").unwrap();
    assert_eq!(shown(&begun.turn.finish().unwrap()), ["added seen"]);
}

#[test]
fn a_repository_of_another_user_is_recorded() {
    let tree = Tree::repository();
    let owned = Command::new("chown").args(["-R", "65534:65534"]).arg(tree.project()).output();
    if !owned.unwrap().status.success() {
        println!("not run: files cannot be given to another user here");
        return;
    }
    // Git itself refuses it without the user's consent.
    assert!(tree.git(&["status"]).contains("dubious ownership"));
    tree.write(".gitignore", "*.log\n");
    let record = tree.turn(1, |tree| {
        tree.write("README", "changed");
        tree.write("x.log", "x");
    });
    assert_eq!(shown(&record), ["modified README"]);
    tree.undo(1);
    assert_eq!(tree.read("README"), "read me\n");
}

#[test]
fn a_sparse_checkout_has_no_deleted_files() {
    let tree = Tree::repository();
    tree.write("in/a", "1");
    tree.write("out/b", "1");
    tree.git(&["add", "-A"]);
    tree.git(&["commit", "-q", "-m", "two"]);
    tree.git(&["sparse-checkout", "set", "in"]);
    assert!(!tree.path("out").exists());
    assert_eq!(shown(&tree.turn(1, |tree| tree.write("in/a", "2"))), ["modified in/a"]);
}

#[test]
fn a_store_is_private_and_in_gits_format() {
    use std::os::unix::fs::PermissionsExt as _;
    let tree = Tree::plain();
    tree.turn(1, |tree| tree.write("a", "1"));
    let root = tree.temp.path().join("data/changes");
    assert_eq!(fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
    let stores: Vec<_> = fs::read_dir(root.join("stores")).unwrap().collect();
    assert_eq!(stores.len(), 1);
    let git = stores.into_iter().next().unwrap().unwrap().path().join("git");
    let output =
        Command::new("git").arg("--git-dir").arg(&git).args(["fsck", "--full"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(!Path::new(&git).join("objects/info/alternates").exists());
}

#[test]
fn files_with_several_names_are_taken_back_and_made_again() {
    let tree = Tree::plain();
    tree.write("one", "shared\n");
    fs::hard_link(tree.path("one"), tree.path("two")).unwrap();
    tree.write("moved", "m\n");
    let before = tree.state();
    tree.turn(1, |tree| {
        fs::write(tree.path("one"), "written to both\n").unwrap();
        tree.write("new", "new\n");
        for name in ["d/linked", "linked"] {
            fs::create_dir_all(tree.path("d")).unwrap();
            fs::hard_link(tree.path("new"), tree.path(name)).unwrap();
        }
        fs::hard_link(tree.path("moved"), tree.path("also")).unwrap();
        tree.chmod("moved", 0o600);
    });
    let after = tree.state();
    tree.undo(1);
    assert_eq!(tree.state(), before);
    tree.redo(1);
    assert_eq!(tree.state(), after);
    tree.undo(1);
    assert_eq!(tree.state(), before);
}

/// Takes a turn back as far as it can be; returns what is left and not restored, with the reason.
fn undo_in_part(tree: &Tree) -> Vec<String> {
    let changes = tree.changes();
    let plan = changes.plan_undo(SESSION, Some(1)).unwrap();
    assert!(plan.conflicts.is_empty(), "{:?}", plan.conflicts);
    changes.undo(&plan).unwrap();
    let left = plan.left_alone.iter().chain(&plan.not_restored);
    left.map(|left| format!("{}: {}", left.path, left.reason)).collect()
}

#[test]
fn what_a_turn_moved_from_where_nothing_is_recorded_is_kept() {
    let tree = Tree::repository();
    tree.write(".gitignore", ".env\n");
    tree.write("server/.gitignore", "key\n");
    for name in [".env", "server/key", "server/main", "linked"] {
        tree.write(name, format!("{name}\n"));
    }
    fs::write(tree.temp.path().join("outside"), "outside\n").unwrap();
    // They are older than the turn.
    std::thread::sleep(Duration::from_millis(300));
    let before = tree.state();
    let record = tree.turn(1, |tree| {
        fs::rename(tree.path(".env"), tree.path("settings")).unwrap();
        fs::rename(tree.path("server"), tree.path("api")).unwrap();
        fs::rename(tree.temp.path().join("outside"), tree.path("brought")).unwrap();
        // These are lost by no undo: recorded under another name, new, and with another name that stays.
        fs::rename(tree.path("linked"), tree.path("renamed")).unwrap();
        tree.write("new", "new\n");
    });
    let moved: Vec<String> = record.moved_in.iter().map(ToString::to_string).collect();
    assert_eq!(moved, ["api/key", "brought", "settings"]);
    let reason = "the turn moved it here from where nothing is recorded";
    let left = moved.iter().map(|path| format!("{path}: {reason}"));
    assert_eq!(undo_in_part(&tree), left.collect::<Vec<_>>());
    assert_eq!(tree.read("settings"), ".env\n");
    assert_eq!(tree.read("api/key"), "server/key\n");
    assert_eq!(tree.read("brought"), "outside\n");
    for name in ["server/main", "linked"] {
        assert_eq!(tree.read(name), format!("{name}\n"));
    }
    assert!(!tree.path("renamed").exists() && !tree.path("new").exists());
    // Back by hand, everything is as it was.
    fs::rename(tree.path("settings"), tree.path(".env")).unwrap();
    fs::rename(tree.path("api/key"), tree.path("server/key")).unwrap();
    fs::remove_dir(tree.path("api")).unwrap();
    fs::rename(tree.path("brought"), tree.temp.path().join("outside")).unwrap();
    assert_eq!(tree.state(), before);
}

#[test]
fn a_directory_of_the_turn_that_holds_something_else_stays_and_is_named() {
    let tree = Tree::repository();
    tree.write(".gitignore", "cache/\n");
    let before = tree.state();
    tree.turn(1, |tree| {
        tree.write("new/module", "m\n");
        tree.write("new/deep/cache/c", "c\n");
        tree.write("gone/module", "m\n");
    });
    let plan = tree.changes().plan_undo(SESSION, Some(1)).unwrap();
    assert!(plan.changes.iter().all(|it| !["new", "new/deep"].contains(&&*it.path.to_string())));
    assert!(plan.left_alone.is_empty(), "every file is restored");
    let left = ["new/deep: it holds something that would not be removed"];
    assert_eq!(undo_in_part(&tree), left);
    assert_eq!(tree.read("new/deep/cache/c"), "c\n");
    assert!(!tree.path("new/module").exists() && !tree.path("gone").exists());
    fs::remove_dir_all(tree.path("new")).unwrap();
    assert_eq!(tree.state(), before);
}

#[test]
fn a_repository_in_the_directory_that_a_turn_removes_is_named_and_missed_by_its_undo() {
    let tree = Tree::repository();
    for name in ["kept", "moved", "removed"] {
        tree.git(&["init", "-q", name]);
        tree.write(format!("{name}/f"), "f\n");
    }
    let before = tree.state();
    let record = tree.turn(1, |tree| {
        fs::rename(tree.path("moved"), tree.path("elsewhere")).unwrap();
        fs::remove_dir_all(tree.path("removed")).unwrap();
        tree.write("kept/f", "changed\n");
    });
    let lost: Vec<String> = record.lost_repositories.iter().map(ToString::to_string).collect();
    assert_eq!(lost, ["moved", "removed"]);
    let gone = "the turn removed or moved this repository, which is not recorded";
    let left = [
        "elsewhere: it holds something that would not be removed".to_owned(),
        format!("moved/.git: {gone}"),
        format!("removed/.git: {gone}"),
    ];
    assert_eq!(undo_in_part(&tree), left);
    fs::rename(tree.path("elsewhere/.git"), tree.path("moved/.git")).unwrap();
    fs::remove_dir(tree.path("elsewhere")).unwrap();
    assert_eq!(tree.state(), before);
}
