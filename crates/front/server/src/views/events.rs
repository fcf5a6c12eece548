//! The events of an attempt, on a time line and as a list.

use std::collections::HashMap;

use convoke_protocol::id::Millis;
use convoke_protocol::milliseconds;
use convoke_protocol::request::RequestRecord;
use convoke_protocol::turn::Attempt;
use convoke_session::running_text::AttemptProgress;
use maud::{Markup, html};
use serde_json::Value;

use super::text::{beginning, exact, line};
use super::{number, seconds};
use crate::stored::{elapsed, excerpt};

/// The maximum number of events that are listed.
const MAX_EVENTS: usize = 2_000;
/// The maximum number of bytes of an unfinished reply that are shown.
const REPLY_SHOWN: usize = 16 << 10;
/// The start and the width of the time line's rows, in units of the picture.
const LEFT: f64 = 120.0;
const WIDTH: f64 = 880.0;
/// The height of a row.
const ROW: usize = 26;

/// Renders the events of an attempt.
pub fn steps(
    attempt: &Attempt,
    requests: &[RequestRecord<()>],
    so_far: &AttemptProgress,
) -> Markup {
    let events: Vec<StoredEvent> =
        so_far.events.lines().take(MAX_EVENTS).map(StoredEvent::parse).collect();
    let is_cut = so_far.events.lines().nth(MAX_EVENTS).is_some();
    html! {
        (time_line(attempt, requests, &events))
        ol.events { @for event in &events { (event.render(attempt.began_at)) } }
        @if is_cut { p.faint { "The first " (number(MAX_EVENTS as u64)) " events; the JSON form has all." } }
        @if events.is_empty() { p.faint { "No events are stored." } }
        @if !so_far.reply.is_empty() { h3 { "The unfinished reply" } pre.text { (exact(beginning(&so_far.reply, REPLY_SHOWN).0, false)) } }
    }
}

/// A stored event.
struct StoredEvent {
    /// The time; `None` for an event of a version that stored none.
    at: Option<Millis>,
    is_of_sub_agent: bool,
    kind: String,
    /// Its fields, as texts.
    fields: Vec<(String, String)>,
}

impl StoredEvent {
    fn parse(line: &str) -> Self {
        let event: Value = serde_json::from_str(line).unwrap_or_default();
        // The fields of a question or a verdict are treated like those of the event.
        let object = |value: &Value| value.as_object().cloned().unwrap_or_default();
        let inner = ["question", "verdict"].map(|name| object(&event["event"][name]));
        let own = object(&event["event"]).into_iter().filter(|(_, value)| !value.is_object());
        let fields = own
            .chain(inner.into_iter().flatten())
            .filter(|(name, value)| name != "kind" && !value.is_null())
            .map(|(name, value)| match value {
                Value::String(text) => (name, text),
                other => (name, other.to_string()),
            })
            .collect();
        Self {
            at: event["at"].as_i64().map(Millis),
            is_of_sub_agent: !event["subAgent"].is_null(),
            kind: event["event"]["kind"].as_str().unwrap_or("event").to_owned(),
            fields,
        }
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, text)| text.as_str())
    }

    /// Returns its subject in a few words.
    fn about(&self) -> &str {
        let names = ["summary", "name", "text", "reason", "verdict", "message", "answer", "model"];
        names.iter().find_map(|name| self.field(name)).unwrap_or_default()
    }

    /// Renders the event, folded.
    fn render(&self, began: Millis) -> Markup {
        let id = self.field("id").unwrap_or_default();
        html! {
            li { details.step {
                summary {
                    span.at { @if let Some(at) = self.at { (seconds(elapsed(began, at))) } }
                    " " (words(&self.kind)) @if self.is_of_sub_agent { " (sub-agent)" }
                    " " span.faint { (line(beginning(self.about(), 100).0)) @if self.kind == "toolFinished" { (line(id)) } }
                }
                dl.fields { @for (name, text) in &self.fields { dt { (words(name)) } dd { pre.text { (exact(excerpt(text), false)) } } } }
            } }
        }
    }
}

