//! The model member: an agent whose thread is in a store.
//!
//! A turn is stored atomically: a failed turn leaves the thread unchanged and can be retried, and a crash loses
//! nothing that was acknowledged. A cancelled turn is stored as cancelled. If the caller writes the thread, the
//! lines are returned with the result instead.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use convoke_agent::Programs;
use convoke_agent::config::{ApiDeveloperRole, ApiTools, ApiWire};
use convoke_agent::sandbox::Secrets;
use convoke_agent::thread::ThreadStore;
use convoke_agent::turn::{Continuity, TurnSide};
use convoke_agent::turn_input::{ThreadWriter, TurnInput};
use convoke_agent::{Agent, AgentTurn, TurnResult};
use convoke_core::Diagnostic;
use convoke_core::ledger::{Entry, Ledger, Source, Target, estimate_tokens};
use convoke_protocol::agent_event::{AgentEvent, AgentEventKind};
use convoke_protocol::id::ThreadId;
use convoke_protocol::request::RequestEnd;
use convoke_protocol::resume::ResumeHandle;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use convoke_redact::Redactor;
use convoke_thread::config::{Config, DeveloperRole, Machine, Overrides, Provider, Wire};
use convoke_thread::history::UserMessages;
use convoke_thread::pack::Pack;
use convoke_thread::permissions::{ApprovalPolicy, SandboxPolicy};
use convoke_thread::thread::{Setup, Step, Thread, TurnOverrides};
use convoke_thread::user_input::UserInput;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

use crate::client::{CallLimits, Client};
use crate::diagnostics;
use crate::endpoint::{Endpoint, Proxies};
use crate::progress::Progress;
use crate::project_files::ProjectFiles;
use crate::redacted;
use crate::secret::Key;
use crate::sent::Recorder;
use crate::settings::Settings;
use crate::stored_thread::{LoadedThread, LogError};
use crate::tools::{Toolbox, team_specs};
use crate::turn::Driver;

/// The maximum time without data from a server.
const MAX_SILENCE: Duration = Duration::from_mins(5);

/// The facts about the machine that a member needs, besides the files of the directory.
#[derive(Clone)]
pub struct Host {
    /// The environment, which contains the key and the proxies.
    pub env: Vec<(OsString, OsString)>,
    /// The machine and its user. The working directory is that of each turn.
    pub machine: Machine,
    /// The prompt texts and model settings.
    pub pack: Arc<Pack>,
    /// The store of threads. It is read even if the caller writes the thread.
    pub store: Arc<dyn ThreadStore>,
    /// Convoke's own directories, which no member reads.
    pub private: Vec<PathBuf>,
    /// The programs that are known, whose secrets no member reads.
    pub programs: Programs,
}

/// A model that takes turns.
#[derive(Clone)]
pub struct ModelAgent {
    settings: Arc<Settings>,
    host: Arc<Host>,
}

impl ModelAgent {
    /// Creates a member.
    pub fn new(settings: Settings, host: Host) -> Self {
        Self { settings: Arc::new(settings), host: Arc::new(host) }
    }

    /// Starts to compact a thread. The reply is the summary; the prompt of the input is ignored.
    pub fn start_compaction(&self, turn_input: TurnInput) -> AgentTurn {
        self.begin(turn_input, Task::Compact)
    }

    fn begin(&self, turn_input: TurnInput, task: Task) -> AgentTurn {
        let (turn, side) = AgentTurn::open(self.redactor());
        let agent = self.clone();
        tokio::spawn(async move {
            let result = agent.take_turn(&turn_input, task, &side).await;
            side.finish(result).await;
        });
        turn
    }

    /// Returns the key, if there is a valid one. A turn with an invalid key fails with the reason.
    pub fn key(&self) -> Option<Key> {
        let name = self.settings.api.key_env.as_deref()?;
        Key::from_env(name, &self.host.env).ok()
    }

    /// Returns the redactor of a turn, for the key and the secrets in the environment.
    pub fn redactor(&self) -> Redactor {
        let redactor = Redactor::for_env(&self.host.env);
        self.key().map_or_else(|| redactor.clone(), |key| key.known_to(&redactor))
    }

    async fn take_turn(&self, turn_input: &TurnInput, task: Task, side: &TurnSide) -> TurnResult {
        match reading(|| self.prepare(turn_input)) {
            Ok(prepared) => prepared.take(task, side).await.unwrap_or_else(TurnResult::failed),
            Err(failure) => TurnResult::failed(failure),
        }
    }

