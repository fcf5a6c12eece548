//! The gaps of a sandbox, and their descriptions.

use std::fmt;

use serde::Serialize;

/// A part of the permissions that this system does not enforce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Gap {
    /// There is no Landlock, so only the program's own sandbox applies.
    Kernel,
    /// Read-only files can be truncated (Landlock before version 3).
    Truncate,
    /// TCP ports are open (Landlock before version 4).
    Ports,
    /// Devices accept commands (Landlock before version 5).
    Devices,
    /// Other processes can be signalled (Landlock before version 6).
    Signals,
    /// UDP, Multipath TCP and fast open bypass the port rules, because this machine has no filter.
    Sockets,
    /// Commands can reach the hosts that the program uses, because there is no proxy.
    Network,
    /// Mode, owner and times of any file can be changed.
    Attributes,
    /// Unix sockets can be connected to, because the user's configuration allows it or nothing prevents it.
    UnixSockets,
    /// Files in the working directory that name commands can be changed.
    Git,
}

impl Gap {
    /// Returns whether every system has this gap, so that a user cannot close it.
    pub const fn is_everywhere(self) -> bool {
        matches!(self, Self::Attributes | Self::UnixSockets | Self::Git)
    }

    /// Returns the description of the gap.
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
                "Unix sockets (tmux, systemd, D-Bus and Docker run commands outside the sandbox)"
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
