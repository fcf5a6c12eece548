//! Misbehaving children: whatever they do, the turn ends within its limits, and no process keeps running.

#![allow(clippy::unwrap_used, clippy::panic)]

mod acp;
mod acp_client;
mod ending;
mod killed;
mod limits;
mod live;
mod output;
mod question;
mod stand_in;
mod start;
mod tasks;
mod test_host;
