use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use convoke_protocol::window::Part;
use convoke_source::{
    Entry, EntryKind, FoundSession, Home, Kept, SessionReader, SessionSource, SourceError,
};
use rusqlite::{Connection, params};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::OpencodeSessions;

const SCHEMA: &str = "
    CREATE TABLE session (id text PRIMARY KEY, parent_id text, directory text, title text, version text,
        time_created integer, time_updated integer);
    CREATE TABLE message (id text PRIMARY KEY, session_id text, time_created integer, data text);
    CREATE TABLE part (id text PRIMARY KEY, message_id text, session_id text, data text);";

/// A home with a database that is being written.
struct TestHome {
    directory: TempDir,
    database: Connection,
    parts: u32,
}

impl TestHome {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let data = directory.path().join(".local/share/opencode");
        fs::create_dir_all(&data).unwrap();
        let database = Connection::open(data.join("opencode.db")).unwrap();
        database.pragma_update(None, "journal_mode", "WAL").unwrap();
        database.execute_batch(SCHEMA).unwrap();
        let home = Self { directory, database, parts: 0 };
        home.session("s", None, 0);
        home
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join(".local/share/opencode/opencode.db")
    }

    fn session(&self, id: &str, parent: Option<&str>, created: i64) {
        let row = params![id, parent, "/w", "T", "1.18", created, created];
        self.database
            .execute("INSERT INTO session VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)", row)
            .unwrap();
    }

    fn message(&mut self, session: &str, id: &str, at: i64, mut data: Value, parts: &[Value]) {
        if data["role"] == "assistant" && data["providerID"].is_null() {
            data["providerID"] = json!("p");
            data["modelID"] = json!("m");
        }
        data["time"] = json!({ "created": at, "completed": at + 1 });
        let row = params![id, session, at, data.to_string()];
        self.database.execute("INSERT INTO message VALUES (?1, ?2, ?3, ?4)", row).unwrap();
        for part in parts {
            self.parts += 1;
            let row = params![format!("prt{:04}", self.parts), id, session, part.to_string()];
            self.database.execute("INSERT INTO part VALUES (?1, ?2, ?3, ?4)", row).unwrap();
        }
    }

    fn user(&mut self, session: &str, id: &str, at: i64, text: &str) {
        self.message(
            session,
            id,
            at,
            json!({ "role": "user" }),
            &[json!({ "type": "text", "text": text })],
        );
    }

    fn answer(&mut self, session: &str, id: &str, at: i64, text: &str) {
        let parts = [
            start(),
            json!({ "type": "text", "text": text, "time": { "start": at, "end": at } }),
            finish(),
        ];
        self.message(session, id, at, json!({ "role": "assistant", "finish": "stop" }), &parts);
    }

    fn list(&self) -> Vec<FoundSession> {
        let mut sessions = Vec::new();
        let home = Home { directory: self.directory.path(), variable: &|_| None };
        OpencodeSessions.list(&home, &mut |found| sessions.push(found.unwrap()));
        sessions
    }

    fn open(&self, id: &str) -> Box<dyn SessionReader> {
        let session = self.list().into_iter().find(|it| it.id == id).unwrap();
        OpencodeSessions.open(&session, Kept::All).unwrap()
    }

    fn requests(&self, id: &str) -> Vec<String> {
        let told = advance(&mut *self.open(id)).into_iter();
        told.filter_map(|it| it.split_once("request ").map(|(agent, it)| format!("{agent}{it}")))
            .collect()
    }
}

fn start() -> Value {
    json!({ "type": "step-start" })
}