    /// Prepares a turn. Fails if the settings are invalid.
    fn prepare<'t>(&'t self, turn_input: &'t TurnInput) -> Result<Prepared<'t>, Failure> {
        let api = &self.settings.api;
        let usage = |what: String| Failure::new(FailureReason::Usage, what);
        let model = turn_input.model.as_ref().or(self.settings.model.as_ref());
        let model = model.ok_or_else(|| usage("`model` is not set".to_owned()))?;
        let base_url = api.base_url.as_ref();
        let base_url = base_url.ok_or_else(|| usage("`base-url` is not set".to_owned()))?;
        let wire = match api.wire {
            ApiWire::Responses => Wire::Responses,
            ApiWire::Chat => Wire::Chat,
        };
        let endpoint = Endpoint::new(base_url, wire).map_err(|error| usage(error.to_string()))?;
        let key = match &api.key_env {
            Some(name) => Some(
                Key::from_env(name, &self.host.env)
                    .map_err(|error| Failure::new(FailureReason::SignedOut, error.to_string()))?,
            ),
            None => None,
        };
        let limits = CallLimits {
            idle: turn_input.limits.silence.min(MAX_SILENCE),
            total: turn_input.limits.turn,
            retries: turn_input.limits.retries,
            event_bytes: turn_input.limits.line_bytes,
            reply_bytes: turn_input.limits.reply_bytes,
            answer_bytes: turn_input.limits.output_bytes,
            ..CallLimits::default()
        };
        let proxies = Proxies::from_env(&self.host.env);
        let client = Client::new(endpoint, key, &proxies, limits)
            .map_err(|error| usage(error.to_string()))?;
        let machine = Machine { cwd: turn_input.cwd.clone(), ..self.host.machine.clone() };
        let variable = |name: &str| {
            let mut variables = self.host.env.iter().rev();
            variables.find(|(key, _)| key == name).map(|(_, value)| value.as_os_str())
        };
        let secrets = Secrets::of_user(
            machine.home.as_deref(),
            &turn_input.cwd,
            variable,
            &self.host.private,
            self.host.programs,
        );
        let toolbox = match api.tools {
            ApiTools::None => None,
            ApiTools::Read => {
                let toolbox = Toolbox::open(&turn_input.cwd)
                    .and_then(|it| it.without(&secrets, &self.host.machine.cwd));
                let toolbox = toolbox.map_err(|error| {
                    let cwd = turn_input.cwd.display();
                    Failure::new(
                        FailureReason::Start,
                        format!("cannot open the directory {cwd}: {error}"),
                    )
                })?;
                Some(toolbox)
            }
        };
        let codex_home = machine.codex_home.clone();
        let redactor = self.redactor();
        let home = machine.home.as_deref();
        let files = ProjectFiles::open(
            &turn_input.cwd,
            home,
            turn_input.trust,
            codex_home,
            redactor.clone(),
        )
        .without(secrets);
        let config = self.config(turn_input, &files, &machine, model, (base_url, wire))?;
        let thread = self.settings.thread.clone();
        let host = &*self.host;
        Ok(Prepared { host, turn_input, client, redactor, files, machine, config, toolbox, thread })
    }

    /// Creates the configuration of a thread: the directory's instruction files and skills, and read-only
    /// permissions.
    fn config(
        &self,
        turn_input: &TurnInput,
        files: &ProjectFiles,
        machine: &Machine,
        model: &str,
        (base_url, wire): (&str, Wire),
    ) -> Result<Config, Failure> {
        let overrides = Overrides { model: Some(model.to_owned()), ..Overrides::default() };
        let config = Config::load(files, machine, self.host.pack.shape, &overrides)
            .map_err(|error| Failure::new(FailureReason::Usage, error.to_string()))?;
        let mut model_overrides = config.model_overrides;
        let window = self.settings.api.context_window;
        model_overrides.context_window = window.or(model_overrides.context_window);
        if window.is_some() {
            model_overrides.auto_compact_token_limit = None;
        }
        Ok(Config {
            provider: Provider {
                name: "convoke".to_owned(),
                base_url: Some(base_url.to_owned()),
                wire,
                developer_role: match self.settings.api.developer_role {
                    ApiDeveloperRole::Developer => DeveloperRole::Developer,
                    ApiDeveloperRole::System => DeveloperRole::System,
                },
                // The client does the retries.
                stream_max_retries: 0,
                request_max_retries: 0,
            },
            approval_policy: ApprovalPolicy::Never,
            sandbox_policy: SandboxPolicy::ReadOnly,
            developer_instructions: turn_input.system.as_deref().map(|system| {
                let entries = entries_of(turn_input, Target::System);
                let setting = Source::setting("developer_instructions");
                redacted::sourced(
                    &self.redactor(),
                    system,
                    entries,
                    "developer-instructions",
                    setting,
                )
            }),
            model_overrides,
            user_messages: UserMessages::ByOrigin,
            ..config
        })
    }
}

