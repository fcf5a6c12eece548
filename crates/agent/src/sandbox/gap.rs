//! The gaps of a sandbox, and their descriptions.

use std::fmt;

use serde::Serialize;

/// A part of a permission that this system does not enforce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Gap {
    /// The system has no Landlock: only the program's own sandbox applies.
    Kernel,
    /// Files that may only be read can be emptied (Landlock before version 3).
    Truncate,
    /// TCP ports are open (Landlock before version 4).
    Ports,
    /// Devices take commands (Landlock before version 5).
    Devices,
    /// Other processes can be signalled (Landlock before version 6).
    Signals,
    /// UDP, Multipath TCP and fast open bypass the port rules: this machine has no filter.
    Sockets,
    /// Commands can reach the hosts that the program uses, because there is no proxy.
    Network,
    /// Mode, owner and times of any file can be changed.
    Attributes,
    /// Unix sockets can be connected to, because the user's configuration opens them or nothing here closes them.
    UnixSockets,
    /// Files in the working directory that name commands can be changed.
    Git,
}

impl Gap {
    /// Returns whether every system has this gap, so that there is nothing to do about it.
    pub const fn is_everywhere(self) -> bool {
        matches!(self, Self::Attributes | Self::UnixSockets | Self::Git)
    }

    /// Returns its name and what it means.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kernel => "this system has no Landlock",
            Self::Truncate => "files can be emptied with truncate",
            Self::Ports => "TCP connections",
            Self::Devices => "commands to devices",
            Self::Signals => "signals to other processes",
            Self::Sockets => "UDP, Multipath TCP and TCP fast open",
            Self::Network => "network (TCP port 443 and all UDP are open to commands too)",
            Self::Attributes => "chmod, chown and file times",
            Self::UnixSockets => {
                "Unix sockets (tmux, systemd, D-Bus and Docker run commands outside of the sandbox)"
            }
            Self::Git => {
                "files in the working directory that name commands (.git, .claude, .codex, .vscode and others)"
            }
        }
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
