//! Properties of every tree, however odd.

use std::collections::HashSet;
use std::path::PathBuf;

use convoke_explain::{AgentReport, DirectoryReport, LoadReason, Rule, Session, explain};
use convoke_files::{EntryKind, Files, MemoryTree};
use proptest::prelude::*;

const NAMES: [&str; 12] = [
    "CLAUDE.md",
    "AGENTS.md",
    "GEMINI.md",
    "CLAUDE.local.md",
    "AGENTS.override.md",
    "claude.md",
    ".claude/CLAUDE.md",
    ".claude/rules/a.md",
    ".claude/rules/b.md",
    ".claude/settings.json",
    ".gemini/settings.json",
    "a.md",
];
const DIRECTORIES: [&str; 6] =
    ["/w", "/w/r", "/w/r/App", "/w/r/App/x", "/w/home", "/w/home/.claude"];
const CWD: &str = "/w/r/App/x";
const BUDGET: u64 = 200;

/// Pieces that mean something to one agent or another.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("@a.md".to_owned()),
        Just("@./CLAUDE.md".to_owned()),
        Just("@../a.md,".to_owned()),
        Just("(@a.md)".to_owned()),
        Just("@/w/r/GEMINI.md".to_owned()),
        Just("---\npaths: [src/**\n---\n".to_owned()),
        Just("---\n".to_owned()),
        Just("<!--".to_owned()),
        Just("-->".to_owned()),
        Just("```\n".to_owned()),
        Just("`".to_owned()),
        Just("{\"claudeMdExcludes\": [\"**/a.md\"]}".to_owned()),
        Just("{\"context\": {\"fileName\": \"AGENTS.md\"}}".to_owned()),
        Just("\\".to_owned()),
        Just("    ".to_owned()),
        Just("\n\n".to_owned()),
        Just("\u{feff}".to_owned()),
        "[a-z ]{0,40}",
        "\\PC{0,8}",
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.join(" "))
}

#[derive(Debug, Clone)]
enum Thing {
    Text(String),
    Bytes(Vec<u8>),
    Link(&'static str),
    Locked,
    Directory,
}

fn thing() -> impl Strategy<Value = Thing> {
    let targets = ["nowhere", "AGENTS.md", "../CLAUDE.md", ".", "/w/r", "/w/r/a.md", "/dev/zero"];
    prop_oneof![
        6 => text().prop_map(Thing::Text),
        1 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Thing::Bytes),
        2 => prop::sample::select(targets.to_vec()).prop_map(Thing::Link),
        1 => Just(Thing::Locked),
        1 => Just(Thing::Directory),
    ]
}

fn tree() -> impl Strategy<Value = MemoryTree> {
    let place =
        (prop::sample::select(DIRECTORIES.to_vec()), prop::sample::select(NAMES.to_vec()), thing());
    let git = prop::sample::subsequence(DIRECTORIES[..4].to_vec(), 0..=2);
    (prop::collection::vec(place, 0..16), git).prop_map(|(places, git)| {
        let mut tree = MemoryTree::default();
        tree.create_directory(CWD);
        tree.create_directory("/w/home");
        for directory in git {
            tree.write(format!("{directory}/.git/HEAD"), "x");
        }
        for (directory, name, thing) in places {
            let path = format!("{directory}/{name}");
            match thing {
                Thing::Text(text) => tree.write(path, text),
                Thing::Bytes(bytes) => tree.write(path, bytes),
                Thing::Link(target) => tree.link(path, target),
                Thing::Locked => {
                    tree.write(&path, "locked");
                    tree.lock(&path);
                }
                Thing::Directory => tree.create_directory(path),
            }
        }
        tree.write("/w/home/.codex/config.toml", format!("project_doc_max_bytes = {BUDGET}\n"));
        tree
    })
}

fn explained(tree: &MemoryTree) -> DirectoryReport {
    let mut session = Session::new(CWD, "/w/home");
    session.variables.insert("GEMINI_CLI_TRUST_WORKSPACE".into(), "true".into());
    session.reads = vec!["/w/r/App/x/src/f.ts".into()];
    explain(tree, &session, convoke_vendors::editions())
}

/// The directory of the chain that a file belongs to, by its length.
fn level(path: &std::path::Path) -> usize {
    let mut directories = path.ancestors().skip(1);
    let directory = directories.find(|directory| !directory.ends_with(".claude"));
    directory.map_or(0, |directory| directory.as_os_str().len())
}

fn project_files(agent: &AgentReport) -> Vec<PathBuf> {
    let project = agent.loaded.iter().filter(|file| file.why == LoadReason::Project);
    project.map(|file| file.path.clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_same_tree_is_always_explained_alike(tree in tree()) {
        let texts = [explained(&tree), explained(&tree)]
            .map(|report| serde_json::to_string(&report).unwrap());
        prop_assert_eq!(&texts[0], &texts[1]);
    }

    #[test]
    fn every_file_is_accounted_for_once_and_every_byte_counted(tree in tree()) {
        for agent in explained(&tree).agents {
            for file in &agent.loaded {
                prop_assert_eq!(file.bytes_loaded, file.text.len() as u64);
                prop_assert_eq!(tree.kind(&file.path).unwrap(), EntryKind::File);
                prop_assert!(!file.text.is_empty() || file.depth > 0, "{:?}", file.path);
            }
            let mut once = HashSet::new();
            for file in &agent.ignored {
                prop_assert!(once.insert(&file.path), "{:?} twice", file.path);
                let is_loaded = agent.loaded.iter().any(|loaded| loaded.path == file.path);
                prop_assert!(!is_loaded, "{:?} both", file.path);
            }
        }
    }

    #[test]
    fn the_budget_of_codex_holds(tree in tree()) {
        for agent in explained(&tree).agents.iter().filter(|agent| agent.agent == "codex") {
            let project = agent.loaded.iter().filter(|file| file.why != LoadReason::User);
            // A byte that is no UTF-8 becomes three, so only plain text can be counted.
            let plain = project.filter(|file| !file.text.contains('\u{fffd}'));
            let sum: u64 = plain.map(|file| file.bytes_loaded).sum();
            prop_assert!(sum <= BUDGET, "{sum}");
            let lost = agent.ignored.iter().any(|file| file.rule == Rule::OverBudget);
            let cut = agent.loaded.iter().any(|file| !file.whole);
            let is_told = agent.diagnostics.iter().any(|it| it.code.name() == "agents-md.truncated");
            prop_assert_eq!(lost || cut, is_told);
        }
    }

    #[test]
    fn the_order_is_fixed_whatever_is_present(tree in tree()) {
        for agent in explained(&tree).agents {
            let files = project_files(&agent);
            let levels = || files.iter().map(|path| level(path));
            match agent.agent {
                "gemini" => prop_assert!(files.is_sorted(), "{files:?}"),
                "opencode" => prop_assert!(levels().rev().is_sorted(), "{files:?}"),
                // The root and the working directory come before those between.
                "copilot" => {}
                _ => prop_assert!(levels().is_sorted(), "{files:?}"),
            }
        }
    }
}
