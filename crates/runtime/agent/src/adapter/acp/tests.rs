//! File access and questions, with a simulated agent.

use std::os::unix::fs::symlink;
use std::path::Path;

use convoke_conformance_acp as acp;
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind};
use convoke_protocol::image::Image;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{ClientSettings, Permit, Session, SessionSettings};
use crate::process::guardian::Guardian;
use crate::process::{Decision, Dialogue as _, HostAccess, Launch};
use crate::sandbox::Reach;
use crate::stream::acp::Acp;
use crate::turn_input::Permissions;
use crate::working_directory::WorkingDirectory;

/// A session whose prompt is running, in a directory of its own.
struct SimulatedAgent {
    dir: TempDir,
    session: Session,
    events: Vec<AgentEvent<'static>>,
}

const ALL: ClientSettings =
    ClientSettings { files: true, terminal: true, output_bytes: 1 << 20, missing_is_empty: false };

impl SimulatedAgent {
    fn new(permissions: Permissions, client: ClientSettings) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().join("work");
        std::fs::create_dir_all(cwd.join(".ssh")).unwrap();
        std::fs::write(cwd.join(".ssh/id"), "key").unwrap();
        std::fs::write(cwd.join("a.txt"), "one\ntwo\n").unwrap();
        std::fs::write(dir.path().join("outside"), "o").unwrap();
        let permit =
            (permissions != Permissions::Ask).then_some(Permit { permissions, is_confined: true });
        let settings = SessionSettings {
            prompt: vec!["hi".to_owned()],
            cwd: cwd.clone(),
            permit,
            client,
            ..SessionSettings::default()
        };
        let mut session = Session::new(Acp::new(1 << 20), settings);
        let launch = Launch {
            program: "/bin/false".into(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: WorkingDirectory::open(&cwd).unwrap(),
            private_dir: dir.path().join("private"),
            private_home: None,
            policy: None,
            stopped_by: None,
        };
        let real = cwd.canonicalize().unwrap();
        let (hidden, shown) = (vec![real.join(".ssh")], vec![real.clone()]);
        let kept = vec![real.join("settings")];
        let reach = Reach { hidden, shown, kept, ..Reach::default() };
        let guardian = Guardian::from_program("/bin/false");
        session.equip(HostAccess { launch: &launch, guardian: &guardian, reach: &reach }).unwrap();
        let mut played = Self { dir, session, events: Vec::new() };
        let hello = serde_json::from_slice(&played.session.open().bytes).unwrap();
        acp::check(&hello, None);
        played.send(&json!({"id": 1, "result": {"protocolVersion": 1}}));
        played.send(&json!({"id": 2, "result": {"sessionId": "s"}}));
        played
    }

    fn cwd(&self) -> std::path::PathBuf {
        self.dir.path().join("work")
    }

    fn send(&mut self, message: &Value) -> Value {
        let events = &mut self.events;
        let input = self.session.line(message.to_string().as_bytes(), &mut |event| {
            events.push(event.into_owned());
        });
        written(&input.bytes, message["method"].as_str())
    }

    /// Sends a request and returns its response, `null` if it waits.
    fn request(&mut self, method: &str, mut params: Value) -> Value {
        params["sessionId"] = "s".into();
        self.send(&json!({"id": 9, "method": method, "params": params}))
    }

    fn read(&mut self, path: impl AsRef<Path>) -> Value {
        self.request("fs/read_text_file", json!({"path": path.as_ref()}))
    }

    fn write(&mut self, path: impl AsRef<Path>, content: &str) -> Value {
        self.request("fs/write_text_file", json!({"path": path.as_ref(), "content": content}))
    }

    fn answer(&mut self, decision: Decision) -> Value {
        let events = &mut self.events;
        let input = self.session.answer("9", decision, &mut |event| {
            events.push(event.into_owned());
        });
        let is_choice = input.bytes.windows(9).any(|it| it == b"\"outcome\"");
        let asked = if is_choice { "session/request_permission" } else { "fs/write_text_file" };
        written(&input.bytes, Some(asked))
    }

    fn kinds(&self) -> Vec<String> {
        let kinds = self.events.iter().map(|event| serde_json::to_value(event).unwrap());
        kinds.map(|event| event["event"]["kind"].as_str().unwrap().to_owned()).collect()
    }
}

/// Returns the message that was written, checked by the official types; `null` if none was.
fn written(bytes: &[u8], asked: Option<&str>) -> Value {
    let Ok(message) = serde_json::from_slice(bytes) else { return Value::Null };
    acp::check(&message, asked);
    message
}

