//! The environment of this process, for libraries that do not read it themselves.

use anyhow::Context;
use convoke_inspect::HostEnvironment;

/// Reads the environment of this process.
pub fn of_process() -> anyhow::Result<HostEnvironment> {
    Ok(HostEnvironment {
        environment: std::env::vars_os().collect(),
        home: std::env::home_dir().context("no home directory found; set HOME")?,
        cwd: std::env::current_dir().context("cannot determine the working directory")?,
    })
}
