//! The real CLIs, at pinned versions, against the rehearsal server. `scripts/install-clis` installs
//! them; where they are missing these tests say that they are skipped, and fail if `CI` is `true`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking, and reports that it is skipped"
)]

mod installed;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use convoke_agent::process::guardian::Guardian;
use convoke_agent::turn_input::Trust;
use convoke_core::ledger::{Source, Target};
use convoke_inspect::capture::{
    Capture, CaptureOptions, CapturedAgent, ChildEnd, Existing, MeasureOptions, MeasurePurpose,
    Measured, Start, capture, compare, load, measure, save,
};
use convoke_inspect::doctor::try_turn;
use convoke_inspect::verify::{Difference, verify};
use convoke_inspect::{HostEnvironment, explained};
use convoke_rehearsal::{Answer, Script};
use convoke_vendor::MeasuredCli;
use convoke_wire::{Part, PartKind, RequestParts};
use serde_json::json;
use tempfile::TempDir;

const CLIS: [&str; 5] =
    ["claude-2.1.197", "claude-2.1.325", "codex-0.98.0", "codex-0.166.0", "gemini-0.61.0"];

/// Returns the program of a CLI, unless it is to be skipped.
fn installed(cli: &str) -> Option<PathBuf> {
    let name = match cli.rsplit_once('-').unwrap().0 {
        "gemini" | "claude" | "codex" => cli.split('-').next().unwrap(),
        name => name,
    };
    Some(installed::programs(cli)?.join(name))
}

/// A project and a user's home, both untouched.
struct Place {
    project: TempDir,
    home: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { project: TempDir::new().unwrap(), home: TempDir::new().unwrap() };
        for name in ["CLAUDE.md", "AGENTS.md", "GEMINI.md"] {
            let text = format!("# Rules of {name}\n\nAlways answer in whole sentences.\n");
            std::fs::write(place.project.path().join(name), text).unwrap();
        }
        std::fs::write(place.project.path().join("note.txt"), "convoke-was-here\n").unwrap();
        place
    }

    fn host_environment(&self) -> HostEnvironment {
        let kept = ["PATH", "LANG"].into_iter();
        let kept = kept.filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
        let mut environment: std::collections::BTreeMap<OsString, OsString> = kept.collect();
        // Settings of the user must not leak into a capture.
        environment.insert("ANTHROPIC_API_KEY".into(), "the-user's-own".into());
        environment.insert("OPENAI_BASE_URL".into(), "http://127.0.0.1:1".into());
        HostEnvironment {
            environment,
            home: self.home.path().to_owned(),
            cwd: self.project.path().canonicalize().unwrap(),
        }
    }

    /// Returns the names of the files in the project and in the home.
    fn files(&self) -> Vec<OsString> {
        let listed = [self.project.path(), self.home.path()].map(|directory| {
            let entries = std::fs::read_dir(directory).unwrap();
            entries.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
        });
        let mut files = listed.concat();
        files.sort();
        files
    }

    async fn run(
        &self,
        program: &Path,
        arguments: &[&str],
        stdin: &str,
        script: Script,
    ) -> Capture {
        let order = order(program, arguments, stdin, script);
        let before = self.files();
        let captured = capture(order, &self.host_environment()).await.unwrap();
        assert_eq!(self.files(), before, "nothing was written into the project or the home");
        assert!(!captured.home.exists(), "the private home is gone");
        captured
    }
}

/// Returns the request that a program would send for a user with instructions of his own.
async fn measured(place: &Place, program: &Path, prompt: &str) -> Measured {
    let mut host_environment = place.host_environment();
    let bin = program.parent().unwrap().as_os_str().to_owned();
    let path = host_environment.environment.entry("PATH".into()).or_default();
    *path = [bin, ":".into(), path.clone()].into_iter().collect();
    let options = MeasureOptions {
        vendor: cli_of(program),
        directory: None,
        arguments: Vec::new(),
        prompt: prompt.into(),
        purpose: MeasurePurpose::Show,
        trust: Trust::Untrusted,
        time_limit: Duration::from_mins(5),
        guardian: Guardian::from_program(env!("CARGO_BIN_EXE_convoke")),
    };
    measure(options, &host_environment).await.unwrap()
}

/// Describes a run with nothing out of the ordinary.
fn order(program: &Path, arguments: &[&str], stdin: &str, script: Script) -> CaptureOptions {
    let command = std::iter::once(program.into()).chain(arguments.iter().map(Into::into));
    CaptureOptions {
        command: command.collect(),
        agent: None,
        stdin: stdin.into(),
        environment: Vec::new(),
        configuration_from: None,
        directory: None,
        start: Start::Typed { is_trusted: true },
        script,
        time_limit: Duration::from_mins(5),
        guardian: Guardian::from_program(env!("CARGO_BIN_EXE_convoke")),
    }
}

/// Returns the output of the program, which must have succeeded.
fn output(capture: &Capture) -> &str {
    match &capture.ended {
        ChildEnd::Done { output } => output,
        ended => panic!("{ended:?}"),
    }
}

fn parts(capture: &Capture, call: usize) -> Vec<Part> {
    let calls: Vec<_> = capture.requests.iter().filter(|request| request.is_turn()).collect();
    let request = calls[call];
    RequestParts::parse(request.model_call().unwrap().wire, &request.body).unwrap().parts
}

