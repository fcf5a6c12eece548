//! One request of another program's session: its window as text, and the ledger of it.

use std::borrow::Cow;

use convoke_open::request::{LedgerEntry, SentRequest};
use convoke_protocol::window::{Part, Role, Text};
use maud::{Markup, html};

use super::session::{file_name, first_words, pretty, telling};
use super::{counted, grade, meaning, panes};
use crate::other_sessions::{MAX_SHOWN, OtherName, PAGE, PricedRequest};
use crate::query::{PartOrder, PartsQuery};
use crate::views::conversation::more;
use crate::views::text::{beginning, exact, line, plain};
use crate::views::{count, dollars, moment, number};

/// The maximum number of bytes of all texts that a page has; those of further parts are loaded when they are unfolded.
const MAX_PAGE: usize = 512 << 10;
/// The maximum number of bytes of a part that is not folded.
const UNFOLDED: usize = 2 << 10;

/// Renders a request as a view of the page.
pub(crate) fn request(name: &OtherName, found: &PricedRequest, query: &PartsQuery) -> Markup {
    let request = &found.request;
    let ledger = request.ledger();
    html! {
        (crumbs(name, request))
        div.heading { h1 { "Request " (request.number) @if let Some(model) = &request.model { span.faint { " · " (line(model)) } } } (neighbours(name, request)) }
        (facts(found))
        (tools(&request.window.tools))
        div.panes.wide.text-first data-shown="text" {
            (panes(&[("text", "Text"), ("ledger", "Ledger")]))
            section.pane.text aria-label="The window" data-name="text" {
                h2 #text { "What the model was given" }
                (window(name, request, &ledger, query))
            }
            section.pane.ledger aria-label="The ledger" data-name="ledger" tabindex="0" { (table(name, request, &ledger, *query)) }
        }
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
            @if *number > 1 { a href=(link(number - 1)) rel="prev" { "← Request " (number - 1) } }
            span { (number) " of " (total) }
            @if number < total { a href=(link(number + 1)) rel="next" { "Request " (number + 1) " →" } }
        }
    }
}

fn facts(found: &PricedRequest) -> Markup {
    let request = &found.request;
    html! {
        dl.facts {
            dt { "Grade" } dd {
                (grade(request.grade)) " " (meaning(request.grade))
                @if !request.missing.is_empty() { ul.missing { @for it in &request.missing { li { (line(it)) } } } }
            }
            @if let Some(at) = request.at { dt { "Sent" } dd { (moment(at)) ", " (request.purpose.as_str()) @if let Some(agent) = &request.agent { " of sub-agent " (line(agent)) } } }
            dt { "Counted" } dd { @match &request.usage { Some(usage) => (counted(usage)), None => "not counted by the provider" } }
            dt { "Cost" } dd { @match found.cost { Some(cost) => { (dollars(cost)) " at API prices" }, None => "unknown" } }
            @if let Some(status) = request.status { dt { "Status" } dd { (status) } }
            dt { "Source" } dd.path { (line(&request.place.to_string())) }
        }
    }
}

fn tools(names: &[String]) -> Markup {
    html! {
        @if names.is_empty() { p.faint { "The names of its tools are not in the files." } }
        @else { details.tools { summary { (count(names.len() as u64, "tool")) } ul { @for name in names { li { code { (line(name)) } } } } } }
    }
}

