//! Exchanges: the requests of a program to its model and their answers, as recorded by a server of ours.

use std::time::Duration;

use bytes::Bytes;

use crate::answer::AnswerFacts;
use crate::recognition::ModelCall;

/// A step of an exchange.
///
/// Exhaustive on purpose: a new kind must be handled everywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exchange {
    /// A program sent a request.
    Sent(SentRequest),
    /// A request was answered, or its answer ended early.
    Answered {
        /// The number of the request.
        number: u64,
        answer: ReceivedAnswer,
    },
}

/// A request that calls a model, as far as it may be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentRequest {
    /// Its number among the requests of the server.
    pub number: u64,
    /// The path and query, without secrets.
    pub target: String,
    /// The headers without secrets.
    pub headers: Vec<(String, String)>,
    pub call: ModelCall,
    /// The bytes that were sent.
    pub sent_bytes: u64,
    /// Their SHA-256, in hexadecimal.
    pub sent_sha256: String,
    /// The body, decoded, with the values of masked fields replaced; `None` if it was too large to keep.
    pub body: Option<Bytes>,
    /// The places of the masked fields.
    pub masked: Vec<String>,
}

/// The answer to a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReceivedAnswer {
    /// The HTTP status; `None` if no answer came.
    pub status: Option<u16>,
    pub facts: AnswerFacts,
    /// The time from the request to the first byte of the answer.
    pub first_byte: Option<Duration>,
    /// The time from the request to the end of the answer.
    pub elapsed: Duration,
    /// The reason why there is no answer, or not all of it.
    pub failure: Option<String>,
}
