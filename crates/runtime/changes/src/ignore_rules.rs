//! Ignore rules: which new names of a directory git would ignore.
//!
//! `git check-ignore` decides, with our repository, the `.gitignore` files of the working tree, and one
//! file with the patterns that lie elsewhere: the user's own, then the project's `info/exclude`.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use convoke_files::git::{GitKind, git_directories, git_kind};
use convoke_files::limit::FileKind;
use convoke_files::{Disk, Files as _, git_settings};
use sha2::{Digest as _, Sha256};

use crate::error::ChangesError;
use crate::git::{Deadline, Git, Host};
use crate::manifest::Stamp;
use crate::pattern_file::read_below;
use crate::tracked::{ObjectNames, TrackedPaths};
use crate::tree_path::TreePath;

/// The rules of one working tree.
#[derive(Debug)]
pub(crate) struct WorkTree {
    /// The top of the working tree.
    top: PathBuf,
    /// The recorded path of the top; `None` if it is above the recorded directory.
    recorded_top: Option<TreePath>,
    /// The path of the recorded directory below the top, with a slash at its end unless it is the top.
    prefix: Vec<u8>,
    /// The patterns that lie outside the working tree.
    patterns: Vec<u8>,
    /// The directory of the index; `None` without a repository.
    git_dir: Option<PathBuf>,
    /// The directory that all checkouts of the repository share.
    common: Option<PathBuf>,
    /// The paths of the index, once they were needed; `None` if it could not be read.
    tracked: OnceCell<Option<TrackedPaths>>,
}

impl WorkTree {
    /// Finds the working tree that a recorded directory is part of: its repository, else itself.
    pub(crate) fn containing(root: &Path, host: &Host) -> Self {
        let top = convoke_files::git::project_root(&Disk, root, Some(&host.home));
        match top {
            Some(top) if top != root => {
                let below = root.strip_prefix(&top).unwrap_or(Path::new(""));
                let mut prefix = below.as_os_str().as_bytes().to_vec();
                prefix.push(b'/');
                Self { recorded_top: None, prefix, ..Self::at(&top, host) }
            }
            _ => Self { recorded_top: Some(TreePath::default()), ..Self::at(root, host) },
        }
    }

    /// Creates the rules of a repository inside the recorded directory.
    pub(crate) fn nested(root: &Path, path: &TreePath, host: &Host) -> Option<Self> {
        let top = path.under(root);
        if git_kind(&Disk, &top) == GitKind::Stray {
            return None;
        }
        Some(Self { recorded_top: Some(path.clone()), ..Self::at(&top, host) })
    }

    fn at(top: &Path, host: &Host) -> Self {
        let directories = git_directories(&Disk, top);
        let common = directories.as_ref().map(|found| found.common.as_path());
        let mut patterns = user_patterns(host, top, common);
        if let Some(common) = common {
            patterns.extend(lines(read_below(common, Path::new("info/exclude"))));
        }
        Self {
            top: top.to_owned(),
            recorded_top: None,
            prefix: Vec::new(),
            patterns,
            common: directories.as_ref().map(|found| found.common.clone()),
            git_dir: directories.map(|found| found.own),
            tracked: OnceCell::new(),
        }
    }

    /// Returns the top of the working tree.
    pub(crate) fn top(&self) -> &Path {
        &self.top
    }

    /// Returns the recorded path of the top; `None` if it is above the recorded directory.
    pub(crate) fn recorded_top(&self) -> Option<&TreePath> {
        self.recorded_top.as_ref()
    }

    /// Returns the patterns that lie outside the working tree.
    pub(crate) fn into_patterns(self) -> Vec<u8> {
        self.patterns
    }

    /// Returns the directory of the index.
    pub(crate) fn git_dir(&self) -> Option<&Path> {
        self.git_dir.as_deref()
    }

    /// Returns the names of the repository's objects.
    pub(crate) fn object_names(&self) -> ObjectNames {
        let config = self.common.as_deref().map(|common| common.join("config"));
        let format = config.and_then(|config| setting(&config, "extensions", "objectformat"));
        match format.as_deref() {
            Some("sha256") => ObjectNames::Sha256,
            _ => ObjectNames::Sha1,
        }
    }

    /// Returns the directory of the repository's objects.
    pub(crate) fn objects(&self) -> impl Iterator<Item = PathBuf> {
        self.common.iter().map(|common| common.join("objects"))
    }

    /// Reads the repository's own attributes.
    pub(crate) fn info_attributes(&self) -> Option<io::Result<Vec<u8>>> {
        self.common.as_ref().map(|common| read_below(common, Path::new("info/attributes")))
    }

