//! Claude Code, over `stream-json` in both directions.
//!
//! The program scans the last text block of a message for `/command` and `@file`, and reads files that its
//! tools may not. The prompt is therefore never the last block: a fixed sentence follows it. The system text is
//! passed in a file. Standard input stays open until the end of the turn, because interrupts are sent on it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use convoke_core::Diagnostic;
use convoke_files::limit::read_named_text;
use convoke_files::{Disk, FileKind, Files as _};
use convoke_protocol::image::Image;
use convoke_protocol::verdict::{Failure, Verdict};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::arguments::GivenArguments;
use super::question::{self, LineRole, Questions};
use super::sign_in::{self, SignInLink};
use super::stream::Claude;
use super::{ClaudeCode, settings as given_settings};
use convoke_agent::adapter::{Context, ProgramCall, start_failure};
use convoke_agent::cli::TurnProgram as _;
use convoke_agent::diagnostics;
use convoke_agent::process::{Decision, Dialogue, Input, NextTurn};
use convoke_agent::stream::{EventReader, Sink};
use convoke_agent::team_tools::SERVER;
use convoke_agent::turn_input::{Permissions, Trust};

/// The block after the prompt in every message to Claude Code, so that the prompt is not scanned for commands.
pub const TAIL: &str = "Reply to the message above.";

/// Prepares a call.
pub(super) fn call(context: &Context<'_>) -> Result<ProgramCall, Failure> {
    let turn_input = context.turn_input;
    let (users_args, given_settings) = given_settings::split(&context.definition.args);
    let given = GivenArguments::read(context, &users_args)?;
    let mut args: Vec<OsString> = given.rest.into_iter().map(OsString::from).collect();
    args.extend(
        [
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--include-partial-messages",
            "--input-format",
            "stream-json",
        ]
        .map(OsString::from),
    );
    args.extend(permissions(context, given.mode).into_iter().map(OsString::from));
    args.extend(team_tools(context)?);
    args.extend([given_settings::FLAG.into(), settings(context, given_settings)?]);
    args.extend(ClaudeCode.loading(turn_input.trust).args.into_iter().map(OsString::from));
    if let Some(sources) = &given.sources {
        // The last one counts.
        args.extend(["--setting-sources", sources].map(OsString::from));
    }
    if let Some(model) = context.model().or(given.model.as_deref()) {
        args.extend(["--model", model].map(OsString::from));
    }
    let session = match context.resume() {
        Some(session) => Some(resume(context, session, &mut args)),
        // The sandbox gives access to the directories of this session only.
        None if !names_session(&context.definition.args) => {
            let session = Uuid::new_v4().to_string();
            args.extend(["--session-id", &session].map(OsString::from));
            Some(session)
        }
        None => None,
    };
    if let Some(system) = &turn_input.system {
        // A resumed session does not keep the system text.
        args.push("--append-system-prompt-file".into());
        args.push(context.write_private("system.md", system)?.into());
    }
    let mut call = ProgramCall::new(
        args,
        Conversation {
            reader: Claude::new(turn_input.limits.reply_bytes),
            prompt: turn_input.prompt.clone(),
            images: turn_input.images.clone(),
            stays: turn_input.memory.is_some() && turn_input.team_tools.is_none(),
            stopping: false,
            questions: (context.permissions() == Permissions::Ask).then(Questions::default),
        },
    );
    call.session = session;
    let env = [
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ("CLAUDE_CODE_MAX_RETRIES", turn_input.limits.retries.to_string()),
        ("DISABLE_AUTOUPDATER", "1".to_owned()),
    ];
    call.env = env.map(|(key, value)| (key.into(), value.into())).into();
    let is_open = context.definition.sandbox.readable.iter().any(|path| path == Path::new("/"));
    if context.enforcer.is_kernel() && (context.permissions() < Permissions::Full || !is_open) {
        // In a sandbox, the program does not ask for permissions, not even as root.
        call.env.push(("IS_SANDBOX".into(), "1".into()));
    }
    if context.enforcer.is_kernel() && context.permissions() < Permissions::Full {
        let is_own = context.variable(sign_in::VARIABLE).is_none();
        let sign_in = directory(context).and_then(|it| SignInLink::find(&it));
        if let Some(sign_in) = sign_in.filter(|_| is_own) {
            call.env.push((sign_in::VARIABLE.into(), sign_in.directory().into()));
        }
    }
    call.addresses.push(users_settings(context));
    Ok(call)
}

