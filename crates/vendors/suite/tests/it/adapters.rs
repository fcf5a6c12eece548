//! Tests of all adapters.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use convoke_agent::adapter::{self, Context, Host, ProgramCall, complete};
use convoke_agent::config::{AgentKind, Definition, Protocol};
use convoke_agent::ending::{Ending, Exit};
use convoke_agent::launch::{ConfinedEnvironment, Project, UntrustedFile};
use convoke_agent::process::guardian::Guardian;
use convoke_agent::sandbox::{Enforcer, SandboxSettings};
use convoke_agent::turn_input::{Permissions, Trust};
use convoke_agent::{AgentTurn, TurnInput, TurnResult};
use convoke_files::{Disk, FileKind, Files as _};
use convoke_protocol::resume::ResumeHandle;
use convoke_protocol::verdict::{Failure, FailureReason};
use convoke_redact::Redactor;
use convoke_vendors::programs;

use crate::kind;

const PROMPT: &str = "PROMPT /help @/etc/hostname";
const SYSTEM: &str = "SYSTEM text";

/// Prepares a call and returns its arguments and environment, as text.
fn prepare(
    definition: &Definition,
    permissions: Permissions,
    trust: Trust,
) -> (Vec<String>, String) {
    prepare_with(definition, permissions, trust, None)
}

/// Prepares a call on a machine with at most this version of Landlock.
fn prepare_with(
    definition: &Definition,
    permissions: Permissions,
    trust: Trust,
    newest_abi: Option<u8>,
) -> (Vec<String>, String) {
    let dir = tempfile::tempdir().unwrap();
    let host = host_in(dir.path(), newest_abi);
    let mut turn_input = TurnInput::new(PROMPT, dir.path());
    turn_input.permissions = permissions;
    turn_input.trust = trust;
    turn_input.system = (definition.protocol != Protocol::Exec).then(|| SYSTEM.to_owned());
    let context = Context::new(&turn_input, definition, &host, dir.path());
    let call = adapter::prepare(&context).unwrap();
    let args = call.args.iter().map(|arg| arg.to_str().unwrap().to_owned()).collect();
    (args, format!("{:?}", call.env))
}

/// A machine with a home and at most this version of Landlock.
fn host_in(home: &Path, newest_abi: Option<u8>) -> Host {
    Host {
        guardian: Guardian::from_program("/none"),
        env: vec![("HOME".into(), home.into())],
        temp_root: home.to_owned(),
        state_dir: home.join("state"),
        sandbox: SandboxSettings { newest_abi, ..SandboxSettings::default() },
        programs: programs(),
    }
}

/// A machine whose programs inherit no variables.
fn bare_host(directory: &Path) -> Host {
    Host { env: Vec::new(), ..host_in(directory, None) }
}

#[test]
fn nothing_that_is_given_is_taken_for_an_option() {
    let dir = tempfile::tempdir().unwrap();
    let host = bare_host(dir.path());
    for definition in definitions() {
        let refusal = |turn_input: &TurnInput| {
            let (definition, host) = (&definition, &host);
            let context = Context::new(turn_input, definition, host, dir.path());
            adapter::prepare(&context).err().map(|failure| (failure.reason, failure.message))
        };
        let mut turn_input = TurnInput::new(PROMPT, dir.path());
        turn_input.model = Some("--dangerously-skip-permissions".to_owned());
        let (reason, message) = refusal(&turn_input).unwrap();
        assert!(reason == FailureReason::Usage && message.contains("as an option"), "{message}");
        turn_input.model = None;
        turn_input.resume = Some(ResumeHandle::new("-c", dir.path()));
        assert!(refusal(&turn_input).unwrap().1.contains("`-c`"));
    }
}

fn definitions() -> Vec<Definition> {
    let exec = Definition { protocol: Protocol::Exec, ..Definition::built_in(kind("codex")) };
    [kind("claude"), kind("codex"), kind("gemini"), AgentKind::Plain]
        .map(Definition::built_in)
        .into_iter()
        .chain([exec, Definition::built_in(AgentKind::Acp)])
        .chain(programs().presets.iter().map(|preset| Definition::of_preset(preset)))
        .collect()
}

const PERMISSIONS: [Permissions; 4] =
    [Permissions::ReadOnly, Permissions::Edit, Permissions::EditAndNetwork, Permissions::Full];

