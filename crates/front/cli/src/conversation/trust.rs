//! The trusted directories, and the choices of their team files when trust was granted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use convoke_agent::command_files::CommandFiles;
use convoke_files::{Disk, FileKind, Files, draft};
use convoke_model::root_of;
use convoke_redact::is_secret_name;
use convoke_team::{Choice, Grant, MemberChoices, Trust};
use serde::{Deserialize, Serialize};

use super::home::Home;
use crate::outcome::UsageError;

const FILE: &str = "trusted.json";
const DECLINED: &str = "not-trusted.json";

/// The trusted directories by real path. Trust does not extend to the team files of directories below.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedDirectories {
    directories: BTreeMap<PathBuf, DirectoryGrant>,
}

/// The grant of a directory: the choices of its team file, and its files that name commands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectoryGrant {
    /// The grants by member.
    pub members: Grants,
    /// The files that name commands, as they were.
    pub commands: CommandFiles,
}

/// The grants of a directory, by member.
pub type Grants = BTreeMap<String, MemberGrant>;

/// The grant of one member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberGrant {
    /// The grant that a later team file is compared with.
    grant: Grant,
    /// The choices as shown, for a later comparison. They contain no secrets.
    pub shown: Vec<String>,
}

/// Whether the user trusts a directory with the choices of its team file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryTrust {
    /// The user has not granted trust.
    Untrusted,
    /// The user granted trust, and the team file asks for more now.
    Changed,
    /// The user granted trust to all that the team file asks for.
    Trusted,
}

impl From<DirectoryTrust> for Trust {
    fn from(trust: DirectoryTrust) -> Self {
        match trust {
            DirectoryTrust::Trusted => Self::Trusted,
            DirectoryTrust::Untrusted | DirectoryTrust::Changed => Self::Untrusted,
        }
    }
}

/// The file, version 3. Version 1 was a list of directories without grants, version 2 had those of members alone.
#[derive(Serialize)]
struct File<'a> {
    version: u32,
    directories: &'a BTreeMap<PathBuf, DirectoryGrant>,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Directories<T> {
    #[serde(rename = "version")]
    _version: u32,
    directories: T,
}

impl TrustedDirectories {
    /// Reads the list; without a file nothing is trusted.
    ///
    /// A directory of a list of version 1 is trusted as long as its team file needs no trust.
    pub fn load(home: &Home) -> anyhow::Result<Self> {
        let path = home.data.join(FILE);
        let text = match Disk.read_text(&path, FileKind::State) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error).context(format!("cannot read {}", path.display())),
        };
        let directories = parse(&text).map_err(|why| {
            let path = path.display();
            UsageError(format!(
                "{path} is not a valid list of trusted directories: {why}; remove it and trust the directories again"
            ))
        })?;
        Ok(Self { directories })
    }

    /// Writes the list atomically, readable by this user alone.
    pub fn save(&self, home: &Home) -> anyhow::Result<()> {
        let path = home.data.join(FILE);
        let file = File { version: 3, directories: &self.directories };
        let write = || -> io::Result<()> {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&home.data)?;
            let mut text = serde_json::to_vec_pretty(&file)?;
            text.push(b'\n');
            draft::replace(&path, &text, 0o600)
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }

    /// Returns whether a directory is trusted with the choices of its team file.
    pub fn trust_of(&self, directory: &Path, asked: &[MemberChoices]) -> DirectoryTrust {
        let Some(granted) = self.directories.get(directory) else {
            return DirectoryTrust::Untrusted;
        };
        let is_covered = |it: &MemberChoices| {
            granted.members.get(&it.member).is_some_and(|granted| granted.grant.covers(&it.grant))
        };
        if asked.iter().all(is_covered) { DirectoryTrust::Trusted } else { DirectoryTrust::Changed }
    }

    /// Returns whether the user trusts a directory without a team file. Instruction files are read from the root of its
    /// repository down, so trust in the root counts too.
    pub fn trust_here(&self, cwd: &Path, home: Option<&Path>) -> Trust {
        let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
        let root = root_of(&cwd, home);
        let here = [&cwd, &root].map(|directory| self.trust_of(directory, &[]));
        if here.contains(&DirectoryTrust::Trusted) { Trust::Trusted } else { Trust::Untrusted }
    }

    /// Returns the grant of a directory.
    pub fn granted(&self, directory: &Path) -> Option<&DirectoryGrant> {
        self.directories.get(directory)
    }

    /// Trusts a directory with the current choices of its team file and its files that name commands; earlier grants
    /// are replaced.
    pub fn grant(&mut self, directory: PathBuf, asked: &[MemberChoices], commands: CommandFiles) {
        let grants = asked.iter().map(|it| {
            let shown = it.choices.iter().map(shown_choice).collect();
            (it.member.clone(), MemberGrant { grant: it.grant.clone(), shown })
        });
        let grant = DirectoryGrant { members: grants.collect(), commands };
        self.directories.insert(directory, grant);
    }

    /// Revokes the trust in a directory. Returns whether there was any.
    pub fn remove(&mut self, directory: &Path) -> bool {
        self.directories.remove(directory).is_some()
    }

    /// Returns the directories, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Path> {
        self.directories.keys().map(PathBuf::as_path)
    }
}

/// The directories that the user was asked about and did not trust. Nobody is asked twice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declined {
    directories: BTreeSet<PathBuf>,
}

impl Declined {
    /// Reads the list; without a file it is empty.
    pub fn load(home: &Home) -> anyhow::Result<Self> {
        let path = home.data.join(DECLINED);
        match Disk.read_text(&path, FileKind::State) {
            Ok(text) => serde_json::from_str(&text)
                .with_context(|| format!("{} is damaged; remove it", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).context(format!("cannot read {}", path.display())),
        }
    }

    /// Returns whether the user was asked about a directory.
    pub fn has(&self, directory: &Path) -> bool {
        self.directories.contains(directory)
    }

    pub fn add(&mut self, directory: PathBuf) {
        self.directories.insert(directory);
    }

    /// Writes the list.
    pub fn save(&self, home: &Home) -> anyhow::Result<()> {
        let path = home.data.join(DECLINED);
        let text = serde_json::to_vec_pretty(self)?;
        let write = || -> io::Result<()> {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&home.data)?;
            draft::replace(&path, &text, 0o600)
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }
}

fn parse(text: &str) -> Result<BTreeMap<PathBuf, DirectoryGrant>, String> {
    let words = |error: serde_json::Error| error.to_string();
    let Version { version } = serde_json::from_str(text).map_err(words)?;
    match version {
        1 => {
            let file: Directories<Vec<PathBuf>> = serde_json::from_str(text).map_err(words)?;
            Ok(file.directories.into_iter().map(|path| (path, DirectoryGrant::default())).collect())
        }
        2 => {
            let file: Directories<BTreeMap<PathBuf, Grants>> =
                serde_json::from_str(text).map_err(words)?;
            let grant = |members| DirectoryGrant { members, ..DirectoryGrant::default() };
            Ok(file.directories.into_iter().map(|(path, it)| (path, grant(it))).collect())
        }
        3 => {
            let file: Directories<_> = serde_json::from_str(text).map_err(words)?;
            Ok(file.directories)
        }
        other => Err(format!("unknown version {other}")),
    }
}

/// Returns a choice as it is shown and stored. The value of a variable that may be a secret is not.
pub fn shown_choice(choice: &Choice) -> String {
    let Choice { setting, value } = choice;
    let variable = setting.strip_prefix("env.");
    if variable.is_some_and(is_secret_name) {
        return format!("{setting} = [redacted]");
    }
    format!("{setting} = {value}")
}
