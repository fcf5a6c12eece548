//! The paths that no agent can read: the user's secrets, and the state of other agents.

use std::path::{Path, PathBuf};

use crate::vendor::Vendor;

/// Keys and tokens of the user, in the home directory.
const OF_USER: &[&str] = &[
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".password-store",
    ".oci",
    ".docker/config.json",
    ".git-credentials",
    ".netrc",
    ".pgpass",
    ".pypirc",
    ".vault-token",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/glab-cli",
    ".config/op",
    ".config/sops",
    ".gem/credentials",
    ".terraform.d/credentials.tfrc.json",
    ".local/share/keyrings",
    // Cookies and saved passwords.
    ".mozilla",
    ".config/chromium",
    ".config/google-chrome",
    ".config/BraveSoftware",
];

/// Directories of agents that Convoke does not start by their names.
const OF_OTHER_AGENTS: &[&str] = &[
    ".aider.conf.yml",
    ".codeium",
    ".config/github-copilot",
    ".config/goose",
    ".config/opencode",
    ".copilot",
    ".cursor",
    ".factory",
    ".grok",
    ".kimi",
    ".local/share/goose",
    ".local/share/opencode",
    ".qwen",
];

/// Files that containers are given to read once.
const OF_MACHINE: &[&str] = &["/run/secrets"];

/// Claude Code's settings and servers, which lie beside its directory.
pub(super) const CLAUDE_SETTINGS: &str = ".claude.json";

/// Returns the paths that an agent cannot read; `own` is the CLI that it runs.
pub(super) fn hidden(home: &Path, own: Option<Vendor>) -> Vec<PathBuf> {
    let in_home = OF_USER.iter().chain(OF_OTHER_AGENTS);
    let others = Vendor::ALL.into_iter().filter(|vendor| Some(*vendor) != own);
    let of_vendors = others.flat_map(|vendor| {
        let beside = (vendor == Vendor::Claude).then_some(CLAUDE_SETTINGS);
        beside.into_iter().chain([vendor.facts().directory])
    });
    let in_home = in_home.copied().chain(of_vendors).map(|name| home.join(name));
    in_home.chain(OF_MACHINE.iter().map(PathBuf::from)).collect()
}
