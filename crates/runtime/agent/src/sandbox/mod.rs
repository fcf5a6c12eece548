//! The sandbox: what an agent may do, enforced by the kernel.
//!
//! Every program has one enforcer. If the kernel has Landlock, the enforcer is Convoke: it creates a policy,
//! and a process enforces the policy on itself before it becomes the program. Otherwise it is the
//! program's own sandbox. Whatever is not enforced is a [`Gap`], and is reported.

mod added;
mod carve;
mod gap;
#[cfg_attr(target_os = "linux", path = "linux/mod.rs")]
#[cfg_attr(not(target_os = "linux"), path = "portable.rs")]
mod platform;
mod policy;
mod ports;
pub(crate) mod secrets;
mod state;
pub(crate) mod stopped;
pub(crate) mod variables;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};

use convoke_core::Diagnostic;
use convoke_protocol::permission::PermissionQuestion;

pub(crate) use self::added::AddedPaths;
use self::carve::RealPaths;
pub use self::gap::Gap;
pub(crate) use self::platform::restrict;
pub(crate) use self::policy::{FilePath, Policy};
use self::policy::{Network, Writes};
pub use self::secrets::Secrets;
use crate::cli::{Cli, Programs, RenewedSignIn};
use crate::diagnostics;
use crate::turn_input::Permissions;
use crate::working_directory::WorkingDirectory;

/// The oldest Landlock version that protects read-only files completely.
const COMPLETE_FILES: u8 = 3;
/// The ports of model servers and of name servers.
const USUAL_PORTS: [u16; 2] = [53, 443];

/// The sandbox settings of all agents of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SandboxSettings {
    /// Convoke's own directories, which no agent can read.
    pub private: Vec<PathBuf>,
    /// The route of the agent's program to its model.
    pub route: Route,
    /// Whether a turn is refused if something is not enforced.
    pub required: bool,
    /// The newest version of Landlock to use, for tests of older kernels.
    pub newest_abi: Option<u8>,
    /// The directory in which a person started Convoke, as it was then, without links. Only there can an agent work
    /// although it is inside a hidden path.
    pub started_in: Option<PathBuf>,
    /// The directories in which the agents of the session work, without links: they may put links there.
    pub places: Vec<PathBuf>,
}

/// The route of a program to its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Route {
    /// Directly. The ports that the program needs are open to its commands too.
    #[default]
    Direct,
    /// Through a server of Convoke on this machine. No other port is open.
    Through {
        /// The server's port.
        port: u16,
    },
    /// None: no port is open.
    Nowhere,
}

/// The user's additions to the sandbox of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SandboxAdditions {
    /// Paths that can be read although they are secrets.
    pub readable: Vec<PathBuf>,
    /// Paths that can be changed.
    pub writable: Vec<PathBuf>,
    /// TCP ports that can be connected to.
    pub ports: Vec<u16>,
    /// Whether Unix sockets can be connected to.
    pub unix_sockets: bool,
    /// Whether TCP ports cannot be listened on, not even with permission to edit.
    pub no_listening: bool,
    /// Variables that are passed on although their names look like secrets.
    pub variables: Vec<String>,
}

/// The state of a program in the user's home.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ProgramState {
    /// The directories that the program reads.
    pub readable: Vec<PathBuf>,
    /// The files in them to create, with their content.
    pub files: Vec<(PathBuf, &'static str)>,
    /// The directories that the program reads and writes. They are created.
    pub directories: Vec<PathBuf>,
}

impl ProgramState {
    fn shown(&self) -> impl Iterator<Item = &Path> {
        self.readable.iter().chain(&self.directories).map(PathBuf::as_path)
    }
}

/// The program's own paths without links. Each was looked up once, and checked.
#[derive(Debug)]
struct OwnPaths {
    /// The CLI's own directory.
    directory: Option<PathBuf>,
    /// The directories that the program reads.
    readable: Vec<PathBuf>,
    /// The directories that the program reads and writes.
    directories: Vec<PathBuf>,
}

