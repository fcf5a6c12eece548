//! What a session tells beside its requests: messages, calls, changes of files, failures.

use convoke_protocol::agent_event::{TodoItem, TodoState};
use convoke_source::{EntryKind, Facts, Report};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::item::{Item, Kind};
use super::json::{Raw, list, number, object, text};
use super::record::{CompletedItem, Event, TurnError};
use super::thread::{At, MAX_AWAITED, Out, Thread};
use super::{patch, person};

/// What the program sends when a person accepts a plan.
const ACCEPTED: &str = "Implement the plan.";
/// The events that repeat items, or tell nothing about the conversation.
const WITHOUT_NEWS: &[&str] = &[
    "agent_message",
    "agent_reasoning",
    "agent_reasoning_raw_content",
    "context_compacted",
    "entered_review_mode",
    "exited_review_mode",
    "item_started",
    "thread_settings_applied",
    "user_message",
    "undo_completed",
];

/// What the result of a call completes.
#[derive(Debug)]
pub(super) enum Awaited {
    /// A patch that changes files if the tool succeeds.
    Patch(String),
    /// Questions to the person, with their ids.
    Questions(Vec<(String, String)>),
}

/// Reads an event.
pub(super) fn read(
    thread: &mut Thread,
    payload: &RawValue,
    at: &At,
    out: &mut Out<'_>,
    report: &mut Report,
) {
    let Some(event) = object::<Event<'_>>(Some(payload)) else {
        return report.broken(at.place.clone(), &"it is not an event");
    };
    let kind = text(event.kind).unwrap_or_default();
    match &*kind {
        "token_count" => thread.token_count(event.info, at, out),
        "task_started" | "turn_started" => thread.begin_turn(out),
        "task_complete" | "turn_complete" => {
            let error = object::<TurnError<'_>>(event.error);
            if let Some(error) = &error {
                thread.note_begun();
                let status = status(error.codex_error_info);
                thread.end_turn(status, true, at, out);
                fail(thread, status, &text(error.message).unwrap_or_default(), at, out);
            } else {
                thread.end_turn(None, false, at, out);
            }
        }
        "turn_aborted" => {
            thread.end_turn(None, true, at, out);
            let reason = text(event.reason).unwrap_or("interrupted".into());
            fail(thread, None, &reason, at, out);
        }
        "error" | "stream_error" => {
            let status = status(event.codex_error_info);
            fail(thread, status, &text(event.message).unwrap_or_default(), at, out);
        }
        "thread_rolled_back" => {
            let turns = number(event.num_turns).unwrap_or(0);
            thread.roll_back(turns, out);
        }
        "thread_name_updated" => {
            let title = text(event.thread_name);
            let facts = Facts { title: title.as_deref(), ..Facts::default() };
            thread.give(at, EntryKind::Facts(facts), out);
        }
        "patch_apply_end" if event.success.is_none_or(|it| it.get() == "true") => {
            changed(thread, event.call_id, event.changes, at, out);
        }
        "item_completed" => completed(thread, event.item, at, out),
        kind if WITHOUT_NEWS.contains(&kind) || is_progress(kind) => {}
        other => report.unknown(&format!("event_msg/{other}")),
    }
}

/// Returns whether an event tells how a tool or a message goes on, of which the result is an item.
fn is_progress(kind: &str) -> bool {
    const ENDINGS: &[&str] = &["_begin", "_end", "_delta", "_started"];
    ENDINGS.iter().any(|ending| kind.ends_with(ending))
}

fn completed(thread: &mut Thread, item: Raw<'_>, at: &At, out: &mut Out<'_>) {
    let Some(item) = object::<CompletedItem<'_>>(item) else { return };
    match text(item.kind).as_deref() {
        Some("FileChange") if text(item.status).is_none_or(|it| it == "completed") => {
            changed(thread, item.id, item.changes, at, out);
        }
        Some("Plan") => thread.plan = text(item.text).map(std::borrow::Cow::into_owned),
        Some("SubAgentActivity") => {
            let started = text(item.agent_thread_id).filter(|id| {
                thread.started.len() < MAX_AWAITED && !thread.started.iter().any(|it| it == id)
            });
            thread.started.extend(started.map(std::borrow::Cow::into_owned));
        }
        _ => {}
    }
}

fn changed(thread: &mut Thread, call: Raw<'_>, changes: Raw<'_>, at: &At, out: &mut Out<'_>) {
    let call = text(call).unwrap_or_default();
    thread.awaited.remove(&*call);
    let changes = patch::of_event(changes);
    if !changes.is_empty() {
        thread.give(at, EntryKind::Changed(changes), out);
    }
}

fn fail(thread: &Thread, status: Option<u16>, message: &str, at: &At, out: &mut Out<'_>) {
    thread.give(at, EntryKind::Failed { status, message }, out);
}

/// Returns the HTTP status in the description of an error.
fn status(error: Raw<'_>) -> Option<u16> {
    let error: Value = serde_json::from_str(error?.get()).ok()?;
    let code = error.as_object()?.values().find_map(|it| it["http_status_code"].as_u64())?;
    u16::try_from(code).ok()
}