fn name(source: &Source<'_>) -> String {
    match source {
        Source::File { path, .. } => path.to_string(),
        Source::Setting { name } => name.to_string(),
        other => panic!("not the user's: {other:?}"),
    }
}

#[tokio::test]
async fn a_plain_turn_completes_and_its_account_adds_up() {
    for cli in CLIS {
        let Some(program) = installed(cli) else {
            continue;
        };
        let place = Place::new();
        let arguments: &[&str] = match cli {
            "gemini-0.61.0" => &["-m", "gemini-2.5-pro", "-o", "json", "What is this project?"],
            _ => &["What is this project?"],
        };
        let script = Script::new([Answer::say("A rehearsed answer.")]);
        let captured = place.run(&program, arguments, "", script).await;
        assert!(output(&captured).contains("A rehearsed answer."), "{cli}: {}", output(&captured));

        let account = captured.account().unwrap();
        assert!(account.ledger.covers(Target::Prompt, account.body_bytes()), "{cli}");
        assert_eq!(account.your_bytes() + account.program_bytes(), account.body_bytes());
        let yours: Vec<String> = account
            .yours()
            .iter()
            .map(|share| format!("{} {}", name(&share.source), share.bytes))
            .collect();
        let file = match captured.program.agent.vendor().unwrap().facts().command {
            "claude" => "CLAUDE.md",
            "codex" => "AGENTS.md",
            _ => "GEMINI.md",
        };
        assert_eq!(yours.len(), 2, "{cli}: {yours:?}");
        assert!(yours.iter().any(|share| share == "your argument 21"), "{cli}: {yours:?}");
        assert!(yours.iter().any(|share| share.contains(file)), "{cli}: {yours:?}");
        assert!(account.ledger.entries().any(|entry| entry.section == "tools"), "{cli}");
        assert!(cli.ends_with(captured.program.version.as_deref().unwrap()));
    }
}

#[tokio::test]
async fn a_measured_request_is_that_of_the_users_own_configuration() {
    for cli in CLIS {
        let Some(program) = installed(cli) else {
            continue;
        };
        let place = Place::new();
        let (directory, file) = match cli.split('-').next().unwrap() {
            "claude" => (".claude", "CLAUDE.md"),
            "codex" => (".codex", "AGENTS.md"),
            _ => (".gemini", "GEMINI.md"),
        };
        let directory = place.home.path().join(directory);
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join(file), "I like short answers in my own home.\n").unwrap();
        for secret in ["auth.json", ".credentials.json", "oauth_creds.json"] {
            std::fs::write(directory.join(secret), "{}").unwrap();
        }
        let measured = measured(&place, &program, "What is this project?").await;
        assert!(cli.ends_with(measured.program.version.as_deref().unwrap()));
        let account = &measured.account;
        assert!(account.ledger.covers(Target::Prompt, measured.body.len() as u64), "{cli}");
        let body = std::str::from_utf8(&measured.body).unwrap();
        assert!(!body.contains("/convoke-"), "{cli}: the private home is in the request");
        let yours: Vec<String> = account
            .yours()
            .iter()
            .map(|share| format!("{} {}", name(&share.source), share.bytes))
            .collect();
        let users = format!("{} 36", directory.join(file).display());
        assert!(yours.contains(&users), "{cli}: {yours:?}");
        assert!(yours.contains(&"your prompt 21".to_owned()), "{cli}: {yours:?}");
        let listed = std::fs::read_dir(&directory).unwrap().count();
        assert_eq!(listed, 4, "{cli}: nothing was written into the home");
    }
}

#[tokio::test]
async fn a_measured_program_sees_the_repository_as_its_users_git_does() {
    for cli in ["claude-2.1.197", "claude-2.1.325"] {
        let Some(program) = installed(cli) else { continue };
        let place = Place::new();
        let git = |arguments: &[&str]| {
            let mut command = std::process::Command::new("git");
            command.args(arguments).current_dir(place.project.path());
            command.env("HOME", place.home.path()).env_remove("XDG_CONFIG_HOME");
            assert!(command.status().unwrap().success(), "{arguments:?}");
        };
        let in_home = |name: &str, text: &str| {
            std::fs::write(place.home.path().join(name), text).unwrap();
        };
        in_home("ignored", "note.txt\n");
        in_home(".gitconfig", "[include]\n\tpath = names\n[alias]\n\tst = !touch ran\n");
        in_home(
            "names",
            "[user]\n\tname = Kim Lee\n[core]\n\texcludesFile = ~/ignored\n\tfsmonitor = touch ran\n",
        );
        git(&["init", "--quiet"]);
        let text = measured(&place, &program, "Fix it").await.body;
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains("Git user: Kim Lee"), "{cli}: {text}");
        assert!(text.contains("?? AGENTS.md") && !text.contains("?? note.txt"), "{cli}: {text}");
        assert!(!place.project.path().join("ran").exists(), "{cli}");
    }
}

