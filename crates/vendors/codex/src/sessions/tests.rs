//! Tests of the reader with small sessions, written by hand.

use std::fmt::Write as _;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use convoke_protocol::window::{Part, Role};
use convoke_source::{Entry, EntryKind, FoundSession, Home, Kept, SessionReader, SessionSource};
use serde_json::{Value, json};

use super::CodexSessions;

const ONE: &str = "01a10000-0000-7000-8000-000000000001";
const TWO: &str = "01a10000-0000-7000-8000-000000000002";
const THREE: &str = "01a10000-0000-7000-8000-000000000003";

/// A home in which sessions are written.
struct Sessions(tempfile::TempDir);

impl Sessions {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Writes a session whose records have ordinals.
    fn write(&self, id: &str, meta: &Value, records: &[(&str, Value)]) -> PathBuf {
        self.write_lines(id, &lines(id, meta, records, true))
    }

    fn write_lines(&self, id: &str, lines: &str) -> PathBuf {
        let directory = self.0.path().join(".codex/sessions/2026/11/17");
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join(format!("rollout-2026-11-17T06-29-08-{id}.jsonl"));
        fs::write(&path, lines).unwrap();
        path
    }

    fn list(&self) -> Vec<FoundSession> {
        let home = Home { directory: self.0.path(), variable: &|_| None };
        let mut found = Vec::new();
        CodexSessions.list(&home, &mut |session| found.push(session.unwrap()));
        found
    }

    fn open(&self, id: &str) -> Box<dyn SessionReader> {
        let sessions = self.list();
        let session = sessions.iter().find(|it| it.id == id).unwrap();
        CodexSessions.open(session, Kept::Shown).unwrap()
    }

    /// Returns the requests of a session.
    fn requests(&self, id: &str) -> Vec<Value> {
        requests(&mut *self.open(id))
    }
}

fn requests(reader: &mut dyn SessionReader) -> Vec<Value> {
    convoke_source::requests::all(reader).unwrap()
}

fn lines(id: &str, meta: &Value, records: &[(&str, Value)], has_ordinals: bool) -> String {
    let mut payload = json!({ "id": id, "cwd": "/shop", "base_instructions": { "text": "Base." } });
    let more = meta.as_object().unwrap().clone();
    payload.as_object_mut().unwrap().extend(more);
    let meta = [("session_meta", payload)];
    let mut lines = String::new();
    for (index, (kind, payload)) in meta.iter().chain(records).enumerate() {
        let timestamp = format!("2026-11-17T06:29:{index:02}.000Z");
        let mut line = json!({ "timestamp": timestamp, "type": kind, "payload": payload });
        if has_ordinals {
            line["ordinal"] = index.into();
        }
        writeln!(lines, "{line}").unwrap();
    }
    lines
}

fn message(role: &str, text: &str) -> (&'static str, Value) {
    let content = json!([{ "type": "input_text", "text": text }]);
    ("response_item", json!({ "type": "message", "role": role, "content": content }))
}

fn call(id: &str) -> (&'static str, Value) {
    let item = json!({ "type": "function_call", "name": "look", "arguments": "", "call_id": id });
    ("response_item", item)
}

fn output(id: &str, text: &str) -> (&'static str, Value) {
    let item = json!({ "type": "function_call_output", "call_id": id, "output": text });
    ("response_item", item)
}

fn tokens(input: u64) -> Value {
    json!({ "input_tokens": input, "cached_input_tokens": 2, "output_tokens": 3 })
}

fn used(id: &str) -> (&'static str, Value) {
    ("token_usage_record", json!({ "response_id": id, "usage": tokens(10) }))
}

fn event(kind: &str, more: &Value) -> (&'static str, Value) {
    let mut event = json!({ "type": kind });
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ("event_msg", event)
}

fn counted(total: u64, last: u64) -> (&'static str, Value) {
    let info = json!({ "total_token_usage": tokens(total), "last_token_usage": tokens(last) });
    event("token_count", &json!({ "info": info }))
}