    /// Reads `core.attributesFile`: the project's, if that lies in the project, else the user's.
    pub(crate) fn user_attributes(&self, host: &Host) -> io::Result<Vec<u8>> {
        read_named("attributes", host, &self.top, self.common.as_deref())
    }

    /// Adds the rules that are not recorded to a hash: those outside of the working tree, and above the recorded directory.
    pub(crate) fn hash_rules(&self, root: &Path, hash: &mut Sha256) {
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        add(self.top.as_os_str().as_bytes());
        add(&self.patterns);
        for directory in root.ancestors().skip(1).take_while(|above| above.starts_with(&self.top)) {
            let below = directory.strip_prefix(&self.top).unwrap_or(Path::new(""));
            add(&lines(read_below(&self.top, &below.join(".gitignore"))));
        }
    }

    /// Adds the stamp of the index to a hash.
    pub(crate) fn hash_index(&self, hash: &mut Sha256) {
        let index = self.git_dir.as_ref().map(|git_dir| git_dir.join("index"));
        let metadata = index.and_then(|index| std::fs::metadata(index).ok());
        let stamp = metadata.map(|metadata| Stamp::from_metadata(&metadata)).unwrap_or_default();
        hash.update(stamp.inode.to_le_bytes());
        hash.update(stamp.modified.to_le_bytes());
        hash.update(stamp.changed.to_le_bytes());
    }

    /// Returns whether a recorded path, or one below it, is tracked.
    pub(crate) fn tracks(&self, path: &TreePath) -> bool {
        self.path_in_tree(path).is_some_and(|name| self.tracks_name(&name))
    }

    fn tracks_name(&self, name: &[u8]) -> bool {
        let tracked = self.tracked.get_or_init(|| match self.git_dir.as_deref() {
            Some(git_dir) => TrackedPaths::load(git_dir, self.object_names()),
            None => Some(TrackedPaths::default()),
        });
        let is_tracked =
            |tracked: &TrackedPaths| tracked.contains(name) || tracked.contains_below(name);
        tracked.as_ref().is_some_and(is_tracked)
    }

    /// Returns those of the recorded paths that are ignored and not tracked. A directory that holds a
    /// tracked file is not ignored.
    pub(crate) fn ignored(
        &self,
        git: &Git,
        paths: &[TreePath],
        deadline: Deadline,
    ) -> Result<Vec<TreePath>, ChangesError> {
        self.ignored_by(git, &self.top, None, paths, deadline)
    }

    /// Returns those of the recorded paths that other rules ignore: those in a directory that stands for the working tree,
    /// and patterns that lie outside of it, by default the same.
    pub(crate) fn ignored_by(
        &self,
        git: &Git,
        top: &Path,
        patterns: Option<&[u8]>,
        paths: &[TreePath],
        deadline: Deadline,
    ) -> Result<Vec<TreePath>, ChangesError> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let excludes = &git.excludes;
        let patterns = patterns.unwrap_or(&self.patterns);
        std::fs::write(excludes, patterns).map_err(ChangesError::io(excludes))?;
        let mut input = Vec::new();
        for name in paths.iter().filter_map(|path| self.path_in_tree(path)) {
            // No name begins like a pathspec with magic.
            input.extend_from_slice(b"./");
            input.extend_from_slice(&name);
            input.push(0);
        }
        let limit = input.len() as u64;
        let mut command = git.command(top);
        let mut setting = OsString::from("core.excludesFile=");
        setting.push(excludes);
        command.arg("-c").arg(setting).args(["check-ignore", "--no-index", "-z", "--stdin"]);
        let finished = Git::run(command, "check-ignore", input, limit, deadline)?;
        if !matches!(finished.status.code(), Some(0 | 1)) {
            return Err(finished.error("check-ignore"));
        }
        let names =
            finished.stdout.split(|&byte| byte == 0).filter_map(|name| name.strip_prefix(b"./"));
        let untracked = names.filter(|name| !self.tracks_name(name));
        Ok(untracked.map(|name| self.recorded_path(name)).collect())
    }

    /// Returns the index that was needed and could not be read.
    pub(crate) fn unreadable_index(&self) -> Option<PathBuf> {
        let is_unreadable = matches!(self.tracked.get(), Some(None));
        self.git_dir.as_ref().filter(|_| is_unreadable).map(|git_dir| git_dir.join("index"))
    }

    /// Returns the path of a recorded path in the working tree; `None` if it lies elsewhere.
    pub(crate) fn path_in_tree(&self, path: &TreePath) -> Option<Vec<u8>> {
        match &self.recorded_top {
            None => Some([&self.prefix, path.as_bytes()].concat()),
            Some(top) => path.below(top).map(<[u8]>::to_vec),
        }
    }

    fn recorded_path(&self, name: &[u8]) -> TreePath {
        match &self.recorded_top {
            None => TreePath::new(name.strip_prefix(self.prefix.as_slice()).unwrap_or(name)),
            Some(top) => top.join(name),
        }
    }
}

