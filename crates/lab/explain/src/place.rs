//! The directories around a working directory, each listed once, and the repository they lie in.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use convoke_files::git::{GitKind, git_kind};
use convoke_files::limit::TooManyEntries;
use convoke_files::{EntryKind, Files, Head};

use crate::survey;

/// The largest file whose text is kept for the next agent that asks for it.
const MAX_KEPT: u64 = 256 * 1024;

/// The maximum number of bytes that the rules of one agent read: far more than any model takes, and little enough to
/// keep.
const MAX_READ: u64 = 64 * 1024 * 1024;

/// Values by the bytes of a path, which are compared faster than its components.
pub type ByPath<V> = HashMap<OsString, V, foldhash::fast::RandomState>;

/// A cache of files and directory listings.
///
/// Every agent looks up a dozen names in every directory up to the root, and almost none exist; one listing answers all
/// of them. Only the given directories are listed, so that large directories elsewhere cost nothing.
pub(crate) struct Listed<'a> {
    cache: Arc<Cache<'a>>,
    /// The bytes that were read so far.
    read: Cell<u64>,
    /// The directories that have too many entries to be listed, as they were asked for.
    unlisted: RefCell<BTreeSet<PathBuf>>,
}

/// The cached files and listings, shared by all agents.
struct Cache<'a> {
    files: &'a (dyn Files + Sync),
    heads: Shared<ByPath<Head>>,
    /// The listings of other directories, as far as they were asked for.
    entries: Shared<ByPath<Vec<(OsString, EntryKind)>>>,
    /// The kinds of entries, links not followed, as far as the system was asked for them.
    kinds: Shared<ByPath<EntryKind>>,
    /// Directories that are free of links, other than the watched ones.
    real: Shared<HashSet<OsString, foldhash::fast::RandomState>>,
    /// The watched directories.
    listings: ByPath<Listing>,
}

/// A value that the threads of an explanation share.
#[derive(Default)]
struct Shared<T>(RwLock<T>);

