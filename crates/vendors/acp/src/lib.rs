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

/// The agents, by name.
static PRESETS: [Preset; 2] = [
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
