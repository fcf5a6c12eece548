//! Crates that must not depend on each other, read from the lock file of the workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use toml::Value;

/// A crate, and the crates that it may not depend on, directly or through others.
const APART: [(&str, &[&str]); 4] = [
    ("convoke-codex", &["convoke-thread", "convoke-agent", "convoke-explain"]),
    ("convoke-explain", &["convoke-thread", "convoke-agent", "image", "base64"]),
    ("convoke-thread", &["convoke-explain", "convoke-agent"]),
    ("convoke-agent", &["convoke-explain", "convoke-thread"]),
];

#[test]
fn thread_explain_and_agent_do_not_know_each_other() {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    let Ok(lock) = std::fs::read_to_string(lock) else {
        return; // A packaged crate has no workspace around it.
    };
    let lock = lock.parse().unwrap();
    let graph = graph(&lock);
    for (name, forbidden) in APART {
        let known = reachable(&graph, name);
        assert!(known.len() > 1, "{name} is not in the lock file");
        for other in forbidden {
            assert!(!known.contains(other), "{name} depends on {other}");
        }
    }
}

fn graph(lock: &toml::Table) -> BTreeMap<&str, Vec<&str>> {
    let packages = lock.get("package").and_then(Value::as_array).into_iter().flatten();
    let named = packages.filter_map(|package| {
        let dependencies = package.get("dependencies").and_then(Value::as_array);
        let dependencies = dependencies.into_iter().flatten().filter_map(Value::as_str);
        // A name is followed by a version where several are in use.
        let names = dependencies.filter_map(|it| it.split(' ').next());
        Some((package.get("name")?.as_str()?, names.collect()))
    });
    named.collect()
}

fn reachable<'a>(graph: &BTreeMap<&'a str, Vec<&'a str>>, name: &'a str) -> BTreeSet<&'a str> {
    let mut known = BTreeSet::from([name]);
    let mut open = vec![name];
    while let Some(name) = open.pop() {
        for other in graph.get(name).into_iter().flatten() {
            if known.insert(other) {
                open.push(other);
            }
        }
    }
    known
}
