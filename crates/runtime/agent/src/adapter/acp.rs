//! Agents that speak the Agent Client Protocol (ACP), version 1, on standard input and output.
//!
//! File and terminal methods are offered only if the member's settings ask for them; otherwise agents use their
//! own tools, which the sandbox confines. Convoke never signs an agent in; a failed turn tells the user how to.

mod choice;
mod client;
mod inert;
mod permit;
mod preset;
mod request;
mod session;

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use convoke_core::Diagnostic;
use convoke_protocol::verdict::Failure;
use serde_json::{Value, json};

pub use self::client::ClientSettings;
pub(super) use self::inert::ESCAPING;
pub use self::permit::Permit;
pub use self::preset::{Preset, PresetEndpoint};
pub use self::session::{Session, SessionSettings};
use super::{Context, ProgramCall, start_failure, untrusted};
use crate::cli::Cli;
use crate::diagnostics;
use crate::launch::UntrustedFile;
use crate::stream::acp::Acp;
use crate::team_tools::{McpServer, SERVER};
use crate::turn_input::{Limits, Permissions, Trust};

/// Prepares a call.
pub(super) fn call(context: &Context<'_>) -> Result<ProgramCall, Failure> {
    let preset = context.definition.preset;
    if let Some(call) =
        context.vendor.filter(|_| preset.is_some()).and_then(|it| it.acp_call(context))
    {
        return call;
    }
    refuse_what_is_followed(context)?;
    let own = preset.map_or(&[][..], |preset| preset.args);
    let (users, meta) =
        adapter_arguments(context.vendor, &context.definition.args, context.turn_input.trust);
    let args = own.iter().map(OsString::from).chain(users.into_iter().map(OsString::from));
    let settings =
        SessionSettings { model: context.model().map(str::to_owned), meta, ..settings(context) };
    let turn_input = context.turn_input;
    // A session that goes on has the system text already.
    let is_continued = turn_input.memory.is_some() && turn_input.resume.is_some();
    let prompt = match turn_input.system.as_ref().filter(|_| !is_continued) {
        Some(system) => format!("{system}\n\n{}", turn_input.prompt),
        None => turn_input.prompt.clone(),
    };
    let mut args: Vec<OsString> = args.collect();
    if let Some(server) = &context.team_server
        && let Some(option) = preset.and_then(|preset| preset.servers_option)
    {
        let mut settings = server.settings();
        settings["type"] = "local".into();
        settings["tools"] = json!(["*"]);
        let servers = json!({ "mcpServers": { SERVER: settings } });
        let path = context.write_private("mcp.json", servers.to_string())?;
        args.extend([option.into(), format!("@{}", path.display()).into()]);
    }
    let mut ports = Vec::new();
    if let Some(option) = preset.and_then(|preset| preset.port_option) {
        let port =
            free_port().map_err(|error| start_failure(format!("no port is free: {error}")))?;
        args.extend([option.into(), port.to_string().into()]);
        ports.push(port);
    }
    let mut call = ProgramCall { ports, ..program_call(context, args, &prompt, settings) };
    if let Some((variable, defaults)) = preset.and_then(|preset| preset.confined_defaults)
        && context.enforcer.is_kernel()
        && context.permissions() < Permissions::Full
    {
        let path = context.write_private("defaults.json", defaults)?;
        call.env.push((variable.into(), path.into()));
    }
    Ok(call)
}

/// Refuses the turn if the agent would apply settings of an untrusted project. Programs look for settings up to
/// the root of the repository.
fn refuse_what_is_followed(context: &Context<'_>) -> Result<(), Failure> {
    let Some(preset) = context.definition.preset else { return Ok(()) };
    let turn_input = context.turn_input;
    match preset.followed_file(&turn_input.cwd) {
        Some(file) if turn_input.trust == Trust::Untrusted => {
            Err(untrusted(&UntrustedFile::Applied { program: preset.name.to_owned(), path: file }))
        }
        _ => Ok(()),
    }
}

impl Preset {
    /// Returns a file of the project around a directory that the agent applies and no option turns off.
    pub fn followed_file(&self, cwd: &Path) -> Option<PathBuf> {
        let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
        let root = cwd.ancestors().find(|it| it.join(".git").exists()).unwrap_or(&cwd);
        let directories = cwd.ancestors().take_while(|directory| directory.starts_with(root));
        let mut files =
            directories.flat_map(|directory| self.followed.iter().map(|name| directory.join(name)));
        files.find(|file| file.symlink_metadata().is_ok())
    }
}

/// The start of an agent with only a prompt, as a person would start it.
pub struct TypedStart {
    /// The arguments.
    pub args: Vec<String>,
    /// The turn.
    pub session: Session,
}

