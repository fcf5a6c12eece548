//! The server over real HTTP.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is a test")]

mod acting;
mod client;
mod guard;
mod programs;
mod stream;
mod test_server;
mod test_sessions;
mod views;
