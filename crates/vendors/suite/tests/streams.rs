//! Reads recorded outputs of the real CLIs and prints for each `NAME VERDICT sha256(reply) usage`.
//!
//! The recordings are not part of the project: `CONVOKE_STREAMS` names their directory, or `CONVOKE_SHARED` the
//! one that holds `streams` and `new/streams`. A recording whose meta file contains its `truth` is compared
//! with it. `streams.expected` has the reviewed results of other known recordings; `UPDATE_EXPECTED=1` rewrites
//! it. Any other recording is checked only against general rules.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

mod recorded;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use convoke_agent::ending::Exit;
use convoke_agent::stream::TurnPhase;
use convoke_agent::stream::lines::{Line, LineSplitter};
use convoke_core::figures::hexadecimal;
use convoke_protocol::usage::Usage;
use convoke_protocol::verdict::Verdict;
use serde_json::Value;
use sha2::{Digest, Sha256};

use self::recorded::{Format, ReadTurn, Recording, recordings, streams_directories};

const EXPECTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/streams.expected");

fn main() -> ExitCode {
    let expected = expected_results();
    let mut results = String::new();
    let (mut passed, mut failed) = (0, 0);
    let mut found = Vec::new();
    let roots = streams_directories();
    for root in &roots {
        match recordings(root) {
            Ok(paths) => found.extend(paths.into_iter().map(|path| (root, path))),
            Err(error) => {
                println!("  FAILED {}: {error}", root.display());
                failed += 1;
            }
        }
    }
    for (root, path) in found {
        let recording = match Recording::open(root, &path) {
            Ok(recording) => recording,
            Err(problem) => {
                println!("  FAILED {}: {problem}", path.display());
                failed += 1;
                continue;
            }
        };
        let Some(account) = recording.read(1 << 16) else {
            println!("  FAILED {}: no reader is known for it", recording.name);
            failed += 1;
            continue;
        };
        let result = result_line(&recording.name, &account);
        println!("{result}");
        let result = format!("{result}{}", reason(&account));
        let truth = ExpectedTurn::read(&path);
        let mut problems = problems(&recording, truth.as_ref(), &account);
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
        if truth.is_none() {
            results.push_str(&result);
            results.push('\n');
        }
    }
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(EXPECTED, results).expect("the expected results can be written");
    }
    println!("{passed} passed, {failed} failed, 0 skipped");
    if failed == 0 && (passed > 0 || roots.is_empty()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The known contents of a recording.
struct ExpectedTurn {
    verdict: String,
    reply: String,
    usage: Option<Usage>,
    /// The last event of the turn, and its line, counted from 1.
    over: Option<(String, usize)>,
    /// Whether the recording leaves something open.
    uncertain: bool,
}

impl ExpectedTurn {
    fn read(path: &Path) -> Option<Self> {
        let meta = std::fs::read(path.with_extension("meta.json")).ok()?;
        let meta: Value = serde_json::from_slice(&meta).ok()?;
        let truth = meta.get("truth")?;
        let usage = &truth["usage_all"];
        let count = |name: &str| usage[name].as_u64();
        let over = &truth["over"];
        let line = over["line"].as_u64().and_then(|line| usize::try_from(line).ok());
        Some(Self {
            verdict: truth["verdict"].as_str().unwrap_or_default().to_owned(),
            reply: truth["reply"].as_str().unwrap_or_default().to_owned(),
            usage: count("input").map(|input| Usage {
                input,
                cached: count("cached").unwrap_or(0),
                cache_write: count("cache_write").unwrap_or(0),
                output: count("output").unwrap_or(0),
                reasoning: 0,
            }),
            over: line.map(|line| (over["event"].as_str().unwrap_or_default().to_owned(), line)),
            uncertain: truth["uncertain"] == true,
        })
    }
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
    let hash = hexadecimal(&Sha256::digest(account.result.reply.as_bytes()));
    let usage = account.result.usage.map_or("-".to_owned(), |usage| usage.to_string());
    format!("{name} {} {hash} {usage}", account.result.verdict.as_str())
}

/// Returns the reason of a failure, which is part of the reviewed results but is not printed.
fn reason(account: &ReadTurn) -> String {
    match &account.result.verdict {
        Verdict::Failed(failure) => format!(" {:?}", failure.reason),
        _ => String::new(),
    }
}

/// Checks a result against rules that hold for any recording.
fn problems(recording: &Recording, truth: Option<&ExpectedTurn>, turn: &ReadTurn) -> Vec<String> {
    let mut problems = match truth {
        Some(truth) => differences(truth, recording, turn),
        None => verdict_problem(recording, turn).into_iter().collect(),
    };
    let unknown = turn.unknown_kinds();
    if !unknown.is_empty() {
        problems.push(format!("unknown kinds: {unknown:?}"));
    }
    if recording.read(7).as_ref() != Some(turn) {
        problems.push("it reads differently in chunks of 7 bytes".to_owned());
    }
    problems
}

/// Compares a result with the known contents of the recording.
fn differences(truth: &ExpectedTurn, recording: &Recording, turn: &ReadTurn) -> Vec<String> {
    let mut problems = Vec::new();
    let word = turn.result.verdict.as_str();
    let known = ["done", "failed", "cancelled"].contains(&truth.verdict.as_str());
    let differs = if known { word != truth.verdict } else { word == "done" };
    if differs {
        problems.push(format!("the verdict is {word}, and in truth {}", truth.verdict));
    }
    // The text of an incomplete turn is not compared.
    if truth.verdict == "done" && !truth.uncertain && turn.result.reply != truth.reply {
        problems
            .push(format!("the reply is {:?}, and in truth {:?}", turn.result.reply, truth.reply));
    }
    let usage = turn.result.usage.unwrap_or_default();
    if truth.usage.is_some_and(|known| known != usage) {
        problems.push(format!("the usage is {usage}, and in truth {:?}", truth.usage));
    }
    let over = over(recording);
    match &truth.over {
        Some((event, line)) if is_closing(event) && over != Some(*line) => {
            problems.push(format!("it is over at line {over:?}, and in truth at {line}"));
        }
        None if over.is_some() => {
            problems.push(format!("it is over at line {over:?}, and in truth at none"));
        }
        _ => {}
    }
    problems
}

/// Returns the line, counted from 1, after which the agent stays idle.
fn over(recording: &Recording) -> Option<usize> {
    let mut reader = recording.reader()?;
    let mut lines = LineSplitter::json(64 << 20);
    let (mut number, mut over) = (0, None);
    let mut read = |line: Line<'_>| {
        reader.line(line.bytes, &mut |_| {});
        number += 1;
        match reader.phase() {
            TurnPhase::Running => over = None,
            TurnPhase::Answered | TurnPhase::Over => over = over.or(Some(number)),
        }
    };
    lines.push(&recording.output, &mut read);
    lines.finish(&mut read);
    over
}

/// Returns whether an event of a recording closes its turn; the end of a process does not.
fn is_closing(event: &str) -> bool {
    matches!(event, "last result" | "control_response")
}

/// Checks the verdict against the closing event and the exit status.
fn verdict_problem(recording: &Recording, turn: &ReadTurn) -> Option<String> {
    let implied = implied_verdicts(recording);
    let word = turn.result.verdict.as_str();
    // A recording without an exit code belongs to a program that outlived its recorder.
    let outlived = recording.exit == Exit::Unknown && word == "timed-out";
    (!implied.contains(&word) && !outlived)
        .then(|| format!("the verdict is {word}, and not one of {implied:?}"))
}

/// Returns the verdicts that the closing event and the exit status allow, determined without the reader under
/// test.
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
        if result["stop_reason"] == "pause_turn" {
            return &["failed"];
        }
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