fn finish() -> Value {
    let tokens =
        json!({ "input": 10, "output": 5, "reasoning": 2, "cache": { "read": 3, "write": 1 } });
    json!({ "type": "step-finish", "tokens": tokens })
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
        EntryKind::Facts(facts) => format!("facts {:?} {:?}", facts.title, facts.cwd),
        EntryKind::Person { text } => format!("person {text}"),
        EntryKind::PersonAnswered { question, answer } => format!("answered {question} {answer}"),
        EntryKind::Text { text } => format!("text {text}"),
        EntryKind::Call { name, .. } => format!("call {name}"),
        EntryKind::Result { ok, output, .. } => format!("result {ok} {output}"),
        EntryKind::Changed(changes) => format!("changed {changes:?}"),
        EntryKind::Todo(items) => format!("todo {}", items.len()),
        EntryKind::Compacted { summary, .. } => format!("compacted {summary}"),
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
            let usage = request.usage.map(|usage| (usage.input, usage.output));
            format!(
                "request {} {} {usage:?} {}",
                request.purpose.as_str(),
                request.grade.as_str(),
                parts.join("|")
            )
        }
        other => format!("{other:?}"),
    };
    agent + &told
}

#[test]
fn the_log_is_read_and_nothing_is_written_beside_the_database() {
    let mut home = TestHome::new();
    home.user("s", "m1", 1, "one");
    home.answer("s", "m2", 2, "a");
    // Files of another process, without its shared memory.
    let other = TempDir::new().unwrap();
    for suffix in ["", "-wal"] {
        let from = format!("{}{suffix}", home.path().display());
        fs::copy(from, other.path().join(format!("opencode.db{suffix}"))).unwrap();
    }
    let session = OpencodeSessions.at(&other.path().join("opencode.db")).unwrap().unwrap();
    let mut reader = OpencodeSessions.open(&session, Kept::All).unwrap();
    assert_eq!(
        advance(&mut *reader),
        [
            "facts Some(\"T\") Some(\"/w\")",
            "person one",
            "request answer messages Some((14, 7)) one",
            "text a"
        ]
    );
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 2);
}

#[test]
fn only_what_is_new_is_told_again() {
    let mut home = TestHome::new();
    home.user("s", "m1", 1, "one");
    home.message("s", "m2", 2, json!({ "role": "assistant" }), &[start()]);
    home.database
        .execute("UPDATE message SET data = replace(data, 'completed', 'x') WHERE id = 'm2'", [])
        .unwrap();
    let mut reader = home.open("s");
    assert_eq!(advance(&mut *reader).last().unwrap(), "request answer messages None one");
    assert!(advance(&mut *reader).is_empty());
    home.database
        .execute(
            "UPDATE message SET data = replace(data, '\"x\"', '\"completed\"') WHERE id = 'm2'",
            [],
        )
        .unwrap();
    let row = params!["prt9", "m2", "s", finish().to_string()];
    home.database.execute("INSERT INTO part VALUES (?1, ?2, ?3, ?4)", row).unwrap();
    home.user("s", "m3", 3, "two");
    assert_eq!(advance(&mut *reader), ["request answer messages Some((14, 7)) one", "person two"]);
}

#[test]
fn after_a_compaction_the_summary_stands_before_what_was_kept() {
    let mut home = TestHome::new();
    home.user("s", "m1", 1, "one");
    home.answer("s", "m2", 2, "a");
    home.answer("s", "m3", 3, "kept");
    let compaction = json!({ "type": "compaction", "auto": true, "tail_start_id": "m3" });
    home.message("s", "m4", 4, json!({ "role": "user" }), &[compaction]);
    let summary =
        json!({ "role": "assistant", "summary": true, "finish": "stop", "parentID": "m4" });
    let parts = [start(), json!({ "type": "text", "text": "sum" }), finish()];
    home.message("s", "m5", 5, summary, &parts);
    home.user("s", "m6", 6, "two");
    home.answer("s", "m7", 7, "b");
    let requests = home.requests("s");
    assert!(requests[2].starts_with("compaction partial Some((14, 7)) "), "{requests:?}");
    assert_eq!(requests[3], "answer messages Some((14, 7)) What did we do so far?|sum|kept|two");
    assert!(advance(&mut *home.open("s")).contains(&"compacted sum".to_owned()));
}

