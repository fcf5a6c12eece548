//! Opens conversations for `run` and `chat`.
//!
//! [`open`] finds the team file, checks whether its directory is trusted, resolves an agent for every
//! member, and creates or resumes a session.

pub mod alone;
pub mod attachments;
pub mod change_recorder;
pub mod composed;
pub mod home;
pub mod node_team;
pub mod origin;
pub mod project;
mod references;
pub mod rehearsal_servers;
pub(crate) mod resolved_agent;
mod resolved_team;
pub mod sample;
mod script;
pub mod sessions;
pub mod store;
pub mod team_redaction;
pub mod trust;
pub mod trust_here;
pub mod undo_progress;
pub mod undo_text;
pub mod unlocked;
mod workspaces;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use convoke_agent::approvals::SessionAnswers;
use convoke_agent::turn_input::Trust;
use convoke_core::Diagnostic;
use convoke_files::{Disk, FileKind, Files as _};
use convoke_inspect::HostEnvironment;
use convoke_model::ModelAgent;
use convoke_protocol::id::{MemberName, MessageNumber, Millis, SessionId, ThreadId};
use convoke_protocol::session::{NewSession, Rehearsal, Session};
use convoke_session::event_queue::Observer;
use convoke_session::{AnyStore, Coordinator, Store as _};
use convoke_team::{Member, Record, Team};

use self::alone::Alone;
use self::composed::Composed;
use self::home::Home;
use self::project::{Origin, Project, TEAM_FILE, UserConfiguration, find_team_file};
use self::rehearsal_servers::RehearsalServers;
use self::resolved_team::{AgentResolver, ResolvedTeam};
use self::script::RehearsalScript;
use self::team_redaction::without_secrets;
use crate::commands::completions;
use crate::outcome::UsageError;
use crate::program;

/// The options that choose a conversation and its agents.
#[derive(Debug, Default, Clone, Args)]
pub struct ConversationOptions {
    /// The team file [default: convoke.toml here or in a parent directory, up to the repository's root]
    #[arg(long, value_name = "FILE")]
    pub team: Option<PathBuf>,
    /// The session to resume: its id, the beginning of it, or `last`
    #[arg(long, value_name = "ID", add = ArgValueCompleter::new(completions::sessions))]
    pub session: Option<String>,
    /// Run without an account: a built-in stand-in replies. With `=cli` the installed programs run in private
    /// homes against a model server on this machine. A session that began as a rehearsal stays one unless
    /// `=no` is given
    #[arg(
        long,
        value_name = "WITH",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "stand-in"
    )]
    pub rehearse: Option<Rehearse>,
    /// What the agents say in a rehearsal: a file with `NAME: TEXT` for each turn, in their order
    #[arg(long, value_name = "FILE", requires = "rehearse")]
    pub script: Option<PathBuf>,
    /// Record the requests of programs to their models: `wire` stores every request, through a relay on this
    /// machine that forwards it unchanged
    #[arg(long, value_name = "WHAT")]
    pub record: Option<RecordOption>,
    /// Whether the agents of a rehearsal hand over from one to the next: the first message names none of them.
    #[arg(skip)]
    pub has_round: bool,
    /// A new session of one agent, whatever team files there are.
    #[arg(skip)]
    pub alone: Option<Box<Alone>>,
    /// A new session of a team that a command composes.
    #[arg(skip)]
    pub composed: Option<Box<Composed>>,
}

/// The recording of programs' requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RecordOption {
    /// Every request, to the byte
    Wire,
}

/// The kinds of rehearsal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Rehearse {
    /// The built-in stand-in replies
    StandIn,
    /// The installed programs run against a local model server
    Cli,
    /// No rehearsal: the real agents run
    No,
}

impl Rehearse {
    /// Returns the kind of rehearsal of a session.
    pub const fn rehearsal(self) -> Option<Rehearsal> {
        match self {
            Self::StandIn => Some(Rehearsal::StandIn),
            Self::Cli => Some(Rehearsal::Cli),
            Self::No => None,
        }
    }
}

/// The implementation behind the agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentBackend {
    /// The agents themselves.
    Agents,
    /// The built-in stand-in, for every member.
    StandIns,
    /// The installed CLIs, with a rehearsal server.
    Clis,
}

