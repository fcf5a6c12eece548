//! Reads recorded outputs of the real CLIs and prints for each `NAME VERDICT sha256(reply) usage`.
//!
//! The recordings are not part of the project: `CONVOKE_STREAMS` names their directory, or
//! `CONVOKE_SHARED` the one that holds it. `streams.expected` is the reviewed result for those that we
//! know; `UPDATE_EXPECTED=1` writes it anew. Any other recording is judged by the general rules alone.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use convoke_agent::stream::lines::Lines;
use convoke_agent::stream::{
    Account, Reader, claude::Claude, codex_exec::CodexExec, gemini::Gemini, plain::Plain,
};
use convoke_agent::verdict::{Ending, Exit, Stop, Verdict};
use serde_json::Value;
use sha2::{Digest, Sha256};

const EXPECTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/streams.expected");

fn main() -> ExitCode {
    let Some(root) = streams_directory() else {
        println!("skipped: neither CONVOKE_STREAMS nor CONVOKE_SHARED names recorded streams");
        println!("0 passed, 0 failed, 1 skipped");
        return ExitCode::SUCCESS;
    };
    let expected = expected_results();
    let mut results = String::new();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for recording in recordings(&root) {
        let Some(account) = recording.read(1 << 16) else {
            println!("skipped: no reader is known for {}", recording.name);
            skipped += 1;
            continue;
        };
        let result = result_line(&recording.name, &account);
        println!("{result}");
        let result = format!("{result}{}", reason(&account));
        let mut problems = recording.problems(&account);
        match expected.get(&recording.name) {
            Some(known) if *known != result => problems.push(format!("expected {known}")),
            _ => {}
        }
        for problem in &problems {
            println!("  FAILED {}: {problem}", recording.name);
        }
        if problems.is_empty() {
            passed += 1;
        } else {
            failed += 1;
        }
        results.push_str(&result);
        results.push('\n');
    }
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(EXPECTED, results).expect("the expected results can be written");
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn streams_directory() -> Option<PathBuf> {
    let named = std::env::var_os("CONVOKE_STREAMS").map(PathBuf::from);
    let shared = || Some(PathBuf::from(std::env::var_os("CONVOKE_SHARED")?).join("streams"));
    named.or_else(|| shared().filter(|streams| streams.is_dir()))
}

fn expected_results() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(EXPECTED).unwrap_or_default();
    let lines = text.lines().filter_map(|line| {
        let name = line.split(' ').next()?;
        Some((name.to_owned(), line.to_owned()))
    });
    lines.collect()
}

fn result_line(name: &str, account: &Account) -> String {
    let mut hash = String::new();
    for byte in Sha256::digest(account.reply.as_bytes()) {
        write!(hash, "{byte:02x}").unwrap();
    }
    let usage = account.usage.map_or("-".to_owned(), |usage| usage.to_string());
    format!("{name} {} {hash} {usage}", account.verdict.word())
}

/// Returns the reason of a failure, which the reviewed results hold beside what is printed.
fn reason(account: &Account) -> String {
    match &account.verdict {
        Verdict::Failed(failure) => format!(" {:?}", failure.reason),
        _ => String::new(),
    }
}

/// One recorded output, and how its program was called and ended.
struct Recording {
    name: String,
    output: Vec<u8>,
    arguments: Vec<String>,
    exit: Exit,
    stderr: String,
}

fn recordings(root: &Path) -> Vec<Recording> {
    let mut paths = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the streams can be listed") {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "jsonl") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths.iter().map(|path| Recording::open(root, path)).collect()
}

impl Recording {
    fn open(root: &Path, path: &Path) -> Self {
        let meta = std::fs::read(path.with_extension("meta.json")).expect("a meta.json beside it");
        let meta: Value = serde_json::from_slice(&meta).expect("a meta.json that is JSON");
        let arguments = meta["argv"].as_array().into_iter().flatten();
        Self {
            name: path.strip_prefix(root).unwrap().with_extension("").display().to_string(),
            output: std::fs::read(path).unwrap(),
            arguments: arguments
                .filter_map(|argument| argument.as_str().map(str::to_owned))
                .collect(),
            exit: match meta["rc"].as_i64().map(|code| i32::try_from(code).unwrap()) {
                Some(code @ ..0) => Exit::Signal(-code),
                Some(code) => Exit::Code(code),
                None => Exit::Unseen,
            },
            stderr: meta["stderr"].as_str().unwrap_or_default().to_owned(),
        }
    }

