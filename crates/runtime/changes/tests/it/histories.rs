//! Random histories of edits over kinds of repositories, with undo, redo and undo again: bytes, modes and links of the
//! directory come back, and no byte of a repository changes. An undo that a person disturbs changes nothing.
//!
//! A seed decides the kind and everything in its history. `CONVOKE_HISTORIES` sets how many there are, `CONVOKE_HISTORY_SEED`
//! the first seed; with `CONVOKE_HISTORIES=1`, a failed one is repeated alone.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use convoke_changes::{Changes, ChangesError, Conflict, Progress, UndoPlan};
use fastrand::Rng;

use crate::tree::{SESSION, Tree, key};

const HISTORIES: u64 = 40;
const FIRST_SEED: u64 = 20_261_118;

/// A kind of directory, and what makes one of a plain directory with some files.
type Kind = (&'static str, fn(&Tree));

const KINDS: [Kind; 18] = [
    ("no repository", |_| {}),
    ("clean", committed),
    ("dirty", |tree| {
        committed(tree);
        tree.write("a", "dirty\n");
        tree.write("untracked", "mine\n");
    }),
    ("staged", |tree| {
        committed(tree);
        tree.write("a", "staged\n");
        tree.write("d/new", "staged\n");
        tree.git(&["add", "-A"]);
        tree.write("a", "and dirty\n");
    }),
    ("submodule", |tree| {
        let library = tree.temp.path().join("library");
        fs::create_dir(&library).unwrap();
        let at = library.to_str().unwrap();
        tree.git(&["init", "-q", at]);
        fs::write(library.join("inside"), "inside\n").unwrap();
        tree.git(&["-C", at, "add", "-A"]);
        tree.git(&["-C", at, "commit", "-q", "-m", "inside"]);
        committed(tree);
        tree.git(&["submodule", "add", "-q", at, "d/library"]);
        tree.git(&["commit", "-q", "-m", "library"]);
        assert!(tree.path("d/library/inside").exists());
    }),
    ("nested", |tree| {
        committed(tree);
        tree.git(&["init", "-q", "d/nested"]);
        tree.write("d/nested/a", "nested\n");
        tree.git_in("d/nested", &["add", "-A"]);
        tree.git_in("d/nested", &["commit", "-q", "-m", "nested"]);
        // One without a commit.
        tree.git(&["init", "-q", "empty-nested"]);
        tree.write("empty-nested/a", "nested\n");
    }),
    ("worktree", |tree| {
        let origin = tree.temp.path().join("origin");
        fs::rename(tree.project(), &origin).unwrap();
        fs::create_dir(tree.temp.path().join("project")).unwrap();
        let at = origin.to_str().unwrap();
        tree.git(&["-C", at, "init", "-q", "-b", "main"]);
        tree.git(&["-C", at, "add", "-A"]);
        tree.git(&["-C", at, "commit", "-q", "-m", "first"]);
        let project = tree.project();
        tree.git(&["-C", at, "worktree", "add", "-q", project.to_str().unwrap(), "-b", "other"]);
        assert!(tree.path(".git").is_file());
    }),
    ("sparse", |tree| {
        tree.write("left-out/x", "x\n");
        committed(tree);
        tree.git(&["sparse-checkout", "set", "--sparse-index", "d"]);
        assert!(!tree.path("left-out").exists());
    }),
    ("split index", |tree| {
        tree.write("tracked.log", "tracked\n");
        committed(tree);
        tree.write(".gitignore", "/tracked.log\nignored/\n");
        tree.git(&["update-index", "--split-index"]);
        tree.git(&["add", "-A"]);
    }),
    ("SHA-256", |tree| {
        tree.write("tracked.log", "tracked\n");
        tree.git(&["init", "-q", "-b", "main", "--object-format=sha256"]);
        tree.git(&["add", "-A"]);
        tree.git(&["commit", "-q", "-m", "first"]);
        tree.write(".gitignore", "/tracked.log\nignored/\n");
    }),
    ("LFS pointers", |tree| {
        tree.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n* text=auto\n");
        tree.write("p.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n");
        tree.write("crlf", "one\r\ntwo\r\n");
        committed(tree);
        tree.write("p.bin", "the large content\n");
    }),
    ("middle of a rebase", |tree| {
        diverged(tree);
        tree.git(&["rebase", "main"]);
        assert!(tree.path(".git/rebase-merge").exists());
    }),
    ("middle of a merge", |tree| {
        diverged(tree);
        tree.git(&["merge", "main"]);
        assert!(tree.path(".git/MERGE_HEAD").exists());
    }),
    ("middle of a cherry-pick", |tree| {
        diverged(tree);
        tree.git(&["cherry-pick", "main"]);
        assert!(tree.path(".git/CHERRY_PICK_HEAD").exists());
    }),
    ("middle of a bisect", |tree| {
        committed(tree);
        for number in 0..4 {
            tree.write("a", format!("{number}\n"));
            tree.git(&["commit", "-q", "-a", "-m", "next"]);
        }
        tree.git(&["bisect", "start", "HEAD", "HEAD~4"]);
        assert!(tree.path(".git/BISECT_LOG").exists());
    }),
    ("ignored trees", |tree| {
        tree.write(".gitignore", "ignored/\n*.tmp\n!kept.tmp\n");
        tree.write("d/.gitignore", "build/\n");
        tree.write("ignored/forced", "tracked\n");
        tree.write("kept.tmp", "kept\n");
        committed(tree);
        tree.git(&["add", "-f", "ignored/forced"]);
        tree.write("ignored/other", "not recorded\n");
        tree.write("d/build/out", "not recorded\n");
    }),
    ("odd names", |tree| {
        for name in ODD_NAMES {
            let path = tree.project().join(OsStr::from_bytes(name));
            fs::write(path, name).unwrap();
        }
        committed(tree);
    }),
    ("links", |tree| {
        for (name, target) in
            [("to-file", "a"), ("to-directory", "d"), ("to-nothing", "gone"), ("loop", "loop")]
        {
            symlink(target, tree.path(name)).unwrap();
        }
        symlink(tree.temp.path().join("outside"), tree.path("outside")).unwrap();
        symlink(tree.temp.path().join("outside/file"), tree.path("d/outside")).unwrap();
        committed(tree);
    }),
];

const ODD_NAMES: [&[u8]; 12] = [
    b"new\nline",
    b"not \xff utf-8",
    b"\"quoted\"",
    b"back\\slash",
    b" space ",
    b"-dash",
    b":(top)magic",
    b"!negated",
    b"#comment",
    b"tab\t",
    "größe".as_bytes(),
    b"*",
];

/// The names of directories and files that edits meet at.
const NAMES: [&[u8]; 12] = [
    b"a",
    b"b",
    b"c",
    b"d",
    b"e",
    b"A",
    b"x.bin",
    b"tracked.log",
    b"d",
    b"d",
    b"library",
    b"nested",
];

fn committed(tree: &Tree) {
    tree.git(&["init", "-q", "-b", "main"]);
    tree.git(&["add", "-A"]);
    tree.git(&["commit", "-q", "-m", "first"]);
}

/// Creates two branches that changed one file in two ways.
fn diverged(tree: &Tree) {
    committed(tree);
    tree.git(&["checkout", "-q", "-b", "side"]);
    tree.write("a", "side\n");
    tree.git(&["commit", "-q", "-a", "-m", "side"]);
    tree.git(&["checkout", "-q", "main"]);
    tree.write("a", "main\n");
    tree.git(&["commit", "-q", "-a", "-m", "main"]);
    tree.git(&["checkout", "-q", "side"]);
}

/// What is at a path: its mode and bytes. The bytes of what cannot be read are not known.
type State = BTreeMap<PathBuf, Entry>;

/// The mode of an entry, and its content as far as it can be read.
type Entry = (u32, Option<Vec<u8>>);

/// What is at a path, with the time of its last change.
type Timed = (u32, Option<Vec<u8>>, i64, i64);

/// Adds everything below a directory that is wanted.
fn look(directory: &Path, is_wanted: &dyn Fn(&Path) -> bool, state: &mut State) {
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if !is_wanted(&path) {
            continue;
        }
        let content = if metadata.is_dir() {
            look(&path, is_wanted, state);
            fs::read_dir(&path).ok().map(|_| Vec::new())
        } else if metadata.is_symlink() {
            Some(fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes())
        } else {
            fs::read(&path).ok()
        };
        state.insert(path, (metadata.mode(), content));
    }
}

