//! `convoke sessions copy` from a machine's own file to the shared store.

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
