//! Failures around a recording.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use convoke_changes::{Begun, ChangesError, SharedTurn, TreePath, TurnKey};

use crate::tree::{SESSION, Tree, key, repository_of, shown};

#[test]
fn an_agent_may_delete_the_repository() {
    let tree = Tree::repository();
    tree.write(".git/info/exclude", "mine\n");
    tree.write("mine", "precious");
    let record = tree.turn(1, |tree| {
        fs::remove_dir_all(tree.path(".git")).unwrap();
        tree.write("README", "gone");
    });
    assert_eq!(shown(&record), ["modified README"], "what was excluded is not new");
    tree.undo(1);
    assert_eq!(tree.read("README"), "read me\n");
    assert_eq!(tree.read("mine"), "precious");
}

#[test]
fn an_agent_may_delete_the_directory_itself() {
    for is_interrupted in [false, true] {
        let tree = Tree::repository();
        tree.write("src/a", "a");
        tree.chmod("src/a", 0o600);
        fs::create_dir(tree.path("empty")).unwrap();
        let (project, before) = (tree.project(), tree.state());
        let begun = tree.begin(1);
        fs::remove_dir_all(&project).unwrap();
        if is_interrupted {
            drop(begun);
        } else {
            let record = begun.turn.finish().unwrap();
            assert_eq!(shown(&record), ["deleted README", "deleted empty", "deleted src/a"]);
        }
        let changes = tree.changes();
        assert!(changes.begin(&project, key(2)).is_err(), "there is nothing to work in");
        let records = changes.records(SESSION).unwrap();
        let recorded: Vec<bool> = records.iter().map(|it| it.not_recorded.is_none()).collect();
        assert_eq!(recorded, [true, false]);
        tree.undo(1);
        assert_eq!(tree.state(), before);
        // The next turn begins from what is there.
        let begun = tree.begin(3);
        assert!(begun.person.is_none(), "{:?}", begun.person);
        tree.write("src/a", "b");
        assert_eq!(shown(&begun.turn.finish().unwrap()), ["modified src/a"]);
    }
}

#[test]
fn an_undo_needs_nothing_of_the_users_objects() {
    let tree = Tree::repository();
    tree.write("staged", "only in the index");
    tree.git(&["add", "staged"]);
    tree.turn(1, |tree| {
        tree.write("staged", "other");
        tree.git(&["reset", "-q", "--hard"]);
        tree.git(&["reflog", "expire", "--expire=now", "--all"]);
        tree.git(&["gc", "-q", "--prune=now"]);
    });
    tree.undo(1);
    assert_eq!(tree.read("staged"), "only in the index");
}

#[test]
fn an_agent_may_use_git_itself() {
    let tree = Tree::repository();
    tree.write("README", "dirty\n");
    let record = tree.turn(1, |tree| {
        tree.git(&["stash", "-q"]);
        tree.write("b", "b");
        tree.git(&["add", "-A"]);
        tree.git(&["commit", "-q", "-m", "by the agent"]);
        tree.git(&["worktree", "add", "-q", "inside", "-b", "w"]);
    });
    let shown = shown(&record);
    assert!(
        shown.contains(&"modified README".to_owned()) && shown.contains(&"added b".to_owned()),
        "{shown:?}"
    );
    assert!(shown.contains(&"added inside/b".to_owned()), "{shown:?}");
    let repository = record.repository.as_ref().map(ToString::to_string).unwrap_or_default();
    for note in [", by 1 commit", " has 1 new entry", " has new working trees inside"] {
        assert!(repository.contains(note), "{note}: {repository}");
    }
    let record = tree.turn(2, |tree| drop(tree.git(&["worktree", "remove", "--force", "inside"])));
    let repository = record.repository.as_ref().map(ToString::to_string).unwrap_or_default();
    assert!(repository.contains(" has no longer the working trees inside"), "{repository}");
    tree.undo(2);
    tree.undo(1);
    assert_eq!(tree.read("README"), "dirty\n");
    assert!(!tree.path("b").exists());
    assert!(
        tree.git(&["log", "--oneline"]).contains("by the agent"),
        "commits are the agent's own"
    );
}

