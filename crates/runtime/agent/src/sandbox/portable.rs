//! Systems without Landlock: nothing is restricted, and Convoke reports that.

use std::io;
use std::path::Path;

use super::policy::Policy;

/// Returns 0: there is no Landlock.
pub fn abi() -> u8 {
    0
}

/// Returns `false`: there is no filter.
pub fn filters_calls() -> bool {
    false
}

/// Does nothing: a process cannot be restricted.
pub fn restrict(_policy: &Policy, _cwd: &Path) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}
