//! Finds the settings of a repository's configuration that can name commands.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use convoke_files::{Disk, FileKind, Files as _, GitSetting, git_settings};

use super::location::{Location, locate};

/// Settings that git changes in everyday use and that name no command, by section and key. `*` matches any key.
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
            "worktree",
        ],
    ),
    ("branch", &["description", "merge", "rebase", "vscode-merge-base"]),
    ("remote", &["fetch", "gh-resolved", "prune", "push", "tagopt"]),
    ("submodule", &["active"]),
    ("user", &["email", "name"]),
    ("maintenance", &["auto", "strategy"]),
    ("gc", &["auto"]),
    ("pull", &["ff", "rebase"]),
    ("push", &["autosetupremote", "default"]),
];

/// Settings with the address of another repository. A repository in the project has its own hooks.
const ADDRESSES: &[(&str, &[&str])] = &[
    ("branch", &["pushremote", "remote"]),
    ("remote", &["pushurl", "url"]),
    ("submodule", &["url"]),
];

/// The maximum number of files that are read, including included ones.
const MAX_FILES: usize = 32;

/// The settings of a configuration and of all files that it includes.
#[derive(Default)]
pub(super) struct GitConfig {
    /// The lines of settings that can name commands.
    pub settings: String,
    /// The directory of hooks, if it is not the default.
    pub hooks: Option<PathBuf>,
    /// Whether part of the configuration could not be read, so that it cannot be trusted.
    pub is_unclear: bool,
    read: BTreeSet<PathBuf>,
}

impl GitConfig {
    /// Reads a configuration file, if there is one.
    pub fn read(&mut self, path: &Path) {
        let real = match locate(path) {
            Location::Found(real) => real,
            Location::Missing => return,
            Location::Unclear => {
                self.is_unclear = true;
                return;
            }
        };
        // Paths in the file count from where it was looked up, even if a link is there.
        if !self.read.insert(path.to_owned()) {
            return;
        }
        let bytes = Disk.read(&real, FileKind::Configuration);
        let (Ok(bytes), ..=MAX_FILES) = (bytes, self.read.len()) else {
            self.is_unclear = true;
            return;
        };
        let text = String::from_utf8_lossy(&bytes);
        for GitSetting { section, key, value, written, .. } in git_settings(&text).settings {
            let is_harmless =
                |(name, keys): &(&str, &[&str])| *name == section && keys.contains(&&*key);
            let is_remote = ADDRESSES.iter().any(is_harmless) && is_elsewhere(&value);
            if is_remote || HARMLESS.iter().any(is_harmless) {
                continue;
            }
            let _ = writeln!(self.settings, "[{section}] {written}");
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

/// Returns whether an address is the name of a remote, or is on another machine.
fn is_elsewhere(address: &str) -> bool {
    const SCHEMES: &[&str] = &["https://", "http://", "ssh://", "git://"];
    let is_plain = |text: &str| {
        let is_usual =
            |character: char| character.is_ascii_alphanumeric() || "._-@".contains(character);
        !text.starts_with('-') && text.chars().all(is_usual)
    };
    let of_ssh = address
        .split_once(':')
        .is_some_and(|(host, path)| is_plain(host) && !path.starts_with("//"));
    let has_scheme = SCHEMES.iter().any(|scheme| address.starts_with(scheme));
    !address.contains("::") && (is_plain(address) || of_ssh || has_scheme)
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

    fn read(path: &Path) -> GitConfig {
        let mut config = GitConfig::default();
        config.read(path);
        config
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
            ("[remote \"x\"]\n\turl = ../y.git\n", "[remote] url = ../y.git\n"),
            ("[remote \"x\"]\n\turl = ext::sh -c y\n", "[remote] url = ext::sh -c y\n"),
            ("[remote \"x\"]\n\tpushurl = file:///y\n", "[remote] pushurl = file:///y\n"),
            ("[branch \"x\"]\n\tremote = ./y\n", "[branch] remote = ./y\n"),
            ("[remote \"x\"]\n\turl = git@h.example:a/b.git\n", ""),
            ("[remote \"x\"]\n\turl = \"ssh://h:22/a\"\n", ""),
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
