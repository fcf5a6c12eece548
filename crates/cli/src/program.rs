//! How this program is called, for commands that a user can copy.

/// Returns what to type: the name, or the path by which it was called.
pub fn name() -> String {
    let called = std::env::args().next().unwrap_or_default();
    if called.contains('/') { called } else { "convoke".to_owned() }
}