/// Returns everything that Convoke records: without repositories, and without what is ignored.
fn recorded(tree: &Tree) -> State {
    let root = tree.project();
    let is_wanted = |path: &Path| {
        let below = path.strip_prefix(&root).unwrap();
        path.file_name() != Some(OsStr::new(".git")) && !is_ignored(below)
    };
    let mut state = State::new();
    look(&root, &is_wanted, &mut state);
    state
}

/// Returns whether an edit may not name a path, because only some of what is below it is recorded.
fn is_ignored(below: &Path) -> bool {
    let is_forced = below == Path::new("ignored") || below == Path::new("ignored/forced");
    let is_build = below.starts_with("d/build");
    let is_temporary = below.extension() == Some(OsStr::new("tmp")) && !below.ends_with("kept.tmp");
    (below.starts_with("ignored") && !is_forced) || is_build || is_temporary
}

/// Returns every byte and time of what no undo may touch: repositories, ignored files, and what lies outside.
fn untouched(tree: &Tree) -> BTreeMap<PathBuf, Timed> {
    let (top, root) = (tree.temp.path(), tree.project());
    let mut state = State::new();
    let is_wanted = |path: &Path| path.file_name() != Some(OsStr::new("data"));
    look(top, &is_wanted, &mut state);
    let is_repository = |path: &Path| path.iter().any(|name| name == ".git");
    let is_kept = |path: &Path| match path.strip_prefix(&root) {
        Ok(below) => is_repository(below) || is_ignored(below),
        Err(_) => true,
    };
    let kept = state.into_iter().filter(|(path, _)| is_kept(path));
    let timed = kept.map(|(path, (mode, bytes))| {
        let metadata = fs::symlink_metadata(&path).unwrap();
        // A directory that is not ours to keep has other entries.
        let is_repository = !metadata.is_dir() || is_repository(&path);
        let times = is_repository.then(|| (metadata.mtime(), metadata.mtime_nsec()));
        let (seconds, nanoseconds) = times.unwrap_or_default();
        (path, (mode, bytes, seconds, nanoseconds))
    });
    timed.collect()
}

