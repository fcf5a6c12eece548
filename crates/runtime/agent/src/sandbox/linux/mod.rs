//! Linux: Landlock, fewer capabilities, and a filter of system calls.

mod capabilities;
mod landlock;
mod seccomp;

use std::io;
use std::path::Path;

pub use self::landlock::abi;
use crate::sandbox::policy::Policy;

/// Returns whether system calls can be filtered on this machine.
pub fn filters_calls() -> bool {
    seccomp::is_there()
}

/// Restricts this process, and everything that it becomes and starts. `cwd` is the path of the directory that it has
/// entered.
pub fn restrict(policy: &Policy, cwd: &Path) -> io::Result<()> {
    landlock::restrict(policy, cwd).map_err(io::Error::other)?;
    capabilities::restrict(policy.scoped).map_err(io::Error::other)?;
    if !seccomp::is_there() {
        return Ok(());
    }
    seccomp::restrict(policy).map_err(io::Error::other)
}
