//! The limits that apply here.

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::{SysconfVar, sysconf};
use serde::Serialize;

use super::{Finding, Level};
use crate::diagnostics;
use crate::host_environment::HostEnvironment;

/// A limit of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limit {
    /// What is limited.
    pub what: &'static str,
    /// The most there can be; none is no limit.
    pub most: Option<u64>,
    /// What it means.
    pub meaning: &'static str,
}

/// Fewer open files than this do not carry a team: an agent takes some dozens.
const FEW_FILES: u64 = 1024;
/// Fewer processes than this do not carry one either: node alone starts a dozen threads.
const FEW_PROCESSES: u64 = 512;

pub(super) fn limits(
    host_environment: &HostEnvironment,
    findings: &mut Vec<Finding>,
) -> Vec<Limit> {
    let limits = vec![
        Limit {
            what: "bytes of one argument",
            most: longest_argument(),
            meaning: "prompts go by standard input or by file, and never meet it",
        },
        Limit {
            what: "bytes of all arguments",
            most: system(SysconfVar::ARG_MAX),
            meaning: "the environment counts too",
        },
        Limit {
            what: "open files",
            most: resource(Resource::RLIMIT_NOFILE),
            meaning: "each agent takes some dozens",
        },
        Limit {
            what: "processes",
            most: resource(Resource::RLIMIT_NPROC),
            meaning: "threads count too, and each agent takes some dozens",
        },
    ];
    let is_few = |what, few| {
        let limit = limits.iter().find(|limit| limit.what == what);
        limit.and_then(|limit| limit.most).filter(|most| *most < few)
    };
    if let Some(most) = is_few("open files", FEW_FILES) {
        let message = format!("only {most} files can be open at a time");
        let fix = format!("Run `ulimit -n {FEW_FILES}`.");
        findings.push(
            Finding::new(Level::Warning, diagnostics::DOCTOR_LIMIT_LOW, message).with_fix(fix),
        );
    }
    if let Some(most) = is_few("processes", FEW_PROCESSES) {
        let message = format!("only {most} processes and threads can run at a time");
        let fix = format!("Run `ulimit -u {FEW_PROCESSES}`.");
        findings.push(
            Finding::new(Level::Warning, diagnostics::DOCTOR_LIMIT_LOW, message).with_fix(fix),
        );
    }
    check_temporary_directory(host_environment, findings);
    check_root(host_environment, findings);
    limits
}

/// Linux takes 32 pages for one argument, its end included.
fn longest_argument() -> Option<u64> {
    if cfg!(target_os = "linux") {
        system(SysconfVar::PAGE_SIZE).map(|page| page * 32 - 1)
    } else {
        system(SysconfVar::ARG_MAX)
    }
}

fn system(variable: SysconfVar) -> Option<u64> {
    sysconf(variable).ok().flatten().and_then(|value| u64::try_from(value).ok())
}

fn resource(resource: Resource) -> Option<u64> {
    let (soft, _) = getrlimit(resource).ok()?;
    (soft != nix::libc::RLIM_INFINITY).then_some(soft)
}

/// Prompts that travel by file, and private homes, lie there.
fn check_temporary_directory(host_environment: &HostEnvironment, findings: &mut Vec<Finding>) {
    let directory =
        host_environment.variable("TMPDIR").map_or("/tmp".into(), std::path::PathBuf::from);
    if let Err(error) = tempfile::tempfile_in(&directory) {
        let message = format!("no file can be made in {}: {error}", directory.display());
        let fix = "Set TMPDIR to a directory that can be written to.";
        findings.push(
            Finding::new(Level::Problem, diagnostics::DOCTOR_TEMPORARY_DIRECTORY, message)
                .with_fix(fix),
        );
    }
}

fn check_root(host_environment: &HostEnvironment, findings: &mut Vec<Finding>) {
    if nix::unistd::geteuid().is_root() && host_environment.variable("IS_SANDBOX").is_none() {
        let message = "this is the root user, for whom claude refuses to skip permissions";
        findings.push(Finding::new(Level::Note, diagnostics::DOCTOR_ROOT, message));
    }
}
