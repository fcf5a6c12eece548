//! Compares what agents load in a repository with a baseline that is kept in it.
//!
//! ```text
//! places ──▶ measurement (what each program loads in each place) ──▶ regressions ──▶ causes
//!                                    baseline (a file) ──────────────┘               (git)
//! ```
//!
//! [`measure`] explains every place of a repository as a machine without a user would: what lies outside of it, and what
//! belongs to one person, does not count. [`Baseline`] is a sorted file with one fact a line, so that changes of several branches
//! merge. [`compare`] finds what got worse, and [`causes::Changes`] the line and the commit that did it.
//!
//! # Modules
//!
//! - `places` finds the directories in which agents are started; `shared_files` is the repository without what is one person's;
//!   `measurement` explains the places; `record` is what a program loads in one of them.
//! - `baseline` reads and writes the file; `budget` has its limits.
//! - `regression` compares; `causes` asks git for the change that did it.

pub mod baseline;
pub mod budget;
pub mod causes;
pub mod diagnostics;
pub mod measurement;
pub mod places;
pub mod record;
pub mod regression;
mod shared_files;

pub use baseline::{Baseline, BaselineError};
pub use budget::{Budget, Budgets, Growth};
pub use causes::Cause;
pub use measurement::{Measurement, PlaceReport, measure};
pub use record::Record;
pub use regression::{Comparison, Kind, Regression, compare};
pub use shared_files::SharedFiles;
