//! The disk budget: the oldest bodies make room.

use serde_json::Value;

use crate::person::Person;

#[test]
fn beyond_the_budget_the_oldest_bodies_are_dropped_and_it_is_said() {
    // Each body is one that cannot be packed, and shares little with the one before.
    let script = "for i in 1 2 3 4 5 6 7 8 9; do send \"$i $(head -c 3000 /dev/urandom | base64 -w0)\"; done";
    let person = Person::new(script);
    let watched = person.watch(&["--max-disk", "20KB"], b"");
    let error = String::from_utf8(watched.stderr).unwrap();
    let sent = person.take_calls();
    assert_eq!(sent.len(), 9);
    assert!(
        error.contains("oldest requests were dropped: together they take more than 20 KB"),
        "{error}"
    );
    assert!(error.contains("claude sent 9 requests"), "{error}");
    let stored = person.convoke(&["sessions", "show", "last", "--request", "--json"]);
    let stored: Vec<Value> = stored.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(stored.len(), 9);
    let is_dropped = |it: &Value| it["dropped"] == true;
    let dropped = stored.iter().take_while(|it| is_dropped(it)).count();
    assert!((1..9).contains(&dropped), "{dropped}");
    for (stored, sent) in stored.iter().zip(&sent) {
        let expected =
            if is_dropped(stored) { "" } else { std::str::from_utf8(&sent.body).unwrap() };
        assert_eq!(stored["body"], expected);
        assert_eq!(stored["bytes"], sent.body.len());
    }
    assert!(stored[dropped..].iter().all(|it| !is_dropped(it)));
    let shown = person.convoke(&["sessions", "show", "last", "--request"]);
    assert!(shown.contains("its body was dropped to make room"), "{shown}");
    person.convoke(&["sessions", "show", "last", "--cache"]);
    person.convoke(&["sessions", "verify", "last"]);
}
