//! The statements of `ARCHITECTURE.md` about the code of the workspace. Each check is a function of the code, and is
//! also run on planted code that it must refuse.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod code;
mod dependencies;
mod joins;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use toml::Value;

use crate::code::{Code, sources};

/// Events in the output of CLIs.
const CLI_EVENTS: [&str; 2] = ["turn.completed", "thread.started"];

/// The crates beside the vendors' own: what is asked of a vendor, the list of all, and tests.
const NO_VENDORS: [&str; 3] =
    ["crates/vendors/registry", "crates/vendors/suite", "crates/vendors/vendor"];

/// Flags of CLIs outside of the vendors' crates: a folder, and the flags that its code reads or that every program has.
const FLAGS_ELSEWHERE: [(&str, &[&str]); 2] = [
    // The user's own arguments, which `request` passes on.
    (
        "crates/front/cli/src/commands/request",
        &[
            "--add-dir",
            "--dangerously-bypass-approvals-and-sandbox",
            "--full-auto",
            "--image",
            "--model",
            "--output-schema",
            "--profile",
            "--sandbox",
            "--tools",
        ],
    ),
    ("crates/lab/inspect", &["--version"]),
];

/// The files that start a process, with what they start.
const STARTS: [(&str, &str); 6] = [
    ("crates/runtime/agent/src/launch/own.rs", "the program that a person watches"),
    (
        "crates/runtime/agent/src/process/guardian.rs",
        "the guardian, the keeper and the agent of a `Launch`",
    ),
    (
        "crates/runtime/changes/src/git.rs",
        "git, which runs nothing of a repository's configuration",
    ),
    ("crates/front/chat/src/console.rs", "the user's editor"),
    ("crates/front/cli/src/terminal/pager.rs", "the user's pager"),
    ("crates/front/cli/src/commands/serve/opening.rs", "the user's browser"),
];

/// The callers of the functions that prepare or make a start.
const STARTERS: [(&str, &[&str]); 4] = [
    ("launch::confined", &["crates/runtime/agent/src/adapter/mod.rs"]),
    ("launch::observed", &["crates/lab/inspect/src/capture/child.rs"]),
    ("launch::ask", &["crates/lab/inspect/src/question.rs"]),
    // Without a sandbox, so that it has one caller: `watch`.
    ("launch::own", &["crates/lab/inspect/src/record/watching.rs"]),
];

/// The queues without a bound on their length: the input of a program is bounded by its bytes.
const BOUNDED_OTHERWISE: [&str; 1] = ["crates/runtime/agent/src/process/running.rs"];

/// Returns the folders of all crates: each is in the folder of its role.
fn crates(root: &Path) -> Vec<String> {
    let folders = |below: &str| -> Vec<String> {
        let entries = std::fs::read_dir(root.join(below)).unwrap();
        let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
        let paths = names.map(|name| format!("{below}/{name}"));
        paths.filter(|path| root.join(path).is_dir()).collect()
    };
    let all = folders("crates").into_iter().flat_map(|role| folders(&role));
    let mut all: Vec<String> =
        all.filter(|folder| root.join(folder).join("Cargo.toml").exists()).collect();
    all.sort();
    all
}

/// Returns the root of the workspace.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn every_function_that_is_named_exists() {
    let root = workspace();
    let mut texts = maps(&root);
    texts.push(page(&root));
    let named: Vec<(&str, &str)> = texts.iter().flat_map(|text| named(text)).collect();
    assert!(named.len() >= 50, "{} functions are named", named.len());
    for (file, function) in named {
        definition(&root, file, function);
    }
}

