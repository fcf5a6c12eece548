//! Examines one agent: installation, version and interpreter.

use std::path::Path;

use super::{AgentReport, Depth, Finding, Level};
use super::{instructions, network, sign_in};
use crate::diagnostics;
use crate::host_environment::HostEnvironment;
use crate::installed::Installed;
use crate::question::QuestionError;
use convoke_agent::cli::Facts;
use convoke_agent::process::guardian::Guardian;
use convoke_agent::relayed::{CannotRelay, CliStart};
use convoke_agent::turn_input::Trust;
use convoke_vendor::MeasuredCli;

pub(super) fn examine(
    vendor: &'static dyn MeasuredCli,
    host_environment: &HostEnvironment,
    trust: Trust,
    depth: Depth,
    guardian: &Guardian,
) -> AgentReport {
    let facts = vendor.facts();
    let programs = host_environment.search_path().programs(facts.command);
    let mut findings = Vec::new();
    for path in host_environment.programs(facts.command) {
        if !programs.contains(&path) {
            findings.push(in_project(&path));
        }
    }
    let host_environment = &host_environment.outside_project();
    let programs = programs.into_iter();
    let inspected = programs.map(|path| Installed::at(&path, vendor, host_environment, guardian));
    let (installed, mut failures): (Vec<Installed>, Vec<_>) = inspected.unzip();
    let first = installed.first();
    match first {
        Some(program) => {
            check_version(program, failures.swap_remove(0), facts, &mut findings);
            check_interpreter(program, host_environment, &mut findings);
            check_others(&installed, &mut findings);
        }
        None => findings.push(not_installed(facts)),
    }
    let ask = first.filter(|_| depth == Depth::Ask).map(|program| (program, guardian));
    let sign_in = sign_in::examine(vendor, host_environment, ask, &mut findings);
    // The sign-in of a program that is not installed does not matter.
    if first.is_some() {
        sign_in::judge(vendor, &sign_in, host_environment, &mut findings);
    }
    let version = first.and_then(|program| program.version.as_deref());
    let instructions =
        instructions::examine(vendor, version, trust, host_environment, &mut findings);
    let hosts = hosts(vendor, version, host_environment, trust);
    AgentReport { agent: vendor, installed, sign_in, instructions, hosts, findings }
}

/// Returns the hosts of the endpoint that the program would use, with the user's settings.
fn hosts(
    vendor: &'static dyn MeasuredCli,
    version: Option<&str>,
    host_environment: &HostEnvironment,
    trust: Trust,
) -> Vec<String> {
    let mut env: Vec<_> = host_environment.environment.clone().into_iter().collect();
    env.push(("HOME".into(), host_environment.home.clone().into()));
    let started = CliStart {
        vendor,
        is_adapter: false,
        arguments: &[],
        env: &env,
        cwd: &host_environment.cwd,
        trust,
        version,
        etc: Path::new("/etc"),
    };
    let facts = vendor.facts();
    match vendor.relayed_endpoint(&started, &mut || Ok(None)) {
        Ok(endpoint) => vec![network::host(&endpoint.base_url)],
        // The sign-in decides between the vendor's own hosts, but not over a variable.
        Err(CannotRelay::SignIn(_)) => match host_environment.variable(facts.address_variable) {
            Some(address) => vec![network::host(&address.to_string_lossy())],
            None => facts.hosts.iter().map(ToString::to_string).collect(),
        },
        Err(_) => Vec::new(),
    }
}

fn in_project(path: &Path) -> Finding {
    let message = format!(
        "{} lies in this project, where an agent could have put it, and is not run",
        path.display()
    );
    Finding::new(Level::Warning, diagnostics::DOCTOR_IN_PROJECT, message)
}

fn not_installed(facts: &Facts) -> Finding {
    let message = format!("{} is not on the PATH", facts.command);
    Finding::new(Level::Note, diagnostics::DOCTOR_NOT_INSTALLED, message)
        .with_fix(format!("Run `npm install -g {}`, or leave it out of the team.", facts.package))
}

