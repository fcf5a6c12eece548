//! Commands as processes: `explain` in a repository with many skills, and `request --agent codex` beside the start of Codex.
//!
//! They run the `convoke` beside this program: `cargo build --release -p convoke`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use convoke_agent::endpoint::{self, ModelServer};
use convoke_explain::{Session, explain};
use convoke_files::Disk;
use convoke_rehearsal::{Script, start};

use crate::table::{begin, ratio, row, time};

/// Rounds are taken in turn, so that a busy machine slows all of them alike.
const ROUNDS: usize = 21;
const SKILLS: usize = 300;

pub fn run() {
    let convoke = std::env::current_exe().ok().map(|own| own.with_file_name("convoke"));
    let Some(convoke) = convoke.filter(|path| path.exists()) else {
        println!("\nthere is no `convoke` beside this program: cargo build --release -p convoke");
        return;
    };
    let Ok(directory) = tempfile::tempdir() else { return };
    let shown = explained(&convoke, directory.path());
    if shown.is_none() {
        println!("\n`explain` could not be measured");
    }
    match installed_codex() {
        None => println!("\ncodex is not installed: scripts/install-clis codex-0.166.0"),
        Some(codex) => {
            if measured(&convoke, &codex, directory.path()).is_none() {
                println!("\n`request` could not be measured");
            }
        }
    }
}

fn explained(convoke: &Path, base: &Path) -> Option<()> {
    let (root, home) = (base.join("skills"), base.join("home"));
    fs::create_dir_all(&home).ok()?;
    skills(&root)?;
    let mut session = Session::new(&root, &home);
    session.variables.insert("GEMINI_CLI_TRUST_WORKSPACE".into(), "true".into());
    let (mut library, mut process, mut version) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let from = Instant::now();
        let report = explain(&Disk, &session, &convoke_vendors::newest_editions());
        library.push(from.elapsed());
        assert!(report.agents.iter().all(|agent| !agent.loaded.is_empty()));
        let run = |arguments: &[&str]| {
            let from = Instant::now();
            let mut command = Command::new(convoke);
            command.args(arguments).current_dir(&root).env_clear().env("HOME", &home);
            let output = command.env("PATH", "/nonexistent").output().ok()?;
            output.status.success().then(|| from.elapsed())
        };
        process.push(run(&["explain"])?);
        version.push(run(&["--version"])?);
    }
    begin(
        &format!("`explain` with {SKILLS} skills, which every agent finds"),
        &["", "median", "slowest"],
    );
    for (what, times) in [
        ("as a library, three agents", library),
        ("as a process", process),
        ("`--version` as a process", version),
    ] {
        let (median, slowest) = shown(times);
        row(&[what.to_owned(), time(median), time(slowest)]);
    }
    Some(())
}

fn skills(root: &Path) -> Option<()> {
    fs::create_dir_all(root.join(".git")).ok()?;
    fs::write(root.join(".git/HEAD"), "ref: refs/heads/main").ok()?;
    for name in ["AGENTS.md", "CLAUDE.md", "GEMINI.md"] {
        fs::write(root.join(name), "Keep it short.\n").ok()?;
    }
    for number in 0..SKILLS {
        let directory = root.join(format!(".agents/skills/skill-{number}"));
        fs::create_dir_all(&directory).ok()?;
        let description = "Use it when the task is about releases. ".repeat(8);
        let front = format!("---\nname: skill-{number}\ndescription: {description}\n---\n");
        fs::write(directory.join("SKILL.md"), front + &"Do it.\n".repeat(500)).ok()?;
    }
    fs::create_dir_all(root.join(".claude")).ok()?;
    std::os::unix::fs::symlink("../.agents/skills", root.join(".claude/skills")).ok()
}

/// Measures the start of Codex up to its request, and the command that shows this request; it may take 1.5 times as long.
fn measured(convoke: &Path, codex: &Path, base: &Path) -> Option<()> {
    let cwd = base.join("measured");
    fs::create_dir_all(cwd.join(".git")).ok()?;
    fs::write(cwd.join(".git/HEAD"), "ref: refs/heads/main").ok()?;
    fs::write(cwd.join("AGENTS.md"), "Keep it short.\n").ok()?;
    let path =
        [codex.parent()?, Path::new("/usr/local/bin"), Path::new("/usr/bin"), Path::new("/bin")];
    let node = std::env::var_os("PATH").unwrap_or_default();
    let path = path.into_iter().map(Path::to_owned).chain(std::env::split_paths(&node));
    let path = std::env::join_paths(path).ok()?;
    let runtime = tokio::runtime::Runtime::new().ok()?;
    let own_start = || {
        let home = tempfile::tempdir().ok()?;
        let server = runtime.block_on(start(Script::default())).ok()?;
        let base_url = server.base_url();
        let cli = convoke_vendors::programs().cli("codex").ok()?;
        endpoint::configure(cli, &base_url, home.path()).ok()?;
        let model_server = ModelServer { base_url: &base_url, proxy_url: &server.proxy_url() };
        let from = Instant::now();
        let mut child = Command::new(codex)
            .args(["exec", "--skip-git-repo-check", "hello"])
            .current_dir(&cwd)
            .env_clear()
            .env("PATH", &path)
            .envs(endpoint::environment(cli, model_server, home.path()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let arrived = runtime.block_on(server.has_model_calls(1, Duration::from_mins(1)));
        let elapsed = from.elapsed();
        child.kill().ok()?;
        child.wait().ok()?;
        arrived.then_some(elapsed)
    };
    let request = || {
        let from = Instant::now();
        let mut command = Command::new(convoke);
        command.args(["request", "--agent", "codex", "hello"]).current_dir(&cwd).env_clear();
        command.env("PATH", &path).env("HOME", base.join("home")).stdin(Stdio::null());
        let output = command.output().ok()?;
        output.status.success().then(|| from.elapsed())
    };
    let (mut own, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        own.push(own_start()?);
        whole.push(request()?);
    }
    begin(
        "`request --agent codex` beside the start of Codex up to its request",
        &["", "median", "slowest", "to its own start"],
    );
    let own = shown(own);
    for (what, (median, slowest)) in
        [("codex exec", own), ("convoke request --agent codex", shown(whole))]
    {
        row(&[what.to_owned(), time(median), time(slowest), ratio(median, own.0)]);
    }
    Some(())
}

/// Returns the pinned Codex of the end-to-end tests.
fn installed_codex() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cache = std::env::var_os("CONVOKE_CLIS").map_or(root.join("target/clis"), PathBuf::from);
    let program = cache.join("codex-0.166.0/node_modules/.bin/codex");
    program.exists().then_some(program)
}

/// Returns the median and the slowest in nanoseconds.
fn shown(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort();
    let nanos = |time: Duration| time.as_secs_f64() * 1e9;
    (nanos(times[times.len() / 2]), nanos(times[times.len() - 1]))
}
