//! The loop of a turn: sends requests and runs tools until the thread is done.

use std::borrow::Cow;
use std::collections::HashMap;

use convoke_agent::team_tools::{TeamTool, TeamTools};
use convoke_agent::thread::ThreadStoreError;
use convoke_agent::turn::TurnSide;
use convoke_core::Diagnostic;
use convoke_core::ledger::estimate_tokens;
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind, TextPart};
use convoke_protocol::request::{RequestEnd, RequestMeta};
use convoke_protocol::verdict::{Failure, FailureReason};
use convoke_redact::Redactor;
use convoke_thread::item::{ContentItem, ReasoningContent, ResponseItem};
use convoke_thread::prompt::{Request, RequestPurpose};
use convoke_thread::thread::{ModelResponse, ResponseFailure, Step, Thread, TurnOutcome};
use tokio::task::JoinSet;

use crate::client::{CallError, CallEvent, Client};
use crate::diagnostics;
use crate::member::{log_failure, reading};
use crate::progress::Progress;
use crate::redacted;
use crate::sent::Recorder;
use crate::tools::{self, ToolOutput, Toolbox};
use crate::wire::ParsedResponse;

/// The maximum number of tool rounds in one turn.
const MAX_ROUNDS: usize = 50;
/// The maximum number of requests of one compaction. Each retry leaves out the oldest item.
const MAX_COMPACTION_REQUESTS: usize = 64;

/// Runs the loop of a turn.
pub(crate) struct Driver<'d, 'r> {
    pub client: &'d Client,
    /// The known secrets, which are removed from everything that enters the thread.
    pub redactor: &'d Redactor,
    pub toolbox: Option<&'d Toolbox>,
    pub team_tools: Option<&'d TeamTools>,
    pub side: &'d TurnSide,
    pub recorder: &'d mut Recorder<'r>,
    pub progress: &'d mut Progress,
}

impl Driver<'_, '_> {
    /// Runs steps until the thread is done.
    pub async fn drive(&mut self, thread: &mut Thread<'_>, first: Step) -> Result<(), Failure> {
        let mut step = first;
        let mut rounds = 0;
        let mut last_error: Option<CallError> = None;
        loop {
            self.progress.note(thread);
            let next = match step {
                Step::Done(TurnOutcome::Finished) => return Ok(()),
                Step::Done(TurnOutcome::Failed(reason)) => {
                    return Err(match last_error {
                        Some(error) => self.failure(&error),
                        None => Failure::new(FailureReason::Other, reason),
                    });
                }
                Step::Send(request) => {
                    let answered = self.send(thread, &request).await?;
                    let answer = match answered {
                        Ok(answer) => answer,
                        Err(error) => {
                            let failed = ModelResponse {
                                failure: Some(as_thread_failure(&error)),
                                ..ModelResponse::default()
                            };
                            last_error = Some(error);
                            failed
                        }
                    };
                    let next = reading(|| thread.answer(answer));
                    if request.purpose == RequestPurpose::Compaction {
                        self.after_compaction(thread, next.as_ref().ok(), last_error.as_ref())
                            .await;
                    } else if self.progress.stopped.is_some() {
                        // The tool calls may be incomplete too.
                        self.progress.note(thread);
                        return Ok(());
                    }
                    next
                }
                Step::RunTools(calls) => {
                    rounds += 1;
                    if rounds > MAX_ROUNDS {
                        let message = format!("the model called tools {MAX_ROUNDS} times in a row");
                        return Err(Failure::new(FailureReason::Budget, message));
                    }
                    let results = self.run_tools(calls).await;
                    thread.tool_results(results)
                }
            };
            step = next.map_err(|error| Failure::new(FailureReason::Other, error.to_string()))?;
        }
    }