impl AgentBackend {
    /// Chooses the backend. A session that began as a rehearsal stays one unless the user chooses otherwise, so that
    /// resuming it causes no unexpected cost.
    fn new(asked: Option<Rehearse>, began: Option<Rehearsal>) -> Self {
        match (asked, began) {
            (Some(Rehearse::StandIn), _) | (None, Some(Rehearsal::StandIn)) => Self::StandIns,
            (Some(Rehearse::Cli), _) | (None, Some(Rehearsal::Cli)) => Self::Clis,
            (Some(Rehearse::No), _) | (None, None) => Self::Agents,
        }
    }

    /// Returns the kind of rehearsal that a new session is.
    pub const fn rehearsal(self) -> Option<Rehearsal> {
        match self {
            Self::Agents => None,
            Self::StandIns => Some(Rehearsal::StandIn),
            Self::Clis => Some(Rehearsal::Cli),
        }
    }

    /// Returns the option that chooses this backend again when the session is resumed.
    const fn option(self, began: Option<Rehearsal>) -> &'static str {
        match (self, began) {
            (Self::Agents, None) => "",
            (Self::Agents, Some(_)) => " --rehearse=no",
            (Self::StandIns, _) => " --rehearse",
            (Self::Clis, _) => " --rehearse=cli",
        }
    }
}

/// An open conversation.
pub struct Conversation {
    /// The coordinator of the session.
    pub coordinator: Coordinator<AnyStore>,
    /// The team and its directory.
    pub project: Project,
    /// The implementation behind the agents.
    pub backend: AgentBackend,
    /// The option that chooses the same backend again.
    pub option: &'static str,
    /// The model servers of a rehearsal with CLIs.
    pub rehearsal_servers: RehearsalServers,
    /// The diagnostics of opening it.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether the session is new.
    pub is_new: bool,
    /// Whether it is a rehearsal because the session began as one.
    pub stays_rehearsal: bool,
}

impl Conversation {
    /// Returns the person who speaks: the one who was addressed, else the last one who asked, else the first of
    /// the team.
    pub async fn speaker(&self) -> anyhow::Result<MemberName> {
        if let Some(turn) = self.coordinator.awaited() {
            return Ok(turn.member.clone());
        }
        let session = self.coordinator.store().session(self.coordinator.session()).await?;
        let team = self.coordinator.team_agents().team();
        let asked = session.state.asker.filter(|asker| team.is_person(asker));
        // A team always has a person.
        Ok(asked.or_else(|| team.people().next().cloned()).unwrap_or_else(|| "user".into()))
    }

    /// Returns the default recipient of a message: the agent whose question is answered,
    /// else the first agent of the team.
    pub async fn default_recipient(&self) -> anyhow::Result<Option<MemberName>> {
        let team = self.coordinator.team_agents().team();
        let asked = match self.coordinator.awaited() {
            Some(turn) => self.author(turn.answers).await?,
            None => None,
        };
        let asked = asked.filter(|name| team.agents().any(|agent| agent == name));
        Ok(asked.or_else(|| team.agents().next().cloned()))
    }

    /// Returns the author of a message, if still a member.
    pub async fn author(&self, message: MessageNumber) -> anyhow::Result<Option<MemberName>> {
        let (store, session) = (self.coordinator.store(), self.coordinator.session());
        let message = store.message(session, message).await?.message;
        Ok(self.coordinator.team_agents().team().resolve(message.speaker.name()).cloned())
    }

    /// Returns whether the session is kept: it was resumed, or has messages.
    pub async fn is_kept(&self) -> anyhow::Result<bool> {
        let session = self.coordinator.store().session(self.coordinator.session()).await?;
        Ok(!self.is_new || session.state.last_message != MessageNumber::default())
    }

    /// Removes a new session without messages.
    pub async fn discard(self) -> anyhow::Result<()> {
        if !self.is_kept().await? {
            let (store, session) = (self.coordinator.store().clone(), self.coordinator.session());
            drop(self);
            store.remove(session).await?;
        }
        Ok(())
    }

    /// Returns whether the session's copy of the team file differs from the file in its directory.
    pub fn has_own_team(&self) -> bool {
        let Project { origin, directory, text, .. } = &self.project;
        *origin == Origin::Session && team_text_in(directory).is_some_and(|there| there != *text)
    }
}

/// Creates the runtime of a conversation. Agents run on a thread of their own, so that their work does not delay what
/// the user sees and types.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()
}

