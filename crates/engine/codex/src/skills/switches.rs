//! Skills that the configuration turns off, `[[skills.config]]`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use convoke_files::Files;
use toml::{Table, Value};

use crate::config::resolved;

/// The skills that are turned off or on, by path or by name. Later entries take precedence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Switches {
    by_path: BTreeMap<PathBuf, bool>,
    by_name: BTreeMap<String, bool>,
}

impl Switches {
    /// Adds the entries of a layer, with paths relative to a directory.
    pub fn take(&mut self, layer: &Table, folder: &Path, home: Option<&Path>) {
        let entries = layer.get("skills").and_then(|it| it.get("config")?.as_array());
        for entry in entries.into_iter().flatten() {
            let Some(enabled) = entry.get("enabled").and_then(Value::as_bool) else {
                continue;
            };
            if let Some(path) = entry.get("path").and_then(Value::as_str) {
                self.by_path.insert(resolved(path, folder, home), enabled);
            } else if let Some(name) = entry.get("name").and_then(Value::as_str) {
                self.by_name.insert(name.to_owned(), enabled);
            }
        }
    }

    /// Resolves the links in the paths, once for all skills.
    #[must_use]
    pub fn without_links(self, files: &dyn Files) -> Self {
        let real = |path: PathBuf| files.canonicalize(&path).unwrap_or(path);
        let by_path = self.by_path.into_iter().map(|(path, enabled)| (real(path), enabled));
        Self { by_path: by_path.collect(), by_name: self.by_name }
    }

    /// Returns whether the `SKILL.md` at a path without links is turned off.
    pub fn is_off(&self, path: &Path) -> bool {
        self.by_path.get(path) == Some(&false)
    }

    /// Returns whether a name is turned off. Codex 0.98 does not support names.
    pub fn is_name_off(&self, name: &str) -> bool {
        self.by_name.get(name) == Some(&false)
    }
}
