//! `convoke sessions export`, `import` and `fork`.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, BufWriter, Read, Write, stdin};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use convoke_core::Diagnostic;
use convoke_core::name::shell_word;
use convoke_files::draft::Draft;
use convoke_protocol::id::{MessageNumber, Millis, SessionId};
use convoke_protocol::session::NewSession;
use convoke_server::{ExportForm, document};
use convoke_session::rows::each_turn;
use convoke_session::transfer::{self, ArchiveProblem, ArchiveSource, ImportLimits, TransferError};
use convoke_session::{AnyStore, Store as _, StoreError};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::json;

use super::conversation::pending_diagnostic;
use super::trace::{self, Exported, TraceForm};
use super::{ShownSession, markdown, write_json};
use crate::commands::completions;
use crate::conversation::Rehearse;
use crate::conversation::change_recorder::changes_of;
use crate::conversation::home::Home;
use crate::conversation::project::{self, Project, UserConfiguration, find_team_file};
use crate::conversation::sessions::find;
use crate::conversation::team_redaction::without_secrets;
use crate::diagnostics::{self, Deny};
use crate::host_environment;
use crate::other_programs::{HomeArgument, is_named};
use crate::outcome::{AfterWork as _, Outcome, UsageError};
use crate::program;
use crate::terminal::{stderr, stdout};
use crate::threads;

#[derive(Debug, Args)]
pub(super) struct Fork {
    #[command(flatten)]
    which: ShownSession,
    /// The number of the last message to copy [default: the newest]
    #[arg(long, value_name = "MESSAGE")]
    after: Option<u64>,
    /// Make the copy a rehearsal, in which stand-ins reply; with `=cli`, the installed programs with a model server on this
    /// machine
    #[arg(long, value_name = "WITH", num_args = 0..=1, require_equals = true, default_missing_value = "stand-in")]
    rehearse: Option<Rehearse>,
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    deny: Deny,
}

pub(super) async fn fork(arguments: &Fork, store: &AnyStore) -> anyhow::Result<Outcome> {
    let session = arguments.which.find(store).await?;
    let copy = SessionId::generate();
    let after = arguments.after.map(MessageNumber);
    let rehearsal = arguments.rehearse.and_then(Rehearse::rehearsal);
    let mut diagnostics = transfer::fork(store, session, after, copy, store.now(), rehearsal)
        .await
        .map_err(explain)?;
    diagnostics.extend(fork_changes(store, session, copy).await?);
    // A copy as of a message has nothing that came later.
    if after.is_none() {
        diagnostics.extend(pending_diagnostic(store, session).await?);
    }
    if arguments.json {
        let forked = json!({"session": copy, "from": session, "diagnostics": diagnostics});
        write_json(&forked).after(format!("session {copy} is stored"))?;
    } else {
        writeln!(stdout(), "{copy}").after(format!("session {copy} is stored"))?;
        let what = format!("copied session {} to {}", session.short(), copy.short());
        tell_next(&what, copy)?;
        diagnostics::show(&diagnostics)?;
    }
    Ok(arguments.deny.outcome(diagnostics.iter().map(|diagnostic| diagnostic.code.clone())))
}

/// Copies the recorded changes of the copied turns. Returns a diagnostic about workspaces.
async fn fork_changes(
    store: &AnyStore,
    session: SessionId,
    copy: SessionId,
) -> anyhow::Result<Option<Diagnostic>> {
    let mut turns = HashSet::new();
    each_turn(store, copy, |turn| {
        turns.insert(turn.id.0);
        Ok::<_, StoreError>(())
    })
    .await?;
    let changes = changes_of(&host_environment::of_process()?);
    let (from, to) = (session.to_string(), copy.to_string());
    changes
        .fork(&from, &to, |turn| turns.contains(&turn))
        .context("the session was copied without its recorded changes")?;
    let workspaces = changes.workspaces(&from)?;
    let members: Vec<String> = workspaces.into_iter().map(|it| it.member).collect();
    let message = format!("not copied: the workspaces of {}", members.join(", "));
    let code = convoke_changes::diagnostics::WORKSPACE_NOT_COPIED;
    Ok((!members.is_empty()).then(|| Diagnostic::new(code, message)))
}

