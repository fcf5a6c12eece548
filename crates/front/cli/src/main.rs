//! The `convoke` command: arguments in, one library call, output.
//!
//! # Modules
//!
//! The binary: parses arguments, makes one library call, prints. No library prints, except that `chat` draws its screen, or reads the
//! environment, except for the directory of temporary files.
//!
//! - `main.rs` is one page; `commands` has one module per subcommand.
//! - `conversation` opens sessions for `run` and `chat`: it finds and checks the team file, looks up whether its directory is trusted,
//!   resolves an agent for every member (the real one, the stand-in, or the installed CLI with a model server of its own, from
//!   `rehearsal_servers`), and opens the session. `trust_here` is the trust in the working directory for the other commands. `sample/` is the project of `run --rehearse` without a team file.
//! - `other_programs` finds the sessions of other programs.
//! - `terminal` is the only way of a command to standard output; `logging` writes to standard error.
//! - `diagnostics` is the registry of codes, `outcome` has the exit codes, `help` is the short help.
//! - `host_environment` and `machine` read what libraries are given; `program` is the name that the user called.
//! - `findings` writes findings about files as SARIF and as annotations of a workflow.
//! - `requests`, `threads`, `following`, `figures` and `tokens` format what several commands show.
//! - `user_settings` reads the user's `config.toml`.
//!
//! # Invariants
//!
//! - A team file chooses what runs only through `conversation/resolved_agent`, after the gate; whatever needs trust
//!   and has none is left out and reported (`crates/front/cli/tests/it/trust.rs:
//!   a_team_file_chooses_what_runs_only_when_it_is_trusted`). A stored session carries no trust
//!   (`crates/front/cli/tests/it/trust.rs: a_session_does_not_bring_trust_with_it`), not even to another machine
//!   (`crates/front/cli/tests/nodes/main.rs:
//!   a_team_file_from_the_store_chooses_nothing_that_the_user_of_the_node_has_not_allowed`).

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};

mod commands;
mod conversation;
mod diagnostics;
mod figures;
mod findings;
mod following;
mod help;
mod host_environment;
mod logging;
mod machine;
mod other_programs;
mod outcome;
mod program;
mod requests;
mod terminal;
mod threads;
mod tokens;
mod user_settings;

use conversation::store::StoreSettings;
use outcome::{Outcome, WorkDone};
use terminal::OutputSettings;

/// See what your coding agents were told, what it cost and what they changed; run teams of them
#[derive(Debug, Parser)]
#[command(name = "convoke", version, propagate_version = true, after_help = help::GLOBAL_OPTIONS)]
struct Arguments {
    #[command(flatten, next_help_heading = "Output")]
    output: OutputSettings,
    #[command(flatten, next_help_heading = "Store")]
    store: StoreSettings,
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    // This program is also the guardian process of the agents that it starts.
    if let Some(code) = convoke_agent::process::guardian::run_if_asked() {
        return code;
    }
    // For tests of an installed program.
    if let Ok(task) = std::env::var("CONVOKE_PANIC_IN") {
        convoke_files::failpoint::panic_in(task);
    }
    if commands::completions::answer_shell::<Arguments>() {
        return ExitCode::SUCCESS;
    }
    let command = help::compact(Arguments::command());
    let arguments = match command.try_get_matches().and_then(|it| Arguments::from_arg_matches(&it))
    {
        Ok(arguments) => arguments,
        Err(usage) => return outcome::show_usage(&usage),
    };
    arguments.output.apply();
    arguments.store.apply();
    match commands::run::<Arguments>(arguments.command, arguments.output.log_level()) {
        Ok(outcome) => outcome.into(),
        Err(error) if is_broken_pipe(&error) && !error.is::<WorkDone>() => Outcome::Done.into(),
        Err(error) => outcome::report(&error),
    }
}

/// Returns whether the reader closed the pipe (`convoke … | head`), which is not a failure of a command that only shows
/// something.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        let json = || cause.downcast_ref::<serde_json::Error>()?.io_error_kind();
        io.or_else(json) == Some(std::io::ErrorKind::BrokenPipe)
    })
}
