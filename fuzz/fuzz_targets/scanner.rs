//! Any text, cleaned of its markers under both policies.

#![no_main]

#[path = "../../crates/core/tests/properties/markers/compat_reference.rs"]
mod compat_reference;

use convoke_core::marker::{TextPolicy, scan};
use convoke_core::whitespace::is_space;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for policy in [TextPolicy::Preserve, TextPolicy::Compat] {
        let scan = scan(text, policy);
        assert!(is_taken_from(&scan.text, text), "cleaning adds nothing");
        assert!(scan.task.as_deref().is_none_or(|task| is_taken_from(task, text)));
        assert!(scan.next.iter().all(|route| is_taken_from(&route.name, text)));
    }
    let compat = scan(text, TextPolicy::Compat);
    let expected = compat_reference::strip(text);
    assert_eq!(compat.text, expected.text);
    assert_eq!(compat.task, expected.task);
    assert_eq!(compat.from, expected.from);
});

/// Tells whether the characters of a part that are no white space stand in the whole, in their order.
fn is_taken_from(part: &str, whole: &str) -> bool {
    let mut rest = whole.chars();
    part.chars().filter(|&c| !is_space(c)).all(|kept| rest.any(|c| c == kept))
}
