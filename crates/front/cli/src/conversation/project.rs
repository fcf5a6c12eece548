//! The project: a team file, its directory, and its trust.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use convoke_agent::command_files::{CommandFiles, TrustedCommands};
use convoke_agent::config::{AgentKind, Catalog};
use convoke_agent::diagnostics;
use convoke_agent::sandbox::Secrets;
use convoke_core::Diagnostic;
use convoke_files::{Disk, FileKind, Files as _, TooLarge, absolute, git};
use convoke_inspect::HostEnvironment;
use convoke_team::{
    AgentSettings, FileLocation, MemberChoices, MemberKind, PermissionFile, Team, TeamFileErrors,
    Trust, TrustedSetting,
};

use super::home::Home;
use super::references::{ProjectReferences, locate, read_instructions};
use super::trust::{DirectoryTrust, TrustedDirectories};
use crate::outcome::UsageError;

/// The usual name of a team file.
pub const TEAM_FILE: &str = "convoke.toml";

/// The user's own configuration: the agents, and the directories that the user trusts.
#[derive(Debug)]
pub struct UserConfiguration {
    /// The agents by name.
    pub catalog: Catalog,
    pub trusted: TrustedDirectories,
    /// The rules for agents that ask.
    pub permissions: PermissionFile,
    /// The user's secrets.
    pub secrets: Secrets,
    /// The user's home directory.
    pub home: PathBuf,
}

impl UserConfiguration {
    /// Reads `agents.toml`, `permissions.toml` and the list of trusted directories.
    pub fn load(home: &Home) -> anyhow::Result<Self> {
        Ok(Self {
            catalog: home.read_catalog()?,
            trusted: TrustedDirectories::load(home)?,
            permissions: home.read_permissions()?,
            secrets: home.secrets.clone(),
            home: home.user.clone(),
        })
    }
}

/// A team, its directory, and whether the user trusts its settings.
#[derive(Debug, Clone)]
pub struct Project {
    /// The name of the team file in messages.
    pub file: String,
    /// The text of the team file.
    pub text: String,
    pub team: Team,
    /// The directory of the team file, in which agents work.
    pub directory: PathBuf,
    /// The working directories that members name, as they were when the trust was looked up.
    working_directories: WorkingDirectories,
    /// Whether the user trusts the settings of the file.
    pub trust: DirectoryTrust,
    /// The files that name commands, as the user trusts them.
    trusted_commands: CommandFiles,
    /// The user's secrets, which no file of a member may be.
    pub(super) secrets: Secrets,
    /// The user's home directory.
    home: PathBuf,
    /// The origin of the text.
    pub origin: Origin,
}

/// The real paths of the working directories that a team file names, each looked up once: the one that is trusted is the one
/// in which a member works. One that does not exist is as it is written.
type WorkingDirectories = BTreeMap<String, PathBuf>;

/// The origin of a team file's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// From the file itself.
    File,
    /// From a session, which stores a copy.
    Session,
    /// From this program: the built-in sample.
    Sample,
}

/// The errors of a team file. Displayed, each begins with `FILE:LINE:`.
#[derive(Debug, thiserror::Error)]
#[error("{}", .errors.report(.file).trim_end())]
pub struct TeamFileReport {
    /// The path of the team file, as the user gave it.
    pub file: String,
    pub errors: TeamFileErrors,
}

/// Returns the path of a directory as text, as sessions and lists of trusted directories store it.
pub fn as_text(directory: &Path) -> Result<String, UsageError> {
    match directory.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(UsageError(format!(
            "the path of the directory {} is not UTF-8; rename the directory",
            directory.display()
        ))),
    }
}

impl Project {
    /// Reads and checks a team file.
    pub fn read(path: &Path, user: &UserConfiguration) -> Result<Self, TeamFileReport> {
        let file = path.display().to_string();
        let (text, directory) = match read_team_file(path) {
            Ok(read) => read,
            Err(errors) => return Err(TeamFileReport { file, errors }),
        };
        Self::parse(file, text, directory, user, Origin::File)
    }

    /// Reads and checks a team file as if its directory were trusted, to show the settings that need trust.
    pub fn read_to_trust(path: &Path, user: &UserConfiguration) -> Result<Self, TeamFileReport> {
        let file = path.display().to_string();
        match read_team_file(path) {
            Ok((text, directory)) => {
                let trust = DirectoryTrust::Trusted;
                let working_directories = match Team::parse(&text) {
                    Ok(team) => working_directories(&team, &directory),
                    // A file with errors takes no effect.
                    Err(_) => WorkingDirectories::new(),
                };
                let place = (directory, working_directories);
                Self::checked(file, text, place, user, trust, Origin::File)
            }
            Err(errors) => Err(TeamFileReport { file, errors }),
        }
    }

