//! Redaction: removes secrets from a text before it is logged, stored or shown.
//!
//! Two kinds of secrets are found: *known values*, given by the caller (from an environment or a
//! configuration), in the spellings that programs use (`encoding`); and *formats* that only secrets have: the
//! keys of well-known services (`format`), private keys (`pem`) and passwords in URLs (`url`).
//!
//! A text is read once, byte by byte, with a bounded number of steps per byte (`scan`). The result does not
//! depend on how the text is split, so a text that arrives in pieces ([`StreamRedactor`]) gives the same result
//! as the whole text.
//!
//! ```
//! use convoke_redact::Redactor;
//!
//! let redactor = Redactor::default().and_key("correct-horse-battery");
//! assert_eq!(redactor.redact("the key is correct-horse-battery."), "the key is [redacted].");
//!
//! let mut stream = redactor.stream();
//! assert_eq!(stream.push("the key is correct-ho"), "the key is ");
//! assert_eq!(stream.push("rse-battery."), "[redacted].");
//! assert_eq!(stream.finish(), "");
//! ```
//!
//! # Modules
//!
//! Removes secrets from a text, whole (`redactor`) or in pieces (`stream`), in one pass. `known` finds the values that
//! the caller gives, in all spellings (`spelling`; `encoding` and `escape` decode the text). `format` is the table of key formats,
//! `randomness` distinguishes keys from words, `pem` finds private keys, `url` finds passwords in URLs, and `boundary` finds the starts
//! of words. `scan` passes each byte once to all of them, and `mask` writes the result.
//!
//! # Invariants
//!
//! - No I/O; linear in the text; a text in pieces gives the same result as the whole text
//!   (`crates/engine/redact/tests/properties.rs: any_text_in_pieces_gives_what_the_whole_gives`).

mod boundary;
mod encoding;
mod escape;
mod format;
mod known;
mod mask;
mod pem;
mod randomness;
mod redactor;
mod scan;
mod spelling;
mod stream;
mod url;

pub use self::mask::MARK;
pub use self::redactor::{Redactor, is_secret_name};
pub use self::stream::StreamRedactor;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
