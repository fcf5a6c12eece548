//! The ACP client against the official types, which write everything that an agent can send and parse
//! everything that is sent to it.

#![allow(clippy::unwrap_used)]

use convoke_agent::TurnResult;
use convoke_agent::adapter::acp::{Permit, Session, SessionSettings};
use convoke_agent::ending::{Ending, Exit};
use convoke_agent::process::{Dialogue as _, Input};
use convoke_agent::stream::acp::Acp;
use convoke_agent::turn_input::Permissions;
use convoke_conformance_acp as acp;
use convoke_conformance_acp::official::*;
use serde::Serialize;
use serde_json::{Value, json};

/// A simulated agent that uses the official types.
struct SimulatedAgent {
    session: Session,
    events: Vec<Value>,
}

impl SimulatedAgent {
    fn new(settings: SessionSettings) -> (Self, Value) {
        let mut played =
            Self { session: Session::new(Acp::new(1 << 20), settings), events: Vec::new() };
        let opened = played.session.open();
        let hello = sent(&opened, None);
        (played, hello[0].clone())
    }

    fn send(&mut self, message: &Value) -> Vec<Value> {
        let events = &mut self.events;
        let input = self.session.line(message.to_string().as_bytes(), &mut |event| {
            events.push(serde_json::to_value(&event).unwrap()["event"].clone());
        });
        sent(&input, message["method"].as_str())
    }

    fn respond(&mut self, to: &Value, result: impl Serialize) -> Value {
        let response = Response::<_, Error>::new(to["id"].as_i64().unwrap(), Ok(result));
        self.send(&wrapped(response)).pop().unwrap_or_default()
    }

    fn refuse(&mut self, to: &Value, error: Error) {
        let response = Response::<Value>::new(to["id"].as_i64().unwrap(), Err(error));
        assert!(self.send(&wrapped(response)).is_empty());
    }

    fn update(&mut self, update: SessionUpdate) {
        let params = Some(SessionNotification::new("s", update));
        self.send(&wrapped(Notification { method: "session/update".into(), params }));
    }

    fn ask(&mut self, params: RequestPermissionRequest) -> Value {
        let id = RequestId::Str("q".to_owned());
        let method = "session/request_permission".into();
        self.send(&wrapped(Request { id, method, params: Some(params) })).pop().unwrap_or_default()
    }

    /// Opens a session, and returns the request of the prompt.
    fn begin(settings: SessionSettings) -> (Self, Value) {
        let (mut played, hello) = Self::new(settings);
        let new = played.respond(&hello, hello_response());
        assert_eq!(new["method"], "session/new");
        let prompt = played.respond(&new, NewSessionResponse::new("s"));
        assert_eq!(prompt["method"], "session/prompt");
        (played, prompt)
    }

    fn finish(mut self) -> TurnResult {
        let ending = Ending { exit: Exit::Code(0), stop: None, stderr: "" };
        self.session.finish(&ending, &mut |_| {})
    }
}

fn wrapped(message: impl Serialize) -> Value {
    serde_json::to_value(JsonRpcMessage::wrap(message)).unwrap()
}

/// Returns the written messages, each checked against the official types.
fn sent(input: &Input, asked: Option<&str>) -> Vec<Value> {
    let text = std::str::from_utf8(&input.bytes).unwrap();
    let messages = text.lines().map(|line| serde_json::from_str(line).unwrap());
    messages.inspect(|message| acp::check(message, asked)).collect()
}

fn settings() -> SessionSettings {
    SessionSettings {
        prompt: vec!["first".to_owned(), "second".to_owned()],
        cwd: "/work".into(),
        permit: Some(Permit { permissions: Permissions::Edit, is_confined: true }),
        ..SessionSettings::default()
    }
}

fn hello_response() -> InitializeResponse {
    let terminal = AuthMethodTerminal::new("term", "In a terminal").args(vec!["login".to_owned()]);
    let agent = AuthMethodAgent::new("key", "A key").description("Set KEY".to_owned());
    InitializeResponse::new(1.into())
        .agent_capabilities(AgentCapabilities::new())
        .auth_methods(vec![AuthMethod::Agent(agent), AuthMethod::Terminal(terminal)])
        .agent_info(Implementation::new("agent", "1"))
}

