//! Runs one turn of one coding agent.
//!
//! What is particular to a CLI is behind the trait [`Cli`].
//!
//! ```no_run
//! use convoke_agent::adapter::{Host, agent};
//! use convoke_agent::config::Catalog;
//! use convoke_agent::process::guardian::Guardian;
//! use convoke_agent::sandbox::SandboxSettings;
//! use convoke_agent::TurnInput;
//! use convoke_protocol::verdict::Verdict;
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
//!
//! # Modules
//!
//! Runs one turn of one agent: a `TurnInput` goes in, `Event`s come out, then a `TurnResult` (reply, verdict, tokens,
//! what resumes the session). On tokio.
//!
//! - `turn`, `turn_input`: the types that the other crates use; `ending` decides how a turn ended. The `Agent` trait
//!   has one method.
//! - `cli`: what a vendor gives for its CLI: the traits `Cli`, `TurnProgram`, `Endpoint` and `Relayable`, and `Facts` as data.
//!   `Programs` are those that the caller knows. No code here asks which CLI it has.
//! - `stream`: parses an agent's output line by line, without I/O or copying: what the readers of all formats share, and `acp`.
//! - `process`: starts and supervises programs. `supervise` feeds input, drains output, enforces limits and timeouts, and
//!   cancels: ask, interrupt, kill. `running` is the program itself, which may rest between two turns. `guardian` is a second process of the same binary, between Convoke and the agent. It
//!   adopts the processes that the agent leaves behind, including tool shells in their own sessions, and kills them when the
//!   turn is over or Convoke is gone. A keeper between guardian and agent does the same if the guardian is killed.
//!   `private_dir` holds the files of a turn; directories left by a killed process are removed later. `start_order` is the first
//!   part of a process's input: the process below the keeper enters the working directory, enforces the policy on itself and
//!   becomes the agent.
//! - `sandbox`: what a program may do. `Sandbox` creates a `Policy` from the permissions, the program's state (`state`), the user's
//!   secrets (`secrets`) and the route to the model. `linux` enforces it on a process (Landlock and seccomp). `added` holds the paths
//!   of the user's configuration as they were when the session began, `carve` covers a directory except some paths, `sign_in` keeps a
//!   sign-in that a confined program renewed, `Gap` names what is not enforced, and `stopped` finds tools that the kernel refused.
//! - `working_directory`: the directory of a program by its real path and its identity. It is opened without links before anything is
//!   checked; the process that starts the program opens the same one again, or does not start it.
//! - `launch`: the one way to start an agent's program, *confined*: in turns, trials, captures, measurements and questions. `ConfinedEnvironment` is its
//!   environment: in an untrusted project git runs no command of the project (`git`), the program loads none of its variables, and
//!   the `PATH` has none of its directories. `confined` adds the sandbox and creates the `Launch`; `observed` does so for a program whose
//!   requests are captured, and `ask` runs such a program for its answer to a question (`question`): its version, its sign-in.
//! - `command_files`: the project's files that name commands, which the user trusts; `search_path`: finds programs by name.
//! - `approvals`: questions that an agent asks before it acts. A dialogue reports a question as an event; `supervise` answers it by
//!   rules and earlier answers (`Approvals`), by an `Answerer` that only the caller of a turn has, or with a no after its time limit.
//! - `adapter`: for each kind of agent, a function from a `TurnInput` to arguments, environment and dialogue. The stand-in needs
//!   no program. `adapter::live` keeps the programs of members that remember, under the terms that they were started with. `adapter::acp` is one dialogue for every agent that speaks the Agent Client Protocol
//!   (Gemini CLI too, where it asks); `preset` is one that a vendor names. `adapter::acp::client` reads files
//!   and runs commands (`process::terminal`) for an agent whose settings ask for it.
//!   ACP and MCP are parsed and written as JSON values, here and in `pipe::mcp`. The types of the official crates would accept less:
//!   one unknown kind of update rejects a whole message, `session/set_model` (the only way to choose a model of some agents) is
//!   missing, and a line of 16 MiB can be read within memory limits only if the reader decides what to keep. Their connections also
//!   need a runtime, and `pipe` has no async. Therefore the official types only check the messages:
//!   `convoke-conformance-acp` parses everything that is written, without loss, with the types of `agent-client-protocol` 5.0
//!   (`crates/vendors/suite/tests/acp_types.rs: every_request_of_a_turn_is_written_as_the_official_types_write_it`, all recordings in
//!   `crates/vendors/suite/tests/acp.rs`, and every message of `convoke acp` in `crates/front/cli/tests/it/editor.rs`), and those types write
//!   everything that both sides must parse (`crates/vendors/suite/tests/acp_types.rs: every_update_is_read`,
//!   `crates/front/cli/tests/it/acp_editors.rs: everything_that_the_official_types_write_is_read`). The official clients drive both servers
//!   (`crates/front/cli/tests/clients`).
//! - `arguments`: the arguments of an agent's configuration, which an adapter passes on, refuses or says in its own way.
//! - `config`: the built-in agents, the user's file, and which settings each kind of agent uses.
//! - `relayed`: the endpoint that a CLI would use, by its way of signing in, and its redirection to a relay.
//! - `endpoint`: makes a CLI use a given model server in a private home.
//! - `team_tools`: the tools with which an agent reaches its team during its turn, and the socket to the MCP server that its
//!   program starts.
//! - `redaction`: removes secrets from events and results, with `convoke-redact`.
//! - `thread`: the interface to the store of threads and requests; `clock`: the time now; `loading`: the arguments
//!   that decide which files a CLI loads; `env_file`: the names of variables in `.env` files; `milliseconds`: durations in JSON.
//!
//! # Invariants
//!
//! - No flag and no event format of a CLI is here: they are in the vendors' crates
//!   (`conformance/tests/architecture/main.rs: flags_and_event_formats_are_in_the_vendors_crates_only`).
//! - No prompt text is passed in an argument list (`crates/vendors/suite/tests/it/adapters.rs:
//!   no_text_of_a_delivery_is_an_argument_or_a_variable`).
//! - Every program has one enforcer of its permissions (`crates/runtime/agent/src/sandbox/tests.rs:
//!   every_program_has_one_enforcer`); a policy is fully enforced, or the program does not start
//!   (`crates/vendors/suite/tests/sandbox.rs: without_landlock_permissions_are_refused_and_never_ignored`).
//! - An agent reaches what the page on permissions says, and nothing else (`crates/front/cli/tests/escapes/main.rs:
//!   a_plain_agent_that_may_read`, `crates/front/cli/tests/escapes/main.rs: the_tools_of_gemini`).
//! - A path is looked up once per turn: the value that is checked is the one that the policy gets
//!   (`crates/runtime/agent/src/sandbox/tests.rs: the_policy_gets_the_working_directory_that_was_checked`).
//! - No text of a conversation answers a question; only an `Answerer` does (`crates/front/cli/tests/it/asking.rs:
//!   a_message_is_not_an_answer`).
//! - The verdict comes from the agent's closing event; an exit code alone does not decide it
//!   (`crates/runtime/agent/src/ending.rs: an_exit_code_of_zero_without_a_closing_event_is_a_failure`).

pub mod adapter;
pub mod approvals;
pub mod arguments;
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
