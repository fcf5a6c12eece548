//! `convoke run`: runs a conversation to its end.

mod answers;
mod json;
mod message;
mod reached;
mod summary;
mod text;
mod totals;
mod view;

use std::io::{self, IsTerminal as _, Write as _, stdin};
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use clap_complete::ArgValueCompleter;
use convoke_agent::clock::now;
use convoke_core::Diagnostic;
use convoke_inspect::HostEnvironment;
use convoke_protocol::event::{Event, EventKind, StopReason};
use convoke_protocol::id::{SessionId, TurnId};
use convoke_protocol::session::Rehearsal;
use convoke_protocol::turn::TurnState;
use convoke_session::event_queue::{EventQueue, EventReceiver};
use convoke_session::{Controls, Store as _};
use tokio::signal::unix::{SignalKind, signal};

pub(in crate::commands) use self::answers::Answers;
use self::answers::LineResult;
pub(in crate::commands) use self::message::addressees;
use self::reached::Arrivals;
pub(in crate::commands) use self::reached::Reached;
use self::summary::End;
use self::totals::Totals;
use self::view::{Layout, Quiet, View};
use crate::commands::serve::page::{self, PageObserver, SessionPage};
use crate::commands::{completions, trust};
use crate::conversation::project::find_team_file;
use crate::conversation::store::before_leaving;
use crate::conversation::{self, Conversation, ConversationOptions, Rehearse};
use crate::diagnostics::{Deny, own};
use crate::host_environment;
use crate::outcome::{AfterWork as _, Outcome, WorkDone};
use crate::program;
use crate::terminal::{Paint, Screen, is_quiet, stderr, stdout};

/// Run a team conversation to its end, and show it while it runs.
///
/// Ctrl-C cancels the running turn, twice it quits; the session is saved in both cases. Continue a session
/// with --session.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  convoke run --rehearse
  convoke run \"Review the authentication module\"
  convoke run --to max \"Is the token safe?\"
  convoke run --session last \"And the tests?\"")]
pub struct Arguments {
    /// Your message, in quotes or as words; `-` reads standard input. Without it, a new session starts with the team's task
    #[arg(value_name = "TASK")]
    pub(in crate::commands) task: Vec<String>,
    #[command(flatten)]
    pub(in crate::commands) conversation: ConversationOptions,
    /// A first message that is sent as it is: names and files in it are those of an earlier session.
    #[arg(skip)]
    pub(in crate::commands) handover: Option<String>,
    /// The recipient if your message names none [default: the first agent of the team]
    #[arg(long, value_name = "NAME", value_delimiter = ',', add = ArgValueCompleter::new(completions::members))]
    pub(in crate::commands) to: Vec<String>,
    /// Retry the last turn that failed or was cancelled
    #[arg(long, requires = "session")]
    pub(in crate::commands) retry: bool,
    /// Serve a page of this conversation while it runs; its address is printed on standard error
    #[arg(long)]
    pub(in crate::commands) page: bool,
    /// Write one JSON event per line
    #[arg(long)]
    pub(in crate::commands) json: bool,
    #[command(flatten)]
    pub(in crate::commands) deny: Deny,
}

/// Runs `convoke run`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let runtime = conversation::runtime()?;
    runtime.block_on(run_conversation(arguments))
}

async fn run_conversation(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let host_environment = host_environment::of_process()?;
    if !arguments.json {
        ask_about_trust(&arguments.conversation, &host_environment)?;
    }
    let (observer, events) = EventQueue::new();
    let (observer, page_observer) = page::shared(Box::new(observer));
    let has_round = arguments.to.is_empty() && !arguments.task.join(" ").contains("[NEXT");
    let options = ConversationOptions { has_round, ..arguments.conversation.clone() };
    let conversation = conversation::open(&options, &host_environment, observer).await?;
    let store = conversation.coordinator.store().clone();
    let page = open_page(arguments.page, &host_environment, &conversation, &page_observer).await?;
    let outcome =
        Box::pin(converse(arguments, conversation, events, page, &host_environment)).await;
    store.close().await;
    outcome
}

/// Asks about trust before the first run in a directory, on a terminal.
pub(in crate::commands) fn ask_about_trust(
    options: &ConversationOptions,
    host_environment: &HostEnvironment,
) -> anyhow::Result<()> {
    let is_real = matches!(options.rehearse, None | Some(Rehearse::No));
    let is_new = options.session.is_none() && options.alone.is_none();
    let has_screen = stdin().is_terminal() && stdout().is_terminal();
    if !is_real || !is_new || !has_screen || is_quiet() {
        return Ok(());
    }
    let file = options.team.clone().or_else(|| find_team_file(host_environment));
    let directory = file.map(|file| host_environment.cwd.join(file));
    match directory.as_deref().and_then(Path::parent) {
        Some(directory) if directory.is_dir() => trust::ask_before_run(directory, host_environment),
        _ => Ok(()),
    }
}

