//! Runs the scenarios of `convoke-explain` through the binary and its JSON output.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop, and say so")]

#[expect(dead_code, reason = "shared with the harness of convoke-explain, which uses all of it")]
#[path = "../../../vendors/suite/tests/trees/layout.rs"]
mod layout;
#[expect(dead_code, reason = "shared with the harness of convoke-explain, which uses all of it")]
#[path = "../../../vendors/suite/tests/trees/scenario.rs"]
mod scenario;

use std::path::Path;
use std::process::Command;

use layout::Laid;
use scenario::{Expected, Scenario};
use serde_json::Value;

#[test]
fn the_binary_reports_what_the_real_programs_were_seen_to_load() {
    let folders = convoke_conformance::own("CONVOKE_EXPLAIN", &["explain", "new/explain"]);
    let (mut failures, mut compared) = (Vec::new(), 0);
    for path in convoke_conformance::files(&folders, "json") {
        let scenario =
            Scenario::read(&path).unwrap_or_else(|reason| panic!("{}: {reason}", path.display()));
        // The order of rule files is the file system's.
        if scenario.order_is_free {
            continue;
        }
        let laid = match layout::on_disk(&scenario) {
            Ok(laid) => laid,
            Err(reason) => {
                println!("not run: {}: {}", path.display(), reason.0);
                continue;
            }
        };
        for (agent, expected) in &scenario.results {
            compared += 1;
            let report = report(&laid, &scenario, agent);
            let agent_report = &report["agents"][0];
            if let Some(difference) = difference(&laid, &scenario, expected, agent_report) {
                failures.push(format!("{}: {agent}: {difference}", path.display()));
            }
        }
    }
    assert!(compared > 0, "no tree could be laid out");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn report(laid: &Laid, scenario: &Scenario, agent: &str) -> Value {
    let home = laid.moved(&scenario.home);
    let edition = layout::edition(agent);
    let mut command = Command::new(env!("CARGO_BIN_EXE_convoke"));
    command
        .args(["explain", "--json", "--agent", &edition.to_string(), "--home", &home])
        .arg(laid.moved(&scenario.cwd));
    command
        .env_clear()
        .env("GEMINI_CLI_TRUST_WORKSPACE", "true")
        .env("CODEX_HOME", format!("{home}/.codex"));
    for file in scenario.reads_of(edition) {
        let file = Path::new(&laid.moved(&scenario.cwd)).join(laid.moved(file));
        command.arg("--reads").arg(file);
    }
    let name = agent.split('@').next().unwrap();
    for start in [agent, name].iter().filter_map(|name| scenario.settings.get(*name)) {
        for (name, value) in &start.variables {
            match value {
                Some(value) => command.env(name, laid.moved(value)),
                None => command.env_remove(name),
            };
        }
        command.arg("--").args(start.arguments.iter().map(|argument| laid.moved(argument)));
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn difference(
    laid: &Laid,
    scenario: &Scenario,
    expected: &Expected,
    agent: &Value,
) -> Option<String> {
    let is_hidden = |file: &&Value| {
        scenario.files.iter().any(|entry| {
            scenario.hidden_utf16(expected, &entry.path).is_some()
                && file["path"] == *laid.path(&entry.path).to_str().unwrap()
        })
    };
    let (hidden, loaded): (Vec<_>, Vec<_>) =
        agent["loaded"].as_array().unwrap().iter().partition(is_hidden);
    let is_reported = |file: &&Value| {
        let diagnostics = agent["diagnostics"].as_array().unwrap();
        diagnostics.iter().any(|it| it["code"] == "file.utf16" && it["path"] == file["path"])
    };
    if let Some(file) = hidden.iter().find(|file| !is_reported(file)) {
        return Some(format!("{} is UTF-16 and not reported", file["path"]));
    }
    if loaded.len() != expected.loaded.len() {
        return Some(format!("{} files, found {}", expected.loaded.len(), loaded.len()));
    }
    expected.loaded.iter().zip(loaded).find_map(|(expected, found)| {
        let path = Path::new(found["path"].as_str().unwrap());
        let is_there =
            [path.to_owned(), path.canonicalize().unwrap()].contains(&laid.path(&expected.path));
        // A size that was measured without outer white space may have a little more; what names a path
        // has another length here.
        let seen = found["bytesLoaded"].as_u64().unwrap();
        let is_right = match (&expected.arrived, expected.is_trimmed) {
            (Some(_), _) => true,
            (None, true) => (expected.bytes_seen..=expected.bytes).contains(&seen),
            (None, false) => seen == expected.bytes_seen,
        };
        let is_same = is_there && is_right && found["whole"] == expected.is_whole;
        (!is_same).then(|| format!("expected {}, found {found}", expected.path))
    })
}
