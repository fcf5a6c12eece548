//! The team file, `convoke.toml`: who takes part in a conversation, and under which rules.
//!
//! [`Team::parse`] reads its text. It refuses what it does not know, with the line, and the name that was
//! probably meant: a setting that is misspelt must not be lost in silence.

mod briefing;
mod file;
mod member;
mod quantity;
mod section;

use std::time::Duration;

pub use briefing::Briefing;
pub use file::TeamFileError;
pub use member::{AgentSettings, Member, MemberKind};

use convoke_core::marker::TextPolicy;
use convoke_core::name::NameKey;
use convoke_core::{ContextManagerOptions, Fencing, Visibility};

/// A team, as its file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Team {
    /// The team's name.
    pub name: Option<String>,
    /// What the team is to do.
    pub task: Option<String>,
    /// What each agent is told about the others.
    pub briefing: Briefing,
    /// How contexts are prepared.
    pub context: ContextSettings,
    /// When a conversation is stopped.
    pub limits: Limits,
    /// Who takes part.
    pub members: Vec<Member>,
}

/// How contexts are prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextSettings {
    /// How many context messages a member gets.
    pub window: usize,
    /// The most bytes of prompt and system text together.
    pub max_bytes: u64,
    /// Whether content is set off.
    pub fencing: Fencing,
    /// Which messages a member sees.
    pub visibility: Visibility,
    /// How messages are cleaned of their markers.
    pub text: TextPolicy,
}

/// When a conversation is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many turns there may be.
    pub turns: u64,
    /// How long a turn may take.
    pub turn_timeout: Duration,
    /// How many turns may wait.
    pub queue: u64,
    /// Whether turns that do not depend on each other may run at the same time.
    pub parallel: bool,
}

impl Team {
    /// Reads a team file.
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
    /// # Ok::<(), convoke_team::TeamFileError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, TeamFileError> {
        file::parse(text)
    }

    /// Returns the member that a name means.
    pub fn member(&self, name: &str) -> Option<&Member> {
        let key = NameKey::new(name);
        self.members.iter().find(|member| member.is_called(&key))
    }

    /// Returns how a member's contexts are prepared: the team's settings, and the member's own.
    pub fn context_options(&self, member: &Member) -> ContextManagerOptions {
        ContextManagerOptions {
            context_window_size: member.window.unwrap_or(self.context.window),
            max_bytes: member.max_bytes.unwrap_or(self.context.max_bytes),
            text: self.context.text,
            visibility: self.context.visibility,
            fencing: self.context.fencing,
            ..ContextManagerOptions::default()
        }
    }
}
