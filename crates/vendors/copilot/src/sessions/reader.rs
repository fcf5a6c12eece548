//! The reader of one session.

use std::collections::HashSet;
use std::ops::ControlFlow;

use convoke_protocol::agent_event::RequestPurpose;
use convoke_protocol::id::Millis;
use convoke_protocol::usage::Usage;
use convoke_protocol::window::{Grade, Place, Placed, Text, Window};
use convoke_source::lines::{Line, Lines};
use convoke_source::record::{change_and_size, count, list, number_of, text, time};
use convoke_source::{
    Entry, EntryKind, Facts, FoundSession, Kept, Report, Request, SessionReader, Sink, SourceError,
};
use serde_json::Value;

use super::agent::{Agent, Agents, EventId, NO_TOOL, NOT_READ, NOTICE, TRUNCATED};
use super::entries::{Pending, changes, facts, todo};

const NO_TOOLS: &str = "the tools are in no file";
const NO_PROMPT: &str = "the prompt of the compaction is in no file";

/// Events that tell nothing of the conversation: how the program worked, and cumulative figures.
const SILENT: &[&str] = &[
    "agent.interrupted",
    "assistant.idle",
    "assistant.intent",
    "assistant.reasoning",
    "assistant.turn_end",
    "assistant.turn_retry",
    "assistant.usage",
    "capabilities.changed",
    "command.completed",
    "command.execute",
    "command.queued",
    "commands.changed",
    "elicitation.completed",
    "elicitation.requested",
    "external_tool.completed",
    "external_tool.requested",
    "hook.end",
    "hook.progress",
    "hook.start",
    "human_response.recorded",
    "model.call_failure",
    "model.call_final_result",
    "model.call_finished",
    "model.call_start",
    "pending_messages.modified",
    "permission.completed",
    "permission.requested",
    "prompt_cache_break",
    "sandbox.decision",
    "session.background_tasks_changed",
    "session.binary_asset",
    "session.completion_receipt",
    "session.context_changed",
    "session.custom_agents_updated",
    "session.extensions_loaded",
    "session.idle",
    "session.info",
    "session.mcp_server_status_changed",
    "session.mcp_servers_loaded",
    "session.memory_changed",
    "session.mode_changed",
    "session.permissions_changed",
    "session.plan_changed",
    "session.quota_observation",
    "session.remote_steerable_changed",
    "session.session_limits_changed",
    "session.skills_loaded",
    "session.task_complete",
    "session.todos_changed",
    "session.tools_updated",
    "session.usage_checkpoint",
    "session.usage_info",
    "session.warning",
    "session.workspace_file_changed",
    "skill.invoked",
    "skill.invoked_ref",
    "subagent.completed",
    "subagent.configured",
    "subagent.deselected",
    "subagent.failed",
    "subagent.selected",
    "tool.execution_partial_result",
    "tool.execution_progress",
    "tool.shell_output",
    "tool.user_requested",
    "tool_search.activated",
];

/// Reads a session.
pub struct Reader {
    session: FoundSession,
    lines: Lines,
    /// The size of the file when it was read.
    size: u64,
    state: State,
}

/// What the events so far have made.
struct State {
    session_id: String,
    kept: usize,
    agents: Agents,
    pending: Pending,
    /// The events that were read.
    told: HashSet<u64>,
    /// The beginning of the session: earlier events are copies from the session that it was forked from.
    started_at: Option<Millis>,
    report: Report,
}

impl Reader {
    /// Opens the file of a session.
    pub fn open(session: &FoundSession, kept: Kept) -> Result<Self, SourceError> {
        let lines = Lines::open(&session.path).map_err(SourceError::read(&session.path))?;
        let state = State {
            session_id: session.id.clone(),
            kept: kept.max_bytes(),
            agents: Agents::default(),
            pending: Pending::default(),
            told: HashSet::new(),
            started_at: None,
            report: Report::default(),
        };
        Ok(Self { session: session.clone(), lines, size: 0, state })
    }
}

