//! The statements of `ARCHITECTURE.md` about the code of the workspace.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use toml::Value;

/// Events in the output of CLIs.
const CLI_EVENTS: [&str; 2] = ["turn.completed", "thread.started"];

/// Flags of CLIs outside of the agent crate: a folder, and the flags that its code reads or that every program has.
const FLAGS_ELSEWHERE: [(&str, &[&str]); 3] = [
    // They decide which files a CLI loads.
    ("crates/explain", &["--config", "--model", "--setting-sources", "--settings"]),
    // The user's own arguments, which `request` passes on.
    ("crates/cli/src/commands/request", &["--model", "--profile"]),
    ("crates/inspect", &["--version"]),
];

/// Returns the root of the workspace; `None` in a packaged crate.
fn workspace() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("ARCHITECTURE.md").exists().then_some(root)
}

#[test]
fn every_function_that_is_named_exists() {
    let Some(root) = workspace() else { return };
    let page = page(&root);
    let named = named(&page);
    assert!(named.len() >= 50, "{} functions are named", named.len());
    for (file, function) in named {
        definition(&root, file, function);
    }
}

#[test]
fn every_invariant_names_its_test() {
    let Some(root) = workspace() else { return };
    let page = page(&root);
    let (map, list) = page.split_once("## Invariants\n").expect("a list of invariants");
    let of_crates = map.split("**Architecture Invariant:**").skip(1).map(|it| {
        let end = it.find("\n\n").unwrap_or(it.len());
        &it[..end]
    });
    let list = list.split("\n## ").next().unwrap_or_default();
    let of_the_whole = list.split("\n\n").nth(1).unwrap_or_default();
    let of_the_whole = of_the_whole.split_inclusive("`).\n").filter(|it| !it.trim().is_empty());
    let mut invariants = 0;
    for invariant in of_crates.chain(of_the_whole) {
        let tests = named(invariant);
        assert!(!tests.is_empty(), "no test is named for:{invariant}");
        for (file, test) in tests {
            let (code, at) = definition(&root, file, test);
            let before: Vec<&str> = code[..at].lines().rev().take(4).collect();
            // The harnesses of the scenarios have a `main` instead of the attribute.
            let is_test =
                before.iter().any(|line| line.contains("test]") || line.contains("test("));
            assert!(is_test || file.contains("/tests/scenarios/"), "{test} of {file} is no test");
        }
        invariants += 1;
    }
    assert!(invariants >= 35, "{invariants} invariants");
}