#[test]
fn images_are_blocks_before_the_prompt_where_the_agent_takes_them() {
    for (takes, expected) in [(true, vec!["image", "text"]), (false, vec!["text"])] {
        let settings = SessionSettings {
            prompt: vec!["What is a.png?".to_owned()],
            images: vec![Image::new("a.png", "iVBORw0KGgo=").unwrap()],
            cwd: "/".into(),
            ..SessionSettings::default()
        };
        let mut session = Session::new(Acp::new(1 << 20), settings);
        session.open();
        let mut warned = Vec::new();
        let mut send = |message: Value| {
            let input = session.line(message.to_string().as_bytes(), &mut |event| {
                if let AgentEventKind::Warning(diagnostic) = event.kind {
                    warned.push(diagnostic.code.name().to_owned());
                }
            });
            serde_json::from_slice::<Value>(&input.bytes).unwrap()
        };
        let abilities = json!({"promptCapabilities": {"image": takes}});
        send(json!({"id": 1, "result": {"protocolVersion": 1, "agentCapabilities": abilities}}));
        let prompt = send(json!({"id": 2, "result": {"sessionId": "s"}}));
        acp::check(&prompt, None);
        let blocks = prompt["params"]["prompt"].as_array().unwrap();
        let kinds: Vec<&str> = blocks.iter().filter_map(|it| it["type"].as_str()).collect();
        assert_eq!(kinds, expected);
        let is_told = warned.iter().any(|code| code == "agent.image-unseen");
        assert_eq!(is_told, !takes, "{warned:?}");
    }
}

#[test]
fn files_beneath_the_directory_are_read_and_written_with_a_diff() {
    let mut played = SimulatedAgent::new(Permissions::Edit, ALL);
    let path = played.cwd().join("a.txt");
    assert_eq!(played.read(&path)["result"]["content"], "one\ntwo\n");
    let part = json!({"path": path, "line": 2, "limit": 1});
    assert_eq!(played.request("fs/read_text_file", part)["result"]["content"], "two\n");
    let written = played.write(&path, "one\n2\n");
    assert_eq!(written["result"], json!({}), "{written}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\n2\n");
    played.write(played.cwd().join("new/b.txt"), "b");
    assert_eq!(std::fs::read_to_string(played.cwd().join("new/b.txt")).unwrap(), "b");
    let diffs: Vec<&str> = (played.events.iter())
        .filter_map(|event| match &event.kind {
            AgentEventKind::ToolFinished { output, .. } if output.contains("+++") => {
                Some(&**output)
            }
            _ => None,
        })
        .collect();
    assert!(diffs[0].contains("-two\n+2\n") && diffs[1].contains("+b\n"), "{diffs:?}");
    let of = |kind: &str| played.kinds().iter().filter(|it| *it == kind).count();
    assert_eq!((of("toolStarted"), of("toolFinished"), of("fileChange")), (4, 4, 2));
}

#[test]
fn paths_outside_or_secret_are_refused() {
    for permissions in [Permissions::ReadOnly, Permissions::Edit, Permissions::Full] {
        let mut played = SimulatedAgent::new(permissions, ALL);
        let (dir, cwd) = (played.dir.path().to_owned(), played.cwd());
        symlink(&dir, cwd.join("up")).unwrap();
        symlink(cwd.join(".ssh"), cwd.join("keys")).unwrap();
        for path in [
            dir.join("outside"),
            cwd.join("../outside"),
            cwd.join("up/outside"),
            "/etc/passwd".into(),
            cwd.join(".ssh/id"),
            cwd.join("keys/id"),
            cwd.clone(),
        ] {
            let read = played.read(&path);
            assert!(read["error"]["message"].is_string(), "{path:?}: {read}");
            let written = played.write(&path, "x");
            assert!(written["error"]["message"].is_string(), "{path:?}: {written}");
        }
        assert_eq!(std::fs::read_to_string(dir.join("outside")).unwrap(), "o");
        assert_eq!(std::fs::read_to_string(cwd.join(".ssh/id")).unwrap(), "key");
        assert_eq!(played.read(cwd.join("gone"))["error"]["code"], -32002);
        for path in [".git/hooks/post-commit", "sub/.GIT/config", "settings/x"] {
            assert!(played.write(cwd.join(path), "x")["error"].is_object(), "{path}");
            assert!(!cwd.join(path).exists());
        }
        let denied = (played.events.iter())
            .any(|event| matches!(&event.kind, AgentEventKind::Warning(it) if it.code.name() == "agent.tool-denied"));
        assert!(denied);
    }
}

#[test]
fn a_file_that_is_too_large_or_no_text_is_refused() {
    let mut played = SimulatedAgent::new(Permissions::Full, ALL);
    let path = played.cwd().join("large");
    std::fs::write(&path, vec![b'x'; (4 << 20) + 1]).unwrap();
    let refused = played.read(&path);
    assert!(refused["error"]["message"].as_str().unwrap().contains("too large"), "{refused}");
    let refused = played.write("b", &"x".repeat((4 << 20) + 1));
    assert!(refused["error"]["message"].as_str().unwrap().contains("too large"), "{refused}");
    std::fs::write(&path, b"\xff").unwrap();
    assert!(played.read(&path)["error"]["message"].as_str().unwrap().contains("not text"));
}

