//! A session of another program: its requests beside what was said and done.

use convoke_protocol::agent_event::{RequestPurpose, TodoState};
use maud::{Markup, html};
use serde_json::Value;

use super::grade;
use crate::other_sessions::{
    Excerpt, FileState, OtherName, OtherSession, RequestRow, Step, StepKey, StepKind, TextPart,
    ToolOutput, encoded,
};
use crate::query::Layout;
use crate::sent::SentName;
use crate::views::changes::file;
use crate::views::conversation::more;
use crate::views::figures::{counted, short_number};
use crate::views::markdown;
use crate::views::text::{exact, line, plain, version};
use crate::views::waterfall::{self, Row};
use crate::views::{compare, count, dollars, moment, moment_ago, number};

/// The maximum number of characters of a tool's input in its folded line.
const GIST: usize = 160;
/// The maximum number of characters of a file's name without its ending, and those that are shown of a longer one.
const MAX_STEM: usize = 24;
const SHORT_STEM: usize = 8;
/// The fields of a tool's input that tell most about it, the best first.
const TELLING: [&str; 12] = [
    "command",
    "cmd",
    "file_path",
    "filePath",
    "path",
    "pattern",
    "query",
    "url",
    "description",
    "prompt",
    "subject",
    "name",
];

/// Renders a session as a view of the page.
pub fn session(name: &OtherName, found: &OtherSession, project: Option<&str>) -> Markup {
    let summary = &found.summary;
    let title = summary.title.as_ref().or(summary.given_title.as_ref());
    let FileState { bytes, changed_at } = found.state;
    let left = html! {
        h2 { "Requests" }
        div #other-requests { (requests(name, found)) }
    };
    let middle = html! {
        h2.unseen { "Conversation" }
        div #other-steps { (steps(name, found)) }
        p #end tabindex="-1" .faint { "The session ends here." }
    };
    let right = html! { div.empty { p { "Choose a request to see what the model was given." } p.faint { "j and k go through the requests, Enter opens one." } } };
    html! {
        div.session-head {
            nav.crumbs aria-label="Place" { a href="/" { "Sessions" } " / " (line(&name.short())) }
            h1 { @match title { Some(title) => (line(title)), None => { "A session of " (found.found.program) } } }
            div #figures { (figures(found, project)) (waterfall::chart(&rows(name, found))) }
        }
        div.workbench #other data-other=(format!("/api{}", name.path())) data-state=(format!("{bytes}-{}", changed_at.0)) data-shown="conversation" {
            (waterfall::panes(&left, &middle, &right))
        }
    }
}

/// Renders the facts and the sums of a session.
fn figures(found: &OtherSession, project: Option<&str>) -> Markup {
    let summary = &found.summary;
    let at = summary.ended_at.unwrap_or(found.found.changed_at);
    html! {
        p.facts-line {
            span.badge { (found.found.program) @if let Some(version) = &summary.version { " " (line(version)) } }
            @if let Some(project) = project { span.path { (line(project)) } }
            @if let Some(branch) = &summary.branch { span { "branch " (line(branch)) } }
            @if let Some(model) = &summary.model { span { (line(model)) } }
            span { (moment_ago(at)) }
            span { (count(summary.requests, "request")) }
            @if let Some(usage) = &summary.usage { span title=(counted(usage)) { (short_number(usage.input)) " tokens in, " (short_number(usage.cached)) " from the cache, " (short_number(usage.output)) " out" } }
            @if summary.cost.known > 0 { span { (dollars(summary.cost.amount)) " at API prices" @if summary.cost.unknown > 0 { ", without " (count(summary.cost.unknown, "request")) " of unknown price" } } }
            @if summary.compactions > 0 { span { (count(summary.compactions, "compaction")) } }
        }
        @if !found.report.is_empty() { p.notice { "In the files: " (line(&found.report)) } }
    }
}