fn model(name: &str) -> (&'static str, Value) {
    ("turn_context", json!({ "model": name }))
}

fn tools() -> (&'static str, Value) {
    let tools = json!([{ "type": "function", "name": "look" }]);
    ("response_item", json!({ "type": "additional_tools", "tools": tools }))
}

/// Returns the texts of a request, by roles.
fn texts(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().unwrap().iter();
    let parts = messages.flat_map(|message| {
        let role = message["role"].as_str().unwrap();
        message["parts"].as_array().unwrap().iter().map(move |part| {
            let text = part["text"].as_str().or_else(|| part["name"].as_str());
            format!("{role}: {}", text.unwrap_or("…"))
        })
    });
    parts.collect()
}

#[test]
fn an_answer_is_not_a_part_of_its_own_request() {
    let home = Sessions::new();
    let records = [
        tools(),
        message("developer", "System."),
        model("m"),
        message("user", "one"),
        message("assistant", "Looking."),
        call("c"),
        used("r1"),
        output("c", "seen"),
        counted(10, 10),
        message("assistant", "Done."),
        used("r2"),
        counted(20, 10),
    ];
    home.write(ONE, &json!({}), &records);
    let requests = home.requests(ONE);
    assert_eq!(requests.len(), 2);
    assert_eq!(texts(&requests[0]), ["user: one"]);
    let second = ["user: one", "assistant: Looking.", "assistant: look", "tool: seen"];
    assert_eq!(texts(&requests[1]), second);
    assert_eq!(requests[1]["rebuilt"], "exact");
    assert_eq!(requests[1]["model"], "m");
    assert_eq!(requests[1]["tools"], json!([{ "name": "look" }]));
    assert_eq!(requests[1]["usage"]["input"], 8);
}

#[test]
fn older_versions_count_a_response_when_the_total_changes() {
    let home = Sessions::new();
    let records = [
        message("user", "one"),
        model("m"),
        event("token_count", &json!({ "info": null })),
        message("assistant", "Done."),
        counted(10, 10),
        counted(10, 10),
    ];
    home.write_lines(ONE, &lines(ONE, &json!({}), &records, false));
    let requests = home.requests(ONE);
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0]["rebuilt"], "messages");
    assert_eq!(requests[0]["system"].as_array().unwrap().len(), 1);
}

#[test]
fn a_request_of_an_older_version_that_failed_is_known_by_the_next_turn() {
    let home = Sessions::new();
    let records = [
        message("user", "one"),
        model("m"),
        message("user", "two"),
        model("m"),
        message("assistant", "Done."),
        counted(10, 10),
    ];
    home.write_lines(ONE, &lines(ONE, &json!({}), &records, false));
    let requests = home.requests(ONE);
    assert_eq!(requests.len(), 2);
    assert_eq!(texts(&requests[0]), ["user: one"]);
    assert_eq!(requests[0]["usage"], Value::Null);
    assert_eq!(texts(&requests[1]), ["user: one", "user: two"]);
}

#[test]
fn a_compaction_replaces_the_history_and_its_request_is_partial() {
    let home = Sessions::new();
    let (_, kept) = message("user", "kept");
    let compacted =
        json!({ "message": "s", "replacement_history": [kept], "compaction_response_id": "r2" });
    let records = [
        message("user", "one"),
        model("m"),
        message("assistant", "Done."),
        used("r1"),
        message("assistant", "A summary."),
        used("r2"),
        counted(20, 10),
        ("compacted", compacted),
        message("assistant", "Next."),
        used("r3"),
    ];
    home.write(ONE, &json!({}), &records);
    let requests = home.requests(ONE);
    let purposes: Vec<_> = requests.iter().map(|it| it["purpose"].clone()).collect();
    assert_eq!(purposes, ["answer", "compaction", "answer"]);
    assert_eq!(requests[1]["rebuilt"], "partial");
    assert_eq!(texts(&requests[1]), ["user: one", "assistant: Done."]);
    assert_eq!(texts(&requests[2]), ["user: kept"]);
}

