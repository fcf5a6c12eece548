//! Gemini CLI with a private home, at a model server: variables lead there, and a setting selects the key.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use convoke_files::json::without_comments;
use serde_json::{Value, json};

use super::{GeminiCli, TRUST_VARIABLE};
use convoke_agent::endpoint::measured::{Commands, Conditions};
use convoke_agent::endpoint::{Endpoint, EndpointError, ModelServer, NO_KEY, edit};

impl Endpoint for GeminiCli {
    fn server_variables(
        &self,
        server: ModelServer<'_>,
        _home: &Path,
    ) -> Vec<(&'static str, OsString)> {
        vec![
            ("GOOGLE_GEMINI_BASE_URL", server.base_url.into()),
            ("GEMINI_API_KEY", NO_KEY.into()),
            (TRUST_VARIABLE, "true".into()),
            ("GEMINI_CLI_NO_RELAUNCH", "1".into()),
        ]
    }

    fn write_settings(&self, _base_url: &str, directory: &Path) -> Result<(), EndpointError> {
        // With a base address alone, the program requires a gateway's sign-in.
        edit(&directory.join("settings.json"), |text| {
            let text = without_comments(text);
            let text = if text.trim().is_empty() { "{}" } else { &text };
            let mut file: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
            if !file.is_object() {
                return Err("not a JSON object".into());
            }
            for key in ["security", "auth"] {
                let place = if key == "auth" { &mut file["security"][key] } else { &mut file[key] };
                if !place.is_object() {
                    *place = json!({});
                }
            }
            file["security"]["auth"]["selectedType"] = json!("gemini-api-key");
            Ok(file.to_string())
        })
    }

    fn headless(&self, arguments: &[OsString]) -> Vec<OsString> {
        // It runs one turn whenever its standard input is not a terminal.
        arguments.to_vec()
    }

    fn measured_arguments(&self, _commands: Commands, users: Vec<String>) -> Vec<String> {
        users
    }

    fn measured_variables(
        &self,
        conditions: Conditions,
        users: &BTreeMap<OsString, OsString>,
    ) -> Vec<(&'static str, Option<OsString>)> {
        // Without commands, the user's trust setting of the program applies.
        let is_withheld = conditions.commands == Commands::Withheld;
        let users = || users.get(OsStr::new(TRUST_VARIABLE)).cloned();
        is_withheld.then(|| (TRUST_VARIABLE, users())).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoke_agent::endpoint::configure;

    #[test]
    fn the_text_of_a_configuration_file_is_kept_and_one_that_is_none_is_refused_by_its_name() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(".gemini/settings.json");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let settings = "{\"ui\": {\"theme\": \"dark\"}, // at night\n/* none */ \"security\": 3}";
        std::fs::write(&path, settings).unwrap();
        configure(&GeminiCli, "http://127.0.0.1:1", home.path()).unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            r#"{"ui":{"theme":"dark"},"security":{"auth":{"selectedType":"gemini-api-key"}}}"#
        );
        std::fs::write(&path, "[1]").unwrap();
        let refused = configure(&GeminiCli, "http://127.0.0.1:1", home.path()).unwrap_err();
        assert!(refused.to_string().contains(path.to_str().unwrap()), "{refused}");
    }
}