fn text(words: &str) -> ContentBlock {
    ContentBlock::Text(TextContent::new(words))
}

/// The options of a session: grouped modes, a model, and an on/off option.
fn options() -> Vec<SessionConfigOption> {
    let plan = SessionConfigSelectOption::new("plan", "Planning");
    let edit = SessionConfigSelectOption::new("edit", "Editing");
    let modes = vec![SessionConfigSelectGroup::new("all", "All", vec![edit, plan])];
    let large = SessionConfigSelectOption::new("large-1", "Large");
    let small = SessionConfigSelectOption::new("small-1", "Small");
    vec![
        SessionConfigOption::boolean("fast", "Fast", false),
        SessionConfigOption::select("how", "Mode", "edit", modes)
            .category(SessionConfigOptionCategory::Mode),
        SessionConfigOption::select("llm", "Model", "small-1", vec![small, large])
            .category(SessionConfigOptionCategory::Model),
    ]
}

#[test]
fn every_request_of_a_turn_is_written_as_the_official_types_write_it() {
    let server = json!({"name": "team", "command": "/bin/convoke", "args": ["mcp"], "env": [{"name": "A", "value": "b"}]});
    let chosen = |mode: &str, model: Option<&str>| SessionSettings {
        mode: Some(mode.to_owned()),
        model: model.map(str::to_owned),
        servers: vec![server.clone()],
        meta: Some(json!({"claudeCode": {"options": {}}})),
        ..settings()
    };
    // Modes and models as options.
    let (mut played, hello) = SimulatedAgent::new(chosen("planning", Some("large")));
    assert_eq!(hello["params"]["protocolVersion"], 1);
    let new = played.respond(&hello, hello_response());
    assert_eq!(new["params"]["mcpServers"], json!([server]));
    let mode = played.respond(&new, NewSessionResponse::new("s").config_options(options()));
    assert_eq!(mode["method"], "session/set_config_option");
    assert_eq!(
        (&mode["params"]["configId"], &mode["params"]["value"]),
        (&json!("how"), &json!("plan"))
    );
    let model = played.respond(&mode, SetSessionConfigOptionResponse::new(options()));
    assert_eq!(model["params"]["value"], "large-1");
    let prompt = played.respond(&model, SetSessionConfigOptionResponse::new(options()));
    assert_eq!(
        prompt["params"]["prompt"],
        json!([{"type": "text", "text": "first"}, {"type": "text", "text": "second"}])
    );
    let cancel = played.session.interrupt().unwrap();
    assert_eq!(sent(&cancel, None)[0]["method"], "session/cancel");
    // Modes in their own field, in a session that is resumed or loaded.
    let sessions = SessionCapabilities::new().resume(SessionResumeCapabilities::new());
    let modes = || {
        let modes = vec![SessionMode::new("edit", "Editing"), SessionMode::new("plan", "Planning")];
        SessionModeState::new("edit", modes)
    };
    for (abilities, method) in [
        (AgentCapabilities::new().session_capabilities(sessions), "session/resume"),
        (AgentCapabilities::new().load_session(true), "session/load"),
    ] {
        let resumed = SessionSettings { resume: Some("s".to_owned()), ..chosen("plan", None) };
        let (mut played, hello) = SimulatedAgent::new(resumed);
        let open = played.respond(&hello, hello_response().agent_capabilities(abilities));
        assert_eq!((&open["method"], &open["params"]["sessionId"]), (&json!(method), &json!("s")));
        let mode = if method == "session/load" {
            let repeated = ContentChunk::new(text("earlier"));
            played.update(SessionUpdate::UserMessageChunk(repeated.clone()));
            played.update(SessionUpdate::AgentMessageChunk(repeated));
            played.respond(&open, LoadSessionResponse::new().modes(modes()));
            sent(&played.session.on_silence().unwrap(), None).pop().unwrap()
        } else {
            played.respond(&open, ResumeSessionResponse::new().modes(modes()))
        };
        assert_eq!(
            (&mode["method"], &mode["params"]["modeId"]),
            (&json!("session/set_mode"), &json!("plan"))
        );
        let prompt = played.respond(&mode, SetSessionModeResponse::new());
        assert_eq!(prompt["method"], "session/prompt");
        played.respond(&prompt, PromptResponse::new(StopReason::Cancelled));
        assert_eq!(played.finish().reply, "");
    }
}

