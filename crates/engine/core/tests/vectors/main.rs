//! Conformance: runs the vectors through the library.

#![expect(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "this is a test")]

use serde_json::Value;

mod assemble;
mod context;
mod markers;

/// Reads the lines of a vector file, from every folder that holds it.
fn vectors(file: &str) -> Vec<Value> {
    let mut vectors = Vec::new();
    for folder in convoke_conformance::own("CONVOKE_VECTORS", &["vectors"]) {
        let path = folder.join(file);
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let lines =
            text.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line"));
        vectors.extend(lines.filter(|vector| !vectors.contains(vector)).collect::<Vec<_>>());
    }
    assert!(!vectors.is_empty(), "{file} holds no vectors");
    vectors
}

/// Runs every vector of a file and reports all differences.
fn check(file: &str, run: impl Fn(&Value) -> Result<(), String>) {
    let vectors = vectors(file);
    let failures: Vec<String> = vectors
        .iter()
        .filter_map(|vector| run(vector).err().map(|why| format!("{}: {why}", vector["name"])))
        .collect();
    println!("{file}: {} passed, {} failed", vectors.len() - failures.len(), failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Compares the expected with the actual result.
fn expect<T: PartialEq + std::fmt::Debug>(expected: &T, actual: &T) -> Result<(), String> {
    if expected == actual {
        return Ok(());
    }
    Err(format!("\n  expected {expected:?}\n  actual   {actual:?}"))
}
