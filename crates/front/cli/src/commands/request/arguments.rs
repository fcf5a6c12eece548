//! The arguments of `convoke request`: those of Codex, and our own.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use convoke_agent::Cli;
use convoke_files::absolute;
use convoke_thread::config::{self, Overrides, parse_override};
use convoke_thread::pack::Shape;
use convoke_thread::permissions::{ApprovalPolicy, SandboxMode};

use convoke_vendor::MeasuredCli;

use super::is_built;
use crate::diagnostics::Deny;
use crate::outcome::UsageError;

const CODEX: &str = "As in Codex";

/// Show the exact request that an agent would send from here.
///
/// Nothing is sent. With --agent, the installed program is run offline, with your configuration in a private home, and its request is
/// shown. Without it, the request of Codex 0.98 is assembled by rule, from Codex's own configuration, with the texts of
/// a pack. A terminal shows the parts; a pipe gets the body alone, to the byte.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  convoke request --agent codex \"Fix the login test\"
  convoke request --agent claude --json hello | jq .version
  convoke request --agent claude hello -- --append-system-prompt \"Be brief.\"
  git diff | convoke request --explain - > body.json")]
pub struct Arguments {
    /// The prompt; `-` or no argument reads standard input
    pub(super) prompt: Option<String>,

    /// Run this installed program and show its own request: codex, claude or gemini
    #[arg(long, value_name = "AGENT", conflicts_with_all = ["pack", "shape", "tools", "models", "wire", "rollout", "shell", "ask_for_approval"], value_parser = convoke_vendors::cli)]
    pub(super) agent: Option<&'static dyn MeasuredCli>,
    /// With --agent, the seconds that the program may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "agent", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(super) timeout: u64,
    /// With --agent, arguments for the program; else the prompt
    #[arg(last = true, value_name = "ARGUMENT")]
    pub(super) rest: Vec<OsString>,

    /// The directory of a pack of prompt texts and model settings, instead of the built-in pack
    #[arg(long, value_name = "DIR")]
    pub(super) pack: Option<PathBuf>,
    /// The version of Codex whose request is built: codex@0.98 or codex@0.94
    #[arg(long, value_name = "SHAPE")]
    pub(super) shape: Option<Shape>,
    /// A file with the tools, a JSON list in the format of the Responses API
    #[arg(long, value_name = "FILE")]
    pub(super) tools: Option<PathBuf>,
    /// A file with the server's list of models, or Codex's `models_cache.json`
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(super) models: Option<PathBuf>,
    /// The wire format [default: the provider's]
    #[arg(long, value_name = "WIRE")]
    pub(super) wire: Option<Wire>,
    /// The recorded thread to continue: a session file of Codex or of Convoke
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(super) rollout: Option<PathBuf>,
    /// The login shell [default: the one in the user database]
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    pub(super) shell: Option<PathBuf>,
    /// Codex's home directory [default: `$CODEX_HOME` or `~/.codex`]
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub(super) codex_home: Option<PathBuf>,
    /// Print the ledger on standard error: the source of every byte, and what was left out
    #[arg(long)]
    pub(super) explain: bool,
    /// Write the body, the ledger and the diagnostics as JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) deny: Deny,

    /// Override a configuration key: key=value, with a TOML value
    #[arg(short, long = "config", value_name = "KEY=VALUE", value_parser = parse_override, help_heading = CODEX, hide_short_help = true)]
    config: Vec<(String, toml::Value)>,
    /// Enable a feature
    #[arg(long, value_name = "FEATURE", help_heading = CODEX, hide_short_help = true)]
    enable: Vec<String>,
    /// Disable a feature
    #[arg(long, value_name = "FEATURE", help_heading = CODEX, hide_short_help = true)]
    disable: Vec<String>,
    /// The configuration profile
    #[arg(short, long, value_name = "NAME", help_heading = CODEX, hide_short_help = true)]
    profile: Option<String>,
    /// The model
    #[arg(short, long, value_name = "MODEL", help_heading = CODEX, hide_short_help = true)]
    model: Option<String>,
    /// The sandbox policy for commands: read-only, workspace-write or danger-full-access
    #[arg(short, long, value_name = "MODE", help_heading = CODEX, hide_short_help = true)]
    sandbox: Option<SandboxMode>,
    /// The approval policy: untrusted, on-failure, on-request or never [default: never]
    #[arg(short, long, value_name = "POLICY", help_heading = CODEX, hide_short_help = true)]
    ask_for_approval: Option<ApprovalPolicy>,
    /// The same as --sandbox workspace-write
    #[arg(long, conflicts_with_all = ["sandbox", "dangerously_bypass_approvals_and_sandbox"], help_heading = CODEX, hide_short_help = true)]
    full_auto: bool,
    /// The same as --sandbox danger-full-access --ask-for-approval never
    #[arg(long, alias = "yolo", conflicts_with_all = ["sandbox", "ask_for_approval"], help_heading = CODEX, hide_short_help = true)]
    dangerously_bypass_approvals_and_sandbox: bool,
    /// The working directory
    #[arg(short = 'C', long = "cd", value_name = "DIR", help_heading = CODEX, hide_short_help = true)]
    pub(super) cd: Option<PathBuf>,
    /// An additional writable directory; may be repeated
    #[arg(long, value_name = "DIR", help_heading = CODEX, hide_short_help = true)]
    add_dir: Vec<PathBuf>,
    /// Images to send with the prompt; write `--` before the prompt
    #[arg(short, long, value_name = "FILE", value_delimiter = ',', num_args = 1.., help_heading = CODEX, hide_short_help = true)]
    pub(super) image: Vec<PathBuf>,
    /// A file with the JSON schema of the answer
    #[arg(long, value_name = "FILE", help_heading = CODEX, hide_short_help = true)]
    pub(super) output_schema: Option<PathBuf>,
    /// Has no effect: nothing is run
    #[arg(long, hide = true)]
    skip_git_repo_check: bool,
}