impl OwnPaths {
    fn shown(&self) -> impl Iterator<Item = &PathBuf> {
        self.directory.iter().chain(&self.readable).chain(&self.directories)
    }
}

/// The enforcer of an agent's permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Enforcer {
    /// The kernel, with this version of Landlock.
    Landlock {
        /// The version of its interface.
        abi: u8,
    },
    /// The agent's program, with its own sandbox or rules.
    Program,
    /// Nothing.
    Nothing,
}

impl Enforcer {
    /// Returns the enforcer for a CLI, or for any other program if `None`.
    pub fn on_this_machine(vendor: Option<&'static dyn Cli>, newest_abi: Option<u8>) -> Self {
        let abi = platform::abi().min(newest_abi.unwrap_or(u8::MAX));
        match (abi, vendor) {
            (COMPLETE_FILES.., _) => Self::Landlock { abi },
            // The program's own sandbox enforces more than an old Landlock, and does not start inside it.
            (_, Some(_)) => Self::Program,
            (0, None) => Self::Nothing,
            (_, None) => Self::Landlock { abi },
        }
    }

    /// Returns whether the kernel enforces the permissions, so that the program's own sandbox is off.
    pub const fn is_kernel(self) -> bool {
        matches!(self, Self::Landlock { .. })
    }

    /// Returns the gaps, given the user's additions.
    pub fn gaps(
        self,
        permissions: Permissions,
        route: Route,
        additions: &SandboxAdditions,
    ) -> Vec<Gap> {
        let Self::Landlock { abi } = self else {
            return vec![Gap::Kernel];
        };
        if permissions == Permissions::Full {
            return Vec::new();
        }
        let no_network = permissions < Permissions::EditAndNetwork;
        let gaps = [
            (Gap::Truncate, abi < COMPLETE_FILES),
            (Gap::Ports, no_network && abi < 4),
            (Gap::Devices, abi < 5),
            (Gap::Signals, abi < 6),
            (Gap::Sockets, no_network && !platform::filters_calls()),
            (Gap::Network, no_network && abi >= 4 && route == Route::Direct),
            (Gap::Attributes, true),
            (Gap::UnixSockets, additions.unix_sockets || !platform::filters_calls()),
            (Gap::Git, permissions > Permissions::ReadOnly),
        ];
        gaps.into_iter().filter(|(_, is_open)| *is_open).map(|(gap, _)| gap).collect()
    }
}

impl fmt::Display for Enforcer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Landlock { abi } => write!(f, "Landlock (version {abi})"),
            Self::Program => f.write_str("the program's own sandbox"),
            Self::Nothing => f.write_str("nothing"),
        }
    }
}

/// The paths that an agent may read and change, for actions that Convoke takes on its behalf.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// The paths that cannot be read.
    pub(crate) hidden: Vec<PathBuf>,
    /// The paths that can be read although they are in a hidden directory.
    pub(crate) shown: Vec<PathBuf>,
    /// The paths that cannot be changed.
    pub(crate) kept: Vec<PathBuf>,
    /// The working directory, which relative paths start from.
    pub(crate) cwd: PathBuf,
    /// The directories that can be changed.
    pub(crate) changed: Vec<PathBuf>,
}

impl Reach {
    /// Returns whether a path without links can be read. The innermost listed directory around it decides.
    pub(crate) fn shows(&self, path: &Path) -> bool {
        depth_of(&self.hidden, path) <= depth_of(&self.shown, path)
    }

    /// Returns whether a path without links can be changed, if it can be read.
    pub(crate) fn lets_change(&self, path: &Path) -> bool {
        !self.kept.iter().any(|kept| path.starts_with(kept))
    }

