//! The conversation in a full-screen terminal: what is said, who is at work, and what each was sent.
//!
//! [`Chat`] is the whole state; [`Chat::update`] takes in what happened (a key, an event of the
//! conversation, the time) and returns what is to be done about it, without any I/O. [`render`] draws
//! the state. [`hold`] is the thin loop around both: it owns the terminal and the conversation. Where
//! there is no terminal, [`InputParser::understand`] reads what is entered line by line.
//!
//! Texts of agents are not trusted: nothing that they hold reaches the terminal but what can be seen.

mod command;
mod completion;
mod editor;
mod event_loop;
mod figures;
mod history;
mod layout;
mod model;
mod overlay;
mod sent_prompt;
mod terminal;
mod text;
mod transcript;
mod user_action;
mod view;
mod work;

pub use command::{COMMANDS, Command, Verb};
pub use event_loop::{ChatError, Closing, Updates, hold, updates};
pub use model::{Chat, Effect, Input, Setup, Waiting};
pub use overlay::help;
pub use sent_prompt::{SentPrompt, read as read_sheet};
pub use text::{is_dangerous, printable};
pub use user_action::{InputParser, PromptView, UserAction};
pub use view::render;
