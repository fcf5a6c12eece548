//! The built-in pack: prompt texts and model settings.
//!
//! The files of `convoke/` are compiled in, so that the binary needs no other files, and are loaded like
//! a pack on disk.

use std::path::Path;

use convoke_files::MemoryTree;
use convoke_thread::pack::{Pack, PackError};

macro_rules! files {
    ($($name:literal)+) => {
        &[$(($name, include_str!(concat!("../convoke/", $name))),)+]
    };
}

/// The files of the pack, by their paths in it.
pub const FILES: &[(&str, &str)] = files! {
    "child-agents.md"
    "collaboration/default.md"
    "collaboration/execute.md"
    "collaboration/pair_programming.md"
    "collaboration/plan.md"
    "compact/prompt.md"
    "compact/summary-prefix.md"
    "instructions/agent-template.md"
    "instructions/agent.md"
    "models.json"
    "pack.toml"
    "permissions/approval/never.md"
    "permissions/approval/on-failure.md"
    "permissions/approval/on-request-rule.md"
    "permissions/approval/on-request.md"
    "permissions/approval/unless-trusted.md"
    "permissions/approved-prefixes.md"
    "permissions/prefixes-truncated.md"
    "permissions/sandbox/danger-full-access.md"
    "permissions/sandbox/read-only.md"
    "permissions/sandbox/workspace-write.md"
    "personalities/friendly.md"
    "personalities/pragmatic.md"
    "skills/how-to-use.md"
    "skills/intro.md"
    "wrappers/model-switch.md"
    "wrappers/personality.md"
    "wrappers/turn-aborted.md"
};

/// The path of the built-in pack in errors; it is not on disk.
const PLACE: &str = "/built-in/convoke";

/// Reads the pack.
pub fn convoke() -> Result<Pack, PackError> {
    let place = Path::new(PLACE);
    let mut tree = MemoryTree::default();
    for (name, text) in FILES {
        tree.write(place.join(name), *text);
    }
    Pack::load(&tree, place)
}