    /// Returns whether the sandbox would stop the action of a question, whatever the answer. For a command this
    /// is unknown.
    pub(crate) fn stops(&self, question: &PermissionQuestion) -> bool {
        let mut real = RealPaths::default();
        let mut resolve = |path: &PathBuf| real.resolve(&lexical(&self.cwd.join(path)));
        let mut read = question.files.reads.iter().map(&mut resolve);
        if read.any(|path| !self.shows(&path)) {
            return true;
        }
        let mut changed = question.files.changes.iter().map(&mut resolve);
        changed.any(|path| {
            let is_inside = self.changed.iter().any(|root| path.starts_with(root));
            !is_inside || !self.shows(&path) || !self.lets_change(&path)
        })
    }
}

/// Resolves `..` in a path without accessing the file system.
fn lexical(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                resolved.pop();
            }
            part => resolved.push(part),
        }
    }
    resolved
}

/// Returns the depth of the deepest directory that contains a path.
fn depth_of(directories: &[PathBuf], path: &Path) -> usize {
    let around = directories.iter().filter(|directory| path.starts_with(directory));
    around.map(|directory| directory.components().count()).max().unwrap_or(0)
}

/// The sandbox of one turn.
#[derive(Debug)]
pub(crate) struct Sandbox<'a> {
    pub enforcer: Enforcer,
    pub permissions: Permissions,
    /// The CLI, if the program is one.
    pub vendor: Option<&'static dyn Cli>,
    /// The programs that are known, whose state is hidden from each other.
    pub programs: Programs,
    /// The CLI's own directory.
    pub directory: Option<PathBuf>,
    /// The CLI's session, if it is known before the turn.
    pub session: Option<String>,
    /// The state of a program known by name.
    pub state: ProgramState,
    /// The program's home.
    pub home: Option<PathBuf>,
    /// The user's homes, whatever the program's home is.
    pub users_homes: Vec<PathBuf>,
    /// The working directory, which is never looked up again.
    pub cwd: &'a WorkingDirectory,
    /// The agent's own copy of the project, which is in a directory of Convoke; `None` if it works elsewhere.
    pub workspace: Option<&'a Path>,
    pub private_dir: &'a Path,
    /// The program's private home, outside the turn's directory.
    pub private_home: Option<PathBuf>,
    /// The parent of the private directories of other turns.
    pub temp_root: &'a Path,
    pub settings: &'a SandboxSettings,
    pub additions: SandboxAdditions,
    /// The paths of the additions.
    pub added: AddedPaths,
    /// Secrets named by the environment.
    pub secrets: Vec<PathBuf>,
    /// Texts of the program's configuration, which contain the addresses that it connects to.
    pub addresses: Vec<String>,
}

