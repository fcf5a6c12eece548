//! A capture of a real run: the program runs with the user's own sign-in, and a relay records its requests and
//! forwards them to the endpoint.

use std::ffi::OsString;
use std::time::Duration;

use convoke_agent::adapter::acp::TypedStart;
use convoke_agent::endpoint::measured::Commands;
use convoke_agent::launch::{ObservedState, OwnNetwork};
use convoke_agent::process::{Dialogue, PrivateDir, temp_root};
use convoke_agent::turn_input::Trust;
use convoke_core::Diagnostic;
use convoke_redact::Redactor;
use convoke_rehearsal::{Answered, Recorded, Sent};
use convoke_vendor::MeasuredCli;
use convoke_wire::{Exchange, ReceivedAnswer, RequestKind, SentRequest};
use tokio::sync::mpsc::Receiver;

use super::{
    Capture, CaptureError, CaptureOptions, CapturedAgent, FoundProgram, as_text, child, confined,
    measured, notes, ownership, split_prompt,
};
use crate::diagnostics;
use crate::explained::explained_with;
use crate::host_environment::HostEnvironment;
use crate::installed::Installed;
use crate::record::relayed_program;

/// Runs a CLI with the user's own sign-in and captures what it sends to its real endpoint.
pub async fn capture_live(
    options: CaptureOptions,
    host_environment: &HostEnvironment,
) -> Result<Capture, CaptureError> {
    let found = FoundProgram::find(&options.command, options.agent, host_environment)?;
    let users_words = found.words()?;
    let FoundProgram { name, arguments, path, agent } = found;
    let Some(vendor) = agent.vendor() else {
        let why = format!("{agent} cannot be pointed to a relay");
        return Err(CaptureError::Relay(why));
    };
    let trust = options.start.trust();
    let commands_withheld = match trust {
        Trust::Trusted => None,
        Trust::Untrusted => commands_to_withhold(agent, vendor, host_environment)?,
    };
    let private = PrivateDir::create(&temp_root()).map_err(CaptureError::Home)?;
    let (words, prompt) = match agent {
        CapturedAgent::Cli(vendor) => {
            let arguments = vendor.headless(arguments);
            (arguments.iter().map(as_text).collect::<Result<_, _>>()?, None)
        }
        CapturedAgent::Acp(preset) => {
            let (words, prompt) = split_prompt(users_words.clone(), &options.stdin);
            (words, Some((preset, prompt)))
        }
    };
    let mut env: Vec<(OsString, OsString)> =
        host_environment.environment.clone().into_iter().collect();
    env.extend(options.environment);
    let program = relayed_program::Program {
        path: path.clone(),
        vendor,
        is_adapter: prompt.as_ref().is_some_and(|(preset, _)| preset.is_adapter()),
        arguments: words.clone(),
        env: env.clone(),
        cwd: host_environment.cwd.clone(),
        // Whatever the program reads there decides where it sends its requests.
        trust: Trust::Trusted,
        reach: relayed_program::Reach::Anywhere,
        redirect: relayed_program::Redirect::BySettings,
        guardian: options.guardian.clone(),
    };
    let relayed = program.relayed(private.path()).await.map_err(CaptureError::Relay)?;
    relayed.check_key().map_err(|why| CaptureError::Relay(why.to_owned()))?;
    // The bodies that the relay keeps have no secrets; the fields beside them must have none either.
    let redactor = Redactor::for_env(&env);
    env.extend(relayed.pointed.env);
    let pointed = relayed.pointed.arguments;
    let (arguments, dialogue) = match &prompt {
        Some((preset, prompt)) => {
            env.extend(preset.env.iter().map(|(name, value)| (name.into(), value.into())));
            let started = TypedStart::new(preset, &pointed, prompt, &host_environment.cwd);
            (started.args, Box::new(started.session) as Box<dyn Dialogue>)
        }
        None => (pointed, child::one_shot(options.stdin.as_str())),
    };
    let user = host_environment.user_home(vendor);
    let (directory, named) = vendor
        .users_own_home(&user.home, &user.directory, private.path())
        .map_err(CaptureError::Home)?;
    env.extend(named);
    // The program can write to no other directory of temporary files.
    env.push(("TMPDIR".into(), private.path().into()));
    let mut arguments: Vec<OsString> = arguments.into_iter().map(OsString::from).collect();
    if commands_withheld.is_some() {
        if prompt.is_none() {
            let without_servers = vendor.withholding(Commands::Withheld);
            arguments.splice(0..0, without_servers.map(OsString::from));
        }
        vendor
            .withhold_hooks(&arguments, private.path(), &host_environment.cwd)
            .map_err(CaptureError::Home)?;
    }
    let variables = env.into_iter().collect();
    let mut environment =
        confined(agent, trust, variables, &arguments, private.path(), host_environment)?;
    let withheld = environment.take_diagnostics();
    let run = child::Child {
        program: path.clone(),
        vendor: Some(vendor),
        arguments,
        environment,
        cwd: &host_environment.cwd,
        host_environment,
        state: ObservedState::UsersOwn {
            directory: &directory,
            network: OwnNetwork::Relayed { files: private.path(), port: relayed.relay.port() },
        },
        temporary: private.path(),
        time_limit: options.time_limit,
    };
    let relay = relayed.relay;
    let run = async {
        let pending = std::future::pending();
        let ran = child::run(&run, dialogue, &options.guardian, pending).await;
        let (failure, uncounted) = (relay.failure(), relay.uncounted());
        relay.shutdown().await;
        (ran, failure, uncounted)
    };
    let ((ran, failure, uncounted), requests) = tokio::join!(run, received(relayed.exchanges));
    let ReceivedRequests { requests, without_body } = requests;
    if requests.is_empty() && uncounted > 0 {
        let why =
            format!("{uncounted} were forwarded, and their user agent is not that of {agent}");
        return Err(CaptureError::Relay(why));
    }
    // The prompt of an ACP agent is one of the user's words.
    let shown = if prompt.is_some() { users_words } else { words };
    let redacted: Vec<String> =
        shown.iter().map(|word| redactor.redact(word).into_owned()).collect();
    let given = ownership::Given {
        arguments: &redacted,
        stdin: &redactor.redact(&options.stdin),
        cwd: &host_environment.cwd,
        configuration_from: Some(&user),
    };
    let program = Installed::captured(&path, agent);
    let version = program.version.as_deref().filter(|_| prompt.is_none());
    let report = explained_with(vendor, version, &host_environment.cwd, &user, &shown);
    let mut yours =
        ownership::candidates(&given, Some(vendor), &requests, private.path(), report.as_ref());
    for text in &mut yours {
        redactor.redact_in_place(&mut text.text);
    }
    Ok(Capture {
        program,
        command: std::iter::once(as_text(name)?).chain(redacted.iter().cloned()).collect(),
        cwd: host_environment.cwd.clone(),
        home: user.home.clone(),
        ended: ran.end,
        yours,
        notes: bodies_left_out(without_body)
            .into_iter()
            .chain(withheld)
            .chain(commands_withheld)
            .chain(ran.diagnostics)
            .chain(notes::stopped(&requests))
            .chain(failure.map(|reason| Diagnostic::new(diagnostics::RELAY_FAILED, reason)))
            .collect(),
        requests,
    })
}