/// The address that stands for no collector.
const OUTPUT: &str = "-";

#[derive(Debug, Args)]
pub(super) struct Export {
    /// The session: its id, the beginning of it, or `last`; for --otlp and --atif also `claude:ID` or a path
    #[arg(value_name = "ID", add = ArgValueCompleter::new(completions::sessions))]
    id: Option<String>,
    #[command(flatten)]
    home: HomeArgument,
    /// Write everything: turns, prompts, replies, threads and requests, one JSON object per line
    #[arg(long)]
    all: bool,
    /// The form by its name, in place of the options below
    #[arg(long, value_name = "FORM", conflicts_with_all = ["all", "log", "markdown", "html"])]
    format: Option<NamedForm>,
    /// Write the log: every event with its number, as `run --json` does, without the texts of prompts
    #[arg(long, conflicts_with = "all")]
    log: bool,
    /// Write a transcript as Markdown
    #[arg(long, conflicts_with_all = ["all", "log"])]
    markdown: bool,
    /// Write one HTML file: the messages, and the ledger and exact texts of every turn; no scripts, no
    /// external resources
    #[arg(long, conflicts_with_all = ["all", "log", "markdown"])]
    html: bool,
    /// Write a trace by the conventions of OpenTelemetry for generative AI, one batch of spans per line; with an address, send
    /// it to the collector there
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = OUTPUT, conflicts_with_all = ["all", "log", "markdown", "html", "format"])]
    otlp: Option<String>,
    /// Put texts into the trace, without known secrets
    #[arg(long, requires = "otlp")]
    content: bool,
    /// Only turns that ended since this day; without ID, of every session of the store
    #[arg(long, value_name = "DAY", requires = "otlp")]
    since: Option<Date>,
    /// Write a trajectory in the Agent Trajectory Interchange Format, without known secrets
    #[arg(long, conflicts_with_all = ["all", "log", "markdown", "html", "format", "otlp"])]
    atif: bool,
    /// The file to write, readable by you alone [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Has no effect: the output is always JSON
    #[arg(long, hide = true)]
    json: bool,
}

/// A form of an export by its name.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum NamedForm {
    /// The messages and the task
    Snapshot,
    /// Everything
    #[value(alias = "json")]
    All,
    /// Every event
    Log,
    /// A transcript
    #[value(alias = "md")]
    Markdown,
    /// A page
    Html,
}

impl From<NamedForm> for ExportForm {
    fn from(form: NamedForm) -> Self {
        match form {
            NamedForm::Snapshot => Self::Snapshot,
            NamedForm::All => Self::Archive,
            NamedForm::Log => Self::Log,
            NamedForm::Markdown => Self::Markdown,
            NamedForm::Html => Self::Html,
        }
    }
}

impl Export {
    /// Returns whether the session is one of another program.
    pub(super) fn is_of_another_program(&self) -> bool {
        self.home.directory.is_some() || self.id.as_deref().is_some_and(is_named)
    }

    /// Returns the format of another tool, if that is wanted.
    fn trace_form(&self) -> anyhow::Result<Option<TraceForm>> {
        let since = self.since.map(|day| {
            let midnight = day.to_zoned(TimeZone::system())?;
            anyhow::Ok(Millis(midnight.timestamp().as_millisecond()))
        });
        let (with_content, since) = (self.content, since.transpose()?);
        Ok(match &self.otlp {
            Some(to) => {
                let collector = Some(to.clone()).filter(|to| to != OUTPUT);
                Some(TraceForm::Otlp { collector, with_content, since })
            }
            None => self.atif.then_some(TraceForm::Atif),
        })
    }

    fn exported(&self) -> Exported<'_> {
        let last = self.since.is_none().then_some("last");
        let name = self.id.as_deref().or(last);
        Exported { name, home: &self.home, output: self.output.as_ref() }
    }
}

/// Exports a session of another program, which only formats of other tools can hold.
pub(super) fn export_foreign(arguments: &Export) -> anyhow::Result<Outcome> {
    let Some(form) = arguments.trace_form()? else {
        let problem = "a session of another program is exported with --otlp or --atif; `convoke open` shows it";
        return Err(UsageError(problem.to_owned()).into());
    };
    trace::export_foreign(&form, &arguments.exported())
}