fn check_version(
    program: &Installed,
    failure: Option<QuestionError>,
    facts: &Facts,
    findings: &mut Vec<Finding>,
) {
    let Some(version) = &program.version else {
        let because = failure.map_or_else(String::new, |error| format!(": {error}"));
        let message = format!("the version of {} is unknown{because}", program.path.display());
        let fix = format!("Run `{} --version`.", program.path.display());
        findings.push(
            Finding::new(Level::Warning, diagnostics::DOCTOR_VERSION_UNKNOWN, message)
                .with_fix(fix),
        );
        return;
    };
    if program.is_measured() {
        return;
    }
    let measured = facts.versions.join(", ");
    let message = format!("{} {version} is not a measured version: {measured}", facts.command);
    let newest = facts.versions.last().copied().unwrap_or_default();
    let fix = format!(
        "Run `convoke explain --verify` to see whether it reads the same files; a measured version is \
         `npm install -g {}@{newest}`.",
        facts.package
    );
    let oldest = facts.versions.first().copied().unwrap_or_default();
    let level = if numbers(version) < numbers(oldest) { Level::Warning } else { Level::Note };
    findings
        .push(Finding::new(level, diagnostics::DOCTOR_VERSION_UNMEASURED, message).with_fix(fix));
}

fn numbers(version: &str) -> Vec<u64> {
    let core = version.split(['-', '+']).next().unwrap_or_default();
    core.split('.').map(|number| number.parse().unwrap_or(0)).collect()
}

/// Checks that the interpreter of a script is installed.
fn check_interpreter(
    program: &Installed,
    host_environment: &HostEnvironment,
    findings: &mut Vec<Finding>,
) {
    let Some(interpreter) = program.interpreter() else {
        return;
    };
    if host_environment.programs(&interpreter).is_empty() {
        let message =
            format!("{} needs {interpreter}, which is not on the PATH", program.path.display());
        let fix = format!("Install {interpreter}, or add its directory to the PATH.");
        findings.push(
            Finding::new(Level::Problem, diagnostics::DOCTOR_INTERPRETER_MISSING, message)
                .with_fix(fix),
        );
    }
}

fn check_others(installed: &[Installed], findings: &mut Vec<Finding>) {
    let [first, others @ ..] = installed else {
        return;
    };
    let others = others.iter().filter(|other| other.real_path != first.real_path);
    for other in others {
        let version = other.version.as_deref().unwrap_or("an unknown version");
        let message =
            format!("{} ({version}) is hidden by {}", other.path.display(), first.path.display());
        findings.push(Finding::new(Level::Note, diagnostics::DOCTOR_SHADOWED, message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(numbers("0.98.0") < numbers("0.166.0"));
        assert!(numbers("2.1.197") > numbers("2.1.20-beta.3"));
    }

    #[test]
    fn the_hosts_are_those_of_the_endpoint_that_the_program_would_use() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = home.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let found = |name: &str, variables: &[(&str, &str)]| {
            let vendor = convoke_vendors::cli(name).unwrap();
            let environment = variables.iter().map(|(name, it)| (name.into(), it.into())).collect();
            let home = home.path().to_owned();
            let host_environment = HostEnvironment { environment, cwd: home.clone(), home };
            let newest = vendor.facts().versions.last().copied();
            hosts(vendor, newest, &host_environment, Trust::Untrusted)
        };
        assert_eq!(found("claude", &[]), ["api.anthropic.com"]);
        assert_eq!(found("codex", &[]), ["api.openai.com", "chatgpt.com"]);
        assert_eq!(found("codex", &[("CODEX_API_KEY", "k")]), ["api.openai.com"]);
        assert_eq!(found("gemini", &[]), ["generativelanguage.googleapis.com"]);
        let login = [("GOOGLE_GENAI_USE_GCA", "true")];
        assert_eq!(found("gemini", &login), ["cloudcode-pa.googleapis.com"]);
        let gateway = [("GOOGLE_GEMINI_BASE_URL", "https://me:pw@gateway.example/gemini?key=k")];
        assert_eq!(found("gemini", &gateway), ["gateway.example"]);
        // Claude Code is on Amazon Bedrock, whose hosts are those of a region.
        assert_eq!(found("claude", &[("CLAUDE_CODE_USE_BEDROCK", "1")]), [""; 0]);
        write(
            ".claude/settings.json",
            r#"{"env": {"ANTHROPIC_BASE_URL": "https://proxy.example:8443/v1"}}"#,
        );
        assert_eq!(found("claude", &[]), ["proxy.example:8443"]);
        write(".codex/config.toml", "openai_base_url = \"http://127.0.0.1:9/v1\"\n");
        assert_eq!(found("codex", &[]), ["127.0.0.1:9"]);
    }
}
