//! The policy that a process enforces on itself before it becomes the agent's program.

use std::ffi::OsString;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The permissions of a program. All of them are enforced, or the program does not start. Paths contain no links: one that
/// is found on a path is not followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The version of Landlock that the rules need.
    pub abi: u8,
    /// The paths that cannot be read, listed or executed; all others can.
    pub hidden: Vec<FilePath>,
    /// The paths that can be read although they are in a hidden directory.
    pub shown: Vec<FilePath>,
    /// The files that can be changed.
    pub writes: Writes,
    /// The network access of the program.
    pub network: Network,
    /// Whether the program can listen on TCP ports.
    pub listens: bool,
    /// Whether Unix sockets can be connected to.
    pub unix_sockets: bool,
    /// Variables for the program, but not for the process that becomes it.
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// Whether signals and abstract sockets reach only the program's own processes.
    pub scoped: bool,
}

/// The files that a program can change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Writes {
    /// All files.
    Everywhere,
    /// Files in some directories.
    Beneath {
        /// The directories, or single files.
        roots: Vec<FilePath>,
        /// The paths in these directories that stay read-only.
        except: Vec<FilePath>,
    },
}

/// The network access of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Network {
    /// Everything.
    Open,
    /// Some TCP ports.
    Ports {
        /// The ports, on any host.
        ports: Vec<u16>,
        /// Whether UDP is open too, for name lookups.
        udp: bool,
    },
}

/// A path, which may contain any bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePath(OsString);

impl FilePath {
    /// Returns the path.
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl From<&Path> for FilePath {
    fn from(path: &Path) -> Self {
        Self(path.as_os_str().to_owned())
    }
}
