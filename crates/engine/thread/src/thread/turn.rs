//! The state machine of a turn: requests, tools and compaction.

use std::sync::Arc;

use super::compact::{AfterCompaction, Compacting, CompactionPlace};
use super::settings::{TurnContext, TurnOverrides};
use super::{Thread, ThreadError};
use crate::history::{Entry, History, Section, normalize};
use crate::item::ResponseItem;
use crate::prompt::{
    Prompt, Request, RequestError, RequestPurpose, build_api_prompt, build_remote_compaction,
};
use crate::record::{Event, Usage};
use crate::skills;
use crate::user_input::{self, UserInput};

/// The next step, for the caller to run.
#[derive(Debug)]
pub enum Step {
    /// Send this request and report with [`Thread::answer`].
    Send(Arc<Request>),
    /// Run these calls and report with [`Thread::tool_results`].
    RunTools(Vec<ResponseItem>),
    /// The turn is over.
    Done(TurnOutcome),
}

/// The outcome of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnOutcome {
    /// The model has answered.
    Finished,
    /// The turn failed, for this reason.
    Failed(String),
}

/// A response.
#[derive(Debug, Clone, Default)]
pub struct ModelResponse {
    /// The items that arrived.
    pub items: Vec<ResponseItem>,
    /// All tokens of the request and the response.
    pub tokens: Option<u64>,
    /// Whether the server counts past reasoning.
    pub reasoning_is_counted: bool,
    /// The failure, if there is one.
    pub failure: Option<ResponseFailure>,
}

/// A failure of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseFailure {
    /// The stream ended early, or has an error event.
    Stream(String),
    /// A server error (HTTP 5xx).
    Server(String),
    /// The request was too long for the model.
    ContextWindowExceeded,
    /// A failure that a retry cannot fix.
    Fatal(String),
}

/// The state of a thread.
#[derive(Debug, Default)]
pub(super) enum State {
    /// Waiting for a turn.
    #[default]
    Idle,
    /// Waiting for the response to a request.
    Sampling { context: TurnContext, request: Arc<Request>, tries: RetryCounts },
    /// Waiting for tool results.
    Tools { context: TurnContext },
    /// Waiting for the response to a compaction request.
    Compacting(Box<Compacting>),
}

/// The failures after which a request is retried.
#[derive(Debug, Clone, Copy)]
pub(super) enum RetryPolicy {
    /// Transient failures.
    Transient,
    /// All failures, for a local compaction.
    AllFailures,
    /// Only server errors, for a compaction by the server.
    ServerErrors,
}

/// The number of retries.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RetryCounts {
    stream: u64,
    server: u64,
}

