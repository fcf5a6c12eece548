//! Conversations from the outside: scripted agents, a real store.

mod conversation;
mod hostile;
mod stage;
mod store;
mod transfer;