async fn converse(
    arguments: &Arguments,
    mut conversation: Conversation,
    mut events: EventReceiver<Event>,
    page: Option<SessionPage>,
    host_environment: &HostEnvironment,
) -> anyhow::Result<Outcome> {
    let began = Instant::now();
    let message = match message::first_message(arguments, &conversation, host_environment).await {
        Ok(message) => message,
        Err(error) => {
            conversation.discard().await?;
            return Err(error);
        }
    };
    if arguments.retry {
        retry(&mut conversation).await?;
    }
    let mut show = Show::new(arguments, &conversation);
    if let Err(error) = show.opening(&conversation).await {
        conversation.discard().await?;
        return Err(error.context(WorkDone("nothing was run".to_owned())));
    }
    if let Some(message) = message {
        conversation.coordinator.accept(message).await?;
    }
    let mut reached = Vec::new();
    let is_input_used = arguments.task == ["-"];
    let mut answers = Answers::listen(&conversation, arguments.json, is_input_used, page);
    let stop = drive(&mut conversation, &mut events, &mut show, &mut reached, &mut answers).await?;
    let has_left = stop == StopReason::Left;
    let finale = RunEnd { stop, reached, elapsed: began.elapsed() };
    let concluded = conclude(&conversation, &mut show, finale, &arguments.deny);
    let concluded = if has_left { before_leaving(concluded).await } else { concluded.await };
    concluded.after("the conversation has ended")
}

/// Serves a page of the conversation if requested, and prints its address.
pub(in crate::commands) async fn open_page(
    is_asked_for: bool,
    host_environment: &HostEnvironment,
    conversation: &Conversation,
    observer: &PageObserver,
) -> anyhow::Result<Option<SessionPage>> {
    if !is_asked_for {
        return Ok(None);
    }
    let page = SessionPage::open(host_environment, conversation, observer).await?;
    writeln!(stderr(), "page: {}", page.url)?;
    Ok(Some(page))
}

/// The end of a conversation.
pub(in crate::commands) struct RunEnd {
    pub(in crate::commands) stop: StopReason,
    pub(in crate::commands) reached: Vec<Reached>,
    pub(in crate::commands) elapsed: Duration,
}

/// Shows the end of a conversation and returns the outcome of the command.
pub(in crate::commands) async fn conclude(
    conversation: &Conversation,
    show: &mut Show,
    finale: RunEnd,
    deny: &Deny,
) -> anyhow::Result<Outcome> {
    let RunEnd { stop, mut reached, elapsed } = finale;
    for reached in &mut reached {
        reached
            .compare(conversation.coordinator.store(), conversation.coordinator.session())
            .await?;
        show.reached(reached)?;
    }
    let arrived = reached.iter().filter(|reached| reached.is_unchanged()).count();
    let arrivals = Arrivals { arrived, calls: reached.len() };
    let is_unfinished = match stop {
        // A turn that is running or queued elsewhere needs no retry.
        StopReason::Cancelled { .. } | StopReason::Left => {
            unfinished(conversation).await?.is_some()
        }
        // A run without turns, after one that failed, suggests a retry.
        _ => show.totals.turns() == 0 && unfinished(conversation).await?.is_some(),
    };
    show.closing(conversation, &End { stop: &stop, arrivals, elapsed, is_unfinished })?;
    let denied = show.denied(deny);
    let has_reached_no_member = show.totals.has_reached_no_member();
    Ok(match (denied, stop) {
        (Outcome::Done, StopReason::Idle { .. } | StopReason::Addressed { .. })
            if has_reached_no_member =>
        {
            Outcome::Failed
        }
        (Outcome::Done, StopReason::Idle { .. } | StopReason::Addressed { .. }) => Outcome::Done,
        (Outcome::Done, _) => Outcome::Failed,
        (denied, _) => denied,
    })
}