#[test]
fn every_invariant_names_its_test() {
    let root = workspace();
    let page = page(&root);
    let maps = maps(&root);
    let of_crates = maps.iter().filter_map(|map| map.split_once("# Invariants "));
    let of_crates = of_crates.flat_map(|(_, list)| list.split(" - ").skip(1));
    let (_, list) = page.split_once("## Invariants\n").expect("a list of invariants");
    let list = list.split("\n## ").next().unwrap_or_default();
    let of_the_whole = list.split("\n\n").nth(1).unwrap_or_default();
    let of_the_whole = of_the_whole.split_inclusive("`).\n").filter(|it| !it.trim().is_empty());
    let mut invariants = 0;
    for invariant in of_crates.chain(of_the_whole) {
        let tests = named(invariant);
        assert!(!tests.is_empty(), "no test is named for: {invariant}");
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
    assert!(invariants >= 30, "{invariants} invariants");
}

#[test]
fn the_page_names_every_crate_but_the_vendors_own() {
    let root = workspace();
    let page = page(&root);
    for folder in crates(&root) {
        let (_, path) = folder.split_once('/').unwrap();
        let (role, name) = path.split_once('/').unwrap();
        let is_vendor = role == "vendors" && !NO_VENDORS.contains(&&*folder);
        let row = page.lines().find(|line| line.starts_with(&format!("| `{role}`")));
        let row = row.unwrap_or_else(|| panic!("`{role}` is not on the page"));
        assert!(is_vendor || row.contains(&format!("`{name}`")), "{folder} is not on the page");
        assert!(root.join("crates").join(role).join("README.md").exists(), "{role} has no README");
    }
}

#[test]
fn the_documentation_of_a_crate_names_its_modules() {
    let root = workspace();
    for (folder, documentation, modules) in documented_modules(&root) {
        let missing = unnamed(&documentation, &modules);
        assert_eq!(missing, [""; 0], "{folder}: its documentation does not name them");
        let source = root.join(&folder).join("src");
        let is_there =
            |name: &str| source.join(name).exists() || source.join(format!("{name}.rs")).exists();
        let gone: Vec<&str> =
            listed(&documentation).into_iter().filter(|name| !is_there(name)).collect();
        assert_eq!(gone, [""; 0], "{folder}: its documentation lists them as modules");
    }
    let planted = ["known".to_owned(), "unknown".to_owned()];
    assert_eq!(unnamed("The module `known` is.", &planted), ["unknown"]);
    let planted = "A crate. # Modules - `a` is `b`. - `c`, `d` and `e` are. # Invariants - `f` is.";
    assert_eq!(listed(planted), ["a", "c", "d", "e"]);
}

/// Returns the names with which the items of the list of modules begin.
fn listed(documentation: &str) -> Vec<&str> {
    let (_, list) = documentation.split_once("# Modules ").unwrap_or_default();
    let list = list.split(" # ").next().unwrap_or_default();
    let mut names = Vec::new();
    for item in list.trim_start_matches("- ").split(" - ") {
        let mut rest = item;
        while let Some((name, after)) = rest.strip_prefix('`').and_then(|it| it.split_once('`')) {
            names.push(name);
            rest = [", ", " and "].iter().find_map(|it| after.strip_prefix(it)).unwrap_or("");
        }
    }
    names
}

/// Returns the folders of crates with more than a few modules, with the documentation and the modules of each.
fn documented_modules(root: &Path) -> Vec<(String, String, Vec<String>)> {
    const FEW: usize = 4;
    let is_common = |name: &String| {
        ["lib", "main", "tests", "testing", "fixture", "diagnostics", "snapshots"]
            .contains(&&**name)
    };
    let mut found = Vec::new();
    for folder in crates(root) {
        let Ok(modules) = std::fs::read_dir(root.join(&folder).join("src")) else { continue };
        let names = modules.map(|it| it.unwrap().path());
        let names = names.map(|it| it.file_stem().unwrap().to_str().unwrap().to_owned());
        let mut names: Vec<String> = names.filter(|name| !is_common(name)).collect();
        names.sort();
        names.dedup();
        if names.len() > FEW {
            let documentation = documentation(&root.join(&folder));
            found.push((folder, documentation, names));
        }
    }
    found
}

/// Returns the modules that a text does not name.
fn unnamed<'m>(documentation: &str, modules: &'m [String]) -> Vec<&'m str> {
    let code = documentation.split('`').skip(1).step_by(2);
    let named: HashSet<&str> = code.flat_map(|it| it.split(|c| !is_word(c))).collect();
    modules.iter().map(|name| &**name).filter(|name| !named.contains(name)).collect()
}

