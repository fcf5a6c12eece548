//! Selects the user's variables that a sandboxed program does not get.

use std::ffi::OsStr;

use convoke_redact::is_secret_name;

/// Variables that point to programs outside the sandbox, which would act for the agent. Those of the terminal
/// and the screen accept keys, and show what others typed.
const OUTSIDE: &[&str] = &[
    "DISPLAY",
    "DOCKER_HOST",
    "GPG_AGENT_INFO",
    "SSH_AUTH_SOCK",
    "TMUX",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
];
/// The prefix of variables that point to the user's session bus.
const BUS: &str = "DBUS_";

/// Variables whose names look like secrets, but whose values are names of settings.
const NO_SECRETS: &[&str] = &["GIT_CONFIG_KEY_*"];

/// The variables with secrets that an agent gets.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnVariables {
    /// Names; `*` at the start or end matches any characters.
    pub names: Vec<String>,
    /// Texts of the program's configuration, which name variables.
    pub texts: Vec<String>,
}

impl OwnVariables {
    /// Returns whether the agent gets one of the user's variables.
    pub fn is_passed_on(&self, name: &OsStr, value: &OsStr) -> bool {
        let Some(name) = name.to_str() else { return true };
        let is_own = || self.names.iter().any(|own| matches(own, name)) || self.is_named(name);
        let leads_outside = OUTSIDE.contains(&name) || name.starts_with(BUS);
        if leads_outside || is_secret(name, value) { is_own() } else { true }
    }

    /// Returns whether the program's configuration names a variable.
    fn is_named(&self, name: &str) -> bool {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_whole = |(at, found): (usize, &str), text: &str| {
            !text[..at].ends_with(is_part) && !text[at + found.len()..].starts_with(is_part)
        };
        self.texts.iter().any(|text| text.match_indices(name).any(|found| is_whole(found, text)))
    }
}

fn is_secret(name: &str, value: &OsStr) -> bool {
    // A number of tokens, for example of a model's answer.
    let is_number = || value.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let is_count = name.to_ascii_uppercase().ends_with("TOKENS") && is_number();
    is_secret_name(name) && !is_count && !NO_SECRETS.iter().any(|known| matches(known, name))
}

fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_passed_on_only_to_the_program_that_they_belong_to() {
        let own = OwnVariables {
            names: ["ANTHROPIC_*", "*_API_KEY", "NPM_TOKEN"].map(str::to_owned).into(),
            texts: vec!["env_key = \"MY_TOKEN\"\nother = OUR_MY_SECRET".to_owned()],
        };
        for (name, value, is_passed_on) in [
            ("PATH", "/bin", true),
            ("AWS_SECRET_ACCESS_KEY", "x", false),
            ("GITHUB_TOKEN", "x", false),
            ("PGPASSWORD", "1234", false),
            ("ANTHROPIC_AUTH_TOKEN", "x", true),
            ("MISTRAL_API_KEY", "x", true),
            ("NPM_TOKEN", "x", true),
            ("MY_TOKEN", "x", true),
            ("MY_SECRET", "x", false),
            ("MAX_THINKING_TOKENS", "8000", true),
            ("MY_TOKENS", "a b", false),
            ("GIT_CONFIG_KEY_0", "core.pager", true),
            ("TMUX", "x", false),
            ("XDG_RUNTIME_DIR", "/run/user/1000", false),
            ("DBUS_SESSION_BUS_ADDRESS", "x", false),
        ] {
            let found = own.is_passed_on(OsStr::new(name), OsStr::new(value));
            assert_eq!(found, is_passed_on, "{name}");
        }
    }
}
