//! Starts a CLI so that it sends the same requests as it would for its user.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use super::offline::{OfflinePlace, pointed_arguments, withholding};
use super::{EndpointError, is_setting};
use crate::vendor::Vendor;

/// The conditions of a measured run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conditions {
    /// Whether commands named in settings (hooks, MCP servers) are run.
    pub commands: Commands,
    /// Whether the program treats the server as its vendor's. Claude Code then spends seconds on requests for
    /// the vendor's settings.
    pub as_vendors: bool,
}

/// Whether commands named in settings are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commands {
    /// Run, as the program would.
    Run,
    /// Not run, where the program would not ask its user first.
    Withheld,
}

/// Returns the arguments of one turn with the prompt on standard input: Convoke's, then the user's.
pub fn arguments(
    vendor: Vendor,
    commands: Commands,
    place: &OfflinePlace<'_>,
    users: &[String],
) -> Result<Vec<String>, EndpointError> {
    let mut arguments: Vec<String> = Vec::new();
    let users = pointed_arguments(vendor, commands, place, users)?;
    match vendor {
        Vendor::Claude => {
            arguments.push("-p".into());
            arguments.extend(withholding(commands));
            arguments.extend(users);
        }
        Vendor::Codex => {
            arguments.extend(["exec", "--skip-git-repo-check"].map(str::to_owned));
            arguments.extend(users);
            arguments.push("-".into());
        }
        Vendor::Gemini => arguments.extend(users),
    }
    Ok(arguments)
}

/// Returns the variables to set in addition to those of [`super::environment`]; one without a value is removed.
pub fn environment(
    vendor: Vendor,
    conditions: Conditions,
    users: &BTreeMap<OsString, OsString>,
) -> Vec<(OsString, Option<OsString>)> {
    let settings = users.iter().filter(|(name, _)| is_setting(vendor, name));
    let mut variables: Vec<(OsString, Option<OsString>)> =
        settings.map(|(name, value)| (name.clone(), Some(value.clone()))).collect();
    let mut set = |name: &str, value: Option<OsString>| variables.push((name.into(), value));
    match vendor {
        Vendor::Claude if !conditions.as_vendors => {}
        // Requests to the user's gateway differ from those to the vendor.
        Vendor::Claude if users.contains_key(OsStr::new(vendor.facts().address_variable)) => {}
        Vendor::Claude => set("_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL", Some("1".into())),
        // The request lists the directories that commands may write to, including this one.
        Vendor::Codex => set("TMPDIR", users.get(OsStr::new("TMPDIR")).cloned()),
        // Without commands, the user's trust setting of the program applies.
        Vendor::Gemini if conditions.commands == Commands::Withheld => {
            const TRUST: &str = "GEMINI_CLI_TRUST_WORKSPACE";
            set(TRUST, users.get(OsStr::new(TRUST)).cloned());
        }
        Vendor::Gemini => {}
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let names: Vec<_> = environment(Vendor::Claude, conditions, &users)
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
        assert!(environment(Vendor::Claude, conditions, &gateway).is_empty());
    }
}
