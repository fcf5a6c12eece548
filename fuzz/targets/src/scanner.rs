#[path = "../../../crates/engine/core/tests/properties/markers/compat_reference.rs"]
mod compat_reference;
#[path = "../../../crates/engine/core/tests/properties/markers/preserve_reference.rs"]
mod preserve_reference;

use convoke_core::marker::{TextPolicy, scan};
use convoke_core::whitespace::is_space;

/// Cleans any text of its markers: cleaning adds nothing, and both policies agree with a naive
/// implementation.
pub fn scanner(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
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
    let preserve = scan(text, TextPolicy::Preserve);
    let expected = preserve_reference::clean(text);
    assert_eq!(preserve.text, expected.text);
    assert_eq!(preserve.task, expected.task);
    assert_eq!(preserve.from, expected.from);
    assert_eq!(preserve.next.len(), expected.next.len());
    assert_eq!(preserve.drop.len(), expected.drop.len());
    preserve.text != text
}

/// Returns whether the characters of a part that are no white space stand in the whole, in their order.
fn is_taken_from(part: &str, whole: &str) -> bool {
    let mut rest = whole.chars();
    part.chars().filter(|&c| !is_space(c)).all(|kept| rest.any(|c| c == kept))
}
