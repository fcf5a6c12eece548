//! `strip.jsonl` and `preserve.jsonl`.

use convoke_core::marker::{TextPolicy, scan};
use serde_json::json;

use crate::{check, expect};

#[test]
fn compat_cleans_as_the_specification_says() {
    check("strip.jsonl", |vector| {
        let text = vector["text"].as_str().expect("text");
        let scan = scan(text, TextPolicy::Compat);
        expect(&vector["expect"].as_str(), &Some(&*scan.text))
    });
}

#[test]
fn preserve_removes_markers_and_says_what_they_said() {
    check("preserve.jsonl", |vector| {
        let text = vector["text"].as_str().expect("text");
        let scan = scan(text, TextPolicy::Preserve);
        expect(&vector["expect"].as_str(), &Some(&*scan.text))?;
        let said =
            json!({"next": scan.next, "from": scan.from, "task": scan.task, "drop": scan.drop});
        expect(&vector["scan"], &said)
    });
}
