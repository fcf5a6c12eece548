//! The agents of which Convoke knows no more than that they speak the Agent Client Protocol, as measured.

use convoke_agent::adapter::{Preset, PresetEndpoint};
use convoke_vendor::Vendor;

/// Their vendors.
#[derive(Debug)]
pub struct OtherAgents;

impl Vendor for OtherAgents {
    fn presets(&self) -> &'static [Preset] {
        &PRESETS
    }
}

/// The variables of model keys, for programs that can use any model.
const ANY_MODEL: &[&str] = &["*_API_KEY"];

/// The agents, by name.
static PRESETS: [Preset; 5] = [
    Preset {
        name: "copilot",
        command: "copilot",
        args: &["--acp", "--stdio"],
        package: "@github/copilot",
        sign_in: "Start `copilot` once and type `/login`, or set COPILOT_GITHUB_TOKEN.",
        // The program replaces files in its directory, and does not start if it cannot.
        state: &[".cache/Microsoft/DeveloperTools", ".cache/copilot", ".copilot"],
        variables: &["COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN"],
        env: &[("COPILOT_AUTO_UPDATE", "false")],
        endpoint: Some(&COPILOT),
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
    },
    Preset {
        name: "kilo",
        command: "kilo",
        package: "@kilocode/cli",
        sign_in: "Run `kilo auth login`.",
        directory: &[".config/kilo"],
        files: &[(".config/kilo/.gitignore", OPENCODE_IGNORED)],
        state: &[
            ".cache/kilo",
            ".local/share/kilo",
            ".local/state/kilo",
            ".local/state/kilo-sandbox-policy",
        ],
        variables: ANY_MODEL,
        env: &[("KILO_DISABLE_AUTOUPDATE", "1")],
        endpoint: Some(&KILO),
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
    },
    Preset {
        name: "kimi",
        command: "kimi",
        package: "@moonshot-ai/kimi-code",
        sign_in: "Run `kimi login`.",
        state: &[".kimi-code"],
        variables: &["KIMI_*", "MOONSHOT_*"],
        endpoint: Some(&KIMI),
        followed: &[".kimi", ".kimi-code", ".mcp.json"],
        ..Preset::BASE
    },
    Preset {
        name: "opencode",
        command: "opencode",
        package: "opencode-ai",
        sign_in: "Run `opencode auth login`.",
        directory: &[".config/opencode"],
        files: &[(".config/opencode/.gitignore", OPENCODE_IGNORED)],
        state: &[".cache/opencode", ".local/share/opencode", ".local/state/opencode"],
        variables: ANY_MODEL,
        endpoint: Some(&OPENCODE),
        port_option: Some("--port"),
        followed: &[".opencode", "opencode.json", "opencode.jsonc"],
        env: &[("OPENCODE_DISABLE_AUTOUPDATE", "1"), ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1")],
        ..Preset::BASE
    },
    Preset {
        name: "qwen",
        command: "qwen",
        args: &["--acp"],
        package: "@qwen-code/qwen-code",
        sign_in: "Set OPENAI_API_KEY, or start `qwen` once and type `/auth`.",
        state: &[".qwen"],
        variables: &["DASHSCOPE_*", "OPENAI_*", "QWEN_*"],
        endpoint: Some(&QWEN),
        followed: &[".qwen"],
        // The program runs commands in a terminal, which the sandbox does not allow it to open.
        confined_defaults: Some((
            "QWEN_CODE_SYSTEM_DEFAULTS_PATH",
            r#"{ "tools": { "shell": { "enableInteractiveShell": false } } }"#,
        )),
        // By default, a model decides what is asked.
        mode: |_, _| Some("default"),
        ..Preset::BASE
    },
];

const COPILOT: PresetEndpoint = PresetEndpoint {
    variables: &[
        ("COPILOT_OFFLINE", "true"),
        ("COPILOT_PROVIDER_BASE_URL", "{base}/v1"),
        ("COPILOT_MODEL", "rehearsal"),
        ("COPILOT_PROVIDER_MAX_PROMPT_TOKENS", "1000000"),
    ],
    files: &[],
};

const KILO: PresetEndpoint = PresetEndpoint {
    variables: &[("KILO_DISABLE_MODELS_FETCH", "1"), ("KILO_TELEMETRY_LEVEL", "off")],
    files: &[(".config/kilo/kilo.json", OPENCODE_JSON)],
};

const KIMI: PresetEndpoint = PresetEndpoint {
    variables: &[],
    files: &[(
        ".kimi-code/config.toml",
        "default_model = \"rehearsal\"\ntelemetry = false\n\
         [providers.rehearsal]\ntype = \"openai\"\nbase_url = \"{base}/v1\"\n\
         api_key = \"rehearsal\"\n\
         [models.rehearsal]\nprovider = \"rehearsal\"\nmodel = \"rehearsal\"\n\
         max_context_size = 1000000\n",
    )],
};

const OPENCODE: PresetEndpoint = PresetEndpoint {
    variables: &[("OPENCODE_DISABLE_MODELS_FETCH", "1")],
    files: &[(".config/opencode/opencode.json", OPENCODE_JSON)],
};

/// The files that opencode and its relatives may install beside their configuration.
const OPENCODE_IGNORED: &str =
    "node_modules\npackage.json\npackage-lock.json\nbun.lock\n.gitignore\n";

const OPENCODE_JSON: &str = r#"{
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

const QWEN: PresetEndpoint = PresetEndpoint {
    variables: &[
        ("OPENAI_API_KEY", "rehearsal"),
        ("OPENAI_BASE_URL", "{base}/v1"),
        ("OPENAI_MODEL", "rehearsal"),
    ],
    files: &[(
        ".qwen/settings.json",
        r#"{
  "security": { "auth": { "selectedType": "openai" } },
  "model": { "name": "rehearsal" },
  "privacy": { "usageStatisticsEnabled": false },
  "general": { "enableAutoUpdate": false }
}
"#,
    )],
};
