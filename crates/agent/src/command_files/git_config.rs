//! The settings of a repository's configuration that can name commands.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use convoke_files::{Disk, FileKind, Files as _};

use crate::adapter::split_git_header;

/// Settings that git changes in everyday work and that name no command, by section and key. `*` is any key.
const HARMLESS: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "autocrlf",
            "bare",
            "filemode",
            "ignorecase",
            "logallrefupdates",
            "precomposeunicode",
            "repositoryformatversion",
            "symlinks",
        ],
    ),
    ("branch", &["description", "merge", "pushremote", "rebase", "remote", "vscode-merge-base"]),
    ("remote", &["fetch", "gh-resolved", "prune", "push", "pushurl", "tagopt", "url"]),
    ("submodule", &["active", "url"]),
    ("user", &["email", "name"]),
    ("maintenance", &["auto", "strategy"]),
    ("gc", &["auto"]),
    ("pull", &["ff", "rebase"]),
    ("push", &["autosetupremote", "default"]),
];

/// The maximum number of files that are read, included ones counted.
const MOST_FILES: usize = 32;

/// The settings of a configuration, of all files that it includes.
#[derive(Default)]
pub(super) struct GitConfig {
    /// The lines of settings that can name commands.
    pub settings: String,
    /// The directory of hooks, if it is another than the usual one.
    pub hooks: Option<PathBuf>,
    read: BTreeSet<PathBuf>,
}

/// Reads a configuration.
pub(super) fn read(path: &Path) -> GitConfig {
    let mut config = GitConfig::default();
    config.read(path);
    config
}

impl GitConfig {
    fn read(&mut self, path: &Path) {
        if self.read.len() >= MOST_FILES || !self.read.insert(path.to_owned()) {
            return;
        }
        let Ok(bytes) = Disk.read(path, FileKind::Configuration) else { return };
        let mut section = String::new();
        for line in String::from_utf8_lossy(&bytes).lines() {
            let mut line = line.trim();
            if let Some(header) = line.strip_prefix('[') {
                let ((name, _), rest) = split_git_header(header);
                section = name.to_ascii_lowercase();
                line = rest.trim();
            }
            let (key, value) = line.split_once('=').unwrap_or((line, ""));
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim().trim_matches('"'));
            if key.is_empty() || key.starts_with(['#', ';']) {
                continue;
            }
            let is_harmless =
                |(name, keys): &(&str, &[&str])| *name == section && keys.contains(&&*key);
            if HARMLESS.iter().any(is_harmless) {
                continue;
            }
            let _ = writeln!(self.settings, "[{section}] {line}");
            match (section.as_str(), key.as_str()) {
                ("core", "hookspath") => self.hooks = Some(value.into()),
                // Files in the home directory are the user's own.
                ("include" | "includeif", "path") if !value.starts_with('~') => {
                    self.read(&path.parent().unwrap_or(path).join(value));
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        std::fs::write(&path, text).unwrap();
        std::fs::write(dir.path().join("more"), "[alias]\n\tx = !more\n").unwrap();
        read(&path).settings
    }

    #[test]
    fn settings_of_everyday_work_are_left_out_and_all_others_count() {
        let everyday = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://h/x\n\
                        [branch \"main\"] # x\n\tremote = origin\n\tmerge = refs/heads/main\n[user] name = a\n";
        assert_eq!(settings(everyday), "");
        for (text, found) in [
            ("[core] fsmonitor = /tmp/x\n", "[core] fsmonitor = /tmp/x\n"),
            ("[branch \"a]\"]\n[alias]\n\tremote = !x\n", "[alias] remote = !x\n"),
            ("[filter \"x\"]\n\tclean = y\n", "[filter] clean = y\n"),
            ("[remote \"x\"]\n\tuploadpack = y\n", "[remote] uploadpack = y\n"),
            ("[include]\n\tpath = more\n", "[include] path = more\n[alias] x = !more\n"),
        ] {
            assert_eq!(settings(text), found, "{text}");
        }
    }

    #[test]
    fn the_directory_of_hooks_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        std::fs::write(&path, "[core]\n\thooksPath = \".husky\"\n").unwrap();
        assert_eq!(read(&path).hooks, Some(".husky".into()));
    }
}
