//! Verifies explanations: runs an installed CLI offline, and compares its request with what is explained.

mod compare;
mod recording;
mod skills;

use std::time::Duration;

use convoke_agent::process::guardian::Guardian;
use convoke_agent::turn_input::Trust;
use convoke_core::Diagnostic;
use convoke_core::figures::hexadecimal;
use convoke_explain::{AgentReport, Edition, Session, explain};
use convoke_files::Disk;
use convoke_vendor::MeasuredCli;
use sha2::{Digest, Sha256};

pub use compare::Difference;

use crate::capture::{CaptureError, MeasureOptions, MeasurePurpose, measure};
use crate::diagnostics;
use crate::host_environment::HostEnvironment;
use crate::installed::Installed;
use recording::Recording;

/// The result of one comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// The version of the program, if known.
    pub version: Option<String>,
    /// The tree that it was run in.
    pub tree: TreeHash,
    /// The differences between what arrived and what was explained; empty if there are none.
    pub differences: Vec<Difference>,
}

/// A hash of everything that an explanation depends on: every file that was read, and the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeHash(String);

impl TreeHash {
    /// Computes the hash of what an edition loads in a session.
    pub fn new(session: &Session, edition: Edition) -> Self {
        explain_recorded(session, edition).1
    }

    /// Returns the hash in hexadecimal.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn explain_recorded(session: &Session, edition: Edition) -> (Option<AgentReport>, TreeHash) {
    let recording = Recording::new(&Disk);
    let report = explain(&recording, session, &[edition]).agents.pop();
    let mut hash = Sha256::new();
    let mut add = |text: &[u8]| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    for (path, content) in recording.read() {
        add(path.as_os_str().as_encoded_bytes());
        add(&content);
    }
    if let Some(report) = &report {
        for file in &report.loaded {
            add(file.path.as_os_str().as_encoded_bytes());
            add(file.text.as_bytes());
        }
        for file in &report.ignored {
            add(file.path.as_os_str().as_encoded_bytes());
            add(file.rule.to_string().as_bytes());
        }
        for skill in &report.skills {
            add(skill.name.as_bytes());
            add(skill.text.as_deref().unwrap_or_default().as_bytes());
        }
    }
    (report, TreeHash(hexadecimal(&hash.finalize())))
}

/// The prompt for a program that is run only to load its files.
const PROMPT: &str = "hi";

/// Runs an agent's program in a session's directory and compares what arrives with what an edition explains.
pub async fn verify(
    vendor: &'static dyn MeasuredCli,
    edition: Edition,
    session: &Session,
    host_environment: &HostEnvironment,
    guardian: Guardian,
    time_limit: Duration,
) -> Result<Verification, CaptureError> {
    let (report, before) = explain_recorded(session, edition);
    let host_environment = HostEnvironment {
        environment: host_environment.environment.clone(),
        home: session.home.clone(),
        cwd: session.cwd.clone(),
    };
    let options = MeasureOptions {
        vendor,
        directory: None,
        arguments: session.arguments.iter().map(Into::into).collect(),
        prompt: PROMPT.to_owned(),
        purpose: MeasurePurpose::FindFiles,
        trust: Trust::Untrusted,
        time_limit,
        guardian: guardian.clone(),
    };
    let measured = measure(options, &host_environment).await;
    let report = report.ok_or(CaptureError::NotInstalled(vendor))?;
    let (version, differences) = match measured {
        Ok(measured) => {
            let differences =
                compare::differences(vendor, &report, &measured.parts, &Disk, &session.home);
            (measured.program.version, differences)
        }
        Err(CaptureError::NoCall { output, .. } | CaptureError::WentPast { output }) => {
            let outside = host_environment.outside_project();
            let installed = outside.agent_program(vendor.facts().command);
            let version = installed
                .and_then(|path| Installed::at(&path, vendor, &outside, &guardian).0.version);
            let is_right = report.loaded.is_empty() && report.no_request.is_some();
            let differences =
                if is_right { vec![] } else { vec![Difference::NoRequest { output }] };
            (version, differences)
        }
        Err(error) => return Err(error),
    };
    let (_, tree) = explain_recorded(session, edition);
    if tree != before {
        return Err(CaptureError::Changed);
    }
    Ok(Verification { version, tree, differences })
}

impl Verification {
    /// Returns whether the request is as explained.
    pub fn is_right(&self) -> bool {
        self.differences.is_empty()
    }

    /// Returns the differences as diagnostics.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        self.differences.iter().map(Difference::diagnostic).collect()
    }
}

impl Difference {
    fn diagnostic(&self) -> Diagnostic {
        let found = Diagnostic::new(diagnostics::EXPLAIN_DIFFERS, self.to_string());
        match self.path() {
            Some(path) => found.at_path(path.display().to_string()),
            None => found,
        }
    }
}