    /// Parses and checks the text of a team file.
    pub fn parse(
        file: String,
        text: String,
        directory: PathBuf,
        user: &UserConfiguration,
        origin: Origin,
    ) -> Result<Self, TeamFileReport> {
        // A file with errors takes no effect, and is checked as if it were trusted.
        let (places, choices) = match Team::parse(&text) {
            Ok(team) => {
                let places = working_directories(&team, &directory);
                let choices = choices(&team, &directory, &places);
                (places, choices)
            }
            Err(_) => Default::default(),
        };
        let trust = match origin {
            Origin::File => user.trusted.trust_of(&directory, &choices),
            Origin::Session | Origin::Sample => DirectoryTrust::Untrusted,
        };
        let granted = user.trusted.granted(&directory).map(|granted| granted.commands.clone());
        let project = Self::checked(file, text, (directory, places), user, trust, origin)?;
        Ok(Self { trusted_commands: granted.unwrap_or_default(), ..project })
    }

    fn checked(
        file: String,
        text: String,
        (directory, working_directories): (PathBuf, WorkingDirectories),
        user: &UserConfiguration,
        trust: DirectoryTrust,
        origin: Origin,
    ) -> Result<Self, TeamFileReport> {
        let UserConfiguration { catalog, secrets, home, .. } = user;
        let references =
            ProjectReferences { catalog, secrets, directory: &directory, trust, origin };
        match Team::check(&text, &references) {
            Ok(team) => {
                let (secrets, home) = (secrets.clone(), home.clone());
                let trusted_commands = CommandFiles::default();
                let project = Self {
                    file,
                    text,
                    team,
                    directory,
                    working_directories,
                    trust,
                    trusted_commands,
                    secrets,
                    home,
                    origin,
                };
                Ok(project)
            }
            Err(errors) => Err(TeamFileReport { file, errors }),
        }
    }

    /// Returns whether the settings that need trust take effect.
    pub fn trust(&self) -> Trust {
        self.trust.into()
    }

    /// Returns the members' choices that need trust.
    pub fn choices(&self) -> Vec<MemberChoices> {
        choices(&self.team, &self.directory, &self.working_directories)
    }

    /// Returns the working directory of a member, without links.
    pub fn working_directory(&self, settings: &AgentSettings) -> &Path {
        let named = settings.cwd.as_ref().and_then(|cwd| self.working_directories.get(cwd));
        named.unwrap_or(&self.directory)
    }

    /// Returns the directories in which members work.
    pub fn places(&self) -> Vec<PathBuf> {
        let named = self.working_directories.values().filter(|_| self.trust() == Trust::Trusted);
        named.chain([&self.directory]).cloned().collect()
    }

    /// Reads the files that name commands, in the project and in the working directories of its members.
    pub fn command_files(&self) -> CommandFiles {
        let agents = self.team.members.iter().filter_map(|member| member.agent());
        let places = agents.filter(|settings| settings.cwd.is_some());
        let places =
            places.map(|settings| place_in(&self.directory, self.working_directory(settings)));
        let (own, elsewhere): (Vec<_>, Vec<_>) =
            places.partition(|(root, _)| *root == self.directory);
        let below: BTreeSet<PathBuf> = own.into_iter().map(|(_, below)| below).collect();
        let read = |root: &Path, below| CommandFiles::read(root, &below, Some(&self.home));
        let mut files = read(&self.directory, below);
        for (root, below) in elsewhere {
            files.add(&root, read(&root, [below].into()));
        }
        files
    }

    /// Returns the files that the trust in the project is for, for turns in a directory.
    pub fn trusted_commands(&self, cwd: &Path) -> TrustedCommands {
        let (root, below) = place_in(&self.directory, cwd);
        let files = if root == self.directory {
            self.trusted_commands.clone()
        } else {
            self.trusted_commands.within(&root)
        };
        let (granted, home) = (self.directory.clone(), Some(self.home.clone()));
        TrustedCommands { files, below, granted, home }
    }