/// Queues the last turn that failed or was cancelled.
pub(in crate::commands) async fn retry(conversation: &mut Conversation) -> anyhow::Result<()> {
    if let Some(turn) = unfinished(conversation).await? {
        return Ok(conversation.coordinator.retry(turn).await?);
    }
    let mut message =
        "nothing to retry: no turn of this session failed or was cancelled".to_owned();
    let (store, session) = (conversation.coordinator.store(), conversation.coordinator.session());
    let turns = store.turns_after(session, TurnId::default(), usize::MAX).await?;
    if turns.iter().any(|turn| turn.state == TurnState::Queued) {
        // A turn interrupted by a crash was requeued when the session was opened.
        let (program, store, id) = (program::name(), program::store_option(), session.short());
        message =
            format!("{message}; run the queued turns with: {program} sessions resume {id}{store}");
    }
    Err(crate::outcome::UsageError(message).into())
}

/// Returns the last turn that failed or was cancelled.
async fn unfinished(conversation: &Conversation) -> anyhow::Result<Option<TurnId>> {
    let (store, session) = (conversation.coordinator.store(), conversation.coordinator.session());
    let turns = store.turns_after(session, TurnId::default(), usize::MAX).await?;
    let is_unfinished = |state| matches!(state, TurnState::Failed | TurnState::Cancelled);
    let unfinished = turns.iter().rev().find(|turn| is_unfinished(turn.state) && turn.attempts > 0);
    Ok(unfinished.map(|turn| turn.id))
}

/// Runs the conversation until it stops, and shows its events.
pub(in crate::commands) async fn drive(
    conversation: &mut Conversation,
    events: &mut EventReceiver<Event>,
    show: &mut Show,
    reached: &mut Vec<Reached>,
    answers: &mut Answers,
) -> anyhow::Result<StopReason> {
    let controls = conversation.coordinator.controls();
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut ends = signal(SignalKind::terminate())?;
    let mut clock = tokio::time::interval(Duration::from_millis(100));
    let servers = &mut conversation.rehearsal_servers;
    let mut reader = OutputState { controls: controls.clone(), gone: None };
    let mut see = |event: &Event, show: &mut Show, reader: &mut OutputState| {
        if let EventKind::TurnEnded { turn, member, .. } = &event.kind
            && let Some(received) = servers.received(member)
        {
            reached.push(Reached::new(*turn, member.clone(), received));
        }
        reader.write(|| show.event(event));
    };
    let mut running = Box::pin(conversation.coordinator.run());
    let stop = loop {
        tokio::select! {
            biased;
            Some(event) = events.recv() => {
                answers.note(&event.kind);
                see(&event, show, &mut reader);
            }
            stop = &mut running => {
                let stop = stop?;
                let has_interjected = answers.has_interjected().await;
                if stop == StopReason::Left || !has_interjected {
                    break stop;
                }
                // A message of the page that arrived after the last turn is stored by the next run.
                drop(running);
                running = Box::pin(conversation.coordinator.run());
            }
            Some(()) = interrupts.recv() => {
                controls.interrupt();
                reader.write(|| show.interrupted());
            }
            Some(()) = ends.recv() => controls.leave(),
            line = answers.next() => {
                let line_result = answers.carry_out(line, &controls);
                if answers.is_over() {
                    controls.set_attended(false);
                }
                reader.write(|| show.line_result(&line_result));
            }
            _ = clock.tick() => reader.write(|| show.tick()),
        }
    };
    while let Some(event) = events.try_recv() {
        see(&event, show, &mut reader);
    }
    drop(running);
    match reader.gone {
        Some(error) => Err(anyhow::Error::from(error).context(stopped(conversation).await?)),
        None => Ok(stop),
    }
}

/// Says that a conversation stopped before its end, and how to continue it.
pub(in crate::commands) async fn stopped(conversation: &Conversation) -> anyhow::Result<WorkDone> {
    let retry = if unfinished(conversation).await?.is_some() { " --retry" } else { "" };
    let (program, store) = (program::name(), program::store_option());
    let (id, option) = (conversation.coordinator.session().short(), conversation.option);
    Ok(WorkDone(format!(
        "the conversation was stopped; continue it with `{program} run --session {id}{option}{retry}{store}`"
    )))
}

/// The state of the output. When it is closed, the conversation stops as if a person had quit.
struct OutputState {
    controls: Controls,
    gone: Option<io::Error>,
}

impl OutputState {
    fn write(&mut self, write: impl FnOnce() -> io::Result<()>) {
        if self.gone.is_none()
            && let Err(error) = write()
        {
            self.gone = Some(error);
            self.controls.leave();
        }
    }
}

/// The output of a run, for a person or a program.
pub(in crate::commands) struct Show {
    form: OutputForm,
    totals: Totals,
    session: SessionId,
    /// The kind of rehearsal.
    rehearsal: Option<Rehearsal>,
}

enum OutputForm {
    Person(Box<View<Screen>>),
    Program,
}

