//! The repository of a workspace: what Convoke writes for the agent's own git, and the commits.
//!
//! Commits and trees are made with the repository of the project's store, an index and an object directory
//! beside the tree. The directory `.git` of the tree is written and read as plain files only.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use convoke_files::git::{git_directories, project_root};
use convoke_files::limit::FileKind;
use convoke_files::{Disk, Files as _};

use super::checkout::index_entries;
use super::{Description, WorkspacePath};
use crate::change::Oid;
use crate::error::ChangesError;
use crate::git::{Deadline, Git};
use crate::manifest::Manifest;
use crate::pattern_file::read_below;
use crate::record::private_directory;
use crate::scan::now;
use crate::store::{ATTRIBUTES, Changes, Place};
use crate::tree_path::TreePath;

/// The bytes of a listing of an index.
const LISTING_BYTES: u64 = 1 << 30;
/// The bytes of an object name with its line break.
const OID_LINE: u64 = 41;

/// The index and the objects of a workspace.
pub(super) struct Repository<'a> {
    git: &'a Git,
    objects: PathBuf,
    index: PathBuf,
}

impl<'a> Repository<'a> {
    /// Opens the repository of a workspace.
    pub(super) fn new(path: &WorkspacePath, git: &'a Git) -> Self {
        Self { git, objects: path.objects(), index: path.index() }
    }

    /// Creates the object directory, which shares the objects of the project's store.
    pub(super) fn create(path: &WorkspacePath, git: &'a Git) -> Result<Self, ChangesError> {
        let info = path.objects().join("info");
        private_directory(&info)?;
        let shared = git.repository.join("objects");
        write_file(&info.join("alternates"), &line(&shared))?;
        Ok(Self::new(path, git))
    }

    pub(super) fn command(&self, work_tree: &Path) -> Command {
        let mut command = self.git.command(work_tree);
        command.env("GIT_OBJECT_DIRECTORY", &self.objects).env("GIT_INDEX_FILE", &self.index);
        command
    }

    /// Makes the index match a state, and returns its tree.
    pub(super) fn update(
        &self,
        state: &Manifest,
        tree: &Path,
        deadline: Deadline,
    ) -> Result<Oid, ChangesError> {
        // A crash leaves the lock, and only the holder of the store's lock comes here.
        let _ = fs::remove_file(self.index.with_extension("lock"));
        let mut known = self.entries(tree, deadline)?;
        let mut changed = Vec::new();
        for (path, mode, oid) in index_entries(state) {
            let value = format!("{mode} {oid}");
            if known.remove(path.as_bytes()).as_ref() != Some(&value) {
                changed.extend_from_slice(value.as_bytes());
                changed.push(b'\t');
                changed.extend_from_slice(path.as_bytes());
                changed.push(0);
            }
        }
        let mut input = Vec::new();
        for path in known.keys() {
            // A file that goes makes room for a directory of its name.
            input.extend_from_slice(format!("0 {}\t", Oid([0; 20])).as_bytes());
            input.extend_from_slice(path);
            input.push(0);
        }
        input.extend(changed);
        if !input.is_empty() {
            let mut command = self.command(tree);
            command.args(["update-index", "-z", "--index-info"]);
            Git::output(command, "update-index", input, 0, deadline)?;
        }
        let mut command = self.command(tree);
        command.arg("write-tree");
        oid_of(&Git::output(command, "write-tree", Vec::new(), OID_LINE, deadline)?, "write-tree")
    }

    /// Reads the times of files into the index, so that the agent's git does not read them again.
    fn refresh(&self, tree: &Path, deadline: Deadline) -> Result<(), ChangesError> {
        let mut command = self.command(tree);
        command.args(["update-index", "-q", "--refresh"]);
        // Files over the size limit are not in the index, and a file may have changed since: no failure.
        Git::run(command, "update-index", Vec::new(), 0, deadline).map(drop)
    }