impl SessionReader for Reader {
    fn advance(&mut self, sink: &mut dyn Sink) -> Result<(), SourceError> {
        let failed = || SourceError::read(&self.session.path);
        let (_, size) = change_and_size(&self.session.path).map_err(failed())?;
        if size < self.size {
            // A rewind has cut the file: its end is read again, and what was told is not told again.
            self.lines = Lines::open(&self.session.path).map_err(failed())?;
            self.state.agents = Agents::default();
        }
        self.size = size;
        loop {
            let (number, record) = match self.lines.next().map_err(failed())? {
                Line::End { is_torn } => {
                    self.state.report.is_torn = is_torn;
                    break;
                }
                Line::TooLarge { number } => (number, None),
                Line::Complete { bytes: [], .. } => continue,
                Line::Complete { number, bytes } => {
                    (number, Some(serde_json::from_slice::<Value>(bytes)))
                }
            };
            let place = self.lines.place(number);
            let flow = match record {
                None => {
                    self.state.report.too_large += 1;
                    self.state.agents.miss(NOT_READ);
                    continue;
                }
                Some(Err(problem)) => {
                    self.state.report.broken(place, &problem);
                    self.state.agents.miss(NOT_READ);
                    continue;
                }
                Some(Ok(event)) => self.state.event(&event, number, &place, sink),
            };
            if flow.is_break() {
                return Ok(());
            }
        }
        // A request that waits for its answer may have been the last of a process that was killed.
        let place = self.lines.place(0);
        for agent in self.state.agents.waiting() {
            let telling =
                Telling { sink, place: &place, at: None, agent: agent.as_deref(), is_new: true };
            if self.state.unanswered(telling, None, false).is_break() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn report(&self) -> &Report {
        &self.state.report
    }
}

/// Where and when an event was, and who takes what it tells.
struct Telling<'t> {
    sink: &'t mut dyn Sink,
    place: &'t Place,
    at: Option<Millis>,
    agent: Option<&'t str>,
    /// Whether it was not told before.
    is_new: bool,
}

impl Telling<'_> {
    fn tell(&mut self, kind: EntryKind<'_>) -> ControlFlow<()> {
        if !self.is_new {
            return ControlFlow::Continue(());
        }
        self.sink.take(Entry { place: self.place.clone(), at: self.at, agent: self.agent, kind })
    }
}

impl State {
    fn event(
        &mut self,
        event: &Value,
        line: u64,
        place: &Place,
        sink: &mut dyn Sink,
    ) -> ControlFlow<()> {
        self.report.records += 1;
        let number = number_of(text(event, "id"));
        let is_new = self.told.insert(number) || event["id"].is_null();
        let at = time(&event["timestamp"]);
        let agent = event["agentId"].as_str();
        let telling = Telling { sink, place, at, agent, is_new };
        let id = EventId { number, line };
        let flow = match text(event, "type").split('.').next().unwrap_or_default() {
            "session" => self.session(id, event, telling),
            "user" | "assistant" | "system" | "skill" => self.message(id, event, telling),
            _ => self.other(event, telling),
        };
        self.agents.limit(agent);
        flow
    }

    /// Takes an event of the session itself.
    fn session(&mut self, id: EventId, event: &Value, mut telling: Telling<'_>) -> ControlFlow<()> {
        let data = &event["data"];
        let agent = self.agents.get(telling.agent);
        match text(event, "type") {
            "session.start" => {
                self.started_at = self.started_at.or(time(&data["startTime"]));
                let model = data["selectedModel"].as_str().map(str::to_owned);
                if let Some(agent) = agent {
                    agent.model = model;
                }
                telling.tell(facts(data))?;
            }
            "session.resume" | "session.shutdown" => {
                self.end_turns(&mut telling)?;
                if text(event, "type") == "session.resume" {
                    if let Some(agent) = self.agents.get(telling.agent) {
                        // A new process sends what is in the file.
                        agent.no_longer_misses(NO_TOOL);
                    }
                    telling.tell(facts(data))?;
                }
            }
            "session.model_change" => {
                let model = data["newModel"].as_str();
                if let Some(agent) = agent {
                    agent.model = model.map(str::to_owned);
                }
                telling.tell(EntryKind::Facts(Facts { model, ..Facts::default() }))?;
            }
            "session.title_changed" => {
                let title = data["title"].as_str();
                telling.tell(EntryKind::Facts(Facts { title, ..Facts::default() }))?;
            }
            "session.usage_record" => return self.answered(&data["usage"], telling),
            "session.compaction_start" => {
                if let Some(agent) = agent {
                    agent.begin_summary(telling.at);
                }
            }
            "session.compaction_complete" => return self.compacted(id, data, telling),
            "session.error" => {
                let status = data["statusCode"].as_u64().and_then(|it| u16::try_from(it).ok());
                let message = text(data, "message");
                let failed = EntryKind::Failed { status, message };
                telling.tell(failed)?;
                if status.is_some() {
                    return self.unanswered(telling, status, true);
                }
            }
            "session.context_cleared" => agent.into_iter().for_each(Agent::clear),
            "session.truncation" => agent.into_iter().for_each(|agent| agent.miss(TRUNCATED)),
            "session.snapshot_rewind" => match data["eventIds"].as_array() {
                Some(ids) => {
                    let numbers = ids.iter().filter_map(Value::as_str).map(number_of);
                    self.agents.remove(&numbers.collect());
                }
                None => self.agents.remove_from(number_of(text(data, "upToEventId"))),
            },
            "session.mode_notice_delivered" => self.notice(id, text(data, "content"), &telling),
            kind if SILENT.contains(&kind) => {}
            kind => self.report.unknown(kind),
        }
        ControlFlow::Continue(())
    }

