//! The statements of `ARCHITECTURE.md` about the code of the workspace.

use std::path::{Path, PathBuf};

/// Strings of command lines and event streams of CLIs.
const CLI_FORMATS: [&str; 7] = [
    "--append-system-prompt-file",
    "--permission-mode",
    "--approval-mode",
    "--output-format",
    "--input-format",
    "turn.completed",
    "thread.started",
];

/// Returns the root of the workspace; `None` in a packaged crate.
fn workspace() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("ARCHITECTURE.md").exists().then_some(root)
}

#[test]
fn every_function_that_is_named_exists() {
    let Some(root) = workspace() else { return };
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let quoted = page.split('`').skip(1).step_by(2);
    let named: Vec<(&str, &str)> = quoted.filter_map(|text| text.split_once(".rs: ")).collect();
    assert!(named.len() >= 25, "{} functions are named", named.len());
    for (file, function) in named {
        let file = root.join(format!("{file}.rs"));
        let code = std::fs::read_to_string(&file);
        let code = code.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let is_defined =
            ["(", "<"].iter().any(|next| code.contains(&format!("fn {function}{next}")));
        assert!(is_defined, "{} has no function `{function}`", file.display());
    }
}

#[test]
fn flags_and_event_formats_are_in_the_agent_crate_only() {
    let Some(root) = workspace() else { return };
    let mut in_agent = 0;
    let mut open: Vec<PathBuf> = std::fs::read_dir(root.join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path().join("src"))
        .filter(|source| source.is_dir())
        .collect();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let code = std::fs::read(&path).unwrap();
            let code = String::from_utf8_lossy(&code);
            for format in CLI_FORMATS.map(|format| format!("\"{format}\"")) {
                if !code.contains(&format) {
                    continue;
                }
                let is_agent = path.starts_with(root.join("crates/agent"));
                assert!(is_agent, "{} contains {format}", path.display());
                in_agent += 1;
            }
        }
    }
    assert!(in_agent >= CLI_FORMATS.len(), "formats of CLIs were found in {in_agent} places");
}
