//! Gemini CLI, over standard input and `stream-json`.
//!
//! The program acts on `@name`, which attaches files and resources and selects agents, and runs `/command`s;
//! both are escaped, and a diagnostic reports this. Retries and telemetry can only be configured in a file, so
//! the program runs in a private home, with the user's sign-in but its own sessions.

use std::ffi::OsString;

use convoke_core::Diagnostic;
use convoke_protocol::verdict::Failure;

use super::arguments::GivenArguments;
use super::stream::Gemini;
use super::{GeminiCli, home, inert, output, untrusted};
use convoke_agent::adapter::acp::{self, SessionSettings};
use convoke_agent::adapter::{Context, OneShot, ProgramCall, program_rules, start_failure};
use convoke_agent::cli::TurnProgram as _;
use convoke_agent::diagnostics;
use convoke_agent::turn_input::{Permissions, Trust};

/// Prepares a call.
pub(super) fn call(context: &Context<'_>) -> Result<ProgramCall, Failure> {
    let turn_input = context.turn_input;
    if turn_input.trust == Trust::Untrusted {
        let checked = untrusted::check_settings(&turn_input.cwd);
        checked.map_err(|file| convoke_agent::adapter::untrusted(&file))?;
    }
    // The program asks before it acts, and takes images and more than one turn, only over ACP.
    let speaks_acp = context.definition.preset.is_some()
        || context.permissions() == Permissions::Ask
        || !turn_input.images.is_empty()
        || turn_input.memory.is_some();
    let given = GivenArguments::read(context, speaks_acp)?;
    let model = context.model().or(given.model.as_deref());
    let mut args: Vec<OsString> = given.rest.iter().map(OsString::from).collect();
    let protocol = if speaks_acp { &["--acp"][..] } else { &["-o", "stream-json"] };
    args.extend(protocol.iter().map(OsString::from));
    let approval = if speaks_acp { "default" } else { approval(context) };
    let approval = given.mode.as_deref().unwrap_or(approval);
    args.extend(["--approval-mode", approval].map(OsString::from));
    if let Some(model) = model {
        args.extend(["-m", model].map(OsString::from));
    }
    if let Some(session) = context.resume().filter(|_| !speaks_acp) {
        args.extend(["--resume", session].map(OsString::from));
    }
    let home = home::prepare(context)
        .map_err(|error| start_failure(format!("cannot prepare gemini's home: {error}")))?;
    let mut env: Vec<(OsString, OsString)> = vec![
        // A relaunched process would ignore signals.
        ("GEMINI_CLI_NO_RELAUNCH".into(), "1".into()),
        ("GEMINI_TELEMETRY_ENABLED".into(), "false".into()),
        ("GEMINI_CLI_HOME".into(), home.path().into()),
        output::written_whole(context, speaks_acp)?,
    ];
    let start = GeminiCli.loading(turn_input.trust).variables.into_iter();
    env.extend(start.map(|(name, value)| (name.into(), value.into())));
    env.extend(home::settings_above_projects(context)?);
    let mut diagnostics = Vec::new();
    if context.permissions() == Permissions::Ask {
        diagnostics.extend(program_rules("gemini", &home::answering_files(context)));
    }
    if let Some(system) = &turn_input.system {
        let path = context.write_private("system.md", system)?;
        env.push(("GEMINI_SYSTEM_MD".into(), path.into()));
        diagnostics.extend(system_text_notes(system));
    }
    if context.enforcer.is_kernel() {
        // The program's own sandbox is a container or a profile, and neither starts inside ours.
        env.push(("GEMINI_SANDBOX".into(), "false".into()));
    }
    let directory = Some(home.path().join(".gemini"));
    let call = if speaks_acp {
        let settings = SessionSettings {
            started_model: model.map(str::to_owned),
            title_is_command: true,
            // MCP servers configured in the private home need no permission.
            servers: Vec::new(),
            ..acp::settings(context)
        };
        acp::program_call(context, args, &turn_input.prompt, settings)
    } else {
        let (prompt, notes) = inert::inert(&turn_input.prompt);
        diagnostics.extend(notes);
        let reader = Gemini::new(turn_input.limits.reply_bytes);
        ProgramCall::new(args, OneShot::new(reader, prompt.into_owned()))
    };
    diagnostics.extend(call.diagnostics);
    Ok(ProgramCall {
        args: call.args,
        env,
        dialogue: call.dialogue,
        diagnostics,
        session: None,
        counts_sessions: false,
        directory,
        home: Some(home),
        addresses: Vec::new(),
        ports: Vec::new(),
    })
}

fn approval(context: &Context<'_>) -> &'static str {
    match context.permissions() {
        // The kernel enforces the permissions, so the program's own checks are off.
        _ if context.enforcer.is_kernel() => "yolo",
        // Tools that write are not offered to the model.
        Permissions::ReadOnly | Permissions::Ask => "default",
        Permissions::Edit | Permissions::EditAndNetwork => "auto_edit",
        Permissions::Full => "yolo",
    }
}

fn system_text_notes(system: &str) -> Vec<Diagnostic> {
    let replaced = "the system text replaces gemini's own instructions";
    let mut notes = vec![Diagnostic::new(diagnostics::AGENT_SYSTEM_REPLACED, replaced)];
    if ["${AvailableTools}", "${AgentSkills}", "${SubAgents}"]
        .iter()
        .any(|variable| system.contains(variable))
    {
        let message = "gemini substitutes variables in the system text";
        notes.push(Diagnostic::new(diagnostics::AGENT_TEXT_NOT_INERT, message));
    }
    if system.trim().len() != system.len() {
        let message = "gemini trims the system text";
        notes.push(Diagnostic::new(diagnostics::AGENT_TEXT_NOT_INERT, message));
    }
    notes
}
