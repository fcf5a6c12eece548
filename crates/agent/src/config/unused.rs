//! The settings that each kind of agent uses. An unused setting is rejected with a suggestion.

use super::AgentKind;
use crate::vendor::Vendor;

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
    pub const fn vendor(self) -> Option<Vendor> {
        match self {
            Self::Claude => Some(Vendor::Claude),
            Self::Codex => Some(Vendor::Codex),
            Self::Gemini => Some(Vendor::Gemini),
            Self::Acp | Self::Plain | Self::Api | Self::StandIn => None,
        }
    }

    /// Returns whether agents of this kind can have team tools, through an MCP server or as functions of the
    /// model.
    pub const fn takes_tools(self) -> bool {
        matches!(self, Self::Claude | Self::Codex | Self::Gemini | Self::Acp | Self::Api)
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
            (Self::Claude | Self::Codex | Self::Gemini, _) => self.vendor()?.unused(setting)?,
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

impl Vendor {
    fn unused(self, setting: &str) -> Option<(&'static str, String)> {
        let facts = self.facts();
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
            "protocol" if self != Self::Codex => ("which has one protocol", "remove it".to_owned()),
            _ => return None,
        })
    }
}

/// Returns whether a setting describes a model behind an endpoint.
fn is_of_models(setting: &str) -> bool {
    matches!(
        setting,
        "base-url" | "key-env" | "wire" | "developer-role" | "context-window" | "tools"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_uses_its_own_settings() {
        let all = [
            "model",
            "command",
            "args",
            "env",
            "cwd",
            "sandbox",
            "base-url",
            "wire",
            "developer-role",
            "key-env",
            "context-window",
            "tools",
            "workspace",
            "role-summary",
            "instructions",
            "instructions-file",
            "window",
            "max-bytes",
        ];
        let used = |kind: AgentKind| {
            let used: Vec<&str> = all.into_iter().filter(|it| kind.unused(it).is_none()).collect();
            used.strip_suffix(&all[13..]).unwrap().join(" ")
        };
        for kind in [AgentKind::Claude, AgentKind::Codex, AgentKind::Gemini] {
            assert_eq!(used(kind), "model command args env cwd sandbox workspace");
        }
        assert_eq!(used(AgentKind::Acp), "model command args env cwd sandbox workspace");
        assert_eq!(used(AgentKind::Plain), "command args env cwd sandbox workspace");
        let of_models = "base-url wire developer-role key-env context-window tools";
        assert_eq!(used(AgentKind::Api), format!("model cwd {of_models}"));
        assert_eq!(used(AgentKind::StandIn), "");
    }

    #[test]
    fn the_fix_names_what_was_probably_meant() {
        let fix = AgentKind::Claude.unused("base-url").unwrap().fix;
        assert!(fix.contains("ANTHROPIC_BASE_URL"), "{fix}");
        let fix = AgentKind::Gemini.unused("key-env").unwrap().fix;
        assert!(fix.contains("GEMINI_API_KEY"), "{fix}");
    }
}
