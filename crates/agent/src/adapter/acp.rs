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
use serde_json::{Map, Value, json};

pub use self::client::ClientSettings;
pub(super) use self::inert::ESCAPING;
pub use self::permit::Permit;
pub use self::preset::{PRESETS, Preset};
pub use self::session::{Session, SessionSettings};
use super::{Context, ProgramCall, start_failure};
use crate::stream::acp::Acp;
use crate::team_tools::{McpServer, SERVER};
use crate::turn_input::{Limits, Permissions, Trust};
use crate::vendor::Vendor;
use crate::{claude_settings, diagnostics};

/// Prepares a call.
pub(super) fn call(context: &Context<'_>) -> Result<ProgramCall, Failure> {
    let preset = context.definition.preset;
    if context.vendor == Some(Vendor::Gemini) && preset.is_some() {
        return super::gemini::call(context);
    }
    refuse_what_is_followed(context)?;
    let own = preset.map_or(&[][..], |preset| preset.args);
    let (users, claude_settings) = split_settings(context.vendor, &context.definition.args);
    let args = own.iter().map(OsString::from).chain(users.into_iter().map(OsString::from));
    let settings = SessionSettings {
        model: context.model().map(str::to_owned),
        meta: meta(context.vendor, context.turn_input.trust, claude_settings),
        ..settings(context)
    };
    let turn_input = context.turn_input;
    let prompt = match &turn_input.system {
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
        let path = context.write_private("mcp.json", &servers.to_string())?;
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
            Err(super::would_apply(preset.name, &file))
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
        let (users, claude_settings) = split_settings(preset.vendor, users);
        let (blocks, _) = inert::blocks(prompt, preset.scans_last_block);
        let settings = SessionSettings {
            prompt: blocks.into_iter().map(Cow::into_owned).collect(),
            cwd: cwd.to_owned(),
            meta: meta(preset.vendor, Trust::Trusted, claude_settings),
            ..SessionSettings::default()
        };
        let reader = Acp::new(Limits::default().reply_bytes)
            .reporting_errors_as_text(preset.reports_errors_as_text);
        let own = preset.args.iter().map(|argument| (*argument).to_owned());
        Self { args: own.chain(users).collect(), session: Session::new(reader, settings) }
    }
}

/// Splits Claude Code's settings from the arguments of its adapter, which receives them with the session.
fn split_settings(vendor: Option<Vendor>, args: &[String]) -> (Vec<String>, Option<String>) {
    match vendor {
        Some(Vendor::Claude) => claude_settings::split(args),
        _ => (args.to_vec(), None),
    }
}

/// Returns a free TCP port of this machine.
fn free_port() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// Returns the settings of a turn that all agents share.
pub(super) fn settings(context: &Context<'_>) -> SessionSettings {
    let preset = context.definition.preset;
    let permissions = context.permissions();
    let is_confined = context.enforcer.is_kernel();
    SessionSettings {
        cwd: PathBuf::from(&*context.turn_input.cwd.to_string_lossy()),
        resume: context.resume().map(str::to_owned),
        mode: context.definition.mode.clone(),
        fitting_mode: preset.and_then(|preset| preset.mode(permissions, is_confined)),
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
        missing_is_empty: context.vendor == Some(Vendor::Gemini),
    }
}

fn lacks_confinement(context: &Context<'_>) -> bool {
    !context.enforcer.is_kernel() && context.permissions() < Permissions::Full
}

/// Returns the call of a program, with its prompt as text blocks.
pub(super) fn program_call(
    context: &Context<'_>,
    args: Vec<OsString>,
    prompt: &str,
    mut settings: SessionSettings,
) -> ProgramCall {
    let preset = context.definition.preset;
    let (blocks, note) =
        inert::blocks(prompt, preset.is_some_and(|preset| preset.scans_last_block));
    settings.prompt = blocks.into_iter().map(Cow::into_owned).collect();
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
    if context.vendor == Some(Vendor::Claude) {
        let retries = context.turn_input.limits.retries.to_string();
        env.push(("CLAUDE_CODE_MAX_RETRIES".into(), retries.into()));
        if context.enforcer.is_kernel() && context.permissions() < Permissions::Full {
            env.push(("IS_SANDBOX".into(), "1".into()));
        }
    }
    if context.vendor == Some(Vendor::Codex) {
        env.extend(super::codex::environment(context));
    }
    env
}

/// Returns the extension fields for Claude's adapter: the settings that Claude Code would get in its arguments,
/// and a limit on the settings that it loads, because an untrusted project's settings can contain hooks, which
/// are commands.
fn meta(vendor: Option<Vendor>, trust: Trust, settings: Option<String>) -> Option<Value> {
    if vendor != Some(Vendor::Claude) {
        return None;
    }
    let mut options = Map::new();
    if trust == Trust::Untrusted {
        options.insert("settingSources".to_owned(), json!(["user"]));
        options.insert("strictMcpConfig".to_owned(), true.into());
    }
    if let Some(settings) = settings {
        let object = serde_json::from_str(&settings).ok().filter(Value::is_object);
        options.insert("settings".to_owned(), object.unwrap_or_else(|| settings.into()));
    }
    (!options.is_empty()).then(|| json!({ "claudeCode": { "options": options } }))
}

#[cfg(test)]
mod tests;
