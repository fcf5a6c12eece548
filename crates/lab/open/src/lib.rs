//! Sessions of every program on a machine.
//!
//! - [`catalog`]: finds sessions, by program, directory, id or path.
//! - [`summary`]: what a list shows of a session.
//! - [`request`]: one request with its texts and its ledger.
//! - [`handover`]: what another agent needs to go on with a session.
//! - [`changes`]: what it changed in files, and what is left of it.
//! - [`cache`]: what the provider's cache served of each request, and what broke it.
//! - [`search`]: finds words in them.
//! - [`archive`]: copies that stay when a program deletes its files.
//! - [`index`]: what is known of sessions without reading them again.
//! - [`usage`]: the tokens of all sessions, each response counted once, and [`prices`]: what they cost.
//!
//! `parallel` does the same work on many sessions, and `words` splits texts. Nothing is written into another program's files.

pub mod archive;
pub mod cache;
pub mod catalog;
pub mod changes;
pub mod handover;
pub mod index;
mod parallel;
pub mod prices;
pub mod request;
pub mod search;
pub mod summary;
pub mod usage;
mod words;

pub use catalog::{Catalog, FindError};
