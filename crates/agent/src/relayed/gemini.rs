//! Gemini CLI: one of three variables sets the base URL, depending on the way of signing in.

use std::path::PathBuf;

use convoke_files::json::without_comments;
use convoke_files::{Disk, FileKind, Files};
use serde_json::Value;

use super::{CannotRelay, CliStart, EndpointSetting, ModelEndpoint};

/// A way of signing in: its variable, and the default endpoint.
const KEY: (&str, &str) = ("GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com");
const LOGIN: (&str, &str) = ("CODE_ASSIST_ENDPOINT", "https://cloudcode-pa.googleapis.com");
const VERTEX: (&str, &str) = ("GOOGLE_VERTEX_BASE_URL", "https://aiplatform.googleapis.com");

/// The hosts that renew a Google sign-in, for the account of a person, a service or a workload.
pub(super) const GOOGLE_SIGN_IN: &[&str] =
    &["oauth2.googleapis.com", "sts.googleapis.com", "iamcredentials.googleapis.com"];

pub(super) fn endpoint(started: &CliStart<'_>) -> Result<ModelEndpoint, CannotRelay> {
    let home = started.variable("GEMINI_CLI_HOME").map(PathBuf::from);
    let home = home.unwrap_or_else(|| started.home());
    let path = home.join(".gemini/settings.json");
    let text = Disk.read_text(&path, FileKind::Configuration).unwrap_or_default();
    let settings: Value = serde_json::from_str(&without_comments(&text)).unwrap_or_default();
    let selected = settings["security"]["auth"]["selectedType"].as_str();
    let (variable, usual) = match selected {
        Some(
            "oauth-personal" | "login-with-google" | "cloud-shell" | "compute-default-credentials",
        ) => LOGIN,
        Some("vertex-ai") => VERTEX,
        Some("gemini-api-key") => KEY,
        Some(other) => {
            let why = format!("Gemini CLI signs in with `{other}`, which is not relayed");
            return Err(CannotRelay::Unsupported(why));
        }
        None if started.is_on("GOOGLE_GENAI_USE_GCA") => LOGIN,
        None if started.is_on("GOOGLE_GENAI_USE_VERTEXAI") => VERTEX,
        None if started.variable("GEMINI_API_KEY").is_some() => KEY,
        None => return Err(CannotRelay::SignIn("Gemini CLI")),
    };
    let base_url = match started.text(variable) {
        Some(own) => own,
        None if variable == VERTEX.0 => vertex(started, usual),
        None => usual.to_owned(),
    };
    Ok(ModelEndpoint {
        base_url,
        may_be_bound: false,
        key_is_unselected: selected.is_none() && variable == KEY.0,
        sign_in_hosts: if variable == KEY.0 { &[] } else { GOOGLE_SIGN_IN },
        pointer: EndpointSetting::Variable(variable),
    })
}

/// Returns the host of Vertex: each location has its own; with a key there is no location.
fn vertex(started: &CliStart<'_>, usual: &str) -> String {
    let location = started.text("GOOGLE_CLOUD_LOCATION");
    match location.filter(|location| location != "global") {
        Some(location) if matches!(&*location, "us" | "eu") => {
            format!("https://aiplatform.{location}.rep.googleapis.com")
        }
        Some(location) if started.variable("GOOGLE_API_KEY").is_none() => {
            format!("https://{location}-aiplatform.googleapis.com")
        }
        _ => usual.to_owned(),
    }
}