/// Returns the directories whose entries their owner cannot see.
fn closed(tree: &Tree) -> BTreeSet<PathBuf> {
    let mut state = State::new();
    look(&tree.project(), &|_| true, &mut state);
    let is_closed = |mode: u32| mode & 0o170_500 != 0o040_500 && mode & 0o170_000 == 0o040_000;
    state.into_iter().filter(|(_, (mode, _))| is_closed(*mode)).map(|(path, _)| path).collect()
}

/// Makes a random edit below a directory; one that cannot be made does nothing.
fn edit(root: &Path, random: &mut Rng) {
    let path = |random: &mut Rng| {
        let mut path = PathBuf::new();
        for _ in 0..random.usize(1..4) {
            let is_odd = random.u8(..8) == 0;
            let name = if is_odd { random.choice(ODD_NAMES) } else { random.choice(NAMES) };
            path.push(OsStr::from_bytes(name.unwrap()));
        }
        path
    };
    let (first, second) = (path(random), path(random));
    // Nothing is written through a link, since that may lead out of the directory.
    let is_through_link = |path: &Path| {
        let above = path.ancestors().skip(1).take_while(|above| !above.as_os_str().is_empty());
        above.map(|above| root.join(above)).any(|above| above.is_symlink())
    };
    if [&first, &second].into_iter().any(|path| is_through_link(path) || is_ignored(path)) {
        return;
    }
    let (at, other) = (root.join(&first), root.join(&second));
    let parents = |path: &Path| fs::create_dir_all(path.parent().unwrap());
    let _ = match random.u8(..22) {
        0..=4 => parents(&at).and_then(|()| {
            if at.is_symlink() {
                fs::remove_file(&at)?;
            }
            let size = if random.u8(..8) == 0 { 20_000 } else { random.usize(..40) };
            let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(size).collect();
            fs::write(&at, bytes)
        }),
        5 => parents(&at).and_then(|()| {
            let target = if random.bool() { second } else { Path::new("..").join(second) };
            symlink(target, &at)
        }),
        6 => fs::create_dir_all(&at),
        7 | 8 => fs::remove_file(&at),
        9 if !contains_repository(&at) => fs::remove_dir_all(&at),
        10 | 11 if !at.is_symlink() => {
            let modes = if at.is_dir() {
                [0o755, 0o700, 0o750, 0o500, 0o644, 0, 0o1777, 0o2755]
            } else {
                [0o644, 0o600, 0o755, 0o444, 0o4755, 0, 0o200, 0o640]
            };
            let mode = modes[random.usize(..modes.len())];
            fs::set_permissions(&at, fs::Permissions::from_mode(mode))
        }
        12 | 13
            if !contains_repository(&at)
                && !contains_repository(&other)
                && !contains_ignored(root, &at) =>
        {
            parents(&other).and_then(|()| fs::rename(&at, &other))
        }
        14 if at.is_file() && !at.is_symlink() && !other.is_symlink() => {
            let is_link = random.bool();
            parents(&other).and_then(|()| {
                if is_link { fs::hard_link(&at, &other) } else { fs::copy(&at, &other).map(drop) }
            })
        }
        // One kind in the place of another.
        16..=21 if !contains_repository(&at) => parents(&at).and_then(|()| {
            if at.is_dir() && !at.is_symlink() {
                fs::remove_dir_all(&at)?;
            } else if fs::symlink_metadata(&at).is_ok() {
                fs::remove_file(&at)?;
            }
            match random.u8(..3) {
                0 => fs::write(&at, "a file\n"),
                1 => symlink(second, &at),
                _ => fs::create_dir_all(at.join("d"))
                    .and_then(|()| fs::write(at.join("d/a"), "inside\n")),
            }
        }),
        // The same bytes at another time.
        15 if at.is_file() && !at.is_symlink() => fs::read(&at).and_then(|it| fs::write(&at, it)),
        _ => Ok(()),
    };
}

