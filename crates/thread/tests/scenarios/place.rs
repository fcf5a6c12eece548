//! Where the scenarios and the packs are.

use std::path::{Path, PathBuf};

/// Returns the folders of scenarios and of packs, unless neither is named.
pub(crate) fn folders() -> Option<(PathBuf, PathBuf)> {
    let variable = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty());
    let shared = variable("CONVOKE_SHARED").map(PathBuf::from);
    let scenarios = match (variable("CONVOKE_SCENARIOS"), &shared) {
        (Some(given), _) => PathBuf::from(given),
        (None, Some(shared)) => shared.join("scenarios"),
        (None, None) => return None,
    };
    // Tests run in the crate's folder; a relative path is meant from the workspace.
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let placed = |path: PathBuf| {
        if path.exists() { path } else { workspace.join(path) }
    };
    let scenarios = placed(scenarios);
    let packs = match shared {
        Some(shared) => placed(shared).join("packs"),
        None => scenarios.join("../packs"),
    };
    Some((scenarios, packs))
}

/// Returns the folders of the scenarios, in order.
pub(crate) fn scenario_folders(scenarios: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(scenarios).unwrap_or_else(|error| {
        println!("cannot read {}: {error}", scenarios.display());
        std::process::exit(1);
    });
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut folders: Vec<_> = paths.filter(|it| it.join("scenario.json").is_file()).collect();
    folders.sort();
    folders
}
