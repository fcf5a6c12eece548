//! The files of a repository as every machine has them.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use convoke_files::{EntryKind, Files, Head};

/// Names of files that belong to one person and are not committed.
const PERSONAL: [&str; 4] =
    ["CLAUDE.local.md", "AGENTS.local.md", "GEMINI.local.md", "settings.local.json"];

/// A repository without what lies outside of it and without the files of one person: no home directory, no directory above
/// the root, no file of the machine, and no link that leads there.
pub struct SharedFiles<'f> {
    files: &'f (dyn Files + Sync),
    root: PathBuf,
}

impl<'f> SharedFiles<'f> {
    /// Shows the files below a root, which must be free of links.
    pub fn new(files: &'f (dyn Files + Sync), root: impl Into<PathBuf>) -> Self {
        Self { files, root: root.into() }
    }

    /// Returns the path if the repository has it.
    fn inside<'p>(&self, path: &'p Path) -> io::Result<&'p Path> {
        if path.starts_with(&self.root) && !path.file_name().is_some_and(is_personal) {
            return Ok(path);
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// Returns the name by which a directory above the root leads to it.
    fn towards_root(&self, directory: &Path) -> Option<OsString> {
        let below = self.root.strip_prefix(directory).ok()?;
        below.components().next().map(|name| name.as_os_str().to_owned())
    }
}

fn is_personal(name: &OsStr) -> bool {
    PERSONAL.iter().any(|personal| name == *personal)
}

impl Files for SharedFiles<'_> {
    fn entry_kind(&self, path: &Path) -> io::Result<EntryKind> {
        if self.root.starts_with(path) {
            return Ok(EntryKind::Directory);
        }
        self.files.entry_kind(self.inside(path)?)
    }

    fn kind(&self, path: &Path) -> io::Result<EntryKind> {
        match self.entry_kind(path)? {
            EntryKind::Symlink => {
                let real = self.canonicalize(path)?;
                self.files.kind(&real)
            }
            kind => Ok(kind),
        }
    }

    fn read_head(&self, path: &Path, limit: u64) -> io::Result<Head> {
        let real = self.canonicalize(path)?;
        self.files.read_head(&real, limit)
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        if let Some(name) = self.towards_root(directory) {
            return Ok(vec![name]);
        }
        let mut names = self.files.names(self.inside(directory)?)?;
        names.retain(|name| !is_personal(name));
        Ok(names)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        if self.root.starts_with(path) {
            return Ok(path.to_owned());
        }
        let real = self.files.canonicalize(self.inside(path)?)?;
        self.inside(&real)?;
        Ok(real)
    }

    fn entries(&self, directory: &Path) -> io::Result<Vec<(OsString, EntryKind)>> {
        if let Some(name) = self.towards_root(directory) {
            return Ok(vec![(name, EntryKind::Directory)]);
        }
        let mut entries = self.files.entries(self.inside(directory)?)?;
        entries.retain(|(name, _)| !is_personal(name));
        Ok(entries)
    }

    fn listing(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        if let Some(name) = self.towards_root(directory) {
            return Ok(vec![name]);
        }
        let mut names = self.files.listing(self.inside(directory)?)?;
        names.retain(|name| !is_personal(name));
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use convoke_files::MemoryTree;

    use super::*;

    #[test]
    fn nothing_outside_of_the_repository_and_nothing_of_one_person_is_there() {
        let mut tree = MemoryTree::default();
        tree.write("/home/me/CLAUDE.md", "mine");
        tree.write("/home/me/shop/AGENTS.md", "ours");
        tree.write("/home/me/shop/CLAUDE.local.md", "mine");
        tree.link("/home/me/shop/out.md", "../CLAUDE.md");
        tree.link("/home/me/shop/CLAUDE.md", "AGENTS.md");
        let files = SharedFiles::new(&tree, "/home/me/shop");
        let is_there = |path: &str| files.kind(Path::new(path)).is_ok();
        assert!(is_there("/home/me/shop/AGENTS.md") && is_there("/home/me/shop/CLAUDE.md"));
        assert!(!is_there("/home/me/CLAUDE.md") && !is_there("/home/me/shop/CLAUDE.local.md"));
        assert!(!is_there("/home/me/shop/out.md"));
        assert!(files.read_head("/home/me/shop/out.md".as_ref(), 9).is_err());
        assert_eq!(files.names("/home/me".as_ref()).unwrap(), ["shop"]);
        let names = files.names("/home/me/shop".as_ref()).unwrap();
        assert_eq!(names, ["AGENTS.md", "CLAUDE.md", "out.md"]);
    }
}
