//! Conversations from the outside: scripted agents, a real store.

mod conversation;
mod stage;
mod store;
mod threads;
mod transfer;
