//! Assembles the prompt of one agent from a conversation, with a ledger that accounts for every byte.
//!
//! # The idea
//!
//! ```text
//! sources ──▶ fragments ──▶ budget ──▶ bytes + ledger
//! ```
//!
//! Sources are messages, files and settings. Each becomes a fragment: a text with its origin. The budget
//! decides from the sizes of the fragments how much of each is kept. The prompt is then written once, and the
//! ledger is written with it: one entry for each range of bytes, with its source, and one for each omission,
//! with the rule that caused it. Written text is never parsed again.
//!
//! The same input always gives the same bytes. The crate does no I/O, reads no clock and no environment, and
//! accepts any UTF-8.
//!
//! # Map
//!
//! - [`prompt_builder`]: the simple entry point, from the parts of one prompt to its bytes.
//! - [`ContextManager`]: owns the messages of a conversation and prepares the context of each agent;
//!   [`context`] holds the rules as functions over messages.
//! - [`assembler`]: the formats of Claude, Codex, Gemini and plain text, and the registry for others.
//! - [`ledger`]: the account of a prompt, as JSON and as a table.
//! - [`marker`]: `[NEXT: …]`, `[FROM: …]`, `[DROP: …]` and `[TEAM_TASK]`, read and removed in one linear scan.
//! - [`diagnostic`]: coded findings; [`diagnostics`] is the table of the codes that this crate gives.
//!
//! # Examples
//!
//! Assemble a prompt and print its ledger:
//!
//! ```
//! use convoke_core::ledger::{Style, Table};
//! use convoke_core::prompt_builder::{PromptInput, build_prompt};
//!
//! let mut input = PromptInput::new("codex", "max", "Is login.py safe?");
//! input.team_task = Some("Review the authentication module");
//! let output = build_prompt(&input)?;
//!
//! assert!(output.prompt.ends_with("[MESSAGE]\nIs login.py safe?"));
//! assert_eq!(output.ledger.used_bytes(), output.prompt.len() as u64);
//! println!("{}", Table { ledger: &output.ledger, style: Style::default() });
//! # Ok::<(), convoke_core::BudgetTooSmall>(())
//! ```
//!
//! Keep a conversation:
//!
//! ```
//! use convoke_core::{AgentContext, ContextManager, NewMessage, Speaker, SpeakerType};
//!
//! let mut manager = ContextManager::default();
//! let kailai = Speaker::new("kailai", "kailai", SpeakerType::Human);
//! let max = Speaker::new("max", "max", SpeakerType::Ai);
//! manager.add_message(NewMessage::new(kailai.clone(), "Where do we stand? [NEXT: max]"));
//! manager.add_message(NewMessage::new(max, "One test fails. [NEXT: kailai]"));
//! manager.add_message(NewMessage::new(kailai, "Which one? [NEXT: max]"));
//!
//! let input = manager.context_for_agent("max", AgentContext::default());
//! let output = manager.assemble_prompt("claude", &input)?;
//! assert!(output.prompt.contains("- max -> all: One test fails."));
//! # Ok::<(), convoke_core::BudgetTooSmall>(())
//! ```
//!
//! Register an assembler for another agent, here one that reads Gemini's format:
//!
//! ```
//! use convoke_core::assembler::GeminiAssembler;
//! use convoke_core::{
//!     AgentType, AssemblerInput, AssemblerOutput, Assemblers, BudgetTooSmall, ContextAssembler,
//! };
//!
//! struct Aider;
//!
//! impl ContextAssembler for Aider {
//!     fn agent_type(&self) -> AgentType {
//!         AgentType::normalize("aider")
//!     }
//!
//!     fn assemble<'a>(
//!         &self,
//!         input: &'a AssemblerInput<'a>,
//!     ) -> Result<AssemblerOutput<'a>, BudgetTooSmall> {
//!         GeminiAssembler.assemble(input)
//!     }
//! }
//!
//! let mut assemblers = Assemblers::default();
//! assemblers.register(Box::new(Aider));
//! let input = AssemblerInput { current_message: "Go on.".into(), ..AssemblerInput::default() };
//! assert_eq!(assemblers.assemble("aider", &input)?.prompt, "Your task:\nGo on.");
//! # Ok::<(), BudgetTooSmall>(())
//! ```
//!
//! # Modules
//!
//! The engine, pure: no I/O, no clock, no environment, no async, six dependencies. Useful without the rest.
//!
//! - `marker`: finds `[NEXT: …]`, `[FROM: …]`, `[DROP: …]` and `[TEAM_TASK]` in one linear scan, removes them and returns
//!   their values. `preserve` (the default) changes nothing else; `compat` also normalises white space.
//! - `message`, `timestamp`, `name`: messages and their times, names of members and their comparison.
//! - `context`: selects the context messages of a prompt, reading no further than the window. `manager` (`ContextManager`)
//!   owns a message list with indexes, so that adding a message is O(1) and a context is O(window) in a history of any length.
//! - `input` → `fragment` → `budget` (with `truncation`) → `render`: the pipeline above, one module per step.
//! - `assembler`: the formats (Claude, Codex, Gemini, plain text) as data, and the registry for others.
//! - `text`: `TextWriter` writes fragments and their ledger together, for prompts and requests; `SourcedText` is the result.
//! - `ledger`: entries, sources and rules; `docs/ledger.schema.json` is the JSON schema, `ledger::table` the printed form.
//! - `escape`: escapes characters that an agent's program would act on.
//! - `forged`: finds lines of content that imitate a header or a speaker.
//! - `diagnostic`: the type of a diagnostic; `diagnostics`: the table of this crate's codes. Each crate with diagnostics has
//!   such a table, and the binary collects the tables.
//! - `prompt_builder`: the simplest entry point.
//! - `agent_type`: which format an agent reads. `json` parses values with errors that name the field; `whitespace` and `line_break` are
//!   the character sets of ECMAScript that the markers use; `figures` formats numbers for people; `variable` checks names of
//!   environment variables.
//!
//! # Invariants
//!
//! - `core` depends on no other crate of the workspace (`conformance/tests/architecture/main.rs:
//!   core_depends_on_no_other_crate_of_the_workspace`) and contains no vendor's flags
//!   (`conformance/tests/architecture/main.rs: flags_and_event_formats_are_in_the_vendors_crates_only`).

