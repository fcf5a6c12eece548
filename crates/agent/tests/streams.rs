//! Reads recorded outputs of the real CLIs and prints for each `NAME VERDICT sha256(reply) usage`.
//!
//! The recordings are not part of the project: `CONVOKE_STREAMS` names their directory, or
//! `CONVOKE_SHARED` the one that holds it. `streams.expected` is the reviewed result for those that we
//! know; `UPDATE_EXPECTED=1` writes it anew. Any other recording is judged by the general rules alone.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use convoke_agent::stream::lines::Lines;
use convoke_agent::stream::{
    Account, Reader, claude::Claude, codex_app::CodexApp, codex_exec::CodexExec, gemini::Gemini,
    plain::Plain,
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
    for path in recordings(&root) {
        let recording = match Recording::open(&root, &path) {
            Ok(recording) => recording,
            Err(problem) => {
                println!("  FAILED {}: {problem}", path.display());
                failed += 1;
                continue;
            }
        };
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

fn recordings(root: &Path) -> Vec<PathBuf> {
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
    paths
}

/// What a recorded program was asked to write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Plain,
    Claude,
    CodexExec,
    CodexApp,
    Gemini,
}

impl Recording {
    fn open(root: &Path, path: &Path) -> Result<Self, String> {
        let meta = path.with_extension("meta.json");
        let named = |error: &dyn Display| format!("{}: {error}", meta.display());
        let text = std::fs::read(&meta).map_err(|error| named(&error))?;
        let meta: Value = serde_json::from_slice(&text).map_err(|error| named(&error))?;
        let arguments = meta["argv"].as_array().into_iter().flatten();
        let code = meta["rc"].as_i64().map(i32::try_from).transpose();
        Ok(Self {
            name: path.strip_prefix(root).unwrap_or(path).with_extension("").display().to_string(),
            output: std::fs::read(path).map_err(|error| error.to_string())?,
            arguments: arguments
                .filter_map(|argument| argument.as_str().map(str::to_owned))
                .collect(),
            exit: match code.map_err(|error| error.to_string())? {
                Some(code @ ..0) => Exit::Signal(-code),
                Some(code) => Exit::Code(code),
                None => Exit::Unseen,
            },
            stderr: meta["stderr"].as_str().unwrap_or_default().to_owned(),
        })
    }

    /// Returns what a flag is set to, as `--flag value` or `--flag=value`; nothing if it is not there.
    fn asks_for(&self, flags: &[&str]) -> Option<&str> {
        let mut arguments = self.arguments.iter();
        while let Some(argument) = arguments.next() {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (argument.as_str(), None),
            };
            if flags.contains(&name) {
                return value.or_else(|| arguments.next().map(String::as_str)).or(Some(""));
            }
        }
        None
    }

    fn format(&self) -> Option<Format> {
        let program = self.name.split('/').next().unwrap_or_default();
        let is_text = || matches!(self.asks_for(&["-o", "--output-format"]), None | Some("text"));
        Some(match program {
            name if name.starts_with("claude") && is_text() => Format::Plain,
            name if name.starts_with("claude") => Format::Claude,
            name if name.starts_with("codex") => {
                if self.arguments.iter().any(|argument| argument == "app-server") {
                    Format::CodexApp
                } else if self.asks_for(&["--json"]).is_some() {
                    Format::CodexExec
                } else {
                    Format::Plain
                }
            }
            name if name.starts_with("gemini") && is_text() => Format::Plain,
            name if name.starts_with("gemini") => Format::Gemini,
            _ => return None,
        })
    }

    fn reader(&self) -> Option<Box<dyn Reader>> {
        let limit = 1 << 20;
        Some(match self.format()? {
            Format::Plain => Box::new(Plain::new(limit)),
            Format::Claude => Box::new(Claude::new(limit)),
            Format::CodexExec => Box::new(CodexExec::new(limit)),
            Format::Gemini => Box::new(Gemini::new(limit)),
            Format::CodexApp => {
                let mut reader = CodexApp::new(limit);
                let events = self.events();
                let mut threads =
                    events.iter().filter_map(|e| e["result"]["thread"]["id"].as_str());
                if let Some(thread) = threads.next() {
                    reader.thread_is(thread, None, &mut |_| {});
                }
                Box::new(reader)
            }
        })
    }

    /// Returns the lines that are JSON.
    fn events(&self) -> Vec<Value> {
        let lines = self.output.split(|&byte| byte == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
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
        if self.format() == Some(Format::Plain) {
            // A reply in plain text can itself be JSON.
            let done = self.exit == Exit::Code(0) && !self.output.is_empty();
            return if done { &["done"] } else { NOT_DONE };
        }
        let events = self.events();
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
        let completed = events.iter().rfind(|event| event["method"] == "turn/completed");
        match completed.and_then(|event| event["params"]["turn"]["status"].as_str()) {
            Some("completed") => &["done"],
            Some("interrupted") => &["cancelled"],
            Some(_) => &["failed"],
            None => NOT_DONE,
        }
    }
}
