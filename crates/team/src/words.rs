//! Typed values of an agent's settings, as the team file and `agents.toml` write them.

use convoke_core::name::nearest;
use serde::{Deserialize, Serialize};

/// A setting that is one of a few words.
pub trait Word: Copy + 'static {
    /// Every word with its meaning.
    const WORDS: &'static [(&'static str, Self)];

    /// Words of other programs, each with the word that it means here.
    const FOREIGN: &'static [(&'static str, &'static str)] = &[];

    /// Returns the word that a wrong one probably means.
    fn nearest(written: &str) -> Option<&'static str> {
        let written = written.to_ascii_lowercase().replace('_', "-");
        let foreign = Self::FOREIGN.iter().find(|(word, _)| *word == written);
        foreign
            .map(|(_, word)| *word)
            .or_else(|| nearest(&written, Self::WORDS.iter().map(|(word, _)| *word)))
    }

    /// Parses a word.
    fn parse(written: &str) -> Option<Self> {
        let mut words = Self::WORDS.iter();
        words.find(|(word, _)| *word == written).map(|(_, value)| *value)
    }

    /// Returns the words in quotes, as an error lists them.
    fn list() -> String {
        let quoted: Vec<String> =
            Self::WORDS.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        match &quoted[..] {
            [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
            _ => quoted.concat(),
        }
    }
}

/// The part of a prompt about files that others changed: `context.changes` in a team file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChangesInContext {
    /// Nothing.
    #[default]
    None,
    /// The changed paths with counts of lines.
    Stat,
    /// The differences.
    Diff,
}

impl ChangesInContext {
    /// Parses the word that stands for it in a file.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "none" => Some(Self::None),
            "stat" => Some(Self::Stat),
            "diff" => Some(Self::Diff),
            _ => None,
        }
    }
}

/// The permissions of an agent, from narrow to wide: `sandbox` in a team file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Permissions {
    /// Read; change nothing.
    #[default]
    ReadOnly,
    /// Read; ask a person before anything else is run or changed in the working directory.
    Ask,
    /// Change files in the working directory, and run commands inside the sandbox.
    Edit,
    /// As before, and reach the network.
    EditAndNetwork,
    /// Anything, without a sandbox.
    Full,
}

impl Permissions {
    /// Returns the word that stands for it in a file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Ask => "ask",
            Self::Edit => "edit",
            Self::EditAndNetwork => "edit-and-network",
            Self::Full => "full",
        }
    }
}

impl Word for Permissions {
    const WORDS: &'static [(&'static str, Self)] = &[
        (Self::ReadOnly.as_str(), Self::ReadOnly),
        (Self::Ask.as_str(), Self::Ask),
        (Self::Edit.as_str(), Self::Edit),
        (Self::EditAndNetwork.as_str(), Self::EditAndNetwork),
        (Self::Full.as_str(), Self::Full),
    ];
    const FOREIGN: &'static [(&'static str, &'static str)] = &[
        ("readonly", "read-only"),
        ("read", "read-only"),
        ("plan", "read-only"),
        ("default", "read-only"),
        ("strict", "read-only"),
        ("on-request", "ask"),
        ("prompt", "ask"),
        ("write", "edit"),
        ("read-write", "edit"),
        ("workspace", "edit"),
        ("workspace-write", "edit"),
        ("acceptedits", "edit"),
        ("auto-edit", "edit"),
        ("network", "edit-and-network"),
        ("danger-full-access", "full"),
        ("bypasspermissions", "full"),
        ("yolo", "full"),
    ];
}

/// The extent to which an agent's requests are recorded: `record` in a team file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// Every request of its program to its model, by a relay on this machine.
    Wire,
}

impl Record {
    /// Returns the word that stands for it in a file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Wire => "wire",
        }
    }
}

impl Word for Record {
    const WORDS: &'static [(&'static str, Self)] = &[(Self::Wire.as_str(), Self::Wire)];
}

/// The directory that an agent works in: `workspace` in a team file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkspaceChoice {
    /// A copy of the directory, of its own.
    Own,
    /// The directory itself, also while others work in it.
    Shared,
}

impl WorkspaceChoice {
    /// Returns the word that stands for it in a file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Shared => "shared",
        }
    }
}

impl Word for WorkspaceChoice {
    const WORDS: &'static [(&'static str, Self)] =
        &[(Self::Own.as_str(), Self::Own), (Self::Shared.as_str(), Self::Shared)];
    const FOREIGN: &'static [(&'static str, &'static str)] = &[
        ("private", "own"),
        ("copy", "own"),
        ("clone", "own"),
        ("worktree", "own"),
        ("isolated", "own"),
        ("same", "shared"),
    ];
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

impl Word for ApiWire {
    const WORDS: &'static [(&'static str, Self)] =
        &[("responses", Self::Responses), ("chat", Self::Chat)];
    const FOREIGN: &'static [(&'static str, &'static str)] =
        &[("openai", "chat"), ("completions", "chat"), ("chat-completions", "chat")];
}

/// The role of developer messages on the Chat wire: not every server knows `developer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApiDeveloperRole {
    /// The role `developer`.
    #[default]
    Developer,
    /// The role `system`.
    System,
}

impl Word for ApiDeveloperRole {
    const WORDS: &'static [(&'static str, Self)] =
        &[("developer", Self::Developer), ("system", Self::System)];
}

/// The tools that a model is offered, from narrow to wide. None of them writes or runs anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApiTools {
    /// None.
    #[default]
    None,
    /// Tools that list, read and search the working directory.
    Read,
}

impl ApiTools {
    /// Returns the word that stands for it in a file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Read => "read",
        }
    }
}

impl Word for ApiTools {
    const WORDS: &'static [(&'static str, Self)] =
        &[(Self::None.as_str(), Self::None), (Self::Read.as_str(), Self::Read)];
}