/// Returns the documentation of a crate, on one line.
fn documentation(folder: &Path) -> String {
    let files = ["lib.rs", "main.rs"].map(|name| folder.join("src").join(name));
    let code = files.iter().find_map(|file| std::fs::read_to_string(file).ok());
    let code = code.unwrap_or_default();
    let lines = code.lines().map_while(|line| line.strip_prefix("//!"));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// Returns the documentation of all crates.
fn maps(root: &Path) -> Vec<String> {
    crates(root).iter().map(|folder| documentation(&root.join(folder))).collect()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[test]
fn every_module_says_what_it_is() {
    let undocumented = |code: &Code| !code.starts_with_documentation;
    let found: Vec<String> =
        sources().iter().filter(|it| undocumented(it)).map(|it| it.path.clone()).collect();
    assert_eq!(found, [""; 0], "they have no documentation");
}

#[test]
fn pure_crates_use_no_file_clock_environment_or_network() {
    let found: Vec<String> = sources().iter().flat_map(impurities).collect();
    assert_eq!(found, [""; 0]);
    for planted in [
        "use std::fs;",
        "use std::{collections::HashMap, env};",
        "use std::net::TcpStream as Connection;",
        "fn f() { std::process::exit(1) }",
        "#[cfg(test)]\nmod tests;\nfn f() { tokio::spawn(g()); }",
        "use std::time::Instant as Clock; fn f() { Clock::now(); }",
        "use std::time::*; fn f() -> SystemTime { g() }",
        "fn f() { jiff::Timestamp::now(); }",
    ] {
        let code = Code::parse("crates/engine/core/src/planted.rs", planted);
        assert!(!impurities(&code).is_empty(), "{planted}");
        let code = Code::parse("crates/conversation/session/src/planted.rs", planted);
        assert!(impurities(&code).is_empty(), "{planted}");
    }
    let tests = "#[cfg(test)]\nmod tests { use std::fs; }";
    assert!(impurities(&Code::parse("crates/engine/core/src/planted.rs", tests)).is_empty());
}

/// Returns what a module of a pure crate uses of the outside.
fn impurities(code: &Code) -> Vec<String> {
    const MODULES: [&str; 5] = ["std::fs", "std::env", "std::net", "std::process", "tokio"];
    const NAMES: [&str; 4] = ["SystemTime", "Instant::now", "Timestamp::now", "Zoned::now"];
    let pure = [
        "crates/engine/codex",
        "crates/engine/core",
        "crates/engine/redact",
        "crates/engine/team",
        "crates/engine/thread",
        "crates/engine/wire",
        "crates/lab/explain",
    ];
    let is_pure = code.is_below(&pure);
    // What a vendor's program loads is found through `Files` only.
    let is_loading = code.is_below(&["crates/vendors"]) && code.path.contains("/src/loading/");
    if !is_pure && !is_loading {
        return Vec::new();
    }
    let is_impure = |path: &str| {
        let names: Vec<&str> = path.split("::").collect();
        let contains = |part: &str| {
            let part: Vec<&str> = part.split("::").collect();
            names.windows(part.len()).any(|it| it == part)
        };
        let is_below = |module: &&str| {
            path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        MODULES.iter().any(is_below) || NAMES.iter().any(|name| contains(name))
    };
    let paths = code.paths.iter().filter(|it| is_impure(&it.path));
    paths.map(|it| format!("{}:{} uses {}", code.path, it.line, it.path)).collect()
}

#[test]
fn queues_between_stages_are_bounded() {
    let is_known = |code: &Code| BOUNDED_OTHERWISE.contains(&&*code.path);
    let (known, others): (Vec<&Code>, Vec<&Code>) = sources().iter().partition(|it| is_known(it));
    let found: Vec<String> = others.into_iter().flat_map(unbounded_queues).collect();
    assert_eq!(found, [""; 0]);
    for code in known {
        assert!(!unbounded_queues(code).is_empty(), "{} has no such queue now", code.path);
    }
    for planted in [
        "fn f() { std::sync::mpsc::channel::<u8>(); }",
        "use std::sync::mpsc; fn f() { mpsc::channel(); }",
        "use std::sync::mpsc::{Receiver, Sender, channel}; fn f() { let (a, b) = channel(); }",
        "use std::sync::mpsc::channel as queue; fn f() { queue(); }",
        "use std::sync::mpsc::*; fn f() { channel(); }",
        "use tokio::sync::mpsc; fn f() { mpsc::unbounded_channel(); }",
        "use tokio::sync::mpsc::unbounded_channel as queue; fn f() { queue(); }",
        "#[cfg(test)]\nuse std::fs;\nuse std::sync::mpsc; fn f() { mpsc::channel(); }",
    ] {
        let code = Code::parse("crates/runtime/agent/src/planted.rs", planted);
        assert!(!unbounded_queues(&code).is_empty(), "{planted}");
    }
    for bounded in [
        "use tokio::sync::mpsc::channel; fn f() { channel(8); }",
        "use std::sync::mpsc; fn f() { mpsc::sync_channel(8); }",
        "use tokio::sync::oneshot; fn f() { oneshot::channel(); }",
    ] {
        let code = Code::parse("crates/runtime/agent/src/planted.rs", bounded);
        assert!(unbounded_queues(&code).is_empty(), "{bounded}");
    }
}

/// Returns the queues of a module that have no bound.
fn unbounded_queues(code: &Code) -> Vec<String> {
    let is_unbounded = |path: &str| {
        path == "std::sync::mpsc::channel"
            || path.rsplit("::").next().is_some_and(|name| name == "unbounded_channel")
            || path.ends_with("::unbounded")
    };
    let paths = code.paths.iter().filter(|it| is_unbounded(&it.path));
    paths.map(|it| format!("{}:{} makes a queue by {}", code.path, it.line, it.path)).collect()
}

#[test]
fn servers_and_wire_formats_contain_nothing_about_a_cli() {
    let found: Vec<String> = sources().iter().flat_map(names_of_clis).collect();
    assert_eq!(found, [""; 0]);
    let planted = "#[cfg(test)]\nmod tests;\nfn f() -> &'static str { \"codex\" }";
    assert!(
        !names_of_clis(&Code::parse("crates/runtime/relay/src/planted.rs", planted)).is_empty()
    );
    assert!(names_of_clis(&Code::parse("crates/runtime/agent/src/planted.rs", planted)).is_empty());
}

/// Returns the CLIs that a module names which must know none.
fn names_of_clis(code: &Code) -> Vec<String> {
    if !code.is_below(&["crates/engine/wire", "crates/runtime/rehearsal", "crates/runtime/relay"]) {
        return Vec::new();
    }
    let names = ["claude", "Claude", "codex", "Codex", "gemini-cli", "GeminiCli"];
    let named = names.iter().filter(|name| code.text.contains(**name));
    named.map(|name| format!("{} contains {name}", code.path)).collect()
}

#[test]
fn programs_are_started_in_known_places_and_agents_by_the_launch_function_only() {
    let in_sources = |check: fn(&Code) -> bool| -> Vec<&str> {
        let found = sources().iter().filter(|code| check(code));
        let mut found: Vec<&str> = found.map(|code| &*code.path).collect();
        found.sort_unstable();
        found
    };
    let mut known: Vec<&str> = STARTS.iter().map(|(path, _)| *path).collect();
    known.sort_unstable();
    assert_eq!(in_sources(starts_a_process), known, "agents start through `convoke_agent::launch`");
    assert_eq!(in_sources(creates_a_launch), ["crates/runtime/agent/src/launch.rs"]);
    for (function, callers) in STARTERS {
        let calls = |code: &&Code| code.paths.iter().any(|it| it.path.ends_with(function));
        let mut found: Vec<&str> = sources().iter().filter(calls).map(|it| &*it.path).collect();
        found.sort_unstable();
        assert_eq!(found, callers, "{function}");
    }
    let second = "use convoke_agent::launch; fn f() { launch::own(program); }";
    for planted in [second, "use convoke_agent::launch::own; fn f() { own(program); }"] {
        let code = Code::parse("crates/front/cli/src/planted.rs", planted);
        assert!(code.paths.iter().any(|it| it.path.ends_with("launch::own")), "{planted}");
    }
    for planted in [
        "fn f() { std::process::Command::new(\"claude\"); }",
        "use tokio::process::Command; fn f() { Command::new(\"claude\"); }",
        "use std::process::Command as Program; fn f() { Program::new(\"claude\"); }",
        "use std::process::*; fn f() { Command::new(\"claude\"); }",
    ] {
        assert!(
            starts_a_process(&Code::parse("crates/front/cli/src/planted.rs", planted)),
            "{planted}"
        );
    }
    for planted in
        ["fn f() { g(Launch { program }) }", "fn f() { let l = process::Launch{ program }; }"]
    {
        assert!(
            creates_a_launch(&Code::parse("crates/front/cli/src/planted.rs", planted)),
            "{planted}"
        );
    }
    let definition = "pub struct Launch { a: u8 }\nfn f() -> Launch { g() }\nimpl Launch { }";
    assert!(!creates_a_launch(&Code::parse("crates/front/cli/src/planted.rs", definition)));
}

fn starts_a_process(code: &Code) -> bool {
    code.paths.iter().any(|it| it.path.ends_with("process::Command::new"))
}

/// Returns whether a module writes a value of `Launch`: the name before a brace, and neither a definition nor a result.
fn creates_a_launch(code: &Code) -> bool {
    code.text.match_indices("Launch").any(|(at, name)| {
        let before = code.text[..at].trim_end().trim_end_matches("process::").trim_end();
        let is_value = ["struct", "impl", "for", "->"].iter().all(|word| !before.ends_with(word));
        let is_word = !code.text[..at].ends_with(is_word);
        is_word && is_value && code.text[at + name.len()..].trim_start().starts_with('{')
    })
}

#[test]
fn flags_and_event_formats_are_in_the_vendors_crates_only() {
    let is_vendors =
        |code: &&Code| code.is_below(&["crates/vendors"]) && !code.is_below(&NO_VENDORS);
    let (of_vendors, elsewhere): (Vec<_>, Vec<_>) = sources().iter().partition(is_vendors);
    let of_vendors: String = of_vendors.iter().map(|code| code.text.as_str()).collect();
    let flags = flags(&of_vendors);
    assert!(flags.len() >= 20, "the vendors' crates have {} flags", flags.len());
    for event in CLI_EVENTS {
        assert!(of_vendors.contains(event), "the vendors' crates read no `{event}`");
    }
    let found: Vec<String> =
        elsewhere.into_iter().flat_map(|code| formats_of_clis(code, &flags)).collect();
    assert_eq!(found, [""; 0]);
    for planted in
        ["fn f() { g(\"--permission-prompt-tool\") }", "fn f() { g(\"turn.completed\") }"]
    {
        let planted = format!("#[cfg(test)]\nmod tests;\n{planted}");
        for folder in ["conversation/session", "runtime/agent"] {
            let code = Code::parse(&format!("crates/{folder}/src/planted.rs"), &planted);
            assert!(!formats_of_clis(&code, &flags).is_empty(), "{planted}");
        }
    }
}

#[test]
fn nothing_but_the_registry_names_a_vendors_crate() {
    let root = workspace();
    let mut found = Vec::new();
    for folder in crates(&root) {
        let manifest = std::fs::read_to_string(root.join(&folder).join("Cargo.toml")).unwrap();
        found.extend(vendors_named_by(&manifest).into_iter().map(|name| (folder.clone(), name)));
    }
    let (by_registry, others): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(folder, _)| folder == "crates/vendors/registry");
    assert!(by_registry.len() >= 4, "{by_registry:?}");
    assert_eq!(others, [], "only the registry names a vendor");
    for planted in [
        "[dependencies]\nconvoke-vendor-claude.workspace = true\n",
        "[target.'cfg(unix)'.dependencies]\nx = { package = \"convoke-vendor-claude\", path = \"\" }\n",
    ] {
        assert_eq!(vendors_named_by(planted), ["convoke-vendor-claude"], "{planted}");
    }
    let of_tests = "[dependencies]\nconvoke-vendor = \"1\"\n\
                    [dev-dependencies]\nconvoke-vendor-claude.workspace = true\n";
    assert_eq!(vendors_named_by(of_tests), [""; 0]);
}

/// Returns the vendors' crates that a manifest depends on, but for its tests.
fn vendors_named_by(manifest: &str) -> Vec<String> {
    let manifest: toml::Table = manifest.parse().unwrap();
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flatten();
    let tables = targets.filter_map(|(_, it)| it.get("dependencies"));
    let tables = manifest.get("dependencies").into_iter().chain(tables);
    let all = tables.filter_map(Value::as_table).flatten();
    let names = all.map(|(name, it)| match it.get("package").and_then(Value::as_str) {
        Some(package) => package.to_owned(),
        None => name.clone(),
    });
    names.filter(|name| name.starts_with("convoke-vendor-")).collect()
}

/// Returns the flags and events of CLIs that a module outside of the vendors' crates contains.
fn formats_of_clis(code: &Code, flags: &HashSet<&str>) -> Vec<String> {
    let events = CLI_EVENTS.iter().filter(|event| code.text.contains(&format!("\"{event}\"")));
    let is_known = |flag: &str| {
        let mut known = FLAGS_ELSEWHERE.iter().filter(|(folder, _)| code.is_below(&[folder]));
        known.any(|(_, flags)| flags.contains(&flag))
    };
    let own = self::flags(&code.text);
    let flags = own.intersection(flags).filter(|flag| !is_known(flag));
    events.chain(flags).map(|it| format!("{} contains {it}", code.path)).collect()
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
    let root = workspace();
    let manifest = std::fs::read_to_string(root.join("crates/engine/core/Cargo.toml")).unwrap();
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
