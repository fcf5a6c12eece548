//! `convoke doctor`: shows which agents are installed and signed in, and what would fail.

mod acp_agents;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use clap::Args;
use convoke_agent::cli::SignInStatus;
use convoke_agent::process::guardian::Guardian;
use convoke_agent::turn_input::Trust;
use convoke_inspect::doctor::{
    AcpAgent, AcpReport, AgentReport, Depth, Evidence, Finding, Level, Limit, MachineReport,
    examine, try_turn,
};
use convoke_inspect::{HostEnvironment, diagnostics};
use convoke_session::Store as _;
use convoke_vendor::MeasuredCli;
use rustix::fs::Access;

use crate::conversation::change_recorder::changes_of;
use crate::conversation::home::Home;
use crate::conversation::project::{Project, TeamFileReport, UserConfiguration, find_team_file};
use crate::conversation::sessions::open_store;
use crate::conversation::store::is_store_elsewhere;
use crate::conversation::trust_here::TrustHere;
use crate::diagnostics::Deny;
use crate::diagnostics::own;
use crate::figures::number;
use crate::host_environment;
use crate::outcome::{Outcome, UsageError, described};
use crate::terminal::{Paint, stderr, stdout};

/// Show which agents are installed and signed in, and what would fail.
///
/// Shows how to fix it. Reads no secrets and sends nothing. Whether a key is valid is not checked.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Check only these agents, for example claude,codex
    #[arg(long, value_name = "AGENTS", value_delimiter = ',')]
    agent: Vec<String>,
    /// Ask each program whether it is signed in; some write to their own directory when they start
    #[arg(long)]
    ask: bool,
    /// Run a rehearsed turn of every agent, offline and in a private home, and name flags and events that have
    /// changed; without it, only of those whose version is unknown
    #[arg(long)]
    verify: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    deny: Deny,
}

/// Runs `convoke doctor`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let host_environment = host_environment::of_process()?;
    let (vendors, acp) = chosen(&arguments.agent, &host_environment)?;
    let depth = if arguments.ask { Depth::Ask } else { Depth::Look };
    let trust = trust_here(&host_environment);
    let guardian = Guardian::this_program()?;
    let members = match &arguments.agent[..] {
        [] => acp_agents::other_members(&host_environment),
        _ => Vec::new(),
    };
    let mut report = examine(&vendors, &acp, members, &host_environment, trust, depth, &guardian);
    try_turns(&mut report, arguments.verify, &host_environment, &guardian)?;
    report.findings.extend(broken_configuration(&host_environment));
    report.findings.extend(unusable_store(&host_environment)?);
    report.findings.extend(leftover_workspaces(&host_environment)?);
    let broken_team = broken_team_file(&host_environment);
    if let Some(TeamFileReport { file, errors }) = &broken_team {
        let message = format!("{file} has errors: {errors}");
        report.findings.push(Finding::new(Level::Problem, own::DOCTOR_CONFIGURATION, message));
    }
    let paint = Paint::for_stream(&stdout());
    let mut out = stdout();
    if arguments.json {
        serde_json::to_writer(&mut out, &report)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", show(&report, &host_environment, depth, paint))?;
    }
    drop(out);
    if let Some(broken) = broken_team {
        return Err(broken.into());
    }
    let given = report.all_findings().map(|found| found.diagnostic.code.clone());
    let has_problem = report.findings.iter().any(|found| found.level == Level::Problem);
    Ok(match arguments.deny.outcome(given) {
        Outcome::Done if has_problem => Outcome::Failed,
        outcome => outcome,
    })
}

