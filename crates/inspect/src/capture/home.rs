//! The private home, with a copy of the user's configuration, but never of credentials.

use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use convoke_agent::Vendor;
use convoke_explain::{Edition, LoadReason, Session, explain};
use convoke_files::json::without_comments;
use convoke_files::{Disk, FileKind, Files};
use serde_json::Value;

use crate::host_environment::HostEnvironment;

/// The maximum number of files in a configuration.
const MAX_FILES: usize = 2000;
const MAX_BYTES: u64 = 32 << 20;

/// The location of a user's configuration of a CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserHome {
    /// The home directory.
    pub home: PathBuf,
    /// The CLI's own directory, by default in the home directory.
    pub directory: PathBuf,
}

impl UserHome {
    /// Returns the configuration in a home directory.
    pub fn below(vendor: Vendor, home: &Path) -> Self {
        Self { home: home.to_owned(), directory: home.join(vendor.facts().directory) }
    }

    /// Returns the configuration that the CLI would use in an environment, with the variables that move it.
    pub fn new(vendor: Vendor, host_environment: &HostEnvironment) -> Self {
        let moved = |name| Some(host_environment.cwd.join(host_environment.variable(name)?));
        let home = match vendor {
            Vendor::Gemini => moved("GEMINI_CLI_HOME"),
            Vendor::Claude | Vendor::Codex => None,
        };
        let user = Self::below(vendor, home.as_deref().unwrap_or(&host_environment.home));
        match vendor.facts().directory_variable.and_then(moved) {
            Some(directory) => Self { directory, ..user },
            None => user,
        }
    }

    /// Returns the directories of a private home, each with the user's directory that it replaces; the most specific
    /// first.
    pub(super) fn places(&self, vendor: Vendor, private_home: &Path) -> [(PathBuf, PathBuf); 2] {
        let directory = private_home.join(vendor.facts().directory);
        [(directory, self.directory.clone()), (private_home.to_owned(), self.home.clone())]
    }
}

/// Copies a CLI's configuration, without credentials, logs and caches. Returns the parts of the configuration that were
/// not copied.
pub(super) fn copy_configuration(
    vendor: Vendor,
    from: &UserHome,
    to: &Path,
    cwd: &Path,
) -> Result<Vec<PathBuf>, HomeError> {
    let facts = vendor.facts();
    let directory = to.join(facts.directory);
    let mut budget = Budget { files: MAX_FILES, bytes: MAX_BYTES };
    for name in facts.configuration {
        let (source, target) = (from.directory.join(name), directory.join(name));
        match vendor {
            // 2.1.197 also finds these above a project without a repository, and recognises them by their real paths.
            Vendor::Claude if ["skills", "commands"].contains(name) && source.is_dir() => {
                link_directory(&source, &target)?;
            }
            // The program writes skills of its own beside these, into `.system`.
            Vendor::Codex if *name == "skills" && is_within_project(from, cwd) => {
                for entry in Disk.names(&source).unwrap_or_default() {
                    let (source, target) = (source.join(&entry), target.join(&entry));
                    if entry.as_encoded_bytes().starts_with(b".") {
                        copy(&source, &target, &mut budget)?;
                    } else {
                        link_directory(&source, &target)?;
                    }
                }
            }
            _ => copy(&source, &target, &mut budget)?,
        }
    }
    for name in facts.shared_configuration {
        let (source, target) = (from.home.join(name), to.join(name));
        if vendor == Vendor::Codex && source.is_dir() && is_within_project(from, cwd) {
            link_directory(&source, &target)?;
        } else {
            copy(&source, &target, &mut budget)?;
        }
    }
    for name in notes_and_profiles(vendor, &from.directory, cwd) {
        copy(&from.directory.join(&name), &directory.join(&name), &mut budget)?;
    }
    if vendor == Vendor::Claude {
        copy_claude_state(from, to)?;
        copy_imports(from, to, cwd, &mut budget)?;
    }
    let plugins = from.directory.join("plugins");
    let is_left = vendor == Vendor::Claude && plugins.join("installed_plugins.json").is_file();
    Ok(is_left.then_some(plugins).into_iter().collect())
}

