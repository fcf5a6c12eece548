//! The cost of the sandbox: the time that the confine step adds to the start of a program.

use std::path::Path;
use std::time::Duration;

use convoke_agent::adapter::{Host, agent};
use convoke_agent::config::{AgentKind, Definition};
use convoke_agent::process::guardian::Guardian;
use convoke_agent::sandbox::{SandboxAdditions, SandboxSettings};
use convoke_agent::turn_input::{Permissions, TurnInput};
use convoke_files::clock::since_1970;

use crate::table::{begin, row, time};

/// Rounds are taken in turn, so that a busy machine slows all of them alike.
const ROUNDS: usize = 60;
/// The entries of the home, each of which needs a rule.
const ENTRIES: [usize; 3] = [20, 200, 2000];

pub fn run() {
    begin("Confining a program", &["entries of the home", "without", "with", "the step"]);
    for entries in ENTRIES {
        let Some((plain, confined)) = measure(entries) else {
            println!("no program could be started");
            return;
        };
        let nanos = |time: Duration| time.as_secs_f64() * 1e9;
        let step = nanos(confined) - nanos(plain);
        row(&[entries.to_string(), time(nanos(plain)), time(nanos(confined)), time(step.max(0.0))]);
    }
}

fn measure(entries: usize) -> Option<(Duration, Duration)> {
    // Every directory above the home is listed, too. Those above this program hold few entries, as those above homes do.
    let program = std::env::current_exe().ok()?;
    let home = tempfile::tempdir_in(program.parent()?).ok()?;
    for number in 0..entries {
        std::fs::write(home.path().join(format!("entry-{number}")), "").ok()?;
    }
    let work = home.path().join("work");
    std::fs::create_dir(&work).ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let once = |open: bool| runtime.block_on(start(home.path(), &work, open));
    let (mut plain, mut confined) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        plain.push(once(true)?);
        confined.push(once(false)?);
    }
    Some((plain.into_iter().min()?, confined.into_iter().min()?))
}

/// Returns the time until the program runs, which says what time it is.
async fn start(home: &Path, work: &Path, open: bool) -> Option<Duration> {
    let readable = if open { vec!["/".into()] } else { Vec::new() };
    let definition = Definition {
        command: Some("/bin/date".to_owned()),
        args: vec!["+%s%N".to_owned()],
        sandbox: SandboxAdditions { readable, ..SandboxAdditions::default() },
        ..Definition::built_in(AgentKind::Plain)
    };
    let host = Host {
        guardian: Guardian::this_program().ok()?,
        env: vec![("HOME".into(), home.into()), ("PATH".into(), "/usr/bin:/bin".into())],
        temp_root: std::env::temp_dir(),
        state_dir: work.to_owned(),
        sandbox: SandboxSettings::default(),
        programs: convoke_agent::Programs::default(),
    };
    let mut turn_input = TurnInput::new("", work);
    turn_input.permissions = if open { Permissions::Full } else { Permissions::Edit };
    let agent = agent(definition, host);
    let begin = since_1970();
    let result = agent.start(turn_input).result().await;
    let nanos: u64 = result.reply.trim().parse().ok()?;
    Duration::from_nanos(nanos).checked_sub(begin)
}
