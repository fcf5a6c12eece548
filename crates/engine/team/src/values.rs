//! Typed values of settings, as written in the team file and `agents.toml`.

use convoke_core::Visibility;
use convoke_core::marker::TextPolicy;
use convoke_core::name::nearest;
use serde::{Deserialize, Serialize};

/// The words of a setting.
#[derive(Debug, Clone, Copy)]
pub struct Words<'w, T> {
    /// Every word with its meaning.
    pub words: &'w [(&'static str, T)],
    /// Words of other programs, each with its equivalent here.
    pub foreign: &'w [(&'static str, &'static str)],
}

impl<T: Copy> Words<'_, T> {
    /// Returns the word that an invalid one probably means.
    pub fn nearest(&self, written: &str) -> Option<&'static str> {
        let written = written.to_ascii_lowercase().replace('_', "-");
        let foreign = self.foreign.iter().find(|(word, _)| *word == written);
        foreign
            .map(|(_, word)| *word)
            .or_else(|| nearest(&written, self.words.iter().map(|(word, _)| *word)))
    }

    /// Parses a word.
    pub fn parse(&self, written: &str) -> Option<T> {
        self.words.iter().find(|(word, _)| *word == written).map(|(_, value)| *value)
    }

    /// Returns the words in quotes, for error messages.
    pub fn list(&self) -> String {
        let quoted: Vec<String> =
            self.words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        match &quoted[..] {
            [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
            _ => quoted.concat(),
        }
    }
}

/// A setting whose value is one of several fixed words.
pub trait Word: Copy + 'static {
    /// The words.
    const WORDS: Words<'static, Self>;
}

/// Defines the words of settings.
macro_rules! words {
    ($(
        $type:ident { $($value:ident = $word:literal),+ }
        $([$($foreign:literal => $meant:literal),+])?
    )+) => {$(
        impl $type {
            /// Returns its word in a file.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $word),+
                }
            }

            /// Parses its word.
            pub fn parse(word: &str) -> Option<Self> {
                Self::WORDS.parse(word)
            }
        }

        impl Word for $type {
            const WORDS: Words<'static, Self> = Words {
                words: &[$(($word, Self::$value)),+],
                foreign: &[$($(($foreign, $meant)),+)?],
            };
        }
    )+};
}

words! {
    ChangesInContext { None = "none", Stat = "stat", Diff = "diff" }
    Permissions {
        ReadOnly = "read-only",
        Ask = "ask",
        Edit = "edit",
        EditAndNetwork = "edit-and-network",
        Full = "full"
    } [
        "readonly" => "read-only",
        "read" => "read-only",
        "plan" => "read-only",
        "default" => "read-only",
        "strict" => "read-only",
        "on-request" => "ask",
        "prompt" => "ask",
        "write" => "edit",
        "read-write" => "edit",
        "workspace" => "edit",
        "workspace-write" => "edit",
        "acceptedits" => "edit",
        "auto-edit" => "edit",
        "network" => "edit-and-network",
        "danger-full-access" => "full",
        "bypasspermissions" => "full",
        "yolo" => "full"
    ]
    Memory { Turn = "turn", Session = "session" }
    Record { Wire = "wire" }
    WorkspaceChoice { Own = "own", Shared = "shared" } [
        "private" => "own",
        "copy" => "own",
        "clone" => "own",
        "worktree" => "own",
        "isolated" => "own",
        "same" => "shared"
    ]
    ApiWire { Responses = "responses", Chat = "chat" } [
        "openai" => "chat",
        "completions" => "chat",
        "chat-completions" => "chat"
    ]
    ApiDeveloperRole { Developer = "developer", System = "system" }
    ApiTools { None = "none", Read = "read" }
}

impl Word for Visibility {
    const WORDS: Words<'static, Self> =
        Words { words: &[("all", Self::All), ("addressed", Self::Addressed)], foreign: &[] };
}

impl Word for TextPolicy {
    const WORDS: Words<'static, Self> =
        Words { words: &[("preserve", Self::Preserve), ("compat", Self::Compat)], foreign: &[] };
}

/// The part of a prompt about files that other members changed: `context.changes` in a team file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ChangesInContext {
    /// Nothing.
    #[default]
    None,
    /// The changed paths with counts of lines.
    Stat,
    /// The differences.
    Diff,
}

/// The permissions of an agent, from narrow to wide: `sandbox` in a team file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Permissions {
    /// Read only.
    #[default]
    ReadOnly,
    /// Read; a person is asked before anything else is run or changed in the working directory.
    Ask,
    /// Change files in the working directory, and run commands inside the sandbox.
    Edit,
    /// As `Edit`, with network access.
    EditAndNetwork,
    /// Anything, without a sandbox.
    Full,
}

/// What an agent keeps after a turn: `memory` in a team file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Memory {
    /// Nothing: every turn starts afresh with the whole prompt.
    #[default]
    Turn,
    /// Its program's own session, which later turns continue with what is new.
    Session,
}

/// The recording of an agent's requests: `record` in a team file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record {
    /// Every request of the agent's program to its model, by a local relay.
    Wire,
}

/// The directory that an agent works in: `workspace` in a team file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkspaceChoice {
    /// The agent's own copy of the directory.
    Own,
    /// The directory itself, even while others work in it.
    Shared,
}

/// The wire format of an OpenAI-compatible endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApiWire {
    /// The Responses API.
    #[default]
    Responses,
    /// Chat Completions.
    Chat,
}

/// The role of developer messages on the Chat wire; not every server supports `developer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApiDeveloperRole {
    /// The role `developer`.
    #[default]
    Developer,
    /// The role `system`.
    System,
}

/// The tools offered to a model, from narrow to wide. None of them writes or runs anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApiTools {
    /// None.
    #[default]
    None,
    /// Tools that list, read and search the working directory.
    Read,
}