    fn reader(&self) -> Option<Box<dyn Reader>> {
        let limit = 1 << 20;
        let program = self.name.split('/').next().unwrap_or_default();
        let asks_for = |flag: &str| {
            let mut arguments = self.arguments.iter();
            let found = arguments.find(|argument| *argument == flag).is_some();
            found.then(|| arguments.next().cloned().unwrap_or_default())
        };
        let reader: Box<dyn Reader> = match program {
            name if name.starts_with("claude") => match asks_for("--output-format").as_deref() {
                None | Some("text") => Box::new(Plain::new(limit)),
                _ => Box::new(Claude::new(limit)),
            },
            name if name.starts_with("codex") => match asks_for("--json") {
                None => Box::new(Plain::new(limit)),
                _ => Box::new(CodexExec::new(limit)),
            },
            name if name.starts_with("gemini") => match asks_for("-o").as_deref() {
                None | Some("text") => Box::new(Plain::new(limit)),
                _ => Box::new(Gemini::new(limit)),
            },
            _ => return None,
        };
        Some(reader)
    }

    fn read(&self, chunk: usize) -> Option<Account> {
        let mut reader = self.reader()?;
        let mut lines = Lines::new(64 << 20);
        for bytes in self.output.chunks(chunk) {
            lines.push(bytes, |line| reader.line(line, &mut |_| {}));
        }
        lines.finish(|line| reader.line(line, &mut |_| {}));
        let ending = Ending {
            exit: self.exit,
            // A recording without an exit code is of a program that outlived its recorder.
            stop: (self.exit == Exit::Unseen).then_some(Stop::TimedOut),
            stderr: &self.stderr,
        };
        Some(reader.finish(&ending, &mut |_| {}))
    }

    /// Judges the account by rules that hold for any recording.
    fn problems(&self, account: &Account) -> Vec<String> {
        let mut problems = Vec::new();
        let implied = self.implied_verdicts();
        let word = account.verdict.word();
        if !implied.contains(&word) {
            problems.push(format!("the verdict is {word}, and not one of {implied:?}"));
        }
        if !account.unknown.is_empty() {
            problems.push(format!("unknown kinds: {:?}", account.unknown));
        }
        if self.read(7).as_ref() != Some(account) {
            problems.push("it reads differently in chunks of 7 bytes".to_owned());
        }
        problems
    }

    /// Finds the verdicts that the closing event and the exit allow, without the reader under test.
    fn implied_verdicts(&self) -> &'static [&'static str] {
        const NOT_DONE: &[&str] = &["failed", "cancelled", "timed-out"];
        let events: Vec<Value> = self
            .output
            .split(|&byte| byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect();
        let whole: Value = serde_json::from_slice(&self.output).unwrap_or_default();
        let of_kind = |kind: &str| events.iter().rfind(|event| event["type"] == kind);
        if let Some(result) = of_kind("result") {
            let reason = result["terminal_reason"].as_str().unwrap_or_default();
            return match (&result["subtype"], &result["status"]) {
                (Value::String(s), _) if s == "success" && result["is_error"] == false => &["done"],
                (_, Value::String(s)) if s == "success" => &["done"],
                _ if reason.starts_with("aborted") => &["cancelled"],
                _ => &["failed"],
            };
        }
        if of_kind("turn.completed").is_some() || whole["response"].is_string() {
            return &["done"];
        }
        if of_kind("turn.failed").is_some() {
            return &["failed"];
        }
        let plain_text = events.is_empty() && !self.output.is_empty() && whole.is_null();
        if plain_text && self.exit == Exit::Code(0) {
            return &["done"];
        }
        NOT_DONE
    }
}
