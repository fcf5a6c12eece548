//! The arguments of an agent's configuration: passed on, translated or refused.

use convoke_agent::TurnInput;
use convoke_agent::adapter::{self, Context, Host};
use convoke_agent::config::{Definition, Protocol};
use convoke_agent::process::guardian::Guardian;
use convoke_agent::sandbox::SandboxSettings;
use convoke_agent::turn_input::{Permissions, Trust};
use convoke_protocol::verdict::{Failure, FailureReason};
use convoke_vendors::programs;
use tempfile::TempDir;

use crate::kind;

/// A machine where programs enforce their permissions themselves, unless the test says otherwise.
struct Machine {
    dir: TempDir,
    permissions: Permissions,
    newest_abi: Option<u8>,
    model: Option<&'static str>,
    system: Option<&'static str>,
    trust: Trust,
}

impl Machine {
    fn new() -> Self {
        Self {
            dir: TempDir::new().unwrap(),
            permissions: Permissions::ReadOnly,
            newest_abi: Some(0),
            model: None,
            system: None,
            trust: Trust::Trusted,
        }
    }

    /// Returns the arguments of the program.
    fn prepare(&self, agent: &str, protocol: Protocol, args: &[&str]) -> Result<String, Failure> {
        let path = self.dir.path();
        let home = path.as_os_str().to_owned();
        let host = Host {
            guardian: Guardian::from_program("/none"),
            env: vec![("HOME".into(), home.clone()), ("CODEX_HOME".into(), home)],
            temp_root: path.to_owned(),
            state_dir: path.join("state"),
            sandbox: SandboxSettings { newest_abi: self.newest_abi, ..SandboxSettings::default() },
            programs: programs(),
        };
        let definition = Definition {
            args: args.iter().map(|&it| it.to_owned()).collect(),
            protocol,
            ..Definition::built_in(kind(agent))
        };
        let mut turn_input = TurnInput::new("hello", path);
        turn_input.permissions = self.permissions;
        turn_input.trust = self.trust;
        turn_input.model = self.model.map(str::to_owned);
        turn_input.system = self.system.map(str::to_owned);
        let private = TempDir::new().unwrap();
        let call =
            adapter::prepare(&Context::new(&turn_input, &definition, &host, private.path()))?;
        let words = call.args.iter().map(|it| it.to_str().unwrap().to_owned());
        Ok(words.collect::<Vec<_>>().join(" "))
    }

    fn passed(&self, agent: &str, args: &[&str]) -> String {
        self.prepare(agent, Protocol::AppServer, args).unwrap()
    }

    fn refused(&self, agent: &str, args: &[&str]) -> String {
        let failure = self.prepare(agent, Protocol::AppServer, args).unwrap_err();
        assert_eq!(failure.reason, FailureReason::Usage, "{failure}");
        failure.message
    }
}

#[test]
fn a_permission_mode_takes_the_place_of_ours_if_it_allows_no_more() {
    let mut machine = Machine::new();
    for (agent, option, narrow, wide) in [
        ("claude", "--permission-mode", "plan", "bypassPermissions"),
        ("gemini", "--approval-mode", "plan", "yolo"),
    ] {
        let passed = machine.passed(agent, &[option, narrow]);
        assert_eq!(passed.matches(option).count(), 1, "{passed}");
        assert!(passed.contains(&format!("{option} {narrow}")), "{passed}");
        let why = machine.refused(agent, &[option, wide]);
        assert!(why.contains(option) && why.contains("`sandbox`"), "{why}");
        machine.permissions = Permissions::Full;
        assert!(machine.passed(agent, &[option, wide]).contains(wide));
        machine.permissions = Permissions::Ask;
        machine.refused(agent, &[option, wide]);
        machine.permissions = Permissions::ReadOnly;
    }
}