#[test]
fn over_a_limit_a_turn_is_not_recorded_and_the_next_is() {
    let mut tree = Tree::plain();
    for number in 0..20 {
        tree.write(format!("f{number}"), "x".repeat(100));
    }
    tree.limits.files = 10;
    let begin = |tree: &Tree| tree.changes().begin(&tree.project(), key(1));
    assert!(matches!(begin(&tree), Err(ChangesError::OverFiles { limit: 10 })));
    tree.limits.files = 1000;
    tree.limits.bytes = 1000;
    assert!(matches!(begin(&tree), Err(ChangesError::OverBytes { limit: 1000 })));
    tree.limits.bytes = 1 << 30;
    tree.limits.time = Duration::ZERO;
    assert!(matches!(begin(&tree), Err(ChangesError::OverTime { .. })));
    tree.limits.time = Duration::from_secs(10);
    tree.limits.free_bytes = u64::MAX / 2;
    assert!(matches!(begin(&tree), Err(ChangesError::DiskFull { .. })));
    tree.limits.free_bytes = 0;
    assert_eq!(shown(&tree.turn(2, |tree| tree.write("f0", "y"))), ["modified f0"]);
}

#[test]
fn a_limit_at_the_end_of_a_turn_is_an_error_and_the_store_stays_usable() {
    let mut tree = Tree::plain();
    tree.write("a", "1");
    tree.limits.bytes = 1000;
    let begun = tree.begin(1);
    tree.write("a", "x".repeat(2000));
    assert!(matches!(begun.turn.finish(), Err(ChangesError::OverBytes { .. })));
    tree.limits.bytes = 1 << 20;
    let record = tree.turn(2, |tree| tree.write("a", "2"));
    assert_eq!(shown(&record), ["modified a"]);
}

/// What a turn creates may be more than is recorded; what it changed can be undone all the same.
#[test]
fn new_files_over_a_limit_do_not_keep_the_turn_from_being_undone() {
    let mut tree = Tree::plain();
    tree.write("a", "1");
    tree.limits.bytes = 1000;
    let record = tree.turn(1, |tree| {
        tree.write("a", "2");
        tree.write("large", "x".repeat(2000));
        tree.write("small", "x");
    });
    assert_eq!(shown(&record), ["modified a", "added large", "added small"]);
    let plan = tree.changes().plan_undo(SESSION, None).unwrap();
    let left: Vec<String> = plan.left_alone.iter().map(|left| left.path.to_string()).collect();
    assert_eq!((plan.conflicts.len(), left), (0, vec!["large".to_owned()]));
    tree.changes().undo(&plan).unwrap();
    assert_eq!((tree.read("a"), tree.path("small").exists()), ("1".to_owned(), false));
    assert!(tree.path("large").exists());
}

/// A directory that holds a new file that stays, stays too.
#[test]
fn a_new_file_that_stays_is_not_in_the_way_of_the_others() {
    let mut tree = Tree::plain();
    tree.limits.file_bytes = 1000;
    tree.write("a", "1");
    tree.write("b", "1");
    tree.turn(1, |tree| {
        tree.write("a", "2");
        fs::remove_file(tree.path("b")).unwrap();
        tree.write("b/large", "x".repeat(2000));
    });
    let plan = tree.changes().plan_undo(SESSION, None).unwrap();
    let left: Vec<String> = plan.left_alone.iter().map(|left| left.path.to_string()).collect();
    assert_eq!((plan.conflicts.len(), left), (0, vec!["b".to_owned(), "b/large".to_owned()]));
    tree.changes().undo(&plan).unwrap();
    assert_eq!(tree.read("a"), "1");
    assert!(tree.path("b/large").exists());
}

#[test]
fn home_and_the_root_of_the_file_system_are_not_recorded() {
    let tree = Tree::plain();
    for directory in [tree.home().as_path(), tree.home().parent().unwrap(), "/".as_ref()] {
        let begun = tree.changes().begin(directory, key(1));
        assert!(matches!(begun, Err(ChangesError::NotAProject { .. })), "{}", directory.display());
    }
    // The home may be named by a link.
    let mut host = tree.host();
    host.home = tree.temp.path().join("link");
    std::os::unix::fs::symlink(tree.home(), &host.home).unwrap();
    let changes = convoke_changes::Changes::new(&tree.temp.path().join("data"), host);
    let begun = changes.begin(&tree.home(), key(1));
    assert!(matches!(begun, Err(ChangesError::NotAProject { .. })), "{begun:?}");
    let begun = changes.begin(&tree.temp.path().join("link"), key(1));
    assert!(matches!(begun, Err(ChangesError::Replaced { .. })), "{begun:?}");
}

