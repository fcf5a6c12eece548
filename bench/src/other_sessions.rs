//! Sessions of other programs: counting, the index, searching and opening, beside `cat` over the same files.
//!
//! They run the `convoke` beside this program: `cargo build --release -p convoke`. `CONVOKE_BENCH_SESSIONS` sets the number of
//! sessions of a megabyte (2,000).

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::table::{begin, number, ratio, row, time};

const SESSIONS: usize = 2_000;
/// The bytes of a session, and those of the one that is opened.
const BYTES: usize = 1_000_000;
const LARGE: usize = 50_000_000;
const ROUNDS: usize = 3;

pub fn run() {
    let convoke = std::env::current_exe().ok().map(|own| own.with_file_name("convoke"));
    let Some(convoke) = convoke.filter(|path| path.exists()) else {
        println!("\nthere is no `convoke` beside this program: cargo build --release -p convoke");
        return;
    };
    if measured(&convoke).is_none() {
        println!("\nsessions of other programs could not be measured");
    }
}

fn measured(convoke: &Path) -> Option<()> {
    let directory = tempfile::tempdir().ok()?;
    let home = directory.path();
    let wanted = std::env::var("CONVOKE_BENCH_SESSIONS").ok().and_then(|it| it.parse().ok());
    let count = wanted.unwrap_or(SESSIONS);
    let mut files = Vec::new();
    for session in 0..count {
        files.push(write_session(home, session, BYTES)?);
    }
    let bytes: u64 = files.iter().filter_map(|file| Some(file.metadata().ok()?.len())).sum();
    let cat = || timed(Command::new("cat").args(&files).stdout(Stdio::null()));
    let run = |arguments: &[&str]| {
        let mut command = Command::new(convoke);
        command.args(arguments).current_dir(home).env_clear().env("HOME", home);
        timed(command.env("PATH", "/usr/bin:/bin").stdout(Stdio::null()))
    };
    let mut best = [Duration::MAX; 2];
    for _ in 0..ROUNDS {
        best[0] = best[0].min(cat()?);
        best[1] = best[1].min(run(&["usage", "--no-index"])?);
    }
    let first_count = run(&["usage"])?;
    let unchanged = (0..ROUNDS).map(|_| run(&["usage"])).collect::<Option<Vec<_>>>()?;
    let first_words = run(&["sessions", "search", "--all", "nowhere"])?;
    let search = (0..ROUNDS).map(|_| run(&["sessions", "search", "--all", "needle7"]));
    let search = search.collect::<Option<Vec<_>>>()?.into_iter().min()?;
    begin(
        &format!("{count} sessions of Claude Code, {} bytes", number(usize::try_from(bytes).ok()?)),
        &["", "time", "to `cat`"],
    );
    let cat = nanos(best[0]);
    for (what, taken) in [
        ("`cat`", best[0]),
        ("`usage --no-index`", best[1]),
        ("`usage`, first with an index", first_count),
        ("`usage`, nothing has changed", unchanged.into_iter().min()?),
        ("`sessions search`, first with an index", first_words),
        ("`sessions search`, nothing has changed", search),
    ] {
        row(&[what.to_owned(), time(nanos(taken)), ratio(nanos(taken), cat)]);
    }
    let index = home.join(".local/share/convoke/index/sessions.db").metadata().ok()?.len();
    let share = index * 1000 / bytes.max(1);
    println!("\nThe index has {} bytes, {}.{} % of the files.", index, share / 10, share % 10);
    large(convoke, home, count)
}