/// Adds the arguments that resume a session, as it was at its mark if it has one. Returns the session that is written.
fn resume(context: &Context<'_>, session: &str, args: &mut Vec<OsString>) -> String {
    args.extend(["--resume", session].map(OsString::from));
    if let Some(mark) = context.mark() {
        args.extend(["--resume-session-at", mark].map(OsString::from));
    }
    if !context.is_branch() {
        return session.to_owned();
    }
    let branch = Uuid::new_v4().to_string();
    args.extend(["--fork-session", "--session-id", &branch].map(OsString::from));
    branch
}

/// Returns whether the user's arguments choose a session.
pub(super) fn names_session(args: &[String]) -> bool {
    const OPTIONS: &[&str] =
        &["--session-id", "--resume", "-r", "--continue", "-c", "--no-session-persistence"];
    let is_option = |argument: &String| {
        let name = argument.split_once('=').map_or(argument.as_str(), |(name, _)| name);
        OPTIONS.contains(&name)
    };
    args.iter().any(is_option)
}

/// Returns the arguments that configure the team tools, which need no permission. The file is private, because
/// it contains the secret of the turn.
fn team_tools(context: &Context<'_>) -> Result<Vec<OsString>, Failure> {
    let Some(server) = &context.team_server else { return Ok(Vec::new()) };
    let mut settings = server.settings();
    settings["type"] = "stdio".into();
    // Otherwise, the program may list tools only when the model searches for them.
    settings["alwaysLoad"] = true.into();
    let servers = json!({ "mcpServers": { SERVER: settings } });
    let path = context.write_private("mcp.json", servers.to_string())?;
    let allowed = format!("mcp__{SERVER}");
    Ok(vec!["--mcp-config".into(), path.into(), "--allowedTools".into(), allowed.into()])
}

