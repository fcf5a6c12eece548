//! Verification: runs the installed programs offline and compares their requests with the report. Results are cached
//! by program version and tree.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use convoke_agent::process::guardian::Guardian;
use convoke_core::Diagnostic;
use convoke_core::figures::hexadecimal;
use convoke_explain::{AgentReport, DirectoryReport, Edition, Session};
use convoke_files::{Disk, FileKind, Files, draft};
use convoke_inspect::HostEnvironment;
use convoke_inspect::diagnostics;
use convoke_inspect::verify::{TreeHash, verify};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::installed::Installed;
use crate::conversation::home::Home;
use crate::terminal::{Paint, ProgressLine};

/// The time that one program may take.
const RUN_TIMEOUT: Duration = Duration::from_mins(2);
/// The maximum number of cached results.
const MAX_REMEMBERED: usize = 256;

/// The version of cached results. A result of a version that measured otherwise does not count.
const VERSION: u32 = 2;

/// A cached result. The name of its file identifies the program, its version and the session.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Remembered {
    version: u32,
    agent: String,
    agent_version: String,
    cwd: PathBuf,
    tree: String,
    /// The differences between the requests and the report.
    differences: Vec<String>,
}

/// The reason why an agent was not verified, by name.
pub(super) type Skipped = BTreeMap<&'static str, String>;

/// Runs the installed programs, adds the results to the report, and caches them.
pub(super) fn verify_all(
    report: &mut DirectoryReport,
    session: &Session,
    installed: &Installed,
    host_environment: &HostEnvironment,
) -> anyhow::Result<Skipped> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let home = Home::new(host_environment);
    let mut skipped = Skipped::new();
    let progress = ProgressLine::begin("verifying");
    for agent in &mut report.agents {
        let Ok(vendor) = convoke_vendors::cli(agent.agent) else {
            skipped.insert(agent.agent, "its requests are not measured".to_owned());
            continue;
        };
        if host_environment.programs(agent.agent).is_empty() {
            skipped.insert(agent.agent, "not installed".to_owned());
            continue;
        }
        if installed
            .version(agent.edition)
            .is_some_and(|it| agent.edition != agent.edition.nearest(it))
        {
            let version = installed.version(agent.edition).unwrap_or_default();
            skipped.insert(agent.agent, format!("{version} is installed, which has other rules"));
            continue;
        }
        progress.set(|| format!("verifying with {vendor}"));
        let guardian = Guardian::this_program()?;
        let verified =
            verify(vendor, agent.edition, session, host_environment, guardian, RUN_TIMEOUT);
        match runtime.block_on(verified) {
            Ok(verification) => {
                let differences: Vec<String> =
                    verification.differences.iter().map(ToString::to_string).collect();
                if let Some(version) = &verification.version {
                    version.clone_into(&mut agent.version);
                    let remembered = Remembered {
                        version: VERSION,
                        agent: agent.agent.to_owned(),
                        agent_version: version.clone(),
                        cwd: session.cwd.clone(),
                        tree: verification.tree.as_str().to_owned(),
                        differences: differences.clone(),
                    };
                    remembered.save(&directory(&home), &key(agent, version, session))?;
                }
                agent.verified = Some(verification.is_right());
                agent.diagnostics.extend(verification.diagnostics());
            }
            Err(error) => {
                skipped.insert(agent.agent, error.to_string());
            }
        }
    }
    Ok(skipped)
}

/// Adds the cached results for these versions and this tree to the report.
pub(super) fn recall(report: &mut DirectoryReport, session: &Session, home: &Home) {
    let directory = directory(home);
    if !directory.is_dir() {
        return;
    }
    for agent in &mut report.agents {
        let path = directory.join(key(agent, &agent.version, session));
        let Some(remembered) = Remembered::load(&path) else { continue };
        if remembered.tree != TreeHash::new(session, agent.edition).as_str() {
            continue;
        }
        agent.verified = Some(remembered.differences.is_empty());
        let found = remembered.differences.into_iter();
        let found = found.map(|message| Diagnostic::new(diagnostics::EXPLAIN_DIFFERS, message));
        agent.diagnostics.extend(found);
    }
}

fn directory(home: &Home) -> PathBuf {
    home.data.join("verified")
}

/// Returns the name of the file for a program, its version and a session.
fn key(agent: &AgentReport, version: &str, session: &Session) -> String {
    let mut hash = Sha256::new();
    let edition: Edition = agent.edition;
    let mut add = |text: &[u8]| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    add(edition.to_string().as_bytes());
    add(version.as_bytes());
    add(session.cwd.as_os_str().as_encoded_bytes());
    add(session.home.as_os_str().as_encoded_bytes());
    for (name, value) in &session.variables {
        add(name.as_bytes());
        add(value.as_bytes());
    }
    for argument in &session.arguments {
        add(argument.as_bytes());
    }
    hexadecimal(&hash.finalize()) + ".json"
}

impl Remembered {
    fn load(path: &Path) -> Option<Self> {
        let text = Disk.read(path, FileKind::State).ok()?;
        serde_json::from_slice::<Self>(&text)
            .ok()
            .filter(|remembered| remembered.version == VERSION)
    }

    /// Writes the result atomically, readable by this user alone.
    fn save(&self, directory: &Path, name: &str) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        forget_oldest(directory)?;
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        draft::replace(&directory.join(name), &text, 0o600)
    }
}

/// Removes the oldest results.
fn forget_oldest(directory: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let written = entry.metadata().and_then(|it| it.modified());
        files.push((written.unwrap_or(SystemTime::UNIX_EPOCH), entry.path()));
    }
    files.sort();
    let surplus = (files.len() + 1).saturating_sub(MAX_REMEMBERED);
    for (_, path) in files.into_iter().take(surplus) {
        // Another process may have removed it.
        let _ = fs::remove_file(path);
    }
    Ok(())
}

/// Returns a line for each agent that was verified or skipped.
pub(super) fn section(report: &DirectoryReport, skipped: &Skipped, paint: Paint) -> String {
    let mut text = String::new();
    for agent in &report.agents {
        let name = format!("{} {}", agent.edition.title(), agent.version);
        let differences =
            agent.diagnostics.iter().filter(|it| it.code == diagnostics::EXPLAIN_DIFFERS);
        let line = match (agent.verified, skipped.get(agent.agent)) {
            (Some(true), _) => {
                paint.good(&format!("✓ {name}: verified, it sends what is explained"))
            }
            (Some(false), _) => {
                let mut line = paint.bad(&format!("✗ {name}: it sends something else"));
                for difference in differences {
                    let _ = write!(line, "\n    {}", difference.message);
                }
                line
            }
            (None, Some(why)) => paint.faint(&format!("– {name}: not verified: {why}")),
            (None, None) => continue,
        };
        let _ = writeln!(text, "  {line}");
    }
    if text.is_empty() { text } else { format!("\n{}\n{text}", paint.strong("Verification")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_an_earlier_measurement_does_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let load = |version: u32| {
            let remembered = Remembered {
                version,
                agent: "claude".to_owned(),
                agent_version: "1".to_owned(),
                cwd: "/".into(),
                tree: String::new(),
                differences: Vec::new(),
            };
            remembered.save(directory.path(), "result").unwrap();
            Remembered::load(&directory.path().join("result"))
        };
        assert!(load(VERSION - 1).is_none());
        assert!(load(VERSION).is_some());
    }
}
