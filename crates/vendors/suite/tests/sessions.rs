//! Rebuilds the requests of recorded sessions from their files, and compares them with what the model's server received
//! in the same run.
//!
//! The recordings are not part of the project: `CONVOKE_SESSIONS` names their directory, or `CONVOKE_SHARED` the one that
//! holds `sessions/data`. A window that can be exact passes only if it is claimed to be exact and is equal.

#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use convoke_core::figures::hexadecimal;
use convoke_source::{FoundSession, Home, Kept, requests};
use convoke_wire::normal::sorted;
use serde_json::Value;
use sha2::{Digest, Sha256};

fn main() -> ExitCode {
    let roots = convoke_conformance::recorded("CONVOKE_SESSIONS", &["sessions/data"]);
    let (mut passed, mut failed) = (0, 0);
    for case in roots.iter().flat_map(|root| cases(root)) {
        let name = case_name(&case);
        match check(&case) {
            Ok(()) => {
                println!("ok   {name}");
                passed += 1;
            }
            Err(problems) => {
                println!("FAIL {name}\n{problems}");
                failed += 1;
            }
        }
    }
    println!("{passed} passed, {failed} failed, 0 skipped");
    if failed == 0 && (passed > 0 || roots.is_empty()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Returns the folders of cases: `PROGRAM/CASE`.
fn cases(root: &Path) -> Vec<PathBuf> {
    let entries = |path: &Path| -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    };
    let folders = entries(root).into_iter().flat_map(|program| entries(&program));
    folders.filter(|case| case.join("case.json").exists()).collect()
}

fn case_name(case: &Path) -> String {
    let parts: Vec<_> = case.iter().rev().take(2).map(|it| it.to_string_lossy()).collect();
    format!("{}/{}", parts[1], parts[0])
}

fn check(case: &Path) -> Result<(), String> {
    let description: Value =
        serde_json::from_slice(&fs::read(case.join("case.json")).unwrap()).unwrap();
    let wire = fs::read_to_string(case.join("wire.jsonl")).unwrap();
    let wire: Vec<Value> = wire
        .lines()
        .filter(|line| !line.is_empty())
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    let program = description["agent"].as_str().unwrap().trim_end_matches(char::is_numeric);
    let mut problems = String::new();
    for session in description["sessions"].as_array().unwrap() {
        let id = session["id"].as_str().unwrap();
        match rebuild(program, id, &case.join("home")) {
            Ok(rebuilt) => {
                let sent: Vec<&Value> = wire.iter().filter(|it| it["session"] == id).collect();
                compare(&sent, &rebuilt, &mut problems);
            }
            Err(problem) => writeln!(problems, "     session {id}: {problem}").unwrap(),
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn rebuild(program: &str, id: &str, home: &Path) -> Result<Vec<Value>, String> {
    let source = convoke_vendors::sources().find(|it| it.program() == program);
    let source = source.ok_or_else(|| format!("no sessions of `{program}` are read"))?;
    let home = Home { directory: home, variable: &|_| None };
    let mut sessions: Vec<FoundSession> = Vec::new();
    source.list(&home, &mut |found| sessions.extend(found.ok()));
    let found = sessions.iter().find(|it| it.id == id).ok_or("it was not found")?;
    let mut reader = source.open(found, Kept::Shown).map_err(|error| error.to_string())?;
    requests::all(&mut *reader).map_err(|error| error.to_string())
}

/// Compares the requests of a session, those of each sub-agent by themselves.
fn compare(sent: &[&Value], rebuilt: &[Value], problems: &mut String) {
    let sent = by_agent(sent.iter().copied());
    let mut rebuilt = by_agent(rebuilt.iter());
    // A sub-agent may have another name in the files.
    let mut others: Vec<String> =
        rebuilt.keys().filter(|it| !it.is_empty() && !sent.contains_key(*it)).cloned().collect();
    others.reverse();
    for (agent, sent) in &sent {
        let found = rebuilt.remove(agent).or_else(|| {
            let other = (!agent.is_empty()).then(|| others.pop()).flatten()?;
            rebuilt.remove(&other)
        });
        compare_in_order(sent, &found.unwrap_or_default(), problems);
    }
    for extra in rebuilt.values().flatten() {
        writeln!(problems, "     a request that was not sent, at {}", extra["source"]).unwrap();
    }
}

fn by_agent<'v>(requests: impl Iterator<Item = &'v Value>) -> BTreeMap<String, Vec<&'v Value>> {
    let mut groups: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for request in requests {
        let agent = request["agent"].as_str().unwrap_or_default().to_owned();
        groups.entry(agent).or_default().push(request);
    }
    groups
}

/// Finds the best pairs in order, and checks each.
fn compare_in_order(sent: &[&Value], found: &[&Value], problems: &mut String) {
    let pairs: Vec<Vec<Pair>> = sent
        .iter()
        .map(|sent| found.iter().map(|found| Pair::new(sent, found)).collect())
        .collect();
    let mut best = vec![vec![0; found.len() + 1]; sent.len() + 1];
    for i in (0..sent.len()).rev() {
        for j in (0..found.len()).rev() {
            let score = pairs[i][j].score;
            let paired = if score > 0 { score + best[i + 1][j + 1] } else { 0 };
            best[i][j] = best[i + 1][j].max(best[i][j + 1]).max(paired);
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < sent.len() || j < found.len() {
        let is_pair = i < sent.len() && j < found.len() && pairs[i][j].score > 0;
        if is_pair && best[i][j] == pairs[i][j].score + best[i + 1][j + 1] {
            pairs[i][j].check(sent[i], found[j], problems);
            (i, j) = (i + 1, j + 1);
        } else if i < sent.len() && (j == found.len() || best[i][j] == best[i + 1][j]) {
            if sent[i]["leavesNoTrace"] != true {
                let (number, purpose) = (&sent[i]["n"], &sent[i]["purpose"]);
                writeln!(problems, "     #{number} {purpose} request not found").unwrap();
            }
            i += 1;
        } else {
            writeln!(problems, "     a request that was not sent, at {}", found[j]["source"])
                .unwrap();
            j += 1;
        }
    }
}

/// How far a rebuilt request equals a sent one.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Pair {
    messages: bool,
    exact: bool,
    usage: bool,
    model: bool,
    purpose: bool,
    score: u32,
}

impl Pair {
    fn new(sent: &Value, found: &Value) -> Self {
        let messages = canonical(sent, false) == canonical(found, false);
        let exact = messages
            && canonical(sent, true) == canonical(found, true)
            && fields(&sent["system"], "sha256") == fields(&found["system"], "sha256")
            && fields(&sent["tools"], "name") == fields(&found["tools"], "name");
        let usage = counted(sent, sent) == counted(found, sent);
        let model = sent["model"] == found["model"];
        let purpose = sent["purpose"] == found["purpose"];
        let leaves_trace = sent["leavesNoTrace"] != true;
        let weights = [(messages, 8), (usage, 2), (purpose, 2), (model, 1), (leaves_trace, 1)];
        let score = 1 + weights.iter().filter(|it| it.0).map(|it| it.1).sum::<u32>();
        let score = if model || messages { score } else { 0 };
        Self { messages, exact, usage, model, purpose, score }
    }

    fn check(&self, sent: &Value, found: &Value, problems: &mut String) {
        let number = &sent["n"];
        let mut tell = |problem: String| writeln!(problems, "     #{number} {problem}").unwrap();
        let leaves_trace = sent["leavesNoTrace"] != true;
        if leaves_trace && !(self.model && self.purpose) {
            tell(format!("model {}, purpose {}", found["model"], found["purpose"]));
        }
        let claim = found["rebuilt"].as_str().unwrap_or_default();
        let holds = match claim {
            "exact" => self.exact,
            "messages" => self.messages,
            _ => false,
        };
        let expected = sent["rebuildable"].as_str().unwrap_or("exact");
        let is_needed = expected != "no" && leaves_trace;
        if !holds && (is_needed || claim != "partial") {
            tell(format!("the window differs; it is claimed to be {claim}"));
        } else if is_needed && expected == "exact" && claim != "exact" {
            tell(format!("the window can be exact, and is claimed to be {claim}"));
        }
        let is_counted = leaves_trace && sent["usageInFiles"] != false;
        if !self.usage && (is_counted || !found["usage"].is_null()) {
            tell(format!("usage {}, sent {}", found["usage"], sent["usage"]));
        }
    }
}

fn fields<'v>(list: &'v Value, name: &str) -> Vec<&'v Value> {
    list.as_array().into_iter().flatten().map(|it| &it[name]).collect()
}

/// Returns the counts that are compared; not those of reasoning where the files do not have them.
fn counted(request: &Value, sent: &Value) -> Option<Vec<u64>> {
    let usage = request["usage"].as_object()?;
    let mut names = vec!["input", "output", "cacheRead", "cacheWrite"];
    if sent["reasoningInFiles"] != false {
        names.push("reasoning");
    }
    Some(names.iter().map(|name| usage.get(*name).and_then(Value::as_u64).unwrap_or(0)).collect())
}

/// Returns the parts with their roles; texts as their hashes.
fn canonical(request: &Value, with_thinking: bool) -> Vec<(String, String)> {
    let mut parts = Vec::new();
    for message in request["messages"].as_array().into_iter().flatten() {
        for part in message["parts"].as_array().into_iter().flatten() {
            let kind = part["kind"].as_str().unwrap_or_default();
            let is_empty = kind == "text" && part["text"] == "";
            if is_empty || kind == "thinking" && !with_thinking {
                continue;
            }
            let what = match kind {
                "text" | "result" => match part["text"].as_str() {
                    Some(text) => hexadecimal(&Sha256::digest(text)),
                    None => part["sha256"].as_str().unwrap_or_default().to_owned(),
                },
                "call" => format!("{} {}", part["name"], whole_numbers(&sorted(&part["input"]))),
                _ => part["sha256"].as_str().unwrap_or_default().to_owned(),
            };
            parts.push((message["role"].to_string(), format!("{kind} {what}")));
        }
    }
    parts
}

/// Returns a value in which 1.0 is 1.
fn whole_numbers(value: &Value) -> Value {
    match value {
        #[expect(clippy::cast_possible_truncation, reason = "it is a whole number")]
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.fract() == 0.0 && float.abs() < 9e15 => (float as i64).into(),
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(whole_numbers).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, it)| (name.clone(), whole_numbers(it))).collect()
        }
        _ => value.clone(),
    }
}