#[test]
fn without_git_nothing_is_recorded() {
    let tree = Tree::plain();
    tree.write("a", "1");
    let mut host = tree.host();
    // A relative entry must not find a program in the project.
    tree.write("git", "#!/bin/sh\ntouch executed\n");
    tree.chmod("git", 0o755);
    let above = "../".repeat(40);
    let relative =
        format!("{above}{}", tree.project().display().to_string().trim_start_matches('/'));
    assert!(Path::new(&relative).join("git").is_file());
    host.path = format!(".:{relative}:").into();
    let changes = convoke_changes::Changes::new(&tree.temp.path().join("data"), host);
    assert!(matches!(changes.begin(&tree.project(), key(1)), Err(ChangesError::NoGit)));
    assert!(!tree.path("executed").exists());
}

#[test]
fn a_store_that_cannot_be_written_is_an_error() {
    let tree = Tree::plain();
    fs::remove_dir(tree.temp.path().join("data")).unwrap();
    fs::write(tree.temp.path().join("data"), "a file").unwrap();
    assert!(matches!(tree.changes().begin(&tree.project(), key(1)), Err(ChangesError::Io { .. })));
}

#[test]
fn two_sessions_in_one_directory_know_of_each_other() {
    let tree = Tree::plain();
    tree.write("a", "1");
    let changes = tree.changes();
    let mut other = key(7);
    other.session = "other".to_owned();
    let first = tree.begin(1);
    let second = changes.begin(&tree.project(), other).unwrap();
    tree.write("a", "2");
    let second = second.turn.finish().unwrap();
    tree.write("b", "1");
    let first = first.turn.finish().unwrap();
    assert_eq!(second.shared_with, [key(1)]);
    assert_eq!(first.shared_with[0].session, "other");
    assert_eq!(shown(&second), ["modified a"]);
    assert_eq!(shown(&first), ["modified a", "added b"]);
    assert_eq!(first.shared_with[0].name_in(SESSION), "turn 7 of max in session other");
    assert_eq!(second.shared_with[0].name_in(SESSION), "turn 1 of max");
    // Neither a turn of another session nor an earlier one counts as a person's.
    let begun = tree.begin(2);
    assert!(begun.person.is_none());
    assert!(begun.turn.finish().unwrap().shared_with.is_empty());
}

/// Each of two turns has the changes of both in its record, so that neither is taken back without a word.
#[test]
fn an_undo_of_what_may_be_the_work_of_another_turn_is_refused() {
    let tree = Tree::plain();
    let changes = tree.changes();
    for other in [TurnKey { session: "other".to_owned(), ..key(7) }, key(2)] {
        tree.write("f", "1\n");
        let session = other.session.clone();
        let first = tree.begin(1);
        tree.write("early", "of the first");
        let second = changes.begin(&tree.project(), other.clone()).unwrap();
        tree.write("f", "1\n2\n");
        second.turn.finish().unwrap();
        tree.write("late", "of the first");
        first.turn.finish().unwrap();
        let before = tree.state();
        for (session, turn, with) in
            [(SESSION, 1, other.clone()), (session.as_str(), other.turn, key(1))]
        {
            let mut plan = changes.plan_undo(session, Some(turn)).unwrap();
            let paths = vec![TreePath::new("f")];
            assert_eq!(plan.shared_with, [SharedTurn { turn: with, paths }]);
            assert!(plan.conflicts.is_empty() && plan.is_refused_as_shared());
            assert!(matches!(changes.undo(&plan), Err(ChangesError::Shared)));
            assert!(tree.state() == before);
            plan.takes_shared = true;
            changes.undo(&plan).unwrap();
            assert_eq!(tree.read("f"), "1\n");
            // What was taken back is redone without asking.
            let plan = changes.plan_redo(session, Some(turn)).unwrap();
            assert!(plan.is_redo && !plan.is_refused_as_shared());
            changes.undo(&plan).unwrap();
            assert!(tree.state() == before);
            let again = changes.plan_undo(session, Some(turn)).unwrap();
            assert!(again.is_refused_as_shared(), "{again:?}");
        }
        for name in ["early", "late"] {
            fs::remove_file(tree.path(name)).unwrap();
        }
        changes.remove(&session).unwrap();
        changes.remove(SESSION).unwrap();
    }
}

