//! Conversations: routing, prompts and durable storage.
//!
//! [`routing`] is pure: it turns a message into queued turns and chooses the next one. [`store`] stores everything,
//! one durable commit at a time. The [`Coordinator`] joins the two: it accepts messages of people, runs the agents'
//! turns, and stops when the next turn is a person's or a guard stops it.
//!
//! # Modules
//!
//! - `routing` decides without I/O which turns a message queues, which is next, and when a limit stops the conversation.
//! - `coordinator` runs a conversation: it assembles a prompt from the context window, runs the turn, and stores its result with the
//!   turns that it queues and the thread items of its agent.
//! - `store` is SQLite, or PostgreSQL for several machines. A running session is written in atomic commits, a whole one page by page in
//!   one transaction; the store is a `ThreadStore` too. The queries in `store/sql` are written over a small trait that both databases implement.
//! - `event_queue` is the bounded queue of events to their reader. Those of a running turn are stored in steps, so that a crash loses at
//!   most a second of them.
//! - `prompt` assembles a prompt from the stored conversation; `thread` says whose a thread is, `sent_turn` is a turn with the texts of
//!   one attempt. The stored types are those of the protocol.
//! - `memory` decides what a turn of a member that remembers continues, and which messages are new for it.
//! - `request` records requests to models, each as its difference to the previous one.
//! - `file_changes` is the `ChangeRecorder` that the coordinator calls around turns that may change files; how they are recorded is
//!   hidden from it.
//! - `team_tools` parses the calls of team tools, which the coordinator carries out while turns run.
//! - `replay`, `diff` and `transfer` work on stored sessions: reproduce prompts, compare two, export, import and fork.
//! - `verify` rebuilds the tables from the log and compares; `legacy` makes the log of a session that had none.
//! - `attempt` is the stored form of a result, `running_text` the text of an attempt that has not ended.
//! - `rows` reads turns and messages one after the other; `time_format` formats times; `kept_running` is work in the background that
//!   goes on after a panic.
//!
//! A message that a person sends while turns run goes into the inbox of the session (`store/sql/inbox`), in either store. The holder
//! takes it from there between two turns, and when it opens the session (`Controls::interject` keeps nothing in memory).
//!
//! In a shared store a session moves between processes:
//!
//! - `participation` is how a process takes part: it holds a session only while it stores a message or runs a turn; the others
//!   follow it (`participation/following`, `follow`) and put messages into its inbox.
//! - If another machine runs the next turn, the holder offers the turn and releases the session, and a node claims the session with the
//!   oldest offer (`sharing`, a crate of its own; `store/postgres/offer`).
//! - Cancellations and answers to questions are rows for the process that runs the turn (`participation/signals`, `store/postgres/signal`).
//! - One connection per process listens for announcements of all sessions (`store/postgres/commits`). It carries the statements of an
//!   idle follower too, which has no other connection.
//! - Times are those of the database, compared with the clock of this machine when a connection is opened (`store/postgres/clock`).
//! - Every transaction that writes a session checks its lease (`store/postgres/lease`). Only sessions have leases; turns have none.
//!
//! # Invariants
//!
//! - An acknowledged message survives `kill -9`; a turn is recorded once
//!   (`crates/conversation/session/tests/crash/main.rs: a_crash_at_any_write_point_loses_and_doubles_nothing`).
//! - A process whose lease has expired, or whose session another process has claimed, can write nothing: no
//!   message, no progress, no request (`crates/conversation/session/tests/postgres/fencing.rs:
//!   no_kind_of_write_of_a_stale_process_is_carried_out`, `crates/conversation/session/tests/postgres/fencing.rs:
//!   a_lease_that_is_over_writes_nothing_and_is_not_revived`, `crates/front/cli/tests/nodes/faults.rs:
//!   every_turn_is_recorded_once_and_in_order_whatever_happens_to_the_nodes`).
//! - A turn reads its context window only; no session is loaded whole for a turn
//!   (`crates/conversation/session/tests/it/store.rs: a_turn_reads_its_context_window_only`).

mod attempt;
pub mod coordinator;
pub mod diagnostics;
pub mod diff;
pub mod event_queue;
pub mod file_changes;
pub mod follow;
mod kept_running;
mod legacy;
pub mod memory;
mod participation;
pub mod prompt;
pub mod replay;
pub mod request;
pub mod routing;
pub mod rows;
pub mod running_text;
pub mod sent_turn;
pub mod store;
pub mod team_tools;
pub mod thread;
pub mod time_format;
pub mod transfer;
pub mod verify;

pub use convoke_core::NewMessage;
pub use convoke_sharing as sharing;

pub use coordinator::{
    Controls, Coordinator, CoordinatorError, MemberAgent, SessionRequest, TeamAgents,
};
pub use sent_turn::SentTurn;
pub use store::sqlite::SqliteStore;
pub use store::{AnyStore, Commit, Store, StoreError};
