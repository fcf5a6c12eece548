//! The arguments and variables that determine which files of the directory a CLI loads.

use crate::turn_input::Trust;
use crate::vendor::Vendor;

/// The arguments and variables that determine which files a program loads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadingArguments {
    /// The arguments.
    pub args: Vec<&'static str>,
    /// The variables.
    pub variables: Vec<(&'static str, &'static str)>,
}

impl LoadingArguments {
    /// Returns those of a CLI in a directory with this trust.
    pub fn new(vendor: Vendor, trust: Trust) -> Self {
        match (vendor, trust) {
            (Vendor::Claude, Trust::Trusted) => Self {
                args: vec!["--setting-sources", "user,project,local"],
                variables: Vec::new(),
            },
            // Settings of the project can contain hooks, and its `.mcp.json` servers. Both are commands.
            (Vendor::Claude, Trust::Untrusted) => Self {
                args: vec!["--setting-sources", "user", "--strict-mcp-config"],
                variables: Vec::new(),
            },
            (Vendor::Gemini, _) => {
                Self { args: Vec::new(), variables: vec![("GEMINI_CLI_TRUST_WORKSPACE", "true")] }
            }
            (Vendor::Codex, _) => Self::default(),
        }
    }
}
