//! `convoke capture`: shows what a CLI sends to its model.

use std::ffi::OsString;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use convoke_agent::process::guardian::Guardian;
use convoke_agent::turn_input::Trust;
use convoke_core::Diagnostic;
use convoke_files::FileKind;
use convoke_files::limit::{read_named_text, read_stream_text};
use convoke_inspect::capture::{
    self, Capture, CaptureError, CaptureOptions, CapturedAgent, Difference, Existing, SavedError,
    Start, compare, is_saved, load, save,
};
use convoke_rehearsal::Script;
use serde_json::json;

use crate::conversation::trust_here::TrustHere;
use crate::diagnostics::Deny;
use crate::host_environment;
use crate::outcome::{Outcome, UsageError};
use crate::terminal::{Paint, ledger_style, stdout};
use convoke_inspect::diagnostics;

mod difference;
mod table;

/// Show what an agent sends to its model, without an account or network.
///
/// Runs the program in the current directory, with a private home directory and against a model server on this
/// machine, and shows each part of its request. Your configuration is not changed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  convoke capture -- claude \"hello\"
  convoke capture --home ~ --save before -- codex \"hello\"
  convoke capture --stdin prompt.md -- gemini -m gemini-2.5-pro
  convoke capture -- copilot \"hello\"
  convoke capture --live -- claude \"hello\"
  convoke capture --diff before after")]
pub struct Arguments {
    /// The file to pass to the command as standard input; `-` passes ours
    #[arg(long, value_name = "FILE")]
    stdin: Option<PathBuf>,
    /// Set an environment variable for the command; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE")]
    environment: Vec<OsString>,
    /// Copy the CLI's configuration (never its credentials) from this home directory into the private one
    #[arg(long, value_name = "DIR")]
    home: Option<PathBuf>,
    /// The agent: claude, codex, gemini, or the name of an ACP agent [default: from the command's name]
    #[arg(long = "as", value_name = "AGENT")]
    agent: Option<String>,
    /// Run the command with your own sign-in, and record what it sends on its way to its real model
    #[arg(long, conflicts_with_all = ["home", "script", "diff"])]
    live: bool,
    /// Run the commands that the project's own files name (hooks, MCP servers), as in a directory that you trust
    #[arg(long)]
    trust: bool,
    /// The script of the model's answers
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// The time limit of the command, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Save every request byte for byte in this directory
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// With --save, replace a capture that is already there
    #[arg(long, requires = "save")]
    replace: bool,
    /// Compare two saved captures
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["command", "save", "script", "stdin", "home"])]
    diff: Vec<PathBuf>,
    /// With --diff, show the lines that differ
    #[arg(long, requires = "diff")]
    full: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    deny: Deny,
    /// The command to run
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs `convoke capture`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    if let [a, b] = &arguments.diff[..] {
        return show_difference(a, b, arguments);
    }
    if let Some(directory) =
        arguments.save.as_deref().filter(|it| is_saved(it) && !arguments.replace)
    {
        let directory = directory.display();
        return Err(UsageError(format!(
            "--save: there is a capture in {directory} already; name another directory, or pass --replace"
        ))
        .into());
    }
    let host_environment = host_environment::of_process()?;
    let TrustHere { trust, changed } = TrustHere::find(&host_environment)?;
    let is_trusted = arguments.trust || trust == Trust::Trusted;
    let options = capture_options(arguments, is_trusted)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let capture = if arguments.live {
        runtime.block_on(capture::capture_live(options, &host_environment))
    } else {
        runtime.block_on(capture::capture(options, &host_environment))
    };
    let mut capture = capture.map_err(explain)?;
    capture.notes.extend(changed.filter(|_| !arguments.trust));
    if is_bare(arguments) {
        let message = format!("the command has no prompt; it was given `{BARE_PROMPT}`");
        let note = Diagnostic::new(diagnostics::CAPTURE_PROMPT_SUPPLIED, message);
        capture.notes.push(note);
    }
    if let Some(directory) = &arguments.save {
        let existing = if arguments.replace { Existing::Replace } else { Existing::Keep };
        save(&capture, directory, existing)?;
    }
    let diagnostics = capture.diagnostics();
    show(&capture, &diagnostics, arguments.json).map_err(|error| {
        let failed = matches!(&capture.ended, capture::ChildEnd::Failed { .. });
        let called_none = matches!(error.downcast_ref(), Some(CaptureError::NoCall { .. }));
        if failed && called_none && arguments.stdin.is_none() && is_given_input() {
            return anyhow!("{error}\n  Its standard input was empty; `--stdin -` passes ours.");
        }
        error
    })?;
    Ok(arguments.deny.outcome(diagnostics.iter().map(|diagnostic| diagnostic.code.clone())))
}

/// The default prompt of a capture.
const BARE_PROMPT: &str = "Hello.";

/// Returns whether the command is a program without a prompt.
fn is_bare(arguments: &Arguments) -> bool {
    arguments.command.len() == 1 && arguments.stdin.is_none() && !arguments.live
}