pub mod agent_type;
pub mod assembler;
mod budget;
pub mod context;
pub mod diagnostic;
pub mod diagnostics;
mod escape;
pub mod figures;
mod forged;
mod fragment;
mod input;
pub mod json;
pub mod ledger;
mod line_break;
mod manager;
pub mod marker;
pub mod message;
pub mod name;
pub mod prompt_builder;
mod render;
mod text;
mod timestamp;
mod truncation;
pub mod variable;
pub mod whitespace;

pub use agent_type::AgentType;
pub use assembler::{AssemblerOutput, Assemblers, ContextAssembler};
pub use budget::BudgetTooSmall;
pub use context::{ContextOptions, Visibility};
pub use diagnostic::{Code, Diagnostic, Severity};
pub use escape::{Escaping, begins_with_slash};
pub use fragment::{Fragment, Section};
pub use input::{
    AgentContext, AssemblerInput, AttachedFile, ContextSource, DEFAULT_MAX_BYTES, Fencing,
    PromptContextMessage, Trimming, input_schema, unknown_field, without_known_field,
};
pub use manager::{
    ContextManager, ContextManagerOptions, ContextProvider, ContextSnapshot, History, Hooks,
    InvalidSnapshot, MAX_TEAM_TASK_BYTES, MessageLimit, SnapshotReason, UnknownMessage,
    cut_team_task,
};
pub use message::{ConversationMessage, MessageId, NewMessage, Speaker, SpeakerType};
pub use text::{SourcedText, TextWriter};
pub use timestamp::{Millis, Timestamp};

/// The version of the engine. The same version and the same input give the same bytes.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
