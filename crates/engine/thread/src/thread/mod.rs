//! A thread: its settings, its history, and the requests of its turns.
//!
//! A thread sends nothing itself. [`Thread::begin_turn`] and similar methods return the next [`Step`]; the
//! caller sends the request or runs the tools and reports back, until the turn is done.

mod compact;
mod context;
mod continuation;
mod settings;
mod turn;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use convoke_core::Fragment;
use convoke_core::diagnostic::Diagnostic;
use convoke_core::ledger::Source;
use convoke_core::name::nearest;
use serde_json::Value;

use crate::command_rules::{self, Prefix};
use crate::compaction;
use crate::config::{Config, Machine};
use crate::history::{Entry, History, Section};
use crate::instructions::{BaseInstructions, BaseSource};
use crate::model::{ModelFacts, ModelInfo};
use crate::pack::Pack;
use crate::project_doc::{Rules, Settings as DocSettings};
use crate::record::{Event, Record, Usage};
use crate::skills::{self, Skill};
use crate::user_instructions::{self, UserInstructions};
use convoke_files::Files;

pub use continuation::LastSituation;
pub use settings::{CollaborationMode, Settings, TurnOverrides};
pub use turn::{ModelResponse, ResponseFailure, Step, TurnOutcome};

use crate::diagnostics;
use settings::TurnContext;
use turn::State;

/// The inputs of threads.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// The files. A thread can move between the threads of a runtime.
    pub files: &'a (dyn Files + Sync),
    /// The texts and model settings.
    pub pack: &'a Pack,
    /// The machine and its user.
    pub machine: &'a Machine,
    /// The models that a server listed, if it was asked.
    pub listed_models: &'a [ModelFacts],
}

/// An error of starting or continuing a thread.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ThreadError {
    /// The pack has no settings for a model.
    #[error("the pack {pack} has no settings for the model `{model}`: add an entry to models.json")]
    UnknownModel {
        model: String,
        /// The pack's name.
        pack: String,
    },
    /// The request cannot be built.
    #[error(transparent)]
    Request(#[from] crate::prompt::RequestError),
    /// A response or result was reported out of order.
    #[error("the thread is not waiting for {0}")]
    NotWaiting(&'static str),
}

/// A thread.
pub struct Thread<'a> {
    setup: Setup<'a>,
    config: Config,
    id: String,
    base_instructions: BaseInstructions,
    user_instructions: Option<UserInstructions>,
    prefixes: Vec<Prefix>,
    skills: HashMap<PathBuf, Vec<Skill>>,
    tools: Vec<Value>,
    settings: Settings,
    /// The turn that changes are compared with.
    previous: TurnContext,
    /// The model of the last turn before a resume, until the first turn after it.
    resumed_model: Option<String>,
    /// Whether the initial context is in the history.
    seeded: bool,
    history: History,
    usage: Usage,
    reasoning_is_counted: bool,
    journal: Vec<Event>,
    diagnostics: Vec<Diagnostic>,
    /// User input received during a turn and not yet sent.
    steered: Vec<Entry>,
    state: State,
}

impl<'a> Thread<'a> {
    /// Starts a new thread.
    pub fn start(setup: Setup<'a>, config: Config, id: &str) -> Result<Self, ThreadError> {
        let mut thread = Self::new(setup, config, id, None)?;
        thread.seed();
        Ok(thread)
    }

    /// Continues a recorded thread under its own id.
    ///
    /// The initial context of the new run is added with the first turn, after the restored history, because
    /// that turn may still change the settings.
    pub fn resume(setup: Setup<'a>, config: Config, record: &Record) -> Result<Self, ThreadError> {
        let mut thread = Self::new(setup, config, &record.id, record.base())?;
        thread.restore(record);
        thread.set_resumed_model(record);
        Ok(thread)
    }

    /// Starts a new thread with the history of a recorded one.
    pub fn fork(
        setup: Setup<'a>,
        config: Config,
        record: &Record,
        id: &str,
    ) -> Result<Self, ThreadError> {
        let mut thread = Self::new(setup, config, id, record.base())?;
        thread.restore(record);
        thread.journal.clone_from(&record.events);
        thread.seed();
        Ok(thread)
    }

