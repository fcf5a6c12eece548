//! Sessions of every program on a machine.
//!
//! - [`catalog`]: finds sessions, by program, directory, id or path.
//! - [`summary`]: what a list shows of a session.
//! - [`request`]: one request with its texts and its ledger.
//! - [`handover`]: what another agent needs to go on with a session.
//! - [`search`]: finds words in them.
//! - [`usage`]: the tokens of all sessions, each response counted once, and [`prices`]: what they cost.
//!
//! `parallel` does the same work on many sessions. Nothing is written into another program's files.

pub mod catalog;
pub mod handover;
mod parallel;
pub mod prices;
pub mod request;
pub mod search;
pub mod summary;
pub mod usage;

pub use catalog::{Catalog, FindError};
