//! The settings that each kind of agent uses. An unused setting is rejected with a suggestion.

use super::AgentKind;
use crate::cli::Cli;

/// The reason why a kind of agent does not use a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unused {
    /// The end of a sentence that begins with the name of the setting.
    pub problem: String,
    /// The setting or fix to suggest instead.
    pub fix: String,
}

impl AgentKind {
    /// Returns the vendor whose CLI an agent of this kind runs.
    pub fn vendor(self) -> Option<&'static dyn Cli> {
        match self {
            Self::Cli(cli) => Some(cli),
            Self::Acp | Self::Plain | Self::Api | Self::StandIn => None,
        }
    }

    /// Returns whether agents of this kind can have team tools, through an MCP server or as functions of the
    /// model.
    pub const fn takes_tools(self) -> bool {
        matches!(self, Self::Cli(_) | Self::Acp | Self::Api)
    }

    /// Returns the reason why agents of this kind do not use a setting of a team file or of `agents.toml`;
    /// `None` if they use it.
    pub fn unused(self, setting: &str) -> Option<Unused> {
        let (why, fix) = match (self, setting) {
            (Self::Acp, "client-files" | "client-terminal" | "mode") => return None,
            (_, "client-files" | "client-terminal") => {
                ("which does not use files or terminals of a client", "remove it".to_owned())
            }
            (_, "team-tools") if self.takes_tools() => return None,
            (_, "team-tools") => ("which supports no MCP server", "remove it".to_owned()),
            (Self::Plain, "memory" | "memory-limit" | "idle-timeout") => {
                ("whose program has no session", "remove it".to_owned())
            }
            (Self::Cli(cli), _) => unused_by_cli(cli, setting)?,
            (Self::Plain, "model") => {
                ("which runs a program of yours", "pass the model in `args`".to_owned())
            }
            (Self::Acp | Self::Plain | Self::StandIn, "record") => {
                ("whose requests cannot be recorded", "remove it".to_owned())
            }
            (Self::Api, "record") => {
                ("whose requests are always recorded", "remove it".to_owned())
            }
            (Self::Api | Self::StandIn, "workspace" | "workspace-copy" | "workspace-link") => {
                ("which changes no files", "remove it".to_owned())
            }
            (Self::Acp | Self::Plain, _) if is_of_models(setting) => (
                "which runs a program of yours",
                "pass it in `args` or `env`, or write `agent = \"api\"`".to_owned(),
            ),
            (Self::Api, "command" | "args" | "env") => (
                "which runs no program",
                "remove it; `base-url` names the model's address, `key-env` the variable of its key"
                    .to_owned(),
            ),
            (
                Self::Api,
                "sandbox" | "permissions" | "readable" | "writable" | "ports" | "unix-sockets"
                | "listen" | "variables",
            ) => (
                "which runs no program",
                "remove it; `tools = \"read\"` lets the model read this directory".to_owned(),
            ),
            (
                Self::StandIn,
                "command" | "args" | "env" | "model" | "cwd" | "sandbox" | "permissions" | "readable"
                | "writable" | "ports" | "unix-sockets" | "listen" | "variables",
            ) => ("which runs no program and calls no model", "remove it".to_owned()),
            (Self::StandIn, _) if is_of_models(setting) => {
                ("which runs no program and calls no model", "remove it".to_owned())
            }
            (_, "mode") => ("which has no session modes", "remove it".to_owned()),
            (_, "protocol") => ("which has one protocol", "remove it".to_owned()),
            (Self::Acp | Self::Plain | Self::Api, "replies") => {
                ("which answers itself", "remove it, or use `stand-in`".to_owned())
            }
            _ => return None,
        };
        Some(Unused { problem: format!("is not used by `{}`, {why}", self.name()), fix })
    }
}

fn unused_by_cli(cli: &dyn Cli, setting: &str) -> Option<(&'static str, String)> {
    let facts = cli.facts();
    Some(match setting {
        "base-url" => (
            "which takes its model's address from a variable",
            format!(
                "write `env = {{ {} = \"…\" }}`, or `agent = \"api\"` for a model without a CLI",
                facts.address_variable
            ),
        ),
        "key-env" => ("which signs in by itself", format!("remove it. {}", facts.sign_in.how)),
        "tools" => (
            "which has tools of its own",
            "write `sandbox = \"read-only\"`, or a wider one".to_owned(),
        ),
        "context-window" => (
            "which knows its model's window",
            "remove it; `max-bytes` limits the size of a prompt".to_owned(),
        ),
        "wire" | "developer-role" => (
            "which has a wire format of its own",
            "remove it, or write `agent = \"api\"`".to_owned(),
        ),
        "replies" => ("which answers itself", "remove it, or use `stand-in`".to_owned()),
        "mode" => {
            ("which has no session modes", format!("remove it, or use `{}-acp`", facts.command))
        }
        "protocol" if !facts.has_protocols => ("which has one protocol", "remove it".to_owned()),
        _ => return None,
    })
}

/// Returns whether a setting describes a model behind an endpoint.
fn is_of_models(setting: &str) -> bool {
    matches!(
        setting,
        "base-url" | "key-env" | "wire" | "developer-role" | "context-window" | "tools"
    )
}