/// Tells what an item says.
pub(super) fn tell_item(
    thread: &mut Thread,
    item: &Item<'_>,
    kind: Kind,
    at: &At,
    out: &mut Out<'_>,
) {
    match kind {
        Kind::Person if thread.agent.is_none() => {
            let texts = item.texts();
            let own =
                texts.iter().filter(|text| !person::is_context(text) && !person::is_frame(text));
            let text = own.map(|text| &**text).collect::<Vec<_>>().join("\n");
            let plan = thread.plan.take();
            if let Some(plan) = plan.filter(|_| text.trim() == ACCEPTED) {
                thread.give(at, EntryKind::PlanApproved { plan: &plan }, out);
            }
            thread.give(at, EntryKind::Person { text: &text }, out);
        }
        Kind::Text => {
            let text = item.texts().concat();
            if let Some(plan) = proposed_plan(&text) {
                thread.plan = Some(plan.to_owned());
            }
            thread.give(at, EntryKind::Text { text: &text }, out);
        }
        Kind::Reasoning => {
            thread.give(at, EntryKind::Thinking { text: &item.reasoning() }, out);
        }
        Kind::Call => tell_call(thread, item, at, out),
        Kind::Output => tell_result(thread, item, at, out),
        _ => {}
    }
}

fn proposed_plan(text: &str) -> Option<&str> {
    let (_, plan) = text.split_once("<proposed_plan>")?;
    Some(plan.split_once("</proposed_plan>").map_or(plan, |(plan, _)| plan).trim())
}

#[derive(Deserialize)]
struct Arguments<'r> {
    #[serde(borrow, default)]
    plan: Raw<'r>,
    #[serde(borrow, default)]
    questions: Raw<'r>,
}

#[derive(Deserialize)]
struct Listed<'r> {
    #[serde(borrow, default)]
    step: Raw<'r>,
    #[serde(borrow, default)]
    status: Raw<'r>,
    #[serde(borrow, default)]
    id: Raw<'r>,
    #[serde(borrow, default)]
    question: Raw<'r>,
}

fn tell_call(thread: &mut Thread, item: &Item<'_>, at: &At, out: &mut Out<'_>) {
    let (id, name, input) = (item.call_id().unwrap_or_default(), item.tool(), item.input_json());
    thread.give(at, EntryKind::Call { id: &id, name: &name, input: &input }, out);
    let arguments = serde_json::from_str::<Arguments<'_>>(&input).ok();
    let listed = |field: Raw<'_>, each: &mut dyn FnMut(Listed<'_>)| {
        list(field).into_iter().filter_map(|it| object(Some(it))).for_each(each);
    };
    match (&*name, arguments) {
        ("update_plan", Some(arguments)) => {
            let mut items = Vec::new();
            listed(arguments.plan, &mut |it| {
                let text = text(it.step).unwrap_or_default().into_owned().into();
                let state = TodoState::parse(&text_of(it.status));
                items.push(TodoItem { text, state });
            });
            thread.give(at, EntryKind::Todo(items), out);
        }
        ("request_user_input", Some(arguments)) => {
            let mut questions = Vec::new();
            listed(arguments.questions, &mut |it| {
                questions.push((text_of(it.id), text_of(it.question)));
            });
            wait(thread, &id, Awaited::Questions(questions));
        }
        _ => {
            if let Some(patch) = patch::in_input(item.input_text().as_deref(), &input) {
                wait(thread, &id, Awaited::Patch(patch));
            }
        }
    }
}

fn text_of(field: Raw<'_>) -> String {
    text(field).unwrap_or_default().into_owned()
}

fn wait(thread: &mut Thread, id: &str, awaited: Awaited) {
    if thread.awaited.len() < MAX_AWAITED {
        thread.awaited.insert(id.to_owned(), awaited);
    }
}

fn tell_result(thread: &mut Thread, item: &Item<'_>, at: &At, out: &mut Out<'_>) {
    let id = item.call_id().unwrap_or_default();
    let (output, ok) = item.result();
    thread.give(at, EntryKind::Result { id: &id, ok, output: &output }, out);
    match thread.awaited.remove(&*id) {
        Some(Awaited::Patch(patch)) if ok => {
            let changes = patch::of_patch(&patch);
            if !changes.is_empty() {
                thread.give(at, EntryKind::Changed(changes), out);
            }
        }
        Some(Awaited::Questions(questions)) => {
            let answers: Value = serde_json::from_str(&output).unwrap_or_default();
            for (id, question) in questions {
                let answer = &answers["answers"][&id]["answers"];
                let answer = answer.as_array().into_iter().flatten().filter_map(Value::as_str);
                let answer = answer.collect::<Vec<_>>().join(", ");
                let answered = EntryKind::PersonAnswered { question: &question, answer: &answer };
                thread.give(at, answered, out);
            }
        }
        _ => {}
    }
}
