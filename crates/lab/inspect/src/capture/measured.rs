//! The request that an installed CLI would send from a directory, measured: the CLI runs offline, with its
//! user's configuration in a private home, until it has sent the request.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use convoke_agent::endpoint::measured::{Commands, Conditions};
use convoke_agent::process::guardian::Guardian;
use convoke_agent::relayed::CliStart;
use convoke_agent::turn_input::Trust;
use convoke_core::Diagnostic;
use convoke_rehearsal::Script;
use convoke_vendor::MeasuredCli;
use convoke_wire::{Part, RequestParts};
use memchr::memmem;
use serde_json::Value;

use super::UserHome;
use super::account::Account;
use super::{Capture, CaptureError, CaptureOptions, CapturedAgent, Start, capture};
use crate::diagnostics;
use crate::explained::{explained, explained_with};
use crate::host_environment::HostEnvironment;
use crate::installed::Installed;

/// The request to measure.
#[derive(Debug, Clone)]
pub struct MeasureOptions {
    /// The CLI; the first of its name on the `PATH` is run.
    pub vendor: &'static dyn MeasuredCli,
    /// Its own directory, in place of the one that it would use.
    pub directory: Option<PathBuf>,
    /// Further arguments.
    pub arguments: Vec<OsString>,
    pub prompt: String,
    /// The purpose of the request.
    pub purpose: MeasurePurpose,
    /// Whether the user trusts the project here.
    pub trust: Trust,
    /// The time that it may take.
    pub time_limit: Duration,
    /// The guardian of the program.
    pub guardian: Guardian,
}

/// The purpose of a measured request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasurePurpose {
    /// To be shown, exactly as the vendor's own server would get it.
    Show,
    /// To find the files that reach the model: no command of a configuration is run, and the vendor's own server is
    /// not imitated.
    FindFiles,
}

/// A measured request.
#[derive(Debug, Clone)]
pub struct Measured {
    pub program: Installed<CapturedAgent>,
    /// The body, with the user's own paths in place of the private home.
    pub body: Vec<u8>,
    /// The parts that the model reads.
    pub parts: Vec<Part>,
    /// The ledger and its sums.
    pub account: Account,
    pub diagnostics: Vec<Diagnostic>,
}

/// Measures the request that a CLI would send from a directory.
pub async fn measure(
    options: MeasureOptions,
    host_environment: &HostEnvironment,
) -> Result<Measured, CaptureError> {
    let vendor = options.vendor;
    let outside = &host_environment.outside_project();
    let program = outside.agent_program(vendor.facts().command).ok_or_else(|| {
        let inside = host_environment.programs(vendor.facts().command).into_iter().next();
        inside.map_or(CaptureError::NotInstalled(vendor), CaptureError::InProject)
    })?;
    let host_environment = outside;
    let mut user = host_environment.user_home(vendor);
    if let Some(directory) = options.directory {
        user.directory = directory;
    }
    let mut notes = Vec::new();
    let conditions = match options.purpose {
        MeasurePurpose::Show => {
            let commands = match options.trust {
                Trust::Trusted => Commands::Run,
                Trust::Untrusted => commands(vendor, &user, host_environment)?,
            };
            if commands == Commands::Withheld {
                notes.extend(commands_withheld(
                    vendor,
                    CapturedAgent::Cli(vendor),
                    host_environment,
                )?);
                notes.extend(
                    vendor.withheld_commands_of_user(&user).map(|path| own_withheld(&path)),
                );
            }
            let as_vendors = is_first_party(vendor, commands, &options.arguments, host_environment);
            Conditions { commands, as_vendors }
        }
        MeasurePurpose::FindFiles => Conditions { commands: Commands::Withheld, as_vendors: false },
    };
    let program = std::iter::once(program.into_os_string());
    let options = CaptureOptions {
        command: program.chain(options.arguments).collect(),
        agent: Some(CapturedAgent::Cli(vendor)),
        stdin: options.prompt,
        environment: Vec::new(),
        configuration_from: Some(user.home.clone()),
        directory: Some(user.directory.clone()),
        script: Script::default(),
        time_limit: options.time_limit,
        start: Start::Measured { conditions, is_trusted: options.trust == Trust::Trusted },
        guardian: options.guardian,
    };
    let mut captured = capture(options, host_environment).await?;
    captured.as_users(vendor, &user, host_environment);
    captured.measured(notes)
}

/// Returns whether the program would send its request to its vendor's own server, by its settings and environment.
fn is_first_party(
    vendor: &'static dyn MeasuredCli,
    commands: Commands,
    arguments: &[OsString],
    host_environment: &HostEnvironment,
) -> bool {
    let arguments: Vec<String> =
        arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let env: Vec<_> = host_environment.environment.clone().into_iter().collect();
    let started = CliStart {
        vendor,
        is_adapter: false,
        arguments: &arguments,
        env: &env,
        cwd: &host_environment.cwd,
        trust: if commands == Commands::Run { Trust::Trusted } else { Trust::Untrusted },
        version: None,
        etc: Path::new("/etc"),
    };
    // An endpoint that cannot be relayed is none of these.
    vendor
        .relayed_endpoint(&started, &mut || Ok(None))
        .is_ok_and(|endpoint| endpoint.is_first_party)
}

