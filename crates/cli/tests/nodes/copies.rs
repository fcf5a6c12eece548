//! `convoke sessions copy` from a machine's own file to the shared store.

use std::process::Command;

use convoke_session::store::postgres::PostgresStore;
use serde_json::Value;

use crate::TEAM;
use crate::cluster::Cluster;
use crate::machine::Machine;

#[test]
fn a_session_that_cannot_be_copied_does_not_keep_the_others() {
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
    // The newest session has gone on here; the list has it first.
    local(&["run", "--session", "last", "--rehearse", "--to", "max", "More."]);
    local(&["run", "--rehearse", "--to", "max", "Three."]);
    let copied = copy();
    let of = |key: &str| copied.iter().filter(|it| !it[key].is_null()).count();
    assert_eq!((copied.len(), of("error"), of("sha256")), (3, 1, 2), "{copied:?}");
    let left = copied.iter().find_map(|it| it["error"].as_str()).unwrap();
    assert!(left.contains("left as it is"), "{left}");
}

#[test]
fn a_copy_keeps_the_repository_and_comes_back() {
    let cluster = Cluster::start();
    let machine = Machine::new(&cluster.url()).file("convoke.toml", TEAM);
    for arguments in [
        &["init", "-q"][..],
        &["remote", "add", "origin", "https://example.com/team/shop.git"],
        &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"],
    ] {
        let git = Command::new("git").args(arguments).current_dir(machine.path()).status();
        assert!(git.unwrap().success());
    }
    let local = |arguments: &[&str]| machine.run_with(arguments, &[("CONVOKE_STORE", None)]);
    local(&["run", "--rehearse", "--to", "max", "One."]);
    let report = local(&["sessions", "copy", "last", "--json", "--to", &cluster.url()]);
    let report: Value = serde_json::from_str(report.lines().last().unwrap()).unwrap();
    let session = report["sessions"][0]["session"].as_str().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let origin = runtime.block_on(async {
        let store = PostgresStore::open(&cluster.url(), None).await.unwrap();
        store.origin(session.parse().unwrap()).await.unwrap().unwrap()
    });
    assert!(origin.remote.contains("example.com/team/shop"), "{origin:?}");
    let other = Machine::new(&cluster.url());
    let back = other.run(&["sessions", "copy", session, "--json", "--to", "local"]);
    assert!(back.contains("\"wasThere\":false"), "{back}");
    let shown = other.run_with(&["sessions", "show", session], &[("CONVOKE_STORE", None)]);
    assert!(shown.contains("One."), "{shown}");
}
