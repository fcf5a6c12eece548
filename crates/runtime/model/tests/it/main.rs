//! Tests of the client and the member, from the outside.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod client;
mod compaction;
mod continued;
mod lab;
mod member;
mod odd_servers;
mod raw_server;
mod retried;
mod team;
mod tools;