#[tokio::test]
async fn what_is_explained_is_what_arrives() {
    for cli in CLIS {
        let Some(program) = installed(cli) else {
            continue;
        };
        let place = Place::new();
        let git = place.project.path().join(".git");
        std::fs::create_dir(git).unwrap();
        let mut host_environment = place.host_environment();
        let bin = program.parent().unwrap().as_os_str().to_owned();
        let path = host_environment.environment.entry("PATH".into()).or_default();
        *path = [bin, ":".into(), path.clone()].into_iter().collect();
        let vendor = cli_of(&program);
        let version = cli.split_once('-').unwrap().1;
        let right = explained::edition(vendor, Some(version));
        for trust in [None, Some("true")] {
            let name = "GEMINI_CLI_TRUST_WORKSPACE";
            host_environment.environment.remove(OsStr::new(name));
            host_environment.environment.extend(trust.map(|it| (name.into(), it.into())));
            let session = explained::session(&host_environment);
            let guardian = Guardian::from_program(env!("CARGO_BIN_EXE_convoke"));
            let time_limit = Duration::from_mins(5);
            let verified =
                verify(vendor, right, &session, &host_environment, guardian, time_limit).await;
            let verified = verified.unwrap();
            assert!(verified.is_right(), "{cli}: {:?}", verified.differences);
            assert_eq!(verified.version.as_deref(), Some(version));
            if vendor.facts().command != "gemini" {
                break;
            }
        }
    }
}

/// With a private home, the user's own directory is one of those above the project.
#[tokio::test]
async fn instructions_of_the_user_arrive_once_in_a_project_below_the_home() {
    for cli in ["claude-2.1.197", "claude-2.1.325"] {
        let Some(program) = installed(cli) else {
            continue;
        };
        for has_git in [true, false] {
            let home = TempDir::new().unwrap();
            let place = Place { project: TempDir::new_in(home.path()).unwrap(), home };
            let write = |path: &str, text: &str| {
                let path = place.home.path().join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            };
            write(".claude/CLAUDE.md", "Instructions of the user, once.\n");
            write(".claude/rules/mine.md", "A rule of the user, once.\n");
            let skill = "---\nname: mine\ndescription: A skill of the user, once.\n---\nDo it.\n";
            write(".claude/skills/mine/SKILL.md", skill);
            std::fs::write(place.project.path().join("AGENTS.md"), "Of the project, once.\n")
                .unwrap();
            if has_git {
                std::fs::create_dir(place.project.path().join(".git")).unwrap();
            }
            let body = measured(&place, &program, "Fix it").await.body;
            let text = String::from_utf8_lossy(&body);
            let count = |wanted: &str| text.matches(wanted).count();
            for wanted in ["Instructions of the user", "A rule of the user", "A skill of the user"]
            {
                assert_eq!(count(wanted), 1, "{cli}: {wanted}");
            }
            assert_eq!(count("Of the project"), usize::from(cli.ends_with("325")), "{cli}");
            let own = place.home.path().join(".claude/CLAUDE.md");
            let label = format!("Contents of {} (user's private", own.display());
            assert_eq!(count(&label), 1, "{cli}: {text}");

            let mut host_environment = place.host_environment();
            let bin = program.parent().unwrap().as_os_str().to_owned();
            let path = host_environment.environment.entry("PATH".into()).or_default();
            *path = [bin, ":".into(), path.clone()].into_iter().collect();
            let session = explained::session(&host_environment);
            let edition = explained::edition(
                convoke_vendors::cli("claude").unwrap(),
                Some(&cli["claude-".len()..]),
            );
            let guardian = Guardian::from_program(env!("CARGO_BIN_EXE_convoke"));
            let limit = Duration::from_mins(5);
            let verified = verify(
                convoke_vendors::cli("claude").unwrap(),
                edition,
                &session,
                &host_environment,
                guardian,
                limit,
            )
            .await;
            let verified = verified.unwrap();
            assert!(verified.is_right(), "{cli}: {:?}", verified.differences);

            // An empty home has none of them, and nothing in their place.
            let captured = place.run(&program, &["Fix it"], "", Script::default()).await;
            let body = captured.turn().unwrap().body.clone();
            let text = String::from_utf8_lossy(&body);
            assert!(!text.contains("Instructions of the user"), "{cli}");
            assert_eq!(text.contains("Of the project"), cli.ends_with("325"), "{cli}");
        }
    }
}

/// In a home that is a repository, or that Codex is started in, the user's skills are the project's too.
#[tokio::test]
async fn skills_of_the_user_arrive_once_where_the_home_is_the_project() {
    for cli in ["codex-0.98.0", "codex-0.166.0"] {
        let Some(program) = installed(cli) else {
            continue;
        };
        let home = TempDir::new().unwrap();
        let place = Place { project: TempDir::new_in(home.path()).unwrap(), home };
        for (directory, name) in [(".codex/skills/a", "a"), (".agents/skills/b", "b")] {
            let directory = place.home.path().join(directory);
            std::fs::create_dir_all(&directory).unwrap();
            let text = format!(
                "---\nname: {name}\ndescription: The skill {name} of the user.\n---\nDo.\n"
            );
            std::fs::write(directory.join("SKILL.md"), text).unwrap();
        }
        std::fs::create_dir(place.home.path().join(".git")).unwrap();
        let body = measured(&place, &program, "Fix it").await.body;
        let text = String::from_utf8_lossy(&body);
        for name in ["a", "b"] {
            let wanted = format!("The skill {name} of the user.");
            assert_eq!(text.matches(&wanted).count(), 1, "{cli}: {wanted}");
        }
        let own = std::fs::read_dir(place.home.path().join(".codex/skills")).unwrap();
        assert_eq!(own.count(), 1, "{cli}: nothing was written into the home");
    }
}