    /// Takes a message.
    fn message(&mut self, id: EventId, event: &Value, mut telling: Telling<'_>) -> ControlFlow<()> {
        let (data, place, kept) = (&event["data"], telling.place, self.kept);
        let Some(agent) = self.agents.get(telling.agent) else { return ControlFlow::Continue(()) };
        match text(event, "type") {
            "user.message" => {
                agent.user(id, data, place, kept);
                let is_persons = telling.agent.is_none()
                    && matches!(text(data, "source"), "" | "user")
                    && data["isAutopilotContinuation"] != true;
                let written = text(data, "content");
                if is_persons && !written.is_empty() {
                    telling.tell(EntryKind::Person { text: written })?;
                }
            }
            "system.message" => {
                let what = Text::new(text(data, "content"), kept);
                agent.system(Placed { what, place: place.clone() });
            }
            "system.notification" => agent.notice(id, text(data, "content"), place, kept),
            "skill.context_delivered" => self.notice(id, text(data, "content"), &telling),
            "assistant.turn_start" => agent.is_waiting = true,
            "assistant.message" => {
                let answer_id = data["apiCallId"].as_str();
                let is_answered = !agent.is_waiting
                    && (answer_id.is_none() || agent.answer_id.as_deref() == answer_id);
                // The program itself calls a tool when a command in the background has ended.
                let is_programs =
                    agent.answer_id.is_some() && answer_id.is_none() && data["model"].is_null();
                if !is_answered && !is_programs {
                    // Older versions have no record of the tokens.
                    let answer = Answer {
                        id: answer_id,
                        model: data["model"].as_str(),
                        ..Answer::default()
                    };
                    request(agent, &self.session_id, &answer, &mut telling)?;
                }
                agent.assistant(id, data, place, kept);
                return told_answer(data, &mut telling);
            }
            kind if SILENT.contains(&kind) => {}
            kind => self.report.unknown(kind),
        }
        ControlFlow::Continue(())
    }

    /// Takes an event of a tool, a question or an interruption.
    fn other(&mut self, event: &Value, mut telling: Telling<'_>) -> ControlFlow<()> {
        let data = &event["data"];
        match text(event, "type") {
            "tool.execution_start" => self.pending.call(data),
            "tool.execution_complete" => {
                let (place, kept) = (telling.place, self.kept);
                if let Some(agent) = self.agents.get(telling.agent) {
                    agent.result(data, place, kept);
                }
                let input = self.pending.ended(data);
                let output = data["result"]["content"].as_str();
                let output = output.unwrap_or_else(|| text(&data["error"], "message"));
                let ok = data["success"] == true;
                telling.tell(EntryKind::Result { id: text(data, "toolCallId"), ok, output })?;
                let changes = changes(data, &input);
                if ok && !changes.is_empty() {
                    telling.tell(EntryKind::Changed(changes))?;
                }
            }
            "user_input.requested" => self.pending.ask(data, "question"),
            "user_input.completed" => {
                if let (Some(question), Some(answer)) =
                    (self.pending.answered(data), data["answer"].as_str())
                {
                    telling.tell(EntryKind::PersonAnswered { question: &question, answer })?;
                }
            }
            "exit_plan_mode.requested" => self.pending.ask(data, "planContent"),
            "exit_plan_mode.completed" => {
                let plan = self.pending.answered(data).filter(|_| data["approved"] == true);
                if let Some(plan) = plan {
                    telling.tell(EntryKind::PlanApproved { plan: &plan })?;
                }
            }
            "subagent.started" => {
                let model = data["model"].as_str().map(str::to_owned);
                if let Some(agent) = self.agents.get(telling.agent) {
                    agent.model = agent.model.take().or(model);
                }
            }
            "abort" => {
                let message = format!("interrupted: {}", text(data, "reason"));
                telling.tell(EntryKind::Failed { status: None, message: &message })?;
                return self.end_turns(&mut telling);
            }
            kind if SILENT.contains(&kind) => {}
            kind => self.report.unknown(kind),
        }
        ControlFlow::Continue(())
    }

