//! The project: a team file, its directory, and how far the user trusts it.

use std::path::{Path, PathBuf};

use convoke_agent::turn_input::Trust;
use convoke_core::Diagnostic;
use convoke_files::{Disk, FileKind, Files};
use convoke_team::{AgentSettings, Team};

use super::trust::TrustedDirectories;
use crate::outcome::UsageError;
use convoke_agent::diagnostics;

/// The usual name of a team file.
pub const TEAM_FILE: &str = "convoke.toml";

/// A team, the directory that it works in, and whether the user trusts that directory.
#[derive(Debug, Clone)]
pub struct Project {
    /// What to call the team's file in messages.
    pub file: String,
    /// The text of the team file.
    pub text: String,
    /// The team.
    pub team: Team,
    /// The directory of the team file, in which agents work.
    pub directory: PathBuf,
    /// Whether the user trusts what the file says.
    pub trust: Trust,
    /// Where the text comes from.
    pub origin: Origin,
}

/// Where the text of a team file comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// From the file itself.
    File,
    /// From a session, which keeps a copy.
    Session,
    /// From this program: the built-in sample.
    Sample,
}

impl Project {
    /// Reads a team file.
    pub fn read(path: &Path, trusted: &TrustedDirectories) -> Result<Self, UsageError> {
        let shown = path.display();
        let text = Disk.read_text(path, FileKind::TeamFile).map_err(|error| {
            UsageError(format!(
                "cannot read the team file {shown}: {error}; name one with --team FILE"
            ))
        })?;
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let directory = directory.canonicalize().map_err(|error| {
            UsageError(format!("cannot read the directory of {shown}: {error}"))
        })?;
        let trust = trusted.trust_of(&directory);
        Self::of(shown.to_string(), text, directory, trust)
    }

    /// Says what the user can do to have the file trusted.
    pub fn how_to_trust(&self) -> String {
        let directory = self.directory.display();
        match self.origin {
            Origin::File | Origin::Sample => format!("`convoke trust {directory}` gives it"),
            Origin::Session => format!(
                "it counts only while it stands in {directory}/{TEAM_FILE} and that directory is trusted"
            ),
        }
    }

    /// Says that a setting of a member needs trust, and was left out.
    pub fn left_out(&self, member: &str, setting: &str) -> Diagnostic {
        let how = self.how_to_trust();
        let message = format!("`member.{member}.{setting}` needs trust and was left out: {how}");
        Diagnostic::new(diagnostics::AGENT_SETTING_REFUSED, message).at_path(self.file.clone())
    }

    /// Reads a team file's text.
    pub fn of(
        file: String,
        text: String,
        directory: PathBuf,
        trust: Trust,
    ) -> Result<Self, UsageError> {
        let team = Team::parse(&text).map_err(|error| UsageError(format!("{file}: {error}")))?;
        Ok(Self { file, text, team, directory, trust, origin: Origin::File })
    }

    /// Reads the text of a member's instruction file. Until the directory is trusted, it must lie in it.
    pub fn read_instructions(
        &self,
        settings: &AgentSettings,
    ) -> Result<Option<String>, UsageError> {
        let Some(file) = &settings.instructions_file else { return Ok(None) };
        let refuse =
            |why: String| UsageError(format!("{}: instructions-file `{file}` {why}", self.file));
        let unreadable = |error: std::io::Error| refuse(format!("cannot be read: {error}"));
        let path = self.directory.join(file).canonicalize().map_err(unreadable)?;
        if self.trust == Trust::Untrusted && !path.starts_with(&self.directory) {
            let how = self.how_to_trust();
            return Err(refuse(format!(
                "lies outside the project and needs trust: {how}; or move it below the team file"
            )));
        }
        let bytes = Disk.read(&path, FileKind::Instructions).map_err(unreadable)?;
        let text = String::from_utf8(bytes).map_err(|error| {
            refuse(format!("is not UTF-8 at byte {}", error.utf8_error().valid_up_to()))
        })?;
        Ok(Some(text))
    }
}

/// Finds the team file of the working directory: in it, by its name alone, or above it as far as its
/// repository goes.
pub fn find_team_file(directory: &Path) -> Option<PathBuf> {
    let top = directory.ancestors().find(|above| above.join(".git").exists());
    let searched = directory.ancestors().take_while(|above| match top {
        Some(top) => above.starts_with(top),
        None => *above == directory,
    });
    let found = searched.map(|above| above.join(TEAM_FILE)).find(|path| path.is_file())?;
    Some(found.strip_prefix(directory).map_or(found.clone(), Path::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_file_is_found_as_far_up_as_the_repository_goes() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        std::fs::create_dir_all(at("repo/a/b")).unwrap();
        std::fs::write(at(TEAM_FILE), "").unwrap();
        assert_eq!(find_team_file(&at("repo/a")), None);
        std::fs::create_dir(at("repo/.git")).unwrap();
        assert_eq!(find_team_file(&at("repo/a")), None);
        std::fs::write(at("repo/convoke.toml"), "").unwrap();
        assert_eq!(find_team_file(&at("repo/a/b")), Some(at("repo/convoke.toml")));
        std::fs::write(at("repo/a/convoke.toml"), "").unwrap();
        assert_eq!(find_team_file(&at("repo/a/b")), Some(at("repo/a/convoke.toml")));
        assert_eq!(find_team_file(&at("repo/a")), Some(TEAM_FILE.into()));
    }
}
