//! The confine step: the process of this program that is about to become the agent restricts itself.
//!
//! Restrictions apply to a thread and its children and cannot be lifted, so they need a process
//! of their own. The guardian stays outside of them, to end what is inside.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use super::platform;
use super::policy::Policy;

/// The argument that selects the confine step; the policy, the program and its arguments follow.
pub(crate) const CONFINE: &str = "__convoke-confine";

/// Restricts this process and becomes the program; returns why it could not.
pub(crate) fn confine(
    policy: &OsStr,
    program: &OsStr,
    args: impl Iterator<Item = OsString>,
) -> io::Error {
    match restrict(Path::new(policy)) {
        Ok(env) => Command::new(program).args(args).envs(env).exec(),
        Err(error) => io::Error::new(error.kind(), format!("cannot confine it: {error}")),
    }
}

/// Restricts this process, and returns the variables of the program.
fn restrict(path: &Path) -> io::Result<Vec<(String, String)>> {
    let policy = Policy::read(path)?;
    // It names the user's directories; the agent needs none of it.
    let _ = std::fs::remove_file(path);
    platform::restrict(&policy)?;
    Ok(policy.env)
}
