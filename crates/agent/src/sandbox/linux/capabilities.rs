//! Capabilities of root that pass by Landlock.

use caps::errors::CapsError;
use caps::{CapSet, Capability};

/// Landlock denies looking into processes outside of the sandbox. Newer kernels let a process with one of
/// these read their memory and environment anyway, where Convoke's own keys are.
const PASSING_LANDLOCK: [Capability; 3] =
    [Capability::CAP_SYS_PTRACE, Capability::CAP_SYS_ADMIN, Capability::CAP_PERFMON];

/// The capabilities that a confined program of root keeps: those for files and processes of its own. Others reach the kernel,
/// its devices and its network.
const KEPT: [Capability; 10] = [
    Capability::CAP_CHOWN,
    Capability::CAP_DAC_OVERRIDE,
    Capability::CAP_FOWNER,
    Capability::CAP_FSETID,
    Capability::CAP_KILL,
    Capability::CAP_NET_BIND_SERVICE,
    Capability::CAP_SETFCAP,
    Capability::CAP_SETGID,
    Capability::CAP_SETPCAP,
    Capability::CAP_SETUID,
];

/// Drops capabilities: of a confined program all but a few. Landlock has forbidden new privileges by then, so that no
/// program which this process becomes or starts gets them back.
pub fn restrict(is_confined: bool) -> Result<(), CapsError> {
    let is_dropped = |it: &Capability| {
        if is_confined { !KEPT.contains(it) } else { PASSING_LANDLOCK.contains(it) }
    };
    for set in [CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        let mut left = caps::read(None, set)?;
        left.retain(|capability| !is_dropped(capability));
        caps::set(None, set, &left)?;
    }
    Ok(())
}
