//! What people are told about a store that cannot be used, and commands that name it.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;

use crate::cluster::Cluster;
use crate::machine::{Machine, wait_until};

const TEAM: &str =
    "[[member]]\nname = \"ada\"\nhuman = true\n[[member]]\nname = \"max\"\nagent = \"worker\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_cannot_be_opened_says_why_and_what_to_do() {
    let cluster = Cluster::start();
    let options: PgConnectOptions = cluster.url().parse().unwrap();
    let mut connection = options.connect().await.unwrap();
    for statement in [
        "CREATE ROLE secret LOGIN PASSWORD 'right'",
        "CREATE DATABASE fixed",
        "ALTER DATABASE fixed SET default_transaction_read_only = on",
    ] {
        sqlx::raw_sql(statement).execute(&mut connection).await.unwrap();
    }
    cluster.require_password("secret");
    let machine = Machine::new(&cluster.url());
    let error = |url: &str, variables: &[(&str, Option<&str>)]| {
        let error = machine.run_with(&["sessions", "list", "--store", url], variables);
        assert!(
            error.starts_with("convoke: cannot open the store") && !error.contains(" at line "),
            "{error}"
        );
        error
    };
    let guarded = cluster.url().replace("convoke@", "secret@");
    let wrong = error(&guarded, &[("CONVOKE_STORE_PASSWORD", Some("wrong"))]);
    assert!(wrong.contains("password authentication failed for user \"secret\""), "{wrong}");
    assert!(
        wrong.contains("the password is wrong or missing: set CONVOKE_STORE_PASSWORD"),
        "{wrong}"
    );
    let file = machine.in_home(".pgpass");
    std::fs::write(&file, "*:*:*:secret:right\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let ignored = error(&guarded, &[]);
    assert!(
        ignored.contains("other users can read it (its mode is 0644): run `chmod 600 "),
        "{ignored}"
    );
    let fixed = error(&cluster.url().replace("/postgres?", "/fixed?"), &[]);
    assert!(fixed.contains("the database is read-only"), "{fixed}");
    let elsewhere = error("postgres://convoke@localhost/postgres?host=/nowhere", &[]);
    assert!(
        elsewhere.contains("`host=` in the URL must be the directory of the server's socket"),
        "{elsewhere}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn printed_commands_name_the_store_that_the_user_passed() {
    let cluster = Cluster::start();
    let url = cluster.url();
    let machine =
        Machine::new(&url).file("convoke.toml", TEAM).agent("cat > /dev/null; echo hello");
    let option = format!("--store '{url}'");
    let passed = machine.run_with(&["run", "hello", "--store", &url], &[("CONVOKE_STORE", None)]);
    let commands: Vec<&str> = passed
        .lines()
        .filter(|line| line.contains("sessions show") || line.contains("run --session"))
        .collect();
    assert_eq!(commands.len(), 2, "{passed}");
    assert!(commands.iter().all(|line| line.contains(&option)), "{passed}");
    let unknown = machine
        .run_with(&["sessions", "show", "zzzz", "--store", &url], &[("CONVOKE_STORE", None)]);
    assert!(unknown.contains(&format!("`convoke sessions list --all {option}`")), "{unknown}");
    // A store of the environment needs no option.
    let from_environment = machine.run(&["run", "hello"]);
    assert!(!from_environment.contains("--store"), "{from_environment}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_node_says_why_it_waits() {
    let cluster = Cluster::start();
    let machine = Machine::new(&cluster.url()).agent("true").env("CONVOKE_STORE_LEASE", "5");
    let first = machine.node(&["--name", "one", "--offer", "worker"]);
    first.wait_for("runs turns of worker");
    let pid = first.pid();
    first.kill();
    let second = machine.node(&["--name", "one", "--offer", "worker"]);
    second.wait_for("runs turns of worker");
    let output = second.output();
    let waits = format!("waiting: there is a node `one` already: process {pid} on ");
    assert!(output.starts_with(&waits), "{output}");
    assert!(output.contains("its registration expires within 5 seconds"), "{output}");
    assert_eq!(second.end(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_and_a_run_stop_while_the_database_is_away() {
    let cluster = Cluster::start();
    let machine = Machine::new(&cluster.url())
        .file("convoke.toml", TEAM)
        .agent("cat > /dev/null; echo $$ >> \"$LOG\"; sleep 600");
    let node = machine.node(&["--name", "one", "--offer", "codex"]);
    node.wait_for("runs turns of codex");
    let mut run = machine.start(&["run", "--json", "hello"]);
    wait_until("the agent runs", || !machine.log().is_empty());
    cluster.crash();
    run.signal(Signal::SIGTERM);
    assert_eq!(run.end(), Some(1));
    assert_eq!(node.end(), Some(0));
    let output = node.output();
    assert!(output.ends_with("lists this node until its registration expires\n"), "{output}");
    machine.assert_no_process_is_left();
}

/// Nothing fails while a server is silent: each step must have a time limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_and_a_run_stop_while_the_database_does_not_respond() {
    let cluster = Cluster::start();
    let machine = Machine::new(&cluster.url())
        .file("convoke.toml", TEAM)
        .agent("cat > /dev/null; echo $$ >> \"$LOG\"; sleep 600");
    let node = machine.node(&["--name", "one", "--offer", "codex"]);
    node.wait_for("runs turns of codex");
    let mut run = machine.start(&["run", "--json", "hello"]);
    wait_until("the agent runs", || !machine.log().is_empty());
    let paused = cluster.paused();
    let began = Instant::now();
    run.signal(Signal::SIGTERM);
    assert_eq!(run.end(), Some(1));
    assert_eq!(node.end(), Some(0));
    let took = began.elapsed();
    drop(paused);
    assert!(took < Duration::from_secs(30), "{took:?}");
    let output = node.output();
    assert!(output.ends_with("lists this node until its registration expires\n"), "{output}");
    machine.assert_no_process_is_left();
}
