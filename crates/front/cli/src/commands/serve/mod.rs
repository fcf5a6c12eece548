//! `convoke serve`: the page.

mod address;
mod composing;
pub(in crate::commands) mod machine;
pub(in crate::commands) mod opening;
pub(in crate::commands) mod other_sessions;
pub(in crate::commands) mod page;
mod transcript;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use convoke_server::{Scope, Server, Token};
use convoke_session::AnyStore;
use convoke_source::FoundSession;
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use self::address::Address;
use self::machine::Machine;
use self::other_sessions::Others;
use crate::conversation::Rehearse;
use crate::conversation::home::Home;
use crate::conversation::store::open_store;
use crate::host_environment;
use crate::other_programs::HomeArgument;
use crate::outcome::{Outcome, UsageError};
use crate::terminal::{stderr, stdout};

/// Show conversations and every prompt in a browser.
///
/// Prints the address of the page. Its part after # is a token: anyone who has it can read and act in your sessions.
/// The address stays the same when the server is restarted. The page is served on this machine only. Ctrl-C stops it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  convoke serve --open
  convoke serve --port 8080
  convoke serve --allow-host box.example.org")]
pub struct Arguments {
    #[command(flatten)]
    serving: ServingArguments,
    /// Open the page in your browser
    #[arg(long)]
    open: bool,
    /// The team file of new conversations [default: convoke.toml here or in a parent directory]
    #[arg(long, value_name = "FILE")]
    team: Option<PathBuf>,
    /// Start new conversations as rehearsals; see `run`
    #[arg(
        long,
        value_name = "WITH",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "stand-in"
    )]
    rehearse: Option<Rehearse>,
}

/// Where the page is served, and which sessions of other programs it shows.
#[derive(Debug, Args)]
pub(in crate::commands) struct ServingArguments {
    /// The port on 127.0.0.1; 0 is any free one [default: that of the last time, if it is free]
    #[arg(long, value_name = "N", value_parser = port)]
    port: Option<u16>,
    /// Make a new token, and forget the old one; pages that are open must be opened again
    #[arg(long)]
    new_token: bool,
    /// An additional host name of the page, for a forwarded port; may be repeated
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    #[command(flatten)]
    pub(in crate::commands) home: HomeArgument,
    /// Write the address as JSON
    #[arg(long)]
    json: bool,
}

/// What a page shows, and how it is opened.
pub(in crate::commands) struct Shown {
    /// The path of the first view.
    pub(in crate::commands) path: String,
    /// A session of another program that may be outside the home.
    pub(in crate::commands) named: Option<FoundSession>,
    pub(in crate::commands) browser: Browser,
}

/// Whether a browser is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum Browser {
    No,
    /// The page is served also where there is none.
    IfThereIsOne,
    Required,
}

/// Runs `convoke serve`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let browser = if arguments.open { Browser::Required } else { Browser::No };
    runtime(&arguments.serving)?.block_on(async {
        let host_environment = host_environment::of_process()?;
        let store = open_store(&host_environment).await?;
        let others = Others::new(arguments.serving.home.clone(), None);
        let machine = Machine::new(host_environment, store.clone(), Arc::new(others))
            .starting(arguments.team.clone(), arguments.rehearse);
        let shown = Shown { path: "/".to_owned(), named: None, browser };
        serve(&arguments.serving, &shown, store, machine).await
    })
}

/// Serves the page of a session, and opens it: without a team file for new conversations but that of the directory.
pub(in crate::commands) async fn show(
    arguments: &ServingArguments,
    shown: &Shown,
    store: AnyStore,
) -> anyhow::Result<Outcome> {
    let others = Others::new(arguments.home.clone(), shown.named.clone());
    let machine = Machine::new(host_environment::of_process()?, store.clone(), Arc::new(others));
    serve(arguments, shown, store, machine).await
}