#[test]
fn a_change_needs_its_permission() {
    for (permissions, is_made) in [
        (Permissions::ReadOnly, false),
        (Permissions::Edit, true),
        (Permissions::EditAndNetwork, true),
        (Permissions::Full, true),
    ] {
        let mut played = SimulatedAgent::new(permissions, ALL);
        let path = played.cwd().join("a.txt");
        assert!(played.read(&path)["result"].is_object());
        assert_eq!(played.write(&path, "x")["error"].is_null(), is_made, "{permissions:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap() == "x", is_made);
    }
}

#[test]
fn a_person_is_asked_about_a_change_with_its_diff() {
    for (decision, is_made) in
        [(Decision::Allowed, true), (Decision::Refused, false), (Decision::Withdrawn, false)]
    {
        let mut played = SimulatedAgent::new(Permissions::Ask, ALL);
        let path = played.cwd().join("a.txt");
        assert_eq!(played.write(&path, "x\n"), Value::Null);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        let asked = played.events.iter().find_map(|event| match &event.kind {
            AgentEventKind::PermissionAsked { question, .. } => Some(question.clone()),
            _ => None,
        });
        assert!(asked.unwrap().diff.unwrap().contains("-one\n-two\n+x\n"));
        assert_eq!(played.answer(decision)["error"].is_null(), is_made, "{decision:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap() == "x\n", is_made);
        // A path outside the directory is refused without a question.
        assert!(played.write("/etc/passwd", "x")["error"].is_object());
    }
}

#[test]
fn a_link_that_appears_while_a_person_is_asked_is_not_followed() {
    let mut played = SimulatedAgent::new(Permissions::Ask, ALL);
    let (cwd, dir) = (played.cwd(), played.dir.path().to_owned());
    std::fs::create_dir(cwd.join("sub")).unwrap();
    played.write(cwd.join("sub/planted"), "x");
    std::fs::remove_dir(cwd.join("sub")).unwrap();
    symlink(&dir, cwd.join("sub")).unwrap();
    assert!(played.answer(Decision::Allowed)["error"].is_object());
    assert!(!dir.join("planted").exists());
}

#[test]
fn what_a_person_allowed_as_a_tool_is_not_asked_again() {
    let mut played = SimulatedAgent::new(Permissions::Ask, ALL);
    let path = played.cwd().join("a.txt");
    let diff = json!({"type": "diff", "path": path, "oldText": "one\ntwo\n", "newText": "x\n"});
    let call = json!({"toolCallId": "1", "kind": "edit", "content": [diff]});
    let options = json!([{"optionId": "yes", "kind": "allow_once"}]);
    let asked = json!({"toolCall": call, "options": options});
    assert_eq!(played.request("session/request_permission", asked), Value::Null);
    assert_eq!(played.answer(Decision::Allowed)["result"]["outcome"]["optionId"], "yes");
    // Another text needs another question; the allowed text is written once.
    assert_eq!(played.write(&path, "y\n"), Value::Null);
    played.answer(Decision::Refused);
    assert!(played.write(&path, "x\n")["error"].is_null());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "x\n");
    assert_eq!(played.write(&path, "x\n"), Value::Null);
}

#[test]
fn what_the_settings_do_not_ask_for_is_not_offered() {
    let none = ClientSettings::default();
    for (client, offered) in [
        (none, [false, false]),
        (ClientSettings { files: true, ..none }, [true, false]),
        (ClientSettings { terminal: true, ..none }, [false, true]),
    ] {
        let mut played = SimulatedAgent::new(Permissions::Full, client);
        let path = played.cwd().join("a.txt");
        let is_unknown = |response: &Value| response["error"]["code"] == -32601;
        assert_eq!(is_unknown(&played.read(&path)), !offered[0]);
        assert_eq!(is_unknown(&played.write(&path, "x")), !offered[0]);
        let kill = json!({"terminalId": "t"});
        assert_eq!(is_unknown(&played.request("terminal/kill", kill)), !offered[1]);
    }
}

#[test]
fn nothing_is_done_for_another_session_or_after_a_cancel() {
    let mut played = SimulatedAgent::new(Permissions::Full, ALL);
    let path = played.cwd().join("a.txt");
    let params = json!({"path": path, "sessionId": "other"});
    let other = played.send(&json!({"id": 9, "method": "fs/read_text_file", "params": params}));
    assert!(other["error"].is_object());
    played.session.interrupt();
    assert!(played.write(&path, "x")["error"].is_object());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
}
