//! Contents that the user's repository has too: of tracked files that were clean when a turn began.
//!
//! A turn does not wait for the first copy of a directory. What it deletes meanwhile is read from the objects of the user's
//! repository, which is not written to: the index has the status and the object of each file, and a file with that status
//! has that content unless an attribute converts it. In a copy of a repository every file has another status; there the files
//! are compared with their objects before the turn, as far as time allows.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::attributes::Conversions;
use crate::change::{Change, Content, Node, Oid};
use crate::content::{COMPARED_FILES, Job, batches, in_parts, quoted, read_found};
use crate::error::ChangesError;
use crate::ignore_rules::WorkTree;
use crate::manifest::{FileEntry, Manifest};
use crate::store::Place;
use crate::tracked::{Known, ObjectNames, TrackedFiles};
use crate::tree_path::TreePath;

/// The objects of files that are not copied yet.
#[derive(Debug, Default)]
pub(crate) struct TrackedContents {
    oids: HashMap<TreePath, Oid>,
    /// The files that are known by their size and time, and were not compared.
    unverified: HashSet<TreePath>,
    /// The directories of objects.
    objects: Vec<PathBuf>,
}

impl TrackedContents {
    /// Returns whether a file can be restored from the user's repository.
    pub(crate) fn contains(&self, path: &TreePath) -> bool {
        self.oids.contains_key(path)
    }
}

impl Place {
    /// Finds the objects of the files in a state that are not copied. Files that the index does not know by their status are
    /// compared with their objects within a time.
    pub(crate) fn tracked_contents(&self, state: &Manifest, time: Duration) -> TrackedContents {
        let mut found = TrackedContents::default();
        let mut doubtful = Vec::new();
        let nested =
            state.directories.iter().filter(|(path, it)| it.is_repository && !path.is_root());
        let nested =
            nested.filter_map(|(path, _)| WorkTree::nested(&self.directory, path, self.host()));
        let outer = WorkTree::containing(&self.directory, self.host());
        let work_trees: Vec<WorkTree> = std::iter::once(outer).chain(nested).collect();
        for (number, work_tree) in work_trees.iter().enumerate() {
            // The store names objects as most repositories do.
            let git_dir =
                work_tree.git_dir().filter(|_| work_tree.object_names() == ObjectNames::Sha1);
            let Some(files) = git_dir.and_then(TrackedFiles::load) else { continue };
            let is_inside = |path: &TreePath| {
                let holds = |it: &WorkTree| it.recorded_top().is_none_or(|top| path.is_below(top));
                // A nested repository is listed after the one that it lies in.
                holds(work_tree) && !work_trees[number + 1..].iter().any(holds)
            };
            let conversions = Conversions::of(work_tree, state, &self.directory, self.host());
            for (path, entry) in state.files().filter(|(_, it)| it.content == Content::Pending) {
                if is_inside(&path)
                    && let Some(name) = work_tree.path_in_tree(&path)
                    && !conversions.apply_to(&name)
                    && let Some((oid, known)) = files.content(&name, entry)
                {
                    if known == Known::Status {
                        found.oids.insert(path, oid);
                    } else {
                        let &FileEntry { kind, size, stamp, .. } = entry;
                        doubtful.push((Job::new(path, kind, size, stamp), oid, known));
                    }
                }
            }
            found.objects.extend(work_tree.objects().filter(|objects| objects.is_dir()));
        }
        let compared = self.compare(&doubtful, Instant::now() + time);
        for ((job, oid, known), is_same) in doubtful.into_iter().zip(compared) {
            match (is_same, known) {
                (Some(true), _) => {}
                (None, Known::Time) => {
                    found.unverified.insert(job.path.clone());
                }
                _ => continue,
            }
            found.oids.insert(job.path, oid);
        }
        found
    }

    /// Compares files with objects until a time. `None` for a file that was not compared.
    fn compare(&self, files: &[(Job, Oid, Known)], until: Instant) -> Vec<Option<bool>> {
        let writer = self.writer();
        let compare = |part: &[(Job, Oid, Known)]| -> Vec<Option<bool>> {
            let compared = part.iter().map(|(job, oid, _)| {
                (Instant::now() < until).then(|| writer.has_object(job, *oid))
            });
            compared.collect()
        };
        in_parts(files, COMPARED_FILES, compare).concat()
    }

