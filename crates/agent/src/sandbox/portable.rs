//! Systems without Landlock: nothing is restricted, and Convoke reports it.

use std::io;

use super::policy::Policy;

/// There is no Landlock here.
pub fn abi() -> u8 {
    0
}

/// There is no such filter here.
pub fn filters_calls() -> bool {
    false
}

/// There is nothing to restrict a process with.
pub fn restrict(_policy: &Policy) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}
