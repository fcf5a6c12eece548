//! An ACP agent that is known by name, as it was measured.

use crate::cli::Cli;
use crate::turn_input::Permissions;

/// An ACP agent known by name.
#[derive(Debug)]
pub struct Preset {
    /// The name of the agent.
    pub name: &'static str,
    /// Its program.
    pub command: &'static str,
    /// The arguments that make the program speak ACP.
    pub args: &'static [&'static str],
    /// The npm package that installs the program.
    pub package: &'static str,
    /// The instructions for signing in.
    pub sign_in: &'static str,
    /// The CLI that the program runs, whose directory and sign-in it uses.
    pub vendor: Option<&'static dyn Cli>,
    /// The directories in the user's home that the program reads. Only its state in them can be changed.
    pub directory: &'static [&'static str],
    /// Files in those directories that the program creates and cannot start without, with their content.
    /// Convoke creates them before the turn.
    pub files: &'static [(&'static str, &'static str)],
    /// The directories in the user's home that the program writes.
    pub state: &'static [&'static str],
    /// The user's variables that the program signs in with; `*` at the start or end matches any characters.
    pub variables: &'static [&'static str],
    /// The variables that the program is started with.
    pub env: &'static [(&'static str, &'static str)],
    /// The settings that point the program to a model server, in addition to those of its CLI.
    pub endpoint: Option<&'static PresetEndpoint>,
    /// The option that names a file of MCP servers, for a program that ignores those of a session.
    pub servers_option: Option<&'static str>,
    /// The option for the port between the program's own processes.
    pub port_option: Option<&'static str>,
    /// The files and directories of a project that the program applies and that cannot be withheld.
    pub followed: &'static [&'static str],
    /// The variable that names a file of default settings, and the settings without which the program's tools
    /// fail in the sandbox.
    pub confined_defaults: Option<(&'static str, &'static str)>,
    /// The block after a prompt, for a program that acts on commands and files named in the last block.
    pub tail: Option<&'static str>,
    /// The session mode for the permissions of a turn, if the program's default does not match. The second argument is
    /// whether the kernel enforces the permissions.
    pub mode: fn(Permissions, bool) -> Option<&'static str>,
    /// Whether the program reports failures as text.
    pub reports_errors_as_text: bool,
}

/// The settings that point a program to a model server: variables, and files in its home. `{base}` is the address.
#[derive(Debug, PartialEq, Eq)]
pub struct PresetEndpoint {
    pub variables: &'static [(&'static str, &'static str)],
    pub files: &'static [(&'static str, &'static str)],
}

impl PartialEq for Preset {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Preset {}

impl Preset {
    /// A program of which nothing is known but that `acp` makes it speak the protocol.
    pub const BASE: Self = Self {
        name: "",
        command: "",
        args: &["acp"],
        package: "",
        sign_in: "",
        vendor: None,
        directory: &[],
        files: &[],
        state: &[],
        variables: &[],
        env: &[],
        endpoint: None,
        servers_option: None,
        port_option: None,
        followed: &[],
        confined_defaults: None,
        tail: None,
        mode: |_, _| None,
        reports_errors_as_text: false,
    };

    /// Returns whether the program is an adapter that runs a vendor's CLI.
    pub fn is_adapter(&self) -> bool {
        self.vendor.is_some_and(|vendor| vendor.facts().command != self.command)
    }
}
