//! Landlock: file, port and scope rules that the kernel enforces on a program and everything that it starts.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use convoke_files::beneath::open_real;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, NetPort,
    PathBeneath, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError,
    RulesetStatus, Scope,
};
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::Mode;

use crate::sandbox::carve::{Covered, carve};
use crate::sandbox::depth_of;
use crate::sandbox::policy::{FilePath, Network, Policy, Writes};

/// The newest supported version of Landlock. Later versions add rules that are not tested.
const NEWEST: u8 = 7;

/// Devices that programs read and write, independently of their permissions. Pseudo-terminals are excluded: all
/// of the user's are in one directory, and a process that opens one can read what is typed there.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"];
/// Devices that programs read.
const SOURCES: &[&str] = &["/dev/random", "/dev/urandom"];
/// The directory of devices, of which only those above are accessible: others are disks and memory.
const DEVICE_DIRECTORY: &str = "/dev";

/// The number of directory entries from which a second thread adds half of them. The kernel takes some
/// microseconds for each, and a home directory with thousands would take longer than the rest of a program's
/// start.
const WORTH_A_THREAD: usize = 256;

/// Returns the version of Landlock that this kernel has; 0 for none. Restricts nothing.
pub fn abi() -> u8 {
    static ABI: OnceLock<u8> = OnceLock::new();
    *ABI.get_or_init(|| (1..=NEWEST).rev().find(|version| is_there(*version)).unwrap_or(0))
}

/// Returns whether the kernel supports the access rights that a version introduced.
fn is_there(version: u8) -> bool {
    let abi = ABI::from(i32::from(version));
    let handled = || {
        let hard = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let mut ruleset = hard.handle_access(AccessFs::from_all(abi))?;
        if !AccessNet::from_all(abi).is_empty() {
            ruleset = ruleset.handle_access(AccessNet::from_all(abi))?;
        }
        if !Scope::from_all(abi).is_empty() {
            ruleset = ruleset.scope(Scope::from_all(abi))?;
        }
        ruleset.create()
    };
    handled().is_ok()
}

/// Restricts this process, and everything that it becomes and starts. `cwd` is the path of the directory that it has
/// entered: a rule for it is for that directory.
pub fn restrict(policy: &Policy, cwd: &Path) -> Result<(), LandlockError> {
    let abi = ABI::from(i32::from(policy.abi));
    let rights = Rights::new(policy, abi);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(rights.handled)?;
    let limits_ports = !AccessNet::from_all(abi).is_empty();
    if let (Network::Ports { .. }, true) = (&policy.network, limits_ports) {
        ruleset = ruleset.handle_access(AccessNet::ConnectTcp)?;
    }
    if !policy.listens && limits_ports {
        ruleset = ruleset.handle_access(AccessNet::BindTcp)?;
    }
    if policy.scoped && !Scope::from_all(abi).is_empty() {
        ruleset = ruleset.scope(Scope::from_all(abi))?;
    }
    let mut created = ruleset.create()?;
    if let (Network::Ports { ports, .. }, true) = (&policy.network, limits_ports) {
        for port in ports {
            created = created.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
        }
    }
    for (covered, access) in rights.rules(policy) {
        created = add(created, &covered, access, cwd)?;
    }
    match created.restrict_self()?.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced => {
            Err(LandlockError::NotEnforced)
        }
    }
}

/// Adds the rules for covered paths. Paths that were removed since they were listed need none.
fn add(
    ruleset: RulesetCreated,
    covered: &Covered,
    access: BitFlags<AccessFs>,
    cwd: &Path,
) -> Result<RulesetCreated, LandlockError> {
    match covered {
        Covered::Root(path) => {
            let Ok(file) = open(path, cwd) else { return Ok(ruleset) };
            let has_all = is_directory(&file);
            Ok(add_rule(ruleset, &file, if has_all { access } else { of_file(access) })?)
        }
        Covered::Entries { directory, entries } => {
            let Ok(directory) = open(directory, cwd) else { return Ok(ruleset) };
            if entries.len() < WORTH_A_THREAD {
                return Ok(add_entries(ruleset, &directory, entries, access)?);
            }
            let (here, there) = entries.split_at(entries.len() / 2);
            // The clone refers to the same ruleset in the kernel.
            let other = ruleset.try_clone().map_err(LandlockError::Descriptor)?;
            std::thread::scope(|scope| {
                let add_others = || add_entries(other, &directory, there, access).map(drop);
                let thread = std::thread::Builder::new().spawn_scoped(scope, add_others);
                let ruleset = add_entries(ruleset, &directory, here, access)?;
                match thread {
                    Ok(thread) => thread.join().map_err(|_| LandlockError::Thread)??,
                    // The limit of processes may be reached.
                    Err(_) => return Ok(add_entries(ruleset, &directory, there, access)?),
                }
                Ok(ruleset)
            })
        }
    }
}