/// Renders a page of requests, with a button for earlier ones.
pub fn requests(name: &OtherName, found: &OtherSession) -> Markup {
    html! {
        @if let Some(first) = found.requests.first() && found.earlier_requests > 0 {
            button.more type="button" data-more=(format!("/api{}/requests?before={}", name.path(), first.number)) { (earlier(found.earlier_requests, "request")) }
        }
        (waterfall::rows(&rows(name, found)))
        @if found.requests.is_empty() { p.empty { "No requests to a model are recorded in this session." } }
    }
}

fn earlier(many: u64, what: &str) -> String {
    format!("Show earlier ones ({})", count(many, what))
}

fn rows(name: &OtherName, found: &OtherSession) -> Vec<Row> {
    let mut rows: Vec<Row> = found.requests.iter().map(|row| request_row(name, row)).collect();
    let sent =
        |at: usize| SentName::Other { name: name.clone(), number: found.requests[at].number };
    waterfall::mark_misses(&mut rows, |before, at| compare::address(&sent(before), &sent(at)));
    rows
}

fn request_row(name: &OtherName, row: &RequestRow) -> Row {
    let model = row.model.as_deref().unwrap_or("unknown model");
    let title = match row.purpose {
        RequestPurpose::Answer => model.to_owned(),
        purpose => format!("{} · {model}", purpose.as_str()),
    };
    let failed = row.status.filter(|status| *status >= 400);
    Row {
        id: format!("request-{}", row.number),
        path: format!("{}/requests/{}", name.path(), row.number),
        number: row.number.to_string(),
        title,
        badge: Some(match failed {
            Some(status) => html! { span.badge.failed { (status) } },
            None => grade(row.grade),
        }),
        agent: row.agent.clone(),
        at: row.at,
        took: None,
        usage: row.usage,
        cost: row.cost,
        group: row.agent.clone().unwrap_or_default(),
        is_below: false,
        is_compaction: row.purpose == RequestPurpose::Compaction,
        miss: None,
    }
}

/// Renders a page of steps, with a button for earlier ones.
pub fn steps(name: &OtherName, found: &OtherSession) -> Markup {
    html! {
        @if let Some(Step { key: StepKey { at, agent, number }, .. }) = found.steps.first() && found.earlier_steps > 0 {
            @let agent = agent.as_ref().map_or_else(String::new, |agent| format!("&agent={}", encoded(agent)));
            button.more type="button" data-more=(format!("/api{}/steps?at={at}&number={number}{agent}", name.path())) { (earlier(found.earlier_steps, "step")) }
        }
        ol.messages.step-rows { @for step in &found.steps { (step_row(name, step, found.found.program)) } }
        @if found.steps.is_empty() { p.faint { "Nothing was said or done." } }
    }
}