impl<T> Shared<T> {
    fn borrow(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn borrow_mut(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Listing {
    entries: Vec<(OsString, EntryKind)>,
    /// The entries that may be instruction files, or directories of them.
    notable: Vec<OsString>,
}

impl<'a> Listed<'a> {
    /// Lists directories, which must be free of links; one that cannot be listed is asked name by
    /// name.
    pub(crate) fn new<'d>(
        files: &'a (dyn Files + Sync),
        directories: impl IntoIterator<Item = &'d Path>,
    ) -> Self {
        let mut listings = ByPath::default();
        for directory in directories {
            if listings.contains_key(directory.as_os_str()) {
                continue;
            }
            if let Ok(entries) = files.entries(directory) {
                let notable = entries.iter().map(|(name, _)| name);
                let notable = notable.filter(|name| survey::is_notable(name)).cloned().collect();
                listings.insert(directory.into(), Listing { entries, notable });
            }
        }
        let cache = Cache {
            files,
            heads: Shared::default(),
            entries: Shared::default(),
            kinds: Shared::default(),
            real: Shared::default(),
            listings,
        };
        Self { cache: cache.into(), read: Cell::new(0), unlisted: RefCell::default() }
    }

    /// Returns the same files for another agent, which has read nothing yet.
    pub(crate) fn for_agent(&self) -> Self {
        let cache = Arc::clone(&self.cache);
        Self { cache, read: Cell::new(0), unlisted: RefCell::default() }
    }

    /// Lists directories, and reads the file of one name in each, before an agent needs them.
    pub(crate) fn look_into(&self, directories: Vec<PathBuf>, name: &str, limit: u64) {
        let is_new = |it: &PathBuf| !self.cache.entries.borrow().contains_key(it.as_os_str());
        let directories: Vec<PathBuf> = directories.into_iter().filter(is_new).collect();
        let found = self.cache.files.look_into(&directories, name, limit);
        for (directory, found) in directories.into_iter().zip(found) {
            let Some(found) = found else { continue };
            if let Some(head) = found.head {
                self.cache.heads.borrow_mut().insert(directory.join(name).into(), head);
            }
            self.cache.entries.borrow_mut().insert(directory.into(), found.entries);
        }
    }

    /// Returns the directories that were not listed, because they have too many entries.
    pub(crate) fn into_unlisted(self) -> BTreeSet<PathBuf> {
        self.unlisted.into_inner()
    }

    /// Passes a listing on, and notes a directory that has too many entries.
    fn noted<T>(&self, directory: &Path, listing: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &listing
            && TooManyEntries::from_error(error).is_some()
        {
            self.unlisted.borrow_mut().insert(directory.to_owned());
        }
        listing
    }

    /// Returns the entries of a directory, sorted by name, if it was listed.
    pub(crate) fn listed(&self, directory: &Path) -> Option<&[(OsString, EntryKind)]> {
        self.cache.listings.get(directory.as_os_str()).map(|listing| listing.entries.as_slice())
    }

    /// Returns the names of a listed directory that may be instruction files, or directories of them.
    pub(crate) fn notable(&self, directory: &Path) -> &[OsString] {
        let listing = self.cache.listings.get(directory.as_os_str());
        listing.map_or(&[], |listing| listing.notable.as_slice())
    }

    /// Looks a path up in the listings: an error if it does not exist, its kind if it does, and `None` if the system
    /// must be asked.
    fn known(&self, path: &Path) -> io::Result<Option<EntryKind>> {
        // Names are looked for at most a few levels below a directory that was listed.
        let others = self.cache.entries.borrow();
        let mut below = path;
        for (level, directory) in path.ancestors().skip(1).take(4).enumerate() {
            let entries = self.listed(directory);
            let entries = entries.or_else(|| others.get(directory.as_os_str()).map(Vec::as_slice));
            if let (Some(entries), Some(name)) = (entries, below.file_name()) {
                let found = entries.binary_search_by(|(other, _)| other.as_os_str().cmp(name));
                let index = found.map_err(|_| io::Error::from(io::ErrorKind::NotFound))?;
                return Ok((level == 0).then(|| entries[index].1));
            }
            below = directory;
        }
        Ok(None)
    }

    /// Returns whether a directory is known to be free of links.
    fn is_real(&self, directory: &Path) -> bool {
        let is_marked = |it: &Path| {
            self.listed(it).is_some() || self.cache.real.borrow().contains(it.as_os_str())
        };
        is_marked(directory)
            || directory.file_name().is_some()
                && directory.parent().is_some_and(is_marked)
                && matches!(self.entry_kind(directory), Ok(EntryKind::Directory))
    }
}

impl Files for Listed<'_> {
    fn entry_kind(&self, path: &Path) -> io::Result<EntryKind> {
        if let Some(kind) = self.known(path)? {
            return Ok(kind);
        }
        if let Some(kind) = self.cache.kinds.borrow().get(path.as_os_str()) {
            return Ok(*kind);
        }
        let kind = self.cache.files.entry_kind(path)?;
        self.cache.kinds.borrow_mut().insert(path.into(), kind);
        Ok(kind)
    }

    fn kind(&self, path: &Path) -> io::Result<EntryKind> {
        match self.entry_kind(path)? {
            EntryKind::Symlink => self.cache.files.kind(path),
            kind => Ok(kind),
        }
    }

    fn read_head(&self, path: &Path, limit: u64) -> io::Result<Head> {
        self.known(path)?;
        let has_enough =
            |head: &&Head| head.size == head.bytes.len() as u64 || limit <= head.bytes.len() as u64;
        // A lookup of the size reads nothing; the total that is read is bounded. What another agent has read counts too,
        // so that the order of the agents does not matter.
        if limit > 0 && self.read.get() >= MAX_READ {
            return Err(too_much());
        }
        if let Some(head) = self.cache.heads.borrow().get(path.as_os_str()).filter(has_enough) {
            let end = usize::try_from(limit).unwrap_or(usize::MAX).min(head.bytes.len());
            self.read.set(self.read.get() + end as u64);
            return Ok(Head { bytes: head.bytes[..end].to_vec(), size: head.size });
        }
        let head = self.cache.files.read_head(path, limit)?;
        self.read.set(self.read.get() + head.bytes.len() as u64);
        if limit > 0 && head.bytes.len() as u64 <= MAX_KEPT {
            let path = path.as_os_str().to_owned();
            self.cache.heads.borrow_mut().insert(path, head.clone());
        }
        Ok(head)
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        self.known(directory)?;
        self.noted(directory, self.cache.files.names(directory))
    }

    fn entries(&self, directory: &Path) -> io::Result<Vec<(OsString, EntryKind)>> {
        if let Some(entries) = self.listed(directory) {
            return Ok(entries.to_vec());
        }
        self.known(directory)?;
        if let Some(entries) = self.cache.entries.borrow().get(directory.as_os_str()) {
            return Ok(entries.clone());
        }
        let entries = self.noted(directory, self.cache.files.entries(directory))?;
        self.cache.entries.borrow_mut().insert(directory.into(), entries.clone());
        Ok(entries)
    }

    fn listing(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        self.known(directory)?;
        self.noted(directory, self.cache.files.listing(directory))
    }

    fn identity(&self, path: &Path) -> io::Result<OsString> {
        self.cache.files.identity(path)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        // Below a directory that is free of links only the last name can be one. Asking the system would look at
        // every directory of the path again.
        if let (Some(parent), Some(name)) = (path.parent(), path.file_name())
            && path.as_os_str().len() == parent.as_os_str().len() + "/".len() + name.len()
            && self.is_real(parent)
            && matches!(self.entry_kind(path)?, EntryKind::File | EntryKind::Directory)
        {
            return Ok(path.to_owned());
        }
        let real = self.cache.files.canonicalize(path)?;
        let above = real.ancestors().skip(1).take_while(|it| !self.is_real(it));
        let above: Vec<OsString> = above.map(OsString::from).collect();
        self.cache.real.borrow_mut().extend(above);
        if matches!(self.entry_kind(&real), Ok(EntryKind::Directory)) {
            self.cache.real.borrow_mut().insert(real.clone().into());
        }
        Ok(real)
    }
}

fn too_much() -> io::Error {
    let message = format!("the files before it have more than {MAX_READ} bytes together");
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}

/// Returns the directories from just below the file system's root down to this one.
pub fn chain(directory: &Path) -> Vec<PathBuf> {
    let above = directory.ancestors().filter(|it| it.parent().is_some());
    let mut chain: Vec<_> = above.map(Path::to_owned).collect();
    chain.reverse();
    chain
}

/// Returns the nearest directory, going up, that contains one of the markers.
pub fn nearest_with(files: &dyn Files, directory: &Path, markers: &[String]) -> Option<PathBuf> {
    let holds = |directory: &&Path| {
        let mut markers = markers.iter();
        markers.any(|marker| files.kind(&directory.join(marker)).is_ok())
    };
    directory.ancestors().find(holds).map(Path::to_owned)
}

/// Returns the root of the git repository around a directory: the nearest with a `.git`.
pub fn git_root(files: &dyn Files, directory: &Path) -> Option<PathBuf> {
    nearest_with(files, directory, &[".git".to_owned()])
}

#[cfg(test)]
mod tests {
    use convoke_files::MemoryTree;

