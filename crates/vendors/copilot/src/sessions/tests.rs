use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

use convoke_protocol::window::Part;
use convoke_source::{Entry, EntryKind, Home, Kept, SessionReader, SessionSource};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::CopilotSessions;

/// A session that is being written.
struct TestSession {
    home: TempDir,
    events: u32,
}

impl TestSession {
    fn new() -> Self {
        let home = TempDir::new().unwrap();
        fs::create_dir_all(home.path().join(".copilot/session-state/s1")).unwrap();
        let mut session = Self { home, events: 0 };
        session.add(
            "session.start",
            json!({
                "sessionId": "s1", "copilotVersion": "1.0", "selectedModel": "m", "startTime": "2026-11-17T06:26:00Z",
                "context": { "cwd": "/w", "branch": "main" },
            }),
        );
        session
    }

    fn path(&self) -> PathBuf {
        self.home.path().join(".copilot/session-state/s1/events.jsonl")
    }

    #[expect(clippy::needless_pass_by_value, reason = "tests write values in their calls")]
    fn add(&mut self, kind: &str, data: Value) -> &mut Self {
        self.add_of(kind, &data, None)
    }

    fn add_of(&mut self, kind: &str, data: &Value, agent: Option<&str>) -> &mut Self {
        self.events += 1;
        let event = json!({
            "type": kind, "data": data, "id": format!("e{}", self.events), "agentId": agent,
            "timestamp": format!("2026-11-17T06:26:{:02}Z", self.events),
        });
        let known = fs::read_to_string(self.path()).unwrap_or_default();
        fs::write(self.path(), format!("{known}{event}\n")).unwrap();
        self
    }

    fn user(&mut self, text: &str) -> &mut Self {
        self.add(
            "user.message",
            json!({ "content": text, "transformedContent": format!("now {text}") }),
        )
    }

    /// Adds a turn that a model answers.
    fn answer(&mut self, text: &str, calls: &[&str]) -> &mut Self {
        let id = format!("a{}", self.events);
        let calls: Vec<Value> = calls
            .iter()
            .map(|call| json!({ "toolCallId": call, "name": "bash", "arguments": { "command": "x" } }))
            .collect();
        self.add("assistant.turn_start", json!({}));
        self.add(
            "session.usage_record",
            json!({ "usage": {
                "model": "m", "inputTokens": 10, "outputTokens": 5, "cacheReadTokens": 4, "isByok": true, "apiCallId": id,
                "interactionType": "conversation-agent", "accounting": { "sourceSessionId": "s1" },
            } }),
        );
        self.add(
            "assistant.message",
            json!({ "content": text, "toolRequests": calls, "apiCallId": id }),
        )
    }

    fn result(&mut self, call: &str, text: &str) -> &mut Self {
        self.add(
            "tool.execution_complete",
            json!({ "toolCallId": call, "success": true, "result": { "content": text } }),
        )
    }

    fn open(&self) -> Box<dyn SessionReader> {
        let mut sessions = Vec::new();
        let home = Home { directory: self.home.path(), variable: &|_| None };
        CopilotSessions.list(&home, &mut |found| sessions.push(found.unwrap()));
        CopilotSessions.open(&sessions[0], Kept::All).unwrap()
    }

    fn told(&self) -> Vec<String> {
        advance(&mut *self.open())
    }

    fn requests(&self) -> Vec<String> {
        let told = self.told().into_iter();
        told.filter_map(|it| it.strip_prefix("request ").map(str::to_owned)).collect()
    }
}

fn advance(reader: &mut dyn SessionReader) -> Vec<String> {
    let mut told = Vec::new();
    let sink = &mut |entry: Entry<'_>| {
        told.push(shown(&entry));
        ControlFlow::Continue(())
    };
    reader.advance(sink).unwrap();
    told
}