#[test]
fn no_text_of_a_delivery_is_an_argument_or_a_variable() {
    for definition in definitions() {
        for permissions in PERMISSIONS {
            let (args, env) = prepare(&definition, permissions, Trust::Untrusted);
            for text in args.iter().chain([&env]) {
                assert!(!text.contains("PROMPT") && !text.contains("SYSTEM text"), "{text}");
            }
        }
    }
}

#[test]
fn a_program_decides_itself_only_where_the_kernel_does_not() {
    for (newest_abi, wide) in [(Some(0), [false, false, false, true]), (None, [true; 4])] {
        for (kind, mode, all) in [
            (kind("claude"), "--permission-mode", "bypassPermissions"),
            (kind("gemini"), "--approval-mode", "yolo"),
            (kind("codex"), "-s", "danger-full-access"),
        ] {
            let definition = Definition { protocol: Protocol::Exec, ..Definition::built_in(kind) };
            let modes = PERMISSIONS.map(|permissions| {
                let (args, _) =
                    prepare_with(&definition, permissions, Trust::Untrusted, newest_abi);
                let at = args.iter().position(|arg| arg == mode).unwrap();
                args[at + 1] == all
            });
            assert_eq!(modes, wide, "{kind:?}");
        }
        let claude = Definition::built_in(kind("claude"));
        let (args, _) = prepare_with(&claude, Permissions::Edit, Trust::Untrusted, newest_abi);
        let own = format!("{{\"sandbox\":{{\"enabled\":{}}}}}", newest_abi.is_some());
        assert!(args.contains(&own), "{args:?}");
    }
}

#[test]
fn codex_exec_says_where_it_leaves_the_files_of_a_project_out() {
    let dir = tempfile::tempdir().unwrap();
    let host = bare_host(dir.path());
    let definition =
        &Definition { protocol: Protocol::Exec, ..Definition::built_in(kind("codex")) };
    let codes = |permissions, trust| {
        let mut turn_input = TurnInput::new(PROMPT, dir.path());
        (turn_input.permissions, turn_input.trust) = (permissions, trust);
        let (turn_input, host) = (&turn_input, &host);
        let call = adapter::prepare(&Context::new(turn_input, definition, host, dir.path()));
        call.unwrap().diagnostics.iter().map(|it| it.code.name().to_owned()).collect::<Vec<_>>()
    };
    let unread = codes(Permissions::Edit, Trust::Untrusted);
    assert_eq!(unread, ["agent.instructions-unread"]);
    assert!(codes(Permissions::Edit, Trust::Trusted).is_empty());
    assert!(codes(Permissions::ReadOnly, Trust::Untrusted).is_empty());
}

#[test]
fn a_definition_narrows_what_a_delivery_asks_for() {
    let narrow = Definition {
        permissions: Some(Permissions::ReadOnly),
        ..Definition::built_in(kind("claude"))
    };
    let (args, _) = prepare(&narrow, Permissions::Full, Trust::Trusted);
    assert!(args.iter().any(|arg| arg.starts_with("Edit,Write")), "{args:?}");
}

#[tokio::test]
async fn a_session_that_was_not_found_is_none_to_go_on_with() {
    let handle = ResumeHandle::new("lost", "/");
    let failed = r#"{"method":"turn/completed","params":{"threadId":"t1","turn":{"status":"failed","error":{"message":"no rollout found for thread id lost"}}}}"#;
    let outcome = codex_turn_ending(Some(handle), &[], failed).await;
    assert_eq!(outcome.resume, None);
    assert!(outcome.diagnostics.is_empty(), "nothing was begun anew: {outcome:?}");
}

#[test]
fn a_session_goes_on_with_its_model_unless_another_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let host = bare_host(dir.path());
    let definition = Definition::built_in(kind("claude"));
    for (named, expected) in [(None, "held-with"), (Some("named"), "named")] {
        let mut turn_input = TurnInput::new("hello", dir.path());
        turn_input.model = named.map(str::to_owned);
        turn_input.resume = Some(ResumeHandle {
            model: Some("held-with".to_owned()),
            ..ResumeHandle::new("s", dir.path())
        });
        let private_dir = dir.path();
        let context = Context::new(&turn_input, &definition, &host, private_dir);
        assert_eq!(context.model(), Some(expected));
    }
}

