//! The order to start a program: the first bytes of its standard input.
//!
//! The process that becomes the program inherits its standard input from Convoke through the guardian and the keeper. No
//! other process can change what is in the pipe, as one could change a file that is named by its path.

use std::io::{self, Read};
use std::os::fd::AsFd as _;

use nix::unistd::fchdir;
use serde::{Deserialize, Serialize};

use super::Launch;
use crate::sandbox::{Policy, restrict};
use crate::working_directory::WorkingDirectory;

/// The maximum size of an order, so that a damaged length does not fill the memory.
const MAX_BYTES: u32 = 64 << 20;

/// Where a program starts, and what it may do.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StartOrder {
    cwd: WorkingDirectory,
    /// `None` if nothing is enforced.
    policy: Option<Policy>,
}

impl StartOrder {
    pub fn new(launch: &Launch) -> Self {
        Self { cwd: launch.cwd.clone(), policy: launch.policy.clone() }
    }

    /// Returns the order as it is written: its length, then its text.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let text = serde_json::to_vec(self)?;
        let length = u32::try_from(text.len()).map_err(io::Error::other)?;
        Ok([&length.to_be_bytes()[..], &text].concat())
    }

    /// Reads the order from the standard input of this process, and nothing beyond it: the rest is for the program.
    pub fn from_stdin() -> io::Result<Self> {
        let stdin = io::stdin().as_fd().try_clone_to_owned()?;
        Self::read(std::fs::File::from(stdin))
    }

    fn read(mut from: impl Read) -> io::Result<Self> {
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length);
        if length > MAX_BYTES {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        let mut text = vec![0; length as usize];
        from.read_exact(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// Enters the working directory and restricts this process. Returns the variables for the program.
    pub fn carry_out(self) -> io::Result<Vec<(String, String)>> {
        fchdir(self.cwd.reopen()?)?;
        let Some(policy) = self.policy else { return Ok(Vec::new()) };
        restrict(&policy, self.cwd.path()).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot confine the program: {error}"))
        })?;
        Ok(policy.env)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_for_a_directory_that_was_replaced_is_not_carried_out() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (sub, other) = (root.join("sub"), root.join("other"));
        for path in [&sub, &other] {
            std::fs::create_dir(path).unwrap();
        }
        let order = StartOrder { cwd: WorkingDirectory::open(&sub).unwrap(), policy: None };
        let bytes = order.to_bytes().unwrap();
        std::fs::rename(&sub, root.join("moved")).unwrap();
        let refused = || {
            let error = StartOrder::read(&bytes[..]).unwrap().carry_out().unwrap_err();
            assert!(error.to_string().contains("is not the directory that it was"), "{error}");
        };
        std::os::unix::fs::symlink("other", &sub).unwrap();
        refused();
        std::fs::remove_file(&sub).unwrap();
        std::fs::rename(&other, &sub).unwrap();
        refused();
    }

    #[test]
    fn an_order_is_read_without_a_byte_of_what_follows() {
        let order = StartOrder {
            cwd: WorkingDirectory::open(std::path::Path::new("/")).unwrap(),
            policy: None,
        };
        let mut bytes = order.to_bytes().unwrap();
        bytes.extend(b"input of the program");
        let mut input = &bytes[..];
        assert_eq!(StartOrder::read(&mut input).unwrap(), order);
        assert_eq!(input, b"input of the program");
        for damaged in [&bytes[..3], &bytes[..20], &[0xff; 8]] {
            assert!(StartOrder::read(damaged).is_err());
        }
    }
}