    use super::*;

    #[test]
    fn a_listing_answers_for_names_that_are_absent() {
        let mut tree = MemoryTree::default();
        tree.write("/r/a.md", "a");
        let listed = Listed::new(&tree, [Path::new("/r")]);
        assert!(listed.kind("/r/a.md".as_ref()).is_ok());
        let absent = ["/r/b.md", "/r/.claude/CLAUDE.md", "/r/.claude/rules"];
        for path in absent {
            let failed = listed.kind(path.as_ref()).unwrap_err();
            assert_eq!(failed.kind(), io::ErrorKind::NotFound, "{path}");
        }
        assert!(listed.kind("/elsewhere".as_ref()).is_err());
    }

    #[test]
    fn a_link_is_resolved_wherever_it_is_and_what_is_free_of_links_is_not_asked_for_again() {
        let mut tree = MemoryTree::default();
        tree.write("/r/real/a/SKILL.md", "a");
        tree.write("/r/real/b.md", "b");
        tree.link("/r/real/c.md", "b.md");
        tree.link("/r/real/d", "a");
        tree.link("/r/link", "real");
        let listed = Listed::new(&tree, [Path::new("/r")]);
        for _ in 0..2 {
            for (path, expected) in [
                ("/r/link", Some("/r/real")),
                ("/r/link/a/SKILL.md", Some("/r/real/a/SKILL.md")),
                ("/r/real/a/SKILL.md", Some("/r/real/a/SKILL.md")),
                ("/r/real/c.md", Some("/r/real/b.md")),
                ("/r/real/d", Some("/r/real/a")),
                ("/r/real/d/SKILL.md", Some("/r/real/a/SKILL.md")),
                ("/r/real/a/../b.md", Some("/r/real/b.md")),
                ("/r/real/none", None),
                ("/r/real/d/none", None),
            ] {
                let found = listed.canonicalize(path.as_ref()).ok();
                assert_eq!(found.as_deref(), expected.map(Path::new), "{path}");
                let is_same = listed.kind(path.as_ref()).ok() == tree.kind(path.as_ref()).ok();
                assert!(is_same, "{path}");
            }
            assert!(listed.entries("/r/real".as_ref()).is_ok());
        }
    }

    #[test]
    fn a_directory_that_cannot_be_listed_is_asked_name_by_name() {
        let mut tree = MemoryTree::default();
        tree.write("/r/a.md", "a");
        let listed = Listed::new(&tree, ["/r/a.md", "/missing"].map(Path::new));
        assert!(listed.kind("/r/a.md".as_ref()).is_ok());
    }

    #[test]
    fn an_explanation_reads_no_more_than_its_limit_however_many_files_there_are() {
        let mut tree = MemoryTree::default();
        let size = 1 << 20;
        for number in 0..=MAX_READ / size {
            tree.write(format!("/r/{number}.md"), vec![b'x'; usize::try_from(size).unwrap()]);
        }
        let listed = Listed::new(&tree, []);
        let read = |number: u64| listed.read_head(format!("/r/{number}.md").as_ref(), u64::MAX);
        assert!((0..MAX_READ / size).all(|number| read(number).is_ok()));
        let refused = read(MAX_READ / size).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
        assert!(refused.to_string().contains(&MAX_READ.to_string()), "{refused}");
    }

    #[test]
    fn the_chain_leaves_the_root_of_the_file_system_out() {
        let expected: Vec<PathBuf> = vec!["/a".into(), "/a/b".into()];
        assert_eq!(chain("/a/b".as_ref()), expected);
    }
}
