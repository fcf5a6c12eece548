use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use convoke_protocol::window::{Messages, Part};
use convoke_source::{Entry, EntryKind, FoundSession, Home, Kept, SessionReader, SessionSource};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::GeminiSessions;

const CONTEXT: &str = "<session_context>\nToday.\n</session_context>";

fn header(id: &str) -> Value {
    json!({ "sessionId": id, "projectHash": "h", "startTime": "2026-11-17T06:32:50.049Z", "kind": "main" })
}

fn user(id: &str, text: &str) -> Value {
    json!({ "id": id, "timestamp": "2026-11-17T06:32:51.000Z", "type": "user", "content": [{ "text": text }] })
}

fn answer(id: &str, text: &str) -> Value {
    json!({
        "id": id, "timestamp": "2026-11-17T06:32:52.000Z", "type": "gemini", "content": text, "thoughts": [],
        "tokens": { "input": 11, "output": 7, "cached": 2, "thoughts": 3, "tool": 0, "total": 21 }, "model": "m",
    })
}

fn start() -> Value {
    json!({ "$set": { "messages": [user("c", CONTEXT)] } })
}

/// A home with one project.
struct TestHome(TempDir);

impl TestHome {
    fn new() -> Self {
        let home = TempDir::new().unwrap();
        fs::create_dir_all(home.path().join(".gemini/tmp/shop/chats")).unwrap();
        fs::write(home.path().join(".gemini/projects.json"), r#"{"projects":{"/w/shop":"shop"}}"#)
            .unwrap();
        Self(home)
    }

    fn write(&self, name: &str, lines: &[Value]) -> &Self {
        let path = self.0.path().join(".gemini/tmp/shop/chats").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let known = fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        fs::write(path, known + &lines.join("\n") + "\n").unwrap();
        self
    }

    fn list(&self) -> Vec<FoundSession> {
        let mut sessions = Vec::new();
        let home = Home { directory: self.0.path(), variable: &|_| None };
        GeminiSessions.list(&home, &mut |found| sessions.push(found.unwrap()));
        sessions
    }

    fn open(&self, id: &str) -> Box<dyn SessionReader> {
        let session = self.list().into_iter().find(|it| it.id == id).unwrap();
        GeminiSessions.open(&session, Kept::All).unwrap()
    }

    fn told(&self, id: &str) -> Vec<String> {
        advance(&mut *self.open(id))
    }
}

fn advance(reader: &mut dyn SessionReader) -> Vec<String> {
    let mut told = Vec::new();
    let sink = &mut |entry: Entry<'_>| {
        told.extend(shown(&entry));
        ControlFlow::Continue(())
    };
    reader.advance(sink).unwrap();
    told
}

/// Returns an entry as a line; a request with the texts of its window.
fn shown(entry: &Entry<'_>) -> Option<String> {
    let agent = entry.agent.map(|agent| format!("[{agent}] ")).unwrap_or_default();
    let told = match &entry.kind {
        EntryKind::Facts(facts) => format!("facts {:?} {:?}", facts.cwd, facts.title),
        EntryKind::Person { text } => format!("person {text}"),
        EntryKind::PersonAnswered { question, answer } => format!("answered {question} {answer}"),
        EntryKind::Text { text } => format!("text {text}"),
        EntryKind::Thinking { text } => format!("thinking {text}"),
        EntryKind::Call { id, name, input } => format!("call {id} {name} {input}"),
        EntryKind::Result { id, ok, output } => format!("result {id} {ok} {output}"),
        EntryKind::Changed(changes) => format!("changed {changes:?}"),
        EntryKind::Todo(items) => format!("todo {}", items.len()),
        EntryKind::Compacted { summary, dropped } => format!("compacted {summary} {dropped}"),
        EntryKind::Failed { message, .. } => format!("failed {message}"),
        EntryKind::Request(request) => {
            let parts = request.window.parts.iter().map(|it| match &it.part.what {
                Part::Text(text) | Part::Result(text) => {
                    text.text.as_deref().unwrap_or("…").to_owned()
                }
                Part::Call { name, .. } => format!("{name}()"),
                other => format!("{other:?}"),
            });
            let parts: Vec<String> = parts.map(|part| part.replace(CONTEXT, "C")).collect();
            let output = request.usage.map(|usage| usage.output);
            format!("request {} {output:?} {}", request.grade.as_str(), parts.join("|"))
        }
        EntryKind::PlanApproved { .. } => return None,
    };
    Some(agent + &told)
}

