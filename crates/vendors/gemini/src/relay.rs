//! Gemini CLI: one of three variables sets the base URL, depending on the way of signing in.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use convoke_files::json::without_comments;
use convoke_files::{Disk, FileKind, Files};
use serde_json::Value;

use super::GeminiCli;
use convoke_agent::env_file;
use convoke_agent::launch::AskError;
use convoke_agent::relayed::{
    CannotRelay, CliStart, GOOGLE_SIGN_IN, ModelEndpoint, RedirectedStart, Relayable, is_missing,
    is_on,
};
use convoke_agent::turn_input::Trust;

/// A way of signing in: its variable, and the default endpoint.
const KEY: (&str, &str) = ("GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com");
const LOGIN: (&str, &str) = ("CODE_ASSIST_ENDPOINT", "https://cloudcode-pa.googleapis.com");
const VERTEX: (&str, &str) = ("GOOGLE_VERTEX_BASE_URL", "https://aiplatform.googleapis.com");

impl Relayable for GeminiCli {
    fn relayed_endpoint(
        &self,
        started: &CliStart<'_>,
        _status: &mut dyn FnMut() -> Result<Option<String>, AskError>,
    ) -> Result<ModelEndpoint, CannotRelay> {
        let user = User::new(started);
        let selected = user.selected_type()?;
        let (variable, usual) = match selected.as_deref() {
            Some(
                "oauth-personal"
                | "login-with-google"
                | "cloud-shell"
                | "compute-default-credentials",
            ) => LOGIN,
            Some("vertex-ai") => VERTEX,
            Some("gemini-api-key") => KEY,
            Some(other) => {
                let why = format!("Gemini CLI signs in with `{other}`, which is not relayed");
                return Err(CannotRelay::Unsupported(why));
            }
            None if user.is_on("GOOGLE_GENAI_USE_GCA") => LOGIN,
            None if user.is_on("GOOGLE_GENAI_USE_VERTEXAI") => VERTEX,
            None if user.text("GEMINI_API_KEY").is_some() => KEY,
            None => return Err(CannotRelay::SignIn("Gemini CLI")),
        };
        let base_url = match user.text(variable) {
            Some(own) => own,
            None if variable == VERTEX.0 => user.vertex(usual),
            None => usual.to_owned(),
        };
        Ok(ModelEndpoint {
            base_url,
            may_be_bound: false,
            key_is_unselected: selected.is_none() && variable == KEY.0,
            sign_in_hosts: if variable == KEY.0 { &[] } else { GOOGLE_SIGN_IN },
            is_first_party: true,
            settings: vec![variable.to_owned()],
        })
    }

    fn pointed(
        &self,
        started: &CliStart<'_>,
        settings: &[String],
        base_url: &str,
        _proxies: &[(&'static str, OsString)],
        _private_dir: &Path,
    ) -> Result<RedirectedStart, CannotRelay> {
        // Its variables count more than its files.
        let env = settings.iter().map(|name| (name.into(), base_url.into())).collect();
        Ok(RedirectedStart { arguments: started.arguments.to_vec(), env })
    }
}

/// Reads a settings file; without one, there are no settings.
fn read_settings(path: &Path) -> Result<Value, CannotRelay> {
    let unclear = |reason| CannotRelay::Unclear { path: path.to_owned(), reason };
    match Disk.read_text(path, FileKind::Configuration) {
        Ok(text) if text.trim().is_empty() => Ok(Value::Null),
        Ok(text) => serde_json::from_str(&without_comments(&text))
            .map_err(|error| unclear(error.to_string())),
        Err(error) if is_missing(&error) => Ok(Value::Null),
        Err(error) => Err(unclear(error.to_string())),
    }
}

/// The environment and the files that Gemini CLI reads.
struct User<'a> {
    started: &'a CliStart<'a>,
    home: PathBuf,
    /// The text of its `.env` file; it loads one.
    env_file: String,
}

impl<'a> User<'a> {
    fn new(started: &'a CliStart<'a>) -> Self {
        let home = started.variable("GEMINI_CLI_HOME").map(PathBuf::from);
        let home = home.unwrap_or_else(|| started.home());
        let env_file = env_file(started, &home).unwrap_or_default();
        Self { started, home, env_file }
    }

    /// Returns a variable: of the environment, where it is set, or of the `.env` file.
    fn text(&self, name: &str) -> Option<String> {
        if self.started.env.iter().any(|(key, _)| key == name) {
            return self.started.text(name);
        }
        env_file::value(&self.env_file, name).filter(|value| !value.is_empty())
    }

    fn is_on(&self, name: &str) -> bool {
        self.text(name).is_some_and(|value| is_on(&value))
    }

    /// Returns the way of signing in that settings select; those of the machine count most.
    fn selected_type(&self) -> Result<Option<String>, CannotRelay> {
        let machine = self.started.etc.join("gemini-cli");
        let project = self.started.cwd.join(".gemini/settings.json");
        let is_trusted = self.started.trust == Trust::Trusted;
        let paths = [
            Some(machine.join("settings.json")),
            is_trusted.then_some(project),
            Some(self.home.join(".gemini/settings.json")),
            Some(machine.join("system-defaults.json")),
        ];
        for path in paths.into_iter().flatten() {
            let settings = read_settings(&path)?;
            if let Some(selected) = settings["security"]["auth"]["selectedType"].as_str() {
                return Ok(Some(selected.to_owned()));
            }
        }
        Ok(None)
    }

    /// A location of Vertex has a host of its own; a key has none.
    fn vertex(&self, usual: &str) -> String {
        let location = self.text("GOOGLE_CLOUD_LOCATION");
        match location.filter(|location| location != "global") {
            Some(location) if matches!(&*location, "us" | "eu") => {
                format!("https://aiplatform.{location}.rep.googleapis.com")
            }
            Some(location) if self.text("GOOGLE_API_KEY").is_none() => {
                format!("https://{location}-aiplatform.googleapis.com")
            }
            _ => usual.to_owned(),
        }
    }
}

/// Reads the `.env` file that the program loads: the first that it finds from the working directory upwards, then in the
/// home. Of a project that is not trusted, its variables are withheld.
fn env_file(started: &CliStart<'_>, home: &Path) -> Option<String> {
    let in_directory = |directory: &Path| {
        let files = [directory.join(".gemini/.env"), directory.join(".env")];
        files.into_iter().find(|path| path.exists())
    };
    let mut above = started.cwd.ancestors();
    let found = above.find_map(|directory| Some((directory, in_directory(directory)?)));
    let path = match found {
        Some((directory, _)) if started.trust != Trust::Trusted && directory != home => {
            return None;
        }
        Some((_, path)) => path,
        None => in_directory(home)?,
    };
    Disk.read_text(&path, FileKind::Variables).ok()
}
