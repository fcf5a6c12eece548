//! The CLIs that `scripts/install-clis` installs for tests.

use std::path::{Path, PathBuf};

/// Returns the directory of all CLIs.
pub fn cache() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    std::env::var_os("CONVOKE_CLIS").map_or(root.join("target/clis"), |at| root.join(at))
}

/// Returns the directory of a CLI's programs; `None` skips a test of a CLI that is not installed.
pub fn programs(cli: &str) -> Option<PathBuf> {
    let cache = cache();
    let directory = cache.join(cli).join("node_modules/.bin");
    if directory.exists() {
        return Some(directory.canonicalize().unwrap());
    }
    let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(!is_ci, "{cli} is not in {}; run scripts/install-clis", cache.display());
    eprintln!("skipped: {cli} is not installed; run scripts/install-clis");
    None
}