impl Show {
    pub(in crate::commands) fn new(arguments: &Arguments, conversation: &Conversation) -> Self {
        let form = if arguments.json {
            OutputForm::Program
        } else {
            let out = stdout();
            let columns = out.is_terminal().then(|| {
                terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0))
            });
            let team = conversation.coordinator.team_agents().team();
            let layout = Layout {
                paint: Paint::for_stream(&out),
                columns,
                parallel: team.limits.parallel,
                quiet: is_quiet().then(|| match team.agents().count() {
                    0 | 1 => Quiet::Text,
                    _ => Quiet::Named,
                }),
            };
            OutputForm::Person(Box::new(View::new(out, layout)))
        };
        let rehearsal = conversation.backend.rehearsal();
        let session = conversation.coordinator.session();
        Self { form, totals: Totals::default(), session, rehearsal }
    }

    pub(in crate::commands) async fn opening(
        &mut self,
        conversation: &Conversation,
    ) -> anyhow::Result<()> {
        if let OutputForm::Person(view) = &mut self.form {
            if !is_quiet() {
                summary::opening(view, conversation)?;
            }
            for turn in conversation.coordinator.waiting() {
                if let Some(author) = conversation.author(turn.answers).await? {
                    view.add_author(turn.answers, author);
                }
            }
        }
        for diagnostic in &conversation.diagnostics {
            self.diagnostic(None, diagnostic.clone())?;
        }
        Ok(())
    }

    /// Returns the outcome with regard to denied diagnostics.
    pub(in crate::commands) fn denied(&self, deny: &Deny) -> Outcome {
        deny.outcome(self.totals.given())
    }

    fn diagnostic(&mut self, turn: Option<TurnId>, diagnostic: Diagnostic) -> io::Result<()> {
        let kind = EventKind::Diagnostic { turn, diagnostic };
        let (session, at) = (self.session, now());
        self.event(&Event { kind, session, at, number: None, migrated: false })
    }

    /// Shows an event.
    pub(in crate::commands) fn event(&mut self, event: &Event) -> io::Result<()> {
        self.totals.note(event);
        match &mut self.form {
            OutputForm::Person(view) => view.show(&event.kind),
            OutputForm::Program => json::event(event, self.rehearsal),
        }
    }

    fn tick(&mut self) -> io::Result<()> {
        match &mut self.form {
            OutputForm::Person(view) => view.tick(),
            OutputForm::Program => Ok(()),
        }
    }

    fn interrupted(&mut self) -> io::Result<()> {
        match &mut self.form {
            OutputForm::Person(view) => view.line("  cancelling the turn; Ctrl-C again quits"),
            OutputForm::Program => Ok(()),
        }
    }

    /// Reports a line that is not an answer.
    fn line_result(&mut self, line_result: &LineResult) -> io::Result<()> {
        let message = match (line_result, &self.form) {
            (LineResult::Done, _) => return Ok(()),
            (LineResult::NotUnderstood, OutputForm::Person(_)) => {
                "not an answer; type once, session or never"
            }
            (LineResult::TooEarly, _) => "typed before the question was shown; type it again",
            (LineResult::NotUnderstood, OutputForm::Program) => {
                "a line of standard input is not an answer; write {\"type\": \"permission\", \"id\": ID, \"answer\": \
                 \"once\"}, or \"session\", or \"never\""
            }
            (LineResult::NotOpen, _) => {
                "a line of standard input answers a question that is not open"
            }
            (LineResult::Unreadable(error), _) => {
                &format!("cannot read standard input: {error}; questions are refused from now on")
            }
        };
        match &mut self.form {
            OutputForm::Person(view) => view.line(&format!("  {message}")),
            OutputForm::Program => {
                self.diagnostic(None, Diagnostic::new(own::RUN_ANSWER_UNREAD, message))
            }
        }
    }

    fn reached(&mut self, reached: &Reached) -> io::Result<()> {
        for diagnostic in reached.diagnostics() {
            self.diagnostic(Some(reached.turn), diagnostic)?;
        }
        match &mut self.form {
            OutputForm::Person(_) => Ok(()),
            OutputForm::Program => json::write(&reached.report()),
        }
    }

    fn closing(&mut self, conversation: &Conversation, end: &End<'_>) -> io::Result<()> {
        match &mut self.form {
            OutputForm::Person(_) if is_quiet() => Ok(()),
            OutputForm::Person(view) => summary::closing(view, &self.totals, conversation, end),
            OutputForm::Program => json::summary(&self.totals, conversation, end.elapsed),
        }
    }
}