impl Agent for ModelAgent {
    fn continuity(&self) -> Continuity {
        Continuity::Own
    }

    fn start(&self, turn_input: TurnInput) -> AgentTurn {
        self.begin(turn_input, Task::Answer)
    }
}

/// The task of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Answer,
    Compact,
}

/// A prepared turn.
struct Prepared<'t> {
    host: &'t Host,
    turn_input: &'t TurnInput,
    client: Client,
    redactor: Redactor,
    files: ProjectFiles,
    machine: Machine,
    config: Config,
    toolbox: Option<Toolbox>,
    thread: Option<ThreadId>,
}

/// One attempt at a turn.
#[derive(Clone, Copy)]
struct Attempt<'t> {
    task: Task,
    found: &'t LoadedThread,
    compaction: PriorCompaction,
    /// The deadline of the turn over all attempts.
    deadline: Instant,
}

/// The compaction before a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PriorCompaction {
    /// Compact if the turn would fill the thread.
    IfNeeded,
    /// Compact, or fail the turn.
    Required,
}

impl Prepared<'_> {
    async fn take(&self, task: Task, side: &TurnSide) -> Result<TurnResult, Failure> {
        let (found, mut diagnostics) = self.find_thread(task).await?;
        for diagnostic in &diagnostics {
            side.warn(diagnostic.clone()).await;
        }
        side.send(AgentEvent::own(AgentEventKind::Started {
            session: Some(found.id.as_str().to_owned().into()),
            model: Some(self.config.model.clone().into()),
        }))
        .await;
        let store = &*self.host.store;
        let mut recorder = Recorder::new(store, &found.id, self.turn_input.attempt);
        let deadline = Instant::now() + self.turn_input.limits.turn;
        let mut attempt =
            Attempt { task, found: &found, compaction: PriorCompaction::IfNeeded, deadline };
        let (mut ended, mut progress) = self.attempt(attempt, &mut recorder, side).await?;
        let has_begun = found.log.is_some();
        if is_full(&ended) && task == Task::Answer && !progress.has_compacted() && has_begun {
            // The server reports a lower limit than expected, so compact the thread and retry.
            attempt.compaction = PriorCompaction::Required;
            let spent = progress.usage;
            (ended, progress) = self.attempt(attempt, &mut recorder, side).await?;
            progress.spend(spent);
        }
        let verdict = match (ended, progress.stopped()) {
            (Verdict::Done, Some(failure)) => Verdict::Failed(failure),
            (ended, _) => ended,
        };
        diagnostics.append(&mut progress.diagnostics);
        let is_stored = has_begun || progress.is_stored();
        Ok(TurnResult {
            verdict,
            usage: progress.usage,
            cost_usd: None,
            model: progress.model.take(),
            resume: is_stored.then(|| ResumeHandle {
                model: Some(self.config.model.clone()),
                ..ResumeHandle::new(found.id.as_str(), &self.turn_input.cwd)
            }),
            reply: match task {
                Task::Answer => progress.reply,
                Task::Compact => progress.summary,
            },
            diagnostics,
            thread_append: progress.thread_append.take(),
        })
    }

    /// Finds the thread of the turn, with diagnostics.
    async fn find_thread(&self, task: Task) -> Result<(LoadedThread, Vec<Diagnostic>), Failure> {
        let unknown = |name: &str| {
            Failure::new(FailureReason::Session, format!("there is no thread `{name}`"))
        };
        let id = match (&self.turn_input.resume, &self.thread) {
            (Some(handle), _) => {
                ThreadId::parse(&handle.session).ok_or_else(|| unknown(&handle.session))?
            }
            (None, Some(own)) => own.clone(),
            (None, None) => ThreadId::generate(),
        };
        let turn = match (&self.turn_input.thread_writer, task) {
            (ThreadWriter::Caller { turn }, Task::Answer) => Some(turn.as_str()),
            _ => None,
        };
        let found = LoadedThread::load(&*self.host.store, id, turn).await;
        let mut found = found.map_err(|error| log_failure(&error))?;
        let log = found.log.as_mut();
        let mut diagnostics =
            log.map(|log| std::mem::take(&mut log.diagnostics)).unwrap_or_default();
        if let Some(line) = found.withdraws {
            let count = (found.known - line) as u64;
            let message = format!("{count} lines of an earlier attempt at this turn are skipped");
            diagnostics
                .push(Diagnostic::new(diagnostics::THREAD_TURN_RETRIED, message).with_count(count));
        } else if found.log.is_none() && task == Task::Compact {
            return Err(unknown(found.id.as_str()));
        } else if found.log.is_none() && self.turn_input.resume.is_some() {
            let message = format!("there is no thread `{}`; a new one was started", found.id);
            diagnostics
                .push(Diagnostic::new(convoke_agent::diagnostics::AGENT_SESSION_ANEW, message));
            found = LoadedThread::new();
        }
        Ok((found, diagnostics))
    }

    /// Runs the turn once, from the stored thread, and stores the result.
    async fn attempt(
        &self,
        attempt: Attempt<'_>,
        recorder: &mut Recorder<'_>,
        side: &TurnSide,
    ) -> Result<(Verdict, Progress), Failure> {
        let Attempt { task, found, compaction, deadline } = attempt;
        let mut thread = self.open_thread(found)?;
        let toolbox = self.toolbox.as_ref().map(|toolbox| toolbox.within(thread.output_bytes()));
        let team_tools = self.turn_input.team_tools.as_ref();
        let mut specs = if toolbox.is_some() { Toolbox::specs() } else { Vec::new() };
        specs.extend(team_tools.into_iter().flat_map(|_| team_specs()));
        if !specs.is_empty() {
            thread.set_tools(specs);
        }
        let mut progress = Progress::new(&thread, found.log.as_ref());
        report(self.files.take_refused(), &mut progress, side).await;
        // Whether the turn itself has started, after a compaction.
        let has_begun = AtomicBool::new(false);
        let ended = {
            let mut driver = Driver {
                client: &self.client,
                redactor: &self.redactor,
                toolbox: toolbox.as_ref(),
                team_tools,
                side,
                recorder: &mut *recorder,
                progress: &mut progress,
            };
            let work = async {
                let is_required = compaction == PriorCompaction::Required;
                if is_required || (task == Task::Answer && self.would_fill(&thread)) {
                    let step = self.first_step(Task::Compact, &mut thread)?;
                    let compacted = driver.drive(&mut thread, step).await;
                    // The failure of an optional compaction was reported, and the turn may still fit.
                    if is_required || !driver.progress.has_compacted() {
                        compacted?;
                    }
                }
                has_begun.store(true, Ordering::Relaxed);
                let step = self.first_step(task, &mut thread)?;
                driver.drive(&mut thread, step).await
            };
            tokio::select! {
                biased;
                () = side.cancelled() => Verdict::Cancelled,
                () = tokio::time::sleep_until(deadline) => Verdict::TimedOut,
                worked = work => match worked {
                    Ok(()) => Verdict::Done,
                    Err(failure) => Verdict::Failed(failure),
                },
            }
        };
        let was_on_its_way = progress.unreported.is_some();
        let stopped = progress.take_stopped_request();
        let is_unsent = was_on_its_way && stopped.is_none();
        if let Some(request) = stopped {
            side.send(AgentEvent::own(request)).await;
        }
        let ended = match ended {
            Verdict::Cancelled if !progress.was_sent => Verdict::Withdrawn,
            ended => ended,
        };
        report(self.files.take_refused(), &mut progress, side).await;
        let recorded = match request_end(&ended, is_unsent) {
            Some(end) => recorder.ended(end).await,
            None => Ok(()),
        };
        if let Err(error) = recorded {
            return Ok((Verdict::Failed(log_failure(&error.into())), progress));
        }
        match (&ended, task) {
            (Verdict::Done, _) => {}
            (Verdict::Cancelled | Verdict::Withdrawn, Task::Answer) => {
                if !has_begun.load(Ordering::Relaxed) {
                    // Store the prompt with the cancellation, which would otherwise apply to the previous turn.
                    thread.abandon_compaction();
                    if let Err(failure) = self.first_step(task, &mut thread) {
                        return Ok((Verdict::Failed(failure), progress));
                    }
                }
                thread.interrupt(Vec::new());
            }
            _ => return Ok((ended, progress)),
        }
        let (writer, store) = (&self.turn_input.thread_writer, &*self.host.store);
        let stored = progress.store(&mut thread, found, writer, store, &self.redactor).await;
        match stored {
            Ok(()) => {
                let compacted = std::mem::take(&mut progress.compaction.unreported);
                report(compacted, &mut progress, side).await;
                Ok((ended, progress))
            }
            Err(error) => Ok((Verdict::Failed(log_failure(&error.into())), progress)),
        }
    }

    /// Returns the thread as it was stored, or a new one.
    fn open_thread(&self, found: &LoadedThread) -> Result<Thread<'_>, Failure> {
        let setup = Setup {
            files: &self.files,
            pack: &self.host.pack,
            machine: &self.machine,
            listed_models: &[],
        };
        let config = self.config.clone();
        let opened = reading(|| match &found.log {
            Some(log) => Thread::continued(setup, config, &log.record, &log.last_situation),
            None => Thread::start(setup, config, found.id.as_str()),
        });
        opened.map_err(|error| Failure::new(FailureReason::Usage, error.to_string()))
    }

    /// Returns whether this turn would fill the thread, and a compaction could help.
    fn would_fill(&self, thread: &Thread<'_>) -> bool {
        let Some(limit) = thread.compaction_limit() else { return false };
        let (held, text) =
            (thread.token_usage(), estimate_tokens(self.turn_input.prompt.len() as u64));
        held > 0 && held < limit && text < limit && held + text >= limit
    }

    fn first_step(&self, task: Task, thread: &mut Thread<'_>) -> Result<Step, Failure> {
        let step = reading(|| match task {
            Task::Compact => thread.begin_compaction(),
            Task::Answer => {
                let entries = entries_of(self.turn_input, Target::Prompt);
                let prompt = &self.turn_input.prompt;
                let typed = Source::Message { id: None, index: None };
                let prompt = redacted::sourced(&self.redactor, prompt, entries, "user", typed);
                let images = self.turn_input.images.iter();
                let images = images.map(|image| UserInput::Image(image.data_url()));
                let inputs = images.chain([UserInput::Assembled(prompt)]).collect();
                thread.begin_turn(inputs, &TurnOverrides::default())
            }
        });
        step.map_err(|error| Failure::new(FailureReason::Usage, error.to_string()))
    }
}