/// Returns whether the program may run the commands of a project's own settings: if the user trusts the project, or
/// the program asks for trust itself. Commands that cannot be withheld from the program are an error.
pub(super) fn commands(
    vendor: &'static dyn MeasuredCli,
    user: &UserHome,
    host_environment: &HostEnvironment,
) -> Result<Commands, CaptureError> {
    let report = || explained(vendor, None, host_environment);
    let found = vendor.commands(user, &host_environment.cwd, &report);
    found.map_err(|path| CaptureError::Untrusted { agent: vendor, path })
}

/// Reports that a project's commands were not run, if it has any. Settings that may name commands that are not found are an
/// error.
pub(super) fn commands_withheld(
    vendor: &dyn MeasuredCli,
    agent: CapturedAgent,
    host_environment: &HostEnvironment,
) -> Result<Option<Diagnostic>, CaptureError> {
    let found = vendor.withheld_commands(host_environment.untrusted_project());
    let found = found.map_err(|file| CaptureError::untrusted(agent, file))?;
    let Some(path) = found else { return Ok(None) };
    let message = format!(
        "the commands that {} names were not run: this directory is not trusted; `convoke trust` trusts it",
        path.display()
    );
    let note = Diagnostic::new(diagnostics::CAPTURE_COMMANDS_WITHHELD, message);
    Ok(Some(note.at_path(path.display().to_string())))
}

/// Reports that commands of the user's own were withheld with those of the project.
fn own_withheld(path: &Path) -> Diagnostic {
    let message = format!(
        "your own commands in {} (hooks, MCP servers) were not run, as they are in your own runs: this directory is not \
         trusted; `convoke trust` trusts it",
        path.display()
    );
    Diagnostic::new(diagnostics::CAPTURE_COMMANDS_WITHHELD, message)
        .at_path(path.display().to_string())
}

impl Capture {
    /// Replaces the paths of the private home with the user's own.
    fn as_users(
        &mut self,
        vendor: &'static dyn MeasuredCli,
        user: &UserHome,
        host_environment: &HostEnvironment,
    ) {
        let tmp = host_environment.variable("TMPDIR").unwrap_or(OsStr::new("/tmp"));
        let mut places = vec![(self.home.join("tmp"), PathBuf::from(tmp))];
        places.extend(user.places(vendor, &self.home));
        for request in &mut self.requests {
            request.body = with_paths(&request.body, &places).into_owned().into();
        }
        let given = super::ownership::Given {
            arguments: &self.command[1..],
            stdin: self.stdin(),
            cwd: &self.cwd,
            configuration_from: Some(user),
        };
        let version = self.program.version.as_deref();
        let report = explained_with(vendor, version, &self.cwd, user, &self.command[1..]);
        let (requests, home) = (&self.requests, &self.home);
        let yours =
            super::ownership::candidates(&given, Some(vendor), requests, home, report.as_ref());
        self.yours = yours;
        let of_stdin = self.yours.iter_mut().filter(|it| it.origin == super::Origin::Stdin);
        of_stdin.for_each(|it| it.origin = super::Origin::Prompt);
    }

    fn stdin(&self) -> &str {
        let mut yours = self.yours.iter();
        yours.find(|it| it.origin == super::Origin::Stdin).map_or("", |it| &it.text)
    }

    fn measured(self, mut diagnostics: Vec<Diagnostic>) -> Result<Measured, CaptureError> {
        let account = self.account()?;
        let request = self.requests.iter().find(|request| request.number == account.request);
        let body = request.map(|request| request.body.to_vec()).unwrap_or_default();
        let parts = RequestParts::parse(account.wire, &body).map(|parts| parts.parts);
        let parts =
            parts.map_err(|source| CaptureError::NotJson { number: account.request, source })?;
        let own = self.diagnostics();
        // Requests to other hosts do not matter here.
        diagnostics.extend(own.into_iter().filter(|it| it.code != diagnostics::CAPTURE_ELSEWHERE));
        Ok(Measured { program: self.program, body, parts, account, diagnostics })
    }
}

/// Replaces paths in a JSON text.
fn with_paths<'b>(body: &'b [u8], places: &[(PathBuf, PathBuf)]) -> Cow<'b, [u8]> {
    let mut text = Cow::Borrowed(body);
    for (private, users) in places {
        let (private, users) = (in_json(private), in_json(users));
        let found: Vec<usize> = memmem::find_iter(&text, &private).collect();
        if found.is_empty() {
            continue;
        }
        let mut replaced = Vec::with_capacity(text.len());
        let mut from = 0;
        for at in found {
            replaced.extend_from_slice(&text[from..at]);
            replaced.extend_from_slice(users.as_bytes());
            from = at + private.len();
        }
        replaced.extend_from_slice(&text[from..]);
        text = Cow::Owned(replaced);
    }
    text
}

/// Returns a path as the content of a JSON string.
fn in_json(path: &Path) -> String {
    let quoted = Value::from(path.to_string_lossy()).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_paths_become_the_users_own() {
        let places = [
            (PathBuf::from("/tmp/convoke-a/.codex"), PathBuf::from("/srv/codex \"x\"")),
            (PathBuf::from("/tmp/convoke-a"), PathBuf::from("/home/kim")),
        ];
        let body = br#"{"a":"in /tmp/convoke-a/.codex/skills and /tmp/convoke-a/.agents"}"#;
        let text = with_paths(body, &places);
        let value: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(value["a"], "in /srv/codex \"x\"/skills and /home/kim/.agents");
        assert!(matches!(with_paths(b"{}", &places), Cow::Borrowed(_)));
    }
}
