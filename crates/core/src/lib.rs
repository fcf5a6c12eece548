//! From a conversation to the exact prompt of one agent, with a ledger that accounts for every byte.

pub mod diagnostic;
pub mod ledger;
pub mod marker;
pub mod whitespace;

pub use diagnostic::{Code, Diagnostic};