/// Runs work that reads files. A runtime with several threads moves its other tasks to another one meanwhile.
pub(crate) fn reading<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Returns the ledger entries of one text of the team prompt.
fn entries_of(turn_input: &TurnInput, target: Target) -> Vec<Entry<'static>> {
    let entries = turn_input.ledger.iter().flat_map(Ledger::entries);
    entries.filter(|entry| entry.target == target).collect()
}

/// Reports diagnostics.
async fn report(diagnostics: Vec<Diagnostic>, progress: &mut Progress, side: &TurnSide) {
    for diagnostic in diagnostics {
        side.warn(diagnostic.clone()).await;
        progress.diagnostics.push(diagnostic);
    }
}

fn is_full(ended: &Verdict) -> bool {
    matches!(ended, Verdict::Failed(failure) if failure.reason == FailureReason::ContextFull)
}

/// Returns how the open request of a turn ended; `None` if it has ended by itself.
fn request_end(ended: &Verdict, is_unsent: bool) -> Option<RequestEnd> {
    match ended {
        Verdict::Done | Verdict::Failed(_) => None,
        _ if is_unsent => Some(RequestEnd::Unsent),
        Verdict::Cancelled | Verdict::Withdrawn => Some(RequestEnd::Cancelled),
        Verdict::TimedOut => Some(RequestEnd::TimedOut),
    }
}

pub(crate) fn log_failure(error: &LogError) -> Failure {
    let reason = match error {
        LogError::Unknown(_) | LogError::NotCompacted(_) => FailureReason::Session,
        LogError::Unreadable { .. } | LogError::Store(_) => FailureReason::Other,
    };
    Failure::new(reason, error.to_string())
}
