//! The directories of a repository in which somebody would start an agent.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ignore::{DirEntry, WalkBuilder};

/// Files by which a directory is a place: instruction files, and what makes it a member of a workspace.
const FILES: [&str; 16] = [
    "AGENTS.md",
    "AGENTS.override.md",
    "CLAUDE.md",
    "GEMINI.md",
    "Cargo.toml",
    "package.json",
    "go.mod",
    "pyproject.toml",
    "setup.py",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "composer.json",
    "Gemfile",
    "mix.exs",
    "Package.swift",
];

/// Directories of agents' settings, rules and skills.
const DIRECTORIES: [&str; 4] = [".agents", ".claude", ".codex", ".gemini"];

/// A part of the repository could not be searched.
#[derive(Debug, thiserror::Error)]
#[error("cannot search the repository: {0}")]
pub struct SearchError(#[from] ignore::Error);

/// Finds the places at and below a directory, sorted: the directory itself, the members of workspaces, and every directory with
/// instruction files. What git ignores and other repositories are left out.
pub fn find(top: &Path) -> Result<BTreeSet<PathBuf>, SearchError> {
    let walk = WalkBuilder::new(top)
        .hidden(false)
        .git_global(false)
        .git_exclude(false)
        .require_git(false)
        .filter_entry(is_searched)
        .build();
    let mut places = BTreeSet::from([top.to_owned()]);
    for entry in walk {
        let entry = entry?;
        let is_directory = entry.file_type().is_some_and(|it| it.is_dir());
        let known: &[&str] = if is_directory { &DIRECTORIES } else { &FILES };
        if entry.depth() > 0
            && known.iter().any(|name| entry.file_name() == *name)
            && let Some(parent) = entry.path().parent()
            && !places.contains(parent)
        {
            places.insert(parent.to_owned());
        }
    }
    Ok(places)
}

fn is_searched(entry: &DirEntry) -> bool {
    if entry.depth() == 0 {
        return true;
    }
    let name = entry.file_name();
    let is_hidden = name.as_encoded_bytes().starts_with(b".");
    if !entry.file_type().is_some_and(|it| it.is_dir()) {
        return !is_hidden;
    }
    // Only the name of a hidden directory counts.
    let is_in_hidden = entry.depth() > 1
        && entry
            .path()
            .parent()
            .and_then(Path::file_name)
            .is_some_and(|parent| DIRECTORIES.iter().any(|directory| parent == *directory));
    let is_known = DIRECTORIES.iter().any(|directory| name == *directory);
    !is_in_hidden && (is_known || !is_hidden) && !entry.path().join(".git").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_directories_with_instructions_are_places_and_nothing_ignored_is() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for file in [
            "AGENTS.md",
            "crates/a/Cargo.toml",
            "web/package.json",
            "web/node_modules/x/package.json",
            "docs/guide/CLAUDE.md",
            "docs/plain.md",
            "tools/.claude/skills/s/SKILL.md",
            "tools/.claude/skills/s/package.json",
            "other/.git/HEAD",
            "other/AGENTS.md",
        ] {
            std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            std::fs::write(root.join(file), "x").unwrap();
        }
        std::fs::write(root.join(".gitignore"), "node_modules/\n").unwrap();
        let found = find(root).unwrap();
        let found = found.iter().map(|it| it.strip_prefix(root).unwrap().to_str().unwrap());
        assert_eq!(found.collect::<Vec<_>>(), ["", "crates/a", "docs/guide", "tools", "web"]);
    }
}
