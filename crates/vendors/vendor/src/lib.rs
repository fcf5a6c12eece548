//! What Convoke asks of each vendor of agents.
//!
//! A vendor is one folder beside this one. Everything that Convoke knows about its programs is there; the rest of the
//! code meets it through [`Vendor`] and the traits that it returns, and never asks which vendor it has:
//!
//! - [`Cli`](convoke_agent::Cli) is how the vendor's CLI is run, pointed to another server and relayed;
//! - [`MeasuredCli`] is how it is measured, with a copy of the user's configuration.
//!
//! # Modules
//!
//! What Convoke asks of each vendor: the trait `Vendor`, with the traits that it returns. `measured` is how a CLI is measured;
//! `configuration` copies a user's configuration into a private home. `crates/vendors/README.md` says how a vendor is added.
//!
//! # Invariants
//!
//! - Nothing but the registry names a vendor's crate (`conformance/tests/architecture/main.rs:
//!   nothing_but_the_registry_names_a_vendors_crate`).

mod configuration;
mod measured;

use std::fmt;

use convoke_agent::adapter::Preset;
use convoke_explain::LoadingRules;
use convoke_source::SessionSource;
use serde::{Serialize, Serializer};

pub use self::configuration::{ConfigurationCopy, HomeError, UserHome};
pub use self::measured::{ListedSkill, MeasuredCli, SettingTexts};

/// A vendor of agents.
pub trait Vendor: fmt::Debug + Sync {
    /// Returns its CLI, if Convoke runs one by its own protocol.
    fn cli(&self) -> Option<&'static dyn MeasuredCli> {
        None
    }

    /// Returns the rules by which its agent loads instruction files and skills, if they are known.
    fn loading_rules(&self) -> Option<&'static LoadingRules> {
        self.cli().map(MeasuredCli::loading_rules)
    }

    /// Returns the sessions that its program stores, if they can be read.
    fn sessions(&self) -> Option<&'static dyn SessionSource> {
        None
    }

    /// Returns its programs that speak the Agent Client Protocol.
    fn presets(&self) -> &'static [Preset] {
        &[]
    }
}

impl fmt::Display for dyn MeasuredCli + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.facts().command)
    }
}

impl PartialEq for dyn MeasuredCli {
    fn eq(&self, other: &Self) -> bool {
        self.facts().command == other.facts().command
    }
}

impl Eq for dyn MeasuredCli {}

impl Serialize for dyn MeasuredCli {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.facts().command)
    }
}