/// A list of sub-agents has the same form as the list of skills.
#[tokio::test]
async fn a_skill_whose_name_begins_that_of_an_agent_is_found_in_the_list_of_skills() {
    for cli in ["claude-2.1.197", "claude-2.1.325"] {
        let Some(program) = installed(cli) else {
            continue;
        };
        let place = Place::new();
        let commands = place.project.path().join(".claude/commands");
        std::fs::create_dir_all(&commands).unwrap();
        std::fs::write(commands.join("gen.md"), "---\ndescription: Generates.\n---\nDo.\n")
            .unwrap();
        let mut host_environment = place.host_environment();
        let bin = program.parent().unwrap().as_os_str().to_owned();
        let path = host_environment.environment.entry("PATH".into()).or_default();
        *path = [bin, ":".into(), path.clone()].into_iter().collect();
        let session = explained::session(&host_environment);
        let edition = explained::edition(
            convoke_vendors::cli("claude").unwrap(),
            Some(&cli["claude-".len()..]),
        );
        let guardian = Guardian::from_program(env!("CARGO_BIN_EXE_convoke"));
        let limit = Duration::from_mins(5);
        let verified = verify(
            convoke_vendors::cli("claude").unwrap(),
            edition,
            &session,
            &host_environment,
            guardian,
            limit,
        )
        .await;
        let verified = verified.unwrap();
        assert!(verified.is_right(), "{cli}: {:?}", verified.differences);
    }
}

/// Gemini CLI reads files of other names in its own directory too.
#[tokio::test]
async fn instructions_of_another_name_arrive_from_the_home_of_gemini() {
    let Some(program) = installed("gemini-0.61.0") else {
        return;
    };
    let place = Place::new();
    let own = place.home.path().join(".gemini");
    std::fs::create_dir(&own).unwrap();
    let settings = json!({"context": {"fileName": ["X.md", "AGENTS.md"]}}).to_string();
    std::fs::write(own.join("settings.json"), settings).unwrap();
    std::fs::write(own.join("X.md"), "Instructions under another name.\n").unwrap();
    let body = measured(&place, &program, "Fix it").await.body;
    assert!(String::from_utf8_lossy(&body).contains("Instructions under another name."));
}

#[tokio::test]
async fn the_rules_of_another_version_are_found_to_be_wrong() {
    let Some(program) = installed("claude-2.1.325") else {
        return;
    };
    let place = Place::new();
    std::fs::remove_file(place.project.path().join("CLAUDE.md")).unwrap();
    let mut host_environment = place.host_environment();
    let bin = program.parent().unwrap().as_os_str().to_owned();
    let path = host_environment.environment.entry("PATH".into()).or_default();
    *path = [bin, ":".into(), path.clone()].into_iter().collect();
    let session = explained::session(&host_environment);
    let guardian = Guardian::from_program(env!("CARGO_BIN_EXE_convoke"));
    let (vendor, wrong) = (
        convoke_vendors::cli("claude").unwrap(),
        convoke_vendors::edition("claude@2.1.197").unwrap(),
    );
    let time_limit = Duration::from_mins(5);
    let verified = verify(vendor, wrong, &session, &host_environment, guardian, time_limit).await;
    let differences = verified.unwrap().differences;
    let [Difference::Unexplained { path, .. }, skills @ ..] = &differences[..] else {
        panic!("{differences:?}");
    };
    assert!(path.ends_with("AGENTS.md"));
    let is_new =
        |it: &Difference| matches!(it, Difference::SkillUnexplained { name } if name == "dataviz");
    assert!(skills.iter().any(is_new), "{skills:?}");
}

#[tokio::test]
async fn a_trial_turn_finds_nothing_changed_in_the_measured_versions() {
    for cli in CLIS {
        let Some(program) = installed(cli) else {
            continue;
        };
        let place = Place::new();
        let guardian = Guardian::from_program(env!("CARGO_BIN_EXE_convoke"));
        let vendor = cli_of(&program);
        let found = try_turn(vendor, &program, &place.host_environment(), &guardian).await;
        assert_eq!(found, [], "{cli}");
    }
}

