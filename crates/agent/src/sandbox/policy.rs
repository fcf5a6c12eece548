//! The policy that the confine step enforces, and its file format.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use convoke_files::FileKind;
use convoke_files::limit::read_named_text;
use serde::{Deserialize, Serialize};

/// The permissions of a program. The confine step enforces all of them or does not start the program. Paths
/// contain no links.
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
    /// Whether Unix sockets can be connected to.
    pub unix_sockets: bool,
    /// Variables for the program, but not for the confine step.
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

impl From<PathBuf> for FilePath {
    fn from(path: PathBuf) -> Self {
        Self(path.into_os_string())
    }
}

impl From<&Path> for FilePath {
    fn from(path: &Path) -> Self {
        Self(path.as_os_str().to_owned())
    }
}

impl Policy {
    /// Reads a policy from its file.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = read_named_text(path, FileKind::Configuration)?;
        serde_json::from_str(&text).map_err(io::Error::other)
    }

    /// Returns the policy as the text of its file.
    pub fn to_text(&self) -> io::Result<String> {
        serde_json::to_string(self).map_err(io::Error::other)
    }
}