/// Copies the files that instructions import from the home directory and from Claude Code's own directory, each to where
/// the program looks for it: a path that begins with `~` leads into its own home, and any other starts beside the file
/// that names it.
fn copy_imports(
    from: &UserHome,
    to: &Path,
    cwd: &Path,
    budget: &mut Budget,
) -> Result<(), HomeError> {
    let mut session = Session::new(cwd, &from.home);
    if let (Some(name), Some(directory)) =
        (Vendor::Claude.facts().directory_variable, from.directory.to_str())
    {
        session.variables.insert(name.to_owned(), directory.to_owned());
    }
    let explained = explain(&Disk, &session, &[Edition::Claude325]).agents;
    for file in explained.into_iter().flat_map(|agent| agent.loaded) {
        let places = from.places(Vendor::Claude, to).into_iter();
        let targets = places.filter_map(|(private, users)| {
            let below = file.path.strip_prefix(users).ok()?;
            Some(private.join(below))
        });
        // Of a directory in the home, the first is the more specific.
        let target = targets.take(1).find(|target| !target.exists());
        let credentials = Vendor::Claude.facts().sign_in.credentials;
        let is_credential = credentials.iter().any(|name| file.path.ends_with(name));
        if let (LoadReason::Import { .. }, Some(target), false) = (&file.why, target, is_credential)
        {
            copy(&file.path, &target, budget)?;
        }
    }
    Ok(())
}

/// Returns whether the home itself belongs to the project, so that Codex finds the user's skills there too. It recognises
/// them by their real paths.
fn is_within_project(user: &UserHome, cwd: &Path) -> bool {
    let root = cwd.ancestors().find(|path| path.join(".git").exists()).unwrap_or(cwd);
    cwd.starts_with(&user.home) && user.home.starts_with(root)
}

/// Returns the files without a fixed name: an agent's notes on a project, and profiles of Codex.
fn notes_and_profiles(vendor: Vendor, directory: &Path, cwd: &Path) -> Vec<PathBuf> {
    let names = |below: &str| {
        let entries = std::fs::read_dir(directory.join(below)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
    };
    match vendor {
        Vendor::Claude => {
            let dashed = |path: &Path| {
                let path = path.to_string_lossy();
                path.replace(|c: char| !c.is_ascii_alphanumeric(), "-")
            };
            let projects = cwd.ancestors().map(dashed);
            projects.map(|name| Path::new("projects").join(name).join("memory")).collect()
        }
        Vendor::Codex => {
            let profiles = names("").into_iter().filter(|name| name.ends_with(".config.toml"));
            profiles.map(PathBuf::from).collect()
        }
        Vendor::Gemini => {
            let projects = names("tmp").into_iter();
            let notes = projects.map(|name| Path::new("tmp").join(name).join("memory"));
            notes.chain(instruction_files(directory, cwd)).collect()
        }
    }
}

/// Returns the names of instruction files that settings of Gemini CLI choose.
fn instruction_files(directory: &Path, cwd: &Path) -> Vec<PathBuf> {
    let machine = Path::new("/etc/gemini-cli/settings.json").to_owned();
    let files = [machine, cwd.join(".gemini/settings.json"), directory.join("settings.json")];
    let mut names = Vec::new();
    for path in files {
        let text = Disk.read_text(&path, FileKind::Configuration).unwrap_or_default();
        let settings: Value = serde_json::from_str(&without_comments(&text)).unwrap_or_default();
        match &settings["context"]["fileName"] {
            Value::String(name) => names.push(PathBuf::from(name)),
            Value::Array(all) => names.extend(all.iter().filter_map(Value::as_str).map(Into::into)),
            _ => {}
        }
    }
    let is_below = |path: &PathBuf| path.components().all(|it| matches!(it, Component::Normal(_)));
    names.retain(|path| is_below(path) && !is_credential(path));
    names
}

/// Returns whether a file of Gemini CLI's directory holds a credential.
fn is_credential(path: &Path) -> bool {
    let credentials = Vendor::Gemini.facts().sign_in.credentials;
    let is_variables = path.file_name().is_some_and(|name| name == ".env");
    is_variables || credentials.iter().any(|name| path == Path::new(name))
}

/// Copies the settings of files and skills from the file in which Claude Code also keeps accounts and keys.
fn copy_claude_state(from: &UserHome, to: &Path) -> Result<(), HomeError> {
    const OF_USER: [&str; 3] = ["projects", "mcpServers", "skillUsage"];
    const OF_PROJECT: [&str; 6] = [
        "hasClaudeMdExternalIncludesApproved",
        "hasTrustDialogAccepted",
        "mcpServers",
        "enabledMcpjsonServers",
        "disabledMcpjsonServers",
        "disabledMcpServers",
    ];
    const NAME: &str = ".claude.json";
    let is_moved = from.directory != from.home.join(Vendor::Claude.facts().directory);
    let source = if is_moved { &from.directory } else { &from.home }.join(NAME);
    let Ok(text) = Disk.read(&source, FileKind::Configuration) else { return Ok(()) };
    let Ok(Value::Object(mut state)) = serde_json::from_slice(&text) else { return Ok(()) };
    state.retain(|name, _| OF_USER.contains(&name.as_str()));
    if let Some(Value::Object(projects)) = state.get_mut("projects") {
        for project in projects.values_mut().filter_map(Value::as_object_mut) {
            project.retain(|name, _| OF_PROJECT.contains(&name.as_str()));
        }
    }
    let written = std::fs::write(to.join(NAME), Value::Object(state).to_string());
    written.map_err(|error| HomeError::Copy { path: source, source: error })
}

struct Budget {
    files: usize,
    bytes: u64,
}

/// Copies a file or directory, following a link. Links below it stay links, because some programs treat them
/// differently.
fn copy(source: &Path, target: &Path, budget: &mut Budget) -> Result<(), HomeError> {
    let failed = |error| HomeError::Copy { path: source.to_owned(), source: error };
    let metadata = match std::fs::metadata(source) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let over = || HomeError::TooMuch { path: source.to_owned() };
    budget.files = budget.files.checked_sub(1).ok_or_else(over)?;
    if metadata.is_dir() {
        std::fs::create_dir_all(target).map_err(failed)?;
        for entry in std::fs::read_dir(source).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let target = target.join(entry.file_name());
            if entry.file_type().map_err(failed)?.is_symlink() {
                link(&entry.path(), &target).map_err(failed)?;
            } else {
                copy(&entry.path(), &target, budget)?;
            }
        }
    } else if metadata.is_file() {
        budget.bytes = budget.bytes.checked_sub(metadata.len()).ok_or_else(over)?;
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        std::fs::copy(source, target).map_err(failed)?;
    }
    Ok(())
}

