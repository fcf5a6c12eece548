//! Finds tools that the sandbox stopped. The kernel reports a refusal to the tool, and no event of the program
//! contains it.

use convoke_core::Diagnostic;

use crate::diagnostics;
use crate::turn_input::Permissions;

/// Texts with which tools report a refusal of the kernel.
const REFUSALS: &[&str] =
    &["Permission denied", "permission denied", "EACCES", "Operation not permitted", "EPERM"];

/// The number of bytes of a tool's output that are searched, from both ends.
const LOOKED_AT: usize = 64 << 10;
/// The maximum size of a shown refusal.
const SHOWN: usize = 200;

/// The tools that were stopped in a turn.
#[derive(Debug, Default)]
pub(crate) struct StoppedTools {
    count: u64,
    first: Option<String>,
}

impl StoppedTools {
    /// Looks for a refusal in the output of a tool.
    pub(crate) fn look_at(&mut self, output: &str) {
        if let Some(line) = refusal(output) {
            self.count += 1;
            self.first.get_or_insert(line);
        }
    }

    /// Returns the diagnostic, if a tool was stopped.
    pub(crate) fn diagnostic(&self, permissions: Permissions) -> Option<Diagnostic> {
        let message =
            format!("`{}` stopped a tool: {}", permissions.as_str(), self.first.as_ref()?);
        Some(Diagnostic::new(diagnostics::SANDBOX_STOPPED, message).with_count(self.count))
    }
}

/// Returns the line of an output that reports a refusal of the kernel.
fn refusal(output: &str) -> Option<String> {
    let head = &output[..output.floor_char_boundary(LOOKED_AT.min(output.len()))];
    let tail = &output[output.ceil_char_boundary(output.len().saturating_sub(LOOKED_AT))..];
    let mut lines = head.lines().chain(tail.lines());
    let line = lines.find(|line| REFUSALS.iter().any(|words| line.contains(words)))?.trim();
    Some(line[..line.floor_char_boundary(SHOWN.min(line.len()))].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_with_the_refusal_is_shown() {
        let output = "one\n/bin/sh: 1: cannot create x: Permission denied\nthree";
        assert_eq!(refusal(output).unwrap(), "/bin/sh: 1: cannot create x: Permission denied");
        assert_eq!(refusal("EACCES: é").unwrap(), "EACCES: é");
        assert_eq!(refusal("all is well"), None);
        let long = format!("{}EPERM", "é".repeat(1 << 20));
        assert!(refusal(&long).is_some_and(|line| line.len() <= SHOWN));
    }
}
