//! A compaction: the request for a summary, its retries, and the new history.

use std::sync::Arc;

use super::settings::TurnContext;
use super::turn::{
    ModelResponse, ResponseFailure, RetryCounts, RetryPolicy, State, Step, TurnOutcome,
};
use super::{Thread, ThreadError};
use crate::compaction;
use crate::history::{Entry, History, Section};
use crate::item::ResponseItem;
use crate::prompt::{Request, RequestPurpose};
use crate::record::Event;
use crate::user_input::UserInput;

/// A running compaction.
#[derive(Debug)]
pub(super) struct Compacting {
    context: TurnContext,
    /// The history to send; its oldest items are removed until it fits.
    history: History,
    request: Arc<Request>,
    place: CompactionPlace,
    tries: RetryCounts,
    then: AfterCompaction,
}

impl Compacting {
    /// Returns the input of the turn that was to follow.
    pub(super) fn into_inputs(self) -> Option<Vec<UserInput>> {
        match self.then {
            AfterCompaction::Begin(inputs) => Some(inputs),
            AfterCompaction::Finish | AfterCompaction::Continue => None,
        }
    }
}

/// Where the compaction happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CompactionPlace {
    /// In the model, which writes a summary.
    Local,
    /// In the server.
    Remote,
}

/// The step after a compaction.
#[derive(Debug)]
pub(super) enum AfterCompaction {
    /// End the turn.
    Finish,
    /// Start the turn that was about to begin.
    Begin(Vec<UserInput>),
    /// Continue the interrupted turn.
    Continue,
}

impl Thread<'_> {
    /// Compacts the thread now.
    pub fn begin_compaction(&mut self) -> Result<Step, ThreadError> {
        self.expect_idle()?;
        let context = TurnContext {
            settings: self.settings.clone(),
            model: self.model()?,
            output_schema: None,
        };
        self.compact(context, AfterCompaction::Finish)
    }

    /// Abandons a manual compaction; the thread is unchanged.
    pub fn abandon_compaction(&mut self) {
        if let State::Compacting(compacting) = &self.state
            && matches!(compacting.then, AfterCompaction::Finish)
        {
            self.state = State::Idle;
        }
    }

    /// Starts a compaction, followed by `then`.
    pub(super) fn compact(
        &mut self,
        context: TurnContext,
        then: AfterCompaction,
    ) -> Result<Step, ThreadError> {
        let remote = self.config.provider.compacts() && self.config.remote_compaction;
        let mut history = self.history.clone();
        let place = if remote { CompactionPlace::Remote } else { CompactionPlace::Local };
        if place == CompactionPlace::Local {
            let prompt = self.config.compact_prompt.as_ref();
            let prompt = prompt.unwrap_or(&self.setup.pack.compaction.prompt);
            let policy = context.model.settings.truncation_policy;
            let item = ResponseItem::user(prompt.as_str());
            let entry = Entry::in_section(Section::CompactionPrompt, item);
            history.record(entry, policy, &mut self.diagnostics);
        }
        self.send_compaction(context, history, place, then)
    }

    fn send_compaction(
        &mut self,
        context: TurnContext,
        history: History,
        place: CompactionPlace,
        then: AfterCompaction,
    ) -> Result<Step, ThreadError> {
        let request = self.build(&context, &history, RequestPurpose::Compaction, place)?;
        let request = Arc::new(self.with_diagnostics(request));
        self.state = State::Compacting(Box::new(Compacting {
            context,
            history,
            request: Arc::clone(&request),
            place,
            tries: RetryCounts::default(),
            then,
        }));
        Ok(Step::Send(request))
    }

    /// Handles the response to a compaction request.
    pub(super) fn compacted(
        &mut self,
        mut compacting: Compacting,
        answer: ModelResponse,
    ) -> Result<Step, ThreadError> {
        self.reasoning_is_counted |= answer.reasoning_is_counted;
        if compacting.place == CompactionPlace::Local {
            for item in &answer.items {
                self.add_to_history(Entry::in_section(Section::Model, item.clone()));
            }
        }
        let Some(failure) = answer.failure else {
            self.count(answer.tokens);
            self.finish_compaction(&compacting, answer.items);
            return self.proceed(compacting.context, compacting.then, TurnOutcome::Finished);
        };
        let policy = match compacting.place {
            CompactionPlace::Local => RetryPolicy::AllFailures,
            CompactionPlace::Remote => RetryPolicy::ServerErrors,
        };
        if failure == ResponseFailure::ContextWindowExceeded
            && compacting.place == CompactionPlace::Local
        {
            if compacting.history.len_sent() > 1 {
                let mut history = compacting.history;
                history.drop_oldest();
                let (context, then) = (compacting.context, compacting.then);
                return self.send_compaction(context, history, compacting.place, then);
            }
            self.fill_usage(&compacting.context);
        } else if self.retries(&failure, policy, &mut compacting.tries) {
            let request = Arc::clone(&compacting.request);
            self.state = State::Compacting(Box::new(compacting));
            return Ok(Step::Send(request));
        }
        // The turn continues with the unchanged history.
        let failed = TurnOutcome::Failed(failure.into_reason());
        self.proceed(compacting.context, compacting.then, failed)
    }

    fn finish_compaction(&mut self, compacting: &Compacting, items: Vec<ResponseItem>) {
        let is_ghost = |entry: &&Entry| matches!(entry.item, ResponseItem::GhostSnapshot(_));
        let ghosts = self.history.entries().iter().filter(is_ghost);
        let ghosts: Vec<_> = ghosts.cloned().collect();
        let (message, history) = match compacting.place {
            CompactionPlace::Local => {
                let prefix = &self.setup.pack.compaction.summary_prefix;
                let summary = compaction::summary(&self.history, prefix);
                let message = summary.item.texts().collect();
                self.rebuild(&compacting.context, summary);
                (message, None)
            }
            CompactionPlace::Remote => {
                let entry = |item: ResponseItem| Entry::in_section(Section::Summary, item);
                let entries: Vec<_> = items.into_iter().map(entry).collect();
                self.history.replace(entries.clone());
                (String::new(), Some(entries))
            }
        };
        let mut entries = std::mem::take(&mut self.history).into_entries();
        entries.extend(ghosts);
        self.history.replace(entries);
        self.recount();
        self.journal.push(Event::Compacted { message, history });
    }

    /// Returns the step after a compaction.
    fn proceed(
        &mut self,
        context: TurnContext,
        then: AfterCompaction,
        outcome: TurnOutcome,
    ) -> Result<Step, ThreadError> {
        match then {
            AfterCompaction::Finish => Ok(Step::Done(outcome)),
            AfterCompaction::Begin(inputs) => self.begin(context, &inputs),
            AfterCompaction::Continue => self.sample(context),
        }
    }
}