#[test]
fn the_own_sandbox_of_claude_is_off_within_ours_whatever_settings_are_given() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("given.json");
    std::fs::write(&file, r#"{"env":{"A":"key"},"sandbox":{"enabled":true,"x":1}}"#).unwrap();
    let file = file.to_str().unwrap();
    for (newest_abi, is_on) in [(None, false), (Some(0), true)] {
        if newest_abi.is_none() && !Enforcer::on_this_machine(None, None).is_kernel() {
            println!("not run: this kernel has no Landlock");
            continue;
        }
        let given = [vec![], vec!["--settings".to_owned(), file.to_owned()]];
        let given = given.into_iter().chain([vec![format!("--settings={file}")]]);
        for arguments in given {
            let is_given = !arguments.is_empty();
            let mut definition = Definition::built_in(kind("claude"));
            definition.args = arguments;
            let settings = claude_settings(&definition, newest_abi);
            assert_eq!(settings["sandbox"]["enabled"], is_on, "{settings}");
            if is_given {
                assert_eq!(
                    (&settings["env"]["A"], &settings["sandbox"]["x"]),
                    (&"key".into(), &1.into())
                );
            }
        }
    }
    let mut definition = Definition::built_in(kind("claude"));
    definition.args = vec!["--settings".to_owned(), "[]".to_owned()];
    let dir = tempfile::tempdir().unwrap();
    let turn_input = TurnInput::new(PROMPT, dir.path());
    let host = host_in(dir.path(), None);
    let context = Context::new(&turn_input, &definition, &host, dir.path());
    let refused = adapter::prepare(&context).err().unwrap();
    assert_eq!(refused.reason, FailureReason::Start, "{}", refused.message);
}

/// Returns the settings that Claude Code is started with; there is exactly one set.
fn claude_settings(definition: &Definition, newest_abi: Option<u8>) -> serde_json::Value {
    let dir = tempfile::tempdir().unwrap();
    let turn_input = TurnInput::new(PROMPT, dir.path());
    let host = host_in(dir.path(), newest_abi);
    let context = Context::new(&turn_input, definition, &host, dir.path());
    let call = adapter::prepare(&context).unwrap();
    let args: Vec<&str> = call.args.iter().map(|arg| arg.to_str().unwrap()).collect();
    assert_eq!(args.iter().filter(|arg| arg.starts_with("--settings")).count(), 1, "{args:?}");
    let at = args.iter().position(|arg| *arg == "--settings").unwrap();
    let text = match args[at + 1] {
        json if json.starts_with('{') => json.to_owned(),
        path => Disk.read_text(Path::new(path), FileKind::State).unwrap(),
    };
    assert!(!args.iter().any(|arg| arg.contains("key")), "{args:?}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn claude_follows_a_projects_settings_only_when_they_are_trusted() {
    let claude = Definition::built_in(kind("claude"));
    let sources = |trust| {
        let (args, _) = prepare(&claude, Permissions::ReadOnly, trust);
        let at = args.iter().position(|arg| arg == "--setting-sources").unwrap();
        (args[at + 1].clone(), args.contains(&"--strict-mcp-config".to_owned()))
    };
    assert_eq!(sources(Trust::Untrusted), ("user".to_owned(), true));
    assert_eq!(sources(Trust::Trusted), ("user,project,local".to_owned(), false));
}

/// Returns the environment of gemini in an untrusted directory.
fn untrusted_gemini(
    cwd: &Path,
    env: &[(&str, &OsStr)],
) -> Result<ConfinedEnvironment, UntrustedFile> {
    let given = env.iter().map(|&(name, value)| (name.into(), value.into())).collect();
    let home = env.iter().find(|(name, _)| *name == "HOME").map(|(_, home)| Path::new(home));
    let project = Project { cwd, home, trust: Trust::Untrusted };
    let gemini = programs().cli("gemini").ok();
    ConfinedEnvironment::new(given, project, gemini, programs())
}

fn prepare_in(
    cwd: &Path,
    env: &[(&str, &OsStr)],
    definition: &Definition,
    trust: Trust,
) -> Result<ProgramCall, Failure> {
    let state = tempfile::tempdir().unwrap();
    let host = Host {
        env: env.iter().map(|&(name, value)| (name.into(), value.into())).collect(),
        ..bare_host(state.path())
    };
    let mut turn_input = TurnInput::new("hello", cwd);
    turn_input.trust = trust;
    adapter::prepare(&Context::new(&turn_input, definition, &host, state.path()))
}

fn value_of<'c>(call: &'c ProgramCall, name: &str) -> Option<&'c OsStr> {
    call.env.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_os_str())
}