/// A turn that began after another had written a file goes back to what that one wrote; its own record says nothing of what
/// was there before both.
#[test]
fn turns_that_overlap_are_undone_in_any_order_and_redone() {
    for order in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
        let tree = Tree::plain();
        tree.write("f", "0");
        let before = tree.state();
        let begin = |turn: u64| {
            let begun = tree.begin(turn);
            tree.write("f", turn.to_string());
            tree.write(format!("of {turn}"), "");
            // The times at which turns begin are told apart by milliseconds.
            std::thread::sleep(Duration::from_millis(3));
            begun
        };
        let running: Vec<Begun> = (1..=3).map(begin).collect();
        for begun in running {
            begun.turn.finish().unwrap();
        }
        let after = tree.state();
        let mut undone = Vec::new();
        for turn in order {
            let mut plan = tree.changes().plan_undo(SESSION, Some(turn)).unwrap();
            assert!(plan.conflicts.is_empty(), "{turn} of {order:?}: {:?}", plan.conflicts);
            plan.takes_shared = true;
            if !plan.changes.is_empty() {
                tree.changes().undo(&plan).unwrap();
                undone.push(turn);
            }
        }
        assert!(tree.state() == before, "{order:?}");
        for turn in undone.into_iter().rev() {
            let plan = tree.changes().plan_redo(SESSION, Some(turn)).unwrap();
            assert!(plan.is_redo && !plan.is_refused(), "{turn} of {order:?}");
            tree.changes().undo(&plan).unwrap();
        }
        assert!(tree.state() == after, "{order:?}");
    }
}

#[test]
fn a_plan_says_that_a_turn_is_running() {
    let tree = Tree::plain();
    tree.turn(1, |tree| tree.write("a", "1"));
    let running = tree.begin(2);
    let plan = tree.changes().plan_undo(SESSION, Some(1)).unwrap();
    assert!(plan.is_busy && plan.is_refused() && plan.conflicts.is_empty());
    running.turn.finish().unwrap();
    assert!(!tree.changes().plan_undo(SESSION, Some(1)).unwrap().is_refused());
}

#[test]
fn a_turn_that_shared_the_directory_and_changed_other_files_is_named_and_undone() {
    let tree = Tree::plain();
    let other = TurnKey { session: "other".to_owned(), ..key(7) };
    let first = tree.begin(1);
    tree.write("a", "of the first");
    let second = tree.changes().begin(&tree.project(), other.clone()).unwrap();
    second.turn.finish().unwrap();
    first.turn.finish().unwrap();
    let plan = tree.changes().plan_undo(SESSION, Some(1)).unwrap();
    assert_eq!(plan.shared_with, [SharedTurn { turn: other.clone(), paths: Vec::new() }]);
    assert!(!plan.is_refused_as_shared());
    // Of a turn that is not recorded, everything may be.
    tree.changes().remove("other").unwrap();
    let plan = tree.changes().plan_undo(SESSION, Some(1)).unwrap();
    assert_eq!(plan.shared_with, [SharedTurn { turn: other, paths: vec![TreePath::new("a")] }]);
    assert!(plan.is_refused_as_shared());
}

#[test]
fn an_interrupted_turn_knows_which_turns_ran_at_the_same_time() {
    let tree = Tree::plain();
    let interrupted = tree.begin(1);
    let other = TurnKey { session: "other".to_owned(), ..key(7) };
    let second = tree.changes().begin(&tree.project(), other.clone()).unwrap();
    tree.write("a", "1");
    second.turn.finish().unwrap();
    drop(interrupted);
    let records = tree.changes().records(SESSION).unwrap();
    assert!(records[0].interrupted);
    assert_eq!(records[0].shared_with, [other]);
}

