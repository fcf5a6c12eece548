//! The limits of this machine.

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
    /// The limited resource.
    pub what: &'static str,
    /// The maximum; `None` without a limit.
    pub most: Option<u64>,
    /// An explanation.
    pub meaning: &'static str,
}

/// The minimum number of open files for a team: an agent needs several dozen.
const MIN_FILES: u64 = 1024;
/// The minimum number of processes for a team: node alone starts a dozen threads.
const MIN_PROCESSES: u64 = 512;

pub(super) fn limits(
    host_environment: &HostEnvironment,
    findings: &mut Vec<Finding>,
) -> Vec<Limit> {
    let limits = vec![
        Limit {
            what: "bytes of one argument",
            most: longest_argument(),
            meaning: "not reached: prompts are passed on standard input or in a file",
        },
        Limit {
            what: "bytes of all arguments",
            most: system(SysconfVar::ARG_MAX),
            meaning: "includes the environment",
        },
        Limit {
            what: "open files",
            most: resource(Resource::RLIMIT_NOFILE),
            meaning: "each agent needs several dozen",
        },
        Limit {
            what: "processes",
            most: resource(Resource::RLIMIT_NPROC),
            meaning: "includes threads; each agent needs several dozen",
        },
    ];
    let is_few = |what, few| {
        let limit = limits.iter().find(|limit| limit.what == what);
        limit.and_then(|limit| limit.most).filter(|most| *most < few)
    };
    if let Some(most) = is_few("open files", MIN_FILES) {
        let message = format!("only {most} files can be open at a time");
        let fix = format!("Run `ulimit -n {MIN_FILES}`.");
        findings.push(
            Finding::new(Level::Warning, diagnostics::DOCTOR_LIMIT_LOW, message).with_fix(fix),
        );
    }
    if let Some(most) = is_few("processes", MIN_PROCESSES) {
        let message = format!("only {most} processes and threads can run at a time");
        let fix = format!("Run `ulimit -u {MIN_PROCESSES}`.");
        findings.push(
            Finding::new(Level::Warning, diagnostics::DOCTOR_LIMIT_LOW, message).with_fix(fix),
        );
    }
    check_temporary_directory(host_environment, findings);
    check_root(host_environment, findings);
    limits
}

/// Returns the maximum length of an argument: 32 pages on Linux, including the final NUL.
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

/// Checks that files can be created in the directory for temporary files, which holds prompts and private homes.
fn check_temporary_directory(host_environment: &HostEnvironment, findings: &mut Vec<Finding>) {
    let directory =
        host_environment.variable("TMPDIR").map_or("/tmp".into(), std::path::PathBuf::from);
    if let Err(error) = tempfile::tempfile_in(&directory) {
        let message = format!("cannot create files in {}: {error}", directory.display());
        let fix = "Set TMPDIR to a directory that can be written to.";
        findings.push(
            Finding::new(Level::Problem, diagnostics::DOCTOR_TEMPORARY_DIRECTORY, message)
                .with_fix(fix),
        );
    }
}

fn check_root(host_environment: &HostEnvironment, findings: &mut Vec<Finding>) {
    if nix::unistd::geteuid().is_root() && host_environment.variable("IS_SANDBOX").is_none() {
        let message = "this is the root user; claude refuses to skip permissions for root";
        findings.push(Finding::new(Level::Note, diagnostics::DOCTOR_ROOT, message));
    }
}