impl Sandbox<'_> {
    /// Returns the diagnostic for the start of the turn; `Err` if the turn must not start.
    pub fn report(&self) -> Result<Option<Diagnostic>, String> {
        let permissions = self.permissions.as_str();
        if self.enforcer == Enforcer::Nothing && self.permissions < Permissions::Full {
            return Err(format!(
                "this system cannot enforce `{permissions}` for this program; `permissions = \
                 \"full\"` in agents.toml lets it run with your own permissions"
            ));
        }
        let gaps = self.enforcer.gaps(self.permissions, self.settings.route, &self.additions);
        let words = |gap: &Gap| match (gap, self.other_ports()) {
            (Gap::Network, Some(ports)) => {
                format!("{gap}; TCP {ports} of addresses in your configuration")
            }
            _ => gap.to_string(),
        };
        let list = |gaps: &[Gap]| gaps.iter().map(words).collect::<Vec<_>>().join("; ");
        let open: Vec<Gap> = gaps.iter().copied().filter(|gap| !gap.is_everywhere()).collect();
        if self.settings.required && !open.is_empty() {
            return Err(format!(
                "the team file has `require-sandbox = true`, and `{permissions}` is not fully \
                 enforced here: {}",
                list(&open)
            ));
        }
        let message =
            format!("{} enforces `{permissions}`; not enforced: {}", self.enforcer, list(&gaps));
        Ok((!gaps.is_empty()).then(|| Diagnostic::new(diagnostics::SANDBOX_PARTIAL, message)))
    }

    /// Returns a diagnostic about writable paths that do not exist. Landlock rules apply only to existing
    /// paths.
    pub fn missing(&self) -> Option<Diagnostic> {
        let confined = self.enforcer.is_kernel() && self.permissions < Permissions::Full;
        let paths = self.added.writable().filter(|path| confined && !path.exists());
        let names: Vec<String> = paths.map(|path| path.display().to_string()).collect();
        let message =
            format!("does not exist, and cannot be created by the agent: {}", names.join(", "));
        (!names.is_empty()).then(|| Diagnostic::new(diagnostics::SANDBOX_PATH_MISSING, message))
    }

    /// Creates the directories that the program writes to. Returns the policy (`None` if nothing is enforced), and the
    /// paths for actions that Convoke takes on the agent's behalf. Fails if the agent must not work here.
    pub fn prepare(&self) -> io::Result<(Option<Policy>, Reach)> {
        let is_confined = self.enforcer.is_kernel() && self.permissions < Permissions::Full;
        // Each path is looked up once. What is checked here is what the policy gets: between two lookups, another turn could
        // put a link there.
        let mut real = RealPaths::default();
        let given = self.hidden();
        let hidden: Vec<PathBuf> = given.iter().map(|path| real.resolve(path)).collect();
        self.check_cwd(&hidden)?;
        let secrets: Vec<(&Path, &Path)> =
            given.iter().map(PathBuf::as_path).zip(hidden.iter().map(PathBuf::as_path)).collect();
        let cwd = self.cwd.path().to_owned();
        let places: Vec<PathBuf> = self.settings.places.iter().chain([&cwd]).cloned().collect();
        self.added.check(&places, &secrets)?;
        let own = self.own_paths(&mut real)?;
        let private: Vec<PathBuf> = self.private().map(|path| real.resolve(path)).collect();
        let mut changed = private.clone();
        changed.extend((self.permissions > Permissions::ReadOnly).then(|| cwd.clone()));
        changed.extend(self.added.writable().map(Path::to_owned));
        if is_confined {
            changed.extend(self.written(&own, &mut real)?);
        }
        let mut shown = vec![cwd.clone()];
        shown.extend(own.shown().chain(&private).cloned());
        shown.extend(self.added.readable().map(Path::to_owned));
        shown.extend(changed.iter().filter(|root| depth_of(&hidden, root) > 0).cloned());
        let kept = self.kept(&own, &mut real);
        let reach = Reach { hidden, shown, kept, cwd, changed };
        self.check_temp_root(&reach)?;
        let Enforcer::Landlock { abi } = self.enforcer else {
            return Ok((None, reach));
        };
        Ok((self.policy(abi, &reach), reach))
    }

    /// Fails if the working directory is inside a hidden path that it was not meant for.
    fn check_cwd(&self, hidden: &[PathBuf]) -> io::Result<()> {
        let cwd = self.cwd.path();
        let started_in = self.settings.started_in.as_deref();
        let is_ours = |secret: &Path| {
            let was_chosen = started_in.is_some_and(|started_in| {
                let is_there = cwd.starts_with(started_in) || started_in.starts_with(cwd);
                is_there && started_in.starts_with(secret)
            });
            was_chosen || self.workspace.is_some_and(|it| cwd.starts_with(it))
        };
        if !hidden.iter().any(|secret| cwd.starts_with(secret) && !is_ours(secret)) {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "the working directory `{}` is inside a path that no agent can read; only a person who \
             starts Convoke there lets an agent work there",
            cwd.display()
        )))
    }

    /// Looks up the program's own paths.
    fn own_paths(&self, real: &mut RealPaths) -> io::Result<OwnPaths> {
        let mut all = |paths: &[PathBuf]| self.look_up_own(paths, real);
        Ok(OwnPaths {
            directory: all(self.directory.as_slice())?.pop(),
            readable: all(&self.state.readable)?,
            directories: all(&self.state.directories)?,
        })
    }

    /// Looks up paths of the program. Fails if one is inside a secret that is not the program's own.
    fn look_up_own(&self, paths: &[PathBuf], real: &mut RealPaths) -> io::Result<Vec<PathBuf>> {
        let own: Vec<&Path> =
            self.directory.as_deref().into_iter().chain(self.state.shown()).collect();
        let mut secrets = self.own_secrets();
        secrets.extend(self.settings.private.iter().cloned());
        secrets.retain(|secret| !own.iter().any(|path| secret.starts_with(path)));
        let secrets: Vec<PathBuf> = secrets.iter().map(|secret| real.resolve(secret)).collect();
        let look_up = |path: &PathBuf| {
            let found = real.resolve(path);
            if self.is_private(path) || !secrets.iter().any(|secret| found.starts_with(secret)) {
                return Ok(found);
            }
            Err(io::Error::other(format!(
                "the program's own path `{}` is inside a path that no agent can read",
                path.display()
            )))
        };
        paths.iter().map(look_up).collect()
    }

    /// Fails if an agent could change the private directories of turns, which Convoke and other programs rely on.
    fn check_temp_root(&self, reach: &Reach) -> io::Result<()> {
        let mut real = RealPaths::default();
        let temp_root = real.resolve(&std::path::absolute(self.temp_root)?);
        // Also the directory of a turn that may only read: another member may change it.
        let own = self.added.writable().chain([self.cwd.path()]);
        // One that may change everything is kept from nothing, but another member may work above its files.
        let own = own.filter(|_| self.permissions != Permissions::Full);
        let others = self.settings.places.iter().map(PathBuf::as_path);
        let others = others.filter(|place| *place != self.cwd.path());
        let mut roots = own.chain(others);
        let Some(root) = roots.find(|root| temp_root.starts_with(root)) else { return Ok(()) };
        if !reach.shows(&temp_root) {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "the directory for temporary files, `{}`, is inside `{}`, which agents can change; set \
             `TMPDIR` to a directory outside",
            temp_root.display(),
            root.display()
        )))
    }

    fn policy(&self, abi: u8, reach: &Reach) -> Option<Policy> {
        let is_full = self.permissions == Permissions::Full;
        if is_full && reach.hidden.is_empty() {
            return None;
        }
        let paths =
            |paths: &[PathBuf]| paths.iter().map(|it| FilePath::from(it.as_path())).collect();
        let writes = if is_full {
            Writes::Everywhere
        } else {
            Writes::Beneath { roots: paths(&reach.changed), except: paths(&reach.kept) }
        };
        Some(Policy {
            abi,
            shown: paths(&reach.shown),
            hidden: paths(&reach.hidden),
            writes,
            network: self.network(),
            listens: is_full
                || (self.permissions >= Permissions::Edit && !self.additions.no_listening),
            unix_sockets: is_full || self.additions.unix_sockets,
            env: Vec::new(),
            scoped: !is_full,
        })
    }

    /// Returns the directories that are removed with the turn.
    fn private(&self) -> impl Iterator<Item = &Path> {
        [Some(self.private_dir), self.private_home.as_deref()].into_iter().flatten()
    }

    fn is_private(&self, path: &Path) -> bool {
        self.private().any(|private| path.starts_with(private))
    }

    /// Returns the paths that cannot be changed even inside the working directory, because they affect later
    /// turns.
    fn kept(&self, own: &OwnPaths, real: &mut RealPaths) -> Vec<PathBuf> {
        // Private files are removed with the turn.
        let is_kept = |directory: &PathBuf| self.vendor.is_some() && !self.is_private(directory);
        let directory = own.directory.iter().filter(|_| self.directory.iter().all(is_kept));
        let beside = self.beside().map(|(path, _)| real.resolve(&path));
        directory.cloned().chain(beside).chain(own.readable.iter().cloned()).collect()
    }

    /// Returns the secrets in the user's homes and in the program's.
    fn own_secrets(&self) -> Vec<PathBuf> {
        let homes: BTreeSet<&PathBuf> = self.users_homes.iter().chain(&self.home).collect();
        homes
            .into_iter()
            .flat_map(|home| secrets::secret_paths(home, self.vendor, self.programs))
            .collect()
    }

    fn hidden(&self) -> Vec<PathBuf> {
        let mut hidden = self.own_secrets();
        hidden.extend(self.settings.private.iter().chain(&self.secrets).cloned());
        if self.permissions < Permissions::Full {
            hidden.extend(crate::process::other_private_dirs(
                self.temp_root,
                &self.private().collect::<Vec<_>>(),
            ));
        }
        let readable: Vec<&Path> = self.added.given_readable().chain(self.state.shown()).collect();
        let is_readable = |path: &PathBuf| readable.iter().any(|it| path.starts_with(it));
        hidden.retain(|path| !is_readable(path));
        hidden
    }

    /// Returns the sign-in that the program may renew.
    pub fn sign_in(&self) -> Option<Box<dyn RenewedSignIn>> {
        self.vendor?.renewed_sign_in(self.directory.as_deref()?)
    }

    /// Returns the files beside the CLI's directory, with their initial content.
    fn beside(&self) -> impl Iterator<Item = (PathBuf, &'static str)> {
        let files = self.vendor.iter().flat_map(|vendor| vendor.facts().beside);
        files.filter_map(|(name, content)| Some((self.home.as_ref()?.join(name), *content)))
    }

    /// Creates the state that the program writes to, and looks it up.
    fn written(&self, own: &OwnPaths, real: &mut RealPaths) -> io::Result<Vec<PathBuf>> {
        let mut state = Vec::new();
        if let (Some(vendor), Some(directory)) = (self.vendor, &self.directory) {
            let session = self.session.as_deref();
            state.extend(state::prepare(vendor, directory, self.cwd.path(), session)?);
            state.extend(self.sign_in().map(|it| it.prepare()).transpose()?);
        }
        for (path, content) in self.beside() {
            state::make_file(&path, content)?;
        }
        state::make_directories(&own.directories)?;
        for (path, content) in &self.state.files {
            let parent = path.parent().map(Path::to_owned);
            state::make_directories(parent.as_slice())?;
            state::make_file(path, content)?;
        }
        let mut roots = self.look_up_own(&state, real)?;
        roots.extend(own.directories.iter().cloned());
        Ok(roots)
    }

    /// Returns the additional open ports as text.
    fn other_ports(&self) -> Option<String> {
        let Network::Ports { ports, .. } = self.network() else { return None };
        let others = ports.iter().filter(|port| !USUAL_PORTS.contains(port)).map(u16::to_string);
        let others: Vec<String> = others.collect();
        let word = if others.len() == 1 { "port" } else { "ports" };
        (!others.is_empty()).then(|| format!("{word} {}", others.join(", ")))
    }

    fn network(&self) -> Network {
        if self.permissions >= Permissions::EditAndNetwork {
            return Network::Open;
        }
        let mut ports: BTreeSet<u16> = self.additions.ports.iter().copied().collect();
        let udp = match self.settings.route {
            Route::Through { port } => {
                ports.insert(port);
                false
            }
            Route::Nowhere => false,
            Route::Direct => {
                ports.extend(USUAL_PORTS);
                for text in &self.addresses {
                    ports::add_ports(text, &mut ports);
                }
                true
            }
        };
        Network::Ports { ports: ports.into_iter().collect(), udp }
    }
}

#[cfg(test)]
mod tests;