#[test]
fn a_turn_that_is_not_recorded_is_named_with_its_reason() {
    let mut tree = Tree::plain();
    tree.write("a", "1");
    tree.turn(1, |tree| tree.write("a", "2"));
    // The start of a turn, and its end.
    tree.limits.files = 1;
    assert!(tree.changes().begin(&tree.project(), key(2)).is_err());
    tree.limits.files = 1000;
    tree.write("b", "of turn 2");
    let changes = tree.changes();
    let error = |turn| changes.plan_undo(SESSION, turn).unwrap_err().to_string();
    let reason =
        "turn 2 (max) was not recorded and cannot be undone: the directory has more than 1 files";
    assert_eq!(error(Some(2)), reason);
    let plan = changes.plan_undo(SESSION, None).unwrap();
    assert_eq!((plan.turn.turn, plan.not_recorded.len()), (1, 1));
    assert!(changes.plan_undo(SESSION, Some(1)).unwrap().not_recorded.is_empty());
    let begun = tree.begin(3);
    assert!(begun.person.is_none(), "what turn 2 changed is not a person's: {:?}", begun.person);
    tree.limits.bytes = 10;
    let begun = Begun { turn: tree.begin(3).turn, ..begun };
    tree.write("b", "x".repeat(2000));
    assert!(matches!(begun.turn.finish(), Err(ChangesError::OverBytes { .. })));
    assert!(error(Some(3)).contains("turn 3 (max) was not recorded"), "{}", error(Some(3)));
    let records = changes.records(SESSION).unwrap();
    let lost = records.iter().filter(|record| record.not_recorded.is_some());
    assert_eq!(lost.map(|record| record.turn.turn).collect::<Vec<_>>(), [2, 3]);
    // The same holds for a session without other records.
    let home = tree.home();
    let other = TurnKey { session: "other".to_owned(), ..key(1) };
    assert!(changes.begin(&home, other).is_err());
    let why = changes.plan_undo("other", None).unwrap_err().to_string();
    assert!(
        why.contains("turn 1 (max) was not recorded") && why.contains("not the directory"),
        "{why}"
    );
    assert_eq!(changes.records("other").unwrap().len(), 1);
}

#[test]
fn nothing_is_taken_back_while_a_turn_runs() {
    let tree = Tree::plain();
    tree.turn(1, |tree| tree.write("a", "1"));
    let plan = tree.changes().plan_undo(SESSION, None).unwrap();
    let _running = tree.begin(2);
    assert!(matches!(tree.changes().undo(&plan), Err(ChangesError::Busy { .. })));
    assert_eq!(tree.read("a"), "1");
}

#[test]
fn a_turn_whose_process_died_is_recorded_later() {
    let tree = Tree::plain();
    tree.write("a", "1");
    drop(tree.begin(1));
    tree.write("a", "2");
    let records = tree.changes().records(SESSION).unwrap();
    assert_eq!(records.len(), 1);
    assert!(records[0].interrupted);
    assert_eq!(shown(&records[0]), ["modified a"]);
    assert!(tree.begin(2).person.is_none());
}

#[test]
fn copies_that_a_killed_process_left_are_removed() {
    let tree = Tree::plain();
    tree.turn(1, |tree| tree.write("a", "1"));
    let stores = tree.temp.path().join("data/changes/stores");
    let store = fs::read_dir(stores).unwrap().next().unwrap().unwrap().path();
    let (old, young) = (store.join("scratch/copy-1"), store.join("scratch/copy-2"));
    for file in [&old, &young] {
        fs::write(file, "a copy").unwrap();
    }
    let day = std::time::SystemTime::now() - Duration::from_hours(24);
    fs::File::options().write(true).open(&old).unwrap().set_modified(day).unwrap();
    tree.turn(2, |tree| tree.write("a", "2"));
    assert!(!old.exists() && young.exists(), "a running process may need the young one");
}

#[test]
fn files_that_change_while_they_are_recorded_do_no_harm() {
    let tree = Tree::plain();
    for number in 0..50 {
        tree.write(format!("f{number}"), "start");
    }
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut count = 0_u64;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                count += 1;
                tree.write(format!("f{}", count % 50), "x".repeat((count % 3000) as usize));
                tree.write(format!("dir{}/x", count % 7), "y");
                let _ = fs::remove_dir_all(tree.path(format!("dir{}", (count + 3) % 7)));
            }
        });
        let recorded: Vec<_> = (1..4)
            .map(|turn| tree.changes().begin(&tree.project(), key(turn))?.turn.finish())
            .collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for record in recorded {
            record.unwrap();
        }
    });
    let record = tree.turn(9, |tree| tree.write("f1", "end"));
    assert_eq!(shown(&record), ["modified f1"]);
}

