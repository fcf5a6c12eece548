//! From a conversation to the exact prompt of one agent, with a ledger that accounts for every byte.

pub mod agent_type;
pub mod assembler;
mod budget;
pub mod diagnostic;
mod forged;
mod fragment;
mod input;
pub mod json;
mod kept;
pub mod ledger;
pub mod marker;
pub mod message;
pub mod name;
mod render;
mod timestamp;
pub mod whitespace;

pub use agent_type::AgentType;
pub use assembler::{AssemblerOutput, Assemblers, ContextAssembler};
pub use budget::BudgetTooSmall;
pub use diagnostic::{Code, Diagnostic};
pub use fragment::Section;
pub use input::{AssemblerInput, DEFAULT_MAX_BYTES, Fencing, PromptContextMessage};
pub use message::{ConversationMessage, MessageId, NewMessage, Speaker, SpeakerType};
pub use timestamp::Timestamp;
