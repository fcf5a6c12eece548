//! The views: HTML and SVG, rendered from the types that the terminal shows.
//!
//! Every view is a fragment, so that the page can show it and a document can contain it. Content only ever appears as
//! escaped text: no view has a script, a style or an address that comes from a conversation.

pub mod changes;
mod chart;
pub(crate) mod code;
pub(crate) mod compare;
pub mod conversation;
pub mod diff;
pub mod events;
pub mod explain;
pub(crate) mod figures;
pub(crate) mod given;
pub mod inspector;
pub mod ledger;
pub(crate) mod markdown;
pub(crate) mod nodes;
pub(crate) mod patch;
pub mod programs;
pub mod requests;
pub mod sessions;
pub mod text;
pub(crate) mod usage;
pub(crate) mod waterfall;

use std::time::Duration;

pub use convoke_core::figures::{count, dollars, percent, thousands as number};
use convoke_protocol::id::{Millis, SessionId};
use convoke_session::time_format::utc;
use maud::{Markup, html};

/// Returns a duration: `1.2 s`, `2 min 05 s`.
pub fn seconds(millis: u64) -> String {
    convoke_core::figures::seconds(Duration::from_millis(millis))
}

/// Returns the short id, as the terminal shows it.
pub fn short(session: SessionId) -> String {
    session.short()
}

/// Renders a point in time, which the page shows in the reader's time zone.
pub fn moment(at: Millis) -> Markup {
    html! { time data-millis=(at.0) { (utc(at)) } }
}

/// Renders a point in time, which the page shows by its distance from now.
pub fn moment_ago(at: Millis) -> Markup {
    html! { time data-millis=(at.0) data-ago { (utc(at)) } }
}

/// Returns a button that sends a request.
fn action(label: &str, path: &str, body: &serde_json::Value) -> Markup {
    html! { button type="button" data-post=(path) data-body=(body) { (label) } }
}

/// Returns a button that previews a request, and sends it again when the person agrees.
fn confirmed(label: &str, path: &str, body: &serde_json::Value) -> Markup {
    html! { button type="button" data-post=(path) data-body=(body) data-confirm=(label) { (label) } }
}

/// Returns a button that saves a response as a file.
fn download(label: &str, path: &str, name: &str) -> Markup {
    html! { button type="button" data-download=(path) data-name=(name) { (label) } }
}