    fn new(
        setup: Setup<'a>,
        config: Config,
        id: &str,
        restored_base: Option<(&str, BaseSource)>,
    ) -> Result<Self, ThreadError> {
        let settings = Settings::new(&config);
        let mut diagnostics = config.diagnostics.clone();
        let slug = &settings.collaboration.model;
        let model = find_model(setup, &config, slug, &mut diagnostics)?;
        let given = config.model_overrides.base_instructions.as_deref();
        let base_instructions =
            BaseInstructions::resolve(given, restored_base, &model, config.personality);
        let mut prefixes = Vec::new();
        for folder in &config.rule_folders {
            let found = command_rules::approved_prefixes(setup.files, folder, &mut diagnostics);
            prefixes.extend(found);
        }
        let mut thread = Self {
            setup,
            id: id.to_owned(),
            base_instructions,
            user_instructions: None,
            prefixes,
            skills: HashMap::new(),
            tools: Vec::new(),
            previous: TurnContext { settings: settings.clone(), model, output_schema: None },
            settings,
            resumed_model: None,
            seeded: false,
            history: History::default(),
            usage: Usage::default(),
            reasoning_is_counted: false,
            journal: Vec::new(),
            diagnostics,
            steered: Vec::new(),
            state: State::Idle,
            config,
        };
        thread.find_skills();
        thread.read_user_instructions();
        Ok(thread)
    }

    /// Returns the thread's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the instructions of every request of the thread.
    pub fn base_instructions(&self) -> &BaseInstructions {
        &self.base_instructions
    }

    /// Returns the history.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Returns the settings of the next turn.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the estimated tokens of the next request.
    pub fn token_usage(&self) -> u64 {
        let past_reasoning =
            if self.reasoning_is_counted { 0 } else { self.history.estimate_past_reasoning() };
        let uncounted = match self.setup.pack.shape {
            crate::pack::Shape::Codex0_94 => 0,
            crate::pack::Shape::Codex0_98 => self.history.estimate_uncounted(),
        };
        self.usage.last.saturating_add(past_reasoning).saturating_add(uncounted)
    }

    /// Returns the number of tokens at which the thread is compacted, if its model has a limit.
    pub fn compaction_limit(&self) -> Option<u64> {
        self.previous.model.auto_compact_limit()
    }

    /// Returns the maximum size of a tool's output that is not truncated.
    pub fn output_bytes(&self) -> u64 {
        self.previous.model.settings.truncation_policy.with_allowance().max_bytes()
    }

    /// Sets the tools that requests offer, in the format of the Responses API.
    pub fn set_tools(&mut self, tools: Vec<Value>) {
        self.tools = tools;
    }

    /// Returns the record of a new thread, without its events.
    pub fn record_start(&self) -> Record {
        Record {
            id: self.id.clone(),
            cwd: Some(self.config.cwd.clone()),
            base_instructions: Some(self.base_instructions.text.clone()),
            base_source: self.base_instructions.source,
            codex_version: None,
            events: Vec::new(),
        }
    }

