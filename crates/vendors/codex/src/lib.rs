//! Codex.
//!
//! # Modules
//!
//! Codex, with the same modules: `call`, `arguments`, `question` (`single` for versions that keep one question), `stream`, `provider`, `endpoint`,
//! `relay`, `residency` (whether its account is bound to a region), `thread` (the state of a thread that a turn continues), `loading` and `measured`.
//! `sessions` reads the sessions that it has stored.

mod arguments;
mod call;
mod endpoint;
mod loading;
mod measured;
mod provider;
pub mod question;
mod relay;
mod residency;
mod sessions;
mod single;
pub mod stream;
mod thread;

use std::ffi::OsString;
use std::path::Path;

use convoke_files::FileKind;
use convoke_files::limit::read_named_text;
use convoke_protocol::verdict::Failure;

use convoke_agent::adapter::{Context, Preset, PresetEndpoint, ProgramCall};
use convoke_agent::cli::{Cli, Facts, SettingVariables, SignIn, State, TurnProgram};
use convoke_agent::config::{Definition, Protocol};
use convoke_agent::turn::Continuity;
use convoke_agent::turn_input::Permissions;
use convoke_source::SessionSource;
use convoke_vendor::{MeasuredCli, Vendor};

/// Codex.
#[derive(Debug)]
pub struct Codex;

/// The directory of its databases, in its own directory.
const SQLITE_DIRECTORY: &str = "sqlite";

/// The provider that signs in with its cloud's variables.
const BEDROCK: &str = "amazon-bedrock";

static FACTS: Facts = Facts {
    command: "codex",
    other_names: &[],
    package: "@openai/codex",
    versions: &["0.98.0", "0.166.0"],
    directory: ".codex",
    directory_variable: Some("CODEX_HOME"),
    home_variable: None,
    beside: &[],
    configuration: &[
        "AGENTS.override.md",
        "AGENTS.md",
        "config.toml",
        "prompts",
        "rules",
        "skills",
        "models_cache.json",
    ],
    shared_configuration: &[".agents/skills"],
    state: State {
        directories: &[
            "archived_sessions",
            "log",
            "sessions",
            SQLITE_DIRECTORY,
            "thread-writer-locks",
        ],
        files: &[("auth.lock", ""), ("history.jsonl", ""), ("installation_id", "")],
        existing: &["auth.json", "models_cache.json", "version.json"],
    },
    followed: &[],
    hosts: &["api.openai.com", "chatgpt.com"],
    address_variable: "OPENAI_BASE_URL",
    own_user_agents: &[],
    settings: SettingVariables { prefixes: &[], names: &[], except: &[] },
    nested: &["CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED"],
    events: &["turn/started", "item/completed", "item/agentMessage/delta", "turn/completed"],
    model_option: "-m",
    // Its model is a setting, which it takes by any name.
    trial_model: None,
    has_protocols: true,
    tail: None,
    missing_is_empty: false,
    adapter_settings: false,
    adapter_cli: &["cli"],
    sign_in: SignIn {
        keys: &["CODEX_API_KEY"],
        variables: &["CODEX_*"],
        ignored_keys: &["OPENAI_API_KEY"],
        clouds: &[],
        credentials: &["auth.json"],
        status: Some(&["login", "status"]),
        how: "Run `codex login`, or set CODEX_API_KEY.",
    },
};

/// Its ACP adapter.
static PRESETS: [Preset; 1] = [Preset {
    name: "codex-acp",
    command: "codex-acp",
    args: &[],
    package: "@agentclientprotocol/codex-acp",
    sign_in: FACTS.sign_in.how,
    vendor: Some(&Codex),
    // It signs in only with a file. Its configuration file points to the server, like that of its CLI.
    endpoint: Some(&PresetEndpoint {
        variables: &[],
        files: &[(
            ".codex/auth.json",
            r#"{ "auth_mode": "apikey", "OPENAI_API_KEY": "rehearsal" }"#,
        )],
    }),
    mode: |permissions, is_confined| Some(adapter_mode(permissions, is_confined)),
    reports_errors_as_text: true,
    ..Preset::BASE
}];

/// Returns the session mode of its adapter. By default, that asks nothing, and its own sandbox does not start inside
/// ours.
fn adapter_mode(permissions: Permissions, is_confined: bool) -> &'static str {
    match permissions {
        Permissions::Ask => "read-only",
        _ if is_confined => "agent-full-access",
        Permissions::ReadOnly => "read-only",
        Permissions::Edit | Permissions::EditAndNetwork => "workspace-write",
        Permissions::Full => "agent-full-access",
    }
}

impl Vendor for Codex {
    fn cli(&self) -> Option<&'static dyn MeasuredCli> {
        Some(&Codex)
    }

    fn sessions(&self) -> Option<&'static dyn SessionSource> {
        Some(&sessions::CodexSessions)
    }

    fn presets(&self) -> &'static [Preset] {
        &PRESETS
    }
}

impl Cli for Codex {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn is_signed_in(&self, code: Option<i32>, said: &str) -> Option<bool> {
        match code {
            Some(0) => Some(true),
            Some(1) if said.lines().any(|line| line.trim() == "Not logged in") => Some(false),
            _ => None,
        }
    }

    fn key_variable(&self, directory: &Path) -> Option<String> {
        let config = read_named_text(&directory.join("config.toml"), FileKind::Configuration);
        provider::key_variable(&config.ok()?)
    }
}

impl TurnProgram for Codex {
    fn call(&self, context: &Context<'_>) -> Result<ProgramCall, Failure> {
        call::call(context)
    }

    fn can_ask(&self, definition: &Definition) -> bool {
        definition.protocol == Protocol::AppServer
    }

    fn continuity(&self, definition: &Definition) -> Continuity {
        match definition.protocol {
            Protocol::AppServer => Continuity::Rewound,
            // One version starts another thread in silence if it does not find this one.
            Protocol::Exec => Continuity::None,
        }
    }

    fn adapter_environment(&self, context: &Context<'_>) -> Vec<(OsString, OsString)> {
        call::environment(context)
    }

    fn configuration_texts(&self, context: &Context<'_>) -> Vec<String> {
        vec![provider::config_text(context)]
    }

    fn selects_cloud(&self, texts: &[String]) -> bool {
        texts.iter().any(|it| it.contains(BEDROCK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_by_its_form_and_not_by_a_word_in_it() {
        for (code, said, understood) in [
            (0, "Logged in using an API key - ***", Some(true)),
            (0, "API key configured - ***", Some(true)),
            (1, "WARNING: y\nNot logged in\n", Some(false)),
            (1, "Logged in, but the token expired", None),
            (2, "error: unrecognized subcommand 'login'", None),
        ] {
            assert_eq!(Codex.is_signed_in(Some(code), said), understood, "{said}");
        }
    }
}