#[tokio::test]
async fn settings_skills_and_cuts_are_accounted_for() {
    for cli in ["codex-0.98.0", "codex-0.166.0"] {
        let Some(program) = installed(cli) else {
            continue;
        };
        let place = Place::new();
        let project = |name: &str| place.project.path().canonicalize().unwrap().join(name);
        let skill = project(".codex/skills/release/SKILL.md");
        std::fs::create_dir_all(skill.parent().unwrap()).unwrap();
        let text = "---\nname: release\ndescription: Release it\n---\nTag the commit of the day.\n";
        std::fs::write(&skill, text).unwrap();
        std::fs::write(project("AGENTS.md"), "ab\n").unwrap();
        let directory = place.home.path().join(".codex");
        std::fs::create_dir(&directory).unwrap();
        let config = format!(
            "developer_instructions = \"Be brief.\"\n[projects.{:?}]\ntrust_level = \"trusted\"\n",
            project("").parent().unwrap().join(project("").file_name().unwrap())
        );
        std::fs::write(directory.join("config.toml"), config).unwrap();
        let measured = measured(&place, &program, "Prepare it with $release").await;
        let yours: Vec<String> = measured
            .account
            .yours()
            .iter()
            .map(|share| format!("{} {}", name(&share.source), share.bytes))
            .collect();
        let agents = format!("{} 4", project("AGENTS.md").display());
        assert!(yours.contains(&agents), "{cli}: the last newline counts: {yours:?}");
        assert!(yours.contains(&"developer_instructions 9".to_owned()), "{cli}: {yours:?}");
        // The description in the list, and the file with its front matter; a line break takes two bytes.
        let bytes = "Release it".len() + text.len() + text.matches('\n').count();
        let whole = format!("{} {bytes}", skill.display());
        assert!(yours.contains(&whole), "{cli}: {whole}: {yours:?}");

        let long = "Use tabs, never spaces.\n".repeat(2000);
        std::fs::write(project("AGENTS.md"), &long).unwrap();
        let measured = self::measured(&place, &program, "Hi").await;
        let entries = measured.account.ledger.entries();
        let cut: u64 = entries.map(|entry| entry.cut_bytes).sum();
        assert_eq!(cut, long.len() as u64 - (32 << 10), "{cli}");
        let found = measured.diagnostics.iter().any(|it| it.code.name() == "agents-md.truncated");
        assert!(found, "{cli}: {:?}", measured.diagnostics);
    }
}

#[tokio::test]
async fn a_command_and_its_arguments_are_the_users() {
    for cli in ["claude-2.1.197", "claude-2.1.325"] {
        let Some(program) = installed(cli) else { continue };
        let place = Place::new();
        let skill =
            place.project.path().canonicalize().unwrap().join(".claude/skills/norm/SKILL.md");
        std::fs::create_dir_all(skill.parent().unwrap()).unwrap();
        std::fs::write(&skill, "---\nname: norm\ndescription: Tidy up\n---\nabc\n").unwrap();
        let measured = measured(&place, &program, "/norm at once").await;
        let body = std::str::from_utf8(&measured.body).unwrap();
        assert!(body.contains("<command-args>at once") && body.contains("ARGUMENTS: at once"));
        let yours: Vec<String> = measured
            .account
            .yours()
            .iter()
            .map(|share| format!("{} {}", name(&share.source), share.bytes))
            .collect();
        assert!(yours.contains(&"your prompt 14".to_owned()), "{cli}: {yours:?}");
        // The text of the skill, and its description in the list.
        assert!(yours.contains(&format!("{} 10", skill.display())), "{cli}: {yours:?}");
    }
}

#[tokio::test]
async fn a_tool_turn_completes() {
    for (cli, tool, input) in [
        ("claude-2.1.197", "Bash", json!({"command": "cat note.txt", "description": "x"})),
        ("claude-2.1.325", "Bash", json!({"command": "cat note.txt", "description": "x"})),
        ("codex-0.98.0", "exec_command", json!({"cmd": "cat note.txt"})),
        (
            "codex-0.166.0",
            "exec",
            json!("text((await tools.exec_command({cmd: 'cat note.txt'})).output)"),
        ),
        ("gemini-0.61.0", "read_file", json!({"file_path": "note.txt"})),
    ] {
        let Some(program) = installed(cli) else {
            continue;
        };
        let place = Place::new();
        let arguments: &[&str] = match cli {
            "gemini-0.61.0" => &["-m", "gemini-2.5-pro", "go"],
            // Its own sandbox does not start inside ours.
            "codex-0.98.0" | "codex-0.166.0" => &["go", "--sandbox", "danger-full-access"],
            _ => &["go"],
        };
        let script = Script::new([Answer::call(tool, input), Answer::say("Done.")]);
        let captured = place.run(&program, arguments, "", script).await;
        output(&captured);
        let before = parts(&captured, 0);
        let results = parts(&captured, 1).into_iter();
        let results =
            results.filter(|part| part.kind == PartKind::Message && !before.contains(part));
        let results: String = results.map(|part| part.text).collect();
        assert!(results.contains("convoke-was-here"), "{cli}: {results}");
    }
}

#[tokio::test]
async fn a_long_prompt_arrives_byte_for_byte() {
    let mut prompt = "界é👋 \"quoted\" \\ tab\t".repeat(24_000);
    prompt.truncate(prompt.floor_char_boundary(700 << 10));
    for cli in CLIS {
        let Some(program) = installed(cli) else {
            continue;
        };
        let place = Place::new();
        let arguments: &[&str] = match cli {
            "gemini-0.61.0" => &["-m", "gemini-2.5-pro"],
            _ => &[],
        };
        let captured = place.run(&program, arguments, &prompt, Script::default()).await;
        output(&captured);
        let found = parts(&captured, 0).into_iter().any(|part| part.text == prompt);
        assert!(found, "{cli}");
    }
}