fn step_row(name: &OtherName, step: &Step, program: &str) -> Markup {
    let StepKey { agent, number, .. } = &step.key;
    let class = match &step.kind {
        StepKind::Person { .. } | StepKind::Answer { .. } | StepKind::Plan { .. } => "person",
        StepKind::Reply { .. } => "reply",
        StepKind::Compacted { .. } => "compacted",
        StepKind::Failed { .. } => "failed",
        _ => "done",
    };
    let speaks = matches!(class, "person" | "reply" | "compacted" | "failed");
    let content = step_content(name, step, program);
    let id = match agent {
        Some(agent) => format!("step-{}-{number}", encoded(agent)),
        None => format!("step-{number}"),
    };
    html! { li.step-row.message[speaks].(class) #(id) .sub[agent.is_some()] data-version=(version(&content)) { (content) } }
}

fn step_content(name: &OtherName, step: &Step, program: &str) -> Markup {
    let text = |part: TextPart, it: &Excerpt| shown(name, &step.key, part, it);
    let head = |who: &str, what: &str| heading(step, who, what);
    let folded = |label: &str, it: &Excerpt| {
        html! {
            details.step {
                summary { span.faint { (label) } " " (gist(&it.text)) }
                (text(TextPart::Text, it))
            }
        }
    };
    match &step.kind {
        StepKind::Person { text: it } => html! { (head("you", "")) (said(name, &step.key, it)) },
        StepKind::Answer { question, text: it } => html! {
            (head("you", "answered a question"))
            blockquote { (text(TextPart::Question, question)) }
            (text(TextPart::Text, it))
        },
        StepKind::Plan { text: it } => {
            html! { (head("you", "approved a plan")) (folded("plan", it)) }
        }
        StepKind::Reply { text: it } => html! { (head(program, "")) (said(name, &step.key, it)) },
        StepKind::Thinking { text: it } if it.bytes == 0 => {
            html! { p.faint.step { "thinking (encrypted)" } }
        }
        StepKind::Thinking { text: it } => folded("thinking", it),
        StepKind::Tool { name: tool, input, output } => {
            tool_line(name, &step.key, tool, input, output.as_ref())
        }
        StepKind::Changed { files } => {
            html! { @for it in files { (file(it, Layout::Unified, &html! {})) } }
        }
        StepKind::Todo { items } => html! {
            details.step {
                summary { span.faint { "to do" } " " (items.iter().filter(|it| it.state == TodoState::Completed).count()) " of " (items.len()) " done" }
                ul.todo { @for it in items { li { span.faint { (todo_mark(it.state)) } " " (line(&it.text)) } } }
            }
        },
        StepKind::Compacted { text: it, dropped } => html! {
            (head("compaction", &format!("{} replaced by a summary", count(*dropped, "part"))))
            (folded("summary", it))
        },
        StepKind::Failed { status, text: it } => html! {
            (head("failed", &status.map_or_else(String::new, |status| format!("status {status}"))))
            (text(TextPart::Text, it))
        },
    }
}

fn heading(step: &Step, who: &str, what: &str) -> Markup {
    html! {
        header {
            span { strong { (who) } @if let Some(agent) = &step.key.agent { span.faint { " · sub-agent " (line(agent)) } } @if !what.is_empty() { " " span.faint { (what) } } }
            span.faint { @if let Some(at) = step.at { (moment(at)) " · " } span.place title=(plain(&step.place)) { (line(&file_name(&step.place))) } }
        }
    }
}

/// Returns the last name of a place, without the middle of a long one: `5f0c2a9e….jsonl:12`.
pub(super) fn file_name(place: &str) -> String {
    // The row of a database may have any name.
    let directory = place.split('#').next().unwrap_or(place).rfind('/');
    let name = directory.map_or(place, |end| &place[end + 1..]);
    match name.split_once('.') {
        Some((stem, rest)) if stem.chars().count() > MAX_STEM => {
            let begun: String = stem.chars().take(SHORT_STEM).collect();
            format!("{begun}….{rest}")
        }
        _ => name.to_owned(),
    }
}

const fn todo_mark(state: TodoState) -> &'static str {
    match state {
        TodoState::Pending => "○",
        TodoState::InProgress => "◐",
        TodoState::Completed => "●",
        TodoState::Cancelled => "×",
    }
}

/// Returns the path of a text of a step.
pub(crate) fn text_path(
    name: &OtherName,
    agent: Option<&str>,
    number: u64,
    part: TextPart,
) -> String {
    let agent = agent.map_or_else(String::new, |agent| format!("&agent={}", encoded(agent)));
    format!("/api{}/text?number={number}&part={}{agent}", name.path(), part.as_str())
}

/// Renders what a person or a model said: as Markdown, if it is whole.
fn said(name: &OtherName, key: &StepKey, it: &Excerpt) -> Markup {
    if it.rest() > 0 {
        return shown(name, key, TextPart::Text, it);
    }
    markdown::folded(&it.text)
}

fn shown(name: &OtherName, key: &StepKey, part: TextPart, it: &Excerpt) -> Markup {
    let path = || text_path(name, key.agent.as_deref(), key.number, part);
    html! { pre.text { (exact(&it.text, false)) @if it.rest() > 0 { (more(&path(), it.text.len(), it.rest())) } } }
}

