//! How a CLI is measured: with a copy of its user's configuration in a private home.

use std::path::{Path, PathBuf};

use convoke_agent::Cli;
use convoke_agent::endpoint::UntrustedProject;
use convoke_agent::endpoint::measured::Commands;
use convoke_agent::launch::UntrustedFile;
use convoke_explain::{AgentReport, LoadingRules};

use crate::{ConfigurationCopy, HomeError, UserHome};

/// A CLI whose requests can be measured.
pub trait MeasuredCli: Cli {
    /// Returns the rules by which it loads files.
    fn loading_rules(&self) -> &'static LoadingRules;

    /// Copies an entry of the configuration; `name` is its name in the facts.
    fn copy_entry(
        &self,
        copy: &mut ConfigurationCopy<'_>,
        _name: &str,
        source: &Path,
        target: &Path,
    ) -> Result<(), HomeError> {
        copy.copy(source, target)
    }

    /// Returns the files of the configuration without a fixed name, relative to the CLI's directory.
    fn unnamed_configuration(&self, _directory: &Path, _cwd: &Path) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns the variables that make it load what it loads when it is measured, where trust is supplied.
    fn trusting_variables(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Copies what else belongs to the configuration. Returns the parts that were not copied.
    fn complete_copy(&self, _copy: &mut ConfigurationCopy<'_>) -> Result<Vec<PathBuf>, HomeError> {
        Ok(Vec::new())
    }

    /// Returns whether the program may run the commands of a project's own settings, if the user trusts the project
    /// only there: `report` explains what the program loads. The error is a file whose commands cannot be withheld.
    fn commands(
        &self,
        user: &UserHome,
        cwd: &Path,
        report: &dyn Fn() -> Option<AgentReport>,
    ) -> Result<Commands, PathBuf>;

    /// Returns a file of a project that names commands which are withheld, if there is one. The error is a file that may
    /// name commands which are not found.
    fn withheld_commands(
        &self,
        _project: UntrustedProject<'_>,
    ) -> Result<Option<PathBuf>, UntrustedFile> {
        Ok(None)
    }

    /// Returns a file of the user's own that names commands which are withheld together with those of a project.
    fn withheld_commands_of_user(&self, _user: &UserHome) -> Option<PathBuf> {
        None
    }

    /// Returns a file of a project that names commands which cannot be withheld from a program with its user's own
    /// sign-in, if there is one. The error is a file that may name commands which are not found.
    fn unwithheld_commands(
        &self,
        _project: UntrustedProject<'_>,
    ) -> Result<Option<PathBuf>, UntrustedFile> {
        Ok(None)
    }

    /// Returns whether the last text of a request asks for a summary that is to replace the history.
    fn asks_for_compaction(&self, _text: &str) -> bool {
        false
    }

    /// Describes the trust that the program was given, but that its user has not granted here.
    fn trust_supplied(&self, _report: Option<&AgentReport>, _cwd: &Path) -> Option<String> {
        None
    }

    /// Returns the texts of settings that are part of requests, with the user's arguments and directory.
    fn setting_texts(
        &self,
        _arguments: &[String],
        _directory: Option<&Path>,
        _cwd: &Path,
    ) -> SettingTexts {
        SettingTexts::default()
    }

    /// Returns the list of skills in the texts of a request.
    fn listed_skills<'t>(&self, texts: &[&'t str]) -> Vec<ListedSkill<'t>>;

    /// Returns whether the skills of one place are listed in a fixed order.
    fn orders_skills(&self) -> bool {
        true
    }

    /// Returns how many bytes the private home can cost the descriptions of skills that are cut.
    fn unsteady_bytes(&self, _texts: &[&str]) -> usize {
        0
    }
}

/// The texts in settings.
#[derive(Debug, Default)]
pub struct SettingTexts {
    /// The names of settings, with their texts.
    pub texts: Vec<(String, String)>,
    /// The files that settings name.
    pub files: Vec<PathBuf>,
}

/// A skill as a request lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedSkill<'t> {
    /// Its name.
    pub name: &'t str,
    /// Its description.
    pub description: String,
}