#[tokio::test]
async fn two_captures_of_one_program_differ_in_what_was_asked() {
    let Some(program) = installed("codex-0.98.0") else {
        return;
    };
    let place = Place::new();
    let directory = TempDir::new().unwrap();
    let [a, b] = ["a", "b"].map(|name| directory.path().join(name));
    for (at, prompt) in [(&a, "Say one."), (&b, "Say two.")] {
        let captured = place.run(&program, &[prompt], "", Script::default()).await;
        save(&captured, at, Existing::Keep).unwrap();
    }
    let (a, b) = (load(&a).unwrap(), load(&b).unwrap());
    let difference = compare(&a, &b).unwrap();
    assert_eq!(difference.changes.len(), 1, "{:?}", difference.changes);
    assert!(compare(&a, &a).unwrap().changes.is_empty());
}

#[tokio::test]
async fn a_users_own_configuration_is_copied_and_what_it_says_is_the_users() {
    let Some(program) = installed("codex-0.98.0") else {
        return;
    };
    let place = Place::new();
    let configuration = TempDir::new().unwrap();
    std::fs::create_dir(configuration.path().join(".codex")).unwrap();
    let file = |name: &str| configuration.path().join(".codex").join(name);
    std::fs::write(file("config.toml"), "model = \"gpt-5.1\"\n").unwrap();
    std::fs::write(file("AGENTS.md"), "Be kind.\n").unwrap();
    let mut order = order(&program, &["Say one."], "", Script::default());
    order.configuration_from = Some(configuration.path().to_owned());
    let account = capture(order, &place.host_environment()).await.unwrap().account().unwrap();
    assert_eq!(account.model, "gpt-5.1");
    let yours = account.yours();
    let origins = yours.iter().map(|share| name(&share.source));
    assert!(origins.into_iter().any(|origin| origin == file("AGENTS.md").to_string_lossy()));
}

/// ACP agents, with the file of instructions that each reads.
const ACP: [(&str, &str, &str); 4] = [
    ("claude-acp", "claude-agent-acp-0.99.1", "CLAUDE.md"),
    ("codex-acp", "codex-acp-2.6.0", "AGENTS.md"),
    ("copilot", "copilot-1.0.102", "AGENTS.md"),
    ("gemini-acp", "gemini-0.61.0", "GEMINI.md"),
];

#[tokio::test]
async fn an_acp_agent_is_captured_like_the_others() {
    let Some(node) = installed("node-22.23.3") else { return };
    for (agent, label, file) in ACP {
        let Some(program) = installed(label) else { continue };
        let place = Place::new();
        let script = Script::new([Answer::say("A rehearsed answer.")]);
        let mut order = order(&program, &["What is this project?"], "", script);
        order.agent = Some(agent.parse::<CapturedAgent>().unwrap());
        let mut host_environment = place.host_environment();
        let path = host_environment.environment.entry("PATH".into()).or_default();
        *path = [node.parent().unwrap().as_os_str(), OsStr::new(":"), path].into_iter().collect();
        let before = place.files();
        let captured = capture(order, &host_environment).await.unwrap();
        assert_eq!(place.files(), before, "{agent}");
        assert!(output(&captured).contains("A rehearsed answer."), "{agent}");
        assert!(label.ends_with(captured.program.version.as_deref().unwrap()), "{agent}");
        let account = captured.account().unwrap();
        assert!(account.ledger.covers(Target::Prompt, account.body_bytes()), "{agent}");
        let yours: Vec<String> = account
            .yours()
            .iter()
            .map(|share| format!("{} {}", name(&share.source), share.bytes))
            .collect();
        assert!(yours.iter().any(|share| share == "your argument 21"), "{agent}: {yours:?}");
        assert!(yours.iter().any(|share| share.contains(file)), "{agent}: {yours:?}");
        assert!(account.ledger.entries().any(|entry| entry.section == "tools"), "{agent}");
        let saved = TempDir::new().unwrap();
        save(&captured, saved.path(), Existing::Keep).unwrap();
        assert_eq!(load(saved.path()).unwrap().program.agent.name(), agent);
    }
}

/// A pipe with bytes in it. A command that a sandbox keeps from writing can still take one.
struct Bait {
    path: PathBuf,
    pipe: std::fs::File,
}

impl Bait {
    const BYTES: [u8; 64] = [b'x'; 64];

    fn new(path: PathBuf) -> Self {
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let mut options = std::fs::OpenOptions::new();
        let options = options.read(true).write(true).custom_flags(nix::libc::O_NONBLOCK);
        let mut pipe = options.open(&path).unwrap();
        pipe.write_all(&Self::BYTES).unwrap();
        Self { path, pipe }
    }

    /// Returns the command that takes a byte.
    fn command(&self) -> String {
        format!("dd bs=1 count=1 if={} of=/dev/null 2>/dev/null", self.path.display())
    }

    /// Returns whether a byte was taken.
    fn is_taken(&mut self) -> bool {
        use std::io::{Read as _, Write as _};
        let mut bytes = [0; 2 * Self::BYTES.len()];
        let left = self.pipe.read(&mut bytes).unwrap_or(0);
        self.pipe.write_all(&Self::BYTES).unwrap();
        left < Self::BYTES.len()
    }
}

