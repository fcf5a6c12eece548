//! Reads recorded outputs of the real CLIs and prints for each `NAME VERDICT sha256(reply) usage`.
//!
//! The recordings are not part of the project: `CONVOKE_STREAMS` names their directory, or
//! `CONVOKE_SHARED` the one that holds it. `streams.expected` is the reviewed result for those that we
//! know; `UPDATE_EXPECTED=1` writes it anew. Any other recording is judged by the general rules alone.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

mod recorded;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use convoke_agent::verdict::{Exit, Verdict};
use serde_json::Value;
use sha2::{Digest, Sha256};

use self::recorded::{Format, ReadTurn, Recording, recordings, streams_directory};

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
        let mut problems = problems(&recording, &account);
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

fn expected_results() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(EXPECTED).unwrap_or_default();
    let lines = text.lines().filter_map(|line| {
        let name = line.split(' ').next()?;
        Some((name.to_owned(), line.to_owned()))
    });
    lines.collect()
}

fn result_line(name: &str, account: &ReadTurn) -> String {
    let mut hash = String::new();
    for byte in Sha256::digest(account.result.reply.as_bytes()) {
        write!(hash, "{byte:02x}").unwrap();
    }
    let usage = account.result.usage.map_or("-".to_owned(), |usage| usage.to_string());
    format!("{name} {} {hash} {usage}", account.result.verdict.as_str())
}

/// Returns the reason of a failure, which the reviewed results hold beside what is printed.
fn reason(account: &ReadTurn) -> String {
    match &account.result.verdict {
        Verdict::Failed(failure) => format!(" {:?}", failure.reason),
        _ => String::new(),
    }
}

/// Judges the account by rules that hold for any recording.
fn problems(recording: &Recording, account: &ReadTurn) -> Vec<String> {
    let mut problems = Vec::new();
    let implied = implied_verdicts(recording);
    let word = account.result.verdict.as_str();
    // A recording without an exit code is of a program that outlived its recorder.
    let outlived = recording.exit == Exit::Unknown && word == "timed-out";
    if !implied.contains(&word) && !outlived {
        problems.push(format!("the verdict is {word}, and not one of {implied:?}"));
    }
    let unknown = account.unknown_kinds();
    if !unknown.is_empty() {
        problems.push(format!("unknown kinds: {unknown:?}"));
    }
    if recording.read(7).as_ref() != Some(account) {
        problems.push("it reads differently in chunks of 7 bytes".to_owned());
    }
    problems
}

/// Finds the verdicts that the closing event and the exit allow, without the reader under test.
fn implied_verdicts(recording: &Recording) -> &'static [&'static str] {
    const NOT_DONE: &[&str] = &["failed", "cancelled", "timed-out"];
    if recording.format() == Some(Format::Plain) {
        // A reply in plain text can itself be JSON.
        return if recording.exit == Exit::Code(0) { &["done"] } else { NOT_DONE };
    }
    let events = recording.events();
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
    if of_kind("turn.completed").is_some() {
        return &["done"];
    }
    if of_kind("turn.failed").is_some() {
        return &["failed"];
    }
    if let Some(document) = events.iter().rfind(|event| event["response"].is_string()) {
        return if document["error"].is_object() { &["failed"] } else { &["done"] };
    }
    let completed = events.iter().rfind(|event| event["method"] == "turn/completed");
    match completed.and_then(|event| event["params"]["turn"]["status"].as_str()) {
        Some("completed") => &["done"],
        Some("interrupted") => &["cancelled"],
        Some(_) => &["failed"],
        None => NOT_DONE,
    }
}