impl TypedStart {
    /// Prepares the start of an agent with the user's own arguments.
    pub fn new(preset: &'static Preset, users: &[String], prompt: &str, cwd: &Path) -> Self {
        let (users, meta) = adapter_arguments(preset.vendor, users, Trust::Trusted);
        let (blocks, _) = inert::blocks(prompt, preset.tail);
        let settings = SessionSettings {
            prompt: blocks.into_iter().map(Cow::into_owned).collect(),
            cwd: cwd.to_owned(),
            meta,
            ..SessionSettings::default()
        };
        let reader = Acp::new(Limits::default().reply_bytes)
            .reporting_errors_as_text(preset.reports_errors_as_text);
        let own = preset.args.iter().map(|argument| (*argument).to_owned());
        Self { args: own.chain(users).collect(), session: Session::new(reader, settings) }
    }
}

/// Splits the user's arguments for the adapter of a CLI.
fn adapter_arguments(
    vendor: Option<&'static dyn Cli>,
    args: &[String],
    trust: Trust,
) -> (Vec<String>, Option<Value>) {
    match vendor {
        Some(vendor) => vendor.adapter_arguments(args, trust),
        None => (args.to_vec(), None),
    }
}

/// Returns a free TCP port of this machine.
fn free_port() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// Returns the settings of a turn that all agents share.
pub fn settings(context: &Context<'_>) -> SessionSettings {
    let preset = context.definition.preset;
    let permissions = context.permissions();
    let is_confined = context.enforcer.is_kernel();
    SessionSettings {
        cwd: PathBuf::from(&*context.turn_input.cwd.to_string_lossy()),
        resume: context.resume().map(str::to_owned),
        must_resume: context.turn_input.memory.is_some(),
        stays: context.turn_input.memory.is_some() && context.turn_input.team_tools.is_none(),
        mode: context.definition.mode.clone(),
        fitting_mode: preset.and_then(|preset| (preset.mode)(permissions, is_confined)),
        permit: (permissions != Permissions::Ask).then_some(Permit { permissions, is_confined }),
        // A known CLI has its own sign-in command, whatever the protocol.
        sign_in: preset.filter(|preset| preset.vendor.is_none()).map(|preset| preset.sign_in),
        servers: context.team_server.iter().map(McpServer::of_session).collect(),
        client: client_settings(context),
        ..SessionSettings::default()
    }
}

/// Returns the client methods to offer. Terminals require enforcement by the kernel, because nothing else
/// confines a command.
fn client_settings(context: &Context<'_>) -> ClientSettings {
    let definition = context.definition;
    ClientSettings {
        files: definition.client_files,
        terminal: definition.client_terminal && !lacks_confinement(context),
        output_bytes: context.turn_input.limits.output_bytes,
        missing_is_empty: context.vendor.is_some_and(|it| it.facts().missing_is_empty),
    }
}

fn lacks_confinement(context: &Context<'_>) -> bool {
    !context.enforcer.is_kernel() && context.permissions() < Permissions::Full
}

/// Returns the call of a program, with its prompt as text blocks.
pub fn program_call(
    context: &Context<'_>,
    args: Vec<OsString>,
    prompt: &str,
    mut settings: SessionSettings,
) -> ProgramCall {
    let preset = context.definition.preset;
    settings.tail = preset.and_then(|preset| preset.tail);
    let (blocks, note) = inert::blocks(prompt, settings.tail);
    settings.prompt = blocks.into_iter().map(Cow::into_owned).collect();
    settings.images.clone_from(&context.turn_input.images);
    let reports_errors_as_text = preset.is_some_and(|preset| preset.reports_errors_as_text);
    let reader = Acp::new(context.turn_input.limits.reply_bytes)
        .reporting_errors_as_text(reports_errors_as_text);
    let mut call = ProgramCall::new(args, Session::new(reader, settings));
    call.diagnostics.extend(note);
    if context.definition.client_terminal && lacks_confinement(context) {
        let message =
            "terminals are not offered: this system cannot confine a command to the permissions";
        call.diagnostics.push(Diagnostic::new(diagnostics::AGENT_NOTICE, message));
    }
    call.env = environment(context);
    call
}

fn environment(context: &Context<'_>) -> Vec<(OsString, OsString)> {
    let own = context.definition.preset.map_or(&[][..], |preset| preset.env);
    let mut env: Vec<(OsString, OsString)> =
        own.iter().map(|(name, value)| (name.into(), value.into())).collect();
    env.extend(context.vendor.iter().flat_map(|vendor| vendor.adapter_environment(context)));
    env
}

#[cfg(test)]
mod tests;
