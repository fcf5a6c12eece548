//! A loopback listener that records what a program sends to its model, and forwards it, unchanged, to one
//! host.
//!
//! ```no_run
//! use convoke_relay::{Relay, RelayOptions, Upstream};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let upstream = Upstream::parse("https://api.anthropic.com")?;
//! let (relay, mut exchanges) = Relay::start(RelayOptions::new(upstream)).await?;
//! println!("point the program to {}", relay.base_url());
//! while let Some(exchange) = exchanges.recv().await {
//!     println!("{exchange:?}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The way of a request: `server` accepts a connection of this user, `access` checks the secret of the
//! address, `forward` sends the request to the [`Upstream`] through `connect`, `tee` copies the body and
//! the answer as they pass, and `copy` reduces the copies to what may be stored: `stored` decides which
//! headers, and `convoke-wire` which fields are masked.
//!
//! A program that can reach nothing but the relay gets to its sign-in hosts by `tunnel`, unread.
//!
//! Nothing is sent twice, no redirect is followed, and no header is added. A compressed body is forwarded
//! as it is; the copy is decoded.
//!
//! # Modules
//!
//! A loopback listener that records what a program sends to its model and forwards it to one host. `server` accepts connections of this
//! user, `access` checks the secret, `forward` sends a request once through `connect` (with `proxy` and TLS), `tee` copies bodies as they
//! pass, and `copy` reduces the copies to what may be stored (`stored`: an allow-list of headers; `convoke_wire::mask`: the masked fields).
//! `upstream` is the host that it forwards to; `public_address` refuses addresses of private networks.
//! `tunnel` passes encrypted connections on to the hosts that a confined program signs in with, and to no others.
//!
//! # Invariants
//!
//! - It adds no header and stores no credential (`crates/runtime/relay/tests/relay.rs:
//!   the_bytes_of_both_sides_are_equal_and_the_key_is_in_the_forwarded_header_alone`), follows no redirect and
//!   sends nothing twice (`crates/runtime/relay/tests/relay.rs:
//!   a_refusal_and_a_redirect_are_passed_on_and_nothing_is_sent_twice`).
//! - It contains nothing about a CLI: `convoke_agent::relayed` points each CLI to it
//!   (`conformance/tests/architecture/main.rs: servers_and_wire_formats_contain_nothing_about_a_cli`).

mod access;
mod connect;
mod copy;
mod forward;
mod proxy;
mod public_address;
mod server;
mod stored;
mod tee;
mod tunnel;
mod upstream;

pub use server::{Relay, RelayOptions, StartError};
pub use upstream::{InvalidUpstream, Upstream};