    /// Returns the location of an instructions file.
    pub fn locate(&self, settings: &AgentSettings) -> FileLocation {
        let file = settings.instructions_file.as_deref();
        file.map(|file| locate(&self.directory, file)).unwrap_or_default()
    }

    /// Returns the diagnostic of a setting that needs trust and was left out.
    pub fn left_out(&self, member: &str, setting: TrustedSetting) -> Diagnostic {
        let how = how_to_trust(&self.directory, self.trust, self.origin);
        let setting = setting.as_str();
        let message = format!("`member.{member}.{setting}` needs trust and was left out: {how}");
        Diagnostic::new(diagnostics::AGENT_SETTING_REFUSED, message).at_path(self.file.clone())
    }

    /// Returns the team as conversations use it: with a person, and with each agent's prompt format instead of its
    /// configured name.
    pub fn team_with_formats(&self, catalog: &Catalog) -> Team {
        let mut team = self.team.clone();
        team.ensure_person();
        for member in &mut team.members {
            let MemberKind::Agent(settings) = &mut member.kind else { continue };
            let Some(definition) = catalog.get(&settings.agent) else { continue };
            let format = match definition.kind {
                AgentKind::StandIn => AgentKind::Plain,
                kind => kind,
            };
            format.name().clone_into(&mut settings.agent);
        }
        team
    }

    /// Reads the text of a member's instructions file.
    pub fn read_instructions(
        &self,
        settings: &AgentSettings,
    ) -> Result<Option<String>, UsageError> {
        let Some(file) = &settings.instructions_file else { return Ok(None) };
        let read =
            read_instructions(&self.directory, file, (self.trust, self.origin), &self.secrets);
        read.map(Some).map_err(|bad| {
            UsageError(format!("{}: `instructions-file` {}; {}", self.file, bad.problem, bad.fix))
        })
    }
}

/// Returns the directory that a member's files belong to, and its working directory below: the project, or a working
/// directory elsewhere. Both are real paths.
pub(super) fn place_in(project: &Path, cwd: &Path) -> (PathBuf, PathBuf) {
    match cwd.strip_prefix(project) {
        Ok(below) => (project.to_owned(), below.to_owned()),
        Err(_) => (cwd.to_owned(), PathBuf::new()),
    }
}

fn working_directories(team: &Team, directory: &Path) -> WorkingDirectories {
    let agents = team.members.iter().filter_map(|member| member.agent());
    let named = agents.filter_map(|settings| settings.cwd.clone());
    let find = |cwd: String| {
        let real = directory.join(&cwd).canonicalize();
        let real = real.unwrap_or_else(|_| absolute(directory, Path::new(&cwd)));
        (cwd, real)
    };
    named.map(find).collect()
}

fn choices(team: &Team, directory: &Path, places: &WorkingDirectories) -> Vec<MemberChoices> {
    let resolve = |cwd: &str| {
        let real = places.get(cwd)?;
        (*real != absolute(directory, Path::new(cwd))).then(|| real.display().to_string())
    };
    team.choices(|file| locate(directory, file), resolve)
}

/// Returns the instructions to trust a team file.
pub(super) fn how_to_trust(directory: &Path, trust: DirectoryTrust, origin: Origin) -> String {
    let shown = directory.display();
    match (origin, trust) {
        (Origin::Session, _) => format!(
            "a session's copy counts only while {shown}/{TEAM_FILE} has the same text and that directory is trusted"
        ),
        (_, DirectoryTrust::Changed) => format!(
            "the team file asks for more than you trusted; `convoke trust {shown}` shows the difference"
        ),
        (Origin::File | Origin::Sample, _) => format!("run `convoke trust {shown}`"),
    }
}

/// Reads the text of a team file, and finds the real path of its directory.
fn read_team_file(path: &Path) -> Result<(String, PathBuf), TeamFileErrors> {
    let unreadable = |error: io::Error| {
        let fix = match TooLarge::from_error(&error) {
            Some(_) => "move long instructions into an `instructions-file`",
            None if error.kind() == io::ErrorKind::IsADirectory => {
                "name the team file in the directory"
            }
            None => "name a file that exists, or write one with `convoke init`",
        };
        TeamFileErrors::unreadable(format!("cannot read the team file: {error}"), fix)
    };
    let bytes = Disk.read(path, FileKind::TeamFile).map_err(unreadable)?;
    let text =
        String::from_utf8(bytes).map_err(|error| TeamFileErrors::not_utf8(error.as_bytes()))?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Ok((text, directory.canonicalize().map_err(unreadable)?))
}

