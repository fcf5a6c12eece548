//! The time of a request: from a long history, from a deep directory, and as a process.
//!
//! Each is measured at two sizes in one run, so that the cost against the size shows whatever the
//! machine. Run with
//! `cargo bench -p convoke --bench request`.

#![expect(clippy::print_stdout, clippy::expect_used, reason = "a program for the bench alone")]

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use convoke_agent::endpoint::{self, ModelServer};
use convoke_files::Disk;
use convoke_rehearsal::{Script, start};
use convoke_thread::config::{Config, Machine, Overrides};
use convoke_thread::item::ResponseItem;
use convoke_thread::pack::Pack;
use convoke_thread::record::{Event, Record};
use convoke_thread::thread::{Setup, Step, Thread, TurnOverrides};
use convoke_thread::user_input::UserInput;
use serde_json::json;

const RUNS: usize = 21;

fn main() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let base = directory.path().canonicalize().expect("its real path");
    let pack = convoke_packs::convoke().expect("the built-in pack");
    println!("{:<48}{:>12}{:>12}{:>12}", "", "median", "slowest", "body");

    let shallow = nested(&base.join("shallow"), 1);
    let machine = machine(&base, &shallow);
    for items in [1_000, 10_000] {
        let record = history(items);
        // The cost for a member of a conversation: the thread exists, the turn is new.
        measure(&format!("a turn of a thread of {items} items"), || {
            let mut thread = resumed(&pack, &machine, &record);
            let started = Instant::now();
            let body = turn(&mut thread);
            (started.elapsed(), body)
        });
        measure(&format!("a record of {items} items, resumed, and a turn"), || {
            let started = Instant::now();
            let body = turn(&mut resumed(&pack, &machine, &record));
            (started.elapsed(), body)
        });
    }
    for depth in [100, 200] {
        let cwd = nested(&base.join(format!("deep{depth}")), depth);
        let machine = self::machine(&base, &cwd);
        measure(&format!("a new thread, {depth} directories deep"), || {
            let started = Instant::now();
            let body = turn(&mut begun(&pack, &machine));
            (started.elapsed(), body)
        });
    }
    for (name, cwd) in [("a small repository", shallow), ("200 directories", base.join("deep200"))]
    {
        let cwd = deepest(cwd);
        measure(&format!("convoke request, first byte: {name}"), || process(&base, &cwd));
    }
    match installed_codex() {
        Some(codex) => measured(&codex, &base),
        None => println!("codex is not installed: scripts/install-clis codex-0.166.0"),
    }
}

/// Measures the start of Codex up to its request, and the command that shows this request; it may take 1.5 times as
/// long.
fn measured(codex: &Path, base: &Path) {
    let cwd = nested(&base.join("measured"), 1);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let path = [codex.parent().expect("a directory"), Path::new("/usr/bin"), Path::new("/bin")];
    let path = std::env::join_paths(path).expect("a path");
    measure("codex exec, up to its request", || {
        let home = tempfile::tempdir().expect("a home");
        let server = runtime.block_on(start(Script::default())).expect("a server");
        let base_url = server.base_url();
        let cli = convoke_vendors::programs().cli("codex").expect("a CLI");
        endpoint::configure(cli, &base_url, home.path()).expect("a home");
        let model_server = ModelServer { base_url: &base_url, proxy_url: &server.proxy_url() };
        let started = Instant::now();
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
            .expect("codex starts");
        let arrived = server.has_model_calls(1, Duration::from_mins(1));
        assert!(runtime.block_on(arrived), "codex sends a request");
        let time = started.elapsed();
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        let bytes = server.model_calls().first().map_or(0, |call| call.body.len());
        (time, bytes)
    });
    measure("convoke request --agent codex", || {
        let started = Instant::now();
        let output = Command::new(env!("CARGO_BIN_EXE_convoke"))
            .args(["request", "--agent", "codex", "hello"])
            .current_dir(&cwd)
            .env_clear()
            .env("PATH", &path)
            .env("HOME", base.join("home"))
            .stdin(Stdio::null())
            .output()
            .expect("the command ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (started.elapsed(), output.stdout.len())
    });
}

/// Returns the pinned Codex of the end-to-end tests.
fn installed_codex() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let cache = std::env::var_os("CONVOKE_CLIS").map_or(root.join("target/clis"), PathBuf::from);
    let program = cache.join("codex-0.166.0/node_modules/.bin/codex");
    program.exists().then_some(program)
}

