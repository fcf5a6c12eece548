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
