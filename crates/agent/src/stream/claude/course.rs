//! The course of a process of Claude Code: whether its agent works, has answered, or is over.
//!
//! From 2.1.325 on, sub-agents and shells run on in the background after a `result`, and their end makes
//! the program start a turn of its own, which ends with another `result`. The program announces the whole
//! set of running tasks whenever it changes; nothing is announced before the first task, and older
//! versions announce nothing at all.

use super::wire::Task;
use crate::stream::TurnPhase;
use crate::verdict::{Ending, Failure, FailureReason, TerminationCause};

/// The task type of shells, the only tasks that may outlive a complete answer.
const SHELL: &str = "local_bash";

/// The state of the main thread and of the background tasks.
#[derive(Debug, Default)]
pub(super) struct Course {
    answered: bool,
    /// The main thread has started another turn since its last answer.
    working: bool,
    /// The last answer came while sub-agents ran: their end brings another one.
    interim: bool,
    /// The last answer came while nothing ran.
    complete: bool,
    /// The program announces its tasks.
    announces: bool,
    shells: usize,
    others: usize,
    /// We ended what was left of the tasks.
    dismissed: bool,
}

impl Course {
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

    /// Records a task that starts in the background, in case that the set which names it is not readable.
    pub fn task_starts(&mut self, task_type: &str) {
        let count = if task_type == SHELL { &mut self.shells } else { &mut self.others };
        *count = (*count).max(1);
    }

    /// Records that the main thread works on a turn.
    pub fn works(&mut self) {
        self.working = true;
    }

    /// Records an answer to what the main thread worked on.
    pub fn answers(&mut self) {
        self.answered = true;
        self.working = false;
        self.interim = self.others > 0;
        self.complete = self.running() == 0;
    }

    /// Returns whether an interrupt that was just carried out ended the sub-agents which an answer was
    /// still to come from.
    pub fn interrupted(&mut self) -> bool {
        let ended = self.answered && !self.working && self.interim && self.running() == 0;
        self.interim &= !ended;
        ended
    }

    /// Records that we end the tasks that are left.
    pub fn dismiss(&mut self) {
        self.dismissed = true;
    }

    /// Returns the number of background tasks.
    pub fn running(&self) -> usize {
        self.shells + self.others
    }

    /// Returns whether the main thread has answered and does nothing.
    pub fn rests(&self) -> bool {
        self.answered && !self.working
    }

    /// Returns whether the last answer came while nothing ran, so that no more input is needed. Turns that
    /// the program has queued by then are carried out without it.
    pub fn needs_no_input(&self) -> bool {
        self.rests() && self.complete
    }

    pub fn phase(&self) -> TurnPhase {
        if !self.rests() || self.others > 0 || self.interim {
            TurnPhase::Running
        } else if self.announces {
            TurnPhase::Answered
        } else {
            TurnPhase::Over
        }
    }

    /// Returns why the last answer is not that of the turn, when the process ended too early for it.
    pub fn cut_off(&self, ending: &Ending<'_>) -> Option<Failure> {
        let shells_cut = match ending.stop {
            None => !self.dismissed,
            Some(stop) => stop == TerminationCause::Cancelled,
        };
        let cut =
            self.working || self.others > 0 || self.interim || (self.shells > 0 && shells_cut);
        (self.answered && cut).then(|| {
            let tasks = match self.running() {
                0 => "its agent was working on".to_owned(),
                1 => "a background task was running".to_owned(),
                tasks => format!("{tasks} background tasks were running"),
            };
            let message = format!("it ended with {} while {tasks}", ending.exit);
            Failure::new(FailureReason::Incomplete, message)
        })
    }
}