    /// Sends a request and forwards the model's text. The outer error ends the turn.
    async fn send(
        &mut self,
        thread: &Thread<'_>,
        request: &Request,
    ) -> Result<Result<ModelResponse, CallError>, Failure> {
        let clean = redacted::request(self.redactor, request);
        let request = clean.as_ref().unwrap_or(request);
        let is_compaction = request.purpose == RequestPurpose::Compaction;
        if is_compaction {
            self.expect_use_of_compaction()?;
        }
        for diagnostic in &request.diagnostics {
            self.warn(diagnostic.clone()).await;
        }
        self.record(request).await?;
        let headers = [("session_id", thread.id())];
        let mut call = self.client.call(request.path, request.body.clone(), &headers);
        self.progress.leaving = call.leaving();
        while let Some(event) = call.next().await {
            if !matches!(&event, CallEvent::Retry { error, .. } | CallEvent::Failed(error) if error.is_unsent())
            {
                self.report_sent().await;
            }
            match event {
                CallEvent::Text(_) | CallEvent::Thought(_) if is_compaction => {}
                CallEvent::Text(text) => {
                    self.report(AgentEventKind::Text { text: text.into(), part: TextPart::Delta })
                        .await;
                }
                CallEvent::Thought(text) => {
                    self.report(AgentEventKind::Thinking {
                        text: text.into(),
                        part: TextPart::Delta,
                    })
                    .await;
                }
                CallEvent::Retry { attempt, max, wait, error } => {
                    self.recorder.attempt_failed(error.to_string()).await.map_err(unstored)?;
                    self.report(AgentEventKind::Retry {
                        attempt: attempt.into(),
                        max: Some(max.into()),
                        status: error.status(),
                        wait: Some(wait),
                        reason: error.to_string().into(),
                    })
                    .await;
                }
                CallEvent::Failed(error) => {
                    let end = match self.progress.unreported.take() {
                        Some(_) => RequestEnd::Unsent,
                        None => RequestEnd::Failed,
                    };
                    self.recorder.failed(error.to_string(), end).await.map_err(unstored)?;
                    return Ok(Err(error));
                }
                CallEvent::Answered(mut answer) => {
                    redacted::answer(self.redactor, &mut answer);
                    let (usage, model) = (answer.usage, answer.model.clone());
                    self.recorder.answered(usage, model).await.map_err(unstored)?;
                    return Ok(self.answered(request, answer).await);
                }
            }
        }
        Ok(Err(CallError::Cut("the response ended without an event".to_owned())))
    }

    /// Reports a request once it is known to be sent.
    async fn report_sent(&mut self) {
        if let Some(request) = self.progress.unreported.take() {
            self.progress.was_sent = true;
            self.report(request).await;
        }
    }

    /// Returns the failure of the turn. If an earlier request was answered, a refused connection does not mean
    /// that the turn was not sent.
    fn failure(&self, error: &CallError) -> Failure {
        let reason = match error.reason() {
            FailureReason::Unreachable if self.progress.was_sent => FailureReason::Network,
            reason => reason,
        };
        Failure::new(reason, error.to_string())
    }

    /// Stores a request before it is sent.
    async fn record(&mut self, request: &Request) -> Result<(), Failure> {
        let recorded = self.recorder.sending(request).await.map_err(unstored)?;
        let (number, RequestMeta { purpose, bytes, unchanged_bytes, .. }, diagnostic) = recorded;
        if let Some(diagnostic) = diagnostic {
            self.warn(diagnostic).await;
        }
        let request = AgentEventKind::Request { number, purpose, bytes, unchanged_bytes };
        self.progress.unreported = Some(request);
        Ok(())
    }

    async fn answered(
        &mut self,
        request: &Request,
        answer: ParsedResponse,
    ) -> Result<ModelResponse, CallError> {
        let is_compaction = request.purpose == RequestPurpose::Compaction;
        let tokens = self.count(request, &answer).await;
        let has_content =
            answer.items.iter().any(|item| item.role().is_some() || item.is_tool_call());
        if !has_content && answer.stopped.is_none() {
            return Err(CallError::Useless("the response is empty"));
        }
        if is_compaction {
            // A summary must be complete and not empty.
            if answer.stopped.is_some() {
                return Err(CallError::Useless("the summary is incomplete"));
            }
            if texts(&answer.items).trim().is_empty() {
                return Err(CallError::Useless("the summary is empty"));
            }
        }
        if answer.cut_bytes > 0 {
            let bytes = answer.cut_bytes;
            let message = format!("{bytes} bytes of the reply were over the limit and left out");
            self.warn(
                Diagnostic::new(convoke_agent::diagnostics::AGENT_REPLY_TRUNCATED, message)
                    .with_bytes(bytes),
            )
            .await;
        }
        if is_compaction {
            self.progress.summary = texts(&answer.items);
        } else {
            self.report_items(&answer.items).await;
            self.progress.reply = texts(&answer.items);
            self.progress.stopped = answer.stopped;
        }
        self.progress.model = answer.model.or(self.progress.model.take());
        Ok(ModelResponse { items: answer.items, tokens: Some(tokens), ..ModelResponse::default() })
    }

