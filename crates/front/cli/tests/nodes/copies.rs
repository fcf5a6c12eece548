//! `convoke sessions copy` from a machine's own file to the shared store.

use convoke_session::store::postgres::PostgresStore;
use serde_json::Value;

use crate::TEAM;
use crate::cluster::Cluster;
use crate::machine::Machine;

#[test]
fn a_session_that_cannot_be_copied_does_not_stop_the_others() {
    let cluster = Cluster::start();
    let machine = Machine::new(&cluster.url()).file("convoke.toml", TEAM);
    let local = |arguments: &[&str]| machine.run_with(arguments, &[("CONVOKE_STORE", None)]);
    let copy = || -> Vec<Value> {
        let report = local(&["sessions", "copy", "--all", "--json", "--to", &cluster.url()]);
        let report: Value = serde_json::from_str(report.lines().last().unwrap()).unwrap();
        report["sessions"].as_array().unwrap().clone()
    };
    local(&["run", "--rehearse", "--to", "max", "One."]);
    local(&["run", "--rehearse", "--to", "max", "Two."]);
    assert!(copy().iter().all(|it| it["wasThere"] == false));
    // The newest session was continued here, so it is listed first.
    local(&["run", "--session", "last", "--rehearse", "--to", "max", "More."]);
    local(&["run", "--rehearse", "--to", "max", "Three."]);
    let copied = copy();
    let of = |key: &str| copied.iter().filter(|it| !it[key].is_null()).count();
    assert_eq!((copied.len(), of("error"), of("sha256")), (3, 1, 2), "{copied:?}");
    let left = copied.iter().find_map(|it| it["error"].as_str()).unwrap();
    assert!(left.contains("left as it is"), "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copied_session_keeps_its_origin_and_comes_back() {
    let cluster = Cluster::start();
    let store = PostgresStore::open(&cluster.url(), None).await.unwrap();
    let machine = Machine::new(&cluster.url()).file("convoke.toml", TEAM);
    for arguments in [
        &["init", "-q"][..],
        &["remote", "add", "origin", "https://git.example/shop"],
        &["add", "."],
        &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x"],
    ] {
        let mut git = std::process::Command::new("git");
        let status = git.args(arguments).current_dir(machine.path()).status().unwrap();
        assert!(status.success(), "{arguments:?}");
    }
    let local = |arguments: &[&str]| machine.run_with(arguments, &[("CONVOKE_STORE", None)]);
    local(&["run", "--rehearse", "--to", "max", "One."]);
    let there = local(&["sessions", "copy", "last", "--to", &cluster.url()]);
    let id = there.split_whitespace().next().unwrap();
    let origin = store.origin(id.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!((&*origin.remote, &*origin.below), ("git.example/shop", ""));
    let other = Machine::new(&cluster.url());
    let back = other.run(&["sessions", "copy", id, "--to", "sqlite:"]);
    assert!(back.contains("  copied  sha256 "), "{back}");
    let shown = other.run_with(&["sessions", "show", id], &[("CONVOKE_STORE", None)]);
    assert!(shown.contains("One."), "{shown}");
}