impl Thread<'_> {
    /// Starts a turn with the user's input.
    pub fn begin_turn(
        &mut self,
        inputs: Vec<UserInput>,
        overrides: &TurnOverrides,
    ) -> Result<Step, ThreadError> {
        self.expect_idle()?;
        self.settings.apply(overrides);
        let context = TurnContext {
            settings: self.settings.clone(),
            model: self.model()?,
            output_schema: overrides.output_schema.clone(),
        };
        // Items of this turn are truncated by the policy of this turn's model.
        let before = std::mem::replace(&mut self.previous, context.clone());
        if !self.seeded {
            self.seed_with(&context);
        }
        let resumed_model = self.resumed_model.take();
        let mut diagnostics = Vec::new();
        let updates =
            self.build_updates(&before, &context, resumed_model.as_deref(), &mut diagnostics);
        self.diagnostics.append(&mut diagnostics);
        for entry in updates {
            self.record(entry);
        }
        if self.is_full(&context) {
            return self.compact(context, AfterCompaction::Begin(inputs));
        }
        self.begin(context, &inputs)
    }

    /// Reports the response to the last request.
    pub fn answer(&mut self, answer: ModelResponse) -> Result<Step, ThreadError> {
        match std::mem::take(&mut self.state) {
            State::Sampling { context, request, tries } => {
                self.sampled(context, request, tries, answer)
            }
            State::Compacting(compacting) => self.compacted(*compacting, answer),
            other => {
                self.state = other;
                Err(ThreadError::NotWaiting("an answer"))
            }
        }
    }

    /// Reports the tool results, and other items that arrived while the tools ran.
    pub fn tool_results(&mut self, results: Vec<ResponseItem>) -> Result<Step, ThreadError> {
        match std::mem::take(&mut self.state) {
            State::Tools { context } => {
                for item in results {
                    self.record(Entry::in_section(Section::Tool, item));
                }
                if self.is_full(&context) {
                    return self.compact(context, AfterCompaction::Continue);
                }
                self.sample(context)
            }
            other => {
                self.state = other;
                Err(ThreadError::NotWaiting("results of tools"))
            }
        }
    }

    /// Ends the turn because the user interrupted it, after the last tool results. The user's input is kept,
    /// even if a compaction was to come first.
    pub fn interrupt(&mut self, results: Vec<ResponseItem>) {
        if let State::Compacting(compacting) = std::mem::take(&mut self.state)
            && let Some(inputs) = compacting.into_inputs()
        {
            self.record_inputs(&inputs);
        }
        self.steered.clear();
        for item in results {
            self.record(Entry::in_section(Section::Tool, item));
        }
        let text = self.setup.pack.wrappers.turn_aborted.as_str();
        self.record(Entry::in_section(Section::TurnAborted, ResponseItem::user(text)));
    }

    /// Adds user input during a turn, without context changes or skills.
    ///
    /// It is sent with the next request of the turn.
    pub fn steer(&mut self, inputs: &[UserInput]) {
        let message = self.user_message(inputs);
        self.steered.push(message);
    }

    pub(super) fn expect_idle(&self) -> Result<(), ThreadError> {
        match self.state {
            State::Idle => Ok(()),
            _ => Err(ThreadError::NotWaiting("a turn: the last one is not over")),
        }
    }

    fn user_message(&mut self, inputs: &[UserInput]) -> Entry {
        let base = &self.setup.machine.cwd;
        user_input::message(self.setup.files, base, inputs, &mut self.diagnostics)
    }

    /// Records the user's input and creates the request.
    pub(super) fn begin(
        &mut self,
        context: TurnContext,
        inputs: &[UserInput],
    ) -> Result<Step, ThreadError> {
        self.record_inputs(inputs);
        self.sample(context)
    }

    fn record_inputs(&mut self, inputs: &[UserInput]) {
        let message = self.user_message(inputs);
        self.record(message);
        for entry in self.mentioned_skills(inputs) {
            self.record(entry);
        }
    }

    fn mentioned_skills(&mut self, inputs: &[UserInput]) -> Vec<Entry> {
        let files = self.setup.files;
        let mut diagnostics = Vec::new();
        let texts = user_input::texts(inputs);
        let skills = self.find_skills();
        let chosen = skills::mentioned(skills, &texts, &mut diagnostics);
        let entries = chosen.into_iter().filter_map(|skill| {
            let instructions = skills::inject(files, skill, &mut diagnostics)?;
            Some(Entry::message("user", Section::Skill, instructions.render()))
        });
        let entries = entries.collect();
        self.diagnostics.append(&mut diagnostics);
        entries
    }

    pub(super) fn sample(&mut self, context: TurnContext) -> Result<Step, ThreadError> {
        for message in std::mem::take(&mut self.steered) {
            self.record(message);
        }
        let model = context.model.slug.clone();
        self.journal.push(Event::Turn { model });
        let built =
            self.build(&context, &self.history, RequestPurpose::Answer, CompactionPlace::Local);
        let request = match built {
            // Codex detects this only here, and ends the turn.
            Err(error @ RequestError::SchemaOnChat) => {
                return Ok(Step::Done(TurnOutcome::Failed(error.to_string())));
            }
            other => Arc::new(self.with_diagnostics(other?)),
        };
        self.state = State::Sampling {
            context,
            request: Arc::clone(&request),
            tries: RetryCounts::default(),
        };
        Ok(Step::Send(request))
    }

    fn sampled(
        &mut self,
        context: TurnContext,
        request: Arc<Request>,
        mut tries: RetryCounts,
        answer: ModelResponse,
    ) -> Result<Step, ThreadError> {
        let calls: Vec<_> = answer.items.iter().filter(|it| it.is_tool_call()).cloned().collect();
        for item in answer.items {
            self.record(Entry::in_section(Section::Model, item));
        }
        self.reasoning_is_counted |= answer.reasoning_is_counted;
        match answer.failure {
            None => {}
            Some(ResponseFailure::ContextWindowExceeded) => {
                self.fill_usage(&context);
                let reason = "the thread no longer fits into the model's context window";
                return Ok(Step::Done(TurnOutcome::Failed(reason.to_owned())));
            }
            Some(failure) => {
                if !self.retries(&failure, RetryPolicy::Transient, &mut tries) {
                    return Ok(Step::Done(TurnOutcome::Failed(failure.into_reason())));
                }
                self.state = State::Sampling { context, request: Arc::clone(&request), tries };
                return Ok(Step::Send(request));
            }
        }
        self.count(answer.tokens);
        if calls.is_empty() && self.steered.is_empty() {
            return Ok(Step::Done(TurnOutcome::Finished));
        }
        self.state = State::Tools { context };
        if calls.is_empty() {
            return self.tool_results(Vec::new());
        }
        Ok(Step::RunTools(calls))
    }

    fn is_full(&self, context: &TurnContext) -> bool {
        let limit = context.model.auto_compact_limit();
        limit.is_some_and(|limit| self.token_usage() >= limit)
    }

    pub(super) fn count(&mut self, tokens: Option<u64>) {
        if let Some(last) = tokens {
            let total = self.usage.total.saturating_add(last);
            self.usage = Usage { last, total };
            self.journal.push(Event::Usage(self.usage));
        }
    }

    /// Counts the context window as full.
    pub(super) fn fill_usage(&mut self, context: &TurnContext) {
        let settings = &context.model.settings;
        let percent = settings.effective_context_window_percent.unwrap_or(95);
        if let Some(window) = settings.context_window {
            let window = window.saturating_mul(percent) / 100;
            self.usage = Usage { last: window.saturating_sub(self.usage.total), total: window };
            self.journal.push(Event::Usage(self.usage));
        }
    }

    /// Returns whether a request is retried, and counts the retry.
    pub(super) fn retries(
        &self,
        failure: &ResponseFailure,
        policy: RetryPolicy,
        tries: &mut RetryCounts,
    ) -> bool {
        let provider = &self.config.provider;
        if matches!(failure, ResponseFailure::Server(_))
            && tries.server < provider.request_max_retries
        {
            tries.server += 1;
            return true;
        }
        let may_succeed = match policy {
            RetryPolicy::Transient => {
                matches!(failure, ResponseFailure::Server(_) | ResponseFailure::Stream(_))
            }
            RetryPolicy::AllFailures => true,
            RetryPolicy::ServerErrors => false,
        };
        tries.server = 0;
        tries.stream += 1;
        may_succeed && tries.stream <= provider.stream_max_retries
    }

    pub(super) fn build(
        &self,
        context: &TurnContext,
        history: &History,
        purpose: RequestPurpose,
        place: CompactionPlace,
    ) -> Result<Request, RequestError> {
        let mut diagnostics = Vec::new();
        let prompt = Prompt {
            model: &context.model,
            instructions: &self.base_instructions,
            input: normalize(history.entries(), &mut diagnostics),
            tools: match purpose {
                RequestPurpose::Answer => &self.tools,
                RequestPurpose::Compaction => &[],
            },
            effort: context.settings.collaboration.effort.as_deref(),
            summary: &context.settings.summary,
            verbosity: self.config.verbosity.as_deref(),
            output_schema: context
                .output_schema
                .as_ref()
                .filter(|_| purpose == RequestPurpose::Answer),
            cache_key: &self.id,
            purpose,
            summary_prefix: &self.setup.pack.compaction.summary_prefix,
        };
        match place {
            CompactionPlace::Local => build_api_prompt(prompt, &self.config.provider, diagnostics),
            CompactionPlace::Remote => Ok(build_remote_compaction(&prompt, diagnostics)),
        }
    }

    /// Adds the diagnostics since the last request.
    pub(super) fn with_diagnostics(&mut self, mut request: Request) -> Request {
        let mut diagnostics = self.take_diagnostics();
        diagnostics.append(&mut request.diagnostics);
        request.diagnostics = diagnostics;
        request
    }
}

impl ResponseFailure {
    pub(super) fn into_reason(self) -> String {
        match self {
            Self::Stream(reason) | Self::Server(reason) | Self::Fatal(reason) => reason,
            Self::ContextWindowExceeded => "the context window is exceeded".to_owned(),
        }
    }
}
