//! A private home for Gemini CLI, for one turn.
//!
//! It contains the user's settings overridden by Convoke's, and links: to the rest of the user's home (the
//! sign-in, memory, extensions), and to a directory of sessions that persists. The program replaces files in
//! its home, so none of them can be protected; but files that an agent leaves there are removed with the turn.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use convoke_files::json::without_comments;
use convoke_files::{Disk, FileKind, Files};
use convoke_protocol::verdict::Failure;
use serde_json::{Value, json};

use convoke_agent::adapter::{Context, write_private};
use convoke_agent::process::PrivateDir;
use convoke_agent::team_tools::{McpServer, SERVER};
use convoke_agent::turn_input::Permissions;

/// The entries of the user's home that are not shared.
const OWN: &[&str] = &["settings.json", "tmp", "history", "projects.json"];
/// The entries that are kept between turns: transcripts, and copies of files before their changes.
const KEPT: [&str; 2] = ["tmp", "history"];

/// The entries whose rules would answer in place of a person.
const ANSWERING: &[&str] = &["policies"];

/// Prepares the home and returns it. The path is the same in all turns of a member, because it is part of what
/// the program sends.
pub(super) fn prepare(context: &Context<'_>) -> io::Result<PrivateDir> {
    let root = &context.host.temp_root;
    let home = match &context.turn_input.thread {
        Some(thread) => PrivateDir::create_for(root, thread.as_str())?,
        None => PrivateDir::create(root)?,
    };
    let ours = home.path().join(".gemini");
    let kept = context.host.state_dir.join("gemini/.gemini");
    // Sessions are private transcripts.
    let mut private = DirBuilder::new();
    private.recursive(true).mode(0o700).create(&ours)?;
    for name in KEPT {
        private.create(kept.join(name))?;
        link(&kept.join(name), &ours.join(name))?;
    }
    let mut settings = Value::Null;
    if let Some(home_of_user) = users_home(context) {
        let asks = context.permissions() == Permissions::Ask;
        link_home(&home_of_user, home.path(), if asks { ANSWERING } else { &[] })?;
        settings = read_settings(&home_of_user.join(".gemini/settings.json"))?;
    }
    let attempts = context.turn_input.limits.retries + 1;
    let mut settings = with_ours(settings, attempts);
    if context.permissions() == Permissions::Ask {
        ask_for_every_tool(&mut settings);
    }
    let is_set = |name: &str| context.variable(name).is_some_and(|value| !value.is_empty());
    if is_set("GOOGLE_GEMINI_BASE_URL") && is_set("GEMINI_API_KEY") {
        select_key(&mut settings);
    }
    if let Some(server) = &context.team_server {
        add_team_tools(&mut settings, server, context.turn_input.limits.turn);
    }
    write_private(&ours.join("settings.json"), settings.to_string().as_bytes())?;
    Ok(home)
}

