//! The settings of a model member: the user's configuration, with the additions of the team file.

use convoke_agent::config::{Api, Catalog, Definition};
use convoke_core::Diagnostic;
use convoke_protocol::id::ThreadId;
use convoke_team::AgentSettings;
use convoke_thread::config::Wire;

use crate::diagnostics;
use crate::endpoint::Endpoint;

/// The settings of a model member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The endpoint and the tools.
    pub api: Api,
    /// The default model.
    pub model: Option<String>,
    /// The default thread, created with the first turn. `None` starts a new thread for each turn.
    pub thread: Option<ThreadId>,
}

impl Settings {
    /// Merges the user's configuration of an agent with a member's settings in the team file, after
    /// [`convoke_team::gate`]. Returns a diagnostic if the key is withheld from the member's endpoint.
    pub fn for_member(
        member: &AgentSettings,
        configured: &Definition,
        catalog: &Catalog,
        thread: Option<ThreadId>,
    ) -> (Self, Option<Diagnostic>) {
        let own = &configured.api;
        let mut api = Api {
            base_url: member.base_url.clone().or_else(|| own.base_url.clone()),
            key_env: member.key_env.clone().or_else(|| own.key_env.clone()),
            wire: member.wire.unwrap_or(own.wire),
            developer_role: member.developer_role.unwrap_or(own.developer_role),
            context_window: member.context_window.or(own.context_window),
            tools: member.tools.unwrap_or(own.tools),
        };
        let is_joined = member.base_url.is_some() || member.key_env.is_some();
        let withheld =
            is_joined.then(|| withhold_key(&mut api, member.key_env.is_some(), catalog)).flatten();
        let model = member.model.clone().or_else(|| configured.model.clone());
        (Self { api, model, thread }, withheld)
    }
}

/// Removes a key from an endpoint whose server the user's file does not configure it for, and returns a
/// diagnostic in that case.
///
/// A key that the file configures without an address is sent to an endpoint only if it is named together with
/// the endpoint (`is_named`).
pub fn withhold_key(api: &mut Api, is_named: bool, catalog: &Catalog) -> Option<Diagnostic> {
    let (url, variable) = (api.base_url.as_deref()?, api.key_env.as_deref()?);
    let server = |url: &str| Endpoint::new(url, Wire::Chat).ok();
    let configured = catalog.iter().map(|(_, agent)| &agent.api);
    let configured = configured.filter(|it| it.key_env.as_deref() == Some(variable));
    let mut urls = configured.filter_map(|it| it.base_url.as_deref()).peekable();
    if is_named && urls.peek().is_none() {
        return None;
    }
    // Nothing can be sent to an invalid address.
    let asked = server(url)?;
    if urls.filter_map(server).any(|own| asked.is_of_same_server(&own)) {
        return None;
    }
    let message = format!(
        "the key in `{variable}` was not sent to {asked}: agents.toml does not configure it for that server"
    );
    api.key_env = None;
    Some(Diagnostic::new(diagnostics::AGENT_KEY_WITHHELD, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoke_agent::config::ApiWire;

    const OWN: &str = r#"
        [agent.api]
        base-url = "http://127.0.0.1:1/v1"
        key-env = "OWN_KEY"
        [agent.bare]
        kind = "api"
        key-env = "BARE_KEY"
        [agent.other]
        kind = "api"
        base-url = "https://other.example/v1"
        key-env = "OTHER_KEY"
    "#;

    /// Returns the key that a member sends, and whether one was withheld.
    fn key(agent: &str, base_url: Option<&str>, key_env: Option<&str>) -> (Option<String>, bool) {
        let mut catalog = Catalog::built_in(convoke_agent::Programs::default());
        catalog.add_user_file(OWN).unwrap();
        let member = AgentSettings {
            agent: agent.to_owned(),
            base_url: base_url.map(str::to_owned),
            key_env: key_env.map(str::to_owned),
            ..AgentSettings::default()
        };
        let configured = catalog.get(agent).unwrap();
        let (settings, withheld) = Settings::for_member(&member, configured, &catalog, None);
        (settings.api.key_env, withheld.is_some())
    }

    #[test]
    fn a_key_goes_to_the_server_that_it_is_configured_for_and_to_no_other() {
        let sent = |name: &str| (Some(name.to_owned()), false);
        let withheld = (None, true);
        let elsewhere = Some("https://elsewhere.example/v1");
        assert_eq!(key("api", None, None), sent("OWN_KEY"));
        assert_eq!(key("api", Some("http://127.0.0.1:1/v2"), None), sent("OWN_KEY"));
        assert_eq!(key("api", Some("http://127.0.0.1:2/v1"), None), withheld);
        assert_eq!(key("api", elsewhere, None), withheld);
        assert_eq!(key("bare", elsewhere, None), withheld);
        assert_eq!(key("api", elsewhere, Some("OTHER_KEY")), withheld);
        assert_eq!(key("api", None, Some("OTHER_KEY")), withheld);
        assert_eq!(key("api", Some("https://other.example"), Some("OTHER_KEY")), sent("OTHER_KEY"));
        assert_eq!(key("api", elsewhere, Some("THEIR_KEY")), sent("THEIR_KEY"));
        assert_eq!(key("bare", elsewhere, Some("BARE_KEY")), sent("BARE_KEY"));
    }

    #[test]
    fn a_team_file_adds_to_the_configuration() {
        let mut catalog = Catalog::built_in(convoke_agent::Programs::default());
        catalog.add_user_file(OWN).unwrap();
        let member = AgentSettings {
            wire: Some(ApiWire::Chat),
            model: Some("small".to_owned()),
            ..AgentSettings::default()
        };
        let configured = catalog.get("api").unwrap();
        let (settings, _) = Settings::for_member(&member, configured, &catalog, None);
        assert_eq!(settings.api.base_url, configured.api.base_url);
        assert_eq!((settings.api.wire, settings.model.as_deref()), (ApiWire::Chat, Some("small")));
    }
}