pub(super) async fn export(arguments: &Export, store: &AnyStore) -> anyhow::Result<Outcome> {
    if let Some(form) = arguments.trace_form()? {
        return trace::export_own(&form, &arguments.exported(), store).await;
    }
    let session = find(store, arguments.id.as_deref().unwrap_or("last")).await?;
    let form = match arguments {
        Export { format: Some(form), .. } => (*form).into(),
        Export { html: true, .. } => ExportForm::Html,
        Export { markdown: true, .. } => ExportForm::Markdown,
        Export { all: true, .. } => ExportForm::Archive,
        Export { log: true, .. } => ExportForm::Log,
        _ => ExportForm::Snapshot,
    };
    let written = match &arguments.output {
        None => write(form, store, session, stdout().verbatim()).await,
        Some(path) => {
            let mut file = create_private(path)?;
            let written = write(form, store, session, &mut file).await;
            let written = written.and_then(|()| Ok(file.publish()?));
            written.with_context(|| format!("cannot write {}", path.display()))?;
            let shown = path.display();
            writeln!(stderr(), "wrote session {} to {shown}", session.short())
                .after(format!("{shown} is written"))
        }
    };
    written?;
    let changes = changes_of(&host_environment::of_process()?);
    let recorded = changes.records(&session.to_string())?;
    if arguments.all && recorded.iter().any(|record| !record.changes.is_empty()) {
        let message = "the recorded changes of files are not part of the archive";
        let code = convoke_changes::diagnostics::CHANGES_NOT_EXPORTED;
        diagnostics::show(&[Diagnostic::new(code, message)])?;
    }
    // The forms for readers show them.
    if matches!(form, ExportForm::Snapshot | ExportForm::Archive | ExportForm::Log)
        && let Some(pending) = pending_diagnostic(store, session).await?
    {
        diagnostics::show(&[pending])?;
    }
    Ok(Outcome::Done)
}

/// Writes a session in a form.
pub(in crate::commands) async fn write(
    form: ExportForm,
    store: &AnyStore,
    session: SessionId,
    out: impl Write + Send,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(out);
    match form {
        ExportForm::Html => document::write(store, session, &mut out).await?,
        ExportForm::Markdown => markdown::write(store, session, &mut out).await?,
        ExportForm::Archive => transfer::export(store, session, &mut out).await?,
        ExportForm::Log => transfer::export_log(store, session, &mut out).await?,
        ExportForm::Snapshot => {
            transfer::export_snapshot(store, session, store.now(), &mut out).await?;
        }
    }
    Ok(out.flush()?)
}

/// Creates a new file for this user alone.
pub(super) fn create_private(path: &Path) -> Result<Draft, UsageError> {
    Draft::create_new(path, 0o600).map_err(|error| {
        UsageError(format!("cannot write {}: {error}; name a new file", path.display()))
    })
}

#[derive(Debug, Args)]
pub(super) struct Import {
    /// The exported file; `-` reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The team file for a snapshot, which contains none [default: convoke.toml here or in a parent directory]
    #[arg(long, value_name = "FILE")]
    team: Option<PathBuf>,
    /// The maximum size of all texts, counting each request in full
    #[arg(long, value_name = "BYTES")]
    max_bytes: Option<u64>,
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    deny: Deny,
}

pub(super) async fn import(arguments: &Import, store: &AnyStore) -> anyhow::Result<Outcome> {
    let shown = arguments.file.display();
    let file: Box<dyn Read + Send> = if arguments.file == Path::new("-") {
        Box::new(stdin())
    } else {
        let file = fs::File::open(&arguments.file);
        Box::new(file.map_err(|error| UsageError(format!("cannot read {shown}: {error}")))?)
    };
    let explain = |error| explain_file(&arguments.file, error);
    let limits = ImportLimits {
        bytes: arguments.max_bytes.unwrap_or(ImportLimits::default().bytes),
        ..ImportLimits::default()
    };
    let source = ArchiveSource::open(BufReader::new(file), limits).map_err(explain)?;
    let new = new_session(arguments, &source, store)?;
    let imported = source.import(store, new, &threads::check).await.map_err(explain)?;
    let stored = format!("session {} is stored", imported.session);
    if arguments.json {
        write_json(&json!({"session": imported.session, "diagnostics": imported.diagnostics}))
            .after(stored)?;
    } else {
        writeln!(stdout(), "{}", imported.session).after(stored)?;
        let what = format!("imported {shown} as session {}", imported.session.short());
        tell_next(&what, imported.session)?;
        diagnostics::show(&imported.diagnostics)?;
    }
    Ok(arguments
        .deny
        .outcome(imported.diagnostics.iter().map(|diagnostic| diagnostic.code.clone())))
}