    fn entries(
        &self,
        tree: &Path,
        deadline: Deadline,
    ) -> Result<HashMap<Vec<u8>, String>, ChangesError> {
        if !self.index.exists() {
            return Ok(HashMap::new());
        }
        let mut command = self.command(tree);
        command.args(["ls-files", "-s", "-z"]);
        let listing = Git::output(command, "ls-files", Vec::new(), LISTING_BYTES, deadline)?;
        let entry = |line: &[u8]| {
            let at = line.iter().position(|&byte| byte == b'\t')?;
            let value = String::from_utf8_lossy(&line[..at]);
            let value = value.strip_suffix(" 0").unwrap_or(&value).to_owned();
            Some((line[at + 1..].to_vec(), value))
        };
        Ok(listing.split(|&byte| byte == 0).filter_map(entry).collect())
    }

    /// Writes a commit. Its parent may be one that only the workspace has.
    pub(super) fn commit(
        &self,
        root: Oid,
        parent: Option<Oid>,
        author: &str,
        message: &str,
        tree: &Path,
        deadline: Deadline,
    ) -> Result<Oid, ChangesError> {
        let seconds = now() / 1_000_000_000;
        let parent = parent.map(|parent| format!("parent {parent}\n")).unwrap_or_default();
        let text = format!(
            "tree {root}\n{parent}author {author} <{author}@convoke.invalid> {seconds} +0000\n\
             committer convoke <convoke@convoke.invalid> {seconds} +0000\n\n{message}\n"
        );
        let mut command = self.command(tree);
        command.args(["hash-object", "-t", "commit", "-w", "--stdin"]);
        let output = Git::output(command, "hash-object", text.into_bytes(), OID_LINE, deadline)?;
        oid_of(&output, "hash-object")
    }

    /// Sets the branch and the index of the tree to a commit.
    pub(super) fn publish(
        &self,
        tree: &Path,
        branch: &str,
        commit: Oid,
        deadline: Deadline,
    ) -> Result<(), ChangesError> {
        self.refresh(tree, deadline)?;
        let directory = tree.join(".git");
        let Some(reference) = real_directories(&directory, &format!("refs/heads/{branch}")) else {
            return Ok(());
        };
        replace(&reference, format!("{commit}\n").as_bytes())?;
        let index = Disk.read(&self.index, FileKind::Record);
        replace(&directory.join("index"), &index.map_err(ChangesError::io(&self.index))?)
    }
}

/// Returns the commit that the branch of a tree has; `None` if the agent works on another branch, or
/// removed the repository.
pub(super) fn head(tree: &Path, branch: &str) -> Option<Oid> {
    let directory = tree.join(".git");
    let is_directory = fs::symlink_metadata(&directory).is_ok_and(|found| found.is_dir());
    let read = |name: &str| {
        let path = directory.join(name);
        let is_file = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
        if is_file { Disk.read_text(&path, FileKind::State).ok() } else { None }
    };
    let reference = format!("refs/heads/{branch}");
    if !is_directory || read("HEAD")?.trim().strip_prefix("ref:")?.trim() != reference {
        return None;
    }
    if let Some(loose) = read(&reference) {
        return Oid::parse(loose.trim());
    }
    let packed = read("packed-refs")?;
    let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(_, name)| *name == reference).and_then(|(oid, _)| Oid::parse(oid))
}

/// Writes the repository of a new tree. `path` is where the workspace is, `directory` where it will be.
pub(super) fn write(
    tree: &Path,
    description: &Description,
    path: &WorkspacePath,
    directory: &Path,
) -> Result<(), ChangesError> {
    let git = tree.join(".git");
    let Description { branch, commit, excludes, member, .. } = description;
    for name in ["info", "objects/info", "objects/pack", "refs/tags", "hooks"] {
        private_directory(&git.join(name))?;
    }
    let objects = directory.join("objects");
    let name = super::file_name(member);
    let config = format!(
        "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
         \tlogallrefupdates = true\n[user]\n\tname = {name}\n\temail = {name}@convoke.invalid\n"
    );
    write_file(&git.join("config"), config.as_bytes())?;
    write_file(&git.join("info/exclude"), excludes.as_bytes())?;
    write_file(&git.join("info/attributes"), ATTRIBUTES.as_bytes())?;
    write_file(&git.join("objects/info/alternates"), &line(&objects))?;
    let reference = git.join("refs/heads").join(branch);
    private_directory(reference.parent().unwrap_or(&git))?;
    write_file(&reference, format!("{commit}\n").as_bytes())?;
    fs::copy(path.index(), git.join("index")).map_err(ChangesError::io(&git))?;
    // Written last: a directory with a `HEAD` is a repository.
    write_file(&git.join("HEAD"), format!("ref: refs/heads/{branch}\n").as_bytes())
}

