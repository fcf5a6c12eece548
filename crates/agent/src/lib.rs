//! Runs one turn of one coding agent.
//!
//! What is particular to a CLI is behind the trait [`Cli`].
//!
//! ```no_run
//! use convoke_agent::adapter::{Host, agent};
//! use convoke_agent::config::Catalog;
//! use convoke_agent::process::guardian::Guardian;
//! use convoke_agent::sandbox::SandboxSettings;
//! use convoke_agent::{TurnInput, Verdict};
//!
//! # async fn example(programs: convoke_agent::Programs) -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host {
//!     guardian: Guardian::this_program()?,
//!     env: std::env::vars_os().collect(),
//!     temp_root: convoke_agent::process::temp_root(),
//!     state_dir: "/home/me/.local/state/convoke".into(),
//!     sandbox: SandboxSettings::default(),
//!     programs,
//! };
//! let definition = Catalog::built_in(programs).get("claude").cloned().ok_or("no such agent")?;
//! let mut turn = agent(definition, host).start(TurnInput::new("What is this?", "/home/me/project"));
//! while let Some(event) = turn.next().await {
//!     println!("{event:?}");
//! }
//! let result = turn.result().await;
//! if result.verdict == Verdict::Done {
//!     println!("{}", result.reply);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The `main` of such a program must begin with [`process::guardian::run_if_asked`].

pub mod adapter;
pub mod approvals;
pub mod cli;
pub mod clock;
pub mod command_files;
pub mod config;
pub mod diagnostics;
pub mod ending;
pub mod endpoint;
pub mod env_file;
pub mod launch;
pub mod loading;
pub mod process;
pub mod redaction;
pub mod relayed;
pub mod sandbox;
pub mod search_path;
pub mod stream;
pub mod team_tools;
#[cfg(test)]
mod testing;
pub mod thread;
pub mod turn;
pub mod turn_input;
pub mod working_directory;

pub use cli::{Cli, Programs};
pub use turn::{Agent, AgentTurn, TurnResult};
pub use turn_input::TurnInput;
