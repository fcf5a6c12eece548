//! The sign-in of an agent: evidence found without reading secrets, and the program's own status if asked.

use std::borrow::Cow;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use convoke_agent::Cli;
use convoke_agent::cli::SignInStatus;
use convoke_agent::launch::{ObservedState, OwnNetwork};
use convoke_agent::process::guardian::Guardian;
use serde::Serialize;

use super::{Finding, Level};
use crate::diagnostics;
use crate::host_environment::HostEnvironment;
use crate::installed::Installed;
use crate::question::{Question, QuestionError, TIME_LIMIT};

/// The sign-in of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SignInReport {
    /// The evidence of a sign-in, not verified.
    pub evidence: Vec<Evidence>,
    /// The program's own status, if asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program_says: Option<SignInStatus>,
}

/// Evidence of a sign-in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Evidence {
    /// The variable of a key is set.
    Key { variable: Cow<'static, str> },
    /// A variable selects a cloud provider with its own credentials.
    Cloud { variable: &'static str },
    /// A credential file exists.
    Credentials {
        /// The file.
        path: PathBuf,
    },
}

pub(super) fn examine(
    vendor: &'static dyn Cli,
    host_environment: &HostEnvironment,
    ask: Option<(&Installed, &Guardian)>,
    findings: &mut Vec<Finding>,
) -> SignInReport {
    let facts = &vendor.facts().sign_in;
    let is_set = |variable: &&&'static str| host_environment.variable(variable).is_some();
    let own = own_provider(vendor, host_environment);
    let own = own.filter(|variable| host_environment.variable(variable).is_some());
    let keys = facts.keys.iter().filter(is_set).map(|variable| Cow::Borrowed(*variable));
    let keys = own.map(Cow::Owned).into_iter().chain(keys);
    let keys = keys.map(|variable| Evidence::Key { variable });
    let clouds = facts.clouds.iter().filter(is_set).map(|variable| Evidence::Cloud { variable });
    let directory = host_environment.user_home(vendor).directory;
    let files = facts.credentials.iter().map(|name| directory.join(name));
    let files = files.filter(|path| path.metadata().is_ok_and(|file| file.len() > 0));
    let files = files.map(|path| Evidence::Credentials { path });
    let asked = ask.and_then(|(program, guardian)| {
        self_report(vendor, program, &directory, host_environment, guardian)
    });
    let program_says = asked.map(|status| {
        status.unwrap_or_else(|error| {
            let message = format!("{vendor} could not be asked whether it is signed in: {error}");
            let code = diagnostics::DOCTOR_SIGN_IN_UNASKED;
            findings.push(Finding::new(Level::Warning, code, message));
            SignInStatus::Unclear
        })
    });
    SignInReport { evidence: keys.chain(clouds).chain(files).collect(), program_says }
}

/// Returns the key variable of the provider that the user configured.
fn own_provider(vendor: &'static dyn Cli, host_environment: &HostEnvironment) -> Option<String> {
    vendor.key_variable(&host_environment.user_home(vendor).directory)
}

/// Derives findings from a report.
pub(super) fn judge(
    vendor: &'static dyn Cli,
    report: &SignInReport,
    host_environment: &HostEnvironment,
    findings: &mut Vec<Finding>,
) {
    let facts = &vendor.facts().sign_in;
    let to_cloud = report.evidence.iter().any(|found| matches!(found, Evidence::Cloud { .. }));
    for variable in facts.ignored_keys {
        // A cloud provider has its own keys.
        if host_environment.variable(variable).is_some() && !to_cloud {
            let message = format!("{vendor} does not read {variable}, which is set");
            let fix = facts.how;
            findings.push(
                Finding::new(Level::Note, diagnostics::DOCTOR_KEY_IGNORED, message).with_fix(fix),
            );
        }
    }
    let says_no = report.program_says == Some(SignInStatus::NotSignedIn);
    let says_yes = report.program_says == Some(SignInStatus::SignedIn);
    if (report.evidence.is_empty() && !says_yes) || (says_no && !has_key(report)) {
        // The keychain of macOS may contain credentials that we cannot see.
        let level =
            if cfg!(target_os = "macos") && !says_no { Level::Warning } else { Level::Problem };
        let seen = if says_no {
            "reports that it is not signed in"
        } else {
            "has no credentials that Convoke can find"
        };
        let message = format!("{vendor} {seen}");
        let fix = match own_provider(vendor, host_environment) {
            Some(variable) => format!("Set {variable}, the key of its provider."),
            None => facts.how.to_owned(),
        };
        findings
            .push(Finding::new(level, diagnostics::DOCTOR_NOT_SIGNED_IN, message).with_fix(fix));
    }
    check_conflict(vendor, report, findings);
    for evidence in &report.evidence {
        if let Evidence::Credentials { path } = evidence {
            check_privacy(path, findings);
        }
    }
}

fn has_key(report: &SignInReport) -> bool {
    report.evidence.iter().any(|evidence| matches!(evidence, Evidence::Key { .. }))
}

/// Reports a key beside a sign-in: the measured CLIs use the key, which is billed.
fn check_conflict(vendor: &'static dyn Cli, report: &SignInReport, findings: &mut Vec<Finding>) {
    let key = report.evidence.iter().find_map(|evidence| match evidence {
        Evidence::Key { variable } => Some(variable),
        Evidence::Cloud { .. } | Evidence::Credentials { .. } => None,
    });
    let file = report.evidence.iter().find_map(|evidence| match evidence {
        Evidence::Credentials { path } => Some(path),
        Evidence::Key { .. } | Evidence::Cloud { .. } => None,
    });
    if let (Some(variable), Some(path)) = (key, file) {
        let message = format!(
            "{vendor} has both {variable} and {}; the key is used and billed",
            path.display()
        );
        let fix = format!("Unset {variable} to use your subscription.");
        findings.push(
            Finding::new(Level::Warning, diagnostics::DOCTOR_SIGN_IN_CONFLICT, message)
                .with_fix(fix),
        );
    }
}

fn check_privacy(path: &Path, findings: &mut Vec<Finding>) {
    let mode = path.metadata().map(|file| file.permissions().mode());
    if mode.is_ok_and(|mode| mode & 0o077 != 0) {
        let message = format!("{} can be read by other users", path.display());
        let fix = format!("Run `chmod 600 {}`.", path.display());
        findings.push(
            Finding::new(Level::Warning, diagnostics::DOCTOR_CREDENTIALS_EXPOSED, message)
                .with_fix(fix),
        );
    }
}

fn self_report(
    vendor: &'static dyn Cli,
    program: &Installed,
    users_directory: &Path,
    host_environment: &HostEnvironment,
    guardian: &Guardian,
) -> Option<Result<SignInStatus, QuestionError>> {
    let arguments = vendor.facts().sign_in.status?;
    let environment = host_environment.environment.clone();
    let environment = match host_environment.confined(environment, Some(vendor)) {
        Ok(environment) => environment,
        Err(error) => return Some(Err(error.into())),
    };
    let question = Question {
        path: &program.path,
        arguments,
        environment,
        cwd: &host_environment.home,
        vendor: Some(vendor),
        state: ObservedState::UsersOwn { directory: users_directory, network: OwnNetwork::Nothing },
        time_limit: TIME_LIMIT,
    };
    let answer = question.ask(host_environment, guardian);
    let status = answer.map(|answer| vendor.understand_status(answer.code, &answer.output));
    Some(status.map_err(QuestionError::from))
}
