//! The phase of a Claude Code process.
//!
//! From 2.1.325 on, sub-agents and shells continue in the background after a `result`. When one ends, the
//! program starts another turn, which ends with another `result`. The program announces the set of running
//! tasks whenever it changes. It announces nothing before the first task, and older versions announce nothing
//! at all.

use convoke_protocol::verdict::{Failure, FailureReason};

use super::wire::Task;
use convoke_agent::ending::{Ending, TerminationCause};
use convoke_agent::stream::TurnPhase;

/// The task type of shells, the only tasks that may outlive a complete reply.
const SHELL: &str = "local_bash";

/// The state of the main thread and of the background tasks.
#[derive(Debug, Default)]
pub(super) struct ProcessPhase {
    answered: bool,
    /// Whether the main thread has started another turn since its last reply.
    working: bool,
    /// Whether sub-agents ran at the last reply, so that another one follows.
    interim: bool,
    /// Whether nothing else ran at the last reply.
    complete: bool,
    /// Whether the program announces its tasks.
    announces: bool,
    shells: usize,
    others: usize,
    /// Whether Convoke terminated the remaining tasks.
    dismissed: bool,
}

impl ProcessPhase {
    /// Records the set of running tasks.
    pub fn tasks<'a>(&mut self, tasks: impl Iterator<Item = Task<'a>>) {
        (self.announces, self.shells, self.others) = (true, 0, 0);
        for task in tasks {
            if task.task_type.as_str() == SHELL {
                self.shells += 1;
            } else {
                self.others += 1;
            }
        }
    }

    /// Records the start of a background task, in case its announcement cannot be parsed.
    pub fn task_starts(&mut self, task_type: &str) {
        let count = if task_type == SHELL { &mut self.shells } else { &mut self.others };
        *count = (*count).max(1);
    }

    /// Records that the main thread runs a turn.
    pub fn turn_started(&mut self) {
        self.working = true;
    }

    /// Records a reply of the main thread.
    pub fn replied(&mut self) {
        self.answered = true;
        self.working = false;
        self.interim = self.others > 0;
        self.complete = self.running() == 0;
    }

    /// Returns whether an interrupt ended sub-agents whose reply was still expected.
    pub fn interrupted(&mut self) -> bool {
        let ended = self.answered && !self.working && self.interim && self.running() == 0;
        self.interim &= !ended;
        ended
    }

    /// Records that Convoke terminates the remaining tasks.
    pub fn dismiss(&mut self) {
        self.dismissed = true;
    }

    /// Returns the number of background tasks.
    pub fn running(&self) -> usize {
        self.shells + self.others
    }

    /// Returns whether the main thread has replied and is idle.
    pub fn is_idle(&self) -> bool {
        self.answered && !self.working
    }

    /// Returns whether nothing else ran at the last reply, so that the input can be closed. Turns that the
    /// program has queued still run.
    pub fn needs_no_input(&self) -> bool {
        self.is_idle() && self.complete
    }

    pub fn phase(&self) -> TurnPhase {
        if !self.is_idle() || self.others > 0 || self.interim {
            TurnPhase::Running
        } else if self.announces {
            TurnPhase::Answered
        } else {
            TurnPhase::Over
        }
    }

    /// Returns the failure of a process that ended before its final reply.
    pub fn cut_off(&self, ending: &Ending<'_>) -> Option<Failure> {
        let shells_cut = match ending.stop {
            None => !self.dismissed,
            Some(stop) => stop == TerminationCause::Cancelled,
        };
        let cut =
            self.working || self.others > 0 || self.interim || (self.shells > 0 && shells_cut);
        (self.answered && cut).then(|| {
            let tasks = match self.running() {
                0 => "the agent was running".to_owned(),
                1 => "a background task was running".to_owned(),
                tasks => format!("{tasks} background tasks were running"),
            };
            let message = format!("ended with {} while {tasks}", ending.exit);
            Failure::new(FailureReason::Incomplete, message)
        })
    }
}
