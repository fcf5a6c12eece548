//! `convoke node`: runs turns of sessions in a shared store.

mod offer;
mod output;
mod turns;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::{Args, Subcommand};
use convoke_session::sharing::{LeftTurn, NodeOffer};
use convoke_session::store::Holder;
use convoke_session::store::postgres::{NodeRegistration, PostgresStore};
use convoke_session::{AnyStore, Store as _, StoreError};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use self::offer::offered;
use self::output::NodeOutput;
use self::turns::Turns;
use super::nodes;
use crate::conversation::origin::{self, ProjectDirectories};
use crate::conversation::store::open_store;
use crate::host_environment;
use crate::outcome::{Outcome, UsageError};

/// The maximum time between two searches for turns. New turns are announced; the end of another node is not.
const LOOK: Duration = Duration::from_secs(2);

/// The time limit for telling the store that the node has stopped.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// Run turns of sessions in a shared store.
///
/// Needs --store. A node runs the turns of agents that it has. The first SIGTERM or Ctrl-C waits for running turns
/// to end, the second offers them to other nodes.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  convoke node --store postgres://convoke@db.example/team
  convoke node list --store postgres://convoke@db.example/team
  convoke node --name build-server --offer codex --project /srv/shop
  convoke node --map /home/ada/shop=/srv/shop --label gpu"
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<NodeCommand>,
    /// The name of the node, which members select with `node = "NAME"` [default: the name of this machine]
    #[arg(long, value_name = "NAME", value_parser = label)]
    name: Option<String>,
    /// The agents to run, with a version if it matters (`codex@0.166`) [default: all installed agents]
    #[arg(long, value_name = "AGENT", value_delimiter = ',')]
    offer: Vec<String>,
    /// An additional name that members can select
    #[arg(long, value_name = "LABEL", value_delimiter = ',', value_parser = label)]
    label: Vec<String>,
    /// A directory of another machine, and the directory here that has the same files
    #[arg(long, value_name = "FROM=TO", value_parser = mapping)]
    map: Vec<(PathBuf, PathBuf)>,
    /// A git repository of this machine; sessions find it by its remote [default without --map: the working directory]
    #[arg(long, value_name = "DIR", value_parser = directory)]
    project: Vec<PathBuf>,
    /// The maximum number of concurrent turns
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Write one JSON event per line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum NodeCommand {
    List(nodes::Arguments),
}

fn mapping(text: &str) -> Result<(PathBuf, PathBuf), String> {
    let (from, to) = text.split_once('=').ok_or("write FROM=TO")?;
    let (from, to) = (PathBuf::from(from), directory(to)?);
    if from.is_absolute() && to.is_absolute() {
        Ok((from, to))
    } else {
        Err("both directories must be absolute paths".to_owned())
    }
}

fn directory(text: &str) -> Result<PathBuf, String> {
    let directory = PathBuf::from(text);
    if directory.is_dir() { Ok(directory) } else { Err(format!("`{text}` is not a directory")) }
}