#[test]
fn gemini_refuses_a_project_whose_settings_it_would_follow() {
    for file in ["settings.json", "commands", "policies", "skills", "agents", "extensions"] {
        let file = &format!(".gemini/{file}");
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".gemini")).unwrap();
        std::fs::write(dir.path().join(file), "{}").unwrap();
        let gemini = Definition::built_in(kind("gemini"));
        let refused = prepare_in(dir.path(), &[], &gemini, Trust::Untrusted).err().unwrap();
        assert_eq!(refused.reason, FailureReason::Untrusted);
        assert!(refused.message.contains(file) && refused.message.contains("convoke trust"));
    }
}

#[test]
fn an_acp_agent_refuses_a_project_whose_settings_it_would_follow() {
    for (name, file) in [
        ("copilot", ".github/hooks"),
        ("kilo", ".kilocode"),
        ("kimi", ".kimi-code"),
        ("opencode", "opencode.json"),
        ("qwen", ".qwen"),
    ] {
        let definition = Definition::of_preset(programs().preset(name).unwrap());
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("below");
        std::fs::create_dir_all(dir.path().join(".git")).unwrap();
        std::fs::create_dir(&below).unwrap();
        assert!(prepare_in(&below, &[], &definition, Trust::Untrusted).is_ok(), "{name}");
        std::fs::create_dir_all(dir.path().join(file)).unwrap();
        let refused = prepare_in(&below, &[], &definition, Trust::Untrusted).err().unwrap();
        assert_eq!(refused.reason, FailureReason::Untrusted);
        assert!(refused.message.starts_with(&format!("{name} would apply")), "{refused:?}");
        assert!(prepare_in(&below, &[], &definition, Trust::Trusted).is_ok(), "{name}");
    }
}

#[test]
fn gemini_takes_no_variable_of_a_project_that_is_not_trusted() {
    for file in [".env", ".gemini/.env"] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".gemini")).unwrap();
        let text = "GOOGLE_GEMINI_BASE_URL=http://evil\nGEMINI_API_KEY=theirs\nCLAUDECODE: 1\n";
        std::fs::write(dir.path().join(file), text).unwrap();
        let env = [("GEMINI_API_KEY", OsStr::new("mine")), ("CLAUDECODE", OsStr::new("1"))];
        let mut environment = untrusted_gemini(dir.path(), &env).unwrap();
        let value = |name: &str| environment.variables()[OsStr::new(name)].clone();
        assert_eq!(value("GOOGLE_GEMINI_BASE_URL"), "");
        assert_eq!(value("CLAUDECODE"), "", "it is not inherited");
        assert_eq!(value("GEMINI_API_KEY"), "mine", "the user's own stays");
        let refused = environment.take_diagnostics();
        let codes: Vec<_> = refused.iter().map(|d| d.code.name()).collect();
        assert_eq!(codes, ["agent.setting-refused"]);
        // In Cloud Shell, the file's value overrides the variable.
        let shell = [("CLOUD_SHELL", OsStr::new("true"))];
        std::fs::write(dir.path().join(file), "GOOGLE_CLOUD_PROJECT=theirs").unwrap();
        assert!(untrusted_gemini(dir.path(), &shell).is_err());
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(".env"), "# DATABASE=here\n\n").unwrap();
    assert!(untrusted_gemini(dir.path(), &[]).unwrap().take_diagnostics().is_empty());
}