/// A part of a window, in the order of the ledger.
#[derive(Clone, Copy)]
enum Shown<'w> {
    System(&'w Text),
    Part(Role, &'w Part),
}

impl<'w> Shown<'w> {
    fn nth(request: &'w SentRequest, index: usize) -> Option<Self> {
        let system = &request.window.system;
        if let Some(text) = system.get(index) {
            return Some(Self::System(&text.what));
        }
        let part = request.window.parts.get(index - system.len())?;
        Some(Self::Part(part.role, &part.part.what))
    }

    fn role(self) -> Role {
        match self {
            Self::System(_) => Role::System,
            Self::Part(role, _) => role,
        }
    }

    fn label(self) -> Cow<'static, str> {
        match self {
            Self::System(_) | Self::Part(_, Part::Text(_)) => "text".into(),
            Self::Part(_, Part::Call { name, .. }) => format!("calls {name}").into(),
            Self::Part(_, Part::Result(_)) => "result".into(),
            Self::Part(_, Part::Thinking(_)) => "reasoning".into(),
            Self::Part(_, Part::Image(_)) => "image".into(),
        }
    }

    /// Returns the text; `None` if it is not kept.
    fn text(self) -> Option<Cow<'w, str>> {
        match self {
            Self::System(text)
            | Self::Part(_, Part::Text(text) | Part::Result(text) | Part::Thinking(text)) => {
                text.text.as_deref().map(Cow::Borrowed)
            }
            Self::Part(_, Part::Call { input, .. }) => {
                Some(pretty(input).map_or_else(|| Cow::Borrowed(&**input), Cow::Owned))
            }
            Self::Part(_, Part::Image(_)) => None,
        }
    }

    /// Returns the text that stands for the part while it is folded.
    fn gist(self) -> String {
        match self {
            Self::Part(_, Part::Call { input, .. }) => telling(input),
            Self::System(text) | Self::Part(_, Part::Text(text) | Part::Result(text)) => {
                // The beginning is enough, whatever the size of the text.
                let text = text.text.as_deref().unwrap_or_default();
                first_words(beginning(text, UNFOLDED).0)
            }
            Self::Part(..) => String::new(),
        }
    }
}

/// Returns the text of a part, by its place in the ledger.
pub(crate) fn text_of(request: &SentRequest, index: usize) -> Option<Cow<'_, str>> {
    Shown::nth(request, index)?.text()
}

/// Returns the path of the text of a part.
pub(crate) fn part_path(name: &OtherName, number: u64, part: usize) -> String {
    format!("/api{}/requests/{number}/parts/{part}", name.path())
}

/// Renders the beginning of a part's text.
pub(crate) fn text_block(shown: &str, rest: usize, path: &str) -> Markup {
    html! { pre.text { (exact(shown, false)) @if rest > 0 { (more(path, shown.len(), rest)) } } }
}

/// Renders a page of the parts of a window, by role.
fn window(
    name: &OtherName,
    request: &SentRequest,
    ledger: &[LedgerEntry<'_>],
    query: &PartsQuery,
) -> Markup {
    let total = request.window.system.len() + request.window.parts.len();
    let from = query.from.min(total.saturating_sub(1)) / PAGE * PAGE;
    let to = total.min(from + PAGE);
    let mut budget = MAX_PAGE;
    let mut parts = Vec::new();
    for (index, entry) in ledger.iter().enumerate().take(to).skip(from) {
        if let Some(shown) = Shown::nth(request, index) {
            let role = shown.role();
            let part = part(name, request.number, index, entry, shown, &mut budget);
            parts.push((role, entry.message, part));
        }
    }
    html! {
        (pages(name, request.number, *query, from, total))
        @if total == 0 { p.faint { "Nothing of its window is known." } }
        @for message in parts.chunk_by(|one, next| (one.0, one.1) == (next.0, next.1)) {
            @let (role, place, _) = &message[0];
            section.window-message.(hue(*role)) {
                h3 { (role.as_str()) @if let Some(place) = place { span.faint { " · message " (place + 1) } } }
                @for (.., part) in message { (part) }
            }
        }
        (pages(name, request.number, *query, from, total))
    }
}

/// Renders the links to other pages of parts.
fn pages(name: &OtherName, number: u64, query: PartsQuery, from: usize, total: usize) -> Markup {
    let link = |from: usize| address(name, number, PartsQuery { from, ..query }, "text");
    html! {
        @if total > PAGE {
            p.links {
                @if from > 0 { a href=(link(from - PAGE)) { "← Earlier parts" } }
                span { "Parts " (from + 1) " to " (total.min(from + PAGE)) " of " (total) }
                @if from + PAGE < total { a href=(link(from + PAGE)) { "Later parts →" } }
            }
        }
    }
}

fn address(name: &OtherName, number: u64, query: PartsQuery, place: &str) -> String {
    let PartsQuery { from, sort } = query;
    format!("{}/requests/{number}?from={from}&sort={}#{place}", name.path(), sort.as_str())
}

/// Returns the class of the colour of a role.
const fn hue(role: Role) -> &'static str {
    match role {
        Role::System | Role::Developer => "c0",
        Role::User => "c1",
        Role::Assistant => "c3",
        Role::Tool => "c2",
    }
}

