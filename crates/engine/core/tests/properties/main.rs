//! The invariants of the engine, each as a property over hostile content.
//!
//! `PROPTEST_CASES` sets the number of cases of each; the default is 256.

#![expect(clippy::expect_used, reason = "this is a test")]

mod assembly;
mod budget;
mod escaping;
mod fencing;
mod hostile;
mod ledger;
mod manager;
mod markers;
mod reference;
