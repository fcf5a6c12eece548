//! How an agent is signed in: what points to it, without a secret being read, and what the program
//! says of itself if it is asked.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use convoke_core::Code;
use serde::Serialize;

use super::{Finding, Level};
use crate::asking::ask;
use crate::installed::Installed;
use crate::surroundings::Surroundings;
use crate::vendor::Vendor;

/// How an agent is signed in, as far as can be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SignInReport {
    /// What points to a sign-in. None of it was tried.
    pub evidence: Vec<Evidence>,
    /// What the program says of itself, if it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program_says: Option<SaysOfItself>,
}

/// Something that points to a sign-in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Evidence {
    /// A variable that carries a key is set; its value was not looked at.
    Key {
        /// The variable.
        variable: &'static str,
    },
    /// A variable sends calls to a cloud provider, which has credentials of its own.
    Cloud {
        /// The variable.
        variable: &'static str,
    },
    /// A file that a sign-in leaves behind is there; it was not opened.
    Credentials {
        /// The file.
        path: PathBuf,
    },
}

/// What a program says of its own sign-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SaysOfItself {
    /// It has something to sign in with; whether the vendor takes it, only a call would tell.
    SignedIn,
    /// It has nothing.
    NotSignedIn,
    /// It says something that is not understood, or nothing.
    Unclear,
}

pub(super) fn examine(
    vendor: Vendor,
    surroundings: &Surroundings,
    ask: Option<&Installed>,
) -> SignInReport {
    let facts = &vendor.facts().sign_in;
    let is_set = |variable: &&&'static str| surroundings.variable(variable).is_some();
    let keys = facts.keys.iter().filter(is_set).map(|variable| Evidence::Key { variable });
    let clouds = facts.clouds.iter().filter(is_set).map(|variable| Evidence::Cloud { variable });
    let directory = directory(vendor, surroundings);
    let files = facts.credentials.iter().map(|name| directory.join(name));
    let files = files.filter(|path| path.metadata().is_ok_and(|file| file.len() > 0));
    let files = files.map(|path| Evidence::Credentials { path });
    SignInReport {
        evidence: keys.chain(clouds).chain(files).collect(),
        program_says: ask.and_then(|program| self_report(vendor, program, surroundings)),
    }
}

fn directory(vendor: Vendor, surroundings: &Surroundings) -> PathBuf {
    let facts = vendor.facts();
    let moved = facts.directory_variable.and_then(|name| surroundings.variable(name));
    moved.map_or_else(|| surroundings.home.join(facts.directory), PathBuf::from)
}

