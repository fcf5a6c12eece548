//! Sessions in formats of other tools.
//!
//! A [`Conversation`] (module `conversation`) is a session as its agents were invoked: [`own`] makes it from Convoke's log, [`foreign`] from the files of
//! another program. [`otlp`] writes it as a trace by the OpenTelemetry conventions for generative AI, [`atif`] as a trajectory in
//! the Agent Trajectory Interchange Format. `texts` decides which texts are in it, and [`collector`] sends traces.

pub mod atif;
pub mod collector;
mod conversation;
pub mod foreign;
pub mod otlp;
pub mod own;
mod texts;

pub use conversation::{
    Call, CallResult, Conversation, Failed, Invocation, ModelRequest, Step, StepKind,
};
pub use texts::Texts;
