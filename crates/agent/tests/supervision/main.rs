//! Children that do not behave: whatever they do, the turn ends, within its bounds, and nothing of them
//! is left.

#![allow(clippy::unwrap_used, clippy::panic)]

mod acp;
mod acp_client;
mod ending;
mod killed;
mod limits;
mod output;
mod stand_in;
mod start;
mod tasks;
mod test_host;