fn measure(what: &str, mut run: impl FnMut() -> (Duration, usize)) {
    let mut body = 0;
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let (time, bytes) = run();
            body = bytes;
            time
        })
        .collect();
    times.sort();
    let slowest = times.last().copied().unwrap_or_default();
    let [median, slowest] = [times[RUNS / 2], slowest].map(|it| it.as_secs_f64() * 1e3);
    println!("{what:<48}{median:>9.2} ms{slowest:>9.2} ms{body:>10} B");
}

fn machine(base: &Path, cwd: &Path) -> Machine {
    Machine {
        home: Some(base.join("home")),
        codex_home: base.join("home/.codex"),
        cwd: cwd.to_owned(),
        shell: "bash".to_owned(),
        tmpdir: None,
        openai_base_url: None,
    }
}

fn setup<'a>(pack: &'a Pack, machine: &'a Machine) -> (Setup<'a>, Config) {
    // Long histories would be compacted first, and the documents of a deep directory cut.
    let settings =
        [("model_auto_compact_token_limit", i64::MAX), ("project_doc_max_bytes", 1 << 20)];
    let settings = settings.map(|(key, value)| (key.to_owned(), value.into()));
    let overrides = Overrides { settings: settings.into(), ..Overrides::default() };
    let config = Config::load(&Disk, machine, pack.shape, &overrides).expect("a configuration");
    (Setup { files: &Disk, pack, machine, listed_models: &[] }, config)
}

fn begun<'a>(pack: &'a Pack, machine: &'a Machine) -> Thread<'a> {
    let (setup, config) = setup(pack, machine);
    Thread::start(setup, config, "bench").expect("a thread")
}

fn resumed<'a>(pack: &'a Pack, machine: &'a Machine, record: &Record) -> Thread<'a> {
    let (setup, config) = setup(pack, machine);
    Thread::resume(setup, config, record).expect("a thread")
}

fn turn(thread: &mut Thread<'_>) -> usize {
    let input = vec![UserInput::Text("What is left to do?".to_owned())];
    match thread.begin_turn(input, &TurnOverrides::default()).expect("a turn") {
        Step::Send(request) => request.body.len(),
        other => unreachable!("a turn begins with a request, not with {other:?}"),
    }
}

/// A history of questions, calls, outputs of two kilobytes and answers.
fn history(items: usize) -> Record {
    let output = "a line of what a tool printed, forty bytes\n".repeat(50);
    let item = |index: usize| {
        let id = format!("call_{}", index / 4);
        let value = match index % 4 {
            0 => json!({"type": "message", "role": "user",
                "content": [{"type": "input_text", "text": format!("question {index}")}]}),
            1 => json!({"type": "function_call", "name": "exec_command", "call_id": id,
                "arguments": "{\"cmd\":\"ls -la\"}"}),
            2 => json!({"type": "function_call_output", "call_id": id, "output": output}),
            _ => json!({"type": "message", "role": "assistant",
                "content": [{"type": "output_text", "text": format!("answer {index}")}]}),
        };
        Event::Item(ResponseItem::try_from(value).expect("an item").into())
    };
    Record { id: "bench".to_owned(), events: (0..items).map(item).collect(), ..Record::default() }
}

/// Makes a repository so many directories deep, with a document in each, and returns the deepest.
fn nested(root: &Path, depth: usize) -> PathBuf {
    fs::create_dir_all(root.join(".git")).expect("a repository");
    let mut cwd = root.to_owned();
    for level in 0..depth {
        fs::write(cwd.join("AGENTS.md"), format!("Rule {level}: keep it short.\n"))
            .expect("a file");
        cwd.push("d");
        fs::create_dir_all(&cwd).expect("a directory");
    }
    cwd
}

fn deepest(mut directory: PathBuf) -> PathBuf {
    while directory.join("d").is_dir() {
        directory.push("d");
    }
    directory
}

/// Times the command from its start to the first byte that it prints.
fn process(base: &Path, cwd: &Path) -> (Duration, usize) {
    let started = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_convoke"))
        .args(["request", "hello"])
        .current_dir(cwd)
        .env("HOME", base.join("home"))
        .env_remove("CODEX_HOME")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    let mut out = child.stdout.take().expect("standard output");
    out.read_exact(&mut [0]).expect("a first byte");
    let time = started.elapsed();
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).expect("the rest");
    child.wait().expect("the command ends");
    (time, rest.len() + 1)
}
