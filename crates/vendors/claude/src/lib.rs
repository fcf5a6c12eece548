//! Claude Code.
//!
//! # Modules
//!
//! Claude Code: its facts (`lib`), how a turn is called (`call`, with the arguments of its agent: `arguments`) and asks (`question`), its output (`stream`), settings in its arguments
//! (`settings`), its sign-in, which it renews (`sign_in`), another model server (`endpoint`), a relay (`relay`), the rules by which it
//! loads files (`loading`), and its measurement (`measured`).
//! `sessions` reads the sessions that it has stored.

mod arguments;
mod call;
mod endpoint;
mod loading;
mod measured;
pub mod question;
mod relay;
mod sessions;
mod settings;
mod sign_in;
pub mod stream;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use convoke_protocol::verdict::Failure;
use serde_json::{Map, Value, json};

pub use self::call::TAIL;
use convoke_agent::adapter::{Context, Preset, ProgramCall};
use convoke_agent::cli::{Cli, Facts, RenewedSignIn, SettingVariables, SignIn, State, TurnProgram};
use convoke_agent::config::Definition;
use convoke_agent::loading::LoadingArguments;
use convoke_agent::turn::Continuity;
use convoke_agent::turn_input::{Permissions, Trust};
use convoke_source::SessionSource;
use convoke_vendor::{MeasuredCli, Vendor};

/// Claude Code.
#[derive(Debug)]
pub struct ClaudeCode;

/// Its settings and servers, which are next to its directory.
const STATE_FILE: &str = ".claude.json";

static FACTS: Facts = Facts {
    command: "claude",
    other_names: &["claude-code", "anthropic"],
    package: "@anthropic-ai/claude-code",
    versions: &["2.1.197", "2.1.325"],
    directory: ".claude",
    directory_variable: Some("CLAUDE_CONFIG_DIR"),
    home_variable: None,
    beside: &[(STATE_FILE, "{}")],
    configuration: &[
        "CLAUDE.md",
        "rules",
        "settings.json",
        "agents",
        "commands",
        "skills",
        "output-styles",
    ],
    shared_configuration: &[],
    state: State { directories: &["debug", "statsig", "telemetry"], files: &[], existing: &[] },
    followed: &[],
    hosts: &["api.anthropic.com"],
    address_variable: "ANTHROPIC_BASE_URL",
    // It passes the address on to the shells of its tools.
    own_user_agents: &["claude-cli/"],
    settings: SettingVariables {
        prefixes: &["CLAUDE_", "ANTHROPIC_DEFAULT_", "DISABLE_", "ENABLE_", "MCP_", "BASH_"],
        names: &[
            "ANTHROPIC_MODEL",
            "ANTHROPIC_SMALL_FAST_MODEL",
            "MAX_THINKING_TOKENS",
            "SLASH_COMMAND_TOOL_CHAR_BUDGET",
        ],
        // Directories, sign-in and endpoints.
        except: &[
            "CLAUDE_CONFIG_DIR",
            "CLAUDE_CODE_USE_",
            "CLAUDE_CODE_SKIP_",
            "CLAUDE_CODE_CLIENT_",
        ],
    },
    nested: &["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT"],
    events: &["system", "assistant", "result"],
    model_option: "--model",
    trial_model: Some("sonnet"),
    has_protocols: false,
    tail: Some(TAIL),
    missing_is_empty: false,
    adapter_settings: true,
    adapter_cli: &[],
    sign_in: SignIn {
        keys: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
        variables: &["ANTHROPIC_*", "CLAUDE_*"],
        ignored_keys: &[],
        clouds: &["CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"],
        credentials: &[".credentials.json"],
        status: Some(&["auth", "status", "--json"]),
        how: "Run `claude auth login`, or set ANTHROPIC_API_KEY.",
    },
};

/// Its ACP adapter.
static PRESETS: [Preset; 1] = [Preset {
    name: "claude-acp",
    command: "claude-agent-acp",
    args: &[],
    package: "@agentclientprotocol/claude-agent-acp",
    sign_in: FACTS.sign_in.how,
    vendor: Some(&ClaudeCode),
    env: &[
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("DISABLE_TELEMETRY", "1"),
    ],
    tail: Some(TAIL),
    ..Preset::BASE
}];

impl Vendor for ClaudeCode {
    fn cli(&self) -> Option<&'static dyn MeasuredCli> {
        Some(&ClaudeCode)
    }

    fn sessions(&self) -> Option<&'static dyn SessionSource> {
        Some(&sessions::ClaudeSessions)
    }

    fn presets(&self) -> &'static [Preset] {
        &PRESETS
    }
}

impl Cli for ClaudeCode {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn is_signed_in(&self, _code: Option<i32>, said: &str) -> Option<bool> {
        let start = said.find('{').unwrap_or(said.len());
        let answer = serde_json::Deserializer::from_str(&said[start..]);
        let answer = answer.into_iter::<Value>().next();
        answer.and_then(Result::ok).and_then(|answer| answer["loggedIn"].as_bool())
    }
}

