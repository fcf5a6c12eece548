//! Builds the exact request to a model from a directory, a configuration and a history.
//!
//! The crate builds requests like Codex, is tested against captures of the real program, and records the source of
//! every byte. It is synchronous, sends nothing, reads no clock and no environment, and accesses files only
//! through [`convoke_files::Files`].
//!
//! ```no_run
//! use convoke_thread::config::{Config, Machine, Overrides};
//! use convoke_files::Disk;
//! use convoke_thread::pack::Pack;
//! use convoke_thread::thread::{Setup, Step, Thread, TurnOverrides};
//! use convoke_thread::user_input::UserInput;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let machine = Machine {
//!     home: Some("/home/me".into()),
//!     codex_home: "/home/me/.codex".into(),
//!     cwd: "/home/me/project".into(),
//!     shell: "bash".to_owned(),
//!     tmpdir: None,
//!     openai_base_url: None,
//! };
//! let pack = Pack::load(&Disk, "packs/mine".as_ref())?;
//! let config = Config::load(&Disk, &machine, pack.shape, &Overrides::default())?;
//! let setup = Setup {
//!     files: &Disk,
//!     pack: &pack,
//!     machine: &machine,
//!     listed_models: &[],
//! };
//! let mut thread = Thread::start(setup, config, "thread-1")?;
//! let hello = vec![UserInput::Text("hello".to_owned())];
//! if let Step::Send(request) = thread.begin_turn(hello, &TurnOverrides::default())? {
//!     println!("{}", request.body);
//!     assert_eq!(request.ledger.used_bytes(), request.body.len() as u64);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Where things are
//!
//! [`thread`] is the state machine of a conversation; [`prompt`] writes requests for the Responses and Chat wires with
//! their ledgers; [`history`] stores [`item`]s, pairs calls with outputs and truncates outputs; [`compaction`] rebuilds a
//! history; [`record`] reads and writes threads. The initial context comes from [`permissions`] (with
//! [`command_rules`]), [`instructions`], [`personality`], [`user_instructions`] (with [`project_doc`] and [`skills`]) and
//! [`environment`]. The inputs are [`config`], [`model`] and [`pack`].
//!
//! # What is supported
//!
//! - Shapes `codex@0.98` and `codex@0.94`. They differ in the default personality, in the texts of their packs
//!   (a pack without `wrappers/model-switch.md` adds nothing when the model changes), in `~/.agents/skills`, in
//!   how tokens are counted, and in the default wire of a provider.
//! - Configuration: `config.toml` of the user and of trusted projects, profiles, `-c` overrides, and
//!   the keys that a prompt depends on. Other keys are ignored.
//! - Everything in the request's body: instructions, all items, reasoning, verbosity, schema, storing. Tools
//!   are passed through; the caller reports their results.
//! - Threads: started, resumed, forked, rolled back, interrupted, steered; compacted by hand and by
//!   token limit, by the model and by the server; retries as the provider is configured.
//! - Records: Codex's session files and Convoke's own; a truncated last line is left out and reported.
//!
//! # What the captures show
//!
//! The captures of the real program decide. The initial context is built once for a thread and again on resume, fork and
//! compaction, not for every turn; on resume and fork it follows the restored history. A collaboration mode
//! that the first turn chooses comes after the environment, as a change. Explicit instructions, or the disabled
//! feature `personality`, remove the personality. A schema is sent as `text.format`, and is an error on Chat.
//! Compaction keeps user messages unchanged; its summary is the model's last message.
//!
//! # Known differences from the real program
//!
//! - HTTP headers are not built here.
//! - `models_cache.json` is not read: the caller passes the models that a server lists.
//! - Command rules are read only as literal `prefix_rule` calls; a file with anything else is reported and
//!   ignored, whereas Codex evaluates it.
//! - A configuration value of the wrong type is an error that names the key. Keys that a prompt does not depend
//!   on are not checked for a request; [`convoke_codex::config::check_start`] finds what Codex rejects.
//! - The review mode and sub-agents, whose prompts are not in packs, are not supported.
//! - A pipe or a device in place of a document or a skill is refused instead of read.
//! - An image that must be resized is encoded by this crate: same type and size, but different bytes.
//!
//! # Modules
//!
//! Builds the exact request of Codex 0.98 from a directory, a configuration and a history. `config`, `pack`, `model`, `permissions`, `skills`
//! and their neighbours are the inputs; `thread` is a state machine without I/O that returns the next step: a request to send,
//! tools to run, or the end of the turn; `history`, `compaction` and `record` hold its items, each
//! with its origin; `prompt` writes the request for either wire through `json`, a writer that records the source of every byte. The parts
//! of a request are modules of their own: `instructions`, `user_instructions`, `environment`, `command_rules`, `personality`,
//! `user_input`, `images`; `item` is an item of the wire, `truncate` cuts one that is too long.
//!
//! # Invariants
//!
//! - Files are read through `Files` only; no clock, no environment, no network
//!   (`conformance/tests/architecture/main.rs: pure_crates_use_no_file_clock_environment_or_network`).
//! - Requests are those that captures of the real program show, whatever else describes them
//!   (`crates/engine/thread/tests/scenarios/play.rs: compare`).
//! - No ledger is computed from rendered text (`crates/engine/thread/src/prompt/tests.rs:
//!   a_thread_keeps_the_source_of_every_byte_from_turn_to_turn`; for all scenarios
//!   `crates/engine/thread/tests/scenarios/sources.rs: check`, which also moves every boundary between two entries
//!   by a byte). The one exception is a session file of Codex, which records no sources: they are recognised from
//!   its text, and the entry names that rule (`crates/engine/thread/src/history/tests.rs:
//!   items_of_a_codex_session_are_recognised_and_the_ledger_says_so`). In the thread of a model member the origin
//!   of an item, and not its text, decides what a compaction keeps and where a turn begins
//!   (`crates/engine/thread/src/thread/tests.rs:
//!   a_message_that_looks_like_an_injected_one_survives_a_compaction_and_begins_a_turn`). A thread that imitates
//!   Codex drops such a message, as Codex does, and reports it (`crates/engine/thread/src/thread/tests.rs:
//!   a_thread_that_imitates_codex_recognises_messages_by_their_text_and_reports_what_it_drops`).

pub mod command_rules;
pub mod compaction;
pub mod config;
pub mod diagnostics;
pub mod environment;
#[cfg(test)]
mod fixture;
pub mod history;
pub mod images;
pub mod instructions;
pub mod item;
mod json;
pub mod model;
pub mod pack;
pub mod permissions;
pub mod personality;
pub mod prompt;
pub mod record;
pub mod skills;
pub mod thread;
pub mod truncate;
pub mod user_input;
pub mod user_instructions;

pub use convoke_codex::project_doc;
