//! Random trees: what is explained is compared with what the installed programs send.
//!
//! A seed decides everything about a tree. `CONVOKE_TREES` sets how many each program gets, `CONVOKE_TREE_SEED` the first
//! seed; a tree with a difference is printed with its seed. `CONVOKE_TREE_CLI` chooses one program.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and reports its seeds"
)]

#[path = "../installed/mod.rs"]
mod installed;
mod texts;
mod tree;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::{Duration, SystemTime};

use convoke_agent::process::guardian::Guardian;
use convoke_inspect::verify::verify;
use convoke_inspect::{HostEnvironment, explained};

use tree::Tree;

const CLIS: [&str; 5] =
    ["claude-2.1.197", "claude-2.1.325", "codex-0.98.0", "codex-0.166.0", "gemini-0.61.0"];

const TREES: u64 = 20;

const TIME_LIMIT: Duration = Duration::from_mins(5);

#[tokio::test]
#[ignore = "takes minutes"]
async fn random_trees_load_as_explained() {
    let count = number("CONVOKE_TREES").unwrap_or(TREES);
    let first = number("CONVOKE_TREE_SEED").unwrap_or_else(|| {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
    });
    let chosen = std::env::var("CONVOKE_TREE_CLI").ok();
    println!("CONVOKE_TREE_SEED={first} CONVOKE_TREES={count}");
    let mut wrong = Vec::new();
    for cli in CLIS.into_iter().filter(|cli| chosen.as_deref().is_none_or(|it| it == *cli)) {
        let Some(programs) = installed::programs(cli) else { continue };
        let (agent, version) = cli.split_once('-').unwrap();
        let before = wrong.len();
        for seed in first..first + count {
            let tree = Tree::random(seed, agent);
            let differences = differences(&tree, &programs, agent, version).await;
            if !differences.is_empty() {
                println!("{cli}, seed {seed}: {}\n{tree}", differences.join("; "));
                wrong.push((cli, seed));
            }
        }
        println!("{cli}: {} of {count} trees as explained", count - (wrong.len() - before) as u64);
    }
    assert!(wrong.is_empty(), "trees with differences: {wrong:?}");
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|it| it.parse().unwrap())
}

async fn differences(tree: &Tree, programs: &Path, agent: &str, version: &str) -> Vec<String> {
    let usual = std::env::var_os("PATH").unwrap();
    let path = [programs.as_os_str(), usual.as_os_str()].join(OsStr::new(":"));
    let mut environment: BTreeMap<OsString, OsString> = BTreeMap::from([
        ("PATH".into(), path),
        ("LANG".into(), "C.UTF-8".into()),
        ("ANTHROPIC_API_KEY".into(), "none".into()),
        ("GEMINI_CLI_TRUST_WORKSPACE".into(), "true".into()),
    ]);
    environment.extend(tree.variables.iter().map(|(name, value)| (name.into(), value.into())));
    let host_environment =
        HostEnvironment { environment, home: tree.home(), cwd: tree.cwd.clone() };
    let mut session = explained::session(&host_environment);
    session.arguments.clone_from(&tree.arguments);
    let vendor = convoke_vendors::cli(agent).unwrap();
    let edition = explained::edition(vendor, Some(version));
    let guardian = Guardian::from_program(env!("CARGO_BIN_EXE_convoke"));
    match verify(vendor, edition, &session, &host_environment, guardian, TIME_LIMIT).await {
        Ok(verified) => verified.differences.iter().map(ToString::to_string).collect(),
        Err(error) => vec![error.to_string()],
    }
}
