//! Conversations: routing, prompts and durable storage.
//!
//! [`routing`] is pure: it turns a message into queued turns and chooses the next one. [`store`] stores everything,
//! one durable commit at a time. The [`Coordinator`] joins the two: it accepts messages of people, runs the agents'
//! turns, and stops when the next turn is a person's or a guard stops it.

mod attempt;
pub mod coordinator;
pub mod diagnostics;
pub mod diff;
pub mod event_queue;
pub mod file_changes;
pub mod follow;
mod kept_running;
mod legacy;
pub mod prompt;
pub mod replay;
pub mod request;
pub mod routing;
pub mod rows;
pub mod running_text;
pub mod sent_turn;
pub mod shared;
#[allow(
    clippy::duplicate_mod,
    reason = "the queries of `store/sql` are compiled for each database"
)]
pub mod store;
pub mod team_tools;
pub mod thread;
pub mod time_format;
pub mod transfer;
pub mod verify;

pub use convoke_core::NewMessage;

pub use coordinator::{
    Controls, Coordinator, CoordinatorError, MemberAgent, SessionRequest, TeamAgents,
};
pub use sent_turn::SentTurn;
pub use store::sqlite::SqliteStore;
pub use store::{AnyStore, Commit, Store, StoreError};
