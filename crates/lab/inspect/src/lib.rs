//! Inspects the agent CLIs of a machine: their requests to models ([`capture`], [`record`]), whether they load what is
//! explained ([`verify`]), and whether they work ([`doctor`]).
//!
//! Neither reads the environment or the home directory itself: the caller passes them as [`HostEnvironment`]. Neither
//! writes to a CLI's configuration.
//!
//! # Modules
//!
//! Inspects the CLIs of a machine.
//!
//! - `capture` runs one against the rehearsal server and writes the ledger of its request: `ownership` finds the user's parts, `account`
//!   writes the ledger of the body, `saved` and `diff` store and compare captures. `measured` captures one request, with a private copy
//!   of the user's configuration (`convoke_vendor::ConfigurationCopy`).
//! - `verify` compares such a request with what `explain` reports.
//! - `doctor` reports which agents are installed and what would fail.
//! - `record` stores the requests of CLI agents with their turns, from a rehearsal server or a relay, and compares them (`cache`).
//! - `host_environment` holds environment and home, `installed` finds CLIs and their versions, `explained` is the report of `explain` on
//!   one of them, `question` asks programs through `launch`.
//!
//! # Invariants
//!
//! - Neither writes to a CLI's own configuration (`crates/front/cli/tests/it/doctor.rs:
//!   nothing_is_written_into_the_home`) or opens a credentials file
//!   (`crates/vendors/suite/tests/it/configuration.rs: configuration_is_copied_and_credentials_are_not`).

pub mod capture;
pub mod diagnostics;
pub mod doctor;
pub mod explained;
pub mod host_environment;
pub mod installed;
mod question;
pub mod record;
pub mod verify;

pub use host_environment::HostEnvironment;