fn git(project: &Path, arguments: &[&str]) {
    let output = std::process::Command::new("git").args(arguments).current_dir(project).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Makes the project a repository in which git looks into a file.
fn repository(project: &Path) {
    git(project, &["init", "-q"]);
    std::fs::write(project.join(".gitattributes"), "*.txt filter=x\n").unwrap();
    git(project, &["add", "."]);
    git(project, &["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x"]);
    // A file of the same size and another time is looked into.
    let old = std::fs::FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH);
    std::fs::File::open(project.join("note.txt")).unwrap().set_times(old).unwrap();
}

/// Runs a CLI in a project that is not trusted, and asserts that it takes no bait.
async fn takes_no_bait(cli: &str, program: &Path, place: &Place, bait: &mut Bait, what: &str) {
    let arguments: &[&str] =
        if cli.starts_with("gemini") { &["-m", "gemini-2.5-pro", "go"] } else { &["go"] };
    let mut order = order(program, arguments, "", Script::default());
    order.start = Start::Typed { is_trusted: false };
    let captured = capture(order, &place.host_environment()).await.unwrap();
    output(&captured);
    assert!(!bait.is_taken(), "{cli} {what}, captured");
    measured(place, program, "go").await;
    assert!(!bait.is_taken(), "{cli} {what}, measured");
}

#[tokio::test]
async fn a_project_that_is_not_trusted_has_no_command_run_by_git() {
    for cli in CLIS {
        let Some(program) = installed(cli) else {
            continue;
        };
        for (setting, then) in [("filter.x.clean", "cat"), ("core.fsmonitor", "false")] {
            let place = Place::new();
            let project = place.project.path();
            repository(project);
            let mut bait = Bait::new(place.home.path().join("bait"));
            git(project, &["config", setting, &format!("{}; {then}", bait.command())]);
            git(project, &["status"]);
            assert!(bait.is_taken(), "git itself runs it");
            takes_no_bait(cli, &program, &place, &mut bait, setting).await;
        }
    }
}

#[tokio::test]
async fn the_settings_of_a_project_that_is_not_trusted_replace_no_variable_of_claude() {
    use std::os::unix::fs::PermissionsExt as _;
    for cli in ["claude-2.1.197", "claude-2.1.325"] {
        let Some(program) = installed(cli) else {
            continue;
        };
        let place = Place::new();
        let project = place.project.path();
        repository(project);
        let mut bait = Bait::new(place.home.path().join("bait"));
        git(project, &["config", "core.fsmonitor", &format!("{}; false", bait.command())]);
        std::fs::create_dir_all(project.join("bin")).unwrap();
        let own = project.join("bin/git");
        std::fs::write(&own, format!("#!/bin/sh\n{}\nexit 1\n", bait.command())).unwrap();
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir(project.join(".claude")).unwrap();
        let path = format!("{}:{}", project.join("bin").display(), std::env::var("PATH").unwrap());
        for (name, value) in [("GIT_CONFIG_COUNT", "0"), ("PATH", &path)] {
            let settings = json!({"env": {name: value}}).to_string();
            std::fs::write(project.join(".claude/settings.json"), settings).unwrap();
            takes_no_bait(cli, &program, &place, &mut bait, name).await;
        }
    }
}

/// Claude Code skips a byte order mark, replaces bytes that are not UTF-8, and (2.1.325) reads the settings of the main
/// working tree.
#[tokio::test]
async fn settings_that_claude_reads_in_its_own_way_run_nothing() {
    for cli in ["claude-2.1.197", "claude-2.1.325"] {
        let Some(program) = installed(cli) else {
            continue;
        };
        let place = Place::new();
        let project = place.project.path();
        let mut bait = Bait::new(place.home.path().join("bait"));
        let main = project.join("main");
        std::fs::create_dir(&main).unwrap();
        std::fs::write(main.join("note.txt"), "x\n").unwrap();
        repository(&main);
        git(&main, &["worktree", "add", "-q", "../tree"]);
        std::fs::rename(project.join("tree/.git"), project.join(".git")).unwrap();
        git(project, &["worktree", "repair"]);
        git(project, &["config", "core.fsmonitor", &format!("{}; false", bait.command())]);
        git(project, &["status"]);
        assert!(bait.is_taken(), "git itself runs it");
        let hook = json!({"type": "command", "command": bait.command()});
        let hooks = json!({"SessionStart": [{"hooks": [hook]}]});
        for settings in [json!({"env": {"GIT_CONFIG_COUNT": "0"}}), json!({"hooks": hooks})] {
            let rest = &settings.to_string().into_bytes()[1..];
            let marked = ["\u{feff}{".as_bytes(), rest].concat();
            let latin = [b"{\"description\": \"\xe9\", ", rest].concat();
            for (path, bytes) in [
                (".claude/settings.json", &marked),
                (".claude/settings.json", &latin),
                ("main/.claude/settings.local.json", &marked),
            ] {
                let file = project.join(path);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(&file, bytes).unwrap();
                let what = format!("{path}: {}", String::from_utf8_lossy(bytes));
                takes_no_bait(cli, &program, &place, &mut bait, &what).await;
                std::fs::remove_file(file).unwrap();
            }
        }
    }
}

