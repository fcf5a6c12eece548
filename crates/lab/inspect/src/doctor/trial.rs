//! Two rehearsed turns with a program of an unmeasured version, to find flags that it refuses and events that it no longer
//! writes. The second turn resumes the session of the first.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use convoke_agent::adapter::{Host, Trial, trial};
use convoke_agent::config::{AgentKind, Definition};
use convoke_agent::endpoint::{self, ModelServer};
use convoke_agent::process::guardian::Guardian;
use convoke_agent::process::{PrivateDir, temp_root};
use convoke_agent::sandbox::{Route, SandboxSettings};
use convoke_agent::team_tools::TeamTools;
use convoke_agent::{Cli, TurnInput};
use convoke_protocol::id::{AttemptRef, SessionId, TurnId};
use convoke_protocol::resume::ResumeHandle;
use convoke_protocol::verdict::Verdict;
use convoke_rehearsal::{Answer, Script, start};
use tokio::sync::mpsc;

use super::{Finding, Level};
use crate::diagnostics;
use crate::host_environment::HostEnvironment;

/// The time limits; a rehearsed turn is shorter, unless the program hangs.
const TIME_LIMIT: Duration = Duration::from_secs(90);
const SILENCE: Duration = Duration::from_secs(30);
/// The maximum number of refused flags that are searched for.
const MAX_FLAGS: usize = 8;

/// Runs the turns and returns the changes as findings.
pub async fn try_turn(
    vendor: &'static dyn Cli,
    program: &Path,
    host_environment: &HostEnvironment,
    guardian: &Guardian,
) -> Vec<Finding> {
    match run(vendor, program, host_environment, guardian).await {
        Ok(findings) => findings,
        Err(reason) => vec![failed(vendor, &reason)],
    }
}

async fn run(
    vendor: &'static dyn Cli,
    program: &Path,
    host_environment: &HostEnvironment,
    guardian: &Guardian,
) -> Result<Vec<Finding>, String> {
    let mut gone: Vec<String> = Vec::new();
    let mut findings = Vec::new();
    loop {
        let seen = once(vendor, program, host_environment, guardian, &gone).await?;
        let refused = match &seen.result.verdict {
            Verdict::Failed(failure) => refused_argument(&failure.message, &seen.arguments),
            _ => None,
        };
        if let Some(flag) = refused
            && gone.len() < MAX_FLAGS
        {
            let message = format!("{vendor} no longer accepts `{flag}`");
            findings.push(Finding::new(Level::Problem, diagnostics::DOCTOR_FLAG_GONE, message));
            let is_subcommand = !flag.starts_with('-');
            gone.push(flag);
            // A turn is impossible without it.
            if is_subcommand {
                return Ok(findings);
            }
            continue;
        }
        // One that wrote nothing did not change its events: it did not start.
        let has_started = !seen.events.is_empty() || !seen.unknown.is_empty();
        if has_started || seen.result.verdict == Verdict::Done {
            findings.extend(changed_events(vendor, &seen));
        }
        let is_explained = !findings.is_empty();
        match &seen.result.verdict {
            Verdict::Done => {}
            _ if is_explained => {}
            Verdict::Failed(failure) => findings.push(failed(vendor, &failure.message)),
            Verdict::TimedOut | Verdict::Cancelled | Verdict::Withdrawn => {
                findings.push(failed(vendor, "it stopped writing and did not exit"));
            }
        }
        return Ok(findings);
    }
}

fn failed(vendor: &'static dyn Cli, reason: &str) -> Finding {
    let message = format!("a rehearsed turn of {vendor} failed: {reason}");
    Finding::new(Level::Problem, diagnostics::DOCTOR_TRIAL_FAILED, message)
}

