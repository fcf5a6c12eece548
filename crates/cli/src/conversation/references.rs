//! Checks what a team file refers to: the agents of the user's configuration, and files beside it.

use std::path::{Path, PathBuf};

use convoke_agent::config::{AgentKind, Catalog, Definition, Unused};
use convoke_files::{Disk, FileKind, Files as _, TooLarge};
use convoke_model::Endpoint;
use convoke_team::{AgentSettings, BadReference, FileLocation, References, TeamFileCode};
use convoke_thread::config::Wire;

use super::project::{Origin, how_to_trust};
use super::trust::DirectoryTrust;

/// The targets of a team file's references.
pub(super) struct ProjectReferences<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) directory: &'a Path,
    pub(super) trust: DirectoryTrust,
    pub(super) origin: Origin,
}

impl References for ProjectReferences<'_> {
    fn agents(&self) -> Vec<&str> {
        self.catalog.iter().map(|(name, _)| name).collect()
    }

    fn check(&self, settings: &AgentSettings, setting: &str) -> Result<(), BadReference> {
        if let Some(Unused { problem, fix }) =
            self.definition(settings).and_then(|agent| agent.kind.unused(setting))
        {
            return Err(BadReference { code: TeamFileCode::UnusedSetting, problem, fix });
        }
        match setting {
            "instructions-file" => self.check_instructions(settings),
            "cwd" => self.check_directory(settings),
            "base-url" => check_address(settings),
            _ => Ok(()),
        }
    }

    fn missing(&self, settings: &AgentSettings) -> Option<(&'static str, BadReference)> {
        let agent = self.definition(settings)?;
        (agent.needs_command() && settings.command.is_none()).then(|| {
            let (kind, example) = match agent.kind {
                AgentKind::Acp => ("an acp", "opencode"),
                _ => ("a plain", "/usr/local/bin/review"),
            };
            let bad = BadReference {
                code: TeamFileCode::Missing,
                problem: format!("is missing: {kind} agent needs a program"),
                fix: format!("add a line such as `command = \"{example}\"`"),
            };
            ("command", bad)
        })
    }
}

impl ProjectReferences<'_> {
    fn definition(&self, settings: &AgentSettings) -> Option<&Definition> {
        self.catalog.get(&settings.agent)
    }

    fn check_instructions(&self, settings: &AgentSettings) -> Result<(), BadReference> {
        let Some(file) = &settings.instructions_file else { return Ok(()) };
        read_instructions(self.directory, file, self.trust, self.origin).map(drop)
    }

    fn check_directory(&self, settings: &AgentSettings) -> Result<(), BadReference> {
        let Some(cwd) = &settings.cwd else { return Ok(()) };
        if self.directory.join(cwd).is_dir() {
            return Ok(());
        }
        Err(BadReference {
            code: TeamFileCode::BadFile,
            problem: format!("names a directory that does not exist: {cwd}"),
            fix: "create the directory, or correct the path; it is relative to the team file"
                .to_owned(),
        })
    }
}

fn check_address(settings: &AgentSettings) -> Result<(), BadReference> {
    let Some(address) = &settings.base_url else { return Ok(()) };
    match Endpoint::new(address, Wire::Chat) {
        Ok(_) => Ok(()),
        Err(error) => Err(BadReference {
            code: TeamFileCode::InvalidValue,
            problem: format!("cannot be used: {error}"),
            fix: "write an address such as `base-url = \"http://127.0.0.1:8080/v1\"`".to_owned(),
        }),
    }
}

/// Returns the location of a file, links followed. A missing file counts as outside.
pub(super) fn locate(directory: &Path, file: &str) -> FileLocation {
    match directory.join(file).canonicalize() {
        Ok(path) if path.starts_with(directory) => FileLocation::Inside,
        _ => FileLocation::Outside,
    }
}

/// Reads an instructions file. Until the directory is trusted, it must lie in it.
pub(super) fn read_instructions(
    directory: &Path,
    file: &str,
    trust: DirectoryTrust,
    origin: Origin,
) -> Result<String, BadReference> {
    let refuse = |problem: String, fix: &str| BadReference {
        code: TeamFileCode::BadFile,
        problem,
        fix: fix.to_owned(),
    };
    let unreadable = |error: std::io::Error| {
        let fix = match TooLarge::of(&error) {
            Some(_) => "use a smaller file",
            None => "create the file, or correct the path; it is relative to the team file",
        };
        refuse(format!("`{file}` cannot be read: {error}"), fix)
    };
    let path: PathBuf = directory.join(file).canonicalize().map_err(unreadable)?;
    if trust != DirectoryTrust::Trusted && !path.starts_with(directory) {
        let how = how_to_trust(directory, trust, origin);
        return Err(BadReference {
            code: TeamFileCode::NeedsTrust,
            problem: format!("`{file}` lies outside the project and needs trust: {how}"),
            fix: "trust the directory, or move the file below the team file".to_owned(),
        });
    }
    let bytes = Disk.read(&path, FileKind::Instructions).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        refuse(format!("`{file}` is not UTF-8 at byte {at}"), "save the file as UTF-8")
    })
}
