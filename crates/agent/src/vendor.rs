//! Facts about each vendor's CLI, measured with the listed versions.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use convoke_files::{Disk, FileKind, Files as _};
use serde::Serialize;
use serde_json::Value;

/// An agent CLI that Convoke knows.
///
/// Exhaustive on purpose: the rules of each CLI must be decided individually.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Vendor {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
}

/// Facts about one CLI.
#[derive(Debug)]
pub struct Facts {
    /// The command.
    pub command: &'static str,
    /// The npm package.
    pub package: &'static str,
    /// The measured versions, oldest first.
    pub versions: &'static [&'static str],
    /// The CLI's directory in the user's home.
    pub directory: &'static str,
    /// The variable that replaces that directory.
    pub directory_variable: Option<&'static str>,
    /// The configuration files in that directory, as opposed to credentials, logs and caches.
    pub configuration: &'static [&'static str],
    /// Configuration files elsewhere in the user's home.
    pub shared_configuration: &'static [&'static str],
    /// The hosts that the CLI sends its requests to, by its sign-in.
    pub hosts: &'static [&'static str],
    /// The variable that sets another model address.
    pub address_variable: &'static str,
    /// The events that the CLI writes in every turn.
    pub events: &'static [&'static str],
    /// The ways to sign in.
    pub sign_in: SignIn,
}

/// The ways to sign in to a CLI.
#[derive(Debug)]
pub struct SignIn {
    /// Variables with a key that the CLI uses.
    pub keys: &'static [&'static str],
    /// Other variables of the CLI that hold secrets; `*` at the end matches any characters.
    pub variables: &'static [&'static str],
    /// Variables with similar names that the CLI does not read.
    pub ignored_keys: &'static [&'static str],
    /// Variables that select a cloud provider with its own credentials.
    pub clouds: &'static [&'static str],
    /// Credential files in the CLI's directory.
    pub credentials: &'static [&'static str],
    /// Arguments that print the sign-in status. The command may write to the CLI's directory.
    pub status: Option<&'static [&'static str]>,
    /// Instructions to sign in.
    pub how: &'static str,
}

impl Vendor {
    /// All CLIs, in display order.
    pub const ALL: [Vendor; 3] = [Vendor::Claude, Vendor::Codex, Vendor::Gemini];

    /// Returns the facts.
    pub const fn facts(self) -> &'static Facts {
        match self {
            Vendor::Claude => &CLAUDE,
            Vendor::Codex => &CODEX,
            Vendor::Gemini => &GEMINI,
        }
    }

    /// Recognises a CLI by the name of its program or by its package directory.
    pub fn from_program(program: &Path) -> Option<Self> {
        let name = program.file_stem()?.to_str()?;
        let by_name = Self::ALL.into_iter().find(|vendor| vendor.facts().command == name);
        by_name.or_else(|| {
            let real = program.canonicalize().ok()?;
            let real = real.to_str()?;
            Self::ALL.into_iter().find(|vendor| real.contains(vendor.facts().package))
        })
    }
}

impl Vendor {
    /// Returns the secrets in the sign-in files of all CLIs of a user, each with its name, for a redactor.
    pub fn stored_secrets(environment: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
        let variable = |name: &str| {
            let found = environment.iter().rev().find(|(key, _)| key == name);
            found.map(|(_, value)| Path::new(value))
        };
        let mut secrets = Vec::new();
        for facts in Self::ALL.map(Self::facts) {
            let moved = facts.directory_variable.and_then(variable).map(Path::to_owned);
            let in_home = || Some(variable("HOME")?.join(facts.directory));
            let Some(directory) = moved.or_else(in_home) else { continue };
            for file in facts.sign_in.credentials {
                let text = Disk.read_text(&directory.join(file), FileKind::Configuration);
                let value = text.ok().and_then(|text| serde_json::from_str(&text).ok());
                collect_texts("", &value.unwrap_or_default(), &mut secrets);
            }
        }
        secrets
    }
}

/// Collects the texts of a value, each with its name.
fn collect_texts(name: &str, value: &Value, texts: &mut Vec<(OsString, OsString)>) {
    match value {
        Value::String(text) => texts.push((name.into(), text.into())),
        Value::Array(values) => {
            for it in values {
                collect_texts(name, it, texts);
            }
        }
        Value::Object(fields) => {
            for (name, it) in fields {
                collect_texts(name, it, texts);
            }
        }
        _ => {}
    }
}

/// The sign-in status that a program reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SignInStatus {
    /// The program has credentials; whether they are valid is unknown.
    SignedIn,
    /// The program has no credentials.
    NotSignedIn,
    /// The output is missing or was not understood.
    Unclear,
}

