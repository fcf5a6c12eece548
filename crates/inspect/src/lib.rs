//! Inspects the agent CLIs of a machine: their requests to models ([`capture`], [`record`]), whether they load what is
//! explained ([`verify`]), and whether they work ([`doctor`]).
//!
//! Neither reads the environment or the home directory itself: the caller passes them as [`HostEnvironment`]. Neither
//! writes to a CLI's configuration.

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