fn requests(told: &[String]) -> Vec<&str> {
    told.iter().filter_map(|it| it.strip_prefix("request ")).collect()
}

#[test]
fn a_rewind_removes_the_message_and_all_after_it() {
    let home = TestHome::new();
    let lines = [
        header("s"),
        start(),
        user("1", "one"),
        answer("2", "a"),
        user("3", "two"),
        answer("4", "b"),
        json!({ "$rewindTo": "3" }),
        user("5", "three"),
        answer("6", "c"),
        json!({ "$rewindTo": "unknown" }),
        user("7", "four"),
        answer("8", "d"),
    ];
    home.write("session-1-s.jsonl", &lines);
    assert_eq!(
        requests(&home.told("s")),
        [
            "messages Some(10) C|one",
            "messages Some(10) C|one|a|two",
            "messages Some(10) C|one|a|three",
            "partial Some(10) four",
        ]
    );
}

#[test]
fn a_message_takes_the_place_of_the_one_with_its_id_and_counts_once() {
    let mut called = answer("2", "look");
    called["toolCalls"] = json!([{
        "id": "x", "name": "read_file", "args": { "path": "a" }, "status": "success",
        "result": [{ "functionResponse": { "name": "read_file", "response": { "output": "text" } } }],
    }]);
    let result = json!({ "id": "3", "type": "user", "content": called["toolCalls"][0]["result"] });
    let home = TestHome::new();
    let lines = [
        header("s"),
        start(),
        user("1", "one"),
        answer("2", "look"),
        called,
        result,
        answer("4", "b"),
    ];
    home.write("session-1-s.jsonl", &lines);
    let told = home.told("s");
    assert_eq!(
        told,
        [
            "facts Some(\"/w/shop\") None",
            "person one",
            "request messages Some(10) C|one",
            "text look",
            r#"call x read_file {"path":"a"}"#,
            "result x true text",
            "request messages Some(10) C|one|look|read_file()|text",
            "text b",
        ]
    );
}

#[test]
fn sessions_that_share_a_file_are_told_apart() {
    let home = TestHome::new();
    let lines = [
        header("s"),
        start(),
        user("1", "one"),
        answer("2", "a"),
        header("t"),
        start(),
        user("3", "two"),
        answer("4", "b"),
        json!({ "$set": { "sessionId": "s" } }),
        json!({ "$set": { "messages": [user("c", CONTEXT), user("1", "one"), answer("2", "a")] } }),
        user("5", "three"),
        answer("6", "c"),
    ];
    home.write("session-1-s.jsonl", &lines);
    assert_eq!(home.list().len(), 2);
    assert_eq!(
        requests(&home.told("s")),
        ["messages Some(10) C|one", "messages Some(10) C|one|a|three"]
    );
    assert_eq!(requests(&home.told("t")), ["messages Some(10) C|two"]);
}

#[test]
fn a_session_that_was_resumed_is_one_session_of_two_files() {
    let home = TestHome::new();
    home.write("session-1-s.jsonl", &[header("s"), start(), user("1", "one"), answer("2", "a")]);
    home.write("session-2-s.jsonl", &[header("s"), start()]);
    home.write(
        "session-1-s.jsonl",
        &[json!({ "$set": { "sessionId": "s" } }), user("3", "two"), answer("4", "b")],
    );
    let sessions = home.list();
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0].files.len(), 2);
    assert_eq!(sessions[0].path.file_name().unwrap(), "session-1-s.jsonl");
    assert_eq!(requests(&home.told("s")).last(), Some(&"messages Some(10) C|one|a|two"));
}