    /// Counts the tokens of a request and its response, or estimates them if the server does not count.
    async fn count(&mut self, request: &Request, answer: &ParsedResponse) -> u64 {
        let Some(usage) = answer.usage else {
            let output: u64 = answer.items.iter().map(ResponseItem::text_bytes).sum();
            return estimate_tokens(request.body.len() as u64 + output);
        };
        self.progress.spend(Some(usage));
        self.report(AgentEventKind::Usage(self.progress.usage.unwrap_or_default())).await;
        usage.input.saturating_add(usage.output)
    }

    async fn report_items(&self, items: &[ResponseItem]) {
        for item in items {
            match item {
                ResponseItem::Message(message) => {
                    let text: String = message.content.iter().map(ContentItem::text).collect();
                    self.report(AgentEventKind::Text { text: text.into(), part: TextPart::Whole })
                        .await;
                }
                ResponseItem::Reasoning(reasoning) => {
                    let content = reasoning.content.iter().flatten().map(ReasoningContent::text);
                    let summary = reasoning.summary.iter().map(String::as_str);
                    let text = summary.chain(content).collect::<Vec<_>>().join("\n");
                    if !text.is_empty() {
                        self.report(AgentEventKind::Thinking {
                            text: text.into(),
                            part: TextPart::Whole,
                        })
                        .await;
                    }
                }
                _ => {}
            }
        }
    }

    async fn run_tools(&self, calls: Vec<ResponseItem>) -> Vec<ResponseItem> {
        let mut results: Vec<Option<ResponseItem>> = Vec::with_capacity(calls.len());
        // Questions to teammates run concurrently, and are cancelled when this call is dropped.
        let mut questions = JoinSet::new();
        let mut places = HashMap::new();
        for call in calls {
            let (id, name, input) = match call {
                ResponseItem::FunctionCall(call) => (call.call_id, call.name, call.arguments),
                ResponseItem::CustomToolCall(call) => {
                    let output = tools::unsupported(&call.name);
                    self.report_start(&call.call_id, &call.name, &call.input).await;
                    self.report_end(&call.call_id, &output).await;
                    results.push(Some(custom_output(call.call_id, output.text)));
                    continue;
                }
                // Other calls cannot be run, which the thread itself records.
                _ => continue,
            };
            self.report_start(&id, &name, &input).await;
            let is_of_team = TeamTool::ALL.iter().any(|tool| tool.name() == name);
            let output = match (self.team_tools.filter(|_| is_of_team), self.toolbox) {
                (Some(team), _) if name == TeamTool::Ask.name() => {
                    let team = team.clone();
                    let question = questions
                        .spawn(async move { tools::call_team(&team, &name, &input).await });
                    places.insert(question.id(), (results.len(), id));
                    results.push(None);
                    continue;
                }
                (Some(team), _) => tools::call_team(team, &name, &input).await,
                (None, Some(toolbox)) => {
                    let (toolbox, name, input) = (toolbox.clone(), name.clone(), input.clone());
                    let run = tokio::task::spawn_blocking(move || toolbox.run(&name, &input));
                    run.await.unwrap_or_else(|error| tools::failed(&error))
                }
                (None, None) => tools::unsupported(&name),
            };
            results.push(Some(self.result(id, output).await));
        }
        while let Some(answered) = questions.join_next_with_id().await {
            let (question, output) = match answered {
                Ok(answered) => answered,
                Err(error) => (error.id(), tools::failed(&error)),
            };
            if let Some((place, id)) = places.remove(&question) {
                results[place] = Some(self.result(id, output).await);
            }
        }
        results.into_iter().flatten().collect()
    }

    /// Reports the end of a call and returns its output for the model.
    async fn result(&self, id: String, mut output: ToolOutput) -> ResponseItem {
        // A file may contain a secret.
        redacted::text(self.redactor, &mut output.text);
        self.report_end(&id, &output).await;
        ResponseItem::function_output(id, output.text)
    }

