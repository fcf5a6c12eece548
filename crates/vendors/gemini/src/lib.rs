//! Gemini CLI.
//!
//! # Modules
//!
//! Gemini CLI: `call`, `arguments` (of its configuration), `home` (its private home), `inert` (prompts that it does not act on), `output` (written whole), `untrusted`
//! (projects), `stream`, `endpoint`, `relay`, `loading` and `measured`.
//! `sessions` reads the sessions that it has stored.

mod arguments;
mod call;
mod endpoint;
mod home;
mod inert;
mod loading;
mod measured;
mod output;
mod relay;
mod sessions;
pub mod stream;
mod untrusted;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use convoke_protocol::verdict::Failure;

use convoke_agent::adapter::{Context, Preset, ProgramCall};
use convoke_agent::cli::{Cli, Facts, SettingVariables, SignIn, State, TurnProgram};
use convoke_agent::config::Definition;
use convoke_agent::launch::{Project, UntrustedFile, WithheldVariables};
use convoke_agent::loading::LoadingArguments;
use convoke_agent::turn::Continuity;
use convoke_agent::turn_input::Trust;
use convoke_source::SessionSource;
use convoke_vendor::{MeasuredCli, Vendor};

/// Gemini CLI.
#[derive(Debug)]
pub struct GeminiCli;

/// The variable with which it trusts its working directory.
const TRUST_VARIABLE: &str = "GEMINI_CLI_TRUST_WORKSPACE";

static FACTS: Facts = Facts {
    command: "gemini",
    other_names: &[],
    package: "@google/gemini-cli",
    versions: &["0.61.0"],
    directory: ".gemini",
    directory_variable: None,
    home_variable: Some("GEMINI_CLI_HOME"),
    beside: &[],
    configuration: &[
        "GEMINI.md",
        "settings.json",
        "trustedFolders.json",
        "projects.json",
        "agents",
        "commands",
        "extensions",
        "policies",
        "skills",
    ],
    shared_configuration: &[".agents/skills"],
    state: State {
        directories: &["history", "tmp"],
        files: &[],
        existing: &["google_accounts.json", "installation_id", "oauth_creds.json", "projects.json"],
    },
    followed: untrusted::FOLLOWED,
    hosts: &["generativelanguage.googleapis.com"],
    address_variable: "GOOGLE_GEMINI_BASE_URL",
    own_user_agents: &[],
    settings: SettingVariables {
        prefixes: &["GEMINI_CLI_"],
        names: &["GEMINI_MODEL", "GEMINI_SYSTEM_MD"],
        except: &["GEMINI_CLI_HOME", "GEMINI_CLI_IDE"],
    },
    nested: &["GEMINI_CLI"],
    events: &["init", "message", "result"],
    model_option: "-m",
    trial_model: Some("gemini-2.5-pro"),
    has_protocols: false,
    tail: None,
    missing_is_empty: true,
    adapter_settings: false,
    adapter_cli: &[],
    sign_in: SignIn {
        keys: &["GEMINI_API_KEY"],
        variables: &["GEMINI_*", "GOOGLE_*"],
        // Used only with Vertex AI.
        ignored_keys: &["GOOGLE_API_KEY"],
        clouds: &["GOOGLE_GENAI_USE_VERTEXAI"],
        credentials: &["oauth_creds.json"],
        status: None,
        how: "Set GEMINI_API_KEY, or start `gemini` once and sign in.",
    },
};

/// The CLI itself, over ACP.
static PRESETS: [Preset; 1] = [Preset {
    name: "gemini-acp",
    command: "gemini",
    args: &["--acp"],
    package: FACTS.package,
    sign_in: FACTS.sign_in.how,
    vendor: Some(&GeminiCli),
    ..Preset::BASE
}];

impl Vendor for GeminiCli {
    fn cli(&self) -> Option<&'static dyn MeasuredCli> {
        Some(&GeminiCli)
    }

    fn presets(&self) -> &'static [Preset] {
        &PRESETS
    }

    fn sessions(&self) -> Option<&'static dyn SessionSource> {
        Some(&sessions::GeminiSessions)
    }
}

impl Cli for GeminiCli {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn is_signed_in(&self, _code: Option<i32>, _said: &str) -> Option<bool> {
        None
    }
}

impl TurnProgram for GeminiCli {
    fn call(&self, context: &Context<'_>) -> Result<ProgramCall, Failure> {
        call::call(context)
    }

    fn loading(&self, _trust: Trust) -> LoadingArguments {
        LoadingArguments { args: Vec::new(), variables: vec![(TRUST_VARIABLE, "true")] }
    }

    fn adapter_continuity(&self) -> Continuity {
        // A session that is loaded repeats the results of its tools, and may be empty.
        Continuity::Alive
    }

    fn continuity(&self, _definition: &Definition) -> Continuity {
        self.adapter_continuity()
    }

    fn acp_call(&self, context: &Context<'_>) -> Option<Result<ProgramCall, Failure>> {
        Some(call::call(context))
    }

    fn withhold(
        &self,
        project: Project<'_>,
        given: &BTreeMap<OsString, OsString>,
    ) -> Result<WithheldVariables, UntrustedFile> {
        untrusted::withhold(project, given)
    }

    fn users_own_home(
        &self,
        users_home: &Path,
        _users_directory: &Path,
        private: &Path,
    ) -> io::Result<(PathBuf, Vec<(OsString, OsString)>)> {
        let directory = home::prepare_observed(users_home, private)?;
        Ok((directory, vec![("GEMINI_CLI_HOME".into(), private.into())]))
    }
}
