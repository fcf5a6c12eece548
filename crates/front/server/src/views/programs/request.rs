//! One request of another program's session.

use convoke_open::request::SentRequest;
use maud::{Markup, html};

use super::{grade, meaning};
use crate::other_sessions::{OtherName, PricedRequest};
use crate::sent::SentName;
use crate::views::figures::{strip, usage_facts};
use crate::views::given::{self, Given};
use crate::views::text::line;
use crate::views::{compare, count, dollars, download, moment};

/// Renders a request as a view of the page.
pub(crate) fn request(name: &OtherName, found: &PricedRequest, given: &Given<'_>) -> Markup {
    let request = &found.request;
    let this = |number| SentName::Other { name: name.clone(), number };
    let before = (request.number > 1).then(|| this(request.number - 1));
    let file = format!("request-{}.json", request.number);
    let tools = html! {
        button.quiet type="button" data-wrap aria-pressed="false" title="Breaks long lines, or numbers lines that are not broken" { "Line numbers" }
        (download("Raw", &given.path, &file))
    };
    html! {
        (crumbs(name, request))
        div.heading {
            h1 { "Request " (request.number) @if let Some(model) = &request.model { span.faint { " · " (line(model)) } } }
            (neighbours(name, request))
            (compare::link(before.as_ref(), &this(request.number)))
        }
        (facts(found))
        (given::view(given, &tools, None))
        (details(request))
    }
}

fn crumbs(name: &OtherName, request: &SentRequest) -> Markup {
    html! {
        nav.crumbs aria-label="Place" {
            a href="/" { "Sessions" } " / " a href=(format!("{0}#request-{1}", name.path(), request.number)) { (line(&name.short())) } " / request " (request.number)
        }
    }
}

fn neighbours(name: &OtherName, request: &SentRequest) -> Markup {
    let SentRequest { number, total, .. } = request;
    let link = |number: u64| format!("{}/requests/{number}", name.path());
    html! {
        nav.links aria-label="Requests" {
            @if *number > 1 { a href=(link(number - 1)) rel="prev" aria-label=(format!("Request {}", number - 1)) { "←" } }
            span { (number) " of " (total) }
            @if number < total { a href=(link(number + 1)) rel="next" aria-label=(format!("Request {}", number + 1)) { "→" } }
        }
    }
}

fn facts(found: &PricedRequest) -> Markup {
    let request = &found.request;
    let mut facts = vec![("Grade", grade(request.grade))];
    if let Some(at) = request.at {
        facts.push(("Sent", moment(at)));
    }
    facts.push(("Purpose", html! { (request.purpose.as_str()) }));
    if let Some(agent) = &request.agent {
        facts.push(("Sub-agent", line(agent)));
    }
    facts.extend(usage_facts(request.usage.as_ref()));
    facts.push((
        "Cost",
        html! { @match found.cost { Some(cost) => span.figure { (dollars(cost)) }, None => "unknown" } },
    ));
    if let Some(status) = request.status.filter(|status| *status >= 400) {
        facts.push(("Status", html! { span.badge.failed { (status) } }));
    }
    html! { (strip(&facts)) }
}

fn details(request: &SentRequest) -> Markup {
    let tools = &request.window.tools;
    html! {
        details.plumbing {
            summary { "Details" }
            dl.facts {
                dt { "Grade" } dd {
                    (meaning(request.grade))
                    @if !request.missing.is_empty() { ul.missing { @for it in &request.missing { li { (line(it)) } } } }
                }
                dt { "Source" } dd.path { (line(&request.place.to_string())) }
                @if let Some(status) = request.status { dt { "Status" } dd { (status) } }
                dt { "Tools" } dd {
                    @if tools.is_empty() { "Their names are not in the files." }
                    @else { (count(tools.len() as u64, "tool")) ul.tools { @for name in tools { li { code { (line(name)) } } } } }
                }
                dt { "Cost" } dd { "at API prices; with a subscription it is not paid" }
            }
        }
    }
}
