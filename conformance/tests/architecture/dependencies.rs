//! Crates that must not depend on each other, read from the lock file of the workspace.

use std::collections::{BTreeMap, BTreeSet};

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
    let lock = std::fs::read_to_string(crate::workspace().join("Cargo.lock")).unwrap();
    assert_eq!(wrong_dependencies(&lock), [""; 0]);
    let planted = "[[package]]\nname = \"convoke-thread\"\ndependencies = [\"other 1.0.0\"]\n\
                   [[package]]\nname = \"other\"\ndependencies = [\"convoke-agent\"]\n\
                   [[package]]\nname = \"convoke-agent\"\n";
    let wrong = "convoke-thread depends on convoke-agent";
    assert!(wrong_dependencies(planted).contains(&wrong.to_owned()));
}

/// Returns the dependencies of a lock file that must not be, and the crates that it does not have.
fn wrong_dependencies(lock: &str) -> Vec<String> {
    let lock = lock.parse().unwrap();
    let graph = graph(&lock);
    let mut wrong = Vec::new();
    for (name, forbidden) in APART {
        let known = reachable(&graph, name);
        if known.len() <= 1 {
            wrong.push(format!("{name} is not in the lock file"));
        }
        let found = forbidden.iter().filter(|other| known.contains(**other));
        wrong.extend(found.map(|other| format!("{name} depends on {other}")));
    }
    wrong
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