/// Prepares a home that has the user's settings as they are, for a program that is only observed. Returns the program's
/// directory in it.
pub fn prepare_observed(users_home: &Path, home: &Path) -> io::Result<PathBuf> {
    let ours = home.join(".gemini");
    DirBuilder::new().recursive(true).mode(0o700).create(&ours)?;
    link_home(users_home, home, &[])?;
    let users = users_home.join(".gemini/settings.json");
    match Disk.read_text(&users, FileKind::Configuration) {
        Ok(settings) => write_private(&ours.join("settings.json"), settings.as_bytes())?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(ours)
}

/// Returns the variables that give Convoke's settings precedence over a project's: the machine's settings,
/// which the program applies last, overridden by Convoke's.
///
/// Unreadable machine settings are left in place, and the program reports them.
pub(super) fn settings_above_projects(
    context: &Context<'_>,
) -> Result<Vec<(OsString, OsString)>, Failure> {
    let variable = |name| context.variable(name).map(PathBuf::from);
    let machines = variable(SYSTEM_SETTINGS)
        .unwrap_or_else(|| Path::new(MACHINE_CONFIGURATION).join("settings.json"));
    let settings = match Disk.read_text(&machines, FileKind::Configuration) {
        Ok(text) => match serde_json::from_str(&without_comments(&text)) {
            Ok(settings) => settings,
            Err(_) => return Ok(Vec::new()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Value::Null,
        Err(_) => return Ok(Vec::new()),
    };
    let mut settings = with_ours(settings, context.turn_input.limits.retries + 1);
    if context.permissions() == Permissions::Ask {
        ask_for_every_tool(&mut settings);
    }
    let ours = context.write_private("settings.json", settings.to_string())?;
    // Without this variable, the program looks for the defaults beside the settings.
    let defaults = variable(SYSTEM_DEFAULTS)
        .unwrap_or_else(|| machines.with_file_name("system-defaults.json"));
    Ok(vec![(SYSTEM_SETTINGS.into(), ours.into()), (SYSTEM_DEFAULTS.into(), defaults.into())])
}

const SYSTEM_SETTINGS: &str = "GEMINI_CLI_SYSTEM_SETTINGS_PATH";
const SYSTEM_DEFAULTS: &str = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH";

/// The directory of the machine's settings.
const MACHINE_CONFIGURATION: &str = if cfg!(target_os = "macos") {
    "/Library/Application Support/GeminiCli"
} else {
    "/etc/gemini-cli"
};

fn users_home(context: &Context<'_>) -> Option<PathBuf> {
    let home = context.variable("GEMINI_CLI_HOME");
    home.or_else(|| context.variable("HOME")).map(PathBuf::from)
}

/// Reads a file of settings; one that is not there has none. Settings that cannot be read are not taken for none: they may
/// withhold tools.
fn read_settings(path: &Path) -> io::Result<Value> {
    let explained = |kind, reason: &dyn std::fmt::Display| {
        io::Error::new(kind, format!("`{}`: {reason}", path.display()))
    };
    let text = match Disk.read_text(path, FileKind::Configuration) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Value::Null),
        read => read.map_err(|error| explained(error.kind(), &error))?,
    };
    let text = without_comments(&text);
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(&text).map_err(|error| explained(io::ErrorKind::InvalidData, &error))
}

/// Merges Convoke's settings into the user's: few retries, no telemetry, no file search.
fn with_ours(mut settings: Value, attempts: u32) -> Value {
    if !settings.is_object() {
        settings = json!({});
    }
    let mut set = |path: [&str; 2], value: Value| {
        let group = &mut settings[path[0]];
        if !group.is_object() {
            *group = json!({});
        }
        group[path[1]] = value;
    };
    set(["general", "maxAttempts"], json!(attempts));
    set(["general", "enableAutoUpdate"], json!(false));
    set(["privacy", "usageStatisticsEnabled"], json!(false));
    set(["telemetry", "enabled"], json!(false));
    set(["context", "includeDirectories"], json!([]));
    // Otherwise, commands would get a pseudo-terminal, which the sandbox does not allow.
    let shell = settings.pointer_mut("/tools/shell").map(Value::take).unwrap_or_default();
    let mut shell = if shell.is_object() { shell } else { json!({}) };
    shell["enableInteractiveShell"] = json!(false);
    if !settings["tools"].is_object() {
        settings["tools"] = json!({});
    }
    settings["tools"]["shell"] = shell;
    let filtering = settings["context"]["fileFiltering"].take();
    let mut filtering = if filtering.is_object() { filtering } else { json!({}) };
    filtering["enableRecursiveFileSearch"] = json!(false);
    settings["context"]["fileFiltering"] = filtering;
    settings
}

/// Removes the tools that are allowed without a question.
fn ask_for_every_tool(settings: &mut Value) {
    settings["tools"]["allowed"] = json!([]);
}

/// Returns the files of the project whose rules answer in place of a person and cannot be withheld from the
/// program.
pub(super) fn answering_files(context: &Context<'_>) -> Vec<PathBuf> {
    let project = context.turn_input.cwd.join(".gemini");
    let has_rules = match read_settings(&project.join("settings.json")) {
        Ok(settings) => settings["tools"]["allowed"].as_array().is_some_and(|it| !it.is_empty()),
        // The program may read what Convoke cannot.
        Err(_) => true,
    };
    let settings = has_rules.then(|| project.join("settings.json"));
    let policies = Some(project.join("policies")).filter(|path| path.is_dir());
    settings.into_iter().chain(policies).collect()
}

/// Selects the key in the environment, unless the user has selected another way to sign in. With a base URL,
/// the program would otherwise use a gateway's sign-in.
fn select_key(settings: &mut Value) {
    if !settings["security"].is_object() {
        settings["security"] = json!({});
    }
    let auth = &mut settings["security"]["auth"];
    if !auth.is_object() {
        *auth = json!({});
    }
    if auth["selectedType"].is_null() {
        auth["selectedType"] = json!("gemini-api-key");
    }
}

/// Adds the server of the team tools, which needs no permission.
fn add_team_tools(settings: &mut Value, server: &McpServer, timeout: Duration) {
    if !settings["mcpServers"].is_object() {
        settings["mcpServers"] = json!({});
    }
    let mut own = server.settings();
    own["trust"] = true.into();
    own["timeout"] = json!(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
    settings["mcpServers"][SERVER] = own;
}

/// Links the entries of the user's home that are shared.
fn link_home(users_home: &Path, home: &Path, except: &[&str]) -> io::Result<()> {
    let (users, ours) = (users_home.join(".gemini"), home.join(".gemini"));
    // The program falls back to the `.env` of its home.
    link(&users_home.join(".env"), &home.join(".env"))?;
    let Ok(entries) = std::fs::read_dir(&users) else {
        return Ok(());
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if !OWN.iter().chain(except).any(|own| name == *own) {
            link(&entry.path(), &ours.join(&name))?;
        }
    }
    Ok(())
}

fn link(users: &Path, ours: &Path) -> io::Result<()> {
    if !users.exists() || ours.symlink_metadata().is_ok() {
        return Ok(());
    }
    match symlink(users, ours) {
        // Another turn created it at the same time.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_settings_stay_and_ours_override_them() {
        let users = r#"{
            // signed in with a key
            "security": {"auth": {"selectedType": "gemini-api-key"}}, /* "x" */
            "general": {"maxAttempts": 50, "vimMode": true},
            "url": "http://example.com/*not a comment*/"
        }"#;
        let settings: Value = serde_json::from_str(&without_comments(users)).unwrap();
        let merged = with_ours(settings, 4);
        assert_eq!(merged["security"]["auth"]["selectedType"], "gemini-api-key");
        assert_eq!(
            merged["general"],
            json!({"maxAttempts": 4, "vimMode": true, "enableAutoUpdate": false})
        );
        assert_eq!(merged["url"], "http://example.com/*not a comment*/");
        assert_eq!(merged["privacy"]["usageStatisticsEnabled"], false);
    }
}
