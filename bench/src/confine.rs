//! The cost of the sandbox: the time that the confine step adds to the start of a program.

use std::path::Path;
use std::time::{Duration, Instant};

use convoke_agent::adapter::{Host, agent};
use convoke_agent::config::{AgentKind, Definition};
use convoke_agent::process::guardian::Guardian;
use convoke_agent::sandbox::{SandboxAdditions, SandboxSettings};
use convoke_agent::turn_input::{Permissions, TurnInput};

use crate::table::{begin, row, time};

/// Rounds are taken in turn, so that a busy machine slows all of them alike.
const ROUNDS: usize = 40;
/// The entries of the home, each of which needs a rule.
const ENTRIES: usize = 200;

pub fn run() {
    let Some((plain, confined)) = measure() else {
        println!("\nno program could be started");
        return;
    };
    begin("Confining a program, home of 200 entries", &["without", "with", "the step"]);
    let nanos = |time: Duration| time.as_secs_f64() * 1e9;
    let step = nanos(confined) - nanos(plain);
    row(&[time(nanos(plain)), time(nanos(confined)), time(step.max(0.0))]);
}

fn measure() -> Option<(Duration, Duration)> {
    let home = tempfile::tempdir().ok()?;
    for number in 0..ENTRIES {
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
    Some((median(plain), median(confined)))
}

async fn start(home: &Path, work: &Path, open: bool) -> Option<Duration> {
    let readable = if open { vec!["/".into()] } else { Vec::new() };
    let definition = Definition {
        command: Some("/bin/true".to_owned()),
        sandbox: SandboxAdditions { readable, ..SandboxAdditions::default() },
        ..Definition::built_in(AgentKind::Plain)
    };
    let host = Host {
        guardian: Guardian::this_program().ok()?,
        env: vec![("HOME".into(), home.into()), ("PATH".into(), "/usr/bin:/bin".into())],
        temp_root: std::env::temp_dir(),
        state_dir: work.to_owned(),
        sandbox: SandboxSettings::default(),
    };
    let mut turn_input = TurnInput::new("", work);
    turn_input.permissions = if open { Permissions::Full } else { Permissions::Edit };
    let agent = agent(definition, host);
    let begin = Instant::now();
    let result = agent.start(turn_input).result().await;
    (result.verdict == convoke_agent::Verdict::Done).then(|| begin.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