fn tool_line(
    name: &OtherName,
    key: &StepKey,
    tool: &str,
    input: &Excerpt,
    output: Option<&ToolOutput>,
) -> Markup {
    let state = match output {
        None => "no result yet",
        Some(ToolOutput { ok: true, .. }) => "",
        Some(ToolOutput { ok: false, .. }) => "failed",
    };
    let pretty = (input.rest() == 0).then(|| pretty(&input.text)).flatten();
    html! {
        details.step.tool {
            summary {
                code.tool-name { (line(tool)) } " " span.gist { (line(&telling(&input.text))) }
                @if !state.is_empty() { " " span.badge.(if state == "failed" { "failed" } else { "waits" }) { (state) } }
            }
            p.what { "Input, " (number(input.bytes)) " bytes" }
            @match pretty { Some(pretty) => pre.text { (exact(&pretty, false)) }, None => (shown(name, key, TextPart::Input, input)) }
            @if let Some(ToolOutput { text, .. }) = output {
                p.what { "Output, " (number(text.bytes)) " bytes" }
                (shown(name, key, TextPart::Output, text))
            }
        }
    }
}

/// Returns JSON with a line for each value, and the lines of its texts as lines.
pub(super) fn pretty(json: &str) -> Option<String> {
    let value: Value = serde_json::from_str(json).ok()?;
    let Value::Object(fields) = &value else { return serde_json::to_string_pretty(&value).ok() };
    let mut lines = Vec::new();
    for (name, value) in fields {
        lines.push(match value {
            Value::String(text) if text.contains('\n') => {
                let indented: Vec<String> = text.lines().map(|line| format!("  {line}")).collect();
                format!("{name}:\n{}", indented.join("\n"))
            }
            Value::String(text) => format!("{name}: {text}"),
            other => format!("{name}: {}", serde_json::to_string_pretty(other).ok()?),
        });
    }
    Some(lines.join("\n"))
}

/// Returns what tells most about the input of a tool, in one line.
pub(crate) fn telling(input: &str) -> String {
    let value: Option<Value> = serde_json::from_str(input).ok();
    let field = |name: &&str| {
        value.as_ref().and_then(|value| {
            let found = value.get(*name)?;
            match found {
                Value::String(text) => Some(text.clone()),
                Value::Array(words) => {
                    let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
                    words.map(|words| words.join(" "))
                }
                _ => None,
            }
        })
    };
    let told = TELLING.iter().find_map(field).unwrap_or_else(|| input.to_owned());
    begun(&told)
}

fn begun(text: &str) -> String {
    let begun: String = text.chars().take(GIST).collect();
    if begun.len() < text.len() { format!("{begun}…") } else { begun }
}

fn gist(text: &str) -> Markup {
    html! { span.gist { (line(&first_words(text))) } }
}

/// Returns the first line of a text that tells more than that something begins: no tag alone.
pub(crate) fn first_words(text: &str) -> String {
    let is_tag = |line: &str| line.starts_with('<') && line.ends_with('>');
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !is_tag(line));
    begun(first.unwrap_or_else(|| text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_tool_tells_what_it_does() {
        assert_eq!(telling(r#"{"description":"List","command":"ls -l"}"#), "ls -l");
        assert_eq!(telling(r#"{"command":["bash","-lc","ls"]}"#), "bash -lc ls");
        assert_eq!(telling("{\"other\":1}"), "{\"other\":1}");
        assert_eq!(telling("not JSON"), "not JSON");
    }

    #[test]
    fn the_first_words_of_a_text_are_no_tag() {
        assert_eq!(first_words("\n<system-reminder>\n# Environment\n"), "# Environment");
        assert_eq!(first_words("<b>"), "<b>");
    }

    #[test]
    fn a_place_is_named_by_its_file_and_line() {
        let long = "/home/kim/5f0c2a9e-0000-4000-8000-000000000001.jsonl:12";
        assert_eq!(file_name(long), "5f0c2a9e….jsonl:12");
        assert_eq!(file_name("a/b.jsonl:1"), "b.jsonl:1");
        assert_eq!(file_name("a/opencode.db#part/1"), "opencode.db#part/1");
    }

    #[test]
    fn json_is_shown_by_lines() {
        let shown = pretty(r#"{"path":"a.rs","text":"one\ntwo","n":[1]}"#).unwrap_or_default();
        assert_eq!(shown, "path: a.rs\ntext:\n  one\n  two\nn: [\n  1\n]");
        assert_eq!(pretty("not JSON"), None);
    }
}