#[test]
fn a_new_list_is_a_summary_or_takes_a_prompt_back() {
    let mut own = answer("9", "Got it.");
    own.as_object_mut().unwrap().retain(|name, _| !["model", "tokens"].contains(&name.as_str()));
    let home = TestHome::new();
    let lines = [
        header("s"),
        start(),
        user("1", "one"),
        answer("2", "a"),
        user("3", "refused"),
        json!({ "$set": { "messages": [user("c", CONTEXT), user("1", "one"), answer("2", "a")] } }),
        json!({ "$set": { "messages": [user("c", CONTEXT), user("8", "summary"), own] } }),
        user("4", "two"),
        answer("5", "b"),
    ];
    home.write("session-1-s.jsonl", &lines);
    let told = home.told("s");
    assert_eq!(
        told[2..],
        [
            "request messages Some(10) C|one",
            "text a",
            "person refused",
            "failed the request failed, and its prompt was taken back",
            "compacted summary 2",
            "person two",
            "request messages Some(10) C|summary|Got it.|two",
            "text b",
        ]
    );
}

#[test]
fn tokens_that_come_later_are_handed_out_with_the_same_request() {
    let mut early = answer("2", "a");
    early["tokens"] = Value::Null;
    let home = TestHome::new();
    home.write("session-1-s.jsonl", &[header("s"), start(), user("1", "one"), early]);
    let mut reader = home.open("s");
    assert_eq!(requests(&advance(&mut *reader)), ["messages None C|one"]);
    home.write("session-1-s.jsonl", &[answer("2", "a")]);
    assert_eq!(advance(&mut *reader), ["request messages Some(10) C|one"]);
    assert!(advance(&mut *reader).is_empty());
}

#[test]
fn a_file_of_an_older_version_is_one_value_with_the_results_in_the_calls() {
    let mut called = answer("2", "look");
    called["toolCalls"] =
        json!([{ "id": "x", "name": "ls", "args": {}, "result": "files", "status": "success" }]);
    let whole = json!({
        "sessionId": "s", "projectHash": "h", "startTime": "2025-11-17T06:32:50.049Z", "summary": "Title",
        "messages": [user("1", "one"), called, answer("3", "b"), json!({ "id": "4", "type": "info", "content": "i" })],
    });
    let home = TestHome::new();
    let path = home.0.path().join(".gemini/tmp/shop/chats/session-1-s.json");
    fs::write(&path, serde_json::to_string_pretty(&whole).unwrap()).unwrap();
    let told = home.told("s");
    assert_eq!(told[1], "facts None Some(\"Title\")");
    assert_eq!(requests(&told), ["partial Some(10) one", "partial Some(10) one|look|ls()|files"]);
    assert_eq!(GeminiSessions.at(&path).unwrap().unwrap().id, "s");
}

#[test]
fn a_sub_agent_has_a_file_of_its_own() {
    let home = TestHome::new();
    home.write("session-1-s.jsonl", &[header("s"), start(), user("1", "one"), answer("2", "a")]);
    home.write("s/sub.jsonl", &[header("sub"), user("3", "task"), answer("4", "done")]);
    assert_eq!(home.list().len(), 1);
    let told = home.told("s");
    assert_eq!(told[4..], ["[sub] request messages Some(10) task", "[sub] text done"]);
}

#[test]
fn a_person_is_quoted_without_what_the_program_added() {
    let home = TestHome::new();
    let shown = json!({
        "id": "1", "type": "user", "content": [{ "text": "see @a" }, { "text": "\n--- Content" }],
        "displayContent": [{ "text": "see @a" }],
    });
    let files = json!({
        "id": "2", "type": "user",
        "content": [{ "text": "see @b" }, { "text": "\n--- Content from referenced files ---" }, { "text": "b" }],
    });
    let lines =
        [header("s"), start(), shown, files, user("3", "/help"), user("4", "<hook_context>x")];
    home.write("session-1-s.jsonl", &lines);
    assert_eq!(home.told("s")[1..], ["person see @a", "person see @b"]);
}