fn shown(entry: &Entry<'_>) -> String {
    let agent = entry.agent.map(|agent| format!("[{agent}] ")).unwrap_or_default();
    let told = match &entry.kind {
        EntryKind::Facts(facts) => format!("facts {:?} {:?}", facts.version, facts.cwd),
        EntryKind::Person { text } => format!("person {text}"),
        EntryKind::PersonAnswered { question, answer } => format!("answered {question} {answer}"),
        EntryKind::PlanApproved { plan } => format!("approved {plan}"),
        EntryKind::Text { text } => format!("text {text}"),
        EntryKind::Thinking { text } => format!("thinking {text}"),
        EntryKind::Call { id, .. } => format!("call {id}"),
        EntryKind::Result { id, output, .. } => format!("result {id} {output}"),
        EntryKind::Changed(changes) => format!("changed {changes:?}"),
        EntryKind::Todo(items) => format!("todo {items:?}"),
        EntryKind::Compacted { summary, dropped } => format!("compacted {summary} {dropped}"),
        EntryKind::Failed { status, message } => format!("failed {status:?} {message}"),
        EntryKind::Request(request) => {
            let parts = request.window.parts.iter().map(|it| match &it.part.what {
                Part::Text(text) | Part::Result(text) => {
                    text.text.as_deref().unwrap_or("…").to_owned()
                }
                Part::Call { name, .. } => format!("{name}()"),
                Part::Image(_) => "image".to_owned(),
                Part::Thinking(_) => "thinking".to_owned(),
            });
            let parts: Vec<String> = parts.collect();
            format!(
                "request {} {} {} {:?} {:?} {}",
                request.key,
                request.purpose.as_str(),
                request.grade.as_str(),
                request.status,
                request.usage.map(|usage| usage.output),
                parts.join("|")
            )
        }
    };
    agent + &told
}

#[test]
fn results_stand_in_the_order_of_their_calls() {
    let mut session = TestSession::new();
    session.user("go").answer("look", &["x", "y"]).result("y", "second").result("x", "first");
    session.answer("done", &[]);
    assert_eq!(
        session.requests(),
        [
            "1 answer messages Some(200) Some(5) now go",
            "2 answer messages Some(200) Some(5) now go|look|bash()|bash()|first|second",
        ]
    );
    let told = session.told();
    assert_eq!(told[..2], ["facts Some(\"1.0\") Some(\"/w\")", "person go"]);
}

#[test]
fn a_call_that_was_interrupted_is_sent_with_a_result() {
    let mut session = TestSession::new();
    session.user("go").answer("look", &["x"]).add("abort", json!({ "reason": "user_initiated" }));
    session.user("again").answer("done", &[]);
    let requests = session.requests();
    assert_eq!(requests.len(), 2);
    let window = "now go|look|bash()|The execution of this tool, or a previous tool was interrupted.|now again";
    assert!(requests[1].ends_with(window), "{requests:?}");
}

#[test]
fn a_call_of_the_program_itself_is_no_request() {
    let mut session = TestSession::new();
    session.user("go").answer("look", &["x"]);
    session.add(
        "tool.execution_complete",
        json!({ "toolCallId": "x", "success": true, "result": { "content": "started" } }),
    );
    session.add("assistant.turn_start", json!({}));
    session.add("system.notification", json!({ "content": "ended" }));
    let call = json!({ "toolCallId": "p", "name": "read_bash", "arguments": {} });
    session.add(
        "assistant.message",
        json!({ "messageId": "p", "content": "", "toolRequests": [call] }),
    );
    session.add(
        "tool.execution_complete",
        json!({ "toolCallId": "p", "success": true, "result": { "content": "out" } }),
    );
    session.answer("done", &[]);
    let requests = session.requests();
    assert_eq!(requests.len(), 2, "{requests:?}");
    assert!(requests[1].ends_with("|started|ended|read_bash()|out"), "{requests:?}");
}

#[test]
fn the_list_of_tools_that_answers_a_wrong_call_is_missing_until_the_session_is_resumed() {
    let mut session = TestSession::new();
    session.user("go").answer("look", &["x"]);
    let error = json!({ "message": "Tool 'x' does not exist." });
    session.add(
        "tool.execution_complete",
        json!({ "toolCallId": "x", "success": false, "error": error }),
    );
    session.answer("a", &[]).add("session.resume", json!({})).user("again").answer("b", &[]);
    let requests = session.requests();
    assert!(requests[1].contains(" partial "), "{requests:?}");
    assert!(requests[2].contains(" messages "), "{requests:?}");
}