    fn notice(&mut self, id: EventId, notice: &str, telling: &Telling<'_>) {
        if let Some(agent) = self.agents.get(telling.agent).filter(|_| !notice.is_empty()) {
            agent.notice(id, notice, telling.place, self.kept);
            agent.miss(NOTICE);
        }
    }

    /// Takes the tokens of an answer, which marks a request.
    fn answered(&mut self, usage: &Value, mut telling: Telling<'_>) -> ControlFlow<()> {
        let source = text(&usage["accounting"], "sourceSessionId");
        let is_copied = telling.agent.is_none() && !source.is_empty() && source != self.session_id
            || telling.at < self.started_at && telling.at.is_some();
        let Some(agent) = self.agents.get(telling.agent) else { return ControlFlow::Continue(()) };
        agent.has_own_provider = usage["isByok"] == true;
        let kind = text(usage, "interactionType");
        let answer = Answer {
            purpose: match kind {
                "" => RequestPurpose::Answer,
                kind if kind.starts_with("conversation-comp") => RequestPurpose::Compaction,
                kind if kind.starts_with("conversation") => RequestPurpose::Answer,
                kind if kind.contains("title") => RequestPurpose::Title,
                _ => RequestPurpose::Aside,
            },
            id: usage["apiCallId"].as_str(),
            model: usage["model"].as_str(),
            usage: Some(counts(usage)),
        };
        // The record is written when the answer is complete.
        let duration = i64::try_from(count(&usage["duration"])).unwrap_or(0);
        telling.at = telling.at.map(|at| Millis(at.0.saturating_sub(duration)));
        if is_copied {
            agent.is_waiting = false;
            agent.answer_id = answer.id.map(str::to_owned);
            return ControlFlow::Continue(());
        }
        request(agent, &self.session_id, &answer, &mut telling)
    }

    /// Takes a summary, and the request for it.
    fn compacted(
        &mut self,
        id: EventId,
        data: &Value,
        mut telling: Telling<'_>,
    ) -> ControlFlow<()> {
        let kept = self.kept;
        let Some(agent) = self.agents.get(telling.agent) else { return ControlFlow::Continue(()) };
        let tokens = &data["compactionTokensUsed"];
        if tokens.is_object() || data["statusCode"].is_number() {
            let at = telling.at;
            let duration = i64::try_from(count(&tokens["duration"])).unwrap_or(0);
            let began_at = agent.summary_began_at();
            telling.at = began_at.map(|at| Millis(at.0.saturating_add(duration))).or(at);
            agent.requests += 1;
            let request = Request {
                key: agent.requests,
                answer_id: None,
                purpose: RequestPurpose::Compaction,
                model: tokens["model"]
                    .as_str()
                    .or(data["model"].as_str())
                    .or(agent.model.as_deref()),
                window: &agent.window().0,
                grade: Grade::Partial,
                missing: vec![NO_TOOLS.to_owned(), NO_PROMPT.to_owned()],
                usage: tokens.is_object().then(|| counts(tokens)),
                cache_write_hour: 0,
                tier: None,
                status: match data["statusCode"].as_u64() {
                    Some(status) => u16::try_from(status).ok(),
                    None => tokens.is_object().then_some(200),
                },
                is_settled: true,
            };
            telling.tell(EntryKind::Request(&request))?;
            telling.at = at;
        }
        let summary = text(data, "summaryContent");
        if data["success"] == true && !summary.is_empty() {
            let dropped = agent.summarize(id, summary, telling.place, kept);
            telling.tell(EntryKind::Compacted { summary, dropped })?;
        }
        ControlFlow::Continue(())
    }