/// Returns whether a directory holds a repository, which no undo brings back.
fn contains_repository(directory: &Path) -> bool {
    let mut state = State::new();
    look(directory, &|_| true, &mut state);
    state.keys().any(|path| path.file_name() == Some(OsStr::new(".git")))
}

/// Returns whether a directory holds ignored files, which an undo leaves where a turn has moved them.
fn contains_ignored(root: &Path, directory: &Path) -> bool {
    let mut state = State::new();
    look(directory, &|_| true, &mut state);
    state.keys().any(|path| path.strip_prefix(root).is_ok_and(is_ignored))
}

/// Makes the directories of a tree removable.
fn open(directory: &Path) {
    let _ = fs::set_permissions(directory, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open(&entry.path());
        }
    }
}

/// A history in a directory of one kind.
struct History {
    tree: Tree,
    random: Rng,
    changes: Changes,
    /// What nothing may touch, as it was last seen.
    seen: RefCell<BTreeMap<PathBuf, Timed>>,
}

impl Drop for History {
    fn drop(&mut self) {
        open(&self.tree.temp.path().join("project"));
    }
}

impl History {
    fn new(seed: u64) -> Self {
        let tree = Tree::plain();
        tree.write("a", "a\n");
        tree.write("b", "b\n");
        tree.write("d/a", "a\n");
        tree.write("d/d/c", "c\n");
        tree.write("../outside/file", "theirs\n");
        let (_, create) = KINDS[kind(seed)];
        create(&tree);
        let changes = tree.changes();
        let seen = RefCell::new(untouched(&tree));
        Self { tree, random: Rng::with_seed(seed), changes, seen }
    }

    fn edits(&mut self, most: usize) {
        for _ in 0..self.random.usize(1..=most) {
            edit(&self.tree.project(), &mut self.random);
        }
    }

