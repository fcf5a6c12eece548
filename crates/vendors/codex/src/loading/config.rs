//! The few keys of Codex's configuration that decide which documents it loads.
//!
//! With a file that is malformed, or a value of the wrong type under any key that it knows, Codex does
//! not start at all.

use std::convert::Infallible;
use std::path::Path;

use convoke_codex::config::{ConfigPlaces, DocumentSettings, Layers, check_start, parse_override};
use convoke_codex::project_doc::{DEFAULT_MAX_BYTES, Rules, Trust};
use convoke_files::Files;
use toml::Value;

use super::skills::SkillSettings;
use convoke_explain::AgentReport;
use convoke_explain::Session;
use convoke_explain::config;
use convoke_explain::diagnostics;
use convoke_explain::place;

const GIT: &str = ".git";

/// The merged layers of the configuration.
#[derive(Debug)]
pub(super) struct Config {
    pub max_bytes: u64,
    pub fallback_names: Vec<String>,
    pub root_markers: Vec<String>,
    pub trust: Trust,
    pub skills: SkillSettings,
    /// Whether Codex starts with it.
    pub is_usable: bool,
}

impl Config {
    pub(super) fn read(
        files: &dyn Files,
        session: &Session,
        codex_home: &Path,
        cwd: &Path,
        rules: Rules,
        report: &mut AgentReport,
    ) -> Self {
        let before = report.diagnostics.len();
        let machine = session.etc.join("codex");
        let profile = ["-p", "--profile"].into_iter().find_map(|name| session.values(name).pop());
        let places = ConfigPlaces {
            machine: &machine,
            codex_home,
            home: Some(&session.home),
            cwd,
            profile: profile.filter(|_| rules == Rules::V0_166),
        };
        let mut wrong = None;
        let Ok(layers) = Layers::read(
            files,
            places,
            rules,
            arguments(session),
            |path| Ok::<_, Infallible>(config::toml(files, path, report).unwrap_or_default()),
            |of_user| {
                // Codex 0.98 reads the user's layers first, to learn which projects are trusted.
                if rules == Rules::V0_98 {
                    wrong = check_start(files, of_user, rules, None).err();
                }
                Ok(DocumentSettings::read(of_user).unwrap_or_default())
            },
        );
        let wrong = wrong.or_else(|| check_start(files, &layers.merged, rules, profile).err());
        if let Some(wrong) = wrong
            && let Some(source) = layers.source_of(&wrong)
        {
            let wrong = wrong.at(source.display().to_string());
            report.warn(diagnostics::SETTINGS_MALFORMED, source, wrong.to_string());
        }
        let settings = DocumentSettings::read(&layers.merged).unwrap_or_default();
        let model = ["-m", "--model"].into_iter().find_map(|name| session.values(name).pop());
        Self {
            skills: SkillSettings::read(&layers.merged, layers.skill_switches, model),
            max_bytes: settings.max_bytes.unwrap_or(DEFAULT_MAX_BYTES),
            fallback_names: settings.fallback_names.unwrap_or_default(),
            root_markers: settings.root_markers,
            trust: layers.trust,
            is_usable: report.diagnostics.len() == before,
        }
    }

    /// Returns whether a marker, and not the working directory alone, decides the top directory.
    pub(super) fn has_root(&self, files: &dyn Files, cwd: &Path, rules: Rules) -> bool {
        let git = [GIT.to_owned()];
        let markers = match rules {
            Rules::V0_98 => &git,
            Rules::V0_166 => self.root_markers.as_slice(),
        };
        place::nearest_with(files, cwd, markers).is_some()
    }
}

/// Returns the `-c key=value` of the command line.
fn arguments(session: &Session) -> impl Iterator<Item = (String, Value)> {
    let given = ["-c", "--config"].into_iter().flat_map(|name| session.values(name));
    given.filter_map(|given| parse_override(given).ok())
}
