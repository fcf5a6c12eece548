//! The command from outside: its output and exit codes.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "this is a test"
)]

mod accounts;
mod acp;
mod acp_editors;
mod acp_rules;
mod action;
mod ask;
mod ask_key;
mod asking;
mod asking_terminal;
mod assemble;
mod attach;
mod baseline;
mod capture;
mod changes;
mod chat;
mod check;
mod context;
mod continue_session;
mod doctor;
mod editor;
mod fix;
mod init;
mod mask;
mod mcp;
mod mistakes;
mod model;
mod other_sessions;
mod output;
mod planted;
mod prompt;
mod remembered;
mod request;
mod request_agent;
mod requests;
mod resume;
mod review;
mod rpc;
mod run;
mod serve;
mod sessions;
mod terminal;
mod threads;
mod trust;
mod vectors;
mod verify;
mod widths;
mod workspaces;

use context::TestContext;

#[test]
fn help_names_every_command() {
    insta::assert_snapshot!(TestContext::new().run(&["--help"]));
}

#[test]
fn an_unknown_command_is_bad_usage() {
    insta::assert_snapshot!(TestContext::new().run(&["promt"]));
}