#[test]
fn what_convoke_sets_itself_is_refused_by_its_name() {
    let machine = Machine::new();
    for (agent, args, named) in [
        ("claude", &["--output-format", "text"][..], "`--output-format`"),
        ("claude", &["--permission-prompt-tool=x"], "`--permission-prompt-tool`"),
        ("claude", &["--dangerously-skip-permissions"], "`--dangerously-skip-permissions`"),
        ("codex", &["-s", "read-only"], "`-s`"),
        ("codex", &["--sandbox=read-only"], "`--sandbox`"),
        ("codex", &["--json"], "`--json`"),
        ("codex", &["--ephemeral"], "`--ephemeral`"),
        ("codex", &["--add-dir", "/tmp"], "`--add-dir`"),
        ("codex", &["-p", "../up"], "`--profile`"),
        ("gemini", &["-o", "text"], "`-o`"),
        ("gemini", &["-p", "hello"], "`-p`"),
        ("gemini", &["--resume", "latest"], "`--resume`"),
    ] {
        let why = machine.refused(agent, args);
        assert!(why.contains(named), "{why}");
    }
}

#[test]
fn a_model_in_the_arguments_counts_where_the_member_has_none() {
    let mut machine = Machine::new();
    for (agent, option) in [("claude", "--model"), ("codex", "-m"), ("gemini", "-m")] {
        let passed = machine.prepare(agent, Protocol::Exec, &[option, "mine"]).unwrap();
        assert_eq!(passed.matches(" mine").count(), 1, "{passed}");
        machine.model = Some("members");
        let why = machine.refused(agent, &[option, "mine"]);
        assert!(why.contains("`model`"), "{why}");
        machine.model = None;
    }
}

#[test]
fn a_system_text_beside_the_instructions_is_refused() {
    let mut machine = Machine::new();
    let args = ["--append-system-prompt", "Be brief."];
    assert!(machine.passed("claude", &args).contains("Be brief."));
    machine.system = Some("You are Max.");
    assert!(machine.refused("claude", &args).contains("`instructions`"));
}

#[test]
fn sources_of_settings_are_those_of_the_arguments_where_the_directory_is_trusted() {
    let mut machine = Machine::new();
    let passed = machine.passed("claude", &["--setting-sources", "user"]);
    assert!(
        passed.ends_with("--setting-sources user") || passed.contains("--setting-sources user "),
        "{passed}"
    );
    machine.trust = Trust::Untrusted;
    machine.refused("claude", &["--setting-sources", "user,project"]);
}

#[test]
fn the_profile_of_codex_is_passed_as_its_settings() {
    let machine = Machine::new();
    assert!(machine.refused("codex", &["-p", "work"]).contains("no profile `work`"));
    let table = "[profiles.work]\nmodel = \"m\"\n";
    std::fs::write(machine.dir.path().join("config.toml"), table).unwrap();
    assert!(machine.passed("codex", &["-p", "work"]).contains("-c profile=\"work\""));
    let file = "model = \"m\"\n[features]\nx = true\n";
    std::fs::write(machine.dir.path().join("work.config.toml"), file).unwrap();
    let passed = machine.passed("codex", &["-p", "work", "-c", "model=\"n\""]);
    assert!(passed.contains("-c features.x=true") && !passed.contains("profile"), "{passed}");
    let place = |setting: &str| passed.find(setting).unwrap();
    assert!(place("model=\"m\"") < place("model=\"n\""), "an argument counts more: {passed}");
}

#[test]
fn the_schema_of_codex_must_be_readable() {
    let machine = Machine::new();
    let args = ["--output-schema", "schema.json"];
    let refused = machine.prepare("codex", Protocol::AppServer, &args).unwrap_err();
    assert!(refused.message.contains("schema.json"), "{refused}");
    std::fs::write(machine.dir.path().join("schema.json"), "{}").unwrap();
    assert!(!machine.passed("codex", &args).contains("schema"));
    let exec = machine.prepare("codex", Protocol::Exec, &args).unwrap();
    assert!(exec.contains("--output-schema schema.json"), "{exec}");
}
