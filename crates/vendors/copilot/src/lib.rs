//! GitHub Copilot CLI.
//!
//! # Modules
//!
//! GitHub Copilot CLI, likewise: its program, and `loading`.

mod loading;
mod sessions;

use convoke_agent::adapter::{Preset, PresetEndpoint};
use convoke_explain::LoadingRules;
use convoke_source::SessionSource;
use convoke_vendor::Vendor;

/// GitHub Copilot CLI.
#[derive(Debug)]
pub struct Copilot;

impl Vendor for Copilot {
    fn loading_rules(&self) -> Option<&'static LoadingRules> {
        Some(&loading::RULES)
    }

    fn presets(&self) -> &'static [Preset] {
        &PRESETS
    }

    fn sessions(&self) -> Option<&'static dyn SessionSource> {
        Some(&sessions::CopilotSessions)
    }
}

static PRESETS: [Preset; 1] = [Preset {
    name: "copilot",
    command: "copilot",
    args: &["--acp", "--stdio"],
    package: "@github/copilot",
    sign_in: "Start `copilot` once and type `/login`, or set COPILOT_GITHUB_TOKEN.",
    // The program replaces files in its directory, and does not start if it cannot.
    state: &[".cache/Microsoft/DeveloperTools", ".cache/copilot", ".copilot"],
    variables: &["COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN"],
    env: &[("COPILOT_AUTO_UPDATE", "false")],
    endpoint: Some(&PresetEndpoint {
        variables: &[
            ("COPILOT_OFFLINE", "true"),
            ("COPILOT_PROVIDER_BASE_URL", "{base}/v1"),
            ("COPILOT_MODEL", "rehearsal"),
            ("COPILOT_PROVIDER_MAX_PROMPT_TOKENS", "1000000"),
        ],
        files: &[],
    }),
    servers_option: Some("--additional-mcp-config"),
    followed: &[
        ".github/copilot",
        ".github/hooks",
        ".github/mcp.json",
        ".mcp.json",
        ".vscode/mcp.json",
    ],
    reports_errors_as_text: true,
    ..Preset::BASE
}];