    /// Ends the turns that will not be answered any more: a process has ended.
    fn end_turns(&mut self, telling: &mut Telling<'_>) -> ControlFlow<()> {
        for agent in self.agents.waiting() {
            let telling = Telling {
                sink: &mut *telling.sink,
                place: telling.place,
                at: telling.at,
                agent: agent.as_deref(),
                is_new: telling.is_new,
            };
            self.unanswered(telling, None, true)?;
        }
        ControlFlow::Continue(())
    }

    /// Hands out a request that has no answer.
    fn unanswered(
        &mut self,
        mut telling: Telling<'_>,
        status: Option<u16>,
        is_settled: bool,
    ) -> ControlFlow<()> {
        let Some(agent) = self.agents.get(telling.agent) else { return ControlFlow::Continue(()) };
        let key = agent.requests + 1;
        if is_settled {
            agent.requests = key;
            agent.is_waiting = false;
        }
        let (window, missing) = agent.window();
        let (grade, missing) = graded(missing);
        let request = Request {
            key,
            answer_id: None,
            purpose: RequestPurpose::Answer,
            model: agent.model.as_deref(),
            window: &window,
            grade,
            missing,
            usage: None,
            cache_write_hour: 0,
            tier: None,
            status,
            is_settled,
        };
        telling.tell(EntryKind::Request(&request))
    }
}

/// What an answer tells of its request.
struct Answer<'a> {
    purpose: RequestPurpose,
    id: Option<&'a str>,
    model: Option<&'a str>,
    usage: Option<Usage>,
}

impl Default for Answer<'_> {
    fn default() -> Self {
        Self { purpose: RequestPurpose::Answer, id: None, model: None, usage: None }
    }
}

/// Hands out a request that was answered.
fn request(
    agent: &mut Agent,
    session_id: &str,
    answer: &Answer<'_>,
    telling: &mut Telling<'_>,
) -> ControlFlow<()> {
    agent.requests += 1;
    agent.is_waiting = false;
    agent.answer_id = answer.id.map(str::to_owned);
    let (window, missing) = agent.window();
    let (grade, missing) = graded(missing);
    let aside = Window::default();
    let is_answer = answer.purpose == RequestPurpose::Answer;
    // Ids of answers are not unique where the provider gives none.
    let answer_id = answer.id.filter(|id| !id.is_empty() && *id != session_id);
    let request = Request {
        key: agent.requests,
        answer_id,
        purpose: answer.purpose,
        model: answer.model.or(agent.model.as_deref()),
        window: if is_answer { &window } else { &aside },
        grade: if is_answer { grade } else { Grade::Partial },
        missing,
        usage: answer.usage,
        cache_write_hour: 0,
        tier: None,
        status: Some(200),
        is_settled: true,
    };
    telling.tell(EntryKind::Request(&request))
}

fn graded(missing: Vec<&'static str>) -> (Grade, Vec<String>) {
    let grade = if missing.is_empty() { Grade::Messages } else { Grade::Partial };
    let missing = std::iter::once(NO_TOOLS).chain(missing).map(str::to_owned);
    (grade, missing.collect())
}

/// Hands out what an answer tells.
fn told_answer(data: &Value, telling: &mut Telling<'_>) -> ControlFlow<()> {
    let reasoning = text(data, "reasoningText");
    if !reasoning.is_empty() || data["reasoningOpaque"].is_string() {
        telling.tell(EntryKind::Thinking { text: reasoning })?;
    }
    let content = text(data, "content");
    if !content.is_empty() {
        telling.tell(EntryKind::Text { text: content })?;
    }
    for call in list(&data["toolRequests"]) {
        let input = call["arguments"].to_string();
        let (id, name) = (text(call, "toolCallId"), text(call, "name"));
        telling.tell(EntryKind::Call { id, name, input: &input })?;
        if let Some(todo) = todo(call) {
            telling.tell(EntryKind::Todo(todo))?;
        }
    }
    ControlFlow::Continue(())
}

/// Returns tokens, whose input includes those of the cache and whose output the reasoning.
fn counts(usage: &Value) -> Usage {
    Usage {
        input: count(&usage["inputTokens"]),
        cached: count(&usage["cacheReadTokens"]),
        cache_write: count(&usage["cacheWriteTokens"]),
        output: count(&usage["outputTokens"]),
        reasoning: count(&usage["reasoningTokens"]),
    }
}
