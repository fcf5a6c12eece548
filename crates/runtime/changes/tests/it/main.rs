//! Recording and undo, against real directories and the real `git`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "the helpers of tests are tests")]

mod bad_cases;
mod closed;
mod first_copy;
mod histories;
mod interruption;
mod isolation;
mod properties;
mod quick;
mod redo;
mod replaced;
mod traps;
mod tree;
mod turns;
mod undo_races;
mod workspaces;