#[test]
fn a_damaged_manifest_costs_a_new_copy_and_nothing_else() {
    let tree = Tree::plain();
    tree.write("a", "1");
    tree.turn(1, |tree| tree.write("a", "2"));
    let stores = tree.temp.path().join("data/changes/stores");
    let store = fs::read_dir(stores).unwrap().next().unwrap().unwrap().path();
    fs::write(store.join("manifest"), "convoke manifest 1\nrubbish").unwrap();
    assert_eq!(shown(&tree.turn(2, |tree| tree.write("a", "3"))), ["modified a"]);
    tree.undo(2);
    tree.undo(1);
    assert_eq!(tree.read("a"), "1");
}

#[test]
fn a_rebase_in_progress_and_a_dirty_index_are_recorded_and_left_as_they_are() {
    let tree = Tree::repository();
    tree.git(&["checkout", "-q", "-b", "other"]);
    tree.write("README", "of the branch\n");
    tree.git(&["commit", "-q", "-a", "-m", "other"]);
    tree.git(&["checkout", "-q", "main"]);
    tree.write("README", "of main\n");
    tree.git(&["commit", "-q", "-a", "-m", "main"]);
    tree.git(&["rebase", "other"]);
    assert!(tree.path(".git/rebase-merge").is_dir());
    tree.write("staged", "1\n");
    tree.git(&["add", "staged"]);
    tree.write("staged", "2\n");
    let before = (tree.state(), repository_of(&tree.path(".git")));
    let record = tree.turn(1, |tree| {
        tree.write("README", "resolved\n");
        tree.write("staged", "3\n");
    });
    assert_eq!(shown(&record), ["modified README", "modified staged"]);
    tree.undo(1);
    assert!((tree.state(), repository_of(&tree.path(".git"))) == before);
    assert!(tree.read("README").contains("<<<<<<<"));
    assert!(tree.git(&["status"]).contains("rebase in progress"));
}

#[test]
fn a_directory_that_cannot_be_written_is_recorded_and_restored() {
    let tree = Tree::plain();
    tree.write("closed/a", "1");
    tree.chmod("closed", 0o555);
    let record = tree.turn(1, |tree| {
        tree.chmod("closed", 0o755);
        tree.write("closed/a", "2");
        tree.write("closed/b", "2");
        tree.chmod("closed", 0o555);
    });
    assert_eq!(shown(&record), ["modified closed/a", "added closed/b"]);
    let before = tree.state();
    tree.undo(1);
    assert_eq!(tree.read("closed/a"), "1");
    assert!(!tree.path("closed/b").exists());
    tree.redo(1);
    assert!(tree.state() == before);
    tree.chmod("closed", 0o755);
}

/// Runs this test again in another process, started by a shell that does something first.
fn run_again(name: &str, prelude: &str, root: &Path) -> std::process::Output {
    let script = format!("{prelude}\nexec \"$0\" \"$@\"");
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &script]).arg(program).args([name, "--exact", "--nocapture"]);
    command.env(AGAIN, root).output().unwrap()
}

const AGAIN: &str = "CONVOKE_BAD_CASE";