#[test]
fn a_failed_turn_has_a_request_unless_it_was_answered() {
    let home = Sessions::new();
    let error = || event("task_complete", &json!({ "error": { "message": "no" } }));
    let records = [
        event("task_started", &json!({})),
        message("user", "one"),
        error(),
        event("task_started", &json!({})),
        message("user", "two"),
        message("assistant", "Cut"),
        used("r1"),
        error(),
    ];
    home.write(ONE, &json!({}), &records);
    let requests = home.requests(ONE);
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0]["usage"], Value::Null);
    assert_eq!(texts(&requests[1]), ["user: one", "user: two"]);
}

#[test]
fn an_interrupted_tool_is_no_request_and_its_mark_comes_after_the_window() {
    let home = Sessions::new();
    let aborted = || event("turn_aborted", &json!({ "reason": "interrupted" }));
    let records = [
        event("task_started", &json!({})),
        message("user", "one"),
        message("assistant", "Half"),
        message("developer", "<turn_aborted> by the person"),
        aborted(),
        event("task_started", &json!({})),
        message("user", "two"),
        call("c"),
        used("r1"),
        output("c", "aborted by user after 3.7s"),
        message("developer", "<turn_aborted> by the person"),
        aborted(),
    ];
    home.write(ONE, &json!({}), &records);
    let requests = home.requests(ONE);
    assert_eq!(requests.len(), 2);
    assert_eq!(texts(&requests[0]), ["user: one"]);
}

#[test]
fn a_broken_stream_is_sent_again_with_what_came() {
    let home = Sessions::new();
    let records = [
        message("user", "one"),
        message("assistant", "Half"),
        event("token_count", &json!({ "info": null })),
        message("assistant", "Done."),
        used("r1"),
    ];
    home.write(ONE, &json!({}), &records);
    assert_eq!(texts(&home.requests(ONE)[0]), ["user: one", "assistant: Half"]);
}

#[test]
fn a_call_without_an_output_is_sent_with_one() {
    let home = Sessions::new();
    let records = [
        message("user", "one"),
        call("c"),
        used("r1"),
        message("user", "two"),
        message("assistant", "Done."),
        used("r2"),
    ];
    home.write(ONE, &json!({}), &records);
    let sent = ["user: one", "assistant: look", "tool: aborted", "user: two"];
    assert_eq!(texts(&home.requests(ONE)[1]), sent);
}

#[test]
fn a_fork_has_the_history_of_its_parent_up_to_its_place() {
    let home = Sessions::new();
    let first = [
        message("user", "one"),
        message("assistant", "Done."),
        used("r1"),
        message("user", "later"),
    ];
    home.write(ONE, &json!({}), &first);
    let base = json!({ "thread_id": ONE, "end_ordinal_exclusive": 4 });
    let forked = json!({ "forked_from_id": ONE, "history_base": base });
    home.write(TWO, &forked, &[message("user", "two"), message("assistant", "Yes."), used("r2")]);
    let requests = home.requests(TWO);
    assert_eq!(requests.len(), 1);
    assert_eq!(texts(&requests[0]), ["user: one", "assistant: Done.", "user: two"]);
    assert_eq!(requests[0]["rebuilt"], "messages");
}

#[test]
fn forks_in_a_circle_or_of_nothing_are_partial() {
    let home = Sessions::new();
    let base =
        |id: &str| json!({ "history_base": { "thread_id": id, "end_ordinal_exclusive": 9 } });
    let records = [message("user", "one"), message("assistant", "Yes."), used("r")];
    home.write(ONE, &base(TWO), &records);
    home.write(TWO, &base(ONE), &records);
    home.write(THREE, &base("gone"), &records);
    for id in [ONE, TWO, THREE] {
        let requests = home.requests(id);
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0]["rebuilt"], "partial");
    }
}

