//! A filter of system calls, for what Landlock does not restrict: Unix sockets in the file system, UDP and raw
//! sockets, Multipath TCP, data sent with a connection's first packet, limits of other processes, and keyrings.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

use crate::sandbox::policy::{Network, Policy};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The bit that marks calls of the x32 ABI, which duplicates every call.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// The mask of the socket type in the argument; the other bits are flags.
const SOCKET_TYPE: u64 = 0xf;

/// A single process, for `setpriority` and `ioprio_set`.
const PRIO_PROCESS: u64 = 0;
const IOPRIO_WHO_PROCESS: u64 = 1;

/// Filters this process, and everything that it becomes and starts.
pub fn restrict(policy: &Policy) -> Result<(), seccompiler::Error> {
    let mut rules = match &policy.network {
        Network::Open => Rules::new(),
        Network::Ports { udp, .. } => sockets(*udp)?,
    };
    if !policy.unix_sockets {
        close_unix_sockets(&mut rules)?;
    }
    if policy.scoped {
        apply_filter(&compile(limits()?, libc::EPERM)?)?;
        // The kernel's keyrings belong to the user's session.
        let keyrings = [libc::SYS_add_key, libc::SYS_keyctl, libc::SYS_request_key];
        let keyrings = keyrings.map(|call| (call, Vec::new())).into();
        apply_filter(&compile(keyrings, libc::ENOSYS)?)?;
    }
    if rules.is_empty() {
        return Ok(());
    }
    let denied = compile(rules, libc::EACCES)?;
    // Operations of io_uring bypass the filter. Programs that use it have a fallback.
    let io_uring = BTreeMap::from([(libc::SYS_io_uring_setup, Vec::new())]);
    let absent = compile(io_uring, libc::ENOSYS)?;
    apply_filter(&denied)?;
    apply_filter(&absent)
}

/// Returns whether filters are supported on this machine.
pub fn is_there() -> bool {
    TargetArch::try_from(std::env::consts::ARCH).is_ok()
}

/// Closes Unix sockets. Programs behind them (tmux, the user's systemd, D-Bus, Docker) run commands for every
/// client. Socket pairs stay allowed, except those for datagrams, which could be connected again.
fn close_unix_sockets(rules: &mut Rules) -> Result<(), BackendError> {
    let of_family = || argument(0, SeccompCmpOp::Eq, word(libc::AF_UNIX));
    rules.entry(libc::SYS_socket).or_default().push(rule([of_family()])?);
    let of_type = |kind| argument(1, SeccompCmpOp::MaskedEq(SOCKET_TYPE), word(kind));
    for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
        let pair = rule([of_family(), of_type(kind)])?;
        rules.entry(libc::SYS_socketpair).or_default().push(pair);
    }
    Ok(())
}

/// Protects the limits and priorities of other processes: a process without memory or files ends, and one
/// without CPU time stalls. For its own, a thread uses process id 0.
fn limits() -> Result<Rules, BackendError> {
    let is_not = |index: u8, own: u64| argument(index, SeccompCmpOp::Ne, own);
    let is_set = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0);
    // Groups and users have other values.
    let of_process = |kind: u64| Ok(vec![rule([is_not(0, kind)])?, rule([is_not(1, 0)])?]);
    let mut rules = BTreeMap::from([
        (libc::SYS_prlimit64, vec![rule([is_not(0, 0), is_set])?]),
        (libc::SYS_setpriority, of_process(PRIO_PROCESS)?),
        (libc::SYS_ioprio_set, of_process(IOPRIO_WHO_PROCESS)?),
    ]);
    for call in [
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setscheduler,
    ] {
        rules.insert(call, vec![rule([is_not(0, 0)])?]);
    }
    Ok(rules)
}

fn sockets(udp: bool) -> Result<Rules, BackendError> {
    let mut socket = Vec::new();
    let families = [libc::AF_UNIX, libc::AF_NETLINK, libc::AF_INET, libc::AF_INET6];
    socket.push(rule(families.map(|family| argument(0, SeccompCmpOp::Ne, word(family))))?);
    for family in [libc::AF_INET, libc::AF_INET6] {
        let of_family = || argument(0, SeccompCmpOp::Eq, word(family));
        let of_type = |kind: u64| argument(1, SeccompCmpOp::MaskedEq(SOCKET_TYPE), kind);
        for kind in 0..=SOCKET_TYPE {
            let protocols: &[i32] = match kind {
                kind if kind == word(libc::SOCK_STREAM) => &[0, libc::IPPROTO_TCP],
                kind if kind == word(libc::SOCK_DGRAM) && udp => &[0, libc::IPPROTO_UDP],
                _ => &[],
            };
            let others = protocols.iter().map(|it| argument(2, SeccompCmpOp::Ne, word(*it)));
            socket.push(rule([of_family(), of_type(kind)].into_iter().chain(others))?);
        }
    }
    let fast_open = |index: u8| {
        let flag = word(libc::MSG_FASTOPEN);
        rule([argument(index, SeccompCmpOp::MaskedEq(flag), flag)]).map(|rule| vec![rule])
    };
    Ok(BTreeMap::from([
        (libc::SYS_socket, socket),
        (libc::SYS_sendto, fast_open(3)?),
        (libc::SYS_sendmsg, fast_open(2)?),
        (libc::SYS_sendmmsg, fast_open(3)?),
    ]))
}

/// Compiles a filter that fails these calls with an error and allows all others. A program for another
/// architecture is killed, because its calls have other numbers.
fn compile(mut rules: Rules, error: i32) -> Result<BpfProgram, BackendError> {
    #[cfg(target_arch = "x86_64")]
    {
        let again: Rules = rules.iter().map(|(call, rules)| (call | X32, rules.clone())).collect();
        rules.extend(again);
    }
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let errno = SeccompAction::Errno(error.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, errno, arch)?.try_into()
}

fn rule(
    conditions: impl IntoIterator<Item = Result<SeccompCondition, BackendError>>,
) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions.into_iter().collect::<Result<_, _>>()?)
}

fn argument(
    index: u8,
    comparison: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, comparison, value)
}

/// Returns a constant of the C library as the kernel sees it.
fn word(constant: i32) -> u64 {
    u64::from(constant.unsigned_abs())
}
