//! From arguments to a conversation that can run: `run` and `chat` begin here.
//!
//! [`open`] finds the team, asks whether its directory is trusted, finds an agent for every member, and
//! begins a session or takes one up.

mod cast;
mod engagement;
pub mod home;
pub mod project;
pub mod sample;
pub mod sessions;
pub mod stage;
pub mod trust;

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use convoke_agent::delivery::Trust;
use convoke_core::Diagnostic;
use convoke_inspect::Surroundings;
use convoke_model::{ModelAgent, ThreadId};
use convoke_session::coordinator::Observer;
use convoke_session::{
    Coordinator, MemberName, Millis, NewSession, Session, SessionId, SqliteStore, Store as _,
};

use self::cast::{Cast, Casting};
use self::home::Home;
use self::project::{Origin, Project, TEAM_FILE, find_team_file};
use self::stage::Stage;
use self::trust::TrustedDirectories;
use crate::outcome::UsageError;

/// Which conversation to hold, and who plays the agents.
#[derive(Debug, Default, Args)]
pub struct Order {
    /// The team file; by default convoke.toml here, or above as far as the repository goes
    #[arg(long, value_name = "FILE")]
    pub team: Option<PathBuf>,
    /// The session to go on with, by its id or either end of it
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Needs no account: a built-in stand-in answers, or with `=cli` the installed programs do, in
    /// private homes and with a model server on this machine
    #[arg(
        long,
        value_name = "WITH",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "stand-in"
    )]
    pub rehearse: Option<Rehearsal>,
}

/// How a conversation is rehearsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Rehearsal {
    /// With the built-in stand-in
    StandIn,
    /// With the installed programs
    Cli,
}

/// Who plays the agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Players {
    /// The agents themselves.
    Agents,
    /// The built-in stand-in, for all.
    StandIns,
    /// Their own programs, with a model server of ours.
    Clis,
}

impl Players {
    /// Returns the option that asks for them.
    pub const fn option(self) -> &'static str {
        match self {
            Self::Agents => "",
            Self::StandIns => " --rehearse",
            Self::Clis => " --rehearse=cli",
        }
    }
}

/// A conversation that can run.
pub struct Conversation {
    /// Holds the session.
    pub coordinator: Coordinator<SqliteStore>,
    /// The team and its directory.
    pub project: Project,
    /// Who plays the agents.
    pub players: Players,
    /// The servers of a rehearsal with programs.
    pub stage: Stage,
    /// What the user should know before it begins.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether the session was begun just now.
    pub is_new: bool,
}

impl Conversation {
    /// Returns the person who speaks: the one who asked last, else the first of the team.
    pub async fn speaker(&self) -> anyhow::Result<MemberName> {
        let session = self.coordinator.store().session(self.coordinator.session()).await?;
        let roster = self.coordinator.crew().roster();
        let asked = session.state.asker.filter(|asker| roster.is_person(asker));
        // A crew always has a person.
        Ok(asked.or_else(|| roster.people().next().cloned()).unwrap_or_else(|| "user".into()))
    }

    /// Returns who is called when a person calls nobody: the first agent of the team.
    pub fn first_agent(&self) -> Option<MemberName> {
        self.coordinator.crew().roster().agents().next().cloned()
    }
}

