//! Drops capabilities of root that bypass Landlock.

use caps::errors::CapsError;
use caps::{CapSet, Capability};

/// Landlock denies access to processes outside the sandbox. On newer kernels, a process with one of these
/// capabilities can still read their memory and environment, which contain Convoke's keys.
const PASSING_LANDLOCK: [Capability; 3] =
    [Capability::CAP_SYS_PTRACE, Capability::CAP_SYS_ADMIN, Capability::CAP_PERFMON];

/// The capabilities that a confined program of root keeps: those for its own files and processes. Others give
/// access to the kernel, its devices and its network.
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

/// Drops capabilities; a confined program keeps only a few. Landlock has already forbidden new privileges, so
/// no program that this process becomes or starts regains them.
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
