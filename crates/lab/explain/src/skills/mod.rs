//! Skills: those that an agent lists for its model, those that it leaves out, and the budget of the list.

mod read;
mod report;
mod unsearched;

use std::fmt;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

use crate::report::as_text;

pub use read::{Stated, loaded_bytes, read};
pub use report::report;
pub(crate) use unsearched::{Unsearched, look_ahead};

/// The name of the file that describes a skill.
pub const FILE_NAME: &str = "SKILL.md";

/// A skill in the model's list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Skill {
    /// The name in the list.
    pub name: String,
    /// Its file; `None` for a skill inside the program.
    #[serde(serialize_with = "optional_path")]
    pub path: Option<PathBuf>,
    /// The bytes of the description that the file states.
    pub description_bytes: u64,
    /// The number of its first bytes that reach the model.
    pub description_bytes_loaded: u64,
    /// Whether all of the description reaches the model; changed white space aside.
    pub whole: bool,
    /// The source.
    pub source: SkillSource,
    /// The file without links.
    #[serde(skip)]
    pub real_path: Option<PathBuf>,
    /// Whether a setting keeps the description out.
    #[serde(skip)]
    pub is_name_only: bool,
    /// The description as in the request; `None` for a skill whose text is inside the program.
    #[serde(skip)]
    pub text: Option<String>,
}

impl Skill {
    /// Creates a skill inside a program, of whose description so many bytes are loaded.
    pub fn builtin(skill: &BuiltinSkill, loaded: u64) -> Self {
        Self {
            name: skill.name.to_owned(),
            path: None,
            description_bytes: skill.bytes,
            description_bytes_loaded: loaded,
            whole: loaded == skill.bytes,
            source: SkillSource::Builtin,
            real_path: None,
            is_name_only: false,
            text: None,
        }
    }
}

/// The source of a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SkillSource {
    /// The program itself.
    Builtin,
    /// The administrator of the machine.
    Managed,
    /// The user's own directory.
    User,
    /// The project.
    Project,
    /// A directory that was added to the session.
    AddedDirectory,
    /// A command, which is listed like a skill.
    Command,
    /// A plugin or an extension.
    Plugin,
}

/// A skill that exists and is not listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OmittedSkill {
    /// Its name, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its file.
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    /// The rule that keeps it out.
    pub rule: SkillRule,
}

/// The rule that keeps a skill out of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkillRule {
    /// The agent does not look there.
    Unsearched,
    /// A setting, a variable or an argument switches it off.
    SwitchedOff(String),
    /// A skill of the same name is listed in its place.
    Shadowed(Option<PathBuf>),
    /// Not even the names fit into the budget.
    OverBudget,
    /// The agent cannot read it.
    Invalid(String),
    /// A key of its own keeps it out.
    Hidden(&'static str),
    /// It is listed once a matching file is read.
    Conditional(String),
    /// The same file is listed under another path.
    Duplicate(PathBuf),
    /// It is larger than the agent accepts.
    TooLarge(u64),
    /// The agent makes no request at all.
    NoRequest(&'static str),
}

impl fmt::Display for SkillRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsearched => f.write_str("not looked for in this place"),
            Self::SwitchedOff(by) => write!(f, "switched off by {by}"),
            Self::Shadowed(Some(by)) => write!(f, "shadowed by {}, of the same name", by.display()),
            Self::Shadowed(None) => f.write_str("shadowed by a skill of the same name"),
            Self::OverBudget => f.write_str("the budget of the list was used up"),
            Self::Invalid(reason) => write!(f, "invalid: {reason}"),
            Self::Hidden(key) => write!(f, "hidden by its own `{key}`"),
            Self::Conditional(paths) => write!(f, "only when a file that matches {paths} is read"),
            Self::Duplicate(other) => write!(f, "the same file as {}", other.display()),
            Self::TooLarge(limit) => write!(f, "larger than {limit} bytes"),
            Self::NoRequest(why) => write!(f, "no request is made: {why}"),
        }
    }
}

impl Serialize for SkillRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The limit on the size of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SkillsBudget {
    /// The limit; `None` if there is none.
    pub limit: Option<u64>,
    /// The unit.
    pub unit: BudgetUnit,
    /// The part of it that the list takes.
    pub used: u64,
}

/// The unit of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum BudgetUnit {
    /// Tokens of four bytes, rounded up for each line.
    Tokens,
    /// Columns of a terminal: wide characters take two.
    Columns,
    /// Bytes.
    Bytes,
}

impl BudgetUnit {
    /// Returns the name of the unit.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Columns => "columns",
            Self::Bytes => "bytes",
        }
    }
}

/// A skill inside a program: figures of its description, which is data of that version.
#[derive(Debug, Clone, Copy)]
pub struct BuiltinSkill {
    /// The name.
    pub name: &'static str,
    /// The bytes of the description.
    pub bytes: u64,
    /// The places, in characters, of characters of three bytes; all others have one.
    pub three_bytes: &'static [u64],
    /// The places, in characters, of line breaks.
    pub line_breaks: &'static [u64],
}

impl BuiltinSkill {
    /// Creates a skill whose description has as many columns as bytes.
    pub const fn ascii(name: &'static str, bytes: u64) -> Self {
        Self { name, bytes, three_bytes: &[], line_breaks: &[] }
    }

    /// Returns the characters of the description.
    pub const fn characters(&self) -> u64 {
        self.bytes - 2 * self.three_bytes.len() as u64
    }

    /// Returns the bytes of so many characters.
    pub fn bytes_of(&self, characters: u64) -> u64 {
        characters + 2 * count_below(self.three_bytes, characters)
    }

    /// Returns the columns of so many characters.
    pub fn columns_of(&self, characters: u64) -> u64 {
        characters - count_below(self.line_breaks, characters)
    }
}

fn count_below(places: &[u64], end: u64) -> u64 {
    places.iter().filter(|place| **place < end).count() as u64
}

#[expect(clippy::ref_option, reason = "serde passes a field by reference")]
fn optional_path<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => as_text(path, serializer),
        None => serializer.serialize_none(),
    }
}