/// A wire format.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Wire {
    /// The Responses API
    Responses,
    /// Chat Completions
    Chat,
}

impl From<Wire> for config::Wire {
    fn from(wire: Wire) -> Self {
        match wire {
            Wire::Responses => Self::Responses,
            Wire::Chat => Self::Chat,
        }
    }
}

impl Arguments {
    /// Returns the overrides of the configuration, for a program that runs in `cwd`.
    pub(super) fn overrides(&self, cwd: &Path) -> Result<Overrides, UsageError> {
        if let Some(given) = &self.cd
            && !absolute(cwd, given).is_dir()
        {
            return Err(UsageError(format!("--cd: {} is not a directory", given.display())));
        }
        let sandbox_mode = match self.sandbox {
            _ if self.full_auto => Some(SandboxMode::WorkspaceWrite),
            _ if self.dangerously_bypass_approvals_and_sandbox => {
                Some(SandboxMode::DangerFullAccess)
            }
            given => given,
        };
        Ok(Overrides {
            cwd: self.cd.clone(),
            model: self.model.clone(),
            profile: self.profile.clone(),
            sandbox_mode,
            // `codex exec` never asks, whatever the configuration says.
            approval_policy: Some(self.ask_for_approval.unwrap_or(ApprovalPolicy::Never)),
            add_dirs: self.add_dir.clone(),
            settings: self.settings(),
            ..Overrides::default()
        })
    }

    /// Returns the prompt, from either position.
    pub(super) fn prompt(&self) -> Result<Option<&str>, UsageError> {
        match (&self.prompt, &self.rest[..]) {
            (prompt, _) if self.agent.is_some() => Ok(prompt.as_deref()),
            (prompt, []) => Ok(prompt.as_deref()),
            (None, [one]) => {
                let prompt = one.to_str();
                prompt.map(Some).ok_or_else(|| UsageError("the prompt is not UTF-8".into()))
            }
            _ => {
                Err(UsageError("there is more than one prompt; --agent passes arguments on".into()))
            }
        }
    }

    /// Returns the flags for an installed program: Codex takes its own, the others a model.
    pub(super) fn program_arguments(&self, agent: &dyn Cli) -> Result<Vec<OsString>, UsageError> {
        let mut all: Vec<OsString> = Vec::new();
        let mut add = |flag: &str, value: &OsStr| all.extend([flag.into(), value.to_owned()]);
        if let Some(model) = &self.model {
            add(agent.facts().model_option, model.as_ref());
        }
        let codex: Vec<(&str, OsString)> = self.codex_flags();
        if let Some((flag, _)) = codex.first()
            && !is_built(agent)
        {
            return Err(UsageError(format!(
                "{flag} is an argument of codex; {agent}'s own go behind `--`"
            )));
        }
        for (flag, value) in &codex {
            add(flag, value);
        }
        let switches = [
            ("--full-auto", self.full_auto),
            (
                "--dangerously-bypass-approvals-and-sandbox",
                self.dangerously_bypass_approvals_and_sandbox,
            ),
        ];
        for (flag, _) in switches.iter().filter(|(_, is_given)| *is_given) {
            if !is_built(agent) {
                return Err(UsageError(format!("{flag} is an argument of codex")));
            }
            all.push(flag.into());
        }
        all.extend(self.rest.iter().cloned());
        Ok(all)
    }

    /// Returns the given flags of Codex with their values, except the model.
    fn codex_flags(&self) -> Vec<(&'static str, OsString)> {
        let mut all: Vec<(&'static str, OsString)> = Vec::new();
        all.extend(self.config.iter().map(|(key, value)| ("-c", format!("{key}={value}").into())));
        all.extend(self.enable.iter().map(|name| ("--enable", name.into())));
        all.extend(self.disable.iter().map(|name| ("--disable", name.into())));
        all.extend(self.profile.iter().map(|name| ("--profile", name.into())));
        all.extend(self.sandbox.iter().map(|mode| ("--sandbox", mode.name().into())));
        all.extend(self.add_dir.iter().map(|path| ("--add-dir", path.into())));
        all.extend(self.image.iter().map(|path| ("--image", path.into())));
        all.extend(self.output_schema.iter().map(|path| ("--output-schema", path.into())));
        all
    }

    fn settings(&self) -> Vec<(String, toml::Value)> {
        let switch =
            |on: bool| move |name: &String| (format!("features.{name}"), toml::Value::Boolean(on));
        let switches = self.enable.iter().map(switch(true));
        let switches = switches.chain(self.disable.iter().map(switch(false)));
        self.config.iter().cloned().chain(switches).collect()
    }
}
