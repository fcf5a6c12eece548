//! The vocabulary of Convoke: identifiers, messages, turns, questions, usage, requests and events, as plain data
//! with one JSON form and no I/O.
//!
//! The JSON of an [`Event`] is a line of `convoke run --json`, of an exported log, of the page's stream and of the
//! store. It is written and read by the same types.
//!
//! # Compatibility
//!
//! - Names are in camel case; an event's `type` is in kebab case.
//! - Fields and types of events are only added. A field that was added is optional when it is read.
//! - A reader ignores fields that it does not know, and refuses a type of event that it does not know, because what
//!   the event changed would be missing.
//!
//! # Modules
//!
//! `event` and `agent_event` are the log, and `view` is its fold. `id`, `session`, `message`, `turn`, `content`, `attachment`, `image`,
//! `verdict`, `permission`, `question`, `usage`, `thread`, `resume`, `memory` and `changes` are what events speak of; `request` is a stored
//! request, `window` what a model was given in one, and `wire` names its format. `milliseconds` are durations.

pub mod agent_event;
pub mod attachment;
pub mod changes;
pub mod content;
pub mod event;
pub mod id;
pub mod image;
pub mod memory;
pub mod message;
pub mod milliseconds;
pub mod permission;
pub mod question;
pub mod request;
pub mod resume;
pub mod session;
pub mod thread;
pub mod turn;
pub mod usage;
pub mod verdict;
pub mod view;
pub mod window;
pub mod wire;

pub use agent_event::{AgentEvent, AgentEventKind};
pub use event::{Event, EventKind};
pub use view::View;
