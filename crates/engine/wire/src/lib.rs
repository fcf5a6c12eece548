//! The wire formats of model providers, without I/O: OpenAI Responses and Chat Completions, Anthropic
//! Messages and Gemini `generateContent`.
//!
//! - [`recognition`]: what a request asks for, from its head and body.
//! - [`parts`]: the texts and tools of a request, each with its byte range in the body.
//! - [`usage`]: the tokens that a provider counted, and [`answer`], which reads them from a response.
//! - [`end`]: why the model stopped.
//! - [`cache`]: how two requests differ, in the order in which providers cache.
//! - [`mask`]: a request without the fields that identify an account, a machine or a session.
//! - [`normal`]: the window of a request, in one form for every format.
//! - [`exchange`]: a request and its answer, as a server of ours saw them.
//! - [`sse`] and [`encoding`]: server-sent events in bounded memory, and compressed bodies.
//!
//! ```
//! use convoke_protocol::wire::Wire;
//! use convoke_wire::{PartKind, RequestParts};
//!
//! let body = br#"{"model": "m", "system": "Be brief.", "messages": []}"#;
//! let request = RequestParts::parse(Wire::Messages, body)?;
//! let system = &request.parts[0];
//! assert_eq!((system.kind, &*system.text), (PartKind::System, "Be brief."));
//! assert_eq!(&body[system.range.clone()], b"Be brief.");
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! # Modules
//!
//! The wire formats of model providers, without I/O. `recognition` determines what a request asks for, `parts` locates its texts and
//! tools in the body, `answer` and `usage` read the tokens that a provider counted (`keyword` finds the events that carry them) and
//! `end` why its model stopped,
//! `cache` compares requests in the order in which a provider caches them, `sse` and `encoding` parse events and compressed bodies,
//! `exchange` is a recorded request with its answer, and `mask` replaces the fields that identify an account. `dates` finds dates and
//! times in texts.
//!
//! # Invariants
//!
//! - Every crate that reads a provider's format does so through this one; it contains nothing about a CLI
//!   (`conformance/tests/architecture/main.rs: servers_and_wire_formats_contain_nothing_about_a_cli`).

/// The request headers that carry credentials.
pub const CREDENTIAL_HEADERS: [&str; 8] = [
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "x-goog-api-key",
    "api-key",
    "x-amz-security-token",
    "cookie",
    "x-oai-attestation",
];

pub mod answer;
pub mod cache;
mod dates;
pub mod encoding;
pub mod end;
pub mod exchange;
mod keyword;
pub mod mask;
pub mod normal;
pub mod parts;
pub mod recognition;
pub mod sse;
pub mod usage;

pub use answer::{AnswerFacts, AnswerReader};
pub use end::{AnswerEnd, EndKind};
pub use exchange::{Exchange, ReceivedAnswer, SentRequest};
pub use parts::{Part, PartKind, RequestParts};
pub use recognition::{Framing, ModelCall, Recognised, RequestKind};
