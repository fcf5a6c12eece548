//! The confine step: a process of this program restricts itself before it becomes the agent.
//!
//! Restrictions apply to a thread and its children and cannot be lifted, so they need a separate process. The
//! guardian stays outside, to terminate what is inside.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use super::platform;
use super::policy::Policy;

/// The argument that selects the confine step; the policy, the program and its arguments follow.
pub(crate) const CONFINE: &str = "__convoke-confine";

/// Restricts this process and becomes the program. Returns only with the reason why it could not.
pub(crate) fn confine(
    policy: &OsStr,
    program: &OsStr,
    args: impl Iterator<Item = OsString>,
) -> io::Error {
    match restrict(Path::new(policy)) {
        Ok(env) => Command::new(program).args(args).envs(env).exec(),
        Err(error) => io::Error::new(error.kind(), format!("cannot confine the program: {error}")),
    }
}

/// Restricts this process, and returns the program's variables.
fn restrict(path: &Path) -> io::Result<Vec<(String, String)>> {
    let policy = Policy::read(path)?;
    // The policy names the user's directories, which the agent does not need to know.
    let _ = std::fs::remove_file(path);
    platform::restrict(&policy)?;
    Ok(policy.env)
}