#[test]
fn a_second_summary_repeats_what_persons_wrote_before_the_first() {
    let mut session = TestSession::new();
    let tokens = json!({ "model": "m", "inputTokens": 3, "outputTokens": 2 });
    let summary = |text: &str| json!({ "success": true, "summaryContent": text, "compactionTokensUsed": tokens });
    session.user("one").answer("a", &[]).user("two").add("session.compaction_start", json!({}));
    session.answer("kept", &[]).add("session.compaction_complete", summary("S1")).user("three");
    session
        .add("session.compaction_start", json!({}))
        .add("session.compaction_complete", summary("S2"));
    session.answer("b", &[]);
    let requests = session.requests();
    assert!(requests[2].starts_with("3 compaction partial Some(200) Some(2) "), "{requests:?}");
    let last = "<user_message>\none\n</user_message>\n<user_message>\ntwo\n</user_message>\n\
        <user_message>\nthree\n</user_message>\n\nHere is a summary of the prior context:\n<summary>\nS2\n</summary>\n";
    assert!(requests.last().unwrap().ends_with(last), "{requests:?}");
    assert!(session.told().contains(&"compacted S1 3".to_owned()), "{:?}", session.told());
}

#[test]
fn requests_without_an_answer_are_told() {
    let mut session = TestSession::new();
    session.user("one").add("assistant.turn_start", json!({}));
    let mut reader = session.open();
    assert_eq!(
        advance(&mut *reader).last().unwrap(),
        "request 1 answer messages None None now one"
    );
    session.add("session.error", json!({ "message": "bad", "statusCode": 400 }));
    let told = advance(&mut *reader);
    assert_eq!(told, ["failed Some(400) bad", "request 1 answer messages Some(400) None now one"]);
    session
        .user("two")
        .add("assistant.turn_start", json!({}))
        .add("abort", json!({ "reason": "user" }));
    let told = advance(&mut *reader);
    assert_eq!(
        told[1..],
        ["failed None interrupted: user", "request 2 answer messages None None now one|now two"]
    );
}

#[test]
fn a_rewind_removes_events() {
    let mut session = TestSession::new();
    session.user("one").answer("a", &[]).user("two").answer("b", &[]);
    session.add("session.snapshot_rewind", json!({ "upToEventId": "e6", "eventsRemoved": 4 }));
    session.user("three").answer("c", &[]);
    session.add(
        "session.snapshot_rewind",
        json!({ "upToEventId": "e2", "eventIds": ["e2"], "eventsRemoved": 1 }),
    );
    session.answer("d", &[]);
    let requests = session.requests();
    assert!(requests[2].ends_with(" now one|a|now three"), "{requests:?}");
    assert!(requests[3].ends_with(" a|now three|c"), "{requests:?}");
}

#[test]
fn agents_have_conversations_of_their_own() {
    let mut session = TestSession::new();
    session.user("one").answer("a", &["x"]);
    session.add_of(
        "user.message",
        &json!({ "content": "task", "source": "agent-s1" }),
        Some("sub"),
    );
    session.add_of("assistant.turn_start", &json!({}), Some("sub"));
    session.add_of(
        "session.usage_record",
        &json!({ "usage": { "model": "m", "apiCallId": "z" } }),
        Some("sub"),
    );
    session.add_of(
        "assistant.message",
        &json!({ "content": "done", "apiCallId": "z" }),
        Some("sub"),
    );
    session.result("x", "done").answer("b", &[]);
    let told = session.told();
    assert!(
        told.contains(&"[sub] request 1 answer messages Some(200) Some(0) task".to_owned()),
        "{told:?}"
    );
    assert!(!told.contains(&"person task".to_owned()));
    assert!(told.iter().any(|it| it.ends_with(" now one|a|bash()|done")), "{told:?}");
}

#[test]
fn a_fork_does_not_count_the_answers_of_its_source() {
    let mut session = TestSession::new();
    session.user("one");
    session.add(
        "session.usage_record",
        json!({ "usage": { "model": "m", "apiCallId": "z", "accounting": { "sourceSessionId": "other" } } }),
    );
    session.add("assistant.message", json!({ "content": "a", "apiCallId": "z" }));
    session.user("two").answer("b", &[]);
    assert_eq!(session.requests(), ["1 answer messages Some(200) Some(5) now one|a|now two"]);
}

#[test]
fn an_older_version_has_no_record_of_the_tokens() {
    let mut session = TestSession::new();
    session.user("one").add("assistant.turn_start", json!({}));
    session.add("assistant.message", json!({ "content": "a" }));
    assert_eq!(session.requests(), ["1 answer messages Some(200) None now one"]);
}