#[test]
fn a_copy_of_the_parent_in_a_fork_of_an_older_version_is_not_counted() {
    let home = Sessions::new();
    let mut records =
        vec![message("user", "one"), model("m"), message("assistant", "Done."), counted(10, 10)];
    home.write_lines(ONE, &lines(ONE, &json!({}), &records, false));
    records.extend([message("user", "two"), model("m"), message("assistant", "Yes.")]);
    records.push(counted(20, 10));
    let forked = lines(TWO, &json!({ "forked_from_id": ONE }), &records, false);
    home.write_lines(TWO, &forked);
    let requests = home.requests(TWO);
    assert_eq!(requests.len(), 1);
    assert_eq!(texts(&requests[0]), ["user: one", "assistant: Done.", "user: two"]);
}

#[test]
fn a_sub_agent_belongs_to_the_session_that_started_it() {
    let home = Sessions::new();
    home.write(ONE, &json!({}), &[message("user", "one"), message("assistant", "x"), used("r1")]);
    let sub = |parent: &str, path: &str| {
        json!({
            "session_id": ONE, "parent_thread_id": parent, "agent_path": path,
            "thread_source": "subagent", "subagent_history_start_ordinal": 3,
        })
    };
    let records = [
        message("user", "one"),
        call("c"),
        message("user", "task"),
        message("assistant", "Yes."),
        used("r2"),
    ];
    home.write(TWO, &sub(ONE, "/root/a"), &records);
    home.write(THREE, &sub(TWO, "/root/a/b"), &records);
    let found = home.list();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].files.len(), 3);
    assert_eq!(CodexSessions.at(&found[0].files[2]).unwrap().unwrap().id, ONE);
    let requests = home.requests(ONE);
    let mut agents: Vec<_> = requests.iter().map(|it| it["agent"].to_string()).collect();
    agents.sort();
    assert_eq!(agents, ["\"/root/a\"", "\"/root/a/b\"", "null"]);
    let sent = ["user: one", "assistant: look", "tool: aborted", "user: task"];
    let of_agent = requests.iter().find(|it| it["agent"] == "/root/a").unwrap();
    assert_eq!(texts(of_agent), sent);
}

#[test]
fn a_model_of_another_family_has_its_own_system_text() {
    let home = Sessions::new();
    let records = [
        tools(),
        message("developer", "System."),
        model("m"),
        message("user", "one"),
        message("assistant", "Done."),
        used("r1"),
        model("other"),
        message("user", "two"),
        message("assistant", "Yes."),
        used("r2"),
        model("m"),
        message("user", "three"),
        message("assistant", "Yes."),
        used("r3"),
    ];
    home.write(ONE, &json!({}), &records);
    let requests = home.requests(ONE);
    let grades: Vec<_> = requests.iter().map(|it| it["rebuilt"].clone()).collect();
    assert_eq!(grades, ["exact", "messages", "exact"]);
    assert_eq!(texts(&requests[1])[0], "developer: System.");
    assert_eq!(texts(&requests[2])[0], "user: one");
}

#[test]
fn a_file_that_grows_is_read_on() {
    let home = Sessions::new();
    let records = [
        event("task_started", &json!({})),
        message("user", "one"),
        message("assistant", "Done."),
        used("r1"),
        event("task_complete", &json!({})),
    ];
    let all = lines(ONE, &json!({}), &records, true);
    let at = all.match_indices('\n').nth(2).unwrap().0 + 20;
    let path = home.write_lines(ONE, &all[..at]);
    let mut reader = home.open(ONE);
    let before = requests(&mut *reader);
    assert_eq!(before.len(), 1);
    assert_eq!(before[0]["usage"], Value::Null);
    assert!(reader.report().is_torn);
    fs::write(&path, &all).unwrap();
    let after = requests(&mut *reader);
    assert_eq!(after.len(), 1);
    assert_eq!(after[0]["usage"]["output"], 3);
    assert_eq!(texts(&after[0]), ["user: one"]);
    assert!(requests(&mut *reader).is_empty());
}