    /// Does something, and checks that it touches nothing that it may not.
    fn without_touching<T>(&self, what: &str, act: impl FnOnce(&Self) -> T) -> T {
        let closed_before = closed(&self.tree);
        let mut before = untouched(&self.tree);
        let done = act(self);
        let closed_after = closed(&self.tree);
        let after = untouched(&self.tree);
        // The owner cannot list a closed directory, so its entries are compared with what was last seen of them.
        let is_below = |path: &Path, closed: &BTreeSet<PathBuf>| {
            path.ancestors().skip(1).any(|above| closed.contains(above))
        };
        let mut seen = self.seen.borrow_mut();
        seen.extend(before.clone());
        let opened = after.keys().filter(|path| is_below(path, &closed_before));
        let known =
            opened.map(|path| (path.clone(), seen.get(path).unwrap_or(&after[path]).clone()));
        before.extend(known.collect::<Vec<_>>());
        before.retain(|path, _| !is_below(path, &closed_after));
        same(&after, &before, what);
        seen.extend(after);
        done
    }

    /// Records a turn with random edits. Returns whether it changed something.
    fn turn(&mut self, number: u64) -> bool {
        if self.random.bool() {
            // As another process would.
            self.changes = self.tree.changes();
        }
        let began = self.without_touching("the beginning", |it| {
            it.changes.begin(&it.tree.project(), key(number)).unwrap()
        });
        self.edits(8);
        let after = recorded(&self.tree);
        let record = self.without_touching("the end", |_| began.turn.finish().unwrap());
        same(&recorded(&self.tree), &after, "the recording");
        !record.changes.is_empty()
    }

    /// Takes a turn back. Returns what is in the way; then nothing was done.
    fn undo(&self, number: u64, what: &str) -> Vec<Conflict> {
        self.carry_out(&self.changes.plan_undo(SESSION, Some(number)).unwrap(), what)
    }

    fn undo_exactly(&self, number: u64, what: &str, expected: &State) {
        let what = format!("{what} of turn {number}");
        assert_eq!(self.undo(number, &what), [], "{what}");
        same(&recorded(&self.tree), expected, &what);
    }

    fn redo_exactly(&self, number: u64, what: &str, expected: &State) {
        let what = format!("{what} of turn {number}");
        let plan = self.changes.plan_redo(SESSION, Some(number)).unwrap();
        assert_eq!(self.carry_out(&plan, &what), [], "{what}");
        same(&recorded(&self.tree), expected, &what);
    }

    /// Carries out a plan. Returns what is in the way; then nothing was done.
    fn carry_out(&self, plan: &UndoPlan, what: &str) -> Vec<Conflict> {
        assert!(plan.left_alone.is_empty(), "{what}: {:?}", plan.left_alone);
        if plan.conflicts.is_empty() {
            self.without_touching(what, |it| it.changes.undo(plan).unwrap());
            return Vec::new();
        }
        let before = recorded(&self.tree);
        assert!(self.changes.undo(plan).is_err(), "{what}: {:?}", plan.conflicts);
        same(&recorded(&self.tree), &before, "a refused undo");
        plan.conflicts.clone()
    }

