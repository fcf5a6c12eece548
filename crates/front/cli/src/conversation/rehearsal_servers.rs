//! Rehearsals with real CLIs: for each member a model server on this machine, and a private home in which
//! its CLI is configured for that server alone.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context as _;
use convoke_agent::adapter::Host;
use convoke_agent::config::Definition;
use convoke_agent::endpoint::{self, ModelServer};
use convoke_agent::process::guardian::Guardian;
use convoke_agent::process::{PrivateDir, temp_root};
use convoke_agent::sandbox::{Route, SandboxSettings};
use convoke_inspect::HostEnvironment;
use convoke_protocol::id::{MemberName, ThreadId};
use convoke_rehearsal::{Answer, Rehearsal, RequestFeed, Script, start};
use convoke_wire::{PartKind, RequestParts};

/// The model servers of a rehearsal, one for each member with a CLI.
#[derive(Debug, Default)]
pub struct RehearsalServers {
    members: Vec<RehearsedMember>,
}

#[derive(Debug)]
struct RehearsedMember {
    member: MemberName,
    server: Rehearsal,
    /// The number of calls that were returned.
    seen: usize,
    /// Removed when the rehearsal ends.
    _home: PrivateDir,
}

/// The texts of one request, as they reached the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The bytes of the whole request.
    pub bytes: u64,
    /// The system instructions.
    pub system: Vec<String>,
    /// The messages of the conversation.
    pub messages: Vec<String>,
}

impl RehearsalServers {
    /// Sets up a member's server and home, whose path the member's thread decides. Returns the machine that its program will see, and the requests to its
    /// server.
    pub(super) async fn enter(
        &mut self,
        member: MemberName,
        thread: &ThreadId,
        agent: &Definition,
        lines: Vec<String>,
        host_environment: &HostEnvironment,
        state_dir: PathBuf,
    ) -> anyhow::Result<(Host, RequestFeed)> {
        let home = PrivateDir::create_for(&temp_root(), thread.as_str())
            .context("cannot create a private home")?;
        let server = start(Script::new(lines.into_iter().map(Answer::say))).await?;
        let address = server.base_url();
        endpoint::configure_agent(agent, &address, home.path())?;
        if let Some(vendor) = agent.vendor() {
            let users = host_environment.user_home(vendor);
            vendor.hide_users_directory(&users.directory, home.path())?;
        }
        let kept = host_environment.environment.iter().filter(|(name, _)| endpoint::is_kept(name));
        let kept = kept.map(|(name, value)| (name.clone(), value.clone()));
        let model_server = ModelServer { base_url: &address, proxy_url: &server.proxy_url() };
        let own = endpoint::agent_environment(agent, model_server, home.path());
        let own = own.context("the agent cannot be pointed to a model server")?;
        let own = own.into_iter().map(|(name, value)| (OsString::from(name), value));
        // The server is the program's proxy too, so that it needs no other port.
        let route = Route::Through { port: server.port() };
        let host = Host {
            guardian: Guardian::this_program()
                .context("cannot determine the path of this program")?,
            env: kept.chain(own).collect(),
            temp_root: home.path().join("tmp"),
            state_dir,
            sandbox: SandboxSettings { route, ..SandboxSettings::default() },
            programs: convoke_vendors::programs(),
        };
        let feed = server.feed();
        self.members.push(RehearsedMember { member, server, seen: 0, _home: home });
        Ok((host, feed))
    }

    /// Returns the first turn request that reached a member's server since the last call.
    ///
    /// A program may send several requests in a turn; the first contains the prompt.
    pub fn received(&mut self, member: &MemberName) -> Option<Received> {
        let member_server =
            self.members.iter_mut().find(|member_server| member_server.member == *member)?;
        let calls = member_server.server.model_calls();
        let fresh = calls.get(member_server.seen..).unwrap_or_default();
        let first = fresh.iter().find(|call| call.is_turn())?;
        let request_parts = RequestParts::parse(first.model_call()?.wire, &first.body).ok()?;
        member_server.seen = calls.len();
        let texts = |kind: PartKind| {
            let parts = request_parts.parts.iter().filter(move |part| part.kind == kind);
            parts.map(|part| part.text.clone()).collect()
        };
        Some(Received {
            bytes: request_parts.body_bytes,
            system: texts(PartKind::System),
            messages: texts(PartKind::Message),
        })
    }
}