/// Writes the repository of a tree again if the agent removed it.
pub(super) fn repair(
    changes: &Changes,
    path: &WorkspacePath,
    tree: &Path,
) -> Result<(), ChangesError> {
    let git = tree.join(".git");
    if fs::symlink_metadata(&git).is_ok() {
        return Ok(());
    }
    changes.failpoint().reach();
    write(tree, &path.read()?, path, &path.directory)
}

/// Returns the patterns of rules that lie outside a copy of a project, and those of added paths.
pub(super) fn excludes(project: &Place, added: &[TreePath]) -> String {
    let directory = &project.directory;
    let top = project_root(&Disk, directory, Some(&project.host().home));
    let top = top.unwrap_or_else(|| directory.clone());
    let own = git_directories(&Disk, &top);
    let own = own.map(|found| read_below(&found.common, Path::new("info/exclude")));
    let above = directory.ancestors().skip(1).filter_map(|above| above.strip_prefix(&top).ok());
    let above = above.map(|above| read_below(&top, &above.join(".gitignore")));
    let mut patterns = String::new();
    for text in own.into_iter().chain(above) {
        // What is not text is no pattern.
        let text = text.ok().and_then(|text| String::from_utf8(text).ok()).unwrap_or_default();
        for pattern in text.lines() {
            // One that names a place has another meaning in another directory.
            let is_anywhere = !pattern.trim_end_matches('/').contains('/');
            if top == *directory || is_anywhere {
                patterns.push_str(pattern);
                patterns.push('\n');
            }
        }
    }
    for path in added {
        patterns.push('/');
        for character in String::from_utf8_lossy(path.as_bytes()).chars() {
            if matches!(character, '*' | '?' | '[' | ']' | '\\' | ' ') {
                patterns.push('\\');
            }
            patterns.push(character);
        }
        patterns.push('\n');
    }
    patterns
}

/// Returns the path of a file below a directory, whose parents are created and are not links; `None` where the
/// agent has put something else.
fn real_directories(directory: &Path, name: &str) -> Option<PathBuf> {
    let mut at = directory.to_owned();
    let (parents, file) = name.rsplit_once('/')?;
    for part in std::iter::once(None).chain(parents.split('/').map(Some)) {
        at.extend(part);
        match fs::symlink_metadata(&at) {
            Ok(found) if found.is_dir() => {}
            Err(_) if part.is_some() => fs::create_dir(&at).ok()?,
            _ => return None,
        }
    }
    Some(at.join(file))
}

/// Replaces a file of the agent's by a new one.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), ChangesError> {
    let draft = path.with_extension(format!("convoke-{}", std::process::id()));
    let _ = fs::remove_file(&draft);
    let created = fs::File::create_new(&draft).and_then(|mut file| file.write_all(bytes));
    created.map_err(ChangesError::io(&draft))?;
    fs::rename(&draft, path).map_err(ChangesError::io(path))
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), ChangesError> {
    fs::write(path, bytes).map_err(ChangesError::io(path))
}

fn line(path: &Path) -> Vec<u8> {
    [path.as_os_str().as_encoded_bytes(), b"\n"].concat()
}

pub(super) fn oid_of(output: &[u8], command: &'static str) -> Result<Oid, ChangesError> {
    let text = String::from_utf8_lossy(output);
    Oid::parse(text.trim()).ok_or_else(|| ChangesError::Git {
        command,
        message: format!("unexpected output: {}", text.trim()),
    })
}