fn part(
    name: &OtherName,
    request: u64,
    index: usize,
    entry: &LedgerEntry<'_>,
    shown: Shown<'_>,
    budget: &mut usize,
) -> Markup {
    let whole = shown.text();
    let size = whole.as_ref().map_or(0, |text| text.len());
    let is_here = size <= MAX_SHOWN.min(*budget);
    let path = part_path(name, request, index);
    if is_here {
        *budget -= size;
    }
    let load = (!is_here).then_some(&path);
    let is_open = is_here && size <= UNFOLDED;
    html! {
        details.part #(format!("part-{index}")) tabindex="-1" open[is_open] data-load=[load] {
            summary {
                span.label { (line(&shown.label())) } " "
                span.gist { (line(&shown.gist())) }
                span.figures { (number_of(entry)) }
            }
            p.faint.path { @match entry.place { Some(place) => span title=(plain(&place.to_string())) { (line(&file_name(&place.to_string()))) }, None => "place unknown" } ", " (entry.how) }
            @match &whole {
                Some(text) if is_here => (text_block(text, 0, &path)),
                Some(_) => {},
                None => p.faint { (number(entry.bytes)) " bytes, which are not shown" },
            }
        }
    }
}

fn number_of(entry: &LedgerEntry<'_>) -> String {
    format!("{} bytes, ~{} tokens", number(entry.bytes), number(entry.tokens))
}

fn table(
    name: &OtherName,
    request: &SentRequest,
    ledger: &[LedgerEntry<'_>],
    query: PartsQuery,
) -> Markup {
    let mut rows: Vec<(usize, &LedgerEntry<'_>)> = ledger.iter().enumerate().collect();
    if query.sort == PartOrder::Size {
        rows.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.tokens));
    }
    let all = rows.len();
    rows.truncate(PAGE);
    let bytes: u64 = ledger.iter().map(|entry| entry.bytes).sum();
    let tokens: u64 = ledger.iter().map(|entry| entry.tokens).sum();
    html! {
        h2 #ledger { "Ledger" }
        nav.choice aria-label="Order" { span { "Order" } @for (sort, label) in [(PartOrder::Sent, "as sent"), (PartOrder::Size, "largest first")] {
            a href=(address(name, request.number, PartsQuery { sort, ..query }, "ledger")) aria-current=[(sort == query.sort).then_some("true")] { (label) }
        } }
        @if all > rows.len() { p.faint { "The first " (rows.len()) " of " (all) " parts in this order; the JSON form has all." } }
        table.parts {
            thead { tr { th scope="col" { "Part" } th.figure scope="col" { "Bytes" } th.figure scope="col" { "~Tokens" } } }
            tbody { @for (index, entry) in &rows { (row(name, request, query, *index, entry)) } }
            tfoot { tr { th scope="row" { "All" } td.figure { (number(bytes)) } td.figure { (number(tokens)) } } }
        }
        @if let Some(usage) = &request.usage { p.faint { "The provider counted " (number(usage.input)) " tokens. Those of parts are estimates; the remainder is the difference." } }
    }
}

fn row(
    name: &OtherName,
    request: &SentRequest,
    query: PartsQuery,
    index: usize,
    entry: &LedgerEntry<'_>,
) -> Markup {
    let shown = Shown::nth(request, index);
    let page = PartsQuery { from: index / PAGE * PAGE, ..query };
    let place = entry.place.map(ToString::to_string);
    let label = shown.as_ref().map(|shown| (shown.label(), shown.gist()));
    html! {
        tr.(shown.as_ref().map_or("c7", |shown| hue(shown.role()))) {
            td {
                span.swatch {} " "
                @match &label {
                    Some((label, gist)) => { a href=(address(name, request.number, page, &format!("part-{index}"))) { (entry.section) " · " (line(label)) } " " span.gist { (line(beginning(gist, 120).0)) } },
                    None => (line(&entry.title)),
                }
                @if let Some(place) = &place { span.faint.place title=(plain(place)) { (line(&file_name(place))) } }
            }
            td.figure { (number(entry.bytes)) }
            td.figure { (number(entry.tokens)) }
        }
    }
}
