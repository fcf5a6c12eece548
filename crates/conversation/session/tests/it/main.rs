//! Conversations from the outside: scripted agents, a real store.

#![expect(clippy::unwrap_used, clippy::panic, reason = "the functions of a test")]

mod conversation;
mod event_queue;
mod events;
mod hostile;
mod memory;
mod progress;
mod remembering;
mod requests;
mod room;
mod sent;
mod store;
mod team_tools;
mod test_session;
mod threads;
mod transfer;
mod verify;