#[test]
fn a_full_disk_ends_the_recording_and_harms_nothing() {
    let name = "bad_cases::a_full_disk_ends_the_recording_and_harms_nothing";
    let noise = |seed: u64, bytes: usize| -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(seed);
        std::iter::repeat_with(|| random.u8(..)).take(bytes).collect()
    };
    if let Some(root) = std::env::var_os(AGAIN) {
        // No file of this process can grow over 256 KiB.
        let tree = Tree::at(root.into());
        let begun = tree.begin(1);
        assert!(!begun.is_complete, "the first copy failed");
        fs::rename(tree.path("large"), tree.path("moved")).unwrap();
        let ended = begun.turn.finish();
        let failed = matches!(ended, Err(ChangesError::Git { .. } | ChangesError::Io { .. }));
        assert!(failed, "{ended:?}");
        println!("the recording failed");
        return;
    }
    let tree = Tree::plain();
    tree.write("small", "1");
    tree.write("large", noise(1, 900 << 10));
    let output = run_again(name, "trap '' XFSZ; ulimit -f 512", tree.temp.path());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("the recording failed"), "{output:?}");
    assert_eq!(fs::read(tree.path("moved")).unwrap(), noise(1, 900 << 10));
    let nothing = tree.changes().plan_undo(SESSION, None).unwrap_err();
    assert!(matches!(nothing, ChangesError::NothingToUndo(_)), "{nothing}");
    // With room again, the next turn is complete, and no person is said to have made the changes of the first.
    let begun = tree.begin(2);
    assert!(begun.is_complete && begun.person.is_none(), "{:?}", begun.person);
    drop(begun);
    let record = tree.turn(2, |tree| {
        tree.write("small", "2");
        tree.write("moved", noise(2, 900 << 10));
    });
    assert_eq!(shown(&record), ["modified moved", "modified small"]);
    tree.undo(2);
    assert!(fs::read(tree.path("moved")).unwrap() == noise(1, 900 << 10));
}

#[test]
fn an_undo_keeps_what_may_be_the_copy_of_a_file_that_it_cannot_restore() {
    let mut tree = Tree::plain();
    tree.limits.file_bytes = 1000;
    tree.write("large", "x".repeat(2000));
    drop(tree.begin(1));
    fs::remove_file(tree.path("large")).unwrap();
    tree.write("copy", "y".repeat(2000));
    tree.write("new/other", "something else");
    // What is recorded now is not too large.
    tree.limits.file_bytes = 1 << 20;
    let mut plan = tree.changes().plan_undo(SESSION, None).unwrap();
    let left: Vec<String> = plan.left_alone.iter().map(|left| left.path.to_string()).collect();
    assert_eq!(left, ["copy", "large"]);
    // What is something else is the turn's own: it goes, and a redo brings it back.
    plan.takes_shared = true;
    tree.changes().undo(&plan).unwrap();
    assert!(tree.path("copy").exists() && !tree.path("new").exists());
}

