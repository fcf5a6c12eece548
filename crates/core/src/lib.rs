//! From a conversation to the exact prompt of one agent, with a ledger that accounts for every byte.

pub mod agent_type;
pub mod assembler;
mod budget;
pub mod context;
pub mod diagnostic;
pub mod diagnostics;
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
mod timestamp;
mod truncation;
pub mod variable;
pub mod whitespace;

pub use agent_type::AgentType;
pub use assembler::{AssemblerOutput, Assemblers, ContextAssembler};
pub use budget::BudgetTooSmall;
pub use context::Visibility;
pub use diagnostic::{Code, Diagnostic, Severity};
pub use fragment::Section;
pub use input::{AssemblerInput, DEFAULT_MAX_BYTES, Fencing, PromptContextMessage};
pub use manager::{
    AgentContext, ContextManager, ContextManagerOptions, ContextProvider, ContextSnapshot, History,
    Hooks, InvalidSnapshot, MAX_TEAM_TASK_BYTES, MessageLimit, SnapshotReason, UnknownMessage,
    cut_team_task,
};
pub use message::{ConversationMessage, MessageId, NewMessage, Speaker, SpeakerType};
pub use timestamp::Timestamp;

/// The version of the engine: the same version and the same input give the same bytes.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