/// Runs a rehearsed turn of each agent of an unmeasured version, or of all.
fn try_turns(
    report: &mut MachineReport,
    all: bool,
    host_environment: &HostEnvironment,
    guardian: &Guardian,
) -> anyhow::Result<()> {
    let has = |findings: &[Finding], code| findings.iter().any(|it| it.diagnostic.code == code);
    if has(&report.findings, diagnostics::DOCTOR_TEMPORARY_DIRECTORY) {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut trials = Vec::new();
    for agent in &report.agents {
        let Some(program) = agent.installed.first() else { continue };
        let cannot_start = has(&agent.findings, diagnostics::DOCTOR_INTERPRETER_MISSING);
        if cannot_start || (program.is_measured() && !all) {
            continue;
        }
        let mut screen = stderr();
        if screen.is_terminal() {
            // A program that no longer ends its turn is waited for.
            let version = program.version.as_deref().unwrap_or_default();
            writeln!(screen, "trying a rehearsed turn of {} {version} …", agent.agent)?;
        }
        let tried = try_turn(agent.agent, &program.path, host_environment, guardian);
        let mut found = runtime.block_on(tried);
        if found.is_empty() {
            let message = format!("a rehearsed turn of {} succeeded", agent.agent);
            found.push(Finding::new(Level::Note, diagnostics::DOCTOR_TRIAL_PASSED, message));
        }
        trials.push((agent.agent, found));
    }
    for (agent, found) in trials {
        report.add_trial(agent, &found);
    }
    Ok(())
}

/// Returns a finding if `agents.toml`, which every run reads first, has errors.
fn broken_configuration(host_environment: &HostEnvironment) -> Option<Finding> {
    let home = Home::new(host_environment);
    let wrong = home.read_catalog().err().or_else(|| home.read_permissions().err())?;
    Some(Finding::new(Level::Problem, own::DOCTOR_CONFIGURATION, wrong.to_string()))
}

/// Returns a finding if no run could store its session in the file of this machine. A file that is not there yet is not
/// created, and a database elsewhere is not called.
fn unusable_store(host_environment: &HostEnvironment) -> anyhow::Result<Option<Finding>> {
    let problem = |message: String| Finding::new(Level::Problem, own::DOCTOR_STORE, message);
    let data = Home::new(host_environment).data;
    if is_store_elsewhere(host_environment) {
        return Ok(None);
    }
    if !data.join("sessions.db").exists() {
        let parent = data.ancestors().find(|it| it.exists());
        let is_writable = |it: &Path| {
            it.is_dir() && rustix::fs::access(it, Access::WRITE_OK | Access::EXEC_OK).is_ok()
        };
        return Ok(parent.filter(|it| !is_writable(it)).map(|it| {
            problem(format!("sessions cannot be stored: {} cannot be written", it.display()))
        }));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let opened = runtime.block_on(async {
        let store = open_store(host_environment).await?;
        store.sessions().await?;
        store.close().await;
        anyhow::Ok(())
    });
    Ok(opened.err().map(|error| problem(described(&error))))
}

/// Returns a finding for each unused workspace directory.
fn leftover_workspaces(host_environment: &HostEnvironment) -> anyhow::Result<Vec<Finding>> {
    let data = Home::new(host_environment).data;
    if !data.join("workspaces").is_dir() {
        return Ok(Vec::new());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let sessions = runtime.block_on(async {
        // A store that cannot be opened is a finding of its own.
        let store = open_store(host_environment).await?;
        let removed = store.removed_sessions().await?.into_iter().map(|it| it.session.id);
        let ids = store.sessions().await?.into_iter().map(|it| it.id).chain(removed);
        anyhow::Ok(ids.map(|id| id.to_string()).collect::<HashSet<String>>())
    });
    let Ok(sessions) = sessions else { return Ok(Vec::new()) };
    let leftovers = changes_of(host_environment).leftovers(&sessions)?;
    let finding = |leftover: convoke_changes::Leftover| {
        let path = leftover.path.display();
        let message = format!("a workspace is left over: {path}: {}", leftover.reason);
        let code = convoke_changes::diagnostics::WORKSPACE_LEFTOVER;
        Finding::new(Level::Warning, code, message).with_fix(format!(
            "If no `convoke` runs in it and you need nothing of it, remove it: rm -r {path}"
        ))
    };
    Ok(leftovers.into_iter().map(finding).collect())
}

/// Returns the trust that a run here would start the agents with.
fn trust_here(host_environment: &HostEnvironment) -> Trust {
    // What keeps it from being known is a finding of its own.
    TrustHere::find(host_environment).map_or(Trust::Untrusted, |here| here.trust)
}

/// Returns the errors of the team file that a run here would use.
fn broken_team_file(host_environment: &HostEnvironment) -> Option<TeamFileReport> {
    let user = UserConfiguration::load(&Home::new(host_environment)).ok()?;
    Project::read(&find_team_file(host_environment)?, &user).err()
}

/// Returns the agents to check: all, or the named ones.
fn chosen(
    names: &[String],
    host_environment: &HostEnvironment,
) -> Result<(Vec<&'static dyn MeasuredCli>, Vec<AcpAgent>), UsageError> {
    let all = acp_agents::all(host_environment);
    if names.is_empty() {
        return Ok((convoke_vendors::clis().collect(), all));
    }
    let programs = convoke_vendors::programs();
    let (mut vendors, mut chosen) = (Vec::new(), Vec::new());
    for name in names {
        let found = all.iter().find(|agent| agent.name == *name).cloned();
        let found = found.or_else(|| programs.preset(name).map(acp_agents::known));
        match (convoke_vendors::cli(name), found) {
            (Ok(vendor), _) => vendors.push(vendor),
            (Err(_), Some(agent)) => chosen.push(agent),
            (Err(_), None) => {
                let known = programs.clis.iter().map(ToString::to_string);
                let own = all.iter().filter(|agent| agent.preset.is_none());
                let known = known
                    .chain(programs.presets.iter().map(|preset| preset.name.to_owned()))
                    .chain(own.map(|agent| agent.name.clone()));
                let known = known.collect::<Vec<_>>().join(", ");
                return Err(UsageError(format!("unknown agent `{name}`; the agents are {known}")));
            }
        }
    }
    Ok((vendors, chosen))
}

fn show(
    report: &MachineReport,
    host_environment: &HostEnvironment,
    depth: Depth,
    paint: Paint,
) -> String {
    let page = Page { host_environment, paint };
    let mut text = String::new();
    for agent in &report.agents {
        text += &page.agent(agent);
    }
    for agent in &report.acp {
        text += &page.acp_agent(agent);
    }
    text += &paint.strong("machine\n");
    for limit in &report.limits {
        text += &page.limit(limit);
    }
    for proxy in &report.network.proxies {
        text += &page.line("proxy", &format!("{} ({})", proxy.address, proxy.variable));
    }
    if report.network.proxies.is_empty() {
        text += &page.line("proxy", "none; the agents connect directly");
    }
    text += &page.line("sandbox", &report.sandbox.enforcer);
    for finding in &report.findings {
        text += &page.finding(finding);
    }
    text + "\n" + &verdict(report, depth, paint)
}

fn verdict(report: &MachineReport, depth: Depth, paint: Paint) -> String {
    let usable: Vec<String> = report
        .agents
        .iter()
        .filter(|agent| agent.is_usable())
        .map(|agent| agent.agent.to_string())
        .chain(report.members.iter().cloned())
        .collect();
    let acp = report.acp.iter().filter(|agent| agent.program.is_some());
    let acp: Vec<&str> = acp.map(|agent| agent.agent.as_str()).collect();
    let is_in_the_way = report.findings.iter().any(|found| found.level == Level::Problem);
    let sentence = match (&usable[..], &acp[..]) {
        ([], []) => paint.bad("No agent could run a turn."),
        _ if is_in_the_way => {
            paint.bad("No agent could run a turn until the problem of this machine is fixed.")
        }
        ([], acp) => paint.good(&format!("{} can run a turn if signed in.", list(acp))),
        (usable, []) => paint.good(&format!("{} should be able to run a turn.", list(usable))),
        (usable, acp) => {
            let (usable, acp) = (list(usable), list(acp));
            paint.good(&format!("{usable} should be able to run a turn, and {acp} if signed in."))
        }
    };
    let done = match depth {
        Depth::Look => "Nothing was sent, and no secrets were read.\n",
        Depth::Ask => "Each program was asked for its status; no model was called.\n",
    };
    format!("{sentence}\n{}", paint.faint(done))
}

fn list(names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match &names[..] {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        names => names.concat(),
    }
}

struct Page<'a> {
    host_environment: &'a HostEnvironment,
    paint: Paint,
}

impl Page<'_> {
    fn agent(&self, report: &AgentReport) -> String {
        let name = self.paint.strong(&report.agent.to_string());
        let Some(program) = report.installed.first() else {
            let findings: String =
                report.findings.iter().map(|found| self.finding(found)).collect();
            return format!("{name}\n{findings}\n");
        };
        let version = program.version.as_deref().unwrap_or("(unknown version)");
        let mut text = format!("{name} {version}\n");
        text += &self.line("program", &self.path(&program.path));
        text += &self.line("sign-in", &self.sign_in(report));
        text += &self.line("reads", &self.instructions(report));
        let hosts = report.hosts.join(", ");
        text += &self.line("reaches", if hosts.is_empty() { "unknown hosts" } else { &hosts });
        for finding in &report.findings {
            text += &self.finding(finding);
        }
        text + "\n"
    }

    fn acp_agent(&self, report: &AcpReport) -> String {
        let mut text = format!("{} (ACP)\n", self.paint.strong(&report.agent));
        if let Some(program) = &report.program {
            let how = report.sign_in.unwrap_or_default();
            text += &self.line("program", &self.path(program));
            text += &self.line("sign-in", format!("not known before its first turn. {how}").trim());
        }
        for finding in &report.findings {
            text += &self.finding(finding);
        }
        text + "\n"
    }

    fn sign_in(&self, report: &AgentReport) -> String {
        let evidence = report.sign_in.evidence.iter().map(|evidence| match evidence {
            Evidence::Key { variable } => format!("{variable} is set"),
            Evidence::Cloud { variable } => {
                format!("{variable} is set: a cloud provider's credentials")
            }
            Evidence::Credentials { path } => format!("{} exists", self.path(path)),
        });
        let evidence: Vec<String> = evidence.collect();
        let found = if evidence.is_empty() {
            "no credentials found".to_owned()
        } else {
            evidence.join(", ")
        };
        let says = match report.sign_in.program_says {
            Some(SignInStatus::SignedIn) => "; the program reports that it is signed in",
            Some(SignInStatus::NotSignedIn) => "; the program reports that it is not signed in",
            Some(SignInStatus::Unclear) => "; the program's answer is unclear",
            None if report.sign_in.evidence.is_empty() => "",
            None => " (not verified)",
        };
        found + says
    }

    fn instructions(&self, report: &AgentReport) -> String {
        let files = report.instructions.files.iter().map(|file| {
            let cut = if file.whole { "" } else { ", cut" };
            format!("{} ({} bytes{cut})", self.path(&file.path), number(file.bytes))
        });
        let files: Vec<String> = files.collect();
        let files =
            if files.is_empty() { "no instruction files".to_owned() } else { files.join(", ") };
        match report.instructions.diagnostics.len() {
            0 => files,
            1 => format!("{files}; 1 note in `convoke explain`"),
            odd => format!("{files}; {odd} notes in `convoke explain`"),
        }
    }

    fn limit(&self, limit: &Limit) -> String {
        let most = limit.most.map_or("no limit".to_owned(), number);
        self.line("limit", &format!("{most} {}: {}", limit.what, limit.meaning))
    }

    fn finding(&self, finding: &Finding) -> String {
        let mark = match finding.level {
            Level::Note => self.paint.faint("·"),
            Level::Warning => self.paint.warning("!"),
            Level::Problem => self.paint.bad("✗"),
        };
        let code = self.paint.faint(&format!("({})", finding.diagnostic.code));
        let mut text = format!("  {mark} {} {code}\n", finding.diagnostic.message);
        let _ = writeln!(text, "    → {}", finding.fix);
        text
    }

    fn line(&self, name: &str, text: &str) -> String {
        format!("  {} {text}\n", self.paint.faint(&format!("{name:<9}")))
    }

    fn path(&self, path: &Path) -> String {
        let HostEnvironment { home, cwd, .. } = self.host_environment;
        match (path.strip_prefix(cwd), path.strip_prefix(home)) {
            (Ok(rest), _) => rest.display().to_string(),
            (_, Ok(rest)) => format!("~/{}", rest.display()),
            _ => path.display().to_string(),
        }
    }
}