/// The settings of a trusted project take precedence over the user's, but not over the machine's.
#[test]
fn our_settings_of_gemini_override_those_of_a_project() {
    let dir = tempfile::tempdir().unwrap();
    let machines = dir.path().join("machine/settings.json");
    std::fs::create_dir(dir.path().join("machine")).unwrap();
    let call = |private: &str| {
        let host = Host {
            env: vec![("GEMINI_CLI_SYSTEM_SETTINGS_PATH".into(), machines.clone().into())],
            ..bare_host(dir.path())
        };
        let private_dir = dir.path().join(private);
        std::fs::create_dir(&private_dir).unwrap();
        let (definition, mut turn_input) =
            (Definition::built_in(kind("gemini")), TurnInput::new("hello", dir.path()));
        turn_input.trust = Trust::Trusted;
        adapter::prepare(&Context::new(&turn_input, &definition, &host, &private_dir)).unwrap()
    };
    let path = "GEMINI_CLI_SYSTEM_SETTINGS_PATH";
    for (number, text) in ["", r#"{"tools": {"allowed": ["x"]} /* ours */}"#].iter().enumerate() {
        if !text.is_empty() {
            std::fs::write(&machines, text).unwrap();
        }
        let call = call(&format!("turn{number}"));
        let settings = Disk.read_text(Path::new(value_of(&call, path).unwrap()), FileKind::State);
        let settings: serde_json::Value = serde_json::from_str(&settings.unwrap()).unwrap();
        assert_eq!(settings["general"]["maxAttempts"], 4);
        let search = &settings["context"]["fileFiltering"]["enableRecursiveFileSearch"];
        assert_eq!(*search, serde_json::json!(false));
        assert_eq!(settings["tools"]["allowed"][0].as_str(), (!text.is_empty()).then_some("x"));
        let defaults = Path::new(value_of(&call, "GEMINI_CLI_SYSTEM_DEFAULTS_PATH").unwrap());
        assert_eq!(defaults, dir.path().join("machine/system-defaults.json"));
    }
    // The program reports what is wrong with the settings.
    std::fs::write(&machines, "{").unwrap();
    assert_eq!(value_of(&call("broken"), path), None);
}

/// They may withhold tools.
#[test]
fn settings_of_gemini_that_cannot_be_read_are_not_taken_for_none() {
    let home = tempfile::tempdir().unwrap();
    let settings = home.path().join(".gemini/settings.json");
    std::fs::create_dir(home.path().join(".gemini")).unwrap();
    let project = tempfile::tempdir().unwrap();
    let call = || {
        let env = [("HOME", home.path().as_os_str())];
        let gemini = Definition::built_in(kind("gemini"));
        prepare_in(project.path(), &env, &gemini, Trust::Untrusted).map(drop)
    };
    assert!(call().is_ok());
    for text in ["", " \n", "{\"tools\": {}}"] {
        std::fs::write(&settings, text).unwrap();
        assert!(call().is_ok(), "{text:?}");
    }
    for text in [&b"{"[..], b"\xff"] {
        std::fs::write(&settings, text).unwrap();
        let refused = call().unwrap_err();
        assert!(refused.message.contains(settings.to_str().unwrap()), "{refused:?}");
    }
}

/// The program may read what Convoke cannot.
#[test]
fn rules_of_a_program_that_cannot_be_read_are_named_as_such_that_answer() {
    let project = tempfile::tempdir().unwrap();
    let named = |vendor: &str| {
        let dir = tempfile::tempdir().unwrap();
        let mut turn_input = TurnInput::new(PROMPT, project.path());
        (turn_input.permissions, turn_input.trust) = (Permissions::Ask, Trust::Trusted);
        let (definition, host) = (Definition::built_in(kind(vendor)), bare_host(dir.path()));
        let call = adapter::prepare(&Context::new(&turn_input, &definition, &host, dir.path()));
        let diagnostics = call.unwrap().diagnostics;
        diagnostics.iter().any(|it| it.code.name() == "permission.program-rules")
    };
    for (vendor, file) in [("gemini", ".gemini/settings.json"), ("codex", ".codex/rules/a.rules")] {
        let file = project.path().join(file);
        assert!(!named(vendor), "{vendor}");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "{}").unwrap();
        assert!(!named(vendor), "{vendor}");
        std::fs::write(&file, b"\xff").unwrap();
        assert!(named(vendor), "{vendor}");
    }
}