    /// Undoes a turn while a person changes one of its files: the undo is refused, and what it has done is put back.
    fn disturbed_undo(&mut self, number: u64, before: &State, after: &State) {
        const MINE: &[u8] = b"what a person wrote meanwhile\n";
        let kind = |state: &State, path: &Path| state.get(path).map(|(mode, _)| mode & 0o170_000);
        let file = Some(0o100_000);
        // What is in a closed directory is not seen and need not be a change of the turn; in one that is read-only, nothing
        // can be put back here.
        let is_open = |(mode, _): &Entry| mode & 0o170_700 == 0o040_700;
        let root = self.tree.project();
        let is_wanted = |path: &&PathBuf| {
            let parent = path.parent().unwrap();
            // Writing clears other bits of the mode, and what was written is read afterwards.
            let is_plain = |(mode, _): &Entry| mode & 0o7000 == 0 && mode & 0o600 == 0o600;
            let is_plain = after.get(*path).is_none_or(is_plain);
            before.get(*path) != after.get(*path)
                && kind(before, path) == file
                && [file, None].contains(&kind(after, path))
                && is_plain
                && (parent == root || after.get(parent).is_some_and(is_open))
        };
        let wanted: Vec<&PathBuf> = before.keys().filter(is_wanted).collect();
        let Some(&path) = self.random.choice(&wanted) else { return };
        // It is disturbed while it is prepared, or when it has removed what goes.
        let moment = self.random.usize(..2);
        let (reports, is_disturbed) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
        let (at, is_written) = (path.clone(), is_disturbed.clone());
        let progress = Progress::new(move |done, all| {
            let is_moment = done * 2 == all && reports.fetch_add(1, Ordering::Relaxed) == moment;
            if is_moment && !at.is_symlink() && fs::write(&at, MINE).is_ok() {
                is_written.store(true, Ordering::Relaxed);
            }
        });
        let changes = self.tree.changes().with_progress(progress);
        let plan = changes.plan_undo(SESSION, Some(number)).unwrap();
        let what = format!("disturbed undo of turn {number} at {}", path.display());
        let undone = self.without_touching(&what, |_| changes.undo(&plan));
        if !is_disturbed.load(Ordering::Relaxed) {
            undone.unwrap();
            same(&recorded(&self.tree), before, &what);
            return self.redo_exactly(number, "redo without a disturbance", after);
        }
        assert!(matches!(undone, Err(ChangesError::Conflicts { .. })), "{what}: {undone:?}");
        assert_eq!(fs::read(path).unwrap(), MINE, "{what}");
        match after.get(path) {
            Some((_, bytes)) => fs::write(path, bytes.as_ref().unwrap()).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
        same(&recorded(&self.tree), after, &what);
    }

    fn run(&mut self) {
        let mut turns = Vec::new();
        let mut is_persons = false;
        for number in 1..=self.random.u64(1..4) {
            if self.random.u8(..4) == 0 {
                self.edits(2);
                is_persons = true;
            }
            let before = recorded(&self.tree);
            let is_change = self.turn(number);
            let after = recorded(&self.tree);
            if !is_change {
                same(&after, &before, &format!("turn {number} without changes"));
                continue;
            }
            assert!(before != after, "turn {number} changed something");
            self.disturbed_undo(number, &before, &after);
            self.undo_exactly(number, "undo", &before);
            self.redo_exactly(number, "redo", &after);
            self.undo_exactly(number, "second undo", &before);
            if self.random.bool() {
                self.redo_exactly(number, "second redo", &after);
                turns.push((number, before));
            }
        }
        // All the way back.
        for (number, before) in turns.into_iter().rev() {
            let conflicts = self.undo(number, "undo in the end");
            assert!(is_persons || conflicts.is_empty(), "undo in the end: {conflicts:?}");
            if !conflicts.is_empty() {
                return;
            }
            if !is_persons {
                same(&recorded(&self.tree), &before, &format!("undo of turn {number} in the end"));
            }
        }
    }
}

fn kind(seed: u64) -> usize {
    usize::try_from(seed % KINDS.len() as u64).unwrap()
}

/// Fails with the paths that differ.
fn same<T: PartialEq>(found: &BTreeMap<PathBuf, T>, expected: &BTreeMap<PathBuf, T>, what: &str) {
    let paths = found.keys().chain(expected.keys());
    let differ: Vec<&PathBuf> =
        paths.filter(|path| found.get(*path) != expected.get(*path)).collect();
    assert!(differ.is_empty(), "{what}: {differ:?}");
}

#[test]
fn every_history_can_be_taken_back_in_every_kind_of_repository() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = number("CONVOKE_HISTORY_SEED").unwrap_or(FIRST_SEED);
    let count = number("CONVOKE_HISTORIES").unwrap_or(HISTORIES);
    println!("seeds {first} to {}", first + count - 1);
    let mut failed = Vec::new();
    for seed in first..first + count {
        let ran = catch_unwind(AssertUnwindSafe(|| History::new(seed).run()));
        if ran.is_err() {
            let again = format!("CONVOKE_HISTORY_SEED={seed} CONVOKE_HISTORIES=1");
            println!("seed {seed} ({}) failed; again: {again}", KINDS[kind(seed)].0);
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "failed seeds: {failed:?}");
}