/// Parses a name by which members can ask for the node.
fn label(text: &str) -> Result<String, String> {
    if text.trim().is_empty() || text.chars().any(char::is_control) {
        Err("a name must not be blank or contain control characters".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

/// Runs `convoke node`.
pub fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    if let Some(NodeCommand::List(arguments)) = &arguments.command {
        return nodes::run(arguments);
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: Arguments) -> anyhow::Result<Outcome> {
    let host_environment = host_environment::of_process()?;
    let store = open_store(&host_environment).await?;
    let AnyStore::Postgres(shared) = store.clone() else {
        return Err(UsageError(
            "a node needs a store that machines share: pass --store URL (see `convoke docs store`)"
                .to_owned(),
        )
        .into());
    };
    let mut projects = arguments.project;
    for repository in &projects {
        if origin::of_directory(repository, &host_environment).is_none() {
            return Err(UsageError(format!(
                "--project {}: must be a git repository with a commit and a remote `origin`, by which sessions find it",
                repository.display()
            ))
            .into());
        }
    }
    let holder = Holder::this_process(store.now());
    let name = arguments.name.clone().unwrap_or_else(|| holder.host.clone());
    let mut offer = offered(&arguments.offer, &host_environment)?;
    offer.labels.clone_from(&arguments.label);
    if projects.is_empty() && arguments.map.is_empty() {
        projects.push(host_environment.cwd.clone());
    }
    let shown = NodeOutput::new(arguments.json);
    let registration = register(&shared, &name, &offer, &holder, shown).await?;
    shown.started(&name, &offer)?;
    let turns = Turns {
        store,
        shared: shared.clone(),
        name,
        offer,
        places: ProjectDirectories { mapped: arguments.map, projects },
        host_environment: Arc::new(host_environment),
        holder,
        shown,
        most: arguments.jobs.into(),
        answers: Mutex::default(),
        left: watch::Sender::default(),
    };
    let ended = take_turns(turns, &shared, &registration).await;
    let removed = tokio::time::timeout(STOP_LIMIT, shared.remove_node(&registration)).await;
    let is_removed = matches!(removed, Ok(Ok(())));
    shared.close().await;
    ended?;
    shown.note(if is_removed {
        "stopped"
    } else {
        "stopped; the store cannot be reached, and lists this node until its registration expires"
    })?;
    Ok(Outcome::Done)
}

/// Registers the node. The name of a killed node is free when its registration expires.
async fn register(
    shared: &PostgresStore,
    name: &str,
    offer: &NodeOffer,
    holder: &Holder,
    shown: NodeOutput,
) -> anyhow::Result<NodeRegistration> {
    let lease = shared.lease_duration();
    let give_up = tokio::time::Instant::now() + lease;
    let mut is_told = false;
    loop {
        match shared.register_node(name, offer, holder).await {
            Err(error @ StoreError::NodeExists { .. }) if tokio::time::Instant::now() < give_up => {
                if !std::mem::replace(&mut is_told, true) {
                    shown.note(&format!(
                        "waiting: {error}; if it has ended, its registration expires within {} seconds",
                        lease.as_secs()
                    ))?;
                }
                tokio::time::sleep(LOOK / 4).await;
            }
            registered => return Ok(registered?),
        }
    }
}

/// Runs turns until a signal ends the node.
async fn take_turns(
    turns: Turns,
    shared: &PostgresStore,
    registration: &NodeRegistration,
) -> anyhow::Result<()> {
    let mut terminations = signal(SignalKind::terminate())?;
    let mut interrupts = signal(SignalKind::interrupt())?;
    let shown = turns.shown;
    let (draining, is_draining) = watch::channel(false);
    let beats = Heartbeat {
        shared,
        registration,
        offer: turns.offer.clone(),
        left: turns.left.subscribe(),
        draining: is_draining.clone(),
        shown,
    };
    let mut beating = std::pin::pin!(beats.run());
    let mut taking = std::pin::pin!(turns.take(is_draining));
    loop {
        tokio::select! {
            ended = &mut taking => return ended,
            ended = &mut beating => return ended,
            _ = terminations.recv() => {}
            _ = interrupts.recv() => {}
        }
        if draining.send_replace(true) {
            // Dropping the turns ends their agents; other nodes run them again.
            shown.note("stopping now; running turns are offered to other nodes")?;
            return Ok(());
        }
        shown.note(
            "draining: waiting for running turns, starting no new ones; a second signal stops now",
        )?;
    }
}

/// The heartbeat of a node, with its offer. Its turns have separate leases.
struct Heartbeat<'n> {
    shared: &'n PostgresStore,
    registration: &'n NodeRegistration,
    offer: NodeOffer,
    left: watch::Receiver<Vec<LeftTurn>>,
    draining: watch::Receiver<bool>,
    shown: NodeOutput,
}

impl Heartbeat<'_> {
    /// Sends heartbeats until another process has the name of the node.
    async fn run(mut self) -> anyhow::Result<()> {
        let lease = self.shared.lease_duration();
        let mut is_away = false;
        loop {
            self.offer.left.clone_from(&self.left.borrow_and_update());
            self.offer.is_draining = *self.draining.borrow_and_update();
            let beat = self.shared.beat_node(self.registration, &self.offer);
            match tokio::time::timeout(lease, beat).await {
                Ok(Ok(true)) => self.shown.reach(&mut is_away, None)?,
                Ok(Ok(false)) => anyhow::bail!("another process uses the name of this node"),
                Ok(Err(error)) => self.shown.reach(&mut is_away, Some(&error.to_string()))?,
                Err(_) => self.shown.reach(&mut is_away, Some("no response"))?,
            }
            tokio::select! {
                () = tokio::time::sleep(lease / 3) => {}
                Ok(()) = self.left.changed() => {}
                Ok(()) = self.draining.changed() => {}
            }
        }
    }
}