/// Returns a name in camel case as words.
fn words(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

/// A stretch of the time line.
struct Span {
    from: u64,
    /// The end; equal to the beginning for a point in time.
    to: u64,
    title: String,
}

/// A row of the time line.
struct Row {
    name: &'static str,
    spans: Vec<Span>,
}

/// Renders the time of an attempt: requests, tool calls and questions as bars, all else as marks.
fn time_line(attempt: &Attempt, requests: &[RequestRecord<()>], events: &[StoredEvent]) -> Markup {
    let rows = rows(attempt.began_at, requests, events);
    if rows.is_empty() {
        return html! {};
    }
    let last = rows.iter().flat_map(|row| &row.spans).map(|span| span.to).max().unwrap_or(0);
    let ended = attempt.ended.as_ref().map_or(0, |ended| elapsed(attempt.began_at, ended.at));
    let whole = last.max(ended).max(1);
    let count: usize = rows.iter().map(|row| row.spans.len()).sum();
    let label = format!(
        "{} events and requests over {}; the list below has the same",
        number(count as u64),
        seconds(whole)
    );
    let bottom = rows.len() * ROW;
    html! {
        svg.time-line viewBox=(format!("0 0 1000 {}", bottom + 22)) role="img" aria-label=(label) {
            @for (index, row) in rows.iter().enumerate() {
                @let top = index * ROW;
                line.rule x1=(LEFT) x2="1000" y1=(top + ROW - 2) y2=(top + ROW - 2) {}
                text x="0" y=(top + 17) { (row.name) }
                @for span in &row.spans { (bar(span, index, top, whole)) }
            }
            text x=(LEFT) y=(bottom + 16) { "0 s" }
            text.end x="1000" y=(bottom + 16) { (seconds(whole)) }
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a picture has fewer pixels than a float has digits"
)]
fn bar(span: &Span, row: usize, top: usize, whole: u64) -> Markup {
    let x = |millis: u64| LEFT + millis.min(whole) as f64 / whole as f64 * WIDTH;
    let (from, to) = (x(span.from), x(span.to));
    // A moment is drawn wide enough to be visible.
    let width = (to - from).max(3.0);
    let from = from.min(LEFT + WIDTH - width);
    html! {
        rect class=(format!("part c{row}")) x=(format!("{from:.2}")) y=(top + 4) width=(format!("{width:.2}")) height=(ROW - 10) rx="2" {
            title { (span.title) ", after " (seconds(span.from)) @if span.to > span.from { ", took " (seconds(span.to - span.from)) } }
        }
    }
}

/// Arranges requests and events in rows; a row without spans is left out.
fn rows(began: Millis, requests: &[RequestRecord<()>], events: &[StoredEvent]) -> Vec<Row> {
    let request = |record: &RequestRecord<()>| {
        let from = elapsed(began, record.meta.at);
        let took = record.outcome.elapsed.map_or(0, milliseconds::whole);
        Span { from, to: from + took, title: record.title() }
    };
    let mut rows = vec![
        Row { name: "requests", spans: requests.iter().map(request).collect() },
        Row { name: "tools", spans: pairs(began, events, "toolStarted", "toolFinished") },
        Row {
            name: "questions",
            spans: pairs(began, events, "permissionAsked", "permissionAnswered"),
        },
        Row { name: "texts", spans: Vec::new() },
        Row { name: "other", spans: Vec::new() },
    ];
    for event in events {
        let Some(at) = event.at else { continue };
        let row = match event.kind.as_str() {
            "toolStarted" | "toolFinished" | "permissionAsked" | "permissionAnswered" => continue,
            // Requests on record are drawn with their durations.
            "request" if !requests.is_empty() => continue,
            "request" => 0,
            "text" | "thinking" => 3,
            _ => 4,
        };
        let from = elapsed(began, at);
        rows[row].spans.push(Span { from, to: from, title: words(&event.kind) });
    }
    rows.retain(|row| !row.spans.is_empty());
    rows
}

/// Returns the spans from events of one kind to those of another with the same id.
fn pairs(began: Millis, events: &[StoredEvent], start: &str, end: &str) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut open: HashMap<&str, usize> = HashMap::new();
    for event in events {
        let Some(at) = event.at.map(|at| elapsed(began, at)) else { continue };
        let id = event.field("id").unwrap_or_default();
        if event.kind == start {
            open.insert(id, spans.len());
            let title = event.field("name").or_else(|| event.field("tool"));
            spans.push(Span { from: at, to: at, title: title.unwrap_or("a question").to_owned() });
        } else if event.kind == end
            && let Some(index) = open.remove(id)
        {
            spans[index].to = at;
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at: i64, kind: &str, id: &str) -> StoredEvent {
        StoredEvent::parse(&format!(
            "{{\"at\":{at},\"event\":{{\"kind\":\"{kind}\",\"id\":\"{id}\",\"name\":\"sh\"}}}}"
        ))
    }

    #[test]
    fn a_call_lasts_from_its_start_to_its_end() {
        let events = [
            event(1_100, "toolStarted", "a"),
            event(1_200, "toolStarted", "b"),
            event(1_500, "toolFinished", "a"),
            event(1_900, "text", ""),
        ];
        let rows = rows(Millis(1_000), &[], &events);
        let spans: Vec<(&str, Vec<(u64, u64)>)> = rows
            .iter()
            .map(|row| (row.name, row.spans.iter().map(|span| (span.from, span.to)).collect()))
            .collect();
        assert_eq!(spans, [("tools", vec![(100, 500), (200, 200)]), ("texts", vec![(900, 900)])]);
    }

    #[test]
    fn a_question_lasts_until_its_answer() {
        let asked = "{\"at\":5,\"event\":{\"kind\":\"permissionAsked\",\"question\":\
                     {\"id\":\"q\",\"tool\":\"Bash\",\"summary\":\"make x\"},\"expiresAt\":9}}";
        let asked = StoredEvent::parse(asked);
        assert_eq!((asked.about(), asked.field("expiresAt")), ("make x", Some("9")));
        let answered = "{\"at\":8,\"event\":{\"kind\":\"permissionAnswered\",\"id\":\"q\",\"answer\":\"once\"}}";
        let events = [asked, StoredEvent::parse(answered)];
        let rows = rows(Millis(0), &[], &events);
        assert_eq!((rows[0].spans[0].from, rows[0].spans[0].to), (5, 8));
        assert_eq!(rows[0].spans[0].title, "Bash");
    }

    #[test]
    fn an_event_without_a_time_is_listed_but_not_drawn() {
        let event = StoredEvent::parse("{\"event\":{\"kind\":\"toolStarted\",\"name\":\"sh\"}}");
        assert!(rows(Millis(0), &[], std::slice::from_ref(&event)).is_empty());
        let html = event.render(Millis(0)).into_string();
        assert!(html.contains("tool started") && html.contains("sh"), "{html}");
    }
}