#[test]
fn every_update_is_read() {
    let call = ToolCall::new("c", "Edit a.txt")
        .kind(ToolKind::Edit)
        .status(ToolCallStatus::InProgress)
        .raw_input(json!({"path": "a.txt"}))
        .locations(vec![ToolCallLocation::new("a.txt").line(3)]);
    let diff = ToolCallContent::Diff(Diff::new("a.txt", "new").old_text("old".to_owned()));
    let terminal = ToolCallContent::Terminal(Terminal::new("t"));
    let fields = ToolCallUpdateFields::new()
        .status(ToolCallStatus::Completed)
        .content(vec![diff, terminal, ToolCallContent::from(text("done"))])
        .raw_output(json!({"ok": true}));
    let entry = PlanEntry::new("look", PlanEntryPriority::High, PlanEntryStatus::InProgress);
    let command = AvailableCommand::new("help", "Help");
    let cost = UsageUpdate::new(5, 100).cost(Cost::new(0.25, "USD"));
    for (update, kinds) in [
        (SessionUpdate::AgentThoughtChunk(ContentChunk::new(text("hm"))), vec!["thinking"]),
        (
            SessionUpdate::AgentMessageChunk(ContentChunk::new(text("hello")).message_id("m")),
            vec!["thinking", "text"],
        ),
        (SessionUpdate::UserMessageChunk(ContentChunk::new(text("you"))), vec![]),
        (SessionUpdate::ToolCall(call), vec!["text", "toolStarted"]),
        (
            SessionUpdate::ToolCallUpdate(ToolCallUpdate::new("c", fields)),
            vec!["toolFinished", "fileChange"],
        ),
        (SessionUpdate::Plan(Plan::new(vec![entry])), vec!["todo"]),
        (
            SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(vec![command])),
            vec![],
        ),
        (SessionUpdate::CurrentModeUpdate(CurrentModeUpdate::new("plan")), vec!["warning"]),
        (SessionUpdate::ConfigOptionUpdate(ConfigOptionUpdate::new(options())), vec![]),
        (SessionUpdate::SessionInfoUpdate(SessionInfoUpdate::new().title("x".to_owned())), vec![]),
        (SessionUpdate::UsageUpdate(cost), vec![]),
        (SessionUpdate::Notice(Notice::new(NoticeSeverity::Warning, "Slow")), vec!["warning"]),
    ] {
        // One prompt each, so that cases are independent. A thought or a text is whole when another one begins.
        let (mut played, prompt) = SimulatedAgent::begin(settings());
        if kinds.first() == Some(&"thinking") && kinds.len() > 1 {
            played.update(SessionUpdate::AgentThoughtChunk(ContentChunk::new(text("hm"))));
        }
        if kinds.contains(&"toolStarted") {
            played.update(SessionUpdate::AgentMessageChunk(ContentChunk::new(text("I edit."))));
        }
        if kinds.contains(&"toolFinished") {
            let known =
                json!({"kind": "edit", "rawInput": {"path": "a.txt"}, "status": "in_progress"});
            let known: ToolCallUpdateFields = serde_json::from_value(known).unwrap();
            played.update(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new("c", known)));
        }
        played.events.clear();
        let shown = format!("{update:?}");
        played.update(update);
        let found: Vec<&str> =
            played.events.iter().map(|it| it["kind"].as_str().unwrap()).collect();
        assert_eq!(found, kinds, "{shown}: {:?}", played.events);
        if kinds.contains(&"fileChange") {
            let change = json!({"path": "a.txt", "change": "update", "diff": {"before": "old", "after": "new"}});
            assert_eq!(played.events[1]["changes"], json!([change]));
        }
        if kinds == ["warning"] {
            let message = played.events[0]["message"].as_str().unwrap().to_owned();
            assert!(message.contains("`plan`") || message.contains("Slow"), "{message}");
        }
        played.update(SessionUpdate::AgentMessageChunk(
            ContentChunk::new(text(" end")).message_id("m"),
        ));
        played.respond(&prompt, PromptResponse::new(StopReason::EndTurn));
        let result = played.finish();
        assert_eq!(result.verdict.as_str(), "done", "{result:?}");
        assert!(result.reply.ends_with(" end"), "{result:?}");
        let has_cost = result.cost_usd.is_some();
        assert_eq!(has_cost, shown.starts_with("UsageUpdate"), "{result:?}");
    }
}