impl TurnProgram for ClaudeCode {
    fn call(&self, context: &Context<'_>) -> Result<ProgramCall, Failure> {
        call::call(context)
    }

    fn loading(&self, trust: Trust) -> LoadingArguments {
        let args = match trust {
            Trust::Trusted => vec!["--setting-sources", "user,project,local"],
            // Settings of the project can contain hooks, and its `.mcp.json` servers. Both are commands.
            Trust::Untrusted => vec!["--setting-sources", "user", "--strict-mcp-config"],
        };
        LoadingArguments { args, variables: Vec::new() }
    }

    /// The fields are the settings that the program would get in its arguments, and a limit on the settings that it
    /// loads, because an untrusted project's settings can contain hooks, which are commands.
    fn adapter_arguments(
        &self,
        arguments: &[String],
        trust: Trust,
    ) -> (Vec<String>, Option<Value>) {
        let (others, settings) = settings::split(arguments);
        let mut options = Map::new();
        if trust == Trust::Untrusted {
            options.insert("settingSources".to_owned(), json!(["user"]));
            options.insert("strictMcpConfig".to_owned(), true.into());
        }
        if let Some(settings) = settings {
            let object = serde_json::from_str(&settings).ok().filter(Value::is_object);
            options.insert("settings".to_owned(), object.unwrap_or_else(|| settings.into()));
        }
        let fields = !options.is_empty();
        (others, fields.then(|| json!({ "claudeCode": { "options": options } })))
    }

    fn adapter_environment(&self, context: &Context<'_>) -> Vec<(OsString, OsString)> {
        let retries = context.turn_input.limits.retries.to_string();
        let mut env = vec![("CLAUDE_CODE_MAX_RETRIES".into(), retries.into())];
        if context.enforcer.is_kernel() && context.permissions() < Permissions::Full {
            env.push(("IS_SANDBOX".into(), "1".into()));
        }
        env
    }

    fn continuity(&self, definition: &Definition) -> Continuity {
        if call::names_session(&definition.args) {
            // It may be a session of somebody else.
            Continuity::None
        } else {
            Continuity::Rewound
        }
    }

    fn session_directories(
        &self,
        directory: &Path,
        cwd: &Path,
        session: Option<&str>,
    ) -> Vec<PathBuf> {
        // The program chooses this name, so it must not be a path that leads elsewhere.
        let is_name = |id: &&str| id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        let session = session.filter(is_name).filter(|id| !id.is_empty());
        let of_session = |name: &&str| Some(directory.join(name).join(session?));
        let sessions = OF_SESSIONS.iter().filter_map(of_session);
        let project = project(cwd).map(|name| directory.join(PROJECTS).join(name));
        sessions.chain(project).collect()
    }

    fn renewed_sign_in(&self, directory: &Path) -> Option<Box<dyn RenewedSignIn>> {
        Some(Box::new(sign_in::SignInLink::find(directory)?))
    }
}

/// The directories with one subdirectory per session.
const OF_SESSIONS: &[&str] = &["file-history", "session-env", "tasks"];
/// The directory with one subdirectory per project, named by its path.
const PROJECTS: &str = "projects";
/// The length above which the program shortens the names of projects.
const MAX_PROJECT_CHARACTERS: usize = 200;

/// Returns the name of the directory where the program keeps the sessions of a working directory.
fn project(cwd: &Path) -> Option<String> {
    // In UTF-16 code units, as JavaScript counts.
    let units = cwd.to_str()?.encode_utf16();
    let character = |unit: u16| {
        let ascii = u8::try_from(unit).map(char::from);
        ascii.ok().filter(char::is_ascii_alphanumeric).unwrap_or('-')
    };
    let name: String = units.map(character).collect();
    (name.len() <= MAX_PROJECT_CHARACTERS).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_sign_in_names_the_command_that_works_here() {
        let how = "Run `claude auth login`, or set ANTHROPIC_API_KEY.";
        let claude: &dyn Cli = &ClaudeCode;
        let told = |said: &str| claude.sign_in_failure(said);
        assert_eq!(told("Not logged in · Please run /login"), format!("Not logged in. {how}"));
        assert_eq!(told("Please run /login"), format!("not signed in. {how}"));
        assert_eq!(told("OAuth token has expired."), format!("OAuth token has expired. {how}"));
    }

    #[test]
    fn an_answer_is_read_by_its_form_and_not_by_a_word_in_it() {
        for (said, understood) in [
            (r#"{"loggedIn": true, "authMethod": "claude.ai"}"#, Some(true)),
            (r#"{"loggedIn": false, "authMethod": "none"}"#, Some(false)),
            ("warning: x\n{\"loggedIn\": true}\nbye", Some(true)),
            ("You are logged in.", None),
            (r#"{"loggedIn": "yes"}"#, None),
            ("not authenticated", None),
        ] {
            assert_eq!(ClaudeCode.is_signed_in(Some(0), said), understood, "{said}");
        }
    }
}
