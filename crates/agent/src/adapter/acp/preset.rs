//! The ACP agents known by name, as measured.

use crate::turn_input::Permissions;
use crate::vendor::Vendor;

/// An ACP agent known by name.
#[derive(Debug, PartialEq, Eq)]
pub struct Preset {
    /// The name of the agent.
    pub name: &'static str,
    /// Its program.
    pub command: &'static str,
    /// The arguments that make the program speak ACP.
    pub args: &'static [&'static str],
    /// The npm package that installs the program.
    pub package: &'static str,
    /// The instructions for signing in.
    pub sign_in: &'static str,
    /// The CLI that the program runs, whose directory and sign-in it uses.
    pub vendor: Option<Vendor>,
    /// The directories in the user's home that the program reads. Only its state in them can be changed.
    pub(crate) directory: &'static [&'static str],
    /// Files in those directories that the program creates and cannot start without, with their content.
    /// Convoke creates them before the turn.
    pub(crate) files: &'static [(&'static str, &'static str)],
    /// The directories in the user's home that the program writes.
    pub(crate) state: &'static [&'static str],
    /// The user's variables that the program signs in with; `*` at the start or end matches any characters.
    pub(crate) variables: &'static [&'static str],
    /// The variables that the program is started with.
    pub env: &'static [(&'static str, &'static str)],
    /// The settings that point the program to a model server, in addition to those of its CLI.
    pub(crate) endpoint: Option<&'static PresetEndpoint>,
    /// The option that names a file of MCP servers, for a program that ignores those of a session.
    pub(crate) servers_option: Option<&'static str>,
    /// The option for the port between the program's own processes.
    pub(crate) port_option: Option<&'static str>,
    /// The files and directories of a project that the program applies and that cannot be withheld.
    pub(crate) followed: &'static [&'static str],
    /// The variable that names a file of default settings, and the settings without which the program's tools
    /// fail in the sandbox.
    pub(crate) confined_defaults: Option<(&'static str, &'static str)>,
    /// Whether the program acts on commands and files named in the last block of a prompt.
    pub(crate) scans_last_block: bool,
    /// Whether the program reports failures as text.
    pub(crate) reports_errors_as_text: bool,
}

/// The settings that point a program to a model server: variables, and files in its home. `{base}` is the address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PresetEndpoint {
    pub variables: &'static [(&'static str, &'static str)],
    pub files: &'static [(&'static str, &'static str)],
}

const BASE: Preset = Preset {
    name: "",
    command: "",
    args: &["acp"],
    package: "",
    sign_in: "",
    vendor: None,
    directory: &[],
    files: &[],
    state: &[],
    variables: &[],
    env: &[],
    endpoint: None,
    servers_option: None,
    port_option: None,
    followed: &[],
    confined_defaults: None,
    scans_last_block: false,
    reports_errors_as_text: false,
};

/// The variables of model keys, for programs that can use any model.
const ANY_MODEL: &[&str] = &["*_API_KEY"];

/// Every preset, by name.
pub static PRESETS: [Preset; 8] = [
    Preset {
        name: "claude-acp",
        command: "claude-agent-acp",
        args: &[],
        package: "@agentclientprotocol/claude-agent-acp",
        sign_in: "Run `claude auth login`, or set ANTHROPIC_API_KEY.",
        vendor: Some(Vendor::Claude),
        env: &[
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
            ("DISABLE_TELEMETRY", "1"),
        ],
        scans_last_block: true,
        ..BASE
    },
    Preset {
        name: "codex-acp",
        command: "codex-acp",
        args: &[],
        package: "@agentclientprotocol/codex-acp",
        sign_in: "Run `codex login`, or set CODEX_API_KEY.",
        vendor: Some(Vendor::Codex),
        endpoint: Some(&CODEX),
        reports_errors_as_text: true,
        ..BASE
    },
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
        ..BASE
    },
    Preset {
        name: "gemini-acp",
        command: "gemini",
        args: &["--acp"],
        package: "@google/gemini-cli",
        sign_in: "Set GEMINI_API_KEY, or start `gemini` once and sign in.",
        vendor: Some(Vendor::Gemini),
        ..BASE
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
        ..BASE
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
        ..BASE
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
        ..BASE
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
        ..BASE
    },
];

/// The program signs in only with a file. Its configuration file points to the server, like that of its CLI.
const CODEX: PresetEndpoint = PresetEndpoint {
    variables: &[],
    files: &[(".codex/auth.json", r#"{ "auth_mode": "apikey", "OPENAI_API_KEY": "rehearsal" }"#)],
};

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

impl Preset {
    /// Finds a preset by its name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// Returns whether the program is an adapter that runs a vendor's CLI.
    pub fn is_adapter(&self) -> bool {
        self.vendor.is_some_and(|vendor| vendor.facts().command != self.command)
    }

    /// Returns the session mode for the permissions of a turn, if the program's default does not match.
    /// `is_confined` is whether the kernel enforces the permissions.
    pub(crate) fn mode(&self, permissions: Permissions, is_confined: bool) -> Option<&'static str> {
        match (self.name, permissions) {
            // The default asks nothing. The program's own sandbox does not start inside ours.
            ("codex-acp", Permissions::Ask) => Some("read-only"),
            ("codex-acp", _) if is_confined => Some("agent-full-access"),
            ("codex-acp", Permissions::ReadOnly) => Some("read-only"),
            ("codex-acp", Permissions::Edit | Permissions::EditAndNetwork) => {
                Some("workspace-write")
            }
            ("codex-acp", Permissions::Full) => Some("agent-full-access"),
            // By default, a model decides what is asked.
            ("qwen", _) => Some("default"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AgentKind;

    #[test]
    fn presets_are_sorted_and_no_kind_of_agent_has_their_names() {
        assert!(PRESETS.is_sorted_by_key(|preset| preset.name));
        let kinds = AgentKind::ALL.map(AgentKind::name);
        assert!(PRESETS.iter().all(|preset| !kinds.contains(&preset.name)));
    }
}