    async fn report_start(&self, id: &str, name: &str, input: &str) {
        let owned = |text: &str| Cow::Owned(text.to_owned());
        let (id, name, input) = (owned(id), owned(name), owned(input));
        self.report(AgentEventKind::ToolStarted { id, name, input }).await;
    }

    async fn report_end(&self, id: &str, output: &ToolOutput) {
        let owned = |text: &str| Cow::Owned(text.to_owned());
        let (id, ok, output) = (owned(id), output.ok, owned(&output.text));
        self.report(AgentEventKind::ToolFinished { id, ok, output }).await;
    }

    /// Fails if an earlier compaction in this turn failed or did not help.
    fn expect_use_of_compaction(&mut self) -> Result<(), Failure> {
        let compaction = &mut self.progress.compaction;
        compaction.requests += 1;
        if let Some(why) = &compaction.futile {
            return Err(Failure::new(FailureReason::ContextFull, why.clone()));
        }
        if compaction.requests > MAX_COMPACTION_REQUESTS {
            let message =
                format!("the thread could not be compacted in {MAX_COMPACTION_REQUESTS} requests");
            return Err(Failure::new(FailureReason::ContextFull, message));
        }
        Ok(())
    }

    /// Records the result of a compaction.
    async fn after_compaction(
        &mut self,
        thread: &mut Thread<'_>,
        next: Option<&Step>,
        error: Option<&CallError>,
    ) {
        if matches!(next, Some(Step::Send(request)) if request.purpose == RequestPurpose::Compaction)
        {
            return;
        }
        self.progress.compaction.requests = 0;
        let lines = self.progress.lines.len();
        self.progress.note(thread);
        let compacted = self.progress.lines[lines..].iter();
        let has_compacted = compacted.into_iter().any(|line| line.starts_with("{\"compacted\":"));
        if !has_compacted {
            let why = error.map_or_else(|| "unknown reason".to_owned(), ToString::to_string);
            let message = format!("the thread could not be compacted: {why}");
            self.progress.compaction.futile = Some(message.clone());
            self.warn(Diagnostic::new(diagnostics::THREAD_COMPACTION_FAILED, message)).await;
            return;
        }
        self.progress.compaction.done += 1;
        let now = thread.token_usage();
        match thread.compaction_limit() {
            Some(limit) if now >= limit => {
                let message = format!(
                    "compacting the thread did not help: {now} tokens remain, but the limit is {limit}"
                );
                self.progress.compaction.futile = Some(message.clone());
                self.warn(Diagnostic::new(diagnostics::THREAD_COMPACTION_USELESS, message)).await;
            }
            _ => {
                let message = format!("the thread was compacted to about {now} tokens");
                self.progress
                    .compaction
                    .unreported
                    .push(Diagnostic::new(diagnostics::THREAD_COMPACTED, message));
            }
        }
    }

    async fn warn(&mut self, diagnostic: Diagnostic) {
        self.side.warn(diagnostic.clone()).await;
        self.progress.diagnostics.push(diagnostic);
    }

    async fn report(&self, kind: AgentEventKind<'static>) {
        self.side.send(AgentEvent::own(kind)).await;
    }
}

/// Converts a storage error: a request that cannot be stored is not sent.
fn unstored(error: ThreadStoreError) -> Failure {
    log_failure(&error.into())
}

/// Returns the messages of a response.
fn texts(items: &[ResponseItem]) -> String {
    let messages = items.iter().filter_map(|item| match item {
        ResponseItem::Message(message) if message.role == "assistant" => {
            Some(message.content.iter().map(ContentItem::text).collect::<String>())
        }
        _ => None,
    });
    messages.collect::<Vec<_>>().join("\n\n")
}

fn custom_output(call_id: String, output: String) -> ResponseItem {
    ResponseItem::CustomToolCallOutput(convoke_thread::item::CustomToolCallOutput {
        call_id,
        output,
    })
}

/// Converts an error to a failure. The client has already retried, so it is final.
fn as_thread_failure(error: &CallError) -> ResponseFailure {
    match error.reason() {
        FailureReason::ContextFull => ResponseFailure::ContextWindowExceeded,
        _ => ResponseFailure::Fatal(error.to_string()),
    }
}
