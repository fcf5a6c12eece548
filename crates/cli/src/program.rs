//! The name of this program, for commands that a user can copy.

/// Returns the name or path by which this program was started.
pub fn name() -> String {
    let called = std::env::args().next().unwrap_or_default();
    if called.contains('/') { called } else { "convoke".to_owned() }
}
