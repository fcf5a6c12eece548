//! The team task and its limit.

use crate::diagnostic::Diagnostic;
use crate::diagnostics;

/// The maximum size of a team task: 5 KiB.
pub const MAX_TEAM_TASK_BYTES: usize = 5 * 1024;

/// Cuts a team task to its limit at a character boundary, and returns a diagnostic if it did.
pub fn cut_team_task(task: &str) -> (&str, Option<Diagnostic>) {
    if task.len() <= MAX_TEAM_TASK_BYTES {
        return (task, None);
    }
    let kept = &task[..task.floor_char_boundary(MAX_TEAM_TASK_BYTES)];
    let message = format!(
        "[ContextManager] TeamTask exceeded 5KB limit ({} bytes), truncated to {} bytes",
        task.len(),
        kept.len()
    );
    tracing::warn!("{message}");
    let cut = (task.len() - kept.len()) as u64;
    let diagnostic = Diagnostic::new(diagnostics::TEAM_TASK_TRUNCATED, message);
    (kept, Some(diagnostic.in_section("TEAM_TASK").with_bytes(cut)))
}
