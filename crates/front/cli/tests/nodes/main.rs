//! Nodes: several processes of the command on one store, as on several machines.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../../../../conversation/session/tests/postgres/cluster.rs"]
mod cluster;
mod copies;
mod faults;
mod machine;
mod people;
#[path = "../../../../conversation/session/tests/postgres/proxy.rs"]
mod proxy;
mod secrets;
mod stores;

use convoke_agent::clock::now;
use convoke_protocol::id::{MessageNumber, SessionId, TurnId};
use convoke_protocol::session::NewSession;
use convoke_protocol::turn::TurnState;
use convoke_protocol::verdict::Verdict;
use convoke_session::store::postgres::PostgresStore;
use convoke_session::{NewMessage, Store as _};
use serde_json::Value;

use self::cluster::Cluster;
use self::machine::{Machine, wait_until};

const TEAM: &str = r#"
[[member]]
name = "ada"
human = true
[[member]]
name = "max"
agent = "claude"
[[member]]
name = "cody"
agent = "codex"
node = "build-server"
"#;

/// Creates a session of a team in a directory.
async fn create(store: &PostgresStore, team: &str, directory: &str) -> SessionId {
    let session = NewSession {
        id: SessionId::generate(),
        created_at: now(),
        name: None,
        directory: directory.to_owned(),
        team: team.to_owned(),
        task: None,
        rehearsal: None,
    };
    let id = session.id;
    store.create(session).await.unwrap();
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_runs_on_its_node_and_is_shown_where_it_was_requested() {
    let cluster = Cluster::start();
    let laptop = Machine::new(&cluster.url()).file("convoke.toml", TEAM);
    let server = Machine::new(&cluster.url()).file("convoke.toml", TEAM);
    let map = server.map_from(&laptop);
    let node = server.node(&[
        "--name",
        "build-server",
        "--offer",
        "codex",
        "--label",
        "gpu",
        "--map",
        &map,
    ]);
    node.wait_for("runs turns of codex");
    let listed = laptop.run(&["nodes", "--json"]);
    for part in [
        r#""name":"build-server""#,
        r#""state":"ready""#,
        r#""agents":["codex"]"#,
        r#""labels":["gpu"]"#,
    ] {
        assert!(listed.contains(part), "{part} is not in {listed}");
    }
    assert!(laptop.run(&["nodes"]).starts_with("build-server: ready, process "));

    let shown = laptop.run(&["run", "--rehearse", "--to", "max,cody", "Hello!"]);
    assert!(shown.contains("max  turn 1") && shown.contains("cody  turn 2"), "{shown}");
    assert!(shown.contains("No turns queued; waiting for ada."), "{shown}");
    assert!(node.output().contains("turn 2 of cody: done"), "{}", node.output());
    assert!(!node.output().contains("of max"), "{}", node.output());
    // Spoken on the other machine, seen there with the whole past; its directory is another one.
    let listed: Value =
        serde_json::from_str(&server.run(&["sessions", "list", "--all", "--json"])).unwrap();
    let id = listed["sessions"][0]["id"].as_str().unwrap_or_else(|| panic!("{listed}"));
    let there =
        server.run(&["run", "--session", id, "--team", "convoke.toml", "--to", "max", "And?"]);
    assert!(there.contains("max  turn 3"), "{there}");

    let refused = laptop.run_with(&["run", "Hello!"], &[("CONVOKE_STORE", None)]);
    assert!(refused.contains("cody runs on the node `build-server`"), "{refused}");
    assert_eq!(node.end(), Some(0));
    assert!(laptop.run(&["nodes"]).starts_with("no nodes"));
    for (wrong, why) in [
        (["--name", ""], "a name must not be blank"),
        (["--label", "gpu, "], "a name must not be blank"),
        (["--map", "/a=/no/such"], "`/no/such` is not a directory"),
        (["--project", "/no/such"], "`/no/such` is not a directory"),
        (["--project", "."], "--project .: must be a git repository"),
    ] {
        let refused = laptop.run(&[&["node"], &wrong[..]].concat());
        assert!(refused.contains(why), "{wrong:?}: {refused}");
    }
    let no_store = laptop.run_with(&["node"], &[("CONVOKE_STORE", None)]);
    assert!(no_store.contains("a node needs a store that machines share"), "{no_store}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_team_file_from_the_store_chooses_nothing_that_the_user_of_the_node_has_not_allowed() {
    let cluster = Cluster::start();
    let store = PostgresStore::open(&cluster.url(), None).await.unwrap();
    let team = "[[member]]\nname = \"ada\"\nhuman = true\n[[member]]\nname = \"max\"\nagent = \"worker\"\n\
                args = [\"chosen by the store\"]\nenv = { CHOSEN = \"too\" }\n";
    let server = Machine::new(&cluster.url())
        .agent("echo \"with <$*> and <$CHOSEN>\" >> \"$LOG\"; echo done");
    let session = create(&store, team, &server.path().display().to_string()).await;
    store.say(session, &NewMessage::from_person("ada", "go [NEXT: max]")).await.unwrap();
    let node = server.node(&["--name", "one", "--offer", "worker,acp"]);
    wait_until("the turn ends", || node.output().contains("turn 1 of max: done"));
    assert!(node.output().contains("`member.max.args` needs trust"), "{}", node.output());
    assert_eq!(server.log(), "with <> and <>\n");
    let turn = store.turns_after(session, TurnId(0), 1).await.unwrap().pop().unwrap();
    assert_eq!(turn.state, TurnState::Done);
    // The grants of this machine's user apply to the file here.
    let server = server.file("convoke.toml", team);
    assert!(server.run(&["trust", "--yes"]).contains("trust"));
    store.say(session, &NewMessage::from_person("ada", "again [NEXT: max]")).await.unwrap();
    wait_until("the turn ends", || node.output().contains("turn 2 of max: done"));
    assert!(server.log().ends_with("with <chosen by the store> and <too>\n"), "{}", server.log());

    // A turn that cannot run without trust is left to others, and reported.
    let needy = "[[member]]\nname = \"ada\"\nhuman = true\n[[member]]\nname = \"max\"\nagent = \"acp\"\n\
                 command = \"/bin/true\"\nnode = \"one\"\n";
    let untrusted = create(&store, needy, &server.path().display().to_string()).await;
    store.say(untrusted, &NewMessage::from_person("ada", "go [NEXT: max]")).await.unwrap();
    let directory = server.path().canonicalize().unwrap();
    let left = format!(
        "the agent of max has no command without trust in {0}: run `convoke trust {0}` on that machine",
        directory.display()
    );
    wait_until("it is said", || node.output().contains(&format!("left to other nodes: {left}")));
    let turn = store.turns_after(untrusted, TurnId(0), 1).await.unwrap().pop().unwrap();
    assert_eq!((turn.state, turn.attempts), (TurnState::Queued, 0));

    // The waiting person sees which node has left the turn, and why.
    let laptop = Machine::new(&cluster.url()).file("convoke.toml", needy);
    let id = untrusted.to_string();
    let go_on = ["run", "--json", "--session", &id, "--team", "convoke.toml", "--to", "max", "Go"];
    let mut run = laptop.start(&go_on);
    run.wait_for(&format!("node `one` cannot run it: {left}"));
    run.signal(nix::sys::signal::Signal::SIGINT);
    run.end();
    let mut run = laptop.start(&["run", "--json", "Go"]);
    let directory = laptop.path().canonicalize().unwrap();
    let missing = format!("no directory here for {}", directory.display());
    run.wait_for(&format!("node `one` cannot run it: {missing}: start the node there"));
    run.signal(nix::sys::signal::Signal::SIGINT);
    run.end();

    // A turn whose directory is not here is left to others, and reported.
    let elsewhere = create(&store, team, "/no/such/directory").await;
    store.say(elsewhere, &NewMessage::from_person("ada", "go [NEXT: max]")).await.unwrap();
    wait_until("it is said", || node.output().contains("no directory here for /no/such/directory"));
    assert_eq!(node.end(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draining_node_finishes_its_turns_and_a_second_signal_offers_them_to_others() {
    let cluster = Cluster::start();
    let store = PostgresStore::open(&cluster.url(), None).await.unwrap();
    let team = "[[member]]\nname = \"ada\"\nhuman = true\n[[member]]\nname = \"max\"\nagent = \"worker\"\n";
    // The agent ends when it may.
    let script = "echo $$ >> \"$LOG\"; while [ ! -e \"$LOG.go\" ]; do sleep 0.1; done; echo done";
    let first = Machine::new(&cluster.url()).agent(script);
    let second = Machine::new(&cluster.url()).agent("echo from the other one");
    let directory = first.path().display().to_string();
    let (one, two) =
        (create(&store, team, &directory).await, create(&store, team, &directory).await);
    store.say(one, &NewMessage::from_person("ada", "go [NEXT: max]")).await.unwrap();
    let node = first.node(&["--name", "first", "--offer", "worker"]);
    wait_until("the agent runs", || !first.log().is_empty());
    node.signal(nix::sys::signal::Signal::SIGTERM);
    node.wait_for("draining");
    // It takes nothing more.
    store.say(two, &NewMessage::from_person("ada", "go [NEXT: max]")).await.unwrap();
    let map = second.map_from(&first);
    let other = second.node(&["--name", "second", "--offer", "worker", "--map", &map]);
    wait_until("the other node runs it", || other.output().contains("turn 1 of max: done"));
    assert!(!other.output().contains("attempt 2"), "{}", other.output());
    node.signal(nix::sys::signal::Signal::SIGTERM);
    wait_until("the other node runs it again", || {
        other.output().contains("turn 1 of max began, attempt 2")
    });
    assert_eq!(node.end(), Some(0));
    wait_until("the second turn ends", || other.output().matches("of max: done").count() == 2);
    assert!(node.output().ends_with("stopped\n"), "{}", node.output());
    for session in [one, two] {
        let turns = store.turns_after(session, TurnId(0), 9).await.unwrap();
        assert_eq!((turns.len(), turns[0].state), (1, TurnState::Done));
    }
    // The agent of the first node has ended with it.
    first.assert_no_process_is_left();
    assert_eq!(other.end(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_of_a_stopped_node_ends_with_its_lease() {
    let cluster = Cluster::start();
    let store = PostgresStore::open(&cluster.url(), None).await.unwrap();
    let team = "[[member]]\nname = \"ada\"\nhuman = true\n[[member]]\nname = \"max\"\nagent = \"worker\"\n";
    // The first attempt never ends.
    let script = "echo $$ >> \"$LOG\"; [ $(wc -l < \"$LOG\") -gt 1 ] || sleep 600; echo done";
    let server = Machine::new(&cluster.url()).agent(script).env("CONVOKE_STORE_LEASE", "3");
    let before = now();
    let node = server.node(&["--name", "one", "--offer", "worker"]);
    node.wait_for("runs turns of worker");
    let session = create(&store, team, &server.path().display().to_string()).await;
    let asked = now();
    store.say(session, &NewMessage::from_person("ada", "go [NEXT: max]")).await.unwrap();
    wait_until("the agent runs", || server.log().ends_with('\n'));
    let nodes = store.nodes().await.unwrap();
    assert!(nodes[0].holder.since >= before && nodes[0].holder.since <= asked, "{nodes:?}");
    assert!(nodes[0].turns[0].since >= asked, "{nodes:?}");

    let agent = std::path::PathBuf::from(format!("/proc/{}", server.log().trim()));
    node.signal(nix::sys::signal::Signal::SIGSTOP);
    wait_until("its guardian has ended the agent", || !agent.exists());
    node.signal(nix::sys::signal::Signal::SIGCONT);
    // Whatever it learns first, the turn is given back and repeated, and recorded once.
    node.wait_for("turn 1 of max: ");
    assert_eq!(node.end(), Some(0));
    let output = node.output();
    assert!(
        output.contains("left to other nodes: this process no longer holds session"),
        "{output}"
    );
    assert!(output.contains("turn 1 of max: done") && !output.contains("failed"), "{output}");
    let turns = store.turns_after(session, TurnId(0), 9).await.unwrap();
    assert_eq!((turns.len(), turns[0].state), (1, TurnState::Done));
    let attempts = store.attempts(session, TurnId(1)).await.unwrap();
    assert!(attempts.len() > 1, "{attempts:?}");
    let done = attempts.iter().filter(|attempt| {
        attempt.ended.as_ref().is_some_and(|result| result.verdict == Verdict::Done)
    });
    assert_eq!(done.count(), 1, "{attempts:?}");
    assert_eq!(store.messages_after(session, MessageNumber(0), 9).await.unwrap().len(), 2);
    server.assert_no_process_is_left();
}