    /// Takes the events since the last call, for the thread's record.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.journal)
    }

    /// Takes the diagnostics that no request has reported yet.
    pub fn take_diagnostics(&mut self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.diagnostics)
    }

    /// Rolls back the last turns.
    pub fn roll_back(&mut self, turns: usize) {
        self.history.roll_back(turns, self.config.user_messages);
        self.recount();
        self.journal.push(Event::RolledBack { turns });
    }

    /// Adds a command prefix that the user has approved, and a message about it for the model.
    pub fn approve_prefix(&mut self, prefix: Prefix) {
        let words = prefix.iter().map(|word| Value::from(word.as_str()).to_string());
        let words: Vec<_> = words.collect();
        let text = format!("Approved command prefix saved:\n- [{}]", words.join(", "));
        self.prefixes.push(prefix);
        let section = Section::Permissions;
        let text = Fragment::new(text, Source::convoke("note"));
        self.record(Entry::of_fragment("developer", section, text));
    }

    /// Adds the initial context to the history.
    fn seed(&mut self) {
        let context = self.previous.clone();
        self.seed_with(&context);
    }

    fn seed_with(&mut self, context: &TurnContext) {
        let mut diagnostics = Vec::new();
        let entries = self.build_initial_context(context, &mut diagnostics);
        self.diagnostics.append(&mut diagnostics);
        for entry in entries {
            self.record(entry);
        }
        self.seeded = true;
    }

    /// Adds an item to the history and to the events.
    fn record(&mut self, entry: Entry) {
        self.journal.push(Event::Item(entry.clone()));
        self.add_to_history(entry);
    }

    /// Adds an item to the history only.
    fn add_to_history(&mut self, entry: Entry) {
        let policy = self.previous.model.settings.truncation_policy;
        self.history.record(entry, policy, &mut self.diagnostics);
    }

    /// Estimates the tokens of a history that no server has counted.
    fn recount(&mut self) {
        self.usage.last = self.history.estimate_tokens(&self.base_instructions.text);
        self.journal.push(Event::Usage(self.usage));
    }

    fn restore(&mut self, record: &Record) {
        self.replay(record);
        // Codex records a restored history again, so a text barely over the limit is truncated twice.
        let restored = std::mem::take(&mut self.history).into_entries();
        for entry in restored {
            self.add_to_history(entry);
        }
    }

    /// Sets the model of the last turn before a resume, if it differs.
    fn set_resumed_model(&mut self, record: &Record) {
        let last_model = record.last_model().filter(|last| *last != self.previous.model.slug);
        self.resumed_model = last_model.map(str::to_owned);
    }

    /// Restores the history from a record.
    fn replay(&mut self, record: &Record) {
        let restored = |entry: &Entry| Entry { is_restored: true, ..entry.clone() };
        for event in &record.events {
            match event {
                Event::Item(entry) => self.add_to_history(restored(entry)),
                Event::Compacted { history: Some(entries), .. } => {
                    self.history.replace(entries.iter().map(restored).collect());
                }
                Event::Compacted { message, history: None } => {
                    let context = self.previous.clone();
                    let source = Source::History { index: None };
                    let text = Fragment::new(message.clone(), source);
                    let summary = Entry::of_fragment("user", Section::Summary, text);
                    self.rebuild(&context, restored(&summary));
                }
                Event::RolledBack { turns } => {
                    self.history.roll_back(*turns, self.config.user_messages);
                }
                Event::Turn { .. } | Event::Usage(_) => {}
            }
        }
        self.usage = record.last_usage().unwrap_or_default();
    }

    /// Replaces the history with the compacted one.
    fn rebuild(&mut self, context: &TurnContext, summary: Entry) {
        let mut diagnostics = Vec::new();
        let initial_context = self.build_initial_context(context, &mut diagnostics);
        let prefix = &self.setup.pack.compaction.summary_prefix;
        let entries = compaction::rebuild(
            initial_context,
            &self.history,
            summary,
            prefix,
            self.config.user_messages,
            &mut diagnostics,
        );
        self.history.replace(entries);
        self.diagnostics.append(&mut diagnostics);
    }

    /// Returns the model of the next turn.
    fn model(&mut self) -> Result<Arc<ModelInfo>, ThreadError> {
        let slug = &self.settings.collaboration.model;
        if self.previous.model.slug == *slug {
            return Ok(Arc::clone(&self.previous.model));
        }
        find_model(self.setup, &self.config, slug, &mut self.diagnostics)
    }

    /// Finds the skills of the working directory, once per directory.
    fn find_skills(&mut self) -> &[Skill] {
        let cwd = &self.settings.cwd;
        if !self.skills.contains_key(cwd) {
            let places = skills::SkillSearch {
                cwd,
                machine: self.setup.machine,
                config: &self.config,
                shape: self.setup.pack.shape,
                system: &self.setup.pack.skills.system,
            };
            let found = skills::find(self.setup.files, &places, &mut self.diagnostics);
            self.skills.insert(cwd.clone(), found);
        }
        self.skills.get(&self.settings.cwd).map_or(&[], Vec::as_slice)
    }

    fn read_user_instructions(&mut self) {
        let pack = self.setup.pack;
        let skills = self.skills.get(&self.settings.cwd).map_or(&[][..], Vec::as_slice);
        let settings = DocSettings {
            rules: Rules::V0_98,
            cwd: &self.config.cwd,
            max_bytes: self.config.project_doc_max_bytes,
            fallback_names: &self.config.project_doc_fallback_names,
            root_markers: &self.config.project_root_markers,
            trust: self.config.trust,
        };
        self.user_instructions = user_instructions::read(
            self.setup.files,
            &self.setup.machine.codex_home,
            &settings,
            skills::render_list(skills, &pack.skills),
            self.config.child_agents_md.then_some(&*pack.child_agents),
            &mut self.diagnostics,
        );
    }
}

fn find_model(
    setup: Setup<'_>,
    config: &Config,
    slug: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Arc<ModelInfo>, ThreadError> {
    let pack = setup.pack;
    let overrides = &config.model_overrides;
    let found = ModelInfo::find(slug, setup.listed_models, &pack.models, overrides);
    let model = found.ok_or_else(|| ThreadError::UnknownModel {
        model: slug.to_owned(),
        pack: pack.name.clone(),
    })?;
    // If a context window is configured, the user knows that the model is unlisted.
    if model.is_unknown && overrides.context_window.is_none() {
        diagnostics.push(unknown_model(setup, &model));
    }
    Ok(Arc::new(model))
}

fn unknown_model(setup: Setup<'_>, model: &ModelInfo) -> Diagnostic {
    let known = setup.listed_models.iter().chain(&setup.pack.models);
    let names = known.flat_map(|facts| facts.matches.names()).map(String::as_str);
    let meant = nearest(&model.slug, names).map(|name| format!("; did you mean `{name}`?"));
    let window = match model.settings.context_window {
        Some(tokens) => format!("a context window of {tokens} tokens is assumed"),
        None => "no context window is assumed".to_owned(),
    };
    let message =
        format!("the model `{}` is unknown: {window}{}", model.slug, meant.unwrap_or_default());
    Diagnostic::new(diagnostics::MODEL_UNKNOWN, message)
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
