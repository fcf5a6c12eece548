//! A program for tests. Like the real binary, it has the guardian's mode; otherwise it acts as Convoke: it runs
//! one turn of a command and waits for the end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use convoke_agent::TurnResult;
use convoke_agent::adapter::{Host, agent};
use convoke_agent::config::{AgentKind, Definition};
use convoke_agent::process::guardian::{Guardian, run_if_asked};
use convoke_agent::process::temp_root;
use convoke_agent::sandbox::{Route, SandboxAdditions, SandboxSettings};
use convoke_agent::turn_input::{Permissions, TurnInput};
use convoke_protocol::verdict::Verdict;
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

fn main() -> ExitCode {
    if setting::<u8>("KEEPER_ENDS").is_some()
        && std::env::args().nth(1).is_some_and(|it| it == "__convoke-keeper")
    {
        return end_as_keeper();
    }
    if let Some(code) = run_if_asked() {
        return code;
    }
    if let Some(errno) = setting("ERRNO") {
        without_landlock(errno);
    }
    if setting::<u8>("READ_ERROR").is_some() {
        without_output();
    }
    match play_convoke() {
        Some(TurnResult { verdict: Verdict::Done, .. }) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Ends like a keeper that is killed when its agent has started a tool, but before it has reported its agent.
fn end_as_keeper() -> ExitCode {
    let script = "setsid env -i /bin/sh -c 'echo $$ >>pids; exec /bin/sleep 1000' & until [ -s pids ]; do :; done";
    let socket = std::env::args_os().nth(2).map(PathBuf::from).unwrap_or_default();
    let root = socket.ancestors().nth(2).unwrap_or(&socket);
    let _ = std::process::Command::new("sh").args(["-c", script]).current_dir(root).status();
    ExitCode::FAILURE
}

/// Takes `KIND MODEL DIRECTORY COMMAND ARGS…` and runs one turn. Variables configure its sandbox; without them
/// it has every permission. With `CONVOKE_TEST_SHOW`, the result is printed.
fn play_convoke() -> Option<TurnResult> {
    let mut args = std::env::args().skip(1);
    let name = args.next()?;
    let kind = AgentKind::all(convoke_vendors::programs()).find(|kind| kind.name() == name)?;
    let model = args.next().filter(|model| !model.is_empty());
    let dir = PathBuf::from(args.next()?);
    let home = setting::<String>("AGENT_HOME").map(|home| ("HOME".to_owned(), home));
    let definition = Definition {
        command: Some(args.next()?),
        args: args.collect(),
        model,
        env: home.into_iter().collect(),
        sandbox: SandboxAdditions {
            writable: setting::<PathBuf>("WRITABLE").into_iter().collect(),
            no_listening: setting::<u8>("NO_LISTENING").is_some(),
            ..SandboxAdditions::default()
        },
        ..Definition::built_in(kind)
    };
    let port = setting("PORT");
    let host = Host {
        guardian: Guardian::this_program().ok()?,
        env: std::env::vars_os().collect(),
        temp_root: std::env::var_os("TMPDIR").map_or_else(|| dir.clone(), |_| temp_root()),
        state_dir: dir.clone(),
        sandbox: SandboxSettings {
            private: std::env::var_os("CONVOKE_TEST_PRIVATE")
                .map(PathBuf::from)
                .into_iter()
                .collect(),
            route: port.map_or(Route::Direct, |port| Route::Through { port }),
            required: setting::<bool>("REQUIRED").is_some(),
            newest_abi: setting("ABI"),
            started_in: setting::<PathBuf>("STARTED_IN"),
            places: setting::<PathBuf>("PLACE").into_iter().collect(),
        },
        programs: convoke_vendors::programs(),
    };
    let permissions = match setting::<String>("PERMISSIONS").as_deref() {
        Some("read-only") => Permissions::ReadOnly,
        Some("edit") => Permissions::Edit,
        Some("edit-and-network") => Permissions::EditAndNetwork,
        _ => Permissions::Full,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let result = runtime.block_on(async {
        let mut turn_input = TurnInput::new("Begin.", dir);
        turn_input.permissions = permissions;
        agent(definition, host).start(turn_input).result().await
    });
    if setting::<String>("SHOW").is_some() {
        #[expect(clippy::disallowed_methods, reason = "only tests read the output")]
        let mut stdout = std::io::stdout();
        let show = |stdout: &mut std::io::Stdout| {
            use std::io::Write as _;
            writeln!(stdout, "{}\n{}", result.verdict, result.reply)?;
            result.diagnostics.iter().try_for_each(|diagnostic| {
                writeln!(stdout, "{}: {}", diagnostic.code.name(), diagnostic.message)
            })
        };
        show(&mut stdout).ok()?;
    }
    Some(result)
}

fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(format!("CONVOKE_TEST_{name}")).ok()?.parse().ok()
}

/// Fails every Landlock call with an error, like kernels without Landlock and some containers.
fn without_landlock(errno: u32) {
    const CREATE_RULESET: i64 = 444;
    refuse(BTreeMap::from([(CREATE_RULESET, Vec::new())]), errno);
}

/// Fails the reads of an agent's output, which are the only ones of their size.
fn without_output() {
    const OUTPUT_BUFFER: u64 = 64 << 10;
    const EIO: u32 = 5;
    let size =
        SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, OUTPUT_BUFFER).ok();
    let rule = size.and_then(|size| SeccompRule::new(vec![size]).ok());
    refuse(BTreeMap::from([(nix::libc::SYS_read, rule.into_iter().collect())]), EIO);
}

fn refuse(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: u32) {
    let filter = std::env::consts::ARCH.try_into().ok().and_then(|arch| {
        SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno), arch).ok()
    });
    let program: Option<seccompiler::BpfProgram> = filter.and_then(|it| it.try_into().ok());
    if let Some(program) = program {
        let _ = apply_filter(&program);
    }
}
