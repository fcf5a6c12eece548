//! Locates the scenarios and the packs.

use std::path::PathBuf;

/// Returns the directories of the scenarios, in order, and the directory of the packs; `None` if there are no
/// captures.
pub(crate) fn scenarios() -> Option<(Vec<PathBuf>, PathBuf)> {
    let folders =
        convoke_conformance::recorded("CONVOKE_SCENARIOS", &["scenarios", "new/scenarios"]);
    let first = folders.first()?;
    let packs = match convoke_conformance::shared() {
        Some(shared) => shared.join("packs"),
        None => first.join("../packs"),
    };
    Some((convoke_conformance::folders_with(&folders, "scenario.json"), packs))
}
