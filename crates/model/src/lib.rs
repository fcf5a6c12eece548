//! A model behind an OpenAI-compatible endpoint.

pub mod client;
pub mod endpoint;
pub mod secret;
mod sse;
pub mod wire;

pub use client::{Call, CallError, CallEvent, CallLimits, Client};
pub use endpoint::{Endpoint, Proxies};
pub use secret::Key;