#[test]
fn answers_that_failed_are_left_out_of_later_windows() {
    let mut home = TestHome::new();
    home.user("s", "m1", 1, "one");
    let error = |name: &str| json!({ "role": "assistant", "error": { "name": name, "data": { "message": "no", "statusCode": 401 } } });
    let text = json!({ "type": "text", "text": "half" });
    home.message("s", "m2", 2, error("APIError"), &[]);
    home.message("s", "m3", 3, error("APIError"), &[start(), text.clone()]);
    home.message("s", "m4", 4, error("MessageAbortedError"), &[start(), text]);
    home.message("s", "m5", 5, error("MessageAbortedError"), &[start()]);
    home.answer("s", "m6", 6, "a");
    let requests = home.requests("s");
    assert_eq!(requests.len(), 5);
    assert_eq!(requests[0], "answer messages None one");
    assert_eq!(requests[4], "answer messages Some((14, 7)) one|half");
    assert!(advance(&mut *home.open("s")).contains(&"failed Some(401) no".to_owned()));
}

#[test]
fn a_step_that_was_tried_again_and_a_command_of_the_person_are_no_requests() {
    let mut home = TestHome::new();
    home.user("s", "m1", 1, "one");
    let text = |text: &str| json!({ "type": "text", "text": text });
    home.message(
        "s",
        "m2",
        2,
        json!({ "role": "assistant" }),
        &[start(), text(""), start(), text("a"), finish()],
    );
    let tool = json!({ "type": "tool", "tool": "bash", "callID": "c", "state": { "status": "completed", "input": {}, "output": "out" } });
    home.message(
        "s",
        "m3",
        3,
        json!({ "role": "assistant", "tokens": { "input": 0 } }),
        std::slice::from_ref(&tool),
    );
    // Older versions stored all steps of a turn in one message.
    home.message(
        "s",
        "m4",
        4,
        json!({ "role": "assistant" }),
        &[start(), tool, finish(), start(), text("b"), finish()],
    );
    assert_eq!(
        home.requests("s"),
        [
            "answer messages Some((14, 7)) one",
            "answer messages Some((14, 7)) one|a|bash()|out",
            "answer messages Some((14, 7)) one|a|bash()|out|bash()|out",
        ]
    );
}

#[test]
fn a_result_is_cleared_from_the_time_at_which_it_was() {
    let mut home = TestHome::new();
    let state =
        json!({ "status": "completed", "input": {}, "output": "long", "time": { "compacted": 3 } });
    let tool = json!({ "type": "tool", "tool": "read", "callID": "c", "state": state });
    home.message("s", "m1", 1, json!({ "role": "assistant" }), &[start(), tool, finish()]);
    home.answer("s", "m2", 2, "a");
    home.answer("s", "m4", 4, "b");
    let requests = home.requests("s");
    assert!(requests[1].ends_with(" read()|long"), "{requests:?}");
    assert!(requests[2].ends_with(" read()|[Old tool result content cleared]|a"), "{requests:?}");
}

#[test]
fn images_of_results_and_reasoning_depend_on_the_model() {
    let mut home = TestHome::new();
    let image = json!({ "mime": "image/png", "url": "data:image/png;base64,AAAA" });
    let state =
        json!({ "status": "completed", "input": {}, "output": "seen", "attachments": [image] });
    let parts = [
        start(),
        json!({ "type": "reasoning", "text": "hm" }),
        json!({ "type": "tool", "tool": "read", "state": state }),
        finish(),
    ];
    home.message("s", "m1", 1, json!({ "role": "assistant" }), &parts);
    home.answer("s", "m2", 2, "a");
    let other = json!({ "role": "assistant", "providerID": "anthropic", "modelID": "m" });
    home.message("s", "m3", 3, other, &[start(), finish()]);
    let requests = home.requests("s");
    assert!(
        requests[1].ends_with(" thinking|read()|seen|Attached media from tool result:|image"),
        "{requests:?}"
    );
    assert!(requests[2].ends_with(" hm|read()|seen|image|a"), "{requests:?}");
}