/// The requests that a relay forwarded.
#[derive(Default)]
struct ReceivedRequests {
    requests: Vec<Recorded>,
    without_body: u64,
}

/// Collects the requests of a relay and their answers, until it ends.
async fn received(mut exchanges: Receiver<Exchange>) -> ReceivedRequests {
    let mut received = ReceivedRequests::default();
    while let Some(exchange) = exchanges.recv().await {
        match exchange {
            Exchange::Sent(request) => {
                received.without_body += u64::from(request.body.is_none());
                received.requests.push(recorded(request));
            }
            Exchange::Answered { number, answer } => {
                let found = received.requests.iter_mut().find(|it| it.number as u64 == number);
                if let Some(request) = found {
                    note_answer(request, &answer);
                }
            }
        }
    }
    received
}

/// Reports the commands of a project that must be withheld. Those that cannot be withheld are an error.
fn commands_to_withhold(
    agent: CapturedAgent,
    vendor: &'static dyn MeasuredCli,
    host_environment: &HostEnvironment,
) -> Result<Option<Diagnostic>, CaptureError> {
    if let CapturedAgent::Acp(preset) = agent
        && let Some(path) = preset.followed_file(&host_environment.cwd)
    {
        return Err(CaptureError::WouldApply { agent, path });
    }
    let user = host_environment.user_home(vendor);
    if measured::commands(vendor, &user, host_environment)? == Commands::Run {
        return Ok(None);
    }
    let found = vendor.unwithheld_commands(host_environment.untrusted_project());
    if let Some(path) = found.map_err(|file| CaptureError::untrusted(agent, file))? {
        return Err(CaptureError::WouldApply { agent, path });
    }
    measured::commands_withheld(vendor, agent, host_environment)
}

/// Requests that were forwarded and are too large, alone or together, to be shown.
fn bodies_left_out(count: u64) -> Option<Diagnostic> {
    let message = format!("the bodies of {count} requests are not shown: they are over the limit");
    (count > 0).then(|| Diagnostic::new(diagnostics::RECORD_LIMIT, message).with_count(count))
}

fn recorded(request: SentRequest) -> Recorded {
    let sent =
        Sent { bytes: request.sent_bytes, sha256: request.sent_sha256, masked: request.masked };
    Recorded {
        sent: Some(sent),
        number: usize::try_from(request.number).unwrap_or(usize::MAX),
        after: Duration::ZERO,
        method: "POST".to_owned(),
        target: request.target,
        headers: request.headers,
        body: request.body.unwrap_or_default(),
        kind: RequestKind::ModelCall(request.call),
        answered: Answered::Endpoint,
        status: 0,
        usage: None,
        end: None,
    }
}

fn note_answer(request: &mut Recorded, answer: &ReceivedAnswer) {
    request.status = answer.status.unwrap_or_default();
    request.usage = answer.facts.usage;
    request.end.clone_from(&answer.facts.end);
}