#[test]
fn a_line_that_stands_twice_counts_once() {
    let home = Sessions::new();
    let records = [message("user", "one"), message("assistant", "Done."), used("r1")];
    let all = lines(ONE, &json!({}), &records, true);
    home.write_lines(ONE, &format!("{all}{all}"));
    let mut reader = home.open(ONE);
    assert_eq!(requests(&mut *reader).len(), 1);
    assert_eq!(reader.report().repeated, 4);
}

#[test]
fn bare_items_are_a_session_too() {
    let home = Sessions::new();
    let (_, one) = message("user", "<environment_context> x");
    let (_, two) = message("user", "one");
    let (_, three) = message("assistant", "Done.");
    let head = json!({ "id": ONE, "timestamp": "2025-05-07T17:24:21.597Z", "instructions": "x" });
    let state = json!({ "record_type": "state" });
    let all = [head, one, two, state, three].map(|it| it.to_string()).join("\n") + "\n";
    let path = home.write_lines(ONE, &all);
    let requests = home.requests(ONE);
    assert_eq!(requests.len(), 1);
    assert_eq!(texts(&requests[0]), ["user: <environment_context> x", "user: one"]);
    assert_eq!(requests[0]["rebuilt"], "partial");
    assert_eq!(CodexSessions.at(&path).unwrap().unwrap().id, ONE);
}

#[test]
fn wrong_types_unknown_kinds_and_foreign_files_are_reported() {
    let home = Sessions::new();
    let mut all = lines(ONE, &json!({ "cwd": 5, "source": [], "git": 1 }), &[], true);
    let payloads =
        [json!(1), json!([]), json!("x"), json!({}), json!({ "type": [1] }), Value::Null];
    for kind in ["response_item", "compacted", "turn_context", "token_usage_record", "event_msg"] {
        for payload in &payloads {
            writeln!(all, "{}", json!({ "type": kind, "payload": payload })).unwrap();
        }
    }
    all.push_str("{\"type\":\"new\",\"payload\":{}}\n[]\n\"\"\n{\n\u{0}\n");
    let path = home.write_lines(ONE, &all);
    let mut reader = home.open(ONE);
    requests(&mut *reader);
    assert!(reader.report().broken > 4);
    assert_eq!(reader.report().unknown["new"], 1);
    let other = path.with_file_name("other.jsonl");
    fs::write(&other, "{\"type\":\"session\",\"id\":\"x\",\"timestamp\":\"y\"}\n").unwrap();
    assert!(CodexSessions.at(&other).unwrap().is_none());
    assert!(CodexSessions.at(Path::new("/nonexistent")).unwrap().is_none());
}

/// Returns what a session tells, but its requests.
fn told(home: &Sessions) -> Vec<String> {
    let mut told = Vec::new();
    let mut sink = |entry: Entry<'_>| {
        match entry.kind {
            EntryKind::Request(_) | EntryKind::Facts(_) => {}
            kind => told.push(format!("{kind:?}")),
        }
        ControlFlow::Continue(())
    };
    home.open(ONE).advance(&mut sink).unwrap();
    told
}

#[test]
fn a_person_is_told_from_the_program() {
    let home = Sessions::new();
    let both = json!([
        { "type": "input_text", "text": "<image name=[Image #1]>" },
        { "type": "input_image", "image_url": "data:image/png;base64,AAAA" },
        { "type": "input_text", "text": "</image>" },
        { "type": "input_text", "text": "look" },
    ]);
    let image = json!({ "type": "message", "role": "user", "content": both });
    let records = [
        message("user", "# AGENTS.md instructions for /shop"),
        message("user", "<environment_context>…"),
        ("response_item", image),
    ];
    home.write(ONE, &json!({}), &records);
    assert_eq!(told(&home), ["Person { text: \"look\" }"]);
}

