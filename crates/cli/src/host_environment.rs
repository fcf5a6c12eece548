//! What this process finds around it, for libraries that do not look by themselves.

use anyhow::Context;
use convoke_inspect::HostEnvironment;

/// Returns the surroundings of this process.
pub fn of_process() -> anyhow::Result<HostEnvironment> {
    Ok(HostEnvironment {
        environment: std::env::vars_os().collect(),
        home: std::env::home_dir().context("there is no home directory; set HOME")?,
        cwd: std::env::current_dir().context("the working directory is gone")?,
    })
}