#[test]
fn unreadable_files_are_named_and_the_others_are_recorded() {
    let name = "bad_cases::unreadable_files_are_named_and_the_others_are_recorded";
    let tree = match std::env::var_os(AGAIN) {
        Some(root) => Tree::at(root.into()),
        None => Tree::plain(),
    };
    if std::env::var_os(AGAIN).is_none() {
        tree.write("closed", "1");
        tree.write("open", "1");
        tree.write("directory/inside", "1");
        tree.chmod("closed", 0);
        tree.chmod("directory", 0);
    }
    if fs::read(tree.path("closed")).is_ok() {
        // Root reads every file; somebody else does not.
        let all = "chown -R 65534:65534 \"$CONVOKE_BAD_CASE\" || exit 77";
        let prelude = format!(
            "{all}\ncommand -v setpriv > /dev/null || exit 77\n\
             exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$0\" \"$@\""
        );
        let output = run_again(name, &prelude, tree.temp.path());
        if output.status.code() == Some(77) {
            println!("not run: nobody here is without the right to read every file");
            return;
        }
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let record = tree.turn(1, |tree| {
        tree.write("open", "2");
        fs::remove_file(tree.path("closed")).unwrap();
        tree.write("closed", "2");
        tree.chmod("closed", 0);
    });
    assert_eq!(shown(&record), ["modified closed", "modified open"]);
    assert_eq!(record.unreadable(), ["closed", "directory"]);
    let plan = tree.changes().plan_undo(SESSION, None).unwrap();
    assert_eq!((plan.changes.len(), plan.left_alone.len()), (1, 1), "{plan:?}");
    tree.changes().undo(&plan).unwrap();
    assert_eq!(tree.read("open"), "1");
    tree.chmod("directory", 0o755);
    assert_eq!(tree.read("directory/inside"), "1");
}

#[test]
fn what_a_turn_does_to_the_repository_is_recorded() {
    let tree = Tree::repository();
    let changed = |turn, act: &dyn Fn(&Tree)| {
        let repository = tree.turn(turn, act).repository;
        let named = repository.as_ref().map(ToString::to_string).unwrap_or_default();
        named.replace(&tree.project().display().to_string(), "DIR")
    };
    assert_eq!(changed(1, &|tree| tree.write("a", "1")), "");
    let first = tree.git(&["rev-parse", "--short=7", "HEAD"]);
    let committed = changed(2, &|tree| {
        tree.git(&["add", "-A"]);
        tree.git(&["commit", "-q", "-m", "second"]);
    });
    let second = tree.git(&["rev-parse", "--short=7", "HEAD"]);
    let (first, second) = (first.trim(), second.trim());
    assert_eq!(
        committed,
        format!("HEAD of DIR was main at {first} and is main at {second}, by 1 commit")
    );
    let switched = changed(3, &|tree| drop(tree.git(&["checkout", "-q", "-b", "topic"])));
    assert_eq!(switched, format!("HEAD of DIR was main at {second} and is topic at {second}"));
    tree.write("a", "2");
    let stashed = changed(4, &|tree| drop(tree.git(&["stash", "-q"])));
    assert_eq!(stashed, "the stash of DIR has 1 new entry");
    let counted = tree.turn(40, |tree| {
        for text in ["4", "5", "6"] {
            tree.write("a", text);
            tree.git(&["commit", "-q", "-a", "-m", text]);
        }
        tree.git(&["commit", "-q", "--amend", "-m", "amended"]);
        tree.write("a", "7");
        tree.git(&["stash", "-q"]);
    });
    assert_eq!(counted.repository.unwrap().counts(), "4 commits, 1 stash");
    tree.git(&["reset", "-q", "--hard", second]);
    tree.write("a", "2");
    let dropped = changed(41, &|tree| drop(tree.git(&["stash", "drop", "-q"])));
    assert_eq!(dropped, "the stash of DIR has another latest entry");
    tree.git(&["pack-refs", "--all"]);
    assert_eq!(changed(5, &|tree| tree.write("a", "3")), "");
    let detached = changed(6, &|tree| drop(tree.git(&["checkout", "-q", "-f", first])));
    assert_eq!(detached, format!("HEAD of DIR was topic at {second} and is {first}"));
    let removed = changed(7, &|tree| fs::remove_dir_all(tree.path(".git")).unwrap());
    assert_eq!(removed, "the repository of DIR is gone, with its commits, branches and stash");
}

/// Its undo would take the work of another turn for this one's.
#[test]
fn a_turn_is_not_recorded_if_it_cannot_be_known_which_turns_ran_at_the_same_time() {
    let tree = Tree::repository();
    tree.turn(1, |tree| tree.write("README", "1"));
    let stores = tree.temp.path().join("data/changes/stores");
    let store = fs::read_dir(stores).unwrap().next().unwrap().unwrap().path();
    let ended = store.join("ended");
    fs::remove_file(&ended).unwrap();
    fs::create_dir(&ended).unwrap();
    let begun = tree.begin(2);
    tree.write("README", "2");
    assert!(begun.turn.finish().is_err());
    let records = tree.changes().records(SESSION).unwrap();
    assert!(records.last().unwrap().not_recorded.is_some());
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_named_as_what_is_in_the_way() {
    let tree = Tree::repository();
    tree.write("d/a", "a");
    tree.turn(1, |tree| {
        fs::remove_dir_all(tree.path("d")).unwrap();
        fs::remove_file(tree.path("README")).unwrap();
        for name in ["README", "d"] {
            let made = Command::new("mkfifo").arg(tree.path(name)).status().unwrap();
            assert!(made.success());
        }
    });
    let plan = tree.changes().plan_undo(SESSION, None).unwrap();
    let conflicts: Vec<(String, bool)> = plan
        .conflicts
        .iter()
        .map(|it| (it.path.to_string(), it.reason.starts_with("a pipe, a socket or a device")))
        .collect();
    assert_eq!(conflicts, [("README".to_owned(), true), ("d".to_owned(), true)]);
    for name in ["README", "d"] {
        fs::remove_file(tree.path(name)).unwrap();
    }
    tree.undo(1);
    assert_eq!((tree.read("README"), tree.read("d/a")), ("read me\n".to_owned(), "a".to_owned()));
}
