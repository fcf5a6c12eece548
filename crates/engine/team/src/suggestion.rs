//! Finds the setting that a wrong word means when the spelling is not similar.

use convoke_core::name::nearest;
use toml::de::DeValue;

/// The setting that a wrong word probably means.
pub(crate) struct SuggestedSetting {
    pub(crate) setting: &'static str,
    /// The fix, if it is more than the name of the setting.
    pub(crate) fix: Option<String>,
}

const MEANT: &[(&str, &[&str])] = &[
    ("agent", &["type", "kind", "provider", "cli", "assistant"]),
    ("args", &["arguments", "flags", "options"]),
    ("base-url", &["url", "endpoint", "host", "address", "api-base", "server"]),
    ("briefing", &["preamble"]),
    ("command", &["cmd", "program", "exec", "binary", "path"]),
    ("context-window", &["context-length", "context-size", "num-ctx", "n-ctx"]),
    ("cwd", &["directory", "dir", "workdir", "working-directory"]),
    ("display-name", &["title", "label", "nickname"]),
    ("env", &["environment", "variables"]),
    ("fence", &["fencing", "indent"]),
    ("human", &["person", "user"]),
    ("instructions", &["prompt", "system", "system-prompt", "persona", "message"]),
    ("instructions-file", &["file", "prompt-file", "system-prompt-file"]),
    ("key-env", &["key", "api-key", "apikey", "token", "api-key-env", "secret"]),
    ("limits", &["limit", "budget", "timeouts"]),
    (
        "max-bytes",
        &[
            "budget",
            "bytes",
            "limit",
            "size",
            "max-size",
            "max-tokens",
            "max-output-tokens",
            "tokens",
        ],
    ),
    (
        "member",
        &[
            "agent",
            "agents",
            "assistant",
            "assistants",
            "bot",
            "bots",
            "participant",
            "participants",
            "person",
            "people",
            "role",
            "roles",
            "team",
            "user",
            "users",
        ],
    ),
    ("name", &["id", "role-id", "role-name"]),
    ("parallel", &["concurrent", "concurrency", "async"]),
    ("role-summary", &["role", "description", "summary", "about"]),
    ("sandbox", &["permission", "permissions", "approval", "approvals", "access"]),
    ("task", &["goal", "objective", "team-task"]),
    ("turn-timeout", &["timeout", "time-limit"]),
    ("turns", &["max-turns", "rounds", "max-rounds"]),
    ("visibility", &["visible"]),
    ("window", &["messages", "history", "max-messages"]),
];

/// Settings of other programs that have no counterpart.
const ABSENT: &[(&[&str], &str)] = &[
    (
        &["include", "includes", "import", "imports", "extends", "extend", "inherit"],
        "a team file includes no other; put everything into this one",
    ),
    (
        &["temperature", "top-p", "seed", "reasoning", "effort", "reasoning-effort"],
        "an agent's program has its own configuration for this",
    ),
    (
        &["mcp", "mcp-servers", "mcpservers", "skills", "plugins"],
        "each agent loads its own; `convoke explain` and its program's configuration show them",
    ),
];

/// Returns the setting of another table that a word means. Short names are excluded, because they resemble too
/// many others.
pub(crate) fn meant_elsewhere(
    written: &str,
    value: &DeValue<'_>,
    known: &[&'static str],
) -> Option<SuggestedSetting> {
    let word = normalized(written);
    let is_synonym = MEANT.iter().any(|(_, words)| words.contains(&&*word));
    (is_synonym || word.len() > 4).then(|| meant(written, value, known)).flatten()
}

/// Returns the setting that a word means: one with a similar spelling, or a synonym.
pub(crate) fn meant(
    written: &str,
    value: &DeValue<'_>,
    known: &[&'static str],
) -> Option<SuggestedSetting> {
    let word = normalized(written);
    let near = nearest(written, known.iter().copied());
    let setting = near.or_else(|| {
        let mut found = MEANT.iter().filter(|(setting, _)| known.contains(setting));
        found.find(|(_, words)| words.contains(&&*word)).map(|(setting, _)| *setting)
    })?;
    Some(SuggestedSetting { setting, fix: fix(&word, setting, value) })
}

/// Returns the reason why a setting of other programs does not exist.
pub(crate) fn absent(written: &str) -> Option<&'static str> {
    let word = normalized(written);
    ABSENT.iter().find(|(words, _)| words.contains(&&*word)).map(|(_, why)| *why)
}

fn normalized(written: &str) -> String {
    written.to_ascii_lowercase().replace('_', "-")
}

/// Returns the fix if the value must change with the name.
fn fix(word: &str, setting: &str, value: &DeValue<'_>) -> Option<String> {
    let text = value.as_str().filter(|text| is_plain(text));
    match setting {
        "agent" if text.is_some_and(is_person) => Some("write `human = true`".to_owned()),
        "agent" => Some(format!("write `agent = \"{}\"`", text?)),
        "human" => Some("write `human = true`".to_owned()),
        "key-env" => Some(
            "write `key-env = \"MODEL_KEY\"`: the name of the variable that holds the key, not the key"
                .to_owned(),
        ),
        "max-bytes" if word.contains("token") => Some(
            "write `max-bytes = \"256 KiB\"`, which limits a prompt in bytes".to_owned(),
        ),
        _ => None,
    }
}

/// Returns whether a word means a person.
pub(crate) fn is_person(word: &str) -> bool {
    matches!(normalized(word).as_str(), "human" | "person" | "user" | "me" | "people")
}

/// Returns whether a fix may repeat a text: a short name that cannot be a key.
pub(crate) fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 20
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}
