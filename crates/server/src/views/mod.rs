//! The views: HTML and SVG, rendered from the types that the terminal shows.
//!
//! Every view is a fragment, so that the page can show it and a document can contain it. Content only ever appears as
//! escaped text: no view has a script, a style or an address that comes from a conversation.

pub mod changes;
pub mod chart;
pub mod conversation;
pub mod diff;
pub mod events;
pub mod explain;
pub mod inspector;
pub mod ledger;
pub mod requests;
pub mod sessions;
pub mod text;

use std::time::Duration;

pub use convoke_core::figures::thousands as number;
use convoke_session::clock::utc;
use convoke_session::{Millis, SessionId};
use maud::{Markup, html};

/// Returns a count with its noun.
pub fn count(many: u64, what: &str) -> String {
    let plural = if many == 1 { "" } else { "s" };
    format!("{} {what}{plural}", number(many))
}

/// Returns an amount in US dollars, as the terminal shows it.
pub fn dollars(amount: f64) -> String {
    match amount {
        ..=0.0 => "$0.00".to_owned(),
        ..0.0001 => "<$0.0001".to_owned(),
        ..0.1 => format!("${amount:.4}"),
        _ => format!("${amount:.2}"),
    }
}

/// Returns a share in percent, as the terminal shows it.
pub fn percent(part: u64, whole: u64) -> String {
    let (wide, half) = (u128::from(part) * 1000, u128::from(whole / 2));
    let tenths = (wide + half).checked_div(whole.into()).unwrap_or(0);
    match tenths {
        0 if part > 0 => "<0.1 %".to_owned(),
        1000 if part < whole => ">99.9 %".to_owned(),
        tenths => format!("{}.{} %", tenths / 10, tenths % 10),
    }
}

/// Returns a duration: `1.2 s`, `2 min 05 s`.
pub fn seconds(millis: u64) -> String {
    let time = Duration::from_millis(millis);
    match time.as_secs() {
        whole @ 60.. => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

/// Returns the end of an id, as the terminal shows it.
pub fn short(session: SessionId) -> String {
    let id = session.to_string();
    id[id.len() - 8..].to_owned()
}

/// Returns a moment. The page shows it in the time of the reader.
pub fn moment(at: Millis) -> Markup {
    html! { time data-millis=(at.0) { (utc(at)) } }
}

/// Returns a button that sends a request.
fn action(label: &str, path: &str, body: &serde_json::Value) -> Markup {
    html! { button type="button" data-post=(path) data-body=(body) { (label) } }
}

/// Returns a button that shows what a request would do, and sends it once more when the person agrees.
fn confirmed(label: &str, path: &str, body: &serde_json::Value) -> Markup {
    html! { button type="button" data-post=(path) data-body=(body) data-confirm=(label) { (label) } }
}

/// Returns a button that saves a response as a file.
fn download(label: &str, path: &str, name: &str) -> Markup {
    html! { button type="button" data-download=(path) data-name=(name) { (label) } }
}