/// Opens a conversation: a new session, or the one that the options name.
///
/// A rehearsal without a team file uses the built-in sample.
pub async fn open(
    options: &ConversationOptions,
    host_environment: &HostEnvironment,
    observer: Box<dyn Observer>,
) -> anyhow::Result<Conversation> {
    let home = Home::new(host_environment);
    let store = store::open_store(host_environment).await?;
    let user = UserConfiguration::load(&home)?;
    let session = match &options.session {
        Some(written) => {
            let id = sessions::find_to_continue(&store, written, &home).await?;
            Some(store.session(id).await?)
        }
        None => None,
    };
    let project = match (&options.team, &session, &options.alone, &options.composed) {
        (Some(path), ..) => Project::read(path, &user)?,
        (None, Some(session), ..) => project_of(session, &home, &user)?,
        (None, None, Some(alone), _) => alone.project(&user)?,
        (None, None, None, Some(composed)) => composed.project(&user)?,
        (None, None, None, None) => match find_team_file(host_environment) {
            Some(path) => Project::read(&path, &user)?,
            None if matches!(options.rehearse, Some(Rehearse::StandIn | Rehearse::Cli)) => {
                sample::write(&home, &user)?
            }
            None => return Err(no_team(host_environment).into()),
        },
    };
    tracing::info!(file = project.file, trust = ?project.trust, "read the team");
    let began_as = session.as_ref().and_then(|session| session.began.rehearsal);
    // The sample is always a rehearsal.
    let is_play = project.origin == Origin::Sample;
    let began_as = began_as.or(is_play.then_some(Rehearsal::StandIn));
    if let (Some(session), None) = (&session, began_as) {
        refuse_rehearsal(session.began.id, options.rehearse)?;
    }
    let backend = AgentBackend::new(options.rehearse, began_as);
    let done = match &session {
        Some(session) if backend != AgentBackend::Agents => {
            sessions::turns_done(&store, session.began.id).await?
        }
        _ => std::collections::HashMap::new(),
    };
    let script = options.script.as_deref();
    let script = script.map(|path| RehearsalScript::read(path, &project.team)).transpose()?;
    let is_new = session.is_none();
    let began = match session {
        Some(session) => session.began,
        None => begin(&project, backend, store.now())?,
    };
    let resolver = AgentResolver {
        project: &project,
        catalog: &user.catalog,
        rules: user.permissions.rules_for(&project.directory),
        answers: SessionAnswers::default(),
        backend,
        done,
        script,
        has_round: options.has_round && is_new,
        session: began.id,
        store: &store,
        home: &home,
        host_environment,
        record: options.record.map(|RecordOption::Wire| Record::Wire),
        elsewhere: elsewhere(&project.team, &store, backend)?,
    };
    let option = backend.option(began.rehearsal.or(began_as));
    let ResolvedTeam { team_agents, rehearsal_servers, diagnostics } = resolver.fill().await?;
    let coordinator = if is_new {
        if let Some(shared) = store.sharing()
            && let Some(origin) = origin::of_directory(&project.directory, host_environment)
        {
            shared.set_origin(began.id, &origin).await?;
        }
        Coordinator::create(store, began, team_agents, observer).await?
    } else {
        Coordinator::open(store, began.id, team_agents, observer).await?
    };
    let stays_rehearsal = !is_new && options.rehearse.is_none() && backend != AgentBackend::Agents;
    Ok(Conversation {
        coordinator,
        project,
        backend,
        option,
        rehearsal_servers,
        diagnostics,
        is_new,
        stays_rehearsal,
    })
}

/// A model that is a member of a stored session.
pub struct ModelMember {
    pub agent: ModelAgent,
    pub thread: ThreadId,
    /// The directory that it works in.
    pub directory: PathBuf,
    /// Whether the user trusts that directory.
    pub trust: Trust,
    /// The diagnostics of resolving it.
    pub diagnostics: Vec<Diagnostic>,
}

