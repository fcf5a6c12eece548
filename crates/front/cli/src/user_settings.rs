//! The user's own settings, `config.toml`: the store, prices of models, and directories that are left out.

use std::path::{Path, PathBuf};

use convoke_files::{Disk, FileKind, Files};
use convoke_inspect::HostEnvironment;
use convoke_open::prices::OwnPrices;
use serde::Deserialize;

use crate::outcome::UsageError;

/// The name of the file, in the directory of the user's configuration.
const FILE: &str = "config.toml";

/// The user's own settings.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct UserSettings {
    /// The URL of the store of sessions.
    pub store: Option<String>,
    /// The prices of models, by name.
    pub prices: OwnPrices,
    pub sessions: SessionSettings,
}

/// What is done with the sessions of other programs.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct SessionSettings {
    /// Directories whose sessions are not listed, counted, searched or kept.
    pub exclude: Vec<PathBuf>,
}

impl UserSettings {
    /// Reads the settings, if there are any.
    pub fn read(host: &HostEnvironment) -> Result<Self, UsageError> {
        let [configuration, _] = host.private_directories();
        Self::read_in(&configuration, &host.home)
    }

    /// Reads the settings in a directory of configuration, of the user with this home.
    pub fn read_in(configuration: &Path, home: &Path) -> Result<Self, UsageError> {
        let path = configuration.join(FILE);
        let text = match Disk.read_text(&path, FileKind::Configuration) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => {
                return Err(UsageError(format!("cannot read {}: {error}", path.display())));
            }
        };
        Self::parse(&text, home).map_err(|error| {
            let line = error.span().map_or(1, |span| {
                1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count()
            });
            UsageError(format!("{}:{line}: {}", path.display(), error.message()))
        })
    }

    fn parse(text: &str, home: &Path) -> Result<Self, toml::de::Error> {
        let mut settings: Self = toml::from_str(text)?;
        for directory in &mut settings.sessions.exclude {
            if let Ok(below) = directory.strip_prefix("~") {
                *directory = home.join(below);
            }
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_mistakes_are_named() {
        let text = "[prices.\"my/model\"]\ninput = 2\noutput = 10.5\ncache-read = 0.2\n\n\
                    [sessions]\nexclude = [\"~/private\", \"/srv/secret\"]\n";
        let settings = UserSettings::parse(text, Path::new("/home/kim")).unwrap();
        assert_eq!(settings.prices["my/model"].output.to_bits(), 10.5_f64.to_bits());
        let excluded = ["/home/kim/private", "/srv/secret"].map(PathBuf::from);
        assert_eq!(settings.sessions.exclude, excluded);
        let error = UserSettings::parse("[sessions]\nexclud = []\n", Path::new("/")).unwrap_err();
        assert!(error.message().contains("exclude"), "{error}");
    }
}
