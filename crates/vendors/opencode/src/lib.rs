//! opencode, and Kilo, which is made from it.
//!
//! # Modules
//!
//! opencode: its program, which speaks the Agent Client Protocol, and the rules by which it loads files (`loading`).

mod loading;
mod sessions;

use convoke_agent::adapter::{Preset, PresetEndpoint};
use convoke_explain::LoadingRules;
use convoke_source::SessionSource;
use convoke_vendor::Vendor;

/// opencode.
#[derive(Debug)]
pub struct Opencode;

impl Vendor for Opencode {
    fn loading_rules(&self) -> Option<&'static LoadingRules> {
        Some(&loading::RULES)
    }

    fn presets(&self) -> &'static [Preset] {
        &PRESETS
    }

    fn sessions(&self) -> Option<&'static dyn SessionSource> {
        Some(&sessions::OpencodeSessions)
    }
}

/// The files that they may install beside their configuration.
const INSTALLED: &str = "node_modules\npackage.json\npackage-lock.json\nbun.lock\n.gitignore\n";

/// The variables of model keys: they can use any model.
const ANY_MODEL: &[&str] = &["*_API_KEY"];

static PRESETS: [Preset; 2] = [OPENCODE, KILO];

const OPENCODE: Preset = Preset {
    name: "opencode",
    command: "opencode",
    package: "opencode-ai",
    sign_in: "Run `opencode auth login`.",
    directory: &[".config/opencode"],
    files: &[(".config/opencode/.gitignore", INSTALLED)],
    state: &[".cache/opencode", ".local/share/opencode", ".local/state/opencode"],
    variables: ANY_MODEL,
    env: &[("OPENCODE_DISABLE_AUTOUPDATE", "1"), ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1")],
    endpoint: Some(&PresetEndpoint {
        variables: &[("OPENCODE_DISABLE_MODELS_FETCH", "1")],
        files: &[(".config/opencode/opencode.json", SETTINGS)],
    }),
    port_option: Some("--port"),
    followed: &[".opencode", "opencode.json", "opencode.jsonc"],
    ..Preset::BASE
};

const KILO: Preset = Preset {
    name: "kilo",
    command: "kilo",
    package: "@kilocode/cli",
    sign_in: "Run `kilo auth login`.",
    directory: &[".config/kilo"],
    files: &[(".config/kilo/.gitignore", INSTALLED)],
    state: &[
        ".cache/kilo",
        ".local/share/kilo",
        ".local/state/kilo",
        ".local/state/kilo-sandbox-policy",
    ],
    variables: ANY_MODEL,
    env: &[("KILO_DISABLE_AUTOUPDATE", "1")],
    endpoint: Some(&PresetEndpoint {
        variables: &[("KILO_DISABLE_MODELS_FETCH", "1"), ("KILO_TELEMETRY_LEVEL", "off")],
        files: &[(".config/kilo/kilo.json", SETTINGS)],
    }),
    port_option: Some("--port"),
    followed: &[
        ".kilo",
        ".kilocode",
        ".opencode",
        "kilo.json",
        "kilo.jsonc",
        "opencode.json",
        "opencode.jsonc",
    ],
    ..Preset::BASE
};

const SETTINGS: &str = r#"{
  "model": "rehearsal/rehearsal",
  "small_model": "rehearsal/rehearsal",
  "autoupdate": false,
  "share": "disabled",
  "permission": { "bash": "ask", "edit": "ask", "webfetch": "ask" },
  "provider": {
    "rehearsal": {
      "npm": "@ai-sdk/openai-compatible",
      "options": { "baseURL": "{base}/v1", "apiKey": "rehearsal" },
      "models": { "rehearsal": { "tool_call": true, "limit": { "context": 1000000, "output": 32000 } } }
    }
  }
}
"#;