/// Adds the rules for entries of a directory. A relative lookup finds each in one step, and does not follow a
/// link that has replaced a listed entry.
fn add_entries(
    mut ruleset: RulesetCreated,
    directory: &File,
    entries: &[(OsString, bool)],
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    for (name, was_directory) in entries {
        let Ok(entry) = openat(directory, name.as_os_str(), flags, Mode::empty()) else {
            continue;
        };
        let entry = File::from(entry);
        let has_all = *was_directory && is_directory(&entry);
        ruleset = add_rule(ruleset, &entry, if has_all { access } else { of_file(access) })?;
    }
    Ok(ruleset)
}

/// Returns the rights that a file can have.
fn of_file(access: BitFlags<AccessFs>) -> BitFlags<AccessFs> {
    access & AccessFs::from_file(ABI::V7)
}

/// Opens a file or directory by its real path. A link on the path is not followed: since the policy was made, a turn may
/// have put it there.
fn open(path: &Path, cwd: &Path) -> io::Result<File> {
    if path == cwd {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        return Ok(File::from(openat(AT_FDCWD, ".", flags, Mode::empty())?));
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return open_real(path).map(File::from);
    };
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let file = File::from(openat(open_real(parent)?, name, flags, Mode::empty())?);
    if file.metadata()?.is_symlink() {
        return Err(io::Error::from(io::ErrorKind::NotADirectory));
    }
    Ok(file)
}

/// Returns whether an open file is a directory. Only a directory has rights to its contents.
fn is_directory(file: &File) -> bool {
    file.metadata().is_ok_and(|it| it.is_dir())
}

fn add_rule(
    ruleset: RulesetCreated,
    file: &File,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    if access.is_empty() {
        return Ok(ruleset);
    }
    ruleset.add_rule(PathBeneath::new(file, access))
}

/// The rights that a ruleset handles.
struct Rights {
    handled: BitFlags<AccessFs>,
    read: BitFlags<AccessFs>,
    write: BitFlags<AccessFs>,
}

impl Rights {
    fn new(policy: &Policy, abi: ABI) -> Self {
        match policy.writes {
            Writes::Everywhere => {
                let read = AccessFs::ReadFile | AccessFs::ReadDir;
                // A ruleset denies this right unless it allows it explicitly.
                let write = AccessFs::from_write(abi) & AccessFs::Refer;
                Self { handled: read | write, read, write }
            }
            Writes::Beneath { .. } => Self {
                handled: AccessFs::from_all(abi),
                read: AccessFs::from_read(abi),
                // No devices, which give access beyond files.
                write: AccessFs::from_write(abi) & !(AccessFs::MakeChar | AccessFs::MakeBlock),
            },
        }
    }

    fn rules(&self, policy: &Policy) -> Vec<(Covered, BitFlags<AccessFs>)> {
        let own = |path: &FilePath| path.as_path().to_owned();
        let hidden: Vec<PathBuf> = policy.hidden.iter().map(own).collect();
        let mut but_devices = hidden.clone();
        but_devices.push(DEVICE_DIRECTORY.into());
        let everything = carve(Path::new("/"), &but_devices);
        let mut rules: Vec<_> = everything.into_iter().map(|it| (it, self.read)).collect();
        let shown: Vec<PathBuf> = policy.shown.iter().map(own).collect();
        for path in &shown {
            let inside = hidden_of(path, &hidden, &shown);
            rules.extend(carve(path, &inside).into_iter().map(|it| (it, self.read)));
        }
        let at = |path: &&str| Covered::Root(PathBuf::from(path));
        rules.extend(SOURCES.iter().map(|path| (at(path), self.read)));
        let all = self.read | self.write;
        rules.extend(DEVICES.iter().map(|path| (at(path), all)));
        match &policy.writes {
            Writes::Everywhere => {
                rules.push((at(&DEVICE_DIRECTORY), self.read));
                rules.push((at(&"/"), self.write));
            }
            Writes::Beneath { roots, except } => {
                for root in roots.iter().map(FilePath::as_path) {
                    let mut left_out = hidden_of(root, &hidden, &shown);
                    // A root in a directory that is otherwise read-only is meant to be written.
                    left_out.extend(except.iter().map(own).filter(|it| is_beneath(it, root)));
                    rules.extend(carve(root, &left_out).into_iter().map(|it| (it, all)));
                }
            }
        }
        rules
    }
}

/// Returns the hidden paths that are left out of a root. Those that contain it are among them, unless a path that is shown
/// lies between.
fn hidden_of(root: &Path, hidden: &[PathBuf], shown: &[PathBuf]) -> Vec<PathBuf> {
    let is_shown = depth_of(hidden, root) <= depth_of(shown, root);
    let is_left_out = |path: &&PathBuf| !is_shown || is_beneath(path, root);
    hidden.iter().filter(is_left_out).cloned().collect()
}

fn is_beneath(path: &Path, directory: &Path) -> bool {
    path != directory && path.starts_with(directory)
}

/// An error of restricting a process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LandlockError {
    /// The kernel refused a rule.
    #[error("Landlock: {0}")]
    Ruleset(#[from] RulesetError),
    /// The ruleset could not be shared with a thread.
    #[error("Landlock: {0}")]
    Descriptor(io::Error),
    /// A thread that added rules ended early.
    #[error("Landlock: not all rules were added")]
    Thread,
    /// The kernel enforces less than was asked for.
    #[error("Landlock enforces less than it reported")]
    NotEnforced,
}
