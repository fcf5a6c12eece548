//! Codex with a private home, at a model server that takes the place of the vendor's own, so that it behaves as
//! usual: it sends 12 KiB less to a server that is configured as a custom provider.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use convoke_files::{Disk, Files as _};

use super::{Codex, provider};
use convoke_agent::endpoint::measured::{Commands, Conditions};
use convoke_agent::endpoint::{Endpoint, EndpointError, ModelServer, NO_KEY, OfflinePlace, edit};

impl Endpoint for Codex {
    fn server_variables(
        &self,
        server: ModelServer<'_>,
        home: &Path,
    ) -> Vec<(&'static str, OsString)> {
        // 0.98 reads the address in the variable, later versions that of the configuration file.
        vec![
            ("CODEX_HOME", home.join(".codex").into()),
            ("OPENAI_BASE_URL", format!("{}/v1", server.base_url).into()),
            ("CODEX_API_KEY", NO_KEY.into()),
        ]
    }

    fn write_settings(&self, base_url: &str, directory: &Path) -> Result<(), EndpointError> {
        let redirected = |text: &str| {
            let mut file: toml::Table = toml::from_str(text).map_err(|error| error.to_string())?;
            redirect(&mut file, &format!("{base_url}/v1"));
            toml::to_string(&file).map_err(|error| error.to_string())
        };
        // A profile may be a file of its own.
        let names = Disk.names(directory).unwrap_or_default();
        let profiles = names.iter().map(Path::new);
        let profiles = profiles.filter(|it| it.to_string_lossy().ends_with(".config.toml"));
        for profile in profiles {
            // One that is not TOML is an error of the program, if it is used.
            let _ = edit(&directory.join(profile), redirected);
        }
        edit(&directory.join("config.toml"), redirected)
    }

    fn headless(&self, arguments: &[OsString]) -> Vec<OsString> {
        let has =
            |wanted: &[&str]| arguments.iter().any(|given| wanted.iter().any(|one| given == *one));
        let mut all = arguments.to_vec();
        if !has(&["exec", "e", "review", "app-server", "--version", "--help"]) {
            all.insert(0, "exec".into());
        }
        let exec = all.iter().position(|given| given == "exec" || given == "e");
        if let Some(exec) = exec.filter(|_| !has(&["--skip-git-repo-check"])) {
            all.insert(exec + 1, "--skip-git-repo-check".into());
        }
        all
    }

    fn pointed_arguments(
        &self,
        _commands: Commands,
        place: &OfflinePlace<'_>,
        users: &[String],
    ) -> Result<Vec<String>, EndpointError> {
        // Settings at the end of the command line override all others of it.
        let mut arguments = users.to_vec();
        let end = users.iter().position(|word| word == "--").unwrap_or(users.len());
        let base_url = place.server.base_url;
        let own = provider::addresses(users).into_iter();
        let own = own.flat_map(|name| ["-c".to_owned(), format!("{name}=\"{base_url}/v1\"")]);
        arguments.splice(end..end, own);
        Ok(arguments)
    }

    fn measured_arguments(&self, _commands: Commands, users: Vec<String>) -> Vec<String> {
        let exec = ["exec", "--skip-git-repo-check"].map(str::to_owned);
        exec.into_iter().chain(users).chain(["-".to_owned()]).collect()
    }

    fn measured_variables(
        &self,
        _conditions: Conditions,
        users: &BTreeMap<OsString, OsString>,
    ) -> Vec<(&'static str, Option<OsString>)> {
        // The request lists the directories that commands may write to, including this one.
        vec![("TMPDIR", users.get(OsStr::new("TMPDIR")).cloned())]
    }
}

/// Points every provider of a configuration to the server, without keys. The active provider stays active, because
/// the request depends on it. A provider that the file does not define cannot be redirected.
fn redirect(file: &mut toml::Table, base_url: &str) {
    const KEYS: [&str; 8] = [
        "env_key",
        "env_key_instructions",
        "experimental_bearer_token",
        "http_headers",
        "env_http_headers",
        "query_params",
        "auth",
        "aws",
    ];
    file.insert("openai_base_url".into(), base_url.into());
    // A command that runs after each turn, outside the model's requests.
    file.remove("notify");
    let mut described = Vec::new();
    if let Some(toml::Value::Table(providers)) = file.get_mut("model_providers") {
        for (name, provider) in providers.iter_mut() {
            let Some(provider) = provider.as_table_mut() else { continue };
            provider.retain(|key, _| !KEYS.contains(&key));
            provider.insert("base_url".into(), base_url.into());
            provider.insert("supports_websockets".into(), false.into());
            described.push(name.clone());
        }
    }
    let keep_described = |table: &mut toml::Table| {
        let named = table.get("model_provider").and_then(toml::Value::as_str);
        if named.is_some_and(|named| !described.iter().any(|known| known == named)) {
            table.remove("model_provider");
        }
    };
    keep_described(file);
    if let Some(toml::Value::Table(profiles)) = file.get_mut("profiles") {
        profiles.iter_mut().filter_map(|(_, it)| it.as_table_mut()).for_each(keep_described);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoke_agent::endpoint::configure;

    #[test]
    fn a_command_is_made_to_run_one_turn() {
        for (given, made) in [
            ("hello", "exec --skip-git-repo-check hello"),
            ("exec --json hi", "exec --skip-git-repo-check --json hi"),
            ("-m x e hi", "-m x e --skip-git-repo-check hi"),
            ("exec --skip-git-repo-check hi", "exec --skip-git-repo-check hi"),
        ] {
            let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
            assert_eq!(Codex.headless(&words(given)), words(made), "{given}");
        }
    }

    #[test]
    fn the_text_of_a_configuration_file_is_kept_and_one_that_is_none_is_refused_by_its_name() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(".codex/config.toml");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = "model = \"x\"\nmodel_provider = \"mine\"\n[a]\nb = 1\n";
        std::fs::write(&path, text).unwrap();
        configure(&Codex, "http://127.0.0.1:1", home.path()).unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "model = \"x\"\nopenai_base_url = \"http://127.0.0.1:1/v1\"\n\n[a]\nb = 1\n"
        );
        std::fs::write(&path, "model =").unwrap();
        let refused = configure(&Codex, "http://127.0.0.1:1", home.path()).unwrap_err();
        assert!(refused.to_string().contains(path.to_str().unwrap()), "{refused}");
    }

    #[test]
    fn every_provider_leads_to_the_server_without_its_keys() {
        let mut file: toml::Table = toml::from_str(
            "model_provider = \"mine\"\nnotify = [\"bell\"]\n[profiles.a]\nmodel_provider = \"none\"\nmodel = \"m\"\n\
             [model_providers.mine]\nname = \"Mine\"\nbase_url = \"https://x\"\nwire_api = \"chat\"\nenv_key = \"K\"\n\
             http_headers = { authorization = \"secret\" }\n",
        )
        .unwrap();
        redirect(&mut file, "http://s/v1");
        let expected: toml::Table = toml::from_str(
            "model_provider = \"mine\"\nopenai_base_url = \"http://s/v1\"\n[profiles.a]\nmodel = \"m\"\n\
             [model_providers.mine]\nname = \"Mine\"\nbase_url = \"http://s/v1\"\nwire_api = \"chat\"\nsupports_websockets = false\n",
        )
        .unwrap();
        assert_eq!(file, expected);
    }
}