fn capture_options(arguments: &Arguments, is_trusted: bool) -> anyhow::Result<CaptureOptions> {
    let agent = arguments.agent.as_ref().map(|name| name.parse::<CapturedAgent>()).transpose();
    let script = arguments.script.as_deref().map(Script::load).transpose();
    let stdin = arguments.stdin.as_deref().map(read_stdin).transpose()?;
    let environment = arguments.environment.iter().map(variable);
    Ok(CaptureOptions {
        command: arguments.command.clone(),
        agent: agent.map_err(|error| UsageError(format!("--as: {error}")))?,
        stdin: match stdin {
            Some(stdin) => stdin,
            None if is_bare(arguments) => BARE_PROMPT.to_owned(),
            None => String::new(),
        },
        environment: environment.collect::<Result<_, _>>()?,
        configuration_from: arguments.home.clone(),
        directory: None,
        start: Start::Typed { is_trusted },
        script: script.map_err(|error| UsageError(with_causes(&error)))?.unwrap_or_default(),
        time_limit: Duration::from_secs(arguments.timeout),
        guardian: Guardian::this_program()?,
    })
}

fn read_stdin(path: &Path) -> anyhow::Result<String> {
    let read = if path == Path::new("-") {
        read_stream_text(std::io::stdin(), path, FileKind::Input)
    } else {
        read_named_text(path, FileKind::Input)
    };
    Ok(read.map_err(|error| UsageError(format!("--stdin {}: {error}", path.display())))?)
}

/// Returns whether our standard input is a pipe or a file, which may be intended for the command.
fn is_given_input() -> bool {
    let input = std::io::stdin().as_fd().try_clone_to_owned().map(std::fs::File::from);
    let kind = input.and_then(|input| input.metadata()).map(|input| input.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_file())
}

fn variable(given: &OsString) -> Result<(OsString, OsString), UsageError> {
    let pair = given.to_str().and_then(|given| given.split_once('='));
    let pair = pair.filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or_else(|| {
        UsageError(format!("--env {} is not NAME=VALUE", given.to_string_lossy()))
    })?;
    Ok((name.into(), value.into()))
}

fn show(capture: &Capture, diagnostics: &[Diagnostic], as_json: bool) -> anyhow::Result<()> {
    let account = capture.account()?;
    let mut out = stdout();
    if as_json {
        let requests = capture.requests.iter().map(|request| {
            json!({
                "number": request.number, "method": request.method, "target": request.target,
                "what": request.kind, "headers": request.headers, "bytes": request.body.len(),
                "answered": request.answered,
            })
        });
        let elsewhere = capture.elsewhere().into_iter();
        let elsewhere = elsewhere.map(|(host, tries)| json!({"host": host, "tries": tries}));
        // Other connections of a live program are not observed.
        let elsewhere = (!capture.is_live()).then(|| elsewhere.collect::<Vec<_>>());
        let report = json!({
            "version": 2, "agent": capture.program.agent, "agentVersion": capture.program.version,
            "path": capture.program.path, "command": capture.command, "cwd": capture.cwd,
            "ended": capture.ended, "account": account,
            "requests": requests.collect::<Vec<_>>(), "elsewhere": elsewhere,
            "diagnostics": diagnostics,
        });
        writeln!(out, "{report}")?;
    } else {
        let paint = Paint::for_stream(&stdout());
        write!(out, "{}", table::show(capture, &account, paint, ledger_style(&stdout())))?;
        for diagnostic in
            diagnostics.iter().filter(|found| found.code != diagnostics::CAPTURE_ELSEWHERE)
        {
            writeln!(out, "  {diagnostic}")?;
        }
    }
    Ok(())
}

/// Compares two saved captures.
pub(in crate::commands) fn difference(a: &Path, b: &Path) -> anyhow::Result<Difference> {
    let unreadable = |error: SavedError| UsageError(with_causes(&error));
    let (a, b) = (load(a).map_err(unreadable)?, load(b).map_err(unreadable)?);
    Ok(compare(&a, &b)?)
}

fn show_difference(a: &Path, b: &Path, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let difference = difference(a, b)?;
    let mut out = stdout();
    if arguments.json {
        serde_json::to_writer(&mut out, &difference)?;
        writeln!(out)?;
    } else {
        let lines = if arguments.full {
            difference::LineDetail::Shown
        } else {
            difference::LineDetail::Counted
        };
        write!(out, "{}", difference::show(&difference, lines, Paint::for_stream(&stdout())))?;
    }
    Ok(Outcome::Done)
}

/// Converts errors in the arguments to usage errors.
fn explain(error: CaptureError) -> anyhow::Error {
    match error {
        CaptureError::NoCommand
        | CaptureError::NotFound(_)
        | CaptureError::NoProgram(_)
        | CaptureError::NoConfiguration(_)
        | CaptureError::Unknown(_)
        | CaptureError::NotText(_)
        | CaptureError::Copy(_)
        | CaptureError::Managed(_)
        | CaptureError::Endpoint(_) => UsageError(with_causes(&error)).into(),
        error => error.into(),
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