/// Returns the runtime of a page whose arguments are valid.
pub(in crate::commands) fn runtime(arguments: &ServingArguments) -> anyhow::Result<Runtime> {
    for name in &arguments.allow_host {
        check_host(name)?;
    }
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// Rejects a name that is not valid in a `Host` header.
fn check_host(name: &str) -> Result<(), UsageError> {
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':' | '[' | ']');
    if name.is_empty() || !name.chars().all(is_host) {
        let problem =
            format!("--allow-host: `{name}` is not a host name; write it without http://");
        return Err(UsageError(problem));
    }
    Ok(())
}

async fn serve(
    arguments: &ServingArguments,
    shown: &Shown,
    store: AnyStore,
    machine: Machine,
) -> anyhow::Result<Outcome> {
    let data = Home::new(&host_environment::of_process()?).data;
    let server = bind(arguments, &data, &store, Arc::new(machine)).await?;
    let url = server.url_of(&shown.path);
    if arguments.json {
        writeln!(stdout(), "{}", json!({ "url": url }))?;
    } else {
        writeln!(stdout(), "{url}")?;
    }
    stdout().flush()?;
    let _opened = match shown.browser {
        Browser::No => None,
        Browser::Required => Some(opening::open(&url)?),
        Browser::IfThereIsOne => match opening::open(&url) {
            Ok(opened) => Some(opened),
            Err(problem) => {
                writeln!(stderr(), "{problem:#}")?;
                None
            }
        },
    };
    let mut interrupts = signal(SignalKind::interrupt()).context("cannot wait for Ctrl-C")?;
    let mut ends = signal(SignalKind::terminate()).context("cannot wait for a signal")?;
    let end = async {
        tokio::select! {
            _ = interrupts.recv() => {}
            _ = ends.recv() => {}
        }
    };
    server.serve(end).await;
    Ok(Outcome::Done)
}

/// Parses a port.
fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| "a port is a number from 0 to 65535; 0 takes a free one".to_owned())
}

/// Listens with the remembered token on the remembered port. If that port is taken, the token is another one: a page that
/// is still open sends the remembered token to whoever listens there.
async fn bind(
    arguments: &ServingArguments,
    data: &Path,
    store: &AnyStore,
    machine: Arc<Machine>,
) -> anyhow::Result<Server> {
    let listen = async |port: u16, token: &Token| {
        let (hosts, token) = (arguments.allow_host.clone(), token.clone());
        Server::bind(port, hosts, token, store.clone(), machine.clone(), Scope::All).await
    };
    let refused = |port: u16| {
        move |error: io::Error| {
            let why = match error.kind() {
                io::ErrorKind::AddrInUse => "another program listens there",
                io::ErrorKind::PermissionDenied => "only root may listen on ports below 1024",
                _ => return UsageError(format!("cannot listen on port {port}: {error}")),
            };
            UsageError(format!("cannot listen on port {port}: {why}; `--port 0` takes a free one"))
        }
    };
    let known = if arguments.new_token { None } else { Address::read(data)? };
    let token = known.as_ref().and_then(Address::token).unwrap_or_else(Token::generate);
    let server = match (arguments.port, &known) {
        (Some(port), _) => listen(port, &token).await.map_err(refused(port))?,
        (None, Some(known)) => match listen(known.port, &token).await {
            Err(_) => {
                let token = Token::generate();
                let server = listen(0, &token).await.map_err(refused(0))?;
                if !address::is_listened_to_by_this_user(known.port) {
                    Address::new(&token, server.port()).write(data)?;
                }
                server
            }
            Ok(server) => server,
        },
        (None, None) => listen(0, &token).await.map_err(refused(0))?,
    };
    if arguments.new_token {
        Address::new(&token, server.port()).write(data)?;
    } else if known.is_none() && !Address::new(&token, server.port()).create(data)? {
        // Another server has made one meanwhile.
        return Box::pin(bind(arguments, data, store, machine.clone())).await;
    }
    Ok(server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_and_nothing_else() {
        for name in ["box.example.org", "localhost:8080", "[::1]:80"] {
            assert!(check_host(name).is_ok(), "{name}");
        }
        for name in ["", "*", "http://box", "a b", "box/"] {
            assert!(check_host(name).is_err(), "{name}");
        }
    }
}
