//! Conformance: the vectors that `CONVOKE_SHARED` points to, through the library.

#![expect(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "this is a test")]

use std::path::PathBuf;

use serde_json::Value;

mod assemble;
mod context;
mod markers;

/// Reads the lines of a vector file, or says that the test is skipped.
fn vectors(file: &str) -> Option<Vec<Value>> {
    let Some(shared) = std::env::var_os("CONVOKE_SHARED") else {
        println!("skipped: CONVOKE_SHARED is not set");
        return None;
    };
    let path = PathBuf::from(shared).join("vectors").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a JSON object a line"))
        .collect();
    assert!(!lines.is_empty(), "{} holds vectors", path.display());
    Some(lines)
}

/// Runs every vector of a file and reports all that differ.
fn check(file: &str, run: impl Fn(&Value) -> Result<(), String>) {
    let Some(vectors) = vectors(file) else { return };
    let failures: Vec<String> = vectors
        .iter()
        .filter_map(|vector| run(vector).err().map(|why| format!("{}: {why}", vector["name"])))
        .collect();
    println!("{file}: {} passed, {} failed", vectors.len() - failures.len(), failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Compares what was expected with what came.
fn expect<T: PartialEq + std::fmt::Debug>(expected: &T, actual: &T) -> Result<(), String> {
    if expected == actual {
        return Ok(());
    }
    Err(format!("\n  expected {expected:?}\n  actual   {actual:?}"))
}