#[test]
fn images_are_left_out_for_models_of_another_provider() {
    let asset = format!("sha256:{}", "0".repeat(64));
    let image = json!({ "toolCallId": "x", "success": true, "result": {
        "content": "seen", "binaryResultsForLlm": [{ "type": "image", "assetId": asset, "byteLength": 3 }],
    } });
    let mut session = TestSession::new();
    session.user("one").answer("a", &["x"]).add("tool.execution_complete", image).answer("b", &[]);
    session.add("session.usage_record", json!({ "usage": { "model": "m", "apiCallId": "k" } }));
    let requests = session.requests();
    assert!(requests[1].ends_with(" now one|a|bash()|seen"), "{requests:?}");
    assert!(
        requests[2].contains(" partial ") && requests[2].ends_with("|seen|image|b"),
        "{requests:?}"
    );
}

#[test]
fn edits_plans_questions_and_tasks_are_told() {
    let mut session = TestSession::new();
    session.add("tool.execution_start", json!({ "toolCallId": "x", "toolName": "edit", "arguments": { "old_str": "1", "new_str": "2" } }));
    session.add("tool.execution_complete", json!({ "toolCallId": "x", "success": true, "result": { "content": "ok" }, "fileEdits": [{ "path": "/a", "kind": "edit" }] }));
    session.add("exit_plan_mode.requested", json!({ "requestId": "r", "planContent": "the plan" }));
    session.add("exit_plan_mode.completed", json!({ "requestId": "r", "approved": true }));
    session.add("user_input.requested", json!({ "requestId": "q", "question": "why?" }));
    session.add("user_input.completed", json!({ "requestId": "q", "answer": "so" }));
    session.add("assistant.message", json!({ "toolRequests": [{ "toolCallId": "t", "name": "update_todo", "arguments": { "todos": "- [x] a\n- [ ] b" } }] }));
    let told = session.told();
    let has = |what: &str| told.iter().any(|it| it.contains(what));
    assert!(has("diff: Some(FileDiff { before: Some(\"1\"), after: \"2\" })"), "{told:?}");
    assert!(has("approved the plan") && has("answered why? so"), "{told:?}");
    assert!(has("TodoItem { text: \"a\", state: Completed }"), "{told:?}");
}

#[test]
fn a_file_that_a_rewind_has_cut_is_read_again_and_told_once() {
    let mut session = TestSession::new();
    session.user("one").answer("a", &[]);
    let kept = fs::read_to_string(session.path()).unwrap();
    session.user("a much longer message that is withdrawn").answer("b", &[]);
    let mut reader = session.open();
    advance(&mut *reader);
    fs::write(session.path(), kept).unwrap();
    session.user("two").answer("c", &[]);
    let told = advance(&mut *reader);
    assert_eq!(told[0], "person two");
    assert!(told[1].ends_with(" now one|a|now two"), "{told:?}");
}

#[test]
fn what_is_not_known_is_counted_and_hides_nothing() {
    let mut session = TestSession::new();
    session.add("new.kind", json!({})).add("session.new", json!(5));
    for kind in [
        "user.message",
        "assistant.message",
        "session.usage_record",
        "tool.execution_complete",
        "session.compaction_complete",
        "session.snapshot_rewind",
        "session.error",
        "system.message",
    ] {
        session.add(kind, json!([null])).add(kind, json!({ "content": 5, "toolRequests": 7, "usage": "x", "eventIds": [5], "result": [], "statusCode": 1e9 }));
    }
    let text = fs::read_to_string(session.path()).unwrap() + "5\nnot JSON\n{\"type\":";
    fs::write(session.path(), text).unwrap();
    let mut reader = session.open();
    advance(&mut *reader);
    let report = reader.report();
    assert_eq!(report.unknown.values().sum::<u64>(), 3, "{report}");
    assert!(report.broken == 1 && report.is_torn, "{report}");
}

#[test]
fn a_session_is_known_by_its_first_event() {
    let session = TestSession::new();
    let found = CopilotSessions.at(session.path().parent().unwrap()).unwrap().unwrap();
    assert_eq!((found.id.as_str(), found.cwd.as_deref()), ("s1", Some("/w")));
    let copy = session.home.path().join("copied.jsonl");
    fs::copy(session.path(), &copy).unwrap();
    assert_eq!(CopilotSessions.at(&copy).unwrap().unwrap().id, "s1");
    fs::write(&copy, "{}\n").unwrap();
    assert_eq!(CopilotSessions.at(&copy).unwrap(), None);
}
