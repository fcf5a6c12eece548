//! Programs that are kept from turn to turn, one for each member that remembers.
//!
//! A program is used again only under the terms that it was started with: what it may do, what it sees and what it was told
//! are decided when it starts. It continues exactly the state that the turn asks for; otherwise it ends, and the turn starts
//! another.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use convoke_protocol::id::ThreadId;
use convoke_protocol::memory::Branch;
use convoke_protocol::resume::ResumeHandle;

use super::PreparedTurn;
use crate::process::{RestingProgram, RunningProgram};
use crate::turn_input::{Permissions, Trust, TurnInput};

/// The programs that rest, by the thread of their member.
#[derive(Clone, Default)]
pub(super) struct LivePrograms(Arc<Mutex<HashMap<ThreadId, LiveProgram>>>);

/// A program that rests after a turn.
struct LiveProgram {
    program: RestingProgram,
    prepared: PreparedTurn,
    terms: StartTerms,
    /// The state in which the program rests.
    session: String,
    mark: Option<String>,
}

/// The terms that a program was started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StartTerms {
    permissions: Permissions,
    trust: Trust,
    cwd: PathBuf,
    workspace: Option<PathBuf>,
    readable: Vec<PathBuf>,
    model: Option<String>,
    system: Option<String>,
}

impl StartTerms {
    fn of(turn_input: &TurnInput) -> Self {
        Self {
            permissions: turn_input.permissions,
            trust: turn_input.trust,
            cwd: turn_input.cwd.clone(),
            workspace: turn_input.workspace.clone(),
            readable: turn_input.readable.clone(),
            model: turn_input.model.clone(),
            system: turn_input.system.clone(),
        }
    }
}

/// Returns whether the program of a turn may be kept. The tools of the team are bound to one attempt.
pub(super) fn may_be_kept(turn_input: &TurnInput) -> bool {
    turn_input.memory.is_some() && turn_input.thread.is_some() && turn_input.team_tools.is_none()
}

impl LivePrograms {
    /// Returns the program that rests in the state that a turn continues. Any other program of the member ends first: a
    /// session has one writer.
    pub(super) async fn wake(
        &self,
        turn_input: &TurnInput,
    ) -> Option<(PreparedTurn, RunningProgram)> {
        let thread = turn_input.thread.as_ref()?;
        let live = self.programs().remove(thread)?;
        let is_wanted = turn_input.resume.as_ref().is_some_and(|resume| live.is_at(resume))
            && turn_input.memory.is_some_and(|memory| memory.branch == Branch::Same)
            && may_be_kept(turn_input)
            && live.terms == StartTerms::of(turn_input);
        if is_wanted {
            return Some((live.prepared, live.program.wake().await?));
        }
        live.program.end().await;
        None
    }

    /// Keeps the program of a turn for the next one.
    pub(super) fn keep(
        &self,
        turn_input: &TurnInput,
        handle: &ResumeHandle,
        prepared: PreparedTurn,
        program: RunningProgram,
    ) {
        let (Some(thread), Some(memory)) = (turn_input.thread.clone(), turn_input.memory) else {
            return;
        };
        let live = LiveProgram {
            program: RestingProgram::new(program, memory.idle, turn_input.held_until.clone()),
            prepared,
            terms: StartTerms::of(turn_input),
            session: handle.session.clone(),
            mark: handle.mark.clone(),
        };
        self.programs().insert(thread, live);
    }

    /// Returns whether a program rests in a state.
    pub(super) fn holds(&self, thread: &ThreadId, handle: &ResumeHandle) -> bool {
        let programs = self.programs();
        programs.get(thread).is_some_and(|live| live.program.is_alive() && live.is_at(handle))
    }

    fn programs(&self) -> std::sync::MutexGuard<'_, HashMap<ThreadId, LiveProgram>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveProgram {
    fn is_at(&self, handle: &ResumeHandle) -> bool {
        (&self.session, &self.mark) == (&handle.session, &handle.mark)
    }
}

impl std::fmt::Debug for LivePrograms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.programs().keys()).finish()
    }
}