/// Runs a turn, and one that resumes its session. Returns the first of them that failed, else the second.
async fn once(
    vendor: &'static dyn Cli,
    program: &Path,
    host_environment: &HostEnvironment,
    guardian: &Guardian,
    gone: &[String],
) -> Result<Trial, String> {
    let home = PrivateDir::create(&temp_root()).map_err(|error| error.to_string())?;
    let answers = ["A rehearsed answer.", "Another one."].map(Answer::say);
    let server = start(Script::new(answers)).await;
    let server = server.map_err(|error| error.to_string())?;
    let base_url = server.base_url();
    endpoint::configure(vendor, &base_url, home.path()).map_err(|error| error.to_string())?;
    let kept = host_environment.environment.iter().filter(|(name, _)| endpoint::is_kept(name));
    let kept = kept.map(|(name, value)| (name.clone(), value.clone()));
    let model_server = ModelServer { base_url: &base_url, proxy_url: &server.proxy_url() };
    let own = endpoint::environment(vendor, model_server, home.path());
    let own = own.into_iter().map(|(name, value)| (OsString::from(name), value));
    let work = home.path().join("work");
    std::fs::create_dir(&work).map_err(|error| error.to_string())?;
    let kind = AgentKind::Cli(vendor);
    let command = program.to_str().ok_or("its path is not UTF-8")?.to_owned();
    let definition = Definition { command: Some(command), ..Definition::built_in(kind) };
    let host = Host {
        guardian: guardian.clone(),
        env: kept.chain(own).collect(),
        temp_root: home.path().join("tmp"),
        state_dir: home.path().join("state"),
        sandbox: SandboxSettings {
            route: Route::Through { port: server.port() },
            ..SandboxSettings::default()
        },
        programs: convoke_vendors::programs(),
    };
    let work = work.canonicalize().map_err(|error| error.to_string())?;
    let mut turn_input = TurnInput::new("Say something.", &work);
    // The turns of a team have system text, model and tools, and flags of their own for them.
    turn_input.system = Some("Reply in one sentence.".to_owned());
    turn_input.model = vendor.facts().trial_model.map(str::to_owned);
    turn_input.limits.turn = TIME_LIMIT;
    turn_input.limits.silence = SILENCE;
    // Nobody answers their calls, and the model makes none.
    let attempt = AttemptRef { session: SessionId::generate(), turn: TurnId(1), attempt: 1 };
    turn_input.team_tools = Some(TeamTools::new(attempt, mpsc::channel(1).0));
    let run = |turn_input| trial(definition.clone(), host.clone(), turn_input, gone);
    let mut seen = run(turn_input.clone()).await.map_err(|it| it.message)?;
    if let (Verdict::Done, Some(session)) = (&seen.result.verdict, seen.session.take()) {
        let model = turn_input.model.clone();
        turn_input.resume = Some(ResumeHandle { model, ..ResumeHandle::new(session, work) });
        seen = run(turn_input).await.map_err(|it| it.message)?;
    }
    server.shutdown().await;
    Ok(seen)
}

/// Returns the argument that a program reports as unknown.
fn refused_argument(output: &str, arguments: &[String]) -> Option<String> {
    const REFUSALS: [&str; 5] = ["unknown", "unrecognized", "unexpected", "invalid", "no such"];
    let lines = output.lines().filter(|line| {
        let line = line.to_ascii_lowercase();
        REFUSALS.iter().any(|word| line.contains(word))
    });
    let words: BTreeSet<&str> = lines
        .flat_map(|line| line.split(|c: char| c.is_whitespace() || "'\"`,:;()".contains(c)))
        .map(|word| word.trim_end_matches('.').split('=').next().unwrap_or_default())
        .filter(|word| !word.is_empty())
        .collect();
    // Some programs name an option without its dashes.
    let is_named = |argument: &&String| {
        let bare = argument.trim_start_matches('-');
        !bare.is_empty() && (words.contains(argument.as_str()) || words.contains(bare))
    };
    let mut options = arguments.iter().filter(|argument| argument.starts_with('-'));
    options.find(is_named).or_else(|| arguments.iter().find(is_named)).cloned()
}

/// Compares the events of a turn with those that every turn has.
fn changed_events(vendor: &'static dyn Cli, seen: &Trial) -> Vec<Finding> {
    let expected = vendor.facts().events;
    let missing: Vec<&str> =
        expected.iter().copied().filter(|name| !seen.events.contains(*name)).collect();
    let unknown: Vec<&str> = seen.unknown.iter().map(String::as_str).collect();
    let finding =
        |message: String| Finding::new(Level::Problem, diagnostics::DOCTOR_EVENT_CHANGED, message);
    match (&missing[..], &unknown[..]) {
        ([], []) => Vec::new(),
        ([old], [new]) => vec![finding(format!(
            "{vendor} writes the event `{new}`, which Convoke does not know, instead of `{old}`"
        ))],
        (missing, unknown) => {
            let missing = missing
                .iter()
                .map(|name| finding(format!("{vendor} no longer writes the event `{name}`")));
            // New events alone lose nothing.
            let unknown = unknown.iter().map(|name| {
                let message =
                    format!("{vendor} writes an event `{name}`, which Convoke does not know");
                Finding::new(Level::Note, diagnostics::DOCTOR_EVENT_CHANGED, message)
            });
            missing.chain(unknown).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_that_is_refused_is_found_in_the_words_of_each_program() {
        let arguments: Vec<String> =
            ["-p", "--verbose", "-o", "x", "--approval-mode", "default", "app-server"]
                .map(str::to_owned)
                .to_vec();
        for (said, found) in [
            ("error: unknown option '--verbose'", Some("--verbose")),
            ("it ended with exit code 2: error: unexpected argument '-o' found", Some("-o")),
            ("Usage: gemini\n\nUnknown argument: approval-mode", Some("--approval-mode")),
            ("Unknown arguments: approval-mode, o", Some("-o")),
            ("error: unrecognized subcommand 'app-server'", Some("app-server")),
            ("error: invalid value for '--verbose=3'", Some("--verbose")),
            ("the model said --verbose", None),
            ("Not logged in", None),
        ] {
            assert_eq!(refused_argument(said, &arguments).as_deref(), found, "{said}");
        }
    }
}