#[test]
fn gemini_follows_the_variables_of_the_users_home_below_it() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(".env"), "GEMINI_API_KEY=mine\n").unwrap();
    let project = home.path().join("project");
    std::fs::create_dir(&project).unwrap();
    let env = [("HOME", home.path().as_os_str())];
    for (cwd, withheld) in [(project.as_path(), None), (home.path(), Some(OsStr::new("")))] {
        let environment = untrusted_gemini(cwd, &env).unwrap();
        let found = environment.variables().get(OsStr::new("GEMINI_API_KEY"));
        assert_eq!(found.map(OsString::as_os_str), withheld, "{}", cwd.display());
    }
}

#[test]
fn codex_is_signed_in_with_the_users_key_before_its_thread_begins() {
    let dir = tempfile::tempdir().unwrap();
    let definition = Definition::built_in(kind("codex"));
    let turn_input = TurnInput::new("hello", dir.path());
    for (key, expected) in
        [(Some("sk-1"), ["account/login/start", "thread/start"]), (None, ["thread/start", ""])]
    {
        let host = Host {
            env: key.map(|key| ("CODEX_API_KEY".into(), key.into())).into_iter().collect(),
            ..bare_host(dir.path())
        };
        let private_dir = dir.path();
        let context = Context::new(&turn_input, &definition, &host, private_dir);
        let mut call = adapter::prepare(&context).unwrap();
        let in_memory =
            call.args.iter().any(|arg| arg == "cli_auth_credentials_store=\"ephemeral\"");
        assert_eq!(in_memory, key.is_some());
        let mut say = |line: &str| {
            let input = call.dialogue.line(line.as_bytes(), &mut |_| {});
            String::from_utf8(input.bytes).unwrap()
        };
        for (answer, method) in
            [r#"{"id":1,"result":{}}"#, r#"{"id":5,"result":{}}"#].iter().zip(expected)
        {
            assert!(method.is_empty() || say(answer).contains(method), "{answer}");
        }
    }
}

/// Runs a turn of Codex's app-server that writes these lines.
async fn codex_turn(resume: Option<ResumeHandle>, lines: &[&str]) -> TurnResult {
    let done =
        r#"{"method":"turn/completed","params":{"threadId":"t1","turn":{"status":"completed"}}}"#;
    codex_turn_ending(resume, lines, done).await
}

async fn codex_turn_ending(
    resume: Option<ResumeHandle>,
    lines: &[&str],
    closing: &str,
) -> TurnResult {
    let dir = tempfile::tempdir().unwrap();
    let host = bare_host(dir.path());
    let definition = Definition::built_in(kind("codex"));
    let mut turn_input = TurnInput::new("hello", dir.path());
    turn_input.resume = resume;
    let context = Context::new(&turn_input, &definition, &host, dir.path());
    let mut call = adapter::prepare(&context).unwrap();
    let begun = [r#"{"id":1,"result":{}}"#, r#"{"id":2,"result":{"thread":{"id":"t1"}}}"#];
    for line in begun.iter().chain(lines).chain([&closing]) {
        call.dialogue.line(line.as_bytes(), &mut |_| {});
    }
    let ending = Ending { exit: Exit::Code(0), stop: None, stderr: "" };
    let result = call.dialogue.finish(&ending, &mut |_| {});
    let (_turn, side) = AgentTurn::open(Redactor::for_env(&[]));
    complete(&context, &mut call, None, result, &side).await
}

#[tokio::test]
async fn a_resumed_turn_of_codex_counts_what_it_used_itself() {
    let first = r#"{"method":"thread/tokenUsage/updated","params":{"threadId":"t1","tokenUsage":{"total":{"inputTokens":9060},"last":{"inputTokens":9060}}}}"#;
    let second = r#"{"method":"thread/tokenUsage/updated","params":{"threadId":"t1","tokenUsage":{"total":{"inputTokens":19240},"last":{"inputTokens":10180}}}}"#;
    let input = |outcome: &TurnResult| outcome.usage.map(|usage| usage.input);
    let begun = codex_turn(None, &[first]).await;
    assert_eq!(input(&begun), Some(9060));
    // A turn without token counts does not make the next one count the whole session.
    let silent = codex_turn(begun.resume, &[]).await;
    assert_eq!(input(&silent), None);
    // Earlier tokens are reported again when the thread is resumed.
    let resumed = codex_turn(silent.resume, &[first, second]).await;
    assert_eq!(input(&resumed), Some(10180));
    assert_eq!(resumed.resume.unwrap().used.unwrap().input, 19240);
}
