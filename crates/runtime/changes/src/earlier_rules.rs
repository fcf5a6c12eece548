//! The ignore rules of an earlier state. They find files that a turn created and ignored itself, which count as
//! created.

use std::fs;
use std::path::{Path, PathBuf};

use crate::change::Oid;
use crate::content::read;
use crate::error::ChangesError;
use crate::ignore_rules::WorkTree;
use crate::limits::Limits;
use crate::manifest::{FileKind, Manifest};
use crate::pattern_file::read_below;
use crate::scan::{IGNORE_FILE, Scan};
use crate::tree_path::TreePath;

/// The maximum number of bytes of a file of rules.
const RULES_BYTES: u64 = 1 << 20;

/// The rules of a state, laid out as files. They are removed in the end.
#[derive(Debug)]
pub(crate) struct EarlierRules {
    /// The directory that represents the top of the outermost working tree.
    top: PathBuf,
    /// The directory that represents the recorded one.
    root: PathBuf,
    /// Whether all files of rules are stored.
    is_known: bool,
}

impl EarlierRules {
    /// Lays out the rules of a state.
    pub(crate) fn create(
        scan: &Scan<'_>,
        state: &Manifest,
        outer: &WorkTree,
    ) -> Result<Self, ChangesError> {
        let mut rules: Vec<(TreePath, Oid)> = Vec::new();
        let mut is_known = true;
        // A file of rules that is itself ignored is not part of a state; its current content is used.
        let mut unrecorded: Vec<PathBuf> = Vec::new();
        for (path, directory) in &state.directories {
            if directory.left_out.contains_key(IGNORE_FILE) {
                unrecorded.push(path.join(IGNORE_FILE).under(Path::new("")));
            }
            // git does not follow a link here, either.
            let entry = directory.files.get(IGNORE_FILE);
            let Some(entry) = entry.filter(|it| it.kind == FileKind::Regular) else { continue };
            match entry.content.stored().filter(|_| entry.size <= RULES_BYTES) {
                Some(oid) => rules.push((path.join(IGNORE_FILE), oid)),
                None => is_known = false,
            }
        }
        let oids: Vec<Oid> = rules.iter().map(|(_, oid)| *oid).collect();
        let contents = read(scan.git, &scan.git.repository, &oids, RULES_BYTES, scan.deadline)?;
        let top = scan.scratch.join("rules");
        let _ = fs::remove_dir_all(&top);
        let below = scan.directory.strip_prefix(outer.top()).unwrap_or(Path::new(""));
        let laid_out = Self { root: top.join(below), top, is_known };
        create_directory(&laid_out.root)?;
        let unrecorded = unrecorded.into_iter().map(|path| below.join(path));
        // Nor are those above the recorded directory.
        let above = below.ancestors().skip(1).map(|above| above.join(".gitignore"));
        for path in unrecorded.chain(above) {
            let to = laid_out.top.join(&path);
            if let Ok(rules) = read_below(outer.top(), &path) {
                create_directory(to.parent().unwrap_or(&laid_out.top))?;
                fs::write(&to, rules).map_err(ChangesError::io(&to))?;
            }
        }
        for (path, oid) in rules {
            let to = path.under(&laid_out.root);
            create_directory(to.parent().unwrap_or(&laid_out.root))?;
            let content = contents.get(&oid).map(Vec::as_slice).unwrap_or_default();
            fs::write(&to, content).map_err(ChangesError::io(&to))?;
        }
        Ok(laid_out)
    }

    /// Returns those of the paths that the rules ignore, of one working tree, or all if not every rule is known. Those of
    /// directories say so.
    pub(crate) fn ignored(
        &self,
        scan: &Scan<'_>,
        work_tree: &WorkTree,
        paths: &[(TreePath, bool)],
    ) -> Result<Vec<TreePath>, ChangesError> {
        if !self.is_known {
            return Ok(paths.iter().map(|(path, _)| path.clone()).collect());
        }
        for (path, _) in paths.iter().filter(|(_, is_directory)| *is_directory) {
            // Some rules hold for directories alone.
            create_directory(&path.under(&self.root))?;
        }
        let names: Vec<TreePath> = paths.iter().map(|(path, _)| path.clone()).collect();
        let (top, patterns) = match work_tree.recorded_top() {
            Some(top) if !top.is_root() => (top.under(&self.root), None),
            _ => (self.top.clone(), scan.earlier_patterns),
        };
        create_directory(&top)?;
        work_tree.ignored_by(scan.git, &top, patterns, &names, scan.deadline)
    }
}

impl Drop for EarlierRules {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.top);
    }
}

/// The files that a turn created and ignored, as far as they are recorded.
#[derive(Debug)]
pub(crate) struct HiddenBudget {
    files: u64,
    bytes: u64,
}

impl HiddenBudget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { files: limits.hidden_files, bytes: limits.hidden_bytes }
    }

    /// Takes a file or a directory with all that is in it. Returns `false`, and takes nothing, if it is too much.
    pub(crate) fn take(&mut self, path: &Path) -> bool {
        let (mut files, mut bytes) = (self.files, self.bytes);
        let mut waiting = vec![path.to_owned()];
        while let Some(path) = waiting.pop() {
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            let size = if metadata.is_file() { metadata.len() } else { 0 };
            let (Some(some_files), Some(some_bytes)) =
                (files.checked_sub(1), bytes.checked_sub(size))
            else {
                return false;
            };
            (files, bytes) = (some_files, some_bytes);
            if metadata.is_dir() {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                waiting.extend(entries.map(|entry| entry.path()).take(HIDDEN_ENTRIES));
            }
        }
        (self.files, self.bytes) = (files, bytes);
        true
    }
}

/// More entries of a directory than any budget has.
const HIDDEN_ENTRIES: usize = 100_000;

fn create_directory(path: &Path) -> Result<(), ChangesError> {
    fs::create_dir_all(path).map_err(ChangesError::io(path))
}
