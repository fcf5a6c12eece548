//! The arguments of an agent's configuration. `app-server` takes few options of Codex; those that it takes in another form are
//! translated, the others are refused.

use std::path::Path;

use convoke_agent::adapter::{Context, start_failure};
use convoke_agent::arguments::{Arguments, KnownOption, refusal};
use convoke_agent::config::Protocol;
use convoke_files::limit::read_named_text;
use convoke_files::{Disk, FileKind, Files as _};
use convoke_protocol::verdict::Failure;
use serde_json::Value;
use toml::Table;

use super::provider;

const MODEL: KnownOption = KnownOption::with_value(&["-m", "--model"]);
const PROFILE: KnownOption = KnownOption::with_value(&["-p", "--profile"]);
const SCHEMA: KnownOption = KnownOption::with_value(&["--output-schema"]);

/// Options that Convoke sets itself, with both protocols.
const REFUSED: &[(&[KnownOption], &str)] = &[
    (
        &[
            KnownOption::with_value(&["-s", "--sandbox", "-a", "--ask-for-approval"]),
            KnownOption::flag(&[
                "--full-auto",
                "--yolo",
                "--approve-for-me",
                "--dangerously-bypass-approvals-and-sandbox",
            ]),
        ],
        "the `sandbox` of the member decides what it may do",
    ),
    (&[KnownOption::with_value(&["-C", "--cd"])], "the `cwd` of the member is set"),
    (
        &[KnownOption::with_value(&["-i", "--image"])],
        "mention the image in a message, for example as `@pic.png`",
    ),
    (
        &[KnownOption::flag(&[
            "--json",
            "--skip-git-repo-check",
            "-h",
            "--help",
            "-V",
            "--version",
        ])],
        "Convoke reads the output of the program",
    ),
];

/// Options that only `codex exec`, or the program's own screen, takes.
const NOT_OF_THE_SERVER: &[(&[KnownOption], &str)] = &[
    (
        &[
            KnownOption::with_value(&["-o", "--output-last-message", "--color", "--thread-source"]),
            KnownOption::flag(&["--ephemeral", "--ignore-user-config", "--ignore-rules"]),
        ],
        "only `codex exec` takes it; set `protocol = \"exec\"`",
    ),
    (
        &[KnownOption::flag(&["--oss"]), KnownOption::with_value(&["--local-provider"])],
        "choose the provider with `-c model_provider=\"NAME\"`",
    ),
    (
        &[KnownOption::with_value(&["--add-dir"])],
        "name the directory as `writable` of the agent in agents.toml",
    ),
    (
        &[KnownOption::flag(&["--search", "--no-alt-screen", "--no-daemon", "--worktree"])],
        "the program takes it only on its own screen; use `-c` for a setting",
    ),
];

/// The arguments of an agent's configuration.
#[derive(Debug)]
pub(super) struct GivenArguments {
    /// Those that are passed on, with the settings of a profile.
    pub rest: Vec<String>,
    /// The model, where neither member nor session has one.
    pub model: Option<String>,
    /// The schema of the reply, which the app server takes with the turn.
    pub schema: Option<Value>,
}

impl GivenArguments {
    /// Reads the arguments of the agent's configuration.
    pub fn read(context: &Context<'_>) -> Result<Self, Failure> {
        let mut given = Arguments::new(&context.definition.args);
        for (options, why) in REFUSED {
            given.refuse(options, why)?;
        }
        let model = given.take(&MODEL);
        if model.is_some() && context.model().is_some() {
            return Err(refusal(MODEL.names[1], "the `model` of the member is set"));
        }
        if context.definition.protocol == Protocol::Exec {
            return Ok(Self { rest: given.into_rest(), model, schema: None });
        }
        for (options, why) in NOT_OF_THE_SERVER {
            given.refuse(options, why)?;
        }
        let settings = match given.take(&PROFILE) {
            Some(name) => profile(context, &name)?,
            None => Vec::new(),
        };
        let schema = given.take(&SCHEMA);
        let schema =
            schema.map(|path| read_schema(&context.turn_input.cwd.join(path))).transpose()?;
        // Settings in arguments count more than those of a profile.
        let settings = settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]);
        let rest = settings.chain(given.into_rest()).collect();
        Ok(Self { rest, model, schema })
    }
}

/// Returns the settings of a profile: those of its own file (from 0.99 on), else the setting that selects a table of the
/// configuration.
fn profile(context: &Context<'_>, name: &str) -> Result<Vec<String>, Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(refusal(
            PROFILE.names[1],
            "the name of a profile has letters, digits, - and _",
        ));
    }
    let path = provider::home(context).map(|home| home.join(format!("{name}.config.toml")));
    let Some(path) = path.filter(|path| path.exists()) else {
        let is_known =
            provider::config(context).get("profiles").is_some_and(|it| it.get(name).is_some());
        let missing = format!(
            "codex has no profile `{name}`: neither `{name}.config.toml` nor a table of `config.toml`"
        );
        return if is_known {
            Ok(vec![format!("profile=\"{name}\"")])
        } else {
            Err(refusal(PROFILE.names[1], &missing))
        };
    };
    let unreadable = |why: String| start_failure(format!("cannot read {}: {why}", path.display()));
    let text = read_named_text(&path, FileKind::Configuration);
    let text = text.map_err(|error| unreadable(error.to_string()))?;
    let table: Table =
        toml::from_str(&text).map_err(|error| unreadable(error.message().to_owned()))?;
    let mut settings = Vec::new();
    flatten("", table, &mut settings);
    Ok(settings)
}

/// Writes each value of a table as a setting with its path. A table with a key that cannot be part of a path is one value.
fn flatten(path: &str, table: Table, settings: &mut Vec<String>) {
    let is_plain = |key: &str| {
        !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    for (key, value) in table {
        let path = if path.is_empty() { key } else { format!("{path}.{key}") };
        match value {
            toml::Value::Table(inner) if inner.keys().all(|key| is_plain(key)) => {
                flatten(&path, inner, settings);
            }
            value => settings.push(format!("{path}={value}")),
        }
    }
}

fn read_schema(path: &Path) -> Result<Value, Failure> {
    let unreadable = |why: String| start_failure(format!("cannot read {}: {why}", path.display()));
    let text = Disk.read_text(path, FileKind::Configuration);
    let text = text.map_err(|error| unreadable(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_a_profile_are_settings_with_their_path() {
        let table = "model = \"m\"\n[a.b]\nc = [1, 2]\n[servers.\"x y\"]\nurl = \"u\"\n";
        let mut settings = Vec::new();
        flatten("", toml::from_str(table).unwrap(), &mut settings);
        settings.sort();
        assert_eq!(
            settings,
            ["a.b.c=[1, 2]", "model=\"m\"", "servers={ \"x y\" = { url = \"u\" } }"]
        );
    }
}
