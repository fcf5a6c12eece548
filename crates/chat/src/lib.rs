//! A full-screen terminal interface for a conversation: messages, running agents, and the prompt of each turn.
//!
//! [`Chat`] is the whole state. [`Chat::update`] applies an input (a key, an event of the conversation, the
//! time) and returns the effect to run, without I/O. [`render`] draws the state. [`run`] is the event loop: it
//! owns the terminal and the conversation. Without a terminal, [`InputParser::understand`] parses input line by
//! line.
//!
//! Agents' texts are untrusted: only printable characters reach the terminal.

mod command;
mod completion;
mod console;
mod editor;
mod event_loop;
mod figures;
mod history;
mod interjections;
mod layout;
mod model;
mod overlay;
mod running_turn;
mod sent_prompt;
mod terminal;
mod text;
mod transcript;
mod user_action;
mod view;

pub use command::{COMMANDS, Command, Verb};
pub use event_loop::{
    Attachments, ChatError, ClosedChat, Host, RemoteReply, RemoteRequests, Updates, run, updates,
};
pub use model::{Chat, Effect, Input, QueuedTurn, Setup};
pub use overlay::help;
pub use sent_prompt::{SentPrompt, read_last as read_last_prompt};
pub use text::{is_dangerous, printable};
pub use transcript::EarlierPage;
pub use user_action::{InputParser, PromptView, UserAction};
pub use view::render;
