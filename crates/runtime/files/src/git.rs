//! Git repositories, recognised by their `.git`.

use std::path::{Path, PathBuf};

use crate::{EntryKind, FileKind, Files, absolute};

/// The kind of a `.git`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GitKind {
    /// A repository.
    Repository,
    /// A linked worktree of the repository at this root.
    Worktree(PathBuf),
    /// A submodule of another repository.
    Submodule,
    /// A `.git` without a repository.
    Stray,
}

/// Finds out what kind of repository has its root in a directory.
pub fn git_kind(files: &dyn Files, root: &Path) -> GitKind {
    let dot_git = root.join(".git");
    if files.kind(&dot_git).is_ok_and(|kind| kind == EntryKind::Directory) {
        return match files.kind(&dot_git.join("HEAD")) {
            Ok(_) => GitKind::Repository,
            Err(_) => GitKind::Stray,
        };
    }
    let Some(git_dir) = linked_git_dir(files, root, &dot_git) else {
        return GitKind::Stray;
    };
    match main_root(files, &git_dir) {
        Some(main) => GitKind::Worktree(main),
        None if files.kind(&git_dir.join("HEAD")).is_ok() => GitKind::Submodule,
        None => GitKind::Stray,
    }
}

/// The directories of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitDirectories {
    /// The directory of this checkout: its index and `HEAD`.
    pub own: PathBuf,
    /// The directory that all worktrees share: configuration and `info/exclude`.
    pub common: PathBuf,
}

/// Returns the directories of the repository that has its root in a directory, through a `.git` file if
/// there is one.
pub fn git_directories(files: &dyn Files, root: &Path) -> Option<GitDirectories> {
    let dot_git = root.join(".git");
    let own = if files.kind(&dot_git).is_ok_and(|kind| kind == EntryKind::Directory) {
        dot_git
    } else {
        linked_git_dir(files, root, &dot_git)?
    };
    let common = files.read_text(&own.join("commondir"), FileKind::Pointer);
    let common = common.map_or_else(|_| own.clone(), |text| absolute(&own, Path::new(text.trim())));
    Some(GitDirectories { own, common })
}

/// The directory that a `.git` file names.
fn linked_git_dir(files: &dyn Files, root: &Path, dot_git: &Path) -> Option<PathBuf> {
    let text = files.read_text(dot_git, FileKind::Pointer).ok()?;
    let named = text.trim().strip_prefix("gitdir:")?.trim();
    Some(absolute(root, Path::new(named)))
}

/// The root of the main checkout that a worktree's git directory belongs to.
fn main_root(files: &dyn Files, git_dir: &Path) -> Option<PathBuf> {
    let common = files.read_text(&git_dir.join("commondir"), FileKind::Pointer).ok()?;
    let common = absolute(git_dir, Path::new(common.trim()));
    if git_dir.parent()? != common.join("worktrees") {
        return None;
    }
    let main = common.parent()?;
    Some(files.canonicalize(main).unwrap_or_else(|_| main.to_owned()))
}

/// Returns the root of the repository around a directory. A `.git` without a repository
/// marks none, and neither does one in the home directory, above it, or in the file system's root: what
/// is there does not belong to one project.
pub fn project_root(files: &dyn Files, directory: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let is_project = |root: &&Path| {
        root.parent().is_some()
            && !home.is_some_and(|home| home.starts_with(root))
            && files.kind(&root.join(".git")).is_ok()
            && match git_kind(files, root) {
                GitKind::Repository => has_head(files, root),
                GitKind::Worktree(_) | GitKind::Submodule => true,
                GitKind::Stray => false,
            }
    };
    directory.ancestors().find(is_project).map(Path::to_owned)
}

/// Returns whether `HEAD` names a branch or a commit. Git takes a directory without that for no repository.
fn has_head(files: &dyn Files, root: &Path) -> bool {
    let is_commit = |text: &str| text.len() >= 40 && text.bytes().all(|it| it.is_ascii_hexdigit());
    files.read_text(&root.join(".git/HEAD"), FileKind::Pointer).is_ok_and(|text| {
        let text = text.trim_end();
        text.strip_prefix("ref:").is_some_and(|name| name.trim_start().starts_with("refs/"))
            || is_commit(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryTree;

    #[test]
    fn repositories_worktrees_submodules_and_strays_are_distinguished() {
        let mut tree = MemoryTree::default();
        tree.write("/main/.git/HEAD", "ref: refs/heads/main");
        tree.write("/main/.git/worktrees/w/commondir", "../..\n");
        tree.write("/main/.git/worktrees/w/HEAD", "x");
        tree.write("/main/w/.git", "gitdir: /main/.git/worktrees/w\n");
        tree.write("/main/.git/modules/s/HEAD", "x");
        tree.write("/main/s/.git", "gitdir: ../.git/modules/s\n");
        tree.write("/broken/.git", "nonsense");
        tree.create_directory("/empty/.git");
        let cases = [
            ("/main", GitKind::Repository),
            ("/main/w", GitKind::Worktree("/main".into())),
            ("/main/s", GitKind::Submodule),
            ("/broken", GitKind::Stray),
            ("/empty", GitKind::Stray),
        ];
        for (root, expected) in cases {
            assert_eq!(git_kind(&tree, root.as_ref()), expected, "{root}");
        }
    }

    #[test]
    fn a_project_ends_where_its_own_repository_does() {
        let mut tree = MemoryTree::default();
        for repository in ["/", "/home/me", "/home/me/repo"] {
            tree.write(Path::new(repository).join(".git/HEAD"), "ref: refs/heads/main");
        }
        for stray in ["/home/me/repo/stray", "/srv", "/srv/a"] {
            tree.create_directory(Path::new(stray).join(".git"));
        }
        tree.write("/opt/.git", "gitdir: nowhere");
        for (name, head) in [("empty", ""), ("words", "x\n"), ("outside", "ref: ../../etc\n")] {
            tree.write(Path::new("/var").join(name).join(".git/HEAD"), head);
        }
        tree.write("/usr/.git/HEAD", "9c1185a5c5e9fc54612808977ee8f548b2258d31\n");
        let home = Path::new("/home/me");
        let cases = [
            ("/home/me/repo", Some("/home/me/repo")),
            ("/home/me/repo/stray/a", Some("/home/me/repo")),
            ("/home/me/other", None),
            ("/home/me", None),
            ("/srv/a/b", None),
            ("/opt/a", None),
            ("/var/empty/a", None),
            ("/var/words/a", None),
            ("/var/outside/a", None),
            ("/usr/a", Some("/usr")),
        ];
        for (directory, expected) in cases {
            let found = project_root(&tree, directory.as_ref(), Some(home));
            assert_eq!(found.as_deref(), expected.map(Path::new), "{directory}");
        }
        let found = project_root(&tree, "/home/me/other".as_ref(), None);
        assert_eq!(found.as_deref(), Some(home));
    }
}
