//! Claude Code with a private home, at a model server: variables lead there, and settings in the arguments, which
//! override those of the user and of the project.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::ClaudeCode;
use super::relay::{ASSUME, CLOUDS};
use super::settings::{self, ProjectSettings, SettingsError};
use convoke_agent::cli::Cli as _;
use convoke_agent::endpoint::measured::{Commands, Conditions};
use convoke_agent::endpoint::{
    Endpoint, EndpointError, ModelServer, NO_KEY, OfflinePlace, UntrustedProject, VendorServices,
    WithholdError, at, edit, is_setting, proxies,
};

impl Endpoint for ClaudeCode {
    fn server_variables(
        &self,
        server: ModelServer<'_>,
        _home: &Path,
    ) -> Vec<(&'static str, OsString)> {
        vec![
            ("ANTHROPIC_BASE_URL", server.base_url.into()),
            ("ANTHROPIC_API_KEY", NO_KEY.into()),
            ("DISABLE_AUTOUPDATER", "1".into()),
            ("CLAUDE_CODE_MAX_RETRIES", "2".into()),
        ]
    }

    fn write_settings(&self, _base_url: &str, directory: &Path) -> Result<(), EndpointError> {
        match directory.join("settings.json") {
            settings if settings.exists() => edit(&settings, |text| Ok(without_sign_in(text))),
            _ => Ok(()),
        }
    }

    fn headless(&self, arguments: &[OsString]) -> Vec<OsString> {
        const HEADLESS: [&str; 4] = ["-p", "--print", "--version", "--help"];
        let is_headless = arguments.iter().any(|given| HEADLESS.iter().any(|it| given == it));
        let print = (!is_headless).then(|| OsString::from("-p"));
        print.into_iter().chain(arguments.iter().cloned()).collect()
    }

    fn withholding(&self, commands: Commands) -> Option<String> {
        (commands == Commands::Withheld).then(|| "--strict-mcp-config".to_owned())
    }

    fn pointed_arguments(
        &self,
        commands: Commands,
        place: &OfflinePlace<'_>,
        users: &[String],
    ) -> Result<Vec<String>, EndpointError> {
        let (others, given) = settings::split(users);
        let path = place.home.join("offline.json");
        let given = given.map(|given| settings::read(&given, place.cwd)).transpose();
        let given = given.map_err(|error| match error {
            SettingsError::File { path, source } => EndpointError::File { path, source },
            error @ SettingsError::NoObject => {
                EndpointError::Invalid { path: "--settings".into(), reason: error.to_string() }
            }
        })?;
        let mut settings = given.unwrap_or_else(|| json!({}));
        if !settings["env"].is_object() {
            settings["env"] = json!({});
        }
        for (name, value) in variables(place.server) {
            settings["env"][name] = json!(value);
        }
        let hidden = hidden_patterns(place.users_directory).into_iter().map(Value::from);
        let own = settings["claudeMdExcludes"].as_array().cloned().unwrap_or_default();
        settings["claudeMdExcludes"] = own.into_iter().chain(hidden).collect();
        if commands == Commands::Withheld {
            settings["disableAllHooks"] = json!(true);
            // A command of a project's settings that the program runs without a question.
            if names_key_helper(place.cwd) {
                settings["apiKeyHelper"] = json!(format!("echo {NO_KEY}"));
            }
        }
        std::fs::write(&path, settings.to_string()).map_err(at(&path))?;
        let mut arguments = vec![settings::FLAG.to_owned(), path.display().to_string()];
        arguments.extend(others);
        Ok(arguments)
    }

    fn measured_arguments(&self, commands: Commands, users: Vec<String>) -> Vec<String> {
        ["-p".to_owned()].into_iter().chain(self.withholding(commands)).chain(users).collect()
    }

    fn measured_variables(
        &self,
        conditions: Conditions,
        users: &BTreeMap<OsString, OsString>,
    ) -> Vec<(&'static str, Option<OsString>)> {
        // Requests to the user's gateway differ from those to the vendor.
        let has_gateway = users.contains_key(OsStr::new(self.facts().address_variable));
        let is_assumed = conditions.as_vendors && !has_gateway;
        is_assumed.then(|| (ASSUME, Some("1".into()))).into_iter().collect()
    }

    /// 2.1.325 asks for the policy of an organisation before its first request, and tries for five seconds.
    fn vendor_services(&self) -> Option<VendorServices> {
        const HOSTS: &[&str] = &["api.anthropic.com"];
        Some(VendorServices { hosts: HOSTS, certificates: "NODE_EXTRA_CA_CERTS" })
    }

    fn hide_users_directory(
        &self,
        users_directory: &Path,
        home: &Path,
    ) -> Result<(), EndpointError> {
        let directory = home.join(self.facts().directory);
        std::fs::create_dir_all(&directory).map_err(at(&directory))?;
        edit(&directory.join("settings.json"), |text| {
            let text = if text.trim().is_empty() { "{}" } else { text };
            let mut settings: Value =
                serde_json::from_str(text).map_err(|error| error.to_string())?;
            settings["claudeMdExcludes"] = hidden_patterns(users_directory).into();
            Ok(settings.to_string())
        })
    }