#[test]
fn edits_and_lists_of_tasks_are_told() {
    let mut called = answer("2", "");
    called["toolCalls"] = json!([
        {
            "id": "x", "name": "replace", "args": {}, "result": "ok", "status": "success",
            "resultDisplay": { "fileDiff": "d", "filePath": "/a", "originalContent": "1", "newContent": "2", "isNewFile": false },
        },
        { "id": "y", "name": "write_todos", "args": { "todos": [{ "description": "t", "status": "pending" }] }, "result": "ok", "status": "success" },
        { "id": "z", "name": "ask_user", "args": { "questions": [{ "question": "q" }] }, "result": "{\"answers\":{\"0\":\"yes\"}}", "status": "success" },
    ]);
    let home = TestHome::new();
    home.write("session-1-s.jsonl", &[header("s"), start(), user("1", "one"), called]);
    let told = home.told("s");
    let has = |what: &str| told.iter().any(|it| it.contains(what));
    assert!(has("changed [FileChange { path: \"/a\", change: \"update\""), "{told:?}");
    assert!(has("todo 1") && has("answered q yes"), "{told:?}");
}

#[test]
fn what_is_not_known_is_counted_and_hides_nothing() {
    let home = TestHome::new();
    let wrong = [
        header("s"),
        start(),
        json!({ "new": 1 }),
        json!([1]),
        json!(null),
        json!({ "id": "1", "type": "new" }),
        json!({ "$set": { "messages": 5, "sessionId": 7 } }),
        json!({ "id": "2", "type": "gemini", "content": { "a": [] }, "toolCalls": { "x": 1 }, "tokens": { "input": "x", "output": -1 }, "thoughts": 4 }),
        json!({ "id": "3", "type": "user", "content": 5, "displayContent": 7 }),
        json!({ "$set": { "messages": [null, 1, { "id": 5 }, { "id": "4", "type": "user", "content": [null, 3, "t"] }] } }),
    ];
    home.write("session-1-s.jsonl", &wrong);
    let path = home.0.path().join(".gemini/tmp/shop/chats/session-1-s.jsonl");
    let text = fs::read_to_string(&path).unwrap() + "not JSON\n{\"id\": \"5\", \"ty";
    fs::write(&path, text).unwrap();
    let mut reader = home.open("s");
    advance(&mut *reader);
    let report = reader.report();
    assert_eq!(report.unknown.values().sum::<u64>(), 7, "{report}");
    assert!(report.broken == 1 && report.is_torn, "{report}");
}

#[test]
fn a_foreign_file_is_no_session() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a.jsonl");
    fs::write(&path, "{\"type\":\"session_meta\"}\n").unwrap();
    assert_eq!(GeminiSessions.at(&path).unwrap(), None);
    fs::write(&path, format!("{}\n", header("s"))).unwrap();
    assert_eq!(GeminiSessions.at(&path).unwrap().unwrap().id, "s");
    assert!(GeminiSessions.at(Path::new("/nonexistent/file")).is_err());
}

#[test]
fn windows_have_the_normal_form() {
    let home = TestHome::new();
    let image = json!({
        "id": "1", "type": "user",
        "content": [{ "text": "see" }, { "inlineData": { "mimeType": "image/png", "data": "AAAA" } }],
    });
    home.write("session-1-s.jsonl", &[header("s"), start(), image, answer("2", "a")]);
    let mut kinds = Vec::new();
    let sink = &mut |entry: Entry<'_>| {
        if let EntryKind::Request(request) = entry.kind {
            kinds.push(serde_json::to_value(Messages(request.window)).unwrap());
        }
        ControlFlow::Continue(())
    };
    home.open("s").advance(sink).unwrap();
    assert_eq!(kinds[0][0]["parts"][2]["kind"], "image");
}