/// Returns the program's own directory.
fn directory(context: &Context<'_>) -> Option<PathBuf> {
    let moved = context.variable("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    moved.or_else(|| Some(PathBuf::from(context.variable("HOME")?).join(".claude")))
}

/// Returns the text of the user's settings, which can name another model address.
fn users_settings(context: &Context<'_>) -> String {
    let path = directory(context).map(|directory| directory.join("settings.json"));
    let text = path.and_then(|path| read_named_text(&path, FileKind::Configuration).ok());
    text.unwrap_or_default()
}

/// Tools of the program that use the network themselves.
const NETWORK_TOOLS: &str = "WebFetch,WebSearch";
/// Makes the program ask before it acts. Tools that need more than a yes or a no are not offered.
const ASKING: &[&str] = &[
    "--permission-mode",
    "default",
    "--permission-prompt-tool",
    "stdio",
    "--disallowedTools",
    "AskUserQuestion,EnterPlanMode,ExitPlanMode,WebFetch,WebSearch",
];

/// Returns the arguments for the permissions, with the mode that the agent's configuration gives.
fn permissions(context: &Context<'_>, mode: Option<String>) -> Vec<String> {
    let own = own_permissions(context).into_iter().map(str::to_owned);
    match mode {
        None => own.collect(),
        Some(mode) => own.skip(2).chain(["--permission-mode".to_owned(), mode]).collect(),
    }
}

/// Returns Convoke's arguments for the permissions, beginning with the mode.
fn own_permissions(context: &Context<'_>) -> Vec<&'static str> {
    let asked = context.permissions();
    if asked == Permissions::Ask {
        return ASKING.to_vec();
    }
    if context.enforcer.is_kernel() {
        // The kernel enforces the permissions, so the program does not have to. Tools that cannot succeed are
        // not offered.
        let mode = ["--permission-mode", "bypassPermissions"].into_iter();
        let without = match asked {
            Permissions::ReadOnly => Some("Edit,Write,NotebookEdit,WebFetch,WebSearch"),
            Permissions::Ask | Permissions::Edit => Some(NETWORK_TOOLS),
            Permissions::EditAndNetwork | Permissions::Full => None,
        };
        return mode.chain(without.map(|_| "--disallowedTools")).chain(without).collect();
    }
    match asked {
        Permissions::ReadOnly => {
            vec!["--permission-mode", "default", "--disallowedTools", "Edit,Write,NotebookEdit"]
        }
        Permissions::Ask | Permissions::Edit => vec!["--permission-mode", "acceptEdits"],
        Permissions::EditAndNetwork => {
            vec!["--permission-mode", "acceptEdits", "--allowedTools", NETWORK_TOOLS]
        }
        Permissions::Full => vec!["--permission-mode", "bypassPermissions"],
    }
}

/// Returns the settings of a turn: those that the user or a relay gives. The program's own sandbox is turned
/// off inside ours, where it cannot start. Given settings may contain keys, so they are passed in a file.
fn settings(context: &Context<'_>, given: Option<String>) -> Result<OsString, Failure> {
    let is_on = !context.enforcer.is_kernel() && context.permissions() < Permissions::Full;
    let asks = context.permissions() == Permissions::Ask;
    let mut asked = if asks { question::silencing_rules(&rule_files(context)) } else { Vec::new() };
    if asks && has_silencing_agents(context) {
        asked.extend(question::ACTING.iter().map(|tool| (*tool).to_owned()));
    }
    if given.is_none() && asked.is_empty() {
        return Ok(json!({ "sandbox": { "enabled": is_on } }).to_string().into());
    }
    let given = given.map(|given| given_settings::read(&given, &context.turn_input.cwd));
    let given = given.transpose().map_err(|error| start_failure(error.to_string()))?;
    let mut settings = given.unwrap_or_else(|| json!({}));
    for name in ["sandbox", "permissions"] {
        if !settings[name].is_object() {
            settings[name] = json!({});
        }
    }
    settings["sandbox"]["enabled"] = json!(is_on);
    let given = settings["permissions"]["ask"].as_array().cloned().unwrap_or_default();
    let asked = given.into_iter().chain(asked.into_iter().map(Value::from));
    settings["permissions"]["ask"] = asked.collect();
    Ok(context.write_private("settings.json", settings.to_string())?.into())
}

/// Returns whether a sub-agent has its own permission mode, in which it would act without asking.
fn has_silencing_agents(context: &Context<'_>) -> bool {
    let is_trusted = context.turn_input.trust == Trust::Trusted;
    let projects = context.turn_input.cwd.ancestors().filter(|_| is_trusted);
    let projects = projects.map(|directory| directory.join(".claude"));
    let own = context.variable("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    let own = own.or_else(|| Some(Path::new(context.variable("HOME")?).join(".claude")));
    let agents = projects.chain(own).map(|directory| directory.join("agents"));
    agents.into_iter().any(|agents| {
        let names = Disk.names(&agents).unwrap_or_default();
        let texts =
            names.iter().map(|name| Disk.read_text(&agents.join(name), FileKind::Configuration));
        // An unreadable file may have one.
        texts.into_iter().any(|text| text.map_or(true, |text| text.contains("permissionMode")))
    })
}

/// Returns the texts of the settings whose rules the program applies.
fn rule_files(context: &Context<'_>) -> Vec<String> {
    let project = context.turn_input.cwd.join(".claude");
    let projects = ["settings.json", "settings.local.json"].map(|name| project.join(name));
    let is_trusted = context.turn_input.trust == Trust::Trusted;
    let projects = projects.iter().filter(|_| is_trusted);
    let read = |path: &PathBuf| read_named_text(path, FileKind::Configuration).ok();
    projects.filter_map(read).chain([users_settings(context)]).collect()
}

struct Conversation {
    reader: Claude,
    prompt: String,
    images: Vec<Image>,
    /// Whether the program stays for another turn.
    stays: bool,
    /// Whether the turn is being stopped.
    stopping: bool,
    /// The permission questions; `None` if the agent does not ask.
    questions: Option<Questions>,
}

impl Dialogue for Conversation {
    fn open(&mut self) -> Input {
        let text = |text: &str| json!({ "type": "text", "text": text });
        let images = std::mem::take(&mut self.images);
        let images = images.iter().map(|Image { media_type, data, .. }| {
            let source = json!({ "type": "base64", "media_type": media_type, "data": data });
            json!({ "type": "image", "source": source })
        });
        let content: Value = images.chain([text(&self.prompt), text(TAIL)]).collect();
        let message = json!({ "type": "user", "message": { "role": "user", "content": content } });
        self.prompt = String::new();
        Input::more(format!("{message}\n").into_bytes())
    }

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Input {
        self.reader.line(line, sink);
        if self.stopping && self.reader.waits_for_tasks() {
            return Input::last(control_request(END_SESSION));
        }
        let is_cut = self.reader.progress().is_line_cut();
        let questions = self.questions.as_mut();
        let role = questions.map_or(LineRole::Other, |it| it.read(line, is_cut, sink));
        let refusal = if role == LineRole::Question { None } else { refuse_question(line) };
        if role == LineRole::TooLarge {
            let message = "a question about a tool is too large to be asked, and was refused";
            let denied = Diagnostic::new(diagnostics::AGENT_TOOL_DENIED, message);
            self.reader.progress_mut().warn(denied, sink);
        }
        Input {
            bytes: refusal.unwrap_or_default(),
            last: self.reader.needs_no_input() && !self.is_at_rest(),
        }
    }

    fn next_turn(&mut self, turn: NextTurn<'_>, _sink: &mut Sink<'_>) -> Input {
        self.reader = self.reader.for_next_turn(turn.reply_bytes);
        turn.prompt.clone_into(&mut self.prompt);
        turn.images.clone_into(&mut self.images);
        self.open()
    }

    fn is_at_rest(&self) -> bool {
        let is_done = self.reader.progress().closing == Some(Verdict::Done);
        self.stays && !self.stopping && is_done && self.reader.needs_no_input()
    }

    fn interrupt(&mut self) -> Option<Input> {
        self.stopping = true;
        let idle = self.reader.waits_for_tasks();
        self.reader.stop();
        // After the reply, an interrupt ends neither background shells nor the program.
        let request = if idle { END_SESSION } else { INTERRUPT };
        Some(Input { bytes: control_request(request), last: idle })
    }

    fn answer(&mut self, question: &str, answer: Decision, _sink: &mut Sink<'_>) -> Input {
        let questions = self.questions.as_mut();
        Input::more(questions.map_or_else(Vec::new, |it| it.answer(question, answer)))
    }

    fn dismiss(&mut self, sink: &mut Sink<'_>) -> Input {
        self.reader.dismiss(sink);
        Input::last(control_request(END_SESSION))
    }

    fn reader(&self) -> &dyn EventReader {
        &self.reader
    }

    fn reader_mut(&mut self) -> &mut dyn EventReader {
        &mut self.reader
    }
}

/// Interrupts the main thread.
const INTERRUPT: &str = "interrupt";
/// Kills background tasks and exits the program.
const END_SESSION: &str = "end_session";

fn control_request(subtype: &str) -> Vec<u8> {
    let request = json!({
        "type": "control_request",
        "request_id": subtype,
        "request": { "subtype": subtype },
    });
    format!("{request}\n").into_bytes()
}

/// Refuses a question of the program. Convoke's flags disable questions; an unexpected one must not block the
/// turn.
fn refuse_question(line: &[u8]) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Question<'a> {
        r#type: &'a str,
        request_id: &'a str,
    }
    if !line.starts_with(br#"{"type":"control_request""#) {
        return None;
    }
    let question: Question<'_> = serde_json::from_slice(line).ok()?;
    let answer = json!({
        "type": "control_response",
        "response": {
            "subtype": "error",
            "request_id": question.request_id,
            "error": format!("`{}` is not supported", question.r#type),
        },
    });
    Some(format!("{answer}\n").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_of_the_program_is_refused_and_other_lines_are_not_answered() {
        let question =
            br#"{"type":"control_request","request_id":"7","request":{"subtype":"can_use_tool"}}"#;
        let answer = refuse_question(question).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["response"]["request_id"], "7");
        assert_eq!(answer["response"]["subtype"], "error");
        assert_eq!(refuse_question(br#"{"type":"assistant"}"#), None);
    }
}