fn link_directory(source: &Path, target: &Path) -> Result<(), HomeError> {
    let failed = |error| HomeError::Copy { path: source.to_owned(), source: error };
    if let Some(parent) = target.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    symlink(source.canonicalize().map_err(failed)?, target).map_err(failed)
}

/// Creates a link with the same target as another one.
fn link(source: &Path, target: &Path) -> io::Result<()> {
    let leads_to = std::fs::read_link(source)?;
    let from = source.parent().unwrap_or(source);
    symlink(from.join(leads_to), target)
}

/// A configuration could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// A file cannot be copied.
    #[error("cannot copy {} into the private home", path.display())]
    Copy {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The configuration is too large.
    #[error("the configuration at {} is more than {MAX_FILES} files or {} MiB", path.display(), MAX_BYTES >> 20)]
    TooMuch {
        /// The last file.
        path: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(home: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = home.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn configuration_is_copied_and_credentials_are_not() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(
            from.path(),
            &[
                (".codex/config.toml", "model = \"x\""),
                (".codex/fast.config.toml", "model = \"y\""),
                (".codex/skills/a/SKILL.md", "skill"),
                (".agents/skills/b/SKILL.md", "skill"),
                (".codex/auth.json", "secret"),
                (".codex/log/x.log", "log"),
                (".claude/CLAUDE.md", "not this CLI's"),
            ],
        );
        let user = UserHome::below(Vendor::Codex, from.path());
        copy_configuration(Vendor::Codex, &user, to.path(), Path::new("/p")).unwrap();
        let there = |path: &str| to.path().join(path).exists();
        assert!(there(".codex/config.toml") && there(".codex/skills/a/SKILL.md"));
        assert!(there(".codex/fast.config.toml") && there(".agents/skills/b/SKILL.md"));
        assert!(!there(".codex/auth.json") && !there(".codex/log") && !there(".claude"));
    }

    #[test]
    fn of_claudes_state_only_what_decides_over_files_and_skills_is_copied() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let state = r#"{"primaryApiKey": "k", "oauthAccount": {"emailAddress": "e"}, "skillUsage": {"a": {"usageCount": 1}},
            "projects": {"/p": {"hasClaudeMdExternalIncludesApproved": true, "lastCost": 3, "history": ["h"]}}}"#;
        write(
            from.path(),
            &[
                (".claude.json", state),
                (".claude/projects/-p/memory/MEMORY.md", "notes"),
                (".claude/projects/-p/session.jsonl", "transcript"),
                (".claude/projects/-other/memory/MEMORY.md", "notes"),
                (".claude/.credentials.json", "secret"),
                (".claude/plugins/installed_plugins.json", "{}"),
            ],
        );
        let user = UserHome::below(Vendor::Claude, from.path());
        let left =
            copy_configuration(Vendor::Claude, &user, to.path(), Path::new("/p/sub")).unwrap();
        assert_eq!(left, [from.path().join(".claude/plugins")]);
        let state = std::fs::read_to_string(to.path().join(".claude.json")).unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&state).unwrap(),
            serde_json::json!({
                "projects": {"/p": {"hasClaudeMdExternalIncludesApproved": true}},
                "skillUsage": {"a": {"usageCount": 1}},
            })
        );
        let there = |path: &str| to.path().join(".claude").join(path).exists();
        assert!(there("projects/-p/memory/MEMORY.md") && !there("projects/-p/session.jsonl"));
        assert!(!there("projects/-other") && !there(".credentials.json"));
    }

    #[test]
    fn files_of_the_home_directory_that_claudes_instructions_import_are_copied() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(
            from.path(),
            &[
                (".claude/CLAUDE.md", "Read @~/notes/a.md and @~/missing.md."),
                ("notes/a.md", "a, see @b.md"),
                ("notes/b.md", "b"),
                ("notes/c.md", "c"),
            ],
        );
        let user = UserHome::below(Vendor::Claude, from.path());
        copy_configuration(Vendor::Claude, &user, to.path(), Path::new("/p")).unwrap();
        let there = |path: &str| to.path().join(path).exists();
        assert!(there(".claude/CLAUDE.md") && there("notes/a.md") && there("notes/b.md"));
        assert!(!there("notes/c.md"));
    }

    #[test]
    fn a_file_that_is_a_link_is_copied_and_links_below_a_directory_stay_links() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(from.path(), &[("dotfiles/config.toml", "a = 1"), (".codex/skills/a/x", "x")]);
        let below = |path: &str| from.path().join(path);
        symlink(below("dotfiles/config.toml"), below(".codex/config.toml")).unwrap();
        symlink("../skills", below(".codex/skills/loop")).unwrap();
        let user = UserHome::below(Vendor::Codex, from.path());
        copy_configuration(Vendor::Codex, &user, to.path(), Path::new("/p")).unwrap();
        let copied = to.path().join(".codex/config.toml").symlink_metadata().unwrap();
        assert!(copied.is_file(), "writing to it leaves the user's file alone");
        assert!(to.path().join(".codex/skills/loop").symlink_metadata().unwrap().is_symlink());
    }

    #[test]
    fn gemini_instructions_of_another_name_are_copied() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let settings =
            r#"{"context": {"fileName": ["X.md", "oauth_creds.json", "../out.md"]}} // mine"#;
        let files = [
            (".gemini/settings.json", settings),
            (".gemini/X.md", "x"),
            (".gemini/oauth_creds.json", "secret"),
            ("out.md", "o"),
        ];
        write(from.path(), &files);
        let user = UserHome::below(Vendor::Gemini, from.path());
        copy_configuration(Vendor::Gemini, &user, to.path(), Path::new("/p")).unwrap();
        assert!(to.path().join(".gemini/X.md").exists());
        assert!(!to.path().join(".gemini/oauth_creds.json").exists());
        assert!(!to.path().join("out.md").exists());
    }

    #[test]
    fn the_variables_that_move_a_configuration_count() {
        let host = |name: &str, value: &str| HostEnvironment {
            environment: [(name.into(), value.into())].into(),
            home: "/home/kim".into(),
            cwd: "/w".into(),
        };
        let directory = |vendor, host: &HostEnvironment| UserHome::new(vendor, host).directory;
        assert_eq!(directory(Vendor::Codex, &host("CODEX_HOME", "c")), Path::new("/w/c"));
        assert_eq!(directory(Vendor::Claude, &host("CLAUDE_CONFIG_DIR", "/c")), Path::new("/c"));
        let gemini = UserHome::new(Vendor::Gemini, &host("GEMINI_CLI_HOME", "/g"));
        assert_eq!(gemini, UserHome::below(Vendor::Gemini, Path::new("/g")));
        assert_eq!(directory(Vendor::Codex, &host("X", "1")), Path::new("/home/kim/.codex"));
    }

    #[test]
    fn what_claudes_instructions_import_is_copied_to_where_it_is_looked_for() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let home = from.path().canonicalize().unwrap();
        write(
            &home,
            &[
                (".claude/CLAUDE.md", "@notes/deep.md\n@~/shared/style.md\n@.credentials.json\n"),
                (".claude/notes/deep.md", "@deeper.md\n"),
                (".claude/notes/deeper.md", "deeper"),
                (".claude/.credentials.json", "secret"),
                ("shared/style.md", "style"),
                ("project/own.md", "own"),
                ("project/CLAUDE.md", "@~/project/own.md\n"),
            ],
        );
        let user = UserHome::below(Vendor::Claude, &home);
        copy_configuration(Vendor::Claude, &user, to.path(), &home.join("project")).unwrap();
        for path in [
            ".claude/notes/deep.md",
            ".claude/notes/deeper.md",
            "shared/style.md",
            "project/own.md",
        ] {
            assert!(to.path().join(path).exists(), "{path}");
        }
        assert!(!to.path().join(".claude/.credentials.json").exists());
    }
}
