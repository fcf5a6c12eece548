//! Capabilities of root that pass by Landlock.

use caps::errors::CapsError;
use caps::{CapSet, Capability};

/// Landlock denies looking into processes outside of the sandbox. Newer kernels let a process with one of
/// these read their memory and environment anyway, where Convoke's own keys are.
const PASSING_LANDLOCK: [Capability; 3] =
    [Capability::CAP_SYS_PTRACE, Capability::CAP_SYS_ADMIN, Capability::CAP_PERFMON];

/// Drops these capabilities. Landlock has forbidden new privileges by then, so that no program which
/// this process becomes or starts gets them back.
pub fn restrict() -> Result<(), CapsError> {
    for capability in PASSING_LANDLOCK {
        for set in [CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
            caps::drop(None, set, capability)?;
        }
    }
    Ok(())
}
