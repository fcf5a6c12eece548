//! The crew: a team, and the agents that sit in its places.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use convoke_agent::Agent;
use convoke_agent::turn_input::{Permissions, Trust, TurnInput};
use convoke_redact::Redactor;
use convoke_team::Team;

use crate::id::{MemberName, Millis};
use crate::prompt::InstructionFile;
use crate::roster::{Roster, ensure_person};

/// Tells the time; tests bring their own.
pub type Clock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// A team with its agents.
#[derive(Clone)]
pub struct TeamAgents {
    team: Team,
    roster: Roster,
    seats: HashMap<MemberName, MemberAgent>,
    /// What takes secrets out of events before they are shown or stored.
    pub redactor: Redactor,
    /// What tells the time.
    pub clock: Clock,
}

/// An agent in its place, and what each of its turns is given besides the prompt.
#[derive(Clone)]
pub struct MemberAgent {
    /// The agent.
    pub agent: Arc<dyn Agent>,
    /// The directory that it works in.
    pub cwd: PathBuf,
    /// What it may do.
    pub permissions: Permissions,
    /// The model; its own choice when there is none.
    pub model: Option<String>,
    /// Whether the user trusts the files in the directory.
    pub trust: Trust,
    /// The member's instruction file.
    pub instruction_file: Option<InstructionFile>,
}

impl MemberAgent {
    /// Seats an agent with the narrowest permissions.
    pub fn new(agent: Arc<dyn Agent>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            agent,
            cwd: cwd.into(),
            permissions: Permissions::default(),
            model: None,
            trust: Trust::default(),
            instruction_file: None,
        }
    }

    /// Creates what a turn is given. The agent begins a new session: see [`crate::prompt`].
    pub(super) fn turn_input(
        &self,
        prompt: String,
        system: Option<String>,
        team: &Team,
    ) -> TurnInput {
        let mut turn_input = TurnInput::new(prompt, &self.cwd);
        turn_input.system = system;
        turn_input.permissions = self.permissions;
        turn_input.model.clone_from(&self.model);
        turn_input.trust = self.trust;
        turn_input.limits.turn = team.limits.turn_timeout;
        turn_input
    }
}

impl TeamAgents {
    /// Puts agents into a team's places, by the names of their members. A team without people gets one
    /// called `user`. A member whose place is empty fails when it is its turn.
    pub fn new(mut team: Team, seats: HashMap<MemberName, MemberAgent>) -> Self {
        ensure_person(&mut team);
        let roster = Roster::of(&team);
        Self { team, roster, seats, redactor: Redactor::default(), clock: Arc::new(system_time) }
    }

    /// Returns the team.
    pub fn team(&self) -> &Team {
        &self.team
    }

    /// Returns who takes part.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    pub(super) fn member_agent(&self, member: &MemberName) -> Option<&MemberAgent> {
        self.seats.get(member)
    }

    pub(super) fn now(&self) -> Millis {
        (self.clock)()
    }
}

fn system_time() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}