/// Returns the program whose session a file is, if it is one.
fn program_of(file: &Path) -> Option<&'static str> {
    if !file.is_file() {
        return None;
    }
    let session = convoke_vendors::sources().find_map(|source| source.at(file).ok().flatten());
    session.map(|session| session.program)
}

/// Tells on a terminal what was done, and how to go on with the session; what is piped has the id alone.
fn tell_next(what: &str, session: SessionId) -> anyhow::Result<()> {
    if !stdout().is_terminal() {
        return Ok(());
    }
    let (program, store, id) = (program::name(), program::store_option(), session.short());
    writeln!(stderr(), "{what}\nread it       {program} sessions show {id}{store}")?;
    Ok(writeln!(stderr(), "go on with it {program} run --session {id}{store} \"…\"")?)
}

/// Returns the new session of a snapshot, which contains no team.
fn new_session<R: BufRead + Send>(
    arguments: &Import,
    source: &ArchiveSource<R>,
    store: &AnyStore,
) -> anyhow::Result<NewSession> {
    let host_environment = host_environment::of_process()?;
    let user = UserConfiguration::load(&Home::new(&host_environment))?;
    let path = arguments.team.clone().or_else(|| find_team_file(&host_environment));
    let mut new = NewSession {
        id: SessionId::generate(),
        created_at: store.now(),
        name: None,
        directory: project::as_text(&host_environment.cwd)?,
        team: String::new(),
        task: None,
        rehearsal: None,
    };
    match path {
        Some(path) => {
            let project = Project::read(&path, &user)?;
            new.name.clone_from(&project.team.name);
            new.directory = project::as_text(&project.directory)?;
            new.team = without_secrets(&project.text);
        }
        None if source.has_team() => {}
        None => {
            // Report an invalid file before a missing team.
            source.check_snapshot(new).map_err(|error| explain_file(&arguments.file, error))?;
            let problem = "a snapshot contains no team, and this directory has no convoke.toml; pass --team FILE";
            return Err(UsageError(problem.to_owned()).into());
        }
    }
    Ok(new)
}

/// Converts errors in the input to usage errors.
fn explain(error: TransferError) -> anyhow::Error {
    match error {
        TransferError::Store(_) | TransferError::Io(_) | TransferError::Read(_) => error.into(),
        wrong => UsageError(wrong.to_string()).into(),
    }
}

/// Converts errors in the input to usage errors that name the file.
fn explain_file(file: &Path, error: TransferError) -> anyhow::Error {
    let is_of_input = !matches!(error, TransferError::Store(_) | TransferError::Io(_));
    if let Some(other) = program_of(file).filter(|_| is_of_input) {
        let (shown, program) = (file.display(), program::name());
        let command = shell_word(&shown.to_string());
        let why =
            format!("{shown} is a session of {other}; see it with `{program} open {command}`");
        return UsageError(why).into();
    }
    if let TransferError::Read(error) = error {
        return anyhow::anyhow!("cannot read {}: {error}", file.display());
    }
    if let TransferError::Invalid { line: 1, problem: ArchiveProblem::Json(problem) } = &error {
        let (file, program) = (file.display(), program::name());
        let why = format!(
            "{file} is no exported session ({problem}); `{program} sessions export` writes one"
        );
        return UsageError(why).into();
    }
    match explain(error) {
        error if error.is::<UsageError>() => {
            UsageError(format!("{}: {error}", file.display())).into()
        }
        error => error,
    }
}