#[test]
fn reasoning_of_another_model_is_joined_to_the_text_of_a_chat_completion() {
    let mut home = TestHome::new();
    let parts = [
        start(),
        json!({ "type": "reasoning", "text": "hm" }),
        json!({ "type": "text", "text": "one" }),
        finish(),
    ];
    home.message("s", "m1", 1, json!({ "role": "assistant" }), &parts);
    let other =
        |provider: &str| json!({ "role": "assistant", "providerID": provider, "modelID": "m" });
    home.message("s", "m2", 2, other("local"), &[start(), finish()]);
    home.message("s", "m3", 3, other("anthropic"), &[start(), finish()]);
    let requests = home.requests("s");
    assert!(requests[1].ends_with(" hmone"), "{requests:?}");
    assert!(requests[2].ends_with(" hm|one"), "{requests:?}");
}

#[test]
fn a_fork_has_copies_of_messages_that_are_not_its_requests() {
    let mut home = TestHome::new();
    home.session("f", None, 5);
    home.user("f", "m1", 1, "one");
    home.answer("f", "m2", 2, "a");
    home.user("f", "m6", 6, "two");
    home.answer("f", "m7", 7, "b");
    assert_eq!(home.requests("f"), ["answer messages Some((14, 7)) one|a|two"]);
}

#[test]
fn sub_agents_belong_to_the_session_that_started_them() {
    let mut home = TestHome::new();
    home.session("sub", Some("s"), 1);
    home.session("subsub", Some("sub"), 1);
    home.session("orphan", Some("gone"), 1);
    home.session("x", Some("y"), 1);
    home.session("y", Some("x"), 1);
    home.user("sub", "m1", 1, "task");
    home.answer("sub", "m2", 2, "done");
    let mut ids: Vec<String> = home.list().into_iter().map(|session| session.id).collect();
    ids.sort();
    assert_eq!(ids, ["orphan", "s", "x", "y"]);
    let told = advance(&mut *home.open("s"));
    assert_eq!(told[1..], ["[sub] request answer messages Some((14, 7)) task", "[sub] text done"]);
}

#[test]
fn a_window_in_plan_mode_is_partial() {
    let mut home = TestHome::new();
    home.user("s", "m1", 1, "one");
    let of = |agent: &str| json!({ "role": "assistant", "agent": agent, "finish": "stop" });
    home.message("s", "m2", 2, of("build"), &[start(), finish()]);
    home.message("s", "m3", 3, of("plan"), &[start(), finish()]);
    home.message("s", "m4", 4, of("build"), &[start(), finish()]);
    let requests = home.requests("s");
    let grades: Vec<&str> = requests.iter().filter_map(|it| it.split(' ').nth(1)).collect();
    assert_eq!(grades, ["messages", "partial", "partial"]);
}

#[test]
fn edits_questions_and_tasks_are_told() {
    let mut home = TestHome::new();
    let tool = |tool: &str, input: Value, metadata: Value| json!({ "type": "tool", "tool": tool, "callID": "c", "state": { "status": "completed", "input": input, "output": "", "metadata": metadata } });
    let parts = [
        tool("edit", json!({ "filePath": "/a", "oldString": "1", "newString": "2" }), json!({})),
        tool("write", json!({ "filePath": "/b", "content": "3" }), json!({ "exists": false })),
        tool("todowrite", json!({ "todos": [{ "content": "t", "status": "pending" }] }), json!({})),
        tool(
            "question",
            json!({ "questions": [{ "question": "q" }] }),
            json!({ "answers": [["yes", "no"]] }),
        ),
    ];
    home.message("s", "m1", 1, json!({ "role": "assistant" }), &parts);
    let told = advance(&mut *home.open("s"));
    let has = |what: &str| told.iter().any(|it| it.contains(what));
    assert!(
        has("before: Some(\"1\"), after: \"2\"") && has("before: None, after: \"3\""),
        "{told:?}"
    );
    assert!(has("todo 1") && has("answered q yes, no"), "{told:?}");
}

