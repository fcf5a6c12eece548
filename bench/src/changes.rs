//! The cost of recording what turns change, beside `git status` of the same repository in the same run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use convoke_changes::{Changes, Host, Limits, TurnKey, WorkspaceSettings};
use tempfile::TempDir;

use crate::table::{begin, number, ratio, row, time};

/// Rounds are taken in turn, so that a busy machine slows all of them alike.
const ROUNDS: u64 = 15;
/// The files that a turn changes.
const CHANGED: usize = 10;
/// The files of a directory.
const FILES_IN_DIRECTORY: usize = 40;

pub fn run() {
    let columns = [
        "files",
        "git status",
        "first turn",
        "nothing changed",
        "ratio",
        "ten files changed",
        "ratio",
    ];
    begin("Recording a turn: the state before and after it", &columns);
    for files in [1_000, 10_000, 100_000] {
        match measure(files) {
            Some(measured) => measured.print(files),
            None => println!("\nno repository of {files} files could be made"),
        }
    }
    let columns = [
        "files",
        "first copy",
        "new workspace",
        "git clone",
        "ratio",
        "undo of all files",
        "git checkout of all",
        "ratio",
    ];
    begin(
        "Changing many files: a new workspace, and the undo of a turn that changed all",
        &columns,
    );
    for files in [1_000, 10_000] {
        match measure_all(files) {
            Some(measured) => measured.print(files),
            None => println!("\nno repository of {files} files could be made"),
        }
    }
    let columns = [
        "files",
        "changed",
        "git status",
        "lines of all changes",
        "ratio",
        "git checkout of the changed",
        "undo",
        "ratio",
    ];
    begin("A turn that changed many files of many", &columns);
    let (files, changed) = (50_000, 30_000);
    match measure_many(files, changed) {
        Some(measured) => measured.print(files, changed),
        None => println!("\nno repository of {files} files could be made"),
    }
}

struct Measured {
    status: Duration,
    first: Duration,
    unchanged: Duration,
    changed: Duration,
}

impl Measured {
    fn print(&self, files: usize) {
        let status = nanos(self.status);
        row(&[
            number(files),
            time(status),
            time(nanos(self.first)),
            time(nanos(self.unchanged)),
            ratio(nanos(self.unchanged), status),
            time(nanos(self.changed)),
            ratio(nanos(self.changed), status),
        ]);
    }
}

/// The time of what changes all files.
struct MeasuredAll {
    copy: Duration,
    workspace: Duration,
    clone: Duration,
    undo: Duration,
    checkout: Duration,
}

impl MeasuredAll {
    fn print(&self, files: usize) {
        let (clone, checkout) = (nanos(self.clone), nanos(self.checkout));
        row(&[
            number(files),
            time(nanos(self.copy)),
            time(nanos(self.workspace)),
            time(clone),
            ratio(nanos(self.workspace), clone),
            time(nanos(self.undo)),
            time(checkout),
            ratio(nanos(self.undo), checkout),
        ]);
    }
}

/// The time of what shows and undoes a turn that changed many files.
struct MeasuredMany {
    status: Duration,
    lines: Duration,
    checkout: Duration,
    undo: Duration,
}

impl MeasuredMany {
    fn print(&self, files: usize, changed: usize) {
        let (status, checkout) = (nanos(self.status), nanos(self.checkout));
        row(&[
            number(files),
            number(changed),
            time(status),
            time(nanos(self.lines)),
            ratio(nanos(self.lines), status),
            time(checkout),
            time(nanos(self.undo)),
            ratio(nanos(self.undo), checkout),
        ]);
    }
}