/// Finds the team file of the working directory: in it, or in a parent directory up to the root of the
/// repository.
pub fn find_team_file(host_environment: &HostEnvironment) -> Option<PathBuf> {
    let directory = &*host_environment.cwd;
    let top = git::project_root(&Disk, directory, Some(&host_environment.home));
    let searched = directory.ancestors().take_while(|above| match &top {
        Some(top) => above.starts_with(top),
        None => *above == directory,
    });
    // An unreadable team file is an error, not an absent one.
    let found =
        searched.map(|above| above.join(TEAM_FILE)).find(|path| path.symlink_metadata().is_ok())?;
    Some(found.strip_prefix(directory).map_or(found.clone(), Path::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_working_directory_that_became_a_link_needs_trust_again() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().canonicalize().unwrap();
        let text = "[[member]]\nname = \"max\"\nagent = \"claude\"\ncwd = \"sub\"\n";
        let team = Team::parse(text).unwrap();
        std::fs::create_dir_all(directory.join("sub")).unwrap();
        std::fs::create_dir_all(directory.join("keys")).unwrap();
        let choices = || choices(&team, &directory, &working_directories(&team, &directory));
        let granted = choices().remove(0).grant;
        assert!(granted.covers(&choices()[0].grant));
        std::fs::remove_dir(directory.join("sub")).unwrap();
        std::os::unix::fs::symlink("keys", directory.join("sub")).unwrap();
        let asked = choices().remove(0);
        assert!(!granted.covers(&asked.grant));
        assert!(asked.choices[0].value.contains("/keys"), "{asked:?}");
    }

    /// Between the two, a turn could put a link there.
    #[test]
    fn a_member_works_in_the_directory_that_the_trust_was_looked_up_for() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().canonicalize().unwrap();
        let user = UserConfiguration {
            catalog: Catalog::built_in(convoke_vendors::programs()),
            trusted: TrustedDirectories::default(),
            permissions: PermissionFile::default(),
            secrets: Secrets::default(),
            home: directory.join("home"),
        };
        for name in ["sub", "keys"] {
            std::fs::create_dir(directory.join(name)).unwrap();
        }
        let text = "[[member]]\nname = \"max\"\nagent = \"claude\"\ncwd = \"keys/../sub\"\n";
        let (file, text) = (TEAM_FILE.to_owned(), text.to_owned());
        let project = Project::parse(file, text, directory.clone(), &user, Origin::File).unwrap();
        let granted = project.choices();
        std::fs::remove_dir(directory.join("sub")).unwrap();
        std::os::unix::fs::symlink("keys", directory.join("sub")).unwrap();
        let settings = project.team.members[0].agent().unwrap();
        let cwd = project.working_directory(settings);
        assert_eq!(cwd, directory.join("sub"));
        assert_eq!(place_in(&directory, cwd), (directory.clone(), "sub".into()));
        assert_eq!(project.choices(), granted, "what is granted is what is used");
    }

    #[test]
    fn a_team_file_is_found_up_to_the_root_of_the_repository() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let find_team_file = |cwd: &Path| {
            let (home, cwd) = (at("home"), cwd.to_owned());
            find_team_file(&HostEnvironment { environment: BTreeMap::new(), home, cwd })
        };
        std::fs::create_dir_all(at("repo/a/b")).unwrap();
        std::fs::write(at(TEAM_FILE), "").unwrap();
        assert_eq!(find_team_file(&at("repo/a")), None);
        std::fs::write(at("repo/convoke.toml"), "").unwrap();
        std::fs::create_dir(at("repo/.git")).unwrap();
        assert_eq!(find_team_file(&at("repo/a")), None, "an empty `.git` marks no project");
        std::fs::write(at("repo/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        assert_eq!(find_team_file(&at("repo/a/b")), Some(at("repo/convoke.toml")));
        std::fs::write(at("repo/a/convoke.toml"), "").unwrap();
        assert_eq!(find_team_file(&at("repo/a/b")), Some(at("repo/a/convoke.toml")));
        assert_eq!(find_team_file(&at("repo/a")), Some(TEAM_FILE.into()));

        std::fs::create_dir_all(at("home/project")).unwrap();
        std::fs::create_dir_all(at("home/.git")).unwrap();
        std::fs::write(at("home/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        std::fs::write(at("home/convoke.toml"), "").unwrap();
        assert_eq!(find_team_file(&at("home/project")), None, "the home is no project");
    }
}