impl Vendor {
    /// Parses the output of [`SignIn::status`] exactly: a search for words would match "not logged in" as
    /// "logged in".
    pub fn understand_status(self, code: Option<i32>, said: &str) -> SignInStatus {
        let is_signed_in = match self {
            Vendor::Claude => {
                let start = said.find('{').unwrap_or(said.len());
                let answer = serde_json::Deserializer::from_str(&said[start..]);
                let answer = answer.into_iter::<Value>().next();
                answer.and_then(Result::ok).and_then(|answer| answer["loggedIn"].as_bool())
            }
            Vendor::Codex => match code {
                Some(0) => Some(true),
                Some(1) if said.lines().any(|line| line.trim() == "Not logged in") => Some(false),
                _ => None,
            },
            Vendor::Gemini => None,
        };
        match is_signed_in {
            Some(true) => SignInStatus::SignedIn,
            Some(false) => SignInStatus::NotSignedIn,
            None => SignInStatus::Unclear,
        }
    }
}

impl Vendor {
    /// Returns a CLI's message about a failed sign-in, with shell commands instead of those that only work
    /// inside the CLI.
    pub fn sign_in_failure(self, said: &str) -> String {
        let only_inside = |part: &&str| {
            part.split_whitespace().any(|word| {
                word.strip_prefix('/')
                    .is_some_and(|rest| rest.starts_with("login") || rest.starts_with("auth"))
            })
        };
        let parts = said.split(" · ").filter(|part| !only_inside(part));
        let said = parts.collect::<Vec<_>>().join(" · ");
        let how = self.facts().sign_in.how;
        match said.trim().trim_end_matches('.') {
            "" => format!("not signed in. {how}"),
            said => format!("{said}. {how}"),
        }
    }
}

impl fmt::Display for Vendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.facts().command)
    }
}

/// An unknown CLI name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown agent `{0}`; use claude, codex or gemini")]
pub struct UnknownVendor(pub String);

impl FromStr for Vendor {
    type Err = UnknownVendor;

    fn from_str(name: &str) -> Result<Self, UnknownVendor> {
        let found = Self::ALL.into_iter().find(|vendor| vendor.facts().command == name);
        found.ok_or_else(|| UnknownVendor(name.to_owned()))
    }
}

static CLAUDE: Facts = Facts {
    command: "claude",
    package: "@anthropic-ai/claude-code",
    versions: &["2.1.197", "2.1.325"],
    directory: ".claude",
    directory_variable: Some("CLAUDE_CONFIG_DIR"),
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
    hosts: &["api.anthropic.com"],
    address_variable: "ANTHROPIC_BASE_URL",
    events: &["system", "assistant", "result"],
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

static CODEX: Facts = Facts {
    command: "codex",
    package: "@openai/codex",
    versions: &["0.98.0", "0.166.0"],
    directory: ".codex",
    directory_variable: Some("CODEX_HOME"),
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
    hosts: &["api.openai.com", "chatgpt.com"],
    address_variable: "OPENAI_BASE_URL",
    events: &["turn/started", "item/completed", "item/agentMessage/delta", "turn/completed"],
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

static GEMINI: Facts = Facts {
    command: "gemini",
    package: "@google/gemini-cli",
    versions: &["0.61.0"],
    directory: ".gemini",
    directory_variable: None,
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
    hosts: &["generativelanguage.googleapis.com"],
    address_variable: "GOOGLE_GEMINI_BASE_URL",
    events: &["init", "message", "result"],
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

#[cfg(test)]
mod tests {
    use super::SignInStatus::{NotSignedIn, SignedIn, Unclear};
    use super::*;

    #[test]
    fn a_failed_sign_in_names_the_command_that_works_here() {
        let how = "Run `claude auth login`, or set ANTHROPIC_API_KEY.";
        let told = |said: &str| Vendor::Claude.sign_in_failure(said);
        assert_eq!(told("Not logged in · Please run /login"), format!("Not logged in. {how}"));
        assert_eq!(told("Please run /login"), format!("not signed in. {how}"));
        assert_eq!(told("OAuth token has expired."), format!("OAuth token has expired. {how}"));
    }

    #[test]
    fn an_answer_is_read_by_its_form_and_not_by_a_word_in_it() {
        for (vendor, code, said, understood) in [
            (Vendor::Claude, 0, r#"{"loggedIn": true, "authMethod": "claude.ai"}"#, SignedIn),
            (Vendor::Claude, 1, r#"{"loggedIn": false, "authMethod": "none"}"#, NotSignedIn),
            (Vendor::Claude, 0, "warning: x\n{\"loggedIn\": true}\nbye", SignedIn),
            (Vendor::Claude, 0, "You are logged in.", Unclear),
            (Vendor::Claude, 0, r#"{"loggedIn": "yes"}"#, Unclear),
            (Vendor::Claude, 1, "not authenticated", Unclear),
            (Vendor::Codex, 0, "Logged in using an API key - ***", SignedIn),
            (Vendor::Codex, 0, "API key configured - ***", SignedIn),
            (Vendor::Codex, 1, "WARNING: y\nNot logged in\n", NotSignedIn),
            (Vendor::Codex, 1, "Logged in, but the token expired", Unclear),
            (Vendor::Codex, 2, "error: unrecognized subcommand 'login'", Unclear),
            (Vendor::Gemini, 0, "authenticated", Unclear),
        ] {
            assert_eq!(vendor.understand_status(Some(code), said), understood, "{vendor}: {said}");
        }
    }
}
