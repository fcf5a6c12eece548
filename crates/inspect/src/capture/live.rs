//! A capture of a real run: the program runs with the user's own sign-in, and a relay records its requests and
//! forwards them to the endpoint.

use std::ffi::OsString;
use std::time::Duration;

use convoke_agent::endpoint;
use convoke_agent::process::PrivateDir;
use convoke_agent::turn_input::Trust;
use convoke_core::Diagnostic;
use convoke_redact::Redactor;
use convoke_rehearsal::{Answered, Recorded};
use convoke_wire::{Exchange, ReceivedAnswer, RequestKind, SentRequest};

use super::{Capture, CaptureError, CaptureOptions, Found, UserHome, as_text, child, ownership};
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
    let Found { name, arguments, path, vendor } =
        Found::find(&options.command, options.vendor, host_environment)?;
    let private = PrivateDir::create(&std::env::temp_dir()).map_err(CaptureError::Home)?;
    let arguments = endpoint::headless(vendor, arguments);
    let words: Vec<String> = arguments.iter().map(as_text).collect::<Result<_, _>>()?;
    let mut env: Vec<(OsString, OsString)> =
        host_environment.environment.clone().into_iter().collect();
    env.extend(options.environment);
    let program = relayed_program::Program {
        path: path.clone(),
        vendor,
        arguments: words.clone(),
        env: env.clone(),
        cwd: host_environment.cwd.clone(),
        trust: Trust::Trusted,
        reach: relayed_program::Reach::Anywhere,
    };
    let relayed = program.relayed(private.path()).await.map_err(CaptureError::Relay)?;
    if relayed.key_is_unselected {
        let why = "Gemini CLI takes a key from the environment beside a base URL only if \
                   `security.auth.selectedType` in ~/.gemini/settings.json is \"gemini-api-key\"";
        return Err(CaptureError::Relay(why.to_owned()));
    }
    // The bodies that the relay keeps have no secrets; the fields beside them must have none either.
    let redactor = Redactor::for_env(&env);
    env.extend(relayed.pointed.env);
    let run = child::Child {
        program: path.clone(),
        arguments: relayed.pointed.arguments.iter().map(OsString::from).collect(),
        environment: env,
        cwd: &host_environment.cwd,
        temporary: private.path(),
        stdin: options.stdin.clone(),
        time_limit: options.time_limit,
    };
    let (relay, mut exchanges) = (relayed.relay, relayed.exchanges);
    let run = async {
        let ended = child::run(&run, &options.guardian, std::future::pending()).await;
        relay.shutdown().await;
        ended
    };
    let mut requests: Vec<Recorded> = Vec::new();
    let mut without_body = 0;
    let take = async {
        while let Some(exchange) = exchanges.recv().await {
            match exchange {
                Exchange::Sent(request) => {
                    without_body += u64::from(request.body.is_none());
                    requests.push(recorded(request));
                }
                Exchange::Answered { number, answer } => {
                    let found = requests.iter_mut().find(|it| it.number as u64 == number);
                    if let Some(request) = found {
                        note_answer(request, &answer);
                    }
                }
            }
        }
    };
    let (ended, ()) = tokio::join!(run, take);
    let user = UserHome::new(vendor, host_environment);
    let redacted: Vec<String> =
        words.iter().map(|word| redactor.redact(word).into_owned()).collect();
    let given = ownership::Given {
        arguments: &redacted,
        stdin: &redactor.redact(&options.stdin),
        cwd: &host_environment.cwd,
        configuration_from: Some(&user),
    };
    let program = Installed::on_disk(&path, vendor);
    let version = program.version.as_deref();
    let report = explained_with(vendor, version, &host_environment.cwd, &user, &words);
    let mut yours =
        ownership::candidates(&given, vendor, &requests, private.path(), report.as_ref());
    for text in &mut yours {
        redactor.redact_in_place(&mut text.text);
    }
    Ok(Capture {
        program,
        command: std::iter::once(as_text(name)?).chain(redacted.iter().cloned()).collect(),
        cwd: host_environment.cwd.clone(),
        home: user.home.clone(),
        ended,
        requests,
        yours,
        notes: bodies_left_out(without_body).into_iter().collect(),
    })
}

/// Requests that were forwarded and are too large, alone or together, to be shown.
fn bodies_left_out(count: u64) -> Option<Diagnostic> {
    let message = format!("the bodies of {count} requests are not shown: they are over the limit");
    (count > 0).then(|| Diagnostic::new(diagnostics::RECORD_LIMIT, message).with_count(count))
}

fn recorded(request: SentRequest) -> Recorded {
    Recorded {
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
    }
}

fn note_answer(request: &mut Recorded, answer: &ReceivedAnswer) {
    request.status = answer.status.unwrap_or_default();
    request.usage = answer.facts.usage;
}
