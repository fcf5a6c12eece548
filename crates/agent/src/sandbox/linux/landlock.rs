//! Landlock: file, port and scope rules that the kernel enforces on a program and all that it starts.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, NetPort,
    PathBeneath, Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError,
    RulesetStatus, Scope,
};
use nix::fcntl::OFlag;

use crate::sandbox::carve::{RealPaths, carve};
use crate::sandbox::policy::{FilePath, Network, Policy, Writes};

/// The newest version of Landlock whose rules are used. Later ones add rules that no test has seen.
const NEWEST: u8 = 7;

/// Devices that programs read and write, whatever they may write elsewhere.
const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts"];
/// Devices that programs read.
const SOURCES: &[&str] = &["/dev/random", "/dev/urandom"];
/// The directory of devices, of which only the ones above are open: others are disks and memory.
const DEVICE_DIRECTORY: &str = "/dev";

/// Returns the version of Landlock that this kernel has, 0 for none. Nothing is restricted by asking.
pub fn abi() -> u8 {
    static ABI: OnceLock<u8> = OnceLock::new();
    *ABI.get_or_init(|| (1..=NEWEST).rev().find(|version| is_there(*version)).unwrap_or(0))
}

/// Returns whether the kernel can make a ruleset with what a version brought.
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

/// Restricts this process, and what it becomes and starts.
pub fn restrict(policy: &Policy) -> Result<(), LandlockError> {
    let abi = ABI::from(i32::from(policy.abi));
    let rights = Rights::of(policy, abi);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(rights.handled)?;
    let limits_ports = !AccessNet::from_all(abi).is_empty();
    if let (Network::Ports { .. }, true) = (&policy.network, limits_ports) {
        ruleset = ruleset.handle_access(AccessNet::ConnectTcp)?;
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
    for (path, access) in rights.rules(policy) {
        created = add(created, &path, access)?;
    }
    match created.restrict_self()?.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::NotEnforced => {
            Err(LandlockError::NotEnforced)
        }
    }
}

/// Adds a rule. What has gone since it was listed needs none.
fn add(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let opened = OpenOptions::new().read(true).custom_flags(OFlag::O_PATH.bits()).open(path);
    let Ok(file) = opened else {
        return Ok(ruleset);
    };
    // Only a directory has the rights to what is in it.
    let is_directory = file.metadata().is_ok_and(|it| it.is_dir());
    let access = if is_directory { access } else { access & AccessFs::from_file(ABI::V7) };
    if access.is_empty() {
        return Ok(ruleset);
    }
    ruleset.add_rule(PathBeneath::new(file, access))
}

/// The rights that a ruleset is about.
struct Rights {
    handled: BitFlags<AccessFs>,
    read: BitFlags<AccessFs>,
    write: BitFlags<AccessFs>,
}

impl Rights {
    fn of(policy: &Policy, abi: ABI) -> Self {
        match policy.writes {
            Writes::Everywhere => {
                let read = AccessFs::ReadFile | AccessFs::ReadDir;
                // Every ruleset forbids this unless it allows it.
                let write = AccessFs::from_write(abi) & AccessFs::Refer;
                Self { handled: read | write, read, write }
            }
            Writes::Beneath { .. } => Self {
                handled: AccessFs::from_all(abi),
                read: AccessFs::from_read(abi),
                write: AccessFs::from_write(abi),
            },
        }
    }

    fn rules(&self, policy: &Policy) -> Vec<(PathBuf, BitFlags<AccessFs>)> {
        let mut paths = RealPaths::default();
        let mut real = |path: &FilePath| paths.of(path.as_path());
        let hidden: Vec<PathBuf> = policy.hidden.iter().map(&mut real).collect();
        let mut but_devices = hidden.clone();
        but_devices.push(DEVICE_DIRECTORY.into());
        let everything = carve(Path::new("/"), &but_devices);
        let mut rules: Vec<_> = everything.into_iter().map(|path| (path, self.read)).collect();
        for shown in policy.shown.iter().map(&mut real) {
            rules.extend(carve(&shown, &hidden).into_iter().map(|path| (path, self.read)));
        }
        rules.extend(SOURCES.iter().map(|path| (PathBuf::from(path), self.read)));
        let all = self.read | self.write;
        rules.extend(DEVICES.iter().map(|path| (PathBuf::from(path), all)));
        match &policy.writes {
            Writes::Everywhere => {
                rules.push((DEVICE_DIRECTORY.into(), self.read));
                rules.push(("/".into(), self.write));
            }
            Writes::Beneath { roots, except } => {
                let mut kept = hidden;
                kept.extend(except.iter().map(&mut real));
                for root in roots.iter().map(&mut real) {
                    rules.extend(carve(&root, &kept).into_iter().map(|path| (path, all)));
                }
            }
        }
        rules
    }
}

/// A process was not restricted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LandlockError {
    /// The kernel refused a rule.
    #[error("Landlock: {0}")]
    Ruleset(#[from] RulesetError),
    /// The kernel enforces less than was asked for.
    #[error("Landlock enforces less than it said it would")]
    NotEnforced,
}
