//! Tests of the reader, with records written by hand.

#![expect(clippy::needless_pass_by_value, reason = "records are written in place")]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use convoke_protocol::window::Part;
use convoke_source::{Entry, EntryKind, Home, Kept, Report, SessionReader, SessionSource as _};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{ClaudeSessions, canonical};

const SESSION: &str = "00000000-0000-4000-8000-0000000000aa";

/// A session that is written by hand.
struct Written {
    directory: TempDir,
}

impl Written {
    fn new(records: &[Value]) -> Self {
        let written = Self { directory: tempfile::tempdir().unwrap() };
        written.add(&format!("{SESSION}.jsonl"), records);
        written
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn add(&self, name: &str, records: &[Value]) {
        for record in records {
            self.add_text(name, &format!("{record}\n"));
        }
    }

    fn add_text(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn open(&self, kept: Kept) -> Box<dyn SessionReader> {
        let found = ClaudeSessions.at(&self.path(&format!("{SESSION}.jsonl"))).unwrap().unwrap();
        ClaudeSessions.open(&found, kept).unwrap()
    }

    fn read(&self, kept: Kept) -> (Vec<String>, Report) {
        let mut reader = self.open(kept);
        let told = told(&mut *reader);
        (told, reader.report().clone())
    }

    fn requests(&self, kept: Kept) -> Vec<String> {
        let (told, _) = self.read(kept);
        told.into_iter().filter(|it| it.starts_with("request")).collect()
    }
}

/// Returns what a reader tells next, a line for each entry.
fn told(reader: &mut dyn SessionReader) -> Vec<String> {
    let mut told = Vec::new();
    let mut take = |entry: Entry<'_>| {
        told.push(line(&entry));
        ControlFlow::Continue(())
    };
    reader.advance(&mut take).unwrap();
    told
}

fn line(entry: &Entry<'_>) -> String {
    let mut line = match &entry.kind {
        EntryKind::Request(request) => {
            let parts = request.window.parts.iter().map(|it| match &it.part.what {
                Part::Text(text) | Part::Result(text) => text.text.as_deref().unwrap_or("…"),
                Part::Call { name, .. } => name,
                Part::Thinking(_) => "(thinking)",
                Part::Image(_) => "(image)",
            });
            let parts = parts.collect::<Vec<_>>().join("|");
            let usage = request.usage.map(|it| format!(" {}+{}", it.input, it.output));
            let status = request.status.map(|it| format!(" {it}"));
            let open = if request.is_settled { "" } else { " open" };
            let (purpose, grade) = (request.purpose.as_str(), request.grade.as_str());
            format!(
                "request {purpose} {grade} [{parts}]{}{}{open}",
                usage.unwrap_or_default(),
                status.unwrap_or_default()
            )
        }
        other => format!("{other:?}"),
    };
    if let Some(agent) = entry.agent {
        write!(line, " of {agent}").unwrap();
    }
    line
}

fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

fn hash(message: &Value) -> String {
    canonical::message_hashes(&raw(message)).unwrap()[0].to_string()
}

fn user(uuid: &str, parent: Option<&str>, content: Value) -> Value {
    json!({
        "type": "user", "uuid": uuid, "parentUuid": parent, "sessionId": SESSION, "cwd": "/w",
        "timestamp": "2026-01-01T00:00:00.000Z", "message": { "role": "user", "content": content },
    })
}

fn answer(uuid: &str, parent: &str, id: &str, block: Value, output: u64) -> Value {
    json!({
        "type": "assistant", "uuid": uuid, "parentUuid": parent, "sessionId": SESSION,
        "timestamp": "2026-01-01T00:00:02.000Z",
        "message": {
            "id": id, "role": "assistant", "model": "m", "content": [block], "stop_reason": "end_turn",
            "usage": { "input_tokens": 3, "output_tokens": output, "cache_read_input_tokens": 4 },
        },
    })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn blob(message: &Value) -> Value {
    json!({ "type": "api-request-blob", "sessionId": SESSION, "hash": hash(message), "message": message })
}

fn shape() -> Value {
    let shape = json!({ "system": [text("be brief")], "tools": [{ "name": "Read" }] });
    let hash = canonical::hash(&raw(&shape)).unwrap().to_string();
    json!({ "type": "api-request-shape", "sessionId": SESSION, "shapeHash": hash, "shape": shape })
}

fn request(id: &str, base: Option<(&str, u64)>, tail: &[String]) -> Value {
    json!({
        "type": "api-request", "sessionId": SESSION, "id": id, "querySource": "sdk",
        "timestamp": "2026-01-01T00:00:01.000Z", "shapeHash": shape()["shapeHash"],
        "params": { "model": "m" }, "base": base.map(|it| it.0), "keep": base.map_or(0, |it| it.1),
        "tail": tail,
    })
}

fn with(mut record: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else { return record };
    for (name, value) in fields {
        record[name] = value;
    }
    record
}

fn said(role: &str, blocks: &[Value]) -> Value {
    json!({ "role": role, "content": blocks })
}

#[test]
fn a_window_is_exact_if_its_hashes_agree() {
    let first = said("user", &[text("reminder"), text("hello")]);
    let second = said("assistant", &[text("one"), text("two")]);
    let third = json!({ "role": "user", "content": "more" });
    let log = [
        user("u1", None, json!("hello")),
        shape(),
        blob(&first),
        request("r1", None, &[hash(&first)]),
        with(answer("a1", "u1", "m1", text("one"), 1), json!({ "requestRef": "r1" })),
        with(answer("a2", "a1", "m1", text("two"), 5), json!({ "requestRef": "r1" })),
        user("u2", Some("a2"), json!("more")),
        request("r2", Some(("r1", 1)), &[hash(&second), hash(&third)]),
        with(answer("a3", "u2", "m2", text("three"), 6), json!({ "requestRef": "r2" })),
    ];
    let exact = [
        "request answer exact [reminder|hello] 7+5 200",
        "request answer exact [reminder|hello|one|two|more] 7+6 200",
    ];
    assert_eq!(Written::new(&log).requests(Kept::Shown), exact);

    let mut forged = log.clone();
    forged[2]["message"]["content"][1]["text"] = "other".into();
    let requests = Written::new(&forged).requests(Kept::Shown);
    assert_eq!(requests[0], "request answer partial [reminder|other] 7+5 200");

    let mut lost = log.to_vec();
    lost.remove(2);
    let requests = Written::new(&lost).requests(Kept::Shown);
    assert_eq!(requests[1], "request answer partial [one|two|more] 7+6 200");

    let mut shapeless = log.to_vec();
    shapeless.remove(1);
    let requests = Written::new(&shapeless).requests(Kept::Shown);
    assert_eq!(requests[0], "request answer messages [reminder|hello] 7+5 200");

    let mut cut = log;
    cut[3]["cut"] = json!({ "kind": "x" });
    let requests = Written::new(&cut).requests(Kept::Shown);
    assert_eq!(requests[0], "request answer partial [reminder|hello] 7+5 200");
    assert_eq!(requests[1], exact[1]);
}

#[test]
fn each_attempt_is_a_request() {
    let first = said("user", &[text("hello")]);
    let log = [
        user("u1", None, json!("hello")),
        shape(),
        request("r1", None, &[hash(&first)]),
        json!({ "type": "system", "subtype": "api_error", "uuid": "e1", "parentUuid": "u1",
            "error": { "status": 529, "formatted": "529 Overloaded" } }),
        request("r2", Some(("r1", 1)), &[]),
        with(answer("a1", "e1", "m1", text("hi"), 5), json!({ "requestRef": "r2" })),
        request("r3", Some(("r2", 1)), &[]),
        json!({ "type": "assistant", "uuid": "a2", "isApiErrorMessage": true, "apiErrorStatus": 400,
            "message": { "role": "assistant", "model": "<synthetic>", "content": [text("API Error: 400")] } }),
    ];
    let expected = [
        "request answer exact [hello] 529",
        "request answer exact [hello] 7+5 200",
        "request answer exact [hello] 400",
    ];
    assert_eq!(Written::new(&log).requests(Kept::Shown), expected);
}

#[test]
fn copied_answers_are_no_requests_of_a_fork() {
    let first = said("user", &[text("hello")]);
    let log = [
        user("u1", None, json!("hello")),
        with(
            answer("a1", "u1", "m1", text("hi"), 5),
            json!({ "requestRef": "of another session" }),
        ),
        shape(),
        request("r1", None, &[hash(&first), hash(&said("assistant", &[text("hi")]))]),
        with(answer("a2", "a1", "m2", text("ho"), 6), json!({ "requestRef": "r1" })),
    ];
    let own = ["request answer exact [hello|hi] 7+6 200"];
    assert_eq!(Written::new(&log).requests(Kept::Shown), own);

    // Without a log, the first prompt of the process is later than what it copied.
    let prompt = json!({ "type": "queue-operation", "operation": "enqueue", "sessionId": SESSION,
        "timestamp": "2026-01-01T00:00:09.000Z" });
    let later = json!({ "timestamp": "2026-01-01T00:00:10.000Z" });
    let old = [
        prompt,
        user("u1", None, json!("hello")),
        answer("a1", "u1", "m1", text("hi"), 5),
        with(answer("a2", "a1", "m2", text("ho"), 6), later),
    ];
    assert_eq!(
        Written::new(&old).requests(Kept::Shown),
        ["request answer partial [hello|hi] 7+6 200"]
    );
}

#[test]
fn a_forked_sub_agent_goes_on_with_the_conversation_of_the_session() {
    let side = json!({ "isSidechain": true, "agentId": "x1", "requestRef": "not logged" });
    let written =
        Written::new(&[user("u1", None, json!("hello")), answer("a1", "u1", "m1", text("hi"), 5)]);
    written.add(
        &format!("{SESSION}/subagents/agent-x1.jsonl"),
        &[
            json!({ "type": "fork-context-ref", "agentId": "x1", "parentLastUuid": "u1" }),
            with(
                with(answer("s1", "", "m1", text("hi"), 5), side.clone()),
                json!({ "parentUuid": null }),
            ),
            with(user("s2", Some("s1"), json!("look")), side.clone()),
            with(answer("s3", "s2", "m2", text("seen"), 6), side),
        ],
    );
    let expected = [
        "request answer partial [hello] 7+5 200",
        "request answer partial [hello|hi|look] 7+6 200 of x1",
    ];
    assert_eq!(written.requests(Kept::Shown), expected);
}

#[test]
fn without_a_log_an_answer_is_a_request_and_its_last_usage_counts() {
    let calls = |id: &str| json!({ "type": "tool_use", "id": id, "name": id, "input": {} });
    let result = |id: &str| json!([{ "type": "tool_result", "tool_use_id": id, "content": format!("of {id}") }]);
    let old = [
        user("u1", None, json!("hello")),
        answer("a1", "u1", "m1", calls("A"), 1),
        answer("a2", "a1", "m1", calls("B"), 5),
        user("u2", Some("a1"), result("A")),
        user("u3", Some("a2"), result("B")),
        answer("a3", "u3", "m2", text("done"), 6),
        // A repeated record counts once, and so does a repeated answer.
        answer("a3", "u3", "m2", text("done"), 6),
        answer("a4", "u3", "m1", text("done"), 7),
    ];
    let written = Written::new(&old);
    let expected = [
        "request answer partial [hello] 7+7 200",
        "request answer partial [hello|A|B|of A|of B] 7+6 200",
    ];
    let mut requests = written.requests(Kept::Shown);
    requests.sort();
    assert_eq!(requests.last().unwrap(), expected[1]);
    assert!(requests.contains(&expected[0].to_owned()), "{requests:?}");
    let (_, report) = written.read(Kept::Shown);
    assert_eq!(report.repeated, 1);
    let figures = written.requests(Kept::Figures);
    assert!(figures.iter().all(|it| it.contains("partial []")), "{figures:?}");
}

#[test]
fn tokens_of_a_hidden_compaction_are_the_unexplained_growth_of_the_totals() {
    let totals = |input: u64, output: u64| {
        json!({ "type": "cost-state", "sessionId": SESSION,
            "modelUsage": { "m": { "inputTokens": input, "outputTokens": output, "cacheReadInputTokens": 4 } } })
    };
    let boundary = json!({ "type": "system", "subtype": "compact_boundary", "uuid": "b1", "parentUuid": null,
        "timestamp": "2026-01-01T00:00:05.000Z", "compactMetadata": { "durationMs": 1000 } });
    let summary =
        with(user("s1", Some("b1"), json!("So far: hello.")), json!({ "isCompactSummary": true }));
    let log = |boundaries: usize| {
        let mut log = vec![
            user("u1", None, json!("hello")),
            answer("a1", "u1", "m1", text("hi"), 5),
            totals(3, 5),
        ];
        log.extend(
            (0..boundaries)
                .map(|n| with(boundary.clone(), json!({ "uuid": format!("b{}", n + 1) }))),
        );
        log.extend([summary.clone(), totals(20, 25)]);
        log
    };
    let (told, _) = Written::new(&log(1)).read(Kept::Shown);
    assert!(told.contains(&"request compaction partial [] 17+20 200".to_owned()), "{told:#?}");
    assert!(
        told.iter().any(|it| it.contains("Compacted { summary: \"So far: hello.\", dropped: 3 }")),
        "{told:#?}"
    );

    let requests = Written::new(&log(2)).requests(Kept::Shown);
    assert_eq!(requests.iter().filter(|it| *it == "request compaction partial [] 200").count(), 2);

    // A sub-agent that ran meanwhile is in the totals too.
    let written = Written::new(&log(1));
    written.add(
        &format!("{SESSION}/subagents/agent-x1.jsonl"),
        &[with(
            answer("a9", "u9", "m9", text("sub"), 1),
            json!({ "agentId": "x1", "isSidechain": true }),
        )],
    );
    let requests = written.requests(Kept::Shown);
    assert!(requests.contains(&"request compaction partial [] 200".to_owned()), "{requests:#?}");
    assert!(
        requests.contains(&"request answer partial [] 7+1 200 of x1".to_owned()),
        "{requests:#?}"
    );
}

#[test]
fn a_file_that_grows_is_read_on_and_a_torn_line_waits() {
    let name = format!("{SESSION}.jsonl");
    let written = Written::new(&[user("u1", None, json!("hello"))]);
    let open = json!({ "message": { "id": "m1", "role": "assistant", "model": "m", "content": [text("hi")],
        "stop_reason": null, "usage": { "input_tokens": 7, "output_tokens": 1 } } });
    let first = with(answer("a1", "u1", "m1", text("hi"), 1), open).to_string();
    let (half, rest) = first.split_at(40);
    written.add_text(&name, half);
    let mut reader = written.open(Kept::Shown);
    assert_eq!(told(&mut *reader).last().unwrap(), "Person { text: \"hello\" }");
    assert!(reader.report().is_torn);
    written.add_text(&name, &format!("{rest}\n"));
    let open = told(&mut *reader);
    assert_eq!(open.last().unwrap(), "request answer partial [hello] 7+1 200 open");
    assert!(!reader.report().is_torn);
    written.add(&name, &[answer("a2", "a1", "m1", text("ho"), 9)]);
    assert_eq!(told(&mut *reader).last().unwrap(), "request answer partial [hello] 7+9 200");
    assert_eq!(told(&mut *reader), [""; 0]);
}

#[test]
fn what_is_not_known_is_counted_and_hides_nothing() {
    let name = format!("{SESSION}.jsonl");
    let written = Written::new(&[user("u1", None, json!("hello"))]);
    written.add_text(&name, "not json\n{\"type\":5}\n{\"type\":\"novel\"}\n[]\n\n");
    let wrong = [
        "user",
        "assistant",
        "system",
        "attachment",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "cost-state",
        "queue-operation",
        "summary",
    ];
    for kind in wrong {
        for value in [json!(7), json!([[]]), json!({ "content": 5, "usage": [] }), json!("\u{0}")] {
            let mut record = json!({ "type": kind, "sessionId": SESSION });
            for field in [
                "message",
                "uuid",
                "parentUuid",
                "timestamp",
                "tail",
                "base",
                "keep",
                "shape",
                "hash",
                "modelUsage",
                "attachment",
                "toolUseResult",
                "error",
                "subtype",
                "params",
                "id",
            ] {
                record[field] = value.clone();
            }
            written.add(&name, &[record]);
        }
    }
    // Half a character, which JavaScript can write.
    written.add_text(&name, "{\"type\":\"user\",\"uuid\":\"u9\",\"message\":{\"role\":\"user\",\"content\":\"a\\ud83d b\"}}\n");
    let (told, report) = written.read(Kept::Shown);
    assert!(told.contains(&"Person { text: \"hello\" }".to_owned()));
    assert!(told.contains(&"Person { text: \"a\u{fffd} b\" }".to_owned()), "{told:#?}");
    assert_eq!(report.unknown.get("novel"), Some(&1));
    assert!(report.broken >= 2, "{report}");
    written.read(Kept::Figures);
}

#[test]
fn a_ring_of_parents_and_repeated_ids_end() {
    let written = Written::new(&[
        user("u1", Some("a1"), json!("hello")),
        answer("a1", "u1", "m1", text("hi"), 5),
        answer("a2", "a2", "m2", text("ho"), 5),
    ]);
    let requests = written.requests(Kept::All);
    assert_eq!(requests.len(), 2);
}

#[test]
fn old_versions_have_sub_agents_in_the_file_of_the_session() {
    let side = json!({ "isSidechain": true });
    let written = Written::new(&[
        user("u1", None, json!("hello")),
        with(user("s1", None, json!("look")), side.clone()),
        with(answer("s2", "s1", "m1", text("seen"), 5), side),
        answer("a1", "u1", "m2", text("hi"), 6),
    ]);
    let requests = written.requests(Kept::Shown);
    assert_eq!(requests[0], "request answer partial [look] 7+5 200 of s1");
    assert_eq!(requests[1], "request answer partial [hello] 7+6 200");
}

#[test]
fn sessions_are_listed_with_their_files_and_found_by_any_of_them() {
    let home = tempfile::tempdir().unwrap();
    let project = home.path().join(".claude/projects/-w");
    fs::create_dir_all(project.join(SESSION).join("subagents")).unwrap();
    let main = project.join(format!("{SESSION}.jsonl"));
    let agent = project.join(SESSION).join("subagents/agent-x1.jsonl");
    let flat = project.join("agent-x2.jsonl");
    let line = |record: Value| format!("{record}\n");
    fs::write(&main, line(user("u1", None, json!("hello")))).unwrap();
    let of_agent = with(user("s1", None, json!("look")), json!({ "agentId": "x1" }));
    fs::write(&agent, line(of_agent.clone())).unwrap();
    fs::write(&flat, line(of_agent)).unwrap();
    fs::write(project.join("notes.jsonl"), "{\"a\":1}\n").unwrap();

    let list = |directory: &Path| {
        let mut found = Vec::new();
        let home = Home { directory, variable: &|_| None };
        ClaudeSessions.list(&home, &mut |session| found.push(session.unwrap()));
        found
    };
    let found = list(home.path());
    let session = found.iter().find(|it| it.id == SESSION).unwrap();
    assert_eq!(session.cwd.as_deref(), Some("/w"));
    assert_eq!(session.files, [main.clone(), flat.clone(), agent.clone()]);
    assert_eq!(list(Path::new("/nonexistent")), []);
    for path in [main.clone(), agent, flat, project.join(SESSION)] {
        assert_eq!(ClaudeSessions.at(&path).unwrap().unwrap().path, main, "{}", path.display());
    }
    assert_eq!(ClaudeSessions.at(&project.join("notes.jsonl")).unwrap(), None);
    let elsewhere = home.path().join("sent-by-mail.txt");
    fs::copy(&main, &elsewhere).unwrap();
    assert_eq!(ClaudeSessions.at(&elsewhere).unwrap().unwrap().id, SESSION);
}