    /// Completes changes of files that were not copied before a turn changed them. Returns the paths of contents that are not
    /// certain.
    pub(crate) fn complete(
        &self,
        changes: &mut Vec<Change>,
        tracked: &TrackedContents,
    ) -> Result<Vec<TreePath>, ChangesError> {
        let lost = |change: &Change| {
            let node = change.before.as_ref()?;
            let oid = *tracked.oids.get(&change.path)?;
            (node.content()? == Content::Pending).then(|| (oid, size_of(node)))
        };
        let mut wanted: Vec<(Oid, Option<u64>)> = changes.iter().filter_map(lost).collect();
        wanted.sort_unstable();
        wanted.dedup();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let mut stored = HashMap::new();
        for batch in batches(&wanted, |(_, size)| size.unwrap_or_default()) {
            let oids: Vec<Oid> = batch.iter().map(|(oid, _)| *oid).collect();
            let mut command = self.git.command(&self.git.repository);
            command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", alternates(&tracked.objects));
            let limit = self.limits().file_bytes;
            let found = read_found(command, &oids, limit, self.deadline())?;
            let contents: Vec<(Oid, &[u8])> =
                found.iter().map(|(oid, content)| (*oid, content.as_slice())).collect();
            self.writer().store_contents(&contents, self.deadline())?;
            stored.extend(contents.iter().map(|(oid, content)| (*oid, content.len() as u64)));
            self.failpoint().reach();
        }
        let mut unverified = Vec::new();
        for change in changes.iter_mut() {
            let Some((oid, size)) = lost(change) else { continue };
            // A conversion of line ends or keywords makes the file longer than its object.
            if stored.get(&oid).is_some_and(|stored| size.is_none_or(|size| size == *stored))
                && let Some(Node::File { content, .. } | Node::Link { content }) =
                    &mut change.before
            {
                *content = Content::Stored(oid);
                if tracked.unverified.contains(&change.path) {
                    unverified.push(change.path.clone());
                }
            }
        }
        changes.retain(|change| change.before != change.after);
        Ok(unverified)
    }
}

/// Returns the size that the object of a file must have. The target of a link is its content.
fn size_of(node: &Node) -> Option<u64> {
    matches!(node, Node::File { .. }).then(|| node.size())
}

/// Returns the value of the variable that names directories of objects.
fn alternates(objects: &[PathBuf]) -> OsString {
    let quoted = objects.iter().map(|path| quoted(path.as_os_str().as_encoded_bytes()));
    OsString::from_vec(quoted.collect::<Vec<_>>().join(&b':'))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;
    use crate::git::Host;
    use crate::store::Changes;

    /// Files of a copied repository have other times than its index says.
    #[test]
    fn files_are_compared_with_their_objects_if_there_is_time() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for name in ["home", "data", "first"] {
            fs::create_dir(at(name)).unwrap();
        }
        for name in ["clean", "dirty", "longer"] {
            fs::write(at("first").join(name), "1111").unwrap();
        }
        let run = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            command.args(arguments).current_dir(root.path()).env("HOME", at("home"));
            assert!(command.status().unwrap().success());
        };
        run("git", &["-C", "first", "init", "-q"]);
        run("git", &["-C", "first", "add", "-A"]);
        run("cp", &["-r", "first", "copy"]);
        fs::write(at("copy/dirty"), "2222").unwrap();
        fs::write(at("copy/longer"), "11111").unwrap();
        let host = Host {
            path: std::env::var_os("PATH").unwrap(),
            config: at("home/.config"),
            home: at("home"),
        };
        let place = Changes::new(&at("data"), host).place(&at("copy")).unwrap();
        let state = place.scan(&Manifest::default(), None, place.deadline()).unwrap();
        let found = |time: Duration| {
            let tracked = place.tracked_contents(&state, time);
            assert!(tracked.unverified.is_empty());
            let mut paths: Vec<String> = tracked.oids.keys().map(ToString::to_string).collect();
            paths.sort_unstable();
            paths
        };
        assert_eq!(found(Duration::from_mins(1)), ["clean"]);
        assert_eq!(found(Duration::ZERO), [""; 0]);
    }
}
