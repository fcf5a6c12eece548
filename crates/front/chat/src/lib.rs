//! A full-screen terminal interface for a conversation: messages, running agents, and the prompt of each turn.
//!
//! [`Chat`] is the whole state. [`Chat::update`] applies an input (a key, an event of the conversation, the
//! time) and returns the effect to run, without I/O. [`render`] draws the state. [`run`] is the event loop: it
//! owns the terminal and the conversation. Without a terminal, [`InputParser::understand`] parses input line by
//! line.
//!
//! Agents' texts are untrusted: only printable characters reach the terminal.
//!
//! # Modules
//!
//! The full-screen terminal interface.
//!
//! - `model` is the state: it applies keys, session events and the time, and returns effects, without I/O or a clock. `history` is
//!   the state of an opened session, `transcript` the messages, `running_turn` a running turn, `overlay` a page above them,
//!   `sent_prompt` a stored prompt; `editor` is the input line and `completion` completes its words.
//! - `view` draws the state; `layout` divides the screen.
//! - `event_loop` owns the terminal and the session; `console` has the screen, keys and signals; `terminal` sets the terminal up and always
//!   restores it. `interjections` puts messages into the inbox of the session while the screen goes on.
//! - `user_action` parses input, in a full screen or line by line; `command` is the table of commands.
//! - `text` makes texts safe to print and wraps them; `figures` formats times.
//!
//! # Invariants
//!
//! - Every text reaches the terminal through `text::printable` or `text::shown`
//!   (`crates/front/chat/src/model/tests.rs: nothing_of_a_hostile_text_reaches_the_terminal`).
//! - A frame is O(screen) and an event is O(its own size), whatever the length of the conversation
//!   (`crates/front/chat/src/text/flow.rs: a_text_without_line_breaks_stays_cheap`).

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
pub use model::{Chat, Effect, Input, Setup};
pub use overlay::help;
pub use sent_prompt::{SentPrompt, read_last as read_last_prompt};
pub use text::{is_dangerous, printable};
pub use transcript::EarlierPage;
pub use user_action::{InputParser, PromptView, UserAction};
pub use view::render;
