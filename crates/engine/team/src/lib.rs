//! The team file, `convoke.toml`: the members and rules of a conversation, and the settings that need trust.
//!
//! [`Team::parse`] parses the text; [`Team::check`] also checks the references in it. Both report every error
//! with its line, the nearest known name and the fix. [`gate`] decides which settings take effect before the
//! user trusts the directory.
//!
//! # Modules
//!
//! The team file, `convoke.toml`, and the settings that need trust. Parses text; the caller reads the file. `file` and `section` parse
//! every setting (from `document`) and collect every error with its position (`error`, `syntax`, with a `suggestion` for a misspelt
//! setting); `check` asks the caller about agents and files through the `References` trait; `trust` decides which settings need trust
//! (`gate`) and what a grant covers. `member` and `members` are the result and its lookup, `values` and `quantity` its typed values;
//! `briefing` writes the text about the teammates; `rules` are the commands that a person always allows or refuses. `diagnostics` has
//! the codes of errors.
//!
//! # Invariants
//!
//! - Which settings need trust is decided in `team::trust::gate` and nowhere else
//!   (`crates/engine/team/src/trust.rs: an_untrusted_directory_chooses_nothing_that_runs_or_where_a_key_goes`).

mod briefing;
mod check;
pub mod diagnostics;
mod document;
mod error;
mod file;
mod member;
mod members;
pub mod quantity;
mod rules;
mod section;
mod suggestion;
mod syntax;
mod trust;
mod values;

use std::time::Duration;

pub use briefing::Briefing;
pub use check::{BadReference, References};
pub use document::read_document;
pub use error::{Problem, TeamFileError, TeamFileErrors};
pub use member::{AgentSettings, Member, MemberKind};
pub use rules::{PermissionFile, PermissionRules, RuleAnswer};
pub use section::{ExpectedValue, MisplacedSetting, Place, Section};
pub use trust::{
    Baseline, Choice, FileLocation, GatedSettings, Grant, MemberChoices, Trust, TrustedSetting,
    gate,
};
pub use values::{
    ApiDeveloperRole, ApiTools, ApiWire, ChangesInContext, Memory, Permissions, Record, Word,
    Words, WorkspaceChoice,
};

use convoke_core::ContextOptions;

/// A team, as its file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Team {
    /// The team's name.
    pub name: Option<String>,
    /// The task of the team.
    pub task: Option<String>,
    /// The text about teammates in each agent's prompt.
    pub briefing: Briefing,
    /// The options of prompts.
    pub context: ContextOptions,
    /// The part of an agent's prompt about files that other members changed.
    pub changes: ChangesInContext,
    /// The limits of the conversation.
    pub limits: Limits,
    /// Whether agents that may change files work in copies of the directory; `None` means only if turns run at
    /// the same time.
    pub workspace: Option<WorkspaceChoice>,
    /// Whether a turn is refused if the system cannot enforce all of its permissions.
    pub require_sandbox: bool,
    /// The people and agents.
    pub members: Vec<Member>,
}

/// The limits of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of turns without a person in between.
    pub turns: u64,
    /// The maximum duration of a turn.
    pub turn_timeout: Duration,
    /// The maximum time for background shells after an agent's reply.
    pub background_timeout: Duration,
    /// The maximum time that an agent waits for a person's permission.
    pub ask_timeout: Duration,
    /// The maximum number of queued turns.
    pub queue: u64,
    /// Whether independent turns may run at the same time.
    pub parallel: bool,
}

impl Team {
    /// Parses a team file without looking up the agents and files that it refers to.
    ///
    /// ```
    /// use convoke_team::Team;
    ///
    /// let team = Team::parse(
    ///     r#"
    ///     [[member]]
    ///     name = "max"
    ///     agent = "claude"
    ///     "#,
    /// )?;
    /// assert!(team.member("MAX").is_some());
    /// # Ok::<(), convoke_team::TeamFileErrors>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, TeamFileErrors> {
        file::parse(text, None)
    }

    /// Parses a team file and checks its references. O(text), plus the lookups of `references`.
    pub fn check(text: &str, references: &dyn References) -> Result<Self, TeamFileErrors> {
        file::parse(text, Some(references))
    }

    /// Returns the options of a member's prompts: its own settings, else the team's.
    pub fn context_options(&self, member: &Member) -> ContextOptions {
        ContextOptions {
            window: member.window.unwrap_or(self.context.window),
            max_bytes: member.max_bytes.unwrap_or(self.context.max_bytes),
            ..self.context
        }
    }
}