#[tokio::test]
async fn claude_is_not_started_with_settings_that_it_alone_can_read() {
    for cli in ["claude-2.1.197", "claude-2.1.325"] {
        let Some(program) = installed(cli) else {
            continue;
        };
        let place = Place::new();
        let file = place.project.path().join(".claude/settings.json");
        std::fs::create_dir(file.parent().unwrap()).unwrap();
        let armed = r#""env": {"GIT_CONFIG_COUNT": "0"}}"#;
        let wide = format!("\u{feff}{{{armed}").encode_utf16().flat_map(u16::to_le_bytes).collect();
        let deep = format!("{{\"x\": {}{}, {armed}", "[".repeat(200), "]".repeat(200));
        let number = format!("{{\"x\": 1e999, {armed}");
        for bytes in [wide, deep.into_bytes(), number.into_bytes()] {
            std::fs::write(&file, bytes).unwrap();
            let mut order = order(&program, &["go"], "", Script::default());
            order.start = Start::Typed { is_trusted: false };
            let refused = capture(order, &place.host_environment()).await.unwrap_err().to_string();
            assert!(refused.contains("settings.json`, and Convoke"), "{cli}: {refused}");
            assert!(refused.contains("`convoke trust`"), "{cli}: {refused}");
        }
    }
}

#[tokio::test]
async fn a_project_that_is_not_trusted_gives_gemini_no_variable() {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(program) = installed("gemini-0.61.0") else {
        return;
    };
    let place = Place::new();
    let text =
        "GEMINI_SANDBOX=docker\nGEMINI_SANDBOX_IMAGE=x\nSANDBOX_FLAGS=--privileged -v /:/host\n";
    std::fs::write(place.project.path().join(".env"), text).unwrap();
    let bin = TempDir::new().unwrap();
    let (docker, marker) = (bin.path().join("docker"), bin.path().join("ran"));
    std::fs::write(&docker, format!("#!/bin/sh\necho \"$@\" >> {}\nexit 1\n", marker.display()))
        .unwrap();
    std::fs::set_permissions(&docker, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut host_environment = place.host_environment();
    let path = host_environment.environment.get_mut(OsStr::new("PATH")).unwrap();
    *path = [
        program.parent().unwrap().as_os_str(),
        OsStr::new(":"),
        bin.path().as_os_str(),
        OsStr::new(":"),
        &path.clone(),
    ]
    .into_iter()
    .collect();
    let mut order = order(&program, &["-m", "gemini-2.5-pro", "go"], "", Script::default());
    order.start = Start::Typed { is_trusted: false };
    let captured = capture(order, &host_environment).await.unwrap();
    output(&captured);
    assert!(!marker.exists(), "{:?}", std::fs::read_to_string(&marker));
    let codes: Vec<String> = captured.notes.iter().map(|note| note.code.to_string()).collect();
    assert!(codes.contains(&"agent.setting-refused".to_owned()), "{codes:?}");
}

#[tokio::test]
async fn a_captured_program_changes_its_private_home_alone_and_what_was_stopped_is_reported() {
    for (cli, tool, input) in [
        (
            "claude-2.1.197",
            "Bash",
            json!({"command": "touch made.txt; echo x > $HOME/own && echo written", "description": "x"}),
        ),
        (
            "codex-0.98.0",
            "exec_command",
            json!({"cmd": "touch made.txt; echo x > $HOME/own && echo written"}),
        ),
    ] {
        let Some(program) = installed(cli) else {
            continue;
        };
        let place = Place::new();
        let script = Script::new([Answer::call(tool, input), Answer::say("Done.")]);
        let arguments: &[&str] = match cli {
            "claude-2.1.197" => &["go", "--dangerously-skip-permissions"],
            _ => &["go", "--dangerously-bypass-approvals-and-sandbox"],
        };
        let mut order = order(&program, arguments, "", script);
        // Claude Code asks this of root.
        order.environment.push(("IS_SANDBOX".into(), "1".into()));
        let captured = capture(order, &place.host_environment()).await.unwrap();
        output(&captured);
        assert!(!place.project.path().join("made.txt").exists(), "{cli}");
        let results: String = parts(&captured, 1).into_iter().map(|part| part.text).collect();
        assert!(results.contains("written"), "{cli}: its private home is its own: {results}");
        let codes: Vec<String> = captured.notes.iter().map(|note| note.code.to_string()).collect();
        assert!(codes.contains(&"sandbox.stopped".to_owned()), "{cli}: {codes:?}");
    }
}

#[tokio::test]
async fn what_the_users_instructions_import_arrives() {
    for cli in ["claude-2.1.197", "claude-2.1.325"] {
        let Some(program) = installed(cli) else {
            continue;
        };
        let place = Place::new();
        let directory = place.home.path().join(".claude");
        std::fs::create_dir_all(directory.join("notes")).unwrap();
        std::fs::write(directory.join("CLAUDE.md"), "# Mine\n\n@notes/deep.md\n").unwrap();
        std::fs::write(directory.join("notes/deep.md"), "A deep note.\n").unwrap();
        let request = measured(&place, &program, "hello").await;
        let all: String = request.parts.iter().map(|part| part.text.as_str()).collect();
        assert_eq!(all.matches("A deep note.").count(), 1, "{cli}: {all}");
    }
}

/// Returns the CLI of a program.
fn cli_of(program: &Path) -> &'static dyn MeasuredCli {
    let cli = convoke_vendors::programs().cli_of(program).unwrap();
    convoke_vendors::measured(cli).unwrap()
}