    fn keep_variables(
        &self,
        arguments: &[OsString],
        private: &Path,
        project: UntrustedProject<'_>,
        variables: &BTreeMap<OsString, OsString>,
    ) -> Result<(), WithholdError> {
        let settings = ProjectSettings::read(project.cwd, Some(project.home))?;
        Ok(settings.keep_variables(arguments, private, project.cwd, variables)?)
    }

    fn withhold_hooks(&self, arguments: &[OsString], private: &Path, cwd: &Path) -> io::Result<()> {
        settings::withhold_hooks(arguments, private, cwd)
    }
}

/// Removes credentials and endpoints from settings, which override the environment. A file that is not JSON is
/// unchanged, because the program ignores it.
fn without_sign_in(text: &str) -> String {
    const SIGN_IN: [&str; 7] = [
        "apiKeyHelper",
        "proxyAuthHelper",
        "awsAuthRefresh",
        "awsCredentialExport",
        "gcpAuthRefresh",
        "otelHeadersHelper",
        "forceLoginMethod",
    ];
    let Ok(Value::Object(mut settings)) = serde_json::from_str(text) else {
        return text.to_owned();
    };
    settings.retain(|name, _| !SIGN_IN.contains(&name.as_str()));
    if let Some(Value::Object(variables)) = settings.get_mut("env") {
        variables.retain(|name, _| is_setting(&ClaudeCode, OsStr::new(name)));
    }
    Value::Object(settings).to_string()
}

/// Returns the patterns that hide the instructions in a user's own directory from the search upwards.
///
/// With another home that directory is one of the directories above a project, and its instructions would be loaded
/// again, as the project's (2.1.197, 2.1.325), and 2.1.325 would then ignore every `AGENTS.md`.
fn hidden_patterns(users_directory: &Path) -> Vec<String> {
    let mut directories = vec![users_directory.to_owned()];
    directories.extend(users_directory.canonicalize().ok().filter(|it| it != users_directory));
    let literal = |path: &PathBuf| {
        let path = path.to_string_lossy();
        // A backslash escapes nothing in these patterns.
        path.replace(|c: char| "*?[]{}()!+@|\\".contains(c), "?")
    };
    let patterns = directories.iter().map(literal);
    patterns.flat_map(|it| [format!("{it}/CLAUDE.md"), format!("{it}/rules/**")]).collect()
}

/// Returns the variables that settings files may set, with the values that lead to the server alone.
fn variables(server: ModelServer<'_>) -> Vec<(&'static str, &str)> {
    let mut variables =
        vec![("ANTHROPIC_BASE_URL", server.base_url), ("ANTHROPIC_UNIX_SOCKET", "")];
    variables.extend(CLOUDS.map(|name| (name, "0")));
    variables.extend(proxies(server));
    variables
}

/// Returns whether settings of a project may name a command that prints a key.
fn names_key_helper(cwd: &Path) -> bool {
    let settings = ProjectSettings::read(cwd, None);
    settings.map_or(true, |settings| settings.file_with(&["apiKeyHelper"]).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoke_agent::endpoint::measured;

    #[test]
    fn settings_keep_what_is_no_sign_in() {
        let text = r#"{"apiKeyHelper": "key", "model": "opus", "env": {"ANTHROPIC_BASE_URL": "x", "CLAUDE_CODE_X": "1", "HTTPS_PROXY": "y"}}"#;
        let kept: Value = serde_json::from_str(&without_sign_in(text)).unwrap();
        assert_eq!(kept, json!({"env": {"CLAUDE_CODE_X": "1"}, "model": "opus"}));
        assert_eq!(without_sign_in("{ no JSON"), "{ no JSON");
    }

    #[test]
    fn settings_of_the_user_are_kept_and_keys_and_addresses_are_not() {
        let users = [
            ("CLAUDE_CODE_DISABLE_CLAUDE_MDS", "1"),
            ("ANTHROPIC_MODEL", "opus"),
            ("MAX_THINKING_TOKENS", "1000"),
            ("ANTHROPIC_API_KEY", "sk"),
            ("CLAUDE_CODE_OAUTH_TOKEN", "sk"),
            ("CLAUDE_CODE_USE_BEDROCK", "1"),
            ("CLAUDE_CONFIG_DIR", "/c"),
            ("CLAUDE_CODE_ENTRYPOINT", "cli"),
            ("HUNTER", "2"),
        ];
        let users = users.map(|(name, value)| (name.into(), value.into())).into();
        let conditions = Conditions { commands: Commands::Run, as_vendors: true };
        let names: Vec<_> = measured::environment(&ClaudeCode, conditions, &users)
            .into_iter()
            .map(|(name, _)| name.into_string().unwrap())
            .collect();
        assert_eq!(
            names,
            [
                "ANTHROPIC_MODEL",
                "CLAUDE_CODE_DISABLE_CLAUDE_MDS",
                "MAX_THINKING_TOKENS",
                "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL"
            ]
        );
        let gateway = BTreeMap::from([("ANTHROPIC_BASE_URL".into(), "https://g".into())]);
        assert!(measured::environment(&ClaudeCode, conditions, &gateway).is_empty());
    }

    #[test]
    fn a_command_is_made_to_run_one_turn() {
        for (given, made) in [("hello", "-p hello"), ("hello --print", "hello --print")] {
            let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
            assert_eq!(ClaudeCode.headless(&words(given)), words(made), "{given}");
        }
    }
}