/// Opens a conversation: a new session, or the one that the order names.
///
/// Without a team file, a rehearsal is of the built-in sample.
pub async fn open(
    order: &Order,
    surroundings: &Surroundings,
    observer: Observer,
) -> anyhow::Result<Conversation> {
    let home = Home::of(surroundings);
    let store = SqliteStore::open(&home.data).await?;
    let trusted = TrustedDirectories::load(&home)?;
    let session = match &order.session {
        Some(written) => Some(store.session(sessions::find(&store, written).await?).await?),
        None => None,
    };
    let project = match (&order.team, &session) {
        (Some(path), _) => Project::read(path, &trusted)?,
        (None, Some(session)) => project_of(session, &home, &trusted)?,
        (None, None) => match find_team_file(&surroundings.cwd) {
            Some(path) => Project::read(&path, &trusted)?,
            None if order.rehearse.is_some() => sample::write(&home)?,
            None => return Err(no_team(surroundings).into()),
        },
    };
    let players = match order.rehearse {
        Some(Rehearsal::StandIn) => Players::StandIns,
        Some(Rehearsal::Cli) => Players::Clis,
        // The sample is a play: nobody pays for it by going on with it.
        None if project.origin == Origin::Sample => Players::StandIns,
        None => Players::Agents,
    };
    let done = match &session {
        Some(session) if project.origin == Origin::Sample => {
            sessions::turns_done(&store, session.began.id).await?
        }
        _ => std::collections::HashMap::new(),
    };
    let is_new = session.is_none();
    let began = session.map_or_else(|| begin(&project), |session| session.began);
    let casting = Casting {
        project: &project,
        players,
        done,
        session: began.id,
        store: &store,
        home: &home,
        surroundings,
    };
    let Cast { crew, stage, diagnostics } = casting.fill().await?;
    let coordinator = if is_new {
        Coordinator::create(store, began, crew, observer).await?
    } else {
        Coordinator::open(store, began.id, crew, observer).await?
    };
    Ok(Conversation { coordinator, project, players, stage, diagnostics, is_new })
}

/// A model that is a member of a stored session.
pub struct ModelMember {
    /// Takes its turns.
    pub agent: ModelAgent,
    /// What it remembers.
    pub thread: ThreadId,
    /// The directory that it works in.
    pub directory: PathBuf,
    /// Whether the user trusts it.
    pub trust: Trust,
    /// What the user should know.
    pub diagnostics: Vec<Diagnostic>,
}

/// Finds a model that is a member of a stored session.
pub fn model_member(
    store: &SqliteStore,
    session: &Session,
    name: &str,
    surroundings: &Surroundings,
) -> anyhow::Result<ModelMember> {
    let home = Home::of(surroundings);
    let project = project_of(session, &home, &TrustedDirectories::load(&home)?)?;
    let casting = Casting {
        project: &project,
        players: Players::Agents,
        done: std::collections::HashMap::new(),
        session: session.began.id,
        store,
        home: &home,
        surroundings,
    };
    let mut diagnostics = Vec::new();
    let (agent, name) = casting.model_called(name, &mut diagnostics)?;
    let thread = casting.thread_of(&name);
    let (directory, trust) = (project.directory.clone(), project.trust);
    Ok(ModelMember { agent, thread, directory, trust, diagnostics })
}

/// Returns the project of a stored session.
///
/// A session may come from a file of somebody else's. So its own copy of the team file is trusted only
/// while it is what stands in the directory that the user trusts.
pub fn project_of(
    session: &Session,
    home: &Home,
    trusted: &TrustedDirectories,
) -> anyhow::Result<Project> {
    if sample::is_of_session(&session.began, home) {
        return sample::write(home);
    }
    let NewSession { id, directory, team, .. } = &session.began;
    let directory = PathBuf::from(directory);
    let stands_there =
        std::fs::read_to_string(directory.join(TEAM_FILE)).is_ok_and(|text| text == *team);
    let trust = if stands_there { trusted.trust_of(&directory) } else { Trust::Untrusted };
    let name = format!("the team file of session {id}");
    let mut project = Project::of(name, team.clone(), directory, trust)?;
    project.origin = Origin::Session;
    if !project.directory.is_dir() {
        let gone = project.directory.display();
        return Err(UsageError(format!(
            "the directory of session {id} is gone: {gone}; name a team file elsewhere with --team FILE"
        ))
        .into());
    }
    Ok(project)
}

fn begin(project: &Project) -> NewSession {
    NewSession {
        id: SessionId::generate(),
        created_at: now(),
        name: project.team.name.clone(),
        directory: project.directory.display().to_string(),
        team: project.text.clone(),
        task: project.team.task.clone(),
    }
}

/// Returns the time.
pub fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

fn no_team(surroundings: &Surroundings) -> UsageError {
    UsageError(format!(
        "there is no {TEAM_FILE} in {}; `convoke init` writes one, and `convoke run --rehearse` shows a \
         sample",
        surroundings.cwd.display()
    ))
}
