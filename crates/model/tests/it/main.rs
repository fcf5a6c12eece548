//! The client and the member as a server and a team see them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod client;
mod raw_server;
