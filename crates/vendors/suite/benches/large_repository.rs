//! The time of an explanation as a repository grows: in depth, in files and in skills.
//!
//! Each pair of sizes is measured in one run, so that the cost against the size shows whatever the
//! machine. Run with `cargo bench -p convoke-explain`.

#![expect(clippy::print_stdout, clippy::expect_used, reason = "a program for the bench alone")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use convoke_explain::{Session, explain};
use convoke_files::Disk;

const RUNS: usize = 21;
const NAMES: [&str; 3] = ["AGENTS.md", "CLAUDE.md", "GEMINI.md"];

fn main() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let base = directory.path().canonicalize().expect("its real path");
    let home = base.join("home");
    fs::create_dir_all(&home).expect("a home");
    println!("{:<44}{:>12}{:>12}", "working directory", "median", "slowest");
    for depth in [12, 100, 200] {
        let cwd = nested(&base.join(format!("deep{depth}")), depth);
        measure(&format!("{depth} directories deep, 3 files in each"), &cwd, &home);
    }
    for count in [2_000, 20_000] {
        let root = spread(&base.join(format!("spread{count}")), count);
        measure(&format!("{count} files in directories of 100"), &root, &home);
    }
    for count in [30, 300] {
        let root = skills(&base.join(format!("skills{count}")), count);
        measure(&format!("{count} skills, linked for every agent"), &root, &home);
    }
    for count in [2_000, 20_000] {
        let root = flat(&base.join(format!("flat{count}")), count);
        measure(&format!("{count} files in the directory itself"), &root, &home);
    }
}

fn measure(what: &str, cwd: &Path, home: &Path) {
    let mut session = Session::new(cwd, home);
    session.variables.insert("GEMINI_CLI_TRUST_WORKSPACE".into(), "true".into());
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let started = Instant::now();
            let report = explain(&Disk, &session, &convoke_vendors::newest_editions());
            assert!(report.agents.iter().all(|agent| !agent.loaded.is_empty()));
            started.elapsed()
        })
        .collect();
    times.sort();
    let slowest = times.last().copied().unwrap_or_default();
    println!("{what:<44}{:>12.2?}{slowest:>12.2?}", times[RUNS / 2]);
}

fn repository(root: &Path) {
    fs::create_dir_all(root.join(".git")).expect("a directory");
    fs::write(root.join(".git/HEAD"), "ref: refs/heads/main").expect("a file");
    instructions(root);
}

fn instructions(directory: &Path) {
    for name in NAMES {
        fs::write(directory.join(name), "Keep it short.\n").expect("a file");
    }
}

fn nested(root: &Path, depth: usize) -> PathBuf {
    repository(root);
    let mut directory = root.to_owned();
    for level in 1..depth {
        directory.push(format!("level{level}"));
        fs::create_dir(&directory).expect("a directory");
        instructions(&directory);
    }
    directory
}

fn spread(root: &Path, count: usize) -> PathBuf {
    repository(root);
    for group in 0..count / 100 {
        let directory = root.join(format!("package{group}"));
        fs::create_dir(&directory).expect("a directory");
        for file in 0..100 {
            fs::write(directory.join(format!("file{file}.rs")), "").expect("a file");
        }
    }
    root.to_owned()
}

fn skills(root: &Path, count: usize) -> PathBuf {
    repository(root);
    for number in 0..count {
        let directory = root.join(format!(".agents/skills/skill-{number}"));
        fs::create_dir_all(&directory).expect("a directory");
        let description = "Use it when the task is about releases. ".repeat(8);
        let front = format!("---\nname: skill-{number}\ndescription: {description}\n---\n");
        fs::write(directory.join("SKILL.md"), front + &"Do it.\n".repeat(500)).expect("a file");
    }
    fs::create_dir_all(root.join(".claude")).expect("a directory");
    std::os::unix::fs::symlink("../.agents/skills", root.join(".claude/skills")).expect("a link");
    root.to_owned()
}

fn flat(root: &Path, count: usize) -> PathBuf {
    repository(root);
    for file in 0..count {
        fs::write(root.join(format!("file{file}.rs")), "").expect("a file");
    }
    root.to_owned()
}
