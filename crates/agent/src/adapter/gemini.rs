//! Gemini CLI, over standard input and `stream-json`.
//!
//! The program expands `@path` to the content of files in the workspace, and runs `/command`s; what
//! would be acted on is escaped, and the delivery says so. Retries and reports to its maker are settings
//! of a file alone, so it runs in a home of our own, beside the user's: signed in as there, and with
//! sessions that are ours.

mod home;
mod inert;

use std::ffi::OsString;
use std::path::Path;

use convoke_core::{Code, Diagnostic};

pub(crate) use self::home::without_comments;
use super::one_shot::OneShot;
use super::{Call, Context, start_failure};
use crate::delivery::{Permissions, Trust};
use crate::stream::gemini::Gemini;
use crate::verdict::{Failure, Reason};

/// Prepares a call.
pub(super) fn call(context: &Context<'_>) -> Result<Call, Failure> {
    let delivery = context.delivery;
    if delivery.trust == Trust::Untrusted {
        refuse_project_settings(context)?;
    }
    let mut args = context.users_args();
    args.extend(["-o", "stream-json", "--approval-mode"].map(OsString::from));
    args.push(approval(context.permissions()).into());
    if let Some(model) = context.model() {
        args.extend(["-m", model].map(OsString::from));
    }
    if let Some(session) = context.resume() {
        args.extend(["--resume", session].map(OsString::from));
    }
    let home = home::prepare(context)
        .map_err(|error| start_failure(format!("cannot prepare gemini's home: {error}")))?;
    let mut env: Vec<(OsString, OsString)> = vec![
        // A second process of its own ignores every signal.
        ("GEMINI_CLI_NO_RELAUNCH".into(), "1".into()),
        ("GEMINI_CLI_TRUST_WORKSPACE".into(), "true".into()),
        ("GEMINI_TELEMETRY_ENABLED".into(), "false".into()),
        ("GEMINI_CLI_HOME".into(), home.into()),
    ];
    let mut diagnostics = Vec::new();
    if let Some(system) = &delivery.system {
        let path = context.write_private("system.md", system)?;
        env.push(("GEMINI_SYSTEM_MD".into(), path.into()));
        diagnostics.extend(system_text_notes(system));
    }
    let (prompt, notes) = inert::inert(&delivery.prompt, &delivery.cwd);
    diagnostics.extend(notes);
    let dialogue = OneShot::new(Gemini::new(delivery.limits.reply_bytes), prompt.into_owned());
    Ok(Call { args, env, dialogue: Box::new(dialogue), diagnostics, counts_sessions: false })
}

fn approval(permissions: Permissions) -> &'static str {
    match permissions {
        // Tools that change anything are not even offered to the model.
        Permissions::ReadOnly => "default",
        Permissions::Edit | Permissions::EditAndNetwork => "auto_edit",
        Permissions::Full => "yolo",
    }
}

fn system_text_notes(system: &str) -> Vec<Diagnostic> {
    let replaced = "gemini puts the system text in place of its own instructions";
    let mut notes = vec![Diagnostic::new(Code::AgentSystemReplaced, replaced)];
    if ["${AvailableTools}", "${AgentSkills}", "${SubAgents}"]
        .iter()
        .any(|variable| system.contains(variable))
    {
        let message = "gemini fills in the variables that the system text holds";
        notes.push(Diagnostic::new(Code::AgentTextNotInert, message));
    }
    if system.trim().len() != system.len() {
        let message = "gemini drops the white space around the system text";
        notes.push(Diagnostic::new(Code::AgentTextNotInert, message));
    }
    notes
}

/// The program reads settings of the workspace that can run commands or send its key elsewhere. Newer
/// versions have a setting that leaves `.env` out, but older ones pass over it, and it would stand in a
/// file that turns in trusted directories read too.
fn refuse_project_settings(context: &Context<'_>) -> Result<(), Failure> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let cwd = real(&context.delivery.cwd);
    let in_workspace = [".gemini/settings.json", ".gemini/.env", ".gemini/commands"];
    let mut found = in_workspace.map(|name| cwd.join(name)).into_iter();
    if let Some(path) = found.find(|path| path.exists()) {
        return Err(untrusted(&path));
    }
    // What stands in the home itself is the user's own, unless it is the directory in question.
    let home = context.variable("HOME").map(|home| real(Path::new(home)));
    let is_users = |dir: &Path| dir != cwd && home.as_deref() == Some(dir);
    let above = cwd.ancestors().filter(|dir| !is_users(dir));
    for path in above.flat_map(|dir| [dir.join(".gemini/.env"), dir.join(".env")]) {
        if std::fs::read(&path).is_ok_and(|text| sets_variables(&String::from_utf8_lossy(&text))) {
            return Err(untrusted(&path));
        }
    }
    Ok(())
}

/// Returns whether a `.env` can set a variable, by any name: there is no end to those that lead a
/// program or its tools elsewhere. Lines end wherever the program sees an end.
fn sets_variables(text: &str) -> bool {
    let lines = text.split(['\n', '\r', '\u{2028}', '\u{2029}']);
    lines.map(str::trim).any(|line| !line.is_empty() && !line.starts_with('#'))
}

fn untrusted(path: &Path) -> Failure {
    let path = path.display();
    let message = format!("gemini would follow `{path}`; read it, then trust the directory");
    Failure::new(Reason::Untrusted, message)
}