/// Finds a model that is a member of a stored session.
pub fn model_member(
    store: &AnyStore,
    session: &Session,
    name: &str,
    host_environment: &HostEnvironment,
) -> anyhow::Result<ModelMember> {
    let home = Home::new(host_environment);
    let user = UserConfiguration::load(&home)?;
    let project = project_of(session, &home, &user)?;
    let resolver = AgentResolver {
        project: &project,
        catalog: &user.catalog,
        rules: user.permissions.rules_for(&project.directory),
        answers: SessionAnswers::default(),
        backend: AgentBackend::Agents,
        done: std::collections::HashMap::new(),
        script: None,
        has_round: false,
        session: session.began.id,
        store,
        home: &home,
        host_environment,
        record: None,
        elsewhere: BTreeSet::new(),
    };
    let mut diagnostics = Vec::new();
    let (agent, name) = resolver.model_called(name, &mut diagnostics)?;
    let thread = resolver.thread_of(&name);
    let (directory, trust) = (project.directory.clone(), project.trust());
    Ok(ModelMember { agent, thread, directory, trust, diagnostics })
}

/// Returns the project of a stored session.
///
/// Sessions are untrusted input: they may be imported. A session's copy of the team file is trusted only
/// while a directory that the user trusts has the same text.
pub fn project_of(
    session: &Session,
    home: &Home,
    user: &UserConfiguration,
) -> anyhow::Result<Project> {
    if sample::is_of_session(&session.began, home) {
        return sample::write(home, user);
    }
    if let Some(alone) = Alone::of_session(&session.began).filter(|it| it.directory.is_dir()) {
        return alone.project(user);
    }
    let NewSession { id, directory, team, .. } = &session.began;
    let directory = PathBuf::from(directory);
    // A session stores no secrets of the file: they come from the directory.
    let current = team_text_in(&directory);
    let current = current.filter(|text| without_secrets(text) == without_secrets(team));
    let origin = if current.is_some() { Origin::File } else { Origin::Session };
    let name = format!("the team file of session {id}");
    let text = current.unwrap_or_else(|| team.clone());
    let mut project = Project::parse(name, text, directory, user, origin)?;
    project.origin = Origin::Session;
    if !project.directory.is_dir() {
        let gone = project.directory.display();
        return Err(UsageError(format!(
            "the directory of session {id} no longer exists: {gone}; pass --team FILE"
        ))
        .into());
    }
    Ok(project)
}

/// Refuses to rehearse in a real session: nothing would tell its made-up replies from real ones.
fn refuse_rehearsal(session: SessionId, asked: Option<Rehearse>) -> Result<(), UsageError> {
    let (Some(Rehearse::StandIn | Rehearse::Cli), id) = (asked, session.short()) else {
        return Ok(());
    };
    let (program, store) = (program::name(), program::store_option());
    Err(UsageError(format!(
        "session {id} is not a rehearsal, and made-up replies do not belong into it; \
         `{program} sessions fork {id} --rehearse{store}` makes a copy that is one"
    )))
}

/// Returns the text of the team file in a directory, if it can be read.
fn team_text_in(directory: &Path) -> Option<String> {
    let bytes = Disk.read(&directory.join(TEAM_FILE), FileKind::TeamFile).ok()?;
    String::from_utf8(bytes).ok()
}

/// Returns the members whose turns run on the nodes that the team file names.
fn elsewhere(
    team: &Team,
    store: &AnyStore,
    backend: AgentBackend,
) -> Result<BTreeSet<MemberName>, UsageError> {
    let node = |member: &Member| member.agent().and_then(|settings| settings.node.clone());
    let pinned = team.members.iter().filter_map(|member| Some((member, node(member)?)));
    if store.sharing().is_some() {
        return Ok(pinned.map(|(member, _)| member.name.clone()).collect());
    }
    match pinned.into_iter().next() {
        Some((Member { name, .. }, node)) if backend == AgentBackend::Agents => {
            Err(UsageError(format!(
                "{name} runs on the node `{node}`, which needs a store that machines share: pass --store URL (see \
                 `convoke docs store`)"
            )))
        }
        // A rehearsal runs the whole team here.
        _ => Ok(BTreeSet::new()),
    }
}

fn begin(
    project: &Project,
    backend: AgentBackend,
    created_at: Millis,
) -> Result<NewSession, UsageError> {
    Ok(NewSession {
        id: SessionId::generate(),
        created_at,
        name: project.team.name.clone(),
        directory: project::as_text(&project.directory)?,
        team: without_secrets(&project.text),
        task: project.team.task.clone(),
        rehearsal: backend.rehearsal(),
    })
}

fn no_team(host_environment: &HostEnvironment) -> UsageError {
    UsageError(format!(
        "no {TEAM_FILE} in {}; `convoke init` writes one, and `convoke run --rehearse` shows a \
         sample",
        host_environment.cwd.display()
    ))
}
