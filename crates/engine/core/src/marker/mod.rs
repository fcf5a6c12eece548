//! Markers: `[NEXT: …]`, `[FROM: …]`, `[DROP: …]` and `[TEAM_TASK]` in messages.
//!
//! A scan removes the markers from a text and returns their values. It is linear in the text, and does not allocate if
//! there is no marker to remove.

mod compat;
mod keyword;
mod preserve;
mod value;

use std::borrow::Cow;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;

/// The policy for removing markers from a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TextPolicy {
    /// Removes markers and the gaps that they leave, and changes nothing else. Markers in code and quotations
    /// are plain text.
    #[default]
    Preserve,
    /// Removes markers, also in code and quotations, and loses indentation, blank lines and runs of white space.
    Compat,
}

impl FromStr for TextPolicy {
    type Err = UnknownTextPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownTextPolicy> {
        match name {
            "preserve" => Ok(Self::Preserve),
            "compat" => Ok(Self::Compat),
            _ => Err(UnknownTextPolicy),
        }
    }
}

/// No policy has this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be \"preserve\" or \"compat\"")]
pub struct UnknownTextPolicy;

/// The priority of a route.
///
/// Exhaustive on purpose: a new kind must be handled everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Intent {
    /// Interrupt: goes before all others.
    P1,
    /// Reply: the default.
    #[default]
    P2,
    /// Extend: goes after the replies.
    P3,
}

/// One member that a `[NEXT: …]` marker calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Route {
    /// The name as written.
    pub name: String,
    /// The priority.
    pub intent: Intent,
}

/// A text without its markers, and their values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scan<'a> {
    /// The text without its markers.
    pub text: Cow<'a, str>,
    /// The members to call, in the order of the text.
    pub next: Vec<Route>,
    /// The claimed speaker: the first `[FROM: …]`.
    pub from: Option<String>,
    /// The team task: the last one that is not empty.
    pub task: Option<String>,
    /// The members whose queued turns are dropped; `ALL` for all.
    pub drop: Vec<String>,
    /// The diagnostics of markers without a value.
    pub diagnostics: Vec<Diagnostic>,
}

/// Removes the markers from a text and returns their values.
///
/// ```
/// use convoke_core::marker::{scan, Intent, TextPolicy};
///
/// let scan = scan("Looks good. [NEXT: sarah!P1]", TextPolicy::Preserve);
/// assert_eq!(scan.text, "Looks good.");
/// assert_eq!(scan.next[0].name, "sarah");
/// assert_eq!(scan.next[0].intent, Intent::P1);
/// ```
pub fn scan(text: &str, policy: TextPolicy) -> Scan<'_> {
    match policy {
        TextPolicy::Preserve => preserve::scan(text),
        TextPolicy::Compat => compat::scan(text),
    }
}

/// Returns a text without its markers.
pub fn strip_all_markers(text: &str, policy: TextPolicy) -> Cow<'_, str> {
    scan(text, policy).text
}