/// Turns what was found into findings.
pub(super) fn judge(
    vendor: Vendor,
    report: &SignInReport,
    surroundings: &Surroundings,
    findings: &mut Vec<Finding>,
) {
    let facts = &vendor.facts().sign_in;
    for variable in facts.ignored_keys {
        if surroundings.variable(variable).is_some() {
            let message = format!("{vendor} does not read {variable}, which is set");
            let fix = facts.how;
            findings.push(Finding::new(Level::Note, Code::DoctorKeyIgnored, message).with_fix(fix));
        }
    }
    let says_no = report.program_says == Some(SaysOfItself::NotSignedIn);
    let says_yes = report.program_says == Some(SaysOfItself::SignedIn);
    if (report.evidence.is_empty() && !says_yes) || (says_no && !has_key(report)) {
        // The key chain of macOS is closed to us, and may hold what we do not see.
        let level =
            if cfg!(target_os = "macos") && !says_no { Level::Warning } else { Level::Problem };
        let seen =
            if says_no { "says that it is not signed in" } else { "shows no sign of a sign-in" };
        let message = format!("{vendor} {seen}");
        findings.push(Finding::new(level, Code::DoctorNotSignedIn, message).with_fix(facts.how));
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

/// A key beside a sign-in: both CLIs that were measured take the key, and its owner pays.
fn check_conflict(vendor: Vendor, report: &SignInReport, findings: &mut Vec<Finding>) {
    let key = report.evidence.iter().find_map(|evidence| match evidence {
        Evidence::Key { variable } => Some(*variable),
        Evidence::Cloud { .. } | Evidence::Credentials { .. } => None,
    });
    let file = report.evidence.iter().find_map(|evidence| match evidence {
        Evidence::Credentials { path } => Some(path),
        Evidence::Key { .. } | Evidence::Cloud { .. } => None,
    });
    if let (Some(variable), Some(path)) = (key, file) {
        let message = format!(
            "{vendor} has both {variable} and {}; the key is used, and is billed",
            path.display()
        );
        let fix = format!("Unset {variable}, if your subscription is to pay.");
        findings
            .push(Finding::new(Level::Warning, Code::DoctorSignInConflict, message).with_fix(fix));
    }
}

fn check_privacy(path: &Path, findings: &mut Vec<Finding>) {
    let mode = path.metadata().map(|file| file.permissions().mode());
    if mode.is_ok_and(|mode| mode & 0o077 != 0) {
        let message = format!("{} can be read by other users", path.display());
        let fix = format!("Run `chmod 600 {}`.", path.display());
        findings.push(
            Finding::new(Level::Warning, Code::DoctorCredentialsExposed, message).with_fix(fix),
        );
    }
}

fn self_report(
    vendor: Vendor,
    program: &Installed,
    surroundings: &Surroundings,
) -> Option<SaysOfItself> {
    let arguments = vendor.facts().sign_in.status?;
    let environment = surroundings.environment.clone();
    let answer = ask(&program.path, arguments, environment, &surroundings.home);
    Some(
        answer
            .map_or(SaysOfItself::Unclear, |answer| understand(vendor, answer.code, &answer.said)),
    )
}

/// Reads an answer by its exact form. Searching it for words is how "not logged in" comes to be read
/// as "logged in".
fn understand(vendor: Vendor, code: Option<i32>, said: &str) -> SaysOfItself {
    let is_signed_in = match vendor {
        Vendor::Claude => {
            let start = said.find('{').unwrap_or(said.len());
            let answer = serde_json::Deserializer::from_str(&said[start..]);
            let answer = answer.into_iter::<serde_json::Value>().next();
            answer.and_then(Result::ok).and_then(|answer| answer["loggedIn"].as_bool())
        }
        Vendor::Codex => match code {
            Some(0) => Some(true),
            Some(1) if said.lines().any(|line| line.trim() == "Not logged in") => Some(false),
            _ => None,
        },
        Vendor::Gemini => None,
    };
    match is_signed_in {
        Some(true) => SaysOfItself::SignedIn,
        Some(false) => SaysOfItself::NotSignedIn,
        None => SaysOfItself::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::SaysOfItself::{NotSignedIn, SignedIn, Unclear};
    use super::*;

    #[test]
    fn an_answer_is_read_by_its_form_and_not_by_a_word_in_it() {
        for (vendor, code, said, understood) in [
            (Vendor::Claude, 0, r#"{"loggedIn": true, "authMethod": "claude.ai"}"#, SignedIn),
            (Vendor::Claude, 1, r#"{"loggedIn": false, "authMethod": "none"}"#, NotSignedIn),
            (Vendor::Claude, 0, "warning: x\n{\"loggedIn\": true}\nbye", SignedIn),
            (Vendor::Claude, 0, "You are logged in.", Unclear),
            (Vendor::Claude, 0, r#"{"loggedIn": "yes"}"#, Unclear),
            (Vendor::Claude, 1, "not authenticated", Unclear),
            (Vendor::Codex, 0, "Logged in using an API key - ***", SignedIn),
            (Vendor::Codex, 0, "API key configured - ***", SignedIn),
            (Vendor::Codex, 1, "WARNING: y\nNot logged in\n", NotSignedIn),
            (Vendor::Codex, 1, "Logged in, but the token expired", Unclear),
            (Vendor::Codex, 2, "error: unrecognized subcommand 'login'", Unclear),
            (Vendor::Gemini, 0, "authenticated", Unclear),
        ] {
            assert_eq!(understand(vendor, Some(code), said), understood, "{vendor}: {said}");
        }
    }
}