fn nanos(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// A repository of files, and Convoke's data.
struct Stage {
    temp: TempDir,
    project: PathBuf,
    changes: Changes,
}

impl Stage {
    fn new(files: usize) -> Option<Self> {
        let temp = tempfile::tempdir().ok()?;
        let project = temp.path().join("project");
        write(&project, 0..files, 0)?;
        git(&project, &["init", "-q"])?;
        git(&project, &["add", "-A"])?;
        let name = ["-c", "user.name=u", "-c", "user.email=u@example.org"];
        git(&project, &[&name[..], &["commit", "-qm", "all"]].concat())?;
        let home = temp.path().join("home");
        let host = Host { path: std::env::var_os("PATH")?, config: home.join(".config"), home };
        // The rows show how long the copy takes, so nothing ends it.
        let limits = Limits { time: Duration::from_mins(5), ..Limits::default() };
        let changes = Changes::new(&temp.path().join("data"), host).with_limits(limits);
        Some(Self { temp, project, changes })
    }
}

/// Writes files, each with a text of a round.
fn write(project: &Path, numbers: impl Iterator<Item = usize>, round: u64) -> Option<()> {
    for number in numbers {
        let directory = project.join(format!("d{}", number / FILES_IN_DIRECTORY));
        std::fs::create_dir_all(&directory).ok()?;
        std::fs::write(directory.join(format!("f{number}")), text(number, round)).ok()?;
    }
    Some(())
}

fn measure(files: usize) -> Option<Measured> {
    let Stage { temp: _temp, project, changes } = Stage::new(files)?;
    let first = record(&changes, &project, 0, || Some(()))?;
    // What is measured does not share the machine with the first copy.
    while !changes.begin(&project, key(0)).ok()?.is_complete {
        std::thread::sleep(Duration::from_millis(100));
    }
    let (mut status, mut unchanged, mut changed) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        // What is written just now is read again by both.
        std::thread::sleep(Duration::from_millis(1100));
        git(&project, &["status", "--porcelain"])?;
        let from = Instant::now();
        git(&project, &["status", "--porcelain"])?;
        status.push(from.elapsed());
        unchanged.push(record(&changes, &project, 2 * round, || Some(()))?);
        changed.push(record(&changes, &project, 2 * round + 1, || {
            write(&project, (0..CHANGED).map(|number| number * files / CHANGED), round)
        })?);
    }
    let (status, unchanged, changed) = (median(status), median(unchanged), median(changed));
    Some(Measured { status, first, unchanged, changed })
}

fn measure_all(files: usize) -> Option<MeasuredAll> {
    let Stage { temp, project, changes } = Stage::new(files)?;
    let from = Instant::now();
    while !changes.begin(&project, key(0)).ok()?.is_complete {
        std::thread::sleep(Duration::from_millis(10));
    }
    let copy = from.elapsed();
    let settings = WorkspaceSettings::default();
    let from = Instant::now();
    changes.workspace(&project, &key(0), &settings).ok()?;
    let workspace = from.elapsed();
    let from = Instant::now();
    git(temp.path(), &["clone", "-q", "--local", "project", "clone"])?;
    let clone = from.elapsed();
    record(&changes, &project, 1, || write(&project, 0..files, 1))?;
    let from = Instant::now();
    changes.undo(&changes.plan_undo("bench", Some(1)).ok()?).ok()?;
    let undo = from.elapsed();
    write(&project, 0..files, 2)?;
    let from = Instant::now();
    git(&project, &["checkout", "-q", "."])?;
    let checkout = from.elapsed();
    Some(MeasuredAll { copy, workspace, clone, undo, checkout })
}

fn measure_many(files: usize, changed: usize) -> Option<MeasuredMany> {
    let Stage { temp: _temp, project, changes } = Stage::new(files)?;
    while !changes.begin(&project, key(0)).ok()?.is_complete {
        std::thread::sleep(Duration::from_millis(100));
    }
    record(&changes, &project, 1, || write(&project, 0..changed, 1))?;
    let from = Instant::now();
    git(&project, &["status", "--porcelain"])?;
    let status = from.elapsed();
    let from = Instant::now();
    let records = changes.records("bench").ok()?;
    changes.diffs(&project, &records.last()?.changes).ok()?;
    let lines = from.elapsed();
    let from = Instant::now();
    changes.undo(&changes.plan_undo("bench", Some(1)).ok()?).ok()?;
    let undo = from.elapsed();
    write(&project, 0..changed, 2)?;
    let from = Instant::now();
    git(&project, &["checkout", "-q", "."])?;
    Some(MeasuredMany { status, lines, checkout: from.elapsed(), undo })
}

/// Returns the time that recording a turn takes, without the turn.
fn record(
    changes: &Changes,
    project: &Path,
    turn: u64,
    act: impl FnOnce() -> Option<()>,
) -> Option<Duration> {
    let from = Instant::now();
    let begun = changes.begin(project, key(turn)).ok()?;
    let before = from.elapsed();
    act()?;
    let from = Instant::now();
    begun.turn.finish().ok()?;
    Some(before + from.elapsed())
}

fn key(turn: u64) -> TurnKey {
    TurnKey { session: "bench".to_owned(), turn, attempt: 1, member: "max".to_owned() }
}

fn text(number: usize, round: u64) -> String {
    format!("file {number} of round {round}\n").repeat(120)
}

fn git(project: &Path, arguments: &[&str]) -> Option<()> {
    let output = Command::new("git").args(arguments).current_dir(project).output().ok()?;
    output.status.success().then_some(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