/// Returns the patterns of `core.excludesFile`: of the project's, if that lies in the project, else of the user's.
fn user_patterns(host: &Host, top: &Path, common: Option<&Path>) -> Vec<u8> {
    lines(read_named("ignore", host, top, common))
}

/// Reads the file that `core` names for a purpose, which is that of the file's default name: the project's, if it lies in the
/// project, else the user's.
fn read_named(name: &str, host: &Host, top: &Path, common: Option<&Path>) -> io::Result<Vec<u8>> {
    let key = if name == "ignore" { "excludesfile" } else { "attributesfile" };
    let config = common.map(|common| common.join("config"));
    let value = config.and_then(|config| setting(&config, "core", key));
    // git reads a relative path from the top of the working tree.
    let of_project = value.map(|value| top.join(expanded(&value, host)));
    let below = of_project.as_deref().and_then(|file| file.strip_prefix(top).ok());
    let is_name = |part| matches!(part, Component::Normal(_));
    if let Some(below) = below.filter(|below| below.components().all(is_name)) {
        return read_below(top, below);
    }
    let named = user_file(key, host);
    let file = named.unwrap_or_else(|| host.config.join("git").join(name));
    Disk.read(&file, FileKind::Gitignore)
}

/// Returns the file that a key of `core` names in the user's configuration.
fn user_file(key: &str, host: &Host) -> Option<PathBuf> {
    let files = [host.home.join(".gitconfig"), host.config.join("git/config")];
    files.iter().find_map(|file| named_file(file, key, host))
}

/// Returns a setting of a configuration file. Includes are not followed.
fn setting(file: &Path, section: &str, name: &str) -> Option<String> {
    let text = Disk.read_text(file, FileKind::Configuration).ok()?;
    let settings = git_settings(&text).settings.into_iter().rev();
    let mut found = settings.filter(|it| it.section == section && it.subsection.is_none());
    let found = found.find(|it| it.key == name).map(|it| it.value);
    found.filter(|value| !value.is_empty())
}

/// Returns the file that a key of `core` names in a configuration file.
fn named_file(file: &Path, key: &str, host: &Host) -> Option<PathBuf> {
    setting(file, "core", key).map(|value| host.home.join(expanded(&value, host)))
}

/// Returns a path with the home directory in the place of `~`.
fn expanded(path: &str, host: &Host) -> PathBuf {
    path.strip_prefix("~/").map_or_else(|| PathBuf::from(path), |below| host.home.join(below))
}

/// Returns the patterns of a file, with a line break at their end. One that cannot be read has none.
fn lines(read: io::Result<Vec<u8>>) -> Vec<u8> {
    let mut patterns = read.unwrap_or_default();
    if !patterns.is_empty() {
        patterns.push(b'\n');
    }
    patterns
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn attributes_of_a_project_are_read_in_the_project_alone() {
        let place = tempfile::tempdir().unwrap();
        let at = fs::canonicalize(place.path()).unwrap();
        let top = at.join("project");
        for directory in ["project/.git/objects", "project/.git/refs", "project/.git/info", "home"]
        {
            fs::create_dir_all(at.join(directory)).unwrap();
        }
        fs::write(top.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(at.join("home/key"), "secret").unwrap();
        fs::write(top.join("own"), "own").unwrap();
        symlink(at.join("home/key"), top.join("link")).unwrap();
        symlink(at.join("home/key"), top.join(".git/info/attributes")).unwrap();
        let home = at.join("home");
        let host = Host { path: "".into(), config: home.join("none"), home };
        let read = |file: &str| {
            let config = format!("[core]\n\tattributesFile = {file}\n");
            fs::write(top.join(".git/config"), config).unwrap();
            let work_tree = WorkTree::at(&top, &host);
            assert!(work_tree.info_attributes().unwrap().is_err());
            work_tree.user_attributes(&host).ok()
        };
        assert_eq!(read("own"), Some(b"own".to_vec()));
        for file in ["../home/key", "link", "~/key", at.join("home/key").to_str().unwrap()] {
            assert_eq!(read(file), None, "{file}");
        }
    }
}