#[test]
fn files_of_an_older_version_are_read() {
    let home = TempDir::new().unwrap();
    let storage = home.path().join(".local/share/opencode/storage");
    let write = |path: &str, value: Value| {
        fs::create_dir_all(storage.join(path).parent().unwrap()).unwrap();
        fs::write(storage.join(path), value.to_string()).unwrap();
    };
    let time = |at: u64| json!({ "created": at, "updated": at, "completed": at });
    write(
        "session/p/s.json",
        json!({ "id": "s", "directory": "/w", "title": "T", "time": time(1) }),
    );
    write("session/p/sub.json", json!({ "id": "sub", "parentID": "s", "time": time(1) }));
    write("message/s/m1.json", json!({ "role": "user", "time": time(1) }));
    write("part/m1/p1.json", json!({ "type": "text", "text": "one" }));
    write("message/s/m2.json", json!({ "role": "assistant", "time": time(2) }));
    write("part/m2/p1.json", start());
    write("part/m2/p2.json", json!({ "type": "text", "text": "a" }));
    write("part/m2/p3.json", finish());
    let mut sessions = Vec::new();
    let place = Home { directory: home.path(), variable: &|_| None };
    OpencodeSessions.list(&place, &mut |found| sessions.push(found.unwrap()));
    assert_eq!(sessions.len(), 1);
    let mut reader = OpencodeSessions.open(&sessions[0], Kept::All).unwrap();
    assert_eq!(
        advance(&mut *reader)[1..],
        ["person one", "request answer messages Some((14, 7)) one", "text a"]
    );
    assert!(advance(&mut *reader).is_empty());
    let at = OpencodeSessions.at(&storage.join("session/p/s.json")).unwrap();
    assert_eq!(at.unwrap().id, "s");
}

#[test]
fn a_variable_names_the_database() {
    let home = TestHome::new();
    let path = home.path();
    let moved = |name: &str| match name {
        "XDG_DATA_HOME" => Some("/nonexistent".into()),
        "OPENCODE_DB" => Some(path.clone().into_os_string()),
        _ => None,
    };
    let mut sessions = Vec::new();
    let place = Home { directory: Path::new("/nonexistent"), variable: &moved };
    OpencodeSessions.list(&place, &mut |found| sessions.push(found.unwrap()));
    assert_eq!(sessions.len(), 1);
}

#[test]
fn databases_that_are_damaged_or_newer_are_named() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("opencode.db");
    let problem = |path: &Path| match OpencodeSessions.at(path) {
        Err(SourceError::Format { problem, .. }) => problem,
        other => panic!("{other:?}"),
    };
    Connection::open(&path)
        .unwrap()
        .execute_batch(
            "CREATE VIEW session AS SELECT 1; CREATE TABLE message (a); CREATE TABLE part (a);",
        )
        .unwrap();
    assert!(problem(&path).contains("newer version"), "{}", problem(&path));
    fs::write(&path, [b"SQLite format 3\0".as_slice(), &[255; 4096]].concat()).unwrap();
    assert!(
        problem(&path).contains("not a database") || problem(&path).contains("damaged"),
        "{}",
        problem(&path)
    );
    // Another program's database is not an error.
    let other = directory.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE a (b);").unwrap();
    assert_eq!(OpencodeSessions.at(&other).unwrap(), None);
}

#[test]
fn rows_of_wrong_types_hide_nothing() {
    let mut home = TestHome::new();
    home.message(
        "s",
        "m1",
        1,
        json!({ "role": 5 }),
        &[json!(null), json!([1]), json!({ "type": "new" })],
    );
    home.message(
        "s",
        "m2",
        2,
        json!({ "role": "assistant", "error": 5, "tokens": [] }),
        &[json!({ "type": "tool", "state": 5 })],
    );
    for (id, data) in [("m3", "not JSON"), ("m4", "5")] {
        home.database
            .execute("INSERT INTO message VALUES (?1, 's', 'x', ?2)", params![id, data])
            .unwrap();
    }
    home.user("s", "m5", 5, "one");
    let mut reader = home.open("s");
    assert!(advance(&mut *reader).contains(&"person one".to_owned()));
    assert_eq!(reader.report().broken, 1, "{}", reader.report());
    assert_eq!(reader.report().unknown.values().sum::<u64>(), 3, "{}", reader.report());
}
