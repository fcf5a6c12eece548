//! A filter of system calls, for what Landlock does not restrict: Unix sockets in the file system, UDP and raw
//! sockets, Multipath TCP, data sent with a connection's first packet, listening without a port, limits of other processes,
//! keyrings, and memory, semaphores and message queues that are shared by number or name.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter, sock_filter,
};

use crate::sandbox::policy::{Network, Policy};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The bit that marks calls of the x32 ABI, which has every call again under another number.
const X32: u32 = 0x4000_0000;

/// The mask of the socket type in the argument; the other bits are flags.
const SOCKET_TYPE: u64 = 0xf;

/// A single process, for `setpriority` and `ioprio_set`.
const PRIO_PROCESS: u64 = 0;
const IOPRIO_WHO_PROCESS: u64 = 1;

/// The calls of System V shared memory, semaphores and message queues, and of POSIX message queues. Any process of the user
/// reaches them by a number or a name that is in no directory.
const SHARED_BY_NUMBER: [i64; 13] = [
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
];

/// Filters this process, and everything that it becomes and starts.
pub fn restrict(policy: &Policy) -> Result<(), seccompiler::Error> {
    let mut rules = match &policy.network {
        Network::Open => Rules::new(),
        Network::Ports { udp, .. } => sockets(*udp)?,
    };
    if !policy.unix_sockets {
        close_unix_sockets(&mut rules)?;
    }
    if !policy.listens && !policy.unix_sockets {
        // A socket that listens without being bound gets a port that Landlock does not check.
        rules.insert(libc::SYS_listen, Vec::new());
    }
    if cfg!(target_arch = "x86_64") {
        apply_filter(&without_x32())?;
    }
    if policy.scoped {
        let mut private = limits()?;
        private.extend(SHARED_BY_NUMBER.iter().map(|call| (*call, Vec::new())));
        apply_filter(&compile(private, libc::EPERM)?)?;
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

/// Returns the filter that refuses every call of the x32 ABI. The filters of single calls know their usual numbers only.
fn without_x32() -> BpfProgram {
    // Loads a word of the call, jumps if a bit is set, and returns a verdict.
    const LOAD: u16 = 0x20;
    const JUMP_IF_SET: u16 = 0x45;
    const RETURN: u16 = 0x06;
    let step = |code, k| sock_filter { code, jt: 0, jf: 0, k };
    vec![
        // The number of the call is the first word.
        step(LOAD, 0),
        sock_filter { jf: 1, ..step(JUMP_IF_SET, X32) },
        step(RETURN, libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs()),
        step(RETURN, libc::SECCOMP_RET_ALLOW),
    ]
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
fn compile(rules: Rules, error: i32) -> Result<BpfProgram, BackendError> {
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