#[test]
fn patches_plans_and_answers_are_told() {
    let home = Sessions::new();
    let patch =
        "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** Add File: b\n+z\n*** End Patch";
    let apply = json!({
        "type": "custom_tool_call", "name": "apply_patch", "input": patch, "call_id": "p",
    });
    let ask = json!({ "questions": [{ "id": "q", "question": "Which?" }] }).to_string();
    let ask = json!({ "type": "function_call", "name": "request_user_input", "arguments": ask, "call_id": "q" });
    let plan = json!({ "plan": [{ "step": "one", "status": "completed" }] }).to_string();
    let plan = json!({ "type": "function_call", "name": "update_plan", "arguments": plan });
    let records = [
        ("response_item", apply),
        output("p", "Exit code: 0\nDone"),
        ("response_item", ask),
        output("q", "{\"answers\":{\"q\":{\"answers\":[\"this\"]}}}"),
        ("response_item", plan),
        message("assistant", "<proposed_plan>Do it.</proposed_plan>"),
        message("user", "Implement the plan."),
    ];
    home.write(ONE, &json!({}), &records);
    let told = told(&home).join("\n");
    for part in [
        "path: \"a\", change: \"update\", diff: Some(FileDiff { before: Some(\"x\\n\"), after: \"y\\n\" })",
        "path: \"b\", change: \"add\", diff: Some(FileDiff { before: None, after: \"z\\n\" })",
        "PersonAnswered { question: \"Which?\", answer: \"this\" }",
        "Todo([TodoItem { text: \"one\", state: Completed }])",
        "PlanApproved { plan: \"Do it.\" }",
    ] {
        assert!(told.contains(part), "{part} is not in\n{told}");
    }
}

#[test]
fn a_compaction_of_an_older_version_is_rebuilt_with_the_context_of_the_resumed_session() {
    let home = Sessions::new();
    let context = |more: &str| {
        [
            message("developer", &format!("<permissions instructions> {more}")),
            message("user", &format!("<environment_context> {more}")),
        ]
    };
    let mut records = context("old").to_vec();
    records.extend([message("user", "one"), model("m"), message("assistant", "Done.")]);
    records.extend([counted(10, 10), counted(20, 10)]);
    records.push(("compacted", json!({ "message": "The summary." })));
    records.extend([model("m"), message("assistant", "On."), counted(30, 10)]);
    records.extend(context("new"));
    records.extend([message("user", "two"), model("m"), message("assistant", "Yes.")]);
    records.push(counted(40, 10));
    home.write_lines(ONE, &lines(ONE, &json!({}), &records, false));
    let requests = home.requests(ONE);
    assert_eq!(requests[1]["purpose"], "compaction");
    let after = [
        "developer: <permissions instructions> old",
        "user: <environment_context> old",
        "user: one",
        "user: The summary.",
    ];
    assert_eq!(texts(&requests[2]), after);
    let resumed = texts(&requests[3]);
    assert_eq!(resumed[0], "developer: <permissions instructions> new");
    assert_eq!(resumed[2..5], ["user: one", "user: The summary.", "assistant: On."]);
    assert_eq!(requests[3]["rebuilt"], "messages");
}

#[test]
fn large_results_are_known_by_their_hash() {
    let home = Sessions::new();
    let records = [message("user", &"x".repeat(5_000)), message("assistant", "Done."), used("r1")];
    home.write(ONE, &json!({}), &records);
    let mut sizes = Vec::new();
    let mut sink = |entry: Entry<'_>| {
        if let EntryKind::Request(request) = entry.kind {
            assert_eq!(request.window.parts[0].role, Role::User);
            sizes.extend(request.window.parts.iter().map(|part| match &part.part.what {
                Part::Text(text) => (text.bytes, text.text.is_some()),
                _ => (0, true),
            }));
        }
        ControlFlow::Continue(())
    };
    home.open(ONE).advance(&mut sink).unwrap();
    assert_eq!(sizes, [(5_000, false)]);
}