/// Measures a session of 50 MB: all of it, and its memory.
fn large(convoke: &Path, home: &Path, number_of_it: usize) -> Option<()> {
    let file = write_session(home, number_of_it, LARGE)?;
    let name = file.to_string_lossy().into_owned();
    let mut command = Command::new("/usr/bin/time");
    command.args(["-f", "%M"]).arg(convoke).args(["sessions", "show", &name, "--json"]);
    command.env_clear().env("HOME", home).stdout(Stdio::null()).stderr(Stdio::piped());
    let from = Instant::now();
    let output = command.output().ok()?;
    let taken = from.elapsed();
    let kib = String::from_utf8_lossy(&output.stderr);
    begin("A session of 50 MB", &["", "time", "memory"]);
    let memory = format!("{} KiB", kib.lines().last().unwrap_or_default());
    row(&["summary of a session".to_owned(), time(nanos(taken)), memory]);
    Some(())
}

/// Writes a session: turns of a message, a call, a large result and a reply.
fn write_session(home: &Path, session: usize, bytes: usize) -> Option<PathBuf> {
    let directory = home.join(format!(".claude/projects/-work-{}", session % 40));
    fs::create_dir_all(&directory).ok()?;
    let id = format!("00000000-0000-4000-8000-{session:012}");
    let path = directory.join(format!("{id}.jsonl"));
    let mut file = BufWriter::new(File::create(&path).ok()?);
    let (mut written, mut turn) = (0, 0);
    while written < bytes {
        let text = records(&id, session, turn);
        file.write_all(text.as_bytes()).ok()?;
        written += text.len();
        turn += 1;
    }
    file.flush().ok()?;
    Some(path)
}

fn records(id: &str, session: usize, turn: usize) -> String {
    let mut text = String::new();
    let head = |kind: &str, part: usize, parent: &str| {
        let second = (turn * 4 + part) % 60;
        format!(
            "{{\"parentUuid\":{parent},\"isSidechain\":false,\"type\":\"{kind}\",\"uuid\":\"{session}-{turn}-{part}\",\
             \"timestamp\":\"2026-11-01T10:{:02}:{second:02}.000Z\",\"sessionId\":\"{id}\",\
             \"cwd\":\"/work/{}\",\"version\":\"2.1.197\",",
            turn % 60,
            session % 40
        )
    };
    let parent =
        if turn == 0 { "null".to_owned() } else { format!("\"{session}-{}-3\"", turn - 1) };
    let usage = "\"usage\":{\"input_tokens\":12,\"cache_read_input_tokens\":30000,\
                 \"cache_creation_input_tokens\":400,\"output_tokens\":321}";
    let answer = |part: usize, content: &str| {
        format!(
            "\"message\":{{\"id\":\"msg_{session}_{turn}_{part}\",\"role\":\"assistant\",\"model\":\"claude-sonnet-4-5\",\
             \"stop_reason\":\"end_turn\",{usage},\"content\":[{content}]}}}}\n"
        )
    };
    let _ = writeln!(
        text,
        "{}\"message\":{{\"role\":\"user\",\"content\":\"Please look at needle{session} and at part {turn} of it.\"}}}}",
        head("user", 0, &parent)
    );
    let call = format!(
        "{{\"type\":\"tool_use\",\"id\":\"t{turn}\",\"name\":\"Bash\",\"input\":{{\"command\":\"grep -n word{turn} src/file{session}.rs\"}}}}"
    );
    text += &head("assistant", 1, &format!("\"{session}-{turn}-0\""));
    text += &answer(1, &call);
    let output = format!("line {turn} of the output\\n").repeat(120);
    let _ = writeln!(
        text,
        "{}\"message\":{{\"role\":\"user\",\"content\":[{{\"type\":\"tool_result\",\"tool_use_id\":\"t{turn}\",\"content\":\"{output}\"}}]}}}}",
        head("user", 2, &format!("\"{session}-{turn}-1\""))
    );
    text += &head("assistant", 3, &format!("\"{session}-{turn}-2\""));
    text += &answer(
        3,
        "{\"type\":\"text\",\"text\":\"The word is there, and the function can be simpler.\"}",
    );
    text
}

fn timed(command: &mut Command) -> Option<Duration> {
    let from = Instant::now();
    let status = command.stdin(Stdio::null()).status().ok()?;
    status.success().then(|| from.elapsed())
}

fn nanos(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}
