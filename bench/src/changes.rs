//! The cost of recording what turns change, beside `git status` of the same repository in the same run.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use convoke_changes::{Changes, Host, Limits, TurnKey, WorkspaceSettings};

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
        "new workspace",
    ];
    begin("Recording a turn: the state before and after it", &columns);
    for files in [1_000, 10_000, 100_000] {
        match measure(files) {
            Some(measured) => measured.print(files),
            None => println!("\nno repository of {files} files could be made"),
        }
    }
}

struct Measured {
    status: Duration,
    first: Duration,
    unchanged: Duration,
    changed: Duration,
    workspace: Duration,
}

impl Measured {
    fn print(&self, files: usize) {
        let nanos = |time: Duration| time.as_secs_f64() * 1e9;
        let status = nanos(self.status);
        row(&[
            number(files),
            time(status),
            time(nanos(self.first)),
            time(nanos(self.unchanged)),
            ratio(nanos(self.unchanged), status),
            time(nanos(self.changed)),
            ratio(nanos(self.changed), status),
            time(nanos(self.workspace)),
        ]);
    }
}

fn measure(files: usize) -> Option<Measured> {
    let temp = tempfile::tempdir().ok()?;
    let project = temp.path().join("project");
    for number in 0..files {
        let directory = project.join(format!("d{}", number / FILES_IN_DIRECTORY));
        std::fs::create_dir_all(&directory).ok()?;
        std::fs::write(directory.join(format!("f{number}")), text(number, 0)).ok()?;
    }
    git(&project, &["init", "-q"])?;
    git(&project, &["add", "-A"])?;
    git(
        &project,
        &["-c", "user.name=u", "-c", "user.email=u@example.org", "commit", "-qm", "all"],
    )?;
    let home = temp.path().join("home");
    let host = Host { path: std::env::var_os("PATH")?, config: home.join(".config"), home };
    // The rows show how long the copy takes, so nothing ends it.
    let limits = Limits { time: Duration::from_mins(5), ..Limits::default() };
    let changes = Changes::new(&temp.path().join("data"), host).with_limits(limits);
    let first = record(&changes, &project, 0, || Some(()))?;
    let settings = WorkspaceSettings::default();
    let from = Instant::now();
    changes.workspace(&project, &key(0), &settings).ok()?;
    let workspace = from.elapsed();
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
            for number in 0..CHANGED {
                let number = number * files / CHANGED;
                let directory = project.join(format!("d{}", number / FILES_IN_DIRECTORY));
                let text = text(number, round);
                std::fs::write(directory.join(format!("f{number}")), text).ok()?;
            }
            Some(())
        })?);
    }
    Some(Measured {
        status: median(status),
        first,
        unchanged: median(unchanged),
        changed: median(changed),
        workspace,
    })
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