#[test]
fn the_map_has_every_crate_after_those_that_it_depends_on() {
    let Some(root) = workspace() else { return };
    let page = page(&root);
    let heads = page.lines().filter_map(|line| line.strip_prefix("### `"));
    let map: Vec<(&str, &str)> = heads
        .map(|head| head.trim_end_matches('`').split_once("` — `").expect("a folder and a crate"))
        .collect();
    for entry in std::fs::read_dir(root.join("crates")).unwrap() {
        let name = entry.unwrap().file_name();
        let folder = format!("crates/{}", name.to_string_lossy());
        assert!(map.iter().any(|(it, _)| *it == folder), "{folder} is not on the map");
    }
    for (index, (folder, name)) in map.iter().enumerate() {
        let manifest = std::fs::read_to_string(root.join(folder).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        assert_eq!(manifest["package"]["name"].as_str(), Some(*name), "{folder}");
        let Some(dependencies) = manifest.get("dependencies").and_then(Value::as_table) else {
            continue;
        };
        for dependency in dependencies.keys().filter(|it| it.starts_with("convoke")) {
            let is_above = map[..index].iter().any(|(_, it)| it == dependency);
            assert!(is_above, "{name} depends on {dependency}, which is not above it");
        }
    }
}

#[test]
fn the_map_names_every_module() {
    let Some(root) = workspace() else { return };
    let page = page(&root);
    for section in page.split("\n### `").skip(1) {
        let folder = section.split('`').next().unwrap();
        let Ok(modules) = std::fs::read_dir(root.join(folder).join("src")) else { continue };
        let code = section.split("\n## ").next().unwrap().split('`').skip(2).step_by(2);
        let named: HashSet<&str> = code.flat_map(|it| it.split(|c| !is_word(c))).collect();
        for module in modules {
            let path = module.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            let is_common =
                ["lib", "main", "tests", "testing", "fixture", "diagnostics", "snapshots"];
            assert!(is_common.contains(&name) || named.contains(name), "{folder}: {name}");
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[test]
fn every_module_says_what_it_is() {
    let Some(root) = workspace() else { return };
    for (path, code) in sources(&root) {
        assert!(code.starts_with("//!"), "{} has no documentation", path.display());
    }
}

#[test]
fn pure_crates_use_no_file_clock_environment_or_network() {
    const IMPURE: [&str; 9] = [
        "std::fs",
        "std::env::",
        "std::net",
        "std::process",
        "SystemTime",
        "Instant::now",
        "Timestamp::now",
        "Zoned::now",
        "tokio",
    ];
    let Some(root) = workspace() else { return };
    for (path, code) in sources(&root) {
        let is_pure = ["core", "redact", "wire", "team", "codex", "thread", "explain"]
            .iter()
            .any(|name| path.starts_with(root.join("crates").join(name)));
        let code = without_comments(&code);
        for name in IMPURE {
            assert!(!is_pure || !code.contains(name), "{} uses {name}", path.display());
        }
    }
}

#[test]
fn queues_between_stages_are_bounded() {
    /// The input of a program, which is bounded by its bytes.
    const BOUNDED_OTHERWISE: [&str; 1] = ["crates/agent/src/process/supervise.rs"];
    let Some(root) = workspace() else { return };
    for (path, code) in sources(&root) {
        let code = without_comments(&code);
        let is_unbounded = ["unbounded_channel", "std::sync::mpsc::channel(", "mpsc::channel()"]
            .iter()
            .any(|name| code.contains(name));
        let is_known = BOUNDED_OTHERWISE.iter().any(|it| path == root.join(it));
        assert_eq!(is_unbounded, is_known, "{}", path.display());
    }
}

#[test]
fn servers_and_wire_formats_contain_nothing_about_a_cli() {
    let Some(root) = workspace() else { return };
    for (path, code) in sources(&root) {
        let is_apart = ["wire", "rehearsal", "relay"]
            .iter()
            .any(|name| path.starts_with(root.join("crates").join(name)));
        let code = without_comments(&code);
        for name in ["claude", "Claude", "codex", "Codex", "gemini-cli", "GeminiCli"] {
            assert!(!is_apart || !code.contains(name), "{} contains {name}", path.display());
        }
    }
}

#[test]
fn programs_are_started_in_known_places_and_agents_by_the_launch_function_only() {
    /// Every file that starts a process, with what it starts.
    const STARTS: &[(&str, &str)] = &[
        (
            "crates/agent/src/process/guardian.rs",
            "the guardian, the keeper and the agent of a `Launch`",
        ),
        ("crates/agent/src/sandbox/confine.rs", "the agent, by the step that has confined itself"),
        (
            "crates/inspect/src/short_output.rs",
            "a question to a program, in a `ConfinedEnvironment`",
        ),
        (
            "crates/inspect/src/record/residency.rs",
            "a question to Codex, in a `ConfinedEnvironment`",
        ),
        ("crates/changes/src/git.rs", "git"),
        ("crates/chat/src/console.rs", "the user's editor"),
        ("crates/cli/src/terminal/pager.rs", "the user's pager"),
        ("crates/cli/src/conversation/origin.rs", "git"),
        ("crates/cli/src/commands/serve/opening.rs", "the user's browser"),
    ];
    /// The callers of the functions that prepare a confined start.
    const CALLERS: &[(&str, &[&str])] = &[
        (
            "launch::confined(",
            &["crates/agent/src/adapter/mod.rs", "crates/agent/src/adapter/trial.rs"],
        ),
        ("launch::observed(", &["crates/inspect/src/capture/child.rs"]),
    ];
    let Some(root) = workspace() else { return };
    let mut starting = Vec::new();
    let mut creating = Vec::new();
    let mut calling: Vec<(&str, String)> = Vec::new();
    for (path, code) in sources(&root) {
        let path = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
        if !path.starts_with("crates/") || !path.contains("/src/") || path.ends_with("/tests.rs") {
            continue;
        }
        let code = without_comments(&code);
        let code = code.split("\nmod tests {").next().unwrap_or_default();
        if code.contains("Command::new(") {
            starting.push(path.clone());
        }
        if code.contains("= Launch {") || code.contains("(Launch {") {
            creating.push(path.clone());
        }
        for (call, _) in CALLERS.iter().filter(|(call, _)| code.contains(call)) {
            calling.push((call, path.clone()));
        }
    }
    starting.sort();
    let mut known: Vec<&str> = STARTS.iter().map(|(path, _)| *path).collect();
    known.sort_unstable();
    assert_eq!(
        starting, known,
        "an agent's program is started through `convoke_agent::launch` only"
    );
    assert_eq!(creating, ["crates/agent/src/launch.rs"], "only there is a `Launch` created");
    for (call, callers) in CALLERS {
        let mut found: Vec<&str> = calling
            .iter()
            .filter(|(name, _)| name == call)
            .map(|(_, path)| path.as_str())
            .collect();
        found.sort_unstable();
        assert_eq!(found, *callers, "{call}");
    }
}

#[test]
fn flags_and_event_formats_are_in_the_agent_crate_only() {
    let Some(root) = workspace() else { return };
    let agent = root.join("crates/agent");
    let sources = sources(&root);
    let (in_agent, elsewhere): (Vec<_>, Vec<_>) =
        sources.iter().partition(|(path, _)| path.starts_with(&agent));
    let in_agent: String = in_agent.iter().map(|(_, code)| code.as_str()).collect();
    let flags = flags(&in_agent);
    assert!(flags.len() >= 20, "the agent crate has {} flags", flags.len());
    for event in CLI_EVENTS {
        assert!(in_agent.contains(event), "the agent crate reads no `{event}`");
    }
    for (path, code) in elsewhere {
        for event in CLI_EVENTS.map(|event| format!("\"{event}\"")) {
            assert!(!code.contains(&event), "{} contains {event}", path.display());
        }
        for flag in self::flags(code).intersection(&flags) {
            let is_known = FLAGS_ELSEWHERE
                .iter()
                .any(|(folder, known)| path.starts_with(root.join(folder)) && known.contains(flag));
            assert!(is_known, "{} contains {flag}", path.display());
        }
    }
}

/// Returns the string literals of a code that are flags.
fn flags(code: &str) -> HashSet<&str> {
    let literals = code.split('"').map(|literal| literal.trim_end_matches('='));
    let is_flag = |literal: &&str| {
        let name = literal.strip_prefix("--").unwrap_or_default();
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    };
    literals.filter(is_flag).collect()
}

#[test]
fn core_depends_on_no_other_crate_of_the_workspace() {
    let Some(root) = workspace() else { return };
    let manifest = std::fs::read_to_string(root.join("crates/core/Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let dependencies: Vec<_> = manifest["dependencies"].as_table().unwrap().keys().collect();
    assert_eq!(dependencies.len(), 6, "{dependencies:?}");
    let of_ours = dependencies.iter().find(|name| name.starts_with("convoke"));
    assert_eq!(of_ours, None);
}

fn page(root: &Path) -> String {
    std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap()
}

/// Returns the functions that a text names, each with its file.
fn named(text: &str) -> Vec<(&str, &str)> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter_map(|text| text.split_once(".rs: ")).collect()
}

/// Returns the code of a file and where in it a function is defined.
fn definition(root: &Path, file: &str, function: &str) -> (String, usize) {
    let file = root.join(format!("{file}.rs"));
    let code = std::fs::read_to_string(&file);
    let code = code.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut places = ["(", "<"].iter().map(|next| code.find(&format!("fn {function}{next}")));
    let Some(at) = places.find_map(|at| at) else {
        panic!("{} has no function `{function}`", file.display());
    };
    (code, at)
}

/// Returns the modules of all crates without their tests.
fn sources(root: &Path) -> Vec<(PathBuf, String)> {
    let mut sources = Vec::new();
    let mut open: Vec<PathBuf> = std::fs::read_dir(root.join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().path().join("src"))
        .filter(|source| source.is_dir())
        .collect();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_test = name == "tests" || name.ends_with("tests.rs");
            if path.is_dir() && !is_test {
                open.push(path);
            } else if name.ends_with(".rs") && !is_test {
                let code = std::fs::read_to_string(&path).unwrap();
                let code = code.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
                sources.push((path, code));
            }
        }
    }
    assert!(sources.len() > 400, "{} modules", sources.len());
    sources
}

fn without_comments(code: &str) -> String {
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}