#[test]
fn what_is_no_text_of_a_reply_is_named() {
    let link = ResourceLink::new("a", "file:///a");
    let inside = TextResourceContents::new("x", "file:///x");
    let blob = BlobResourceContents::new("AAAA", "file:///y");
    for block in [
        ContentBlock::Image(ImageContent::new("AAAA", "image/png")),
        ContentBlock::Audio(AudioContent::new("AAAA", "audio/wav")),
        ContentBlock::ResourceLink(link),
        ContentBlock::Resource(EmbeddedResource::new(
            EmbeddedResourceResource::TextResourceContents(inside),
        )),
        ContentBlock::Resource(EmbeddedResource::new(
            EmbeddedResourceResource::BlobResourceContents(blob),
        )),
    ] {
        let (mut played, prompt) = SimulatedAgent::begin(settings());
        played.update(SessionUpdate::AgentMessageChunk(ContentChunk::new(block)));
        played.update(SessionUpdate::AgentMessageChunk(ContentChunk::new(text("end"))));
        played.respond(&prompt, PromptResponse::new(StopReason::EndTurn));
        let result = played.finish();
        assert_eq!(result.reply, "end");
        assert_eq!(result.diagnostics[0].code.name(), "agent.notice", "{result:?}");
    }
}

#[test]
fn every_end_of_a_prompt_is_read() {
    for (reason, verdict) in [
        (StopReason::EndTurn, "done"),
        (StopReason::MaxTokens, "failed"),
        (StopReason::MaxTurnRequests, "failed"),
        (StopReason::Refusal, "failed"),
        (StopReason::Cancelled, "cancelled"),
    ] {
        let (mut played, prompt) = SimulatedAgent::begin(settings());
        played.update(SessionUpdate::AgentMessageChunk(ContentChunk::new(text("x"))));
        played.respond(&prompt, PromptResponse::new(reason));
        assert_eq!(played.finish().verdict.as_str(), verdict, "{reason:?}");
    }
    for error in [
        Error::parse_error(),
        Error::invalid_request(),
        Error::method_not_found(),
        Error::invalid_params(),
        Error::internal_error().data(json!({"details": "the disk is full"})),
        Error::auth_required(),
        Error::new(429, "slow down"),
    ] {
        let (mut played, prompt) = SimulatedAgent::begin(settings());
        let message = error.message.clone();
        played.refuse(&prompt, error);
        let verdict = played.finish().verdict;
        assert!(
            verdict.as_str() == "failed" && verdict.to_string().contains(&message),
            "{verdict}"
        );
    }
    // Before the session is open, the ways to sign in are named.
    let (mut played, hello) = SimulatedAgent::new(settings());
    let new = played.respond(&hello, hello_response());
    played.refuse(&new, Error::auth_required());
    let verdict = played.finish().verdict.to_string();
    assert!(verdict.contains("A key (Set KEY), In a terminal"), "{verdict}");
}

#[test]
fn every_kind_of_question_is_answered_with_an_option_of_its_kind() {
    use PermissionOptionKind::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};
    use ToolKind::{Delete, Edit, Execute, Fetch, Move, Other, Read, Search, SwitchMode, Think};
    for (kind, is_allowed) in [
        (Read, true),
        (Edit, true),
        (Delete, true),
        (Move, true),
        (Search, true),
        (Execute, true),
        (Think, true),
        (Fetch, false),
        (SwitchMode, false),
        (Other, true),
    ] {
        let (mut played, _) = SimulatedAgent::begin(settings());
        let path = ToolCallLocation::new("/work/a.txt");
        let fields = ToolCallUpdateFields::new().kind(kind).title("x").locations(vec![path]);
        let options =
            [("a", AllowAlways), ("b", AllowOnce), ("c", RejectAlways), ("d", RejectOnce)]
                .map(|(id, kind)| PermissionOption::new(id, id, kind));
        let call = ToolCallUpdate::new("c", fields);
        let answer = played.ask(RequestPermissionRequest::new("s", call, options.into()));
        let chosen = if is_allowed { "b" } else { "d" };
        assert_eq!(answer["result"]["outcome"]["optionId"], chosen, "{kind:?}: {answer}");
    }
}
