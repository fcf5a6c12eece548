//! Sessions of other programs: the list, a session, and one request.

pub mod list;
pub(crate) mod request;
pub mod session;

use convoke_protocol::window::Grade;
use maud::{Markup, html};

/// Renders a grade.
fn grade(grade: Grade) -> Markup {
    html! { span.badge.grade.(grade.as_str()) title=(meaning(grade)) { (grade.as_str()) } }
}

/// Returns what a grade means.
const fn meaning(grade: Grade) -> &'static str {
    match grade {
        Grade::Exact => "equal to what was sent",
        Grade::Messages => {
            "the conversation is as it was sent; the system text or the tools are not in the files"
        }
        Grade::Partial => "something of the conversation is missing",
    }
}
