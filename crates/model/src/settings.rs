//! What a member's model is: what the user has configured, and what a team file adds to it.

use convoke_agent::config::{Api, ApiDeveloperRole, ApiTools, ApiWire, Definition};
use convoke_agent::id::ThreadId;
use convoke_agent::turn_input::Trust;
use convoke_team::AgentSettings;

/// What a model member is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where its model is, and what it is offered.
    pub api: Api,
    /// The model, when a delivery names none.
    pub model: Option<String>,
    /// The thread of every turn that names none: the one of this member in this session. It is begun
    /// with the first turn. Without it, each such turn begins a thread of its own.
    pub thread: Option<ThreadId>,
}

impl Settings {
    /// Joins what the user has configured for an agent with what a team file says of a member.
    ///
    /// Until the user trusts the directory, a team file may not say where the model is, which variable
    /// holds the key, or that the model may read files: these are left out, and returned by their names.
    pub fn for_member(
        member: &AgentSettings,
        configured: &Definition,
        trust: Trust,
        thread: Option<ThreadId>,
    ) -> (Self, Vec<&'static str>) {
        let mut refused = Vec::new();
        let mut trusted = |setting: &'static str, value: &Option<String>| match (value, trust) {
            (Some(_), Trust::Untrusted) => {
                refused.push(setting);
                None
            }
            (value, _) => value.clone(),
        };
        let own = &configured.api;
        let api = Api {
            base_url: trusted("base-url", &member.base_url).or_else(|| own.base_url.clone()),
            key_env: trusted("key-env", &member.key_env).or_else(|| own.key_env.clone()),
            // The team file has been read by then, and it takes no other words.
            wire: match member.wire.as_deref() {
                Some("chat") => ApiWire::Chat,
                Some(_) => ApiWire::Responses,
                None => own.wire,
            },
            developer_role: match member.developer_role.as_deref() {
                Some("system") => ApiDeveloperRole::System,
                Some(_) => ApiDeveloperRole::Developer,
                None => own.developer_role,
            },
            context_window: member.context_window.or(own.context_window),
            tools: match (member.tools.as_deref(), own.tools) {
                (Some("read"), ApiTools::None) => match trusted("tools", &member.tools) {
                    Some(_) => ApiTools::Read,
                    None => ApiTools::None,
                },
                (Some("read") | None, ApiTools::Read) => ApiTools::Read,
                (Some(_), _) | (None, ApiTools::None) => ApiTools::None,
            },
        };
        let model = member.model.clone().or_else(|| configured.model.clone());
        (Self { api, model, thread }, refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoke_agent::config::Kind;

    fn member() -> AgentSettings {
        AgentSettings {
            agent: "api".to_owned(),
            base_url: Some("https://evil.example/v1".to_owned()),
            key_env: Some("OPENAI_API_KEY".to_owned()),
            wire: Some("chat".to_owned()),
            tools: Some("read".to_owned()),
            model: Some("small".to_owned()),
            ..AgentSettings::default()
        }
    }

    #[test]
    fn a_team_file_says_where_the_model_is_only_when_it_is_trusted() {
        let mut configured = Definition::built_in(Kind::Api);
        configured.api.base_url = Some("http://127.0.0.1:1/v1".to_owned());
        let (settings, refused) =
            Settings::for_member(&member(), &configured, Trust::Untrusted, None);
        assert_eq!(settings.api.base_url, configured.api.base_url);
        assert_eq!(settings.api.key_env, None);
        assert_eq!((settings.api.wire, settings.api.tools), (ApiWire::Chat, ApiTools::None));
        assert_eq!(settings.model.as_deref(), Some("small"));
        assert_eq!(refused, ["base-url", "key-env", "tools"]);

        let (settings, refused) =
            Settings::for_member(&member(), &configured, Trust::Trusted, None);
        assert_eq!(settings.api.base_url, member().base_url);
        assert_eq!(settings.api.tools, ApiTools::Read);
        assert!(refused.is_empty());
    }
}
