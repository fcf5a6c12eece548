//! An entry of a directory, reached through descriptors: no directory on the way may be a link, also if something
//! exchanges one for a link in the meantime.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, XattrFlags, chmod, fchmod, fgetxattr, flistxattr,
    fsetxattr, fstat, mkdirat, openat, readlinkat, renameat, statat, symlinkat, unlinkat,
};

use crate::change::FileMode;
use crate::manifest::{MODE_BITS, Stamp};
use crate::tree_path::TreePath;

/// The flags of a descriptor that only names a directory.
pub(crate) const NAMED: OFlags =
    OFlags::DIRECTORY.union(OFlags::CLOEXEC).union(if cfg!(target_os = "linux") {
        OFlags::from_bits_retain(0o10_000_000) // O_PATH: needs no permission to read.
    } else {
        OFlags::RDONLY
    });

/// A name in an open directory.
#[derive(Debug)]
pub(crate) struct Entry {
    parent: Rc<OwnedFd>,
    name: OsString,
}

/// Opens entries below a root, and keeps the directory of the last one open for the next.
#[derive(Debug)]
pub(crate) struct Entries<'a> {
    root: &'a Path,
    last: Option<(TreePath, Rc<OwnedFd>)>,
}

impl<'a> Entries<'a> {
    pub(crate) fn below(root: &'a Path) -> Self {
        Self { root, last: None }
    }

    /// Opens the directory of a path as [`Entry::open`] does.
    pub(crate) fn open(&mut self, path: &TreePath) -> io::Result<Entry> {
        self.entry(path, Entry::open)
    }

    /// Opens the directory of a path as [`Entry::create`] does.
    pub(crate) fn create(&mut self, path: &TreePath) -> io::Result<Entry> {
        self.entry(path, Entry::create)
    }

    fn entry(
        &mut self,
        path: &TreePath,
        walk: impl FnOnce(&Path, &TreePath) -> io::Result<Entry>,
    ) -> io::Result<Entry> {
        let directory = path.parent().unwrap_or_default();
        if let Some((last, parent)) = &self.last
            && *last == directory
        {
            let name = OsString::from_vec(path.name().to_vec());
            return Ok(Entry { parent: parent.clone(), name });
        }
        let entry = walk(self.root, path)?;
        self.last = Some((directory, entry.parent.clone()));
        Ok(entry)
    }
}

/// The entry under a name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub is_directory: bool,
    pub mode: FileMode,
    pub stamp: Stamp,
}

impl Entry {
    /// Opens the directory of a path below a root. Fails if a directory on the way is missing, a link or `..`.
    pub(crate) fn open(root: &Path, path: &TreePath) -> io::Result<Self> {
        Self::walk(root, path, |_, _| Ok(()))
    }

    /// Opens the directory of a path below a root, and creates those that are missing.
    pub(crate) fn create(root: &Path, path: &TreePath) -> io::Result<Self> {
        Self::walk(root, path, |parent, name| {
            match mkdirat(parent, Path::new(name), Mode::from_raw_mode(0o777)) {
                Err(rustix::io::Errno::EXIST) => Ok(()),
                made => Ok(made?),
            }
        })
    }

    fn walk(
        root: &Path,
        path: &TreePath,
        prepare: impl Fn(&OwnedFd, &std::ffi::OsStr) -> io::Result<()>,
    ) -> io::Result<Self> {
        let mut parent = openat(CWD, root, NAMED, Mode::empty())?;
        let mut names = path.as_bytes().split(|&byte| byte == b'/').collect::<Vec<_>>();
        if names.contains(&b"..".as_slice()) {
            let why = "the path leads out of its directory";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let name = OsString::from_vec(names.pop().unwrap_or_default().to_vec());
        for name in names.into_iter().map(std::ffi::OsStr::from_bytes) {
            prepare(&parent, name)?;
            parent = openat(&parent, Path::new(name), NAMED | OFlags::NOFOLLOW, Mode::empty())?;
        }
        Ok(Self { parent: Rc::new(parent), name })
    }

    fn name(&self) -> &Path {
        Path::new(&self.name)
    }

    /// Returns the entry; a link is not followed.
    pub(crate) fn found(&self) -> io::Result<Found> {
        let stat = statat(&self.parent, self.name(), AtFlags::SYMLINK_NOFOLLOW)?;
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let mode = FileMode::from(stat.st_mode) & MODE_BITS;
        Ok(Found { is_directory, mode, stamp: Stamp::of_stat(&stat) })
    }

    /// Opens a regular file to read it. Fails if something else has taken its place; nothing is waited for.
    pub(crate) fn open_file(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.parent, self.name(), flags, Mode::empty())?);
        if file.metadata()?.is_file() {
            return Ok(file);
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
    }

    /// Returns the target of a link.
    pub(crate) fn link_target(&self) -> io::Result<Vec<u8>> {
        Ok(readlinkat(&self.parent, self.name(), Vec::new())?.into_bytes())
    }

    /// Removes a file, a link or an empty directory.
    pub(crate) fn remove(&self, found: Found) -> io::Result<()> {
        let flags = if found.is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        Ok(unlinkat(&self.parent, self.name(), flags)?)
    }

    /// Creates a directory, unless there is one.
    pub(crate) fn create_directory(&self) -> io::Result<()> {
        match self.found() {
            Ok(found) if found.is_directory => Ok(()),
            _ => Ok(mkdirat(&self.parent, self.name(), Mode::from_raw_mode(0o777))?),
        }
    }

    /// Sets the mode of a directory.
    pub(crate) fn set_directory_mode(&self, mode: FileMode) -> io::Result<()> {
        let mode = Mode::from_raw_mode(mode);
        let readable = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if let Ok(directory) = openat(&self.parent, self.name(), readable, Mode::empty()) {
            return Ok(fchmod(directory, mode)?);
        }
        // One that may not be read can still be named.
        let named = openat(&self.parent, self.name(), NAMED | OFlags::NOFOLLOW, Mode::empty())?;
        Ok(chmod(format!("/proc/self/fd/{}", named.as_raw_fd()), mode)?)
    }

    /// Sets the mode of a regular file, which need not be readable.
    pub(crate) fn set_file_mode(&self, mode: FileMode) -> io::Result<()> {
        let flags = NAMED.difference(OFlags::DIRECTORY) | OFlags::NOFOLLOW;
        let named = openat(&self.parent, self.name(), flags, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&named)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let mode = Mode::from_raw_mode(mode);
        Ok(chmod(format!("/proc/self/fd/{}", named.as_raw_fd()), mode)?)
    }

    /// Moves a staged file here, by a copy of another name beside it if the file systems differ. Returns whether it is the same
    /// file.
    pub(crate) fn replace_by(&self, staged: &Path, beside: &Path) -> io::Result<bool> {
        if let Ok(replaced) = self.open_file()
            && has_attributes(&replaced)
            && let Ok(staged) =
                openat(CWD, staged, OFlags::RDONLY | OFlags::NOFOLLOW, Mode::empty())
        {
            keep_attributes(&replaced, &File::from(staged));
        }
        match renameat(CWD, staged, &self.parent, self.name()) {
            Err(rustix::io::Errno::XDEV) => {
                let _ = unlinkat(&self.parent, beside, AtFlags::empty());
                if staged.is_symlink() {
                    symlinkat(fs::read_link(staged)?, &self.parent, beside)?;
                } else {
                    let mut from = File::open(staged)?;
                    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                    let to = openat(&self.parent, beside, flags, Mode::from_raw_mode(0o600))?;
                    let mut to = File::from(to);
                    io::copy(&mut from, &mut to)?;
                    to.set_permissions(from.metadata()?.permissions())?;
                    keep_attributes(&from, &to);
                }
                renameat(&self.parent, beside, &self.parent, self.name())?;
                fs::remove_file(staged)?;
                Ok(false)
            }
            moved => Ok(moved.map(|()| true)?),
        }
    }
}

/// The extended attributes that a file keeps when its content is replaced: the user's own, access lists and labels. The
/// kernel drops others with a change of the content, too.
const KEPT_ATTRIBUTES: [&str; 3] = ["user.", "system.posix_acl_access", "security.selinux"];
/// The bytes that are read of names, and of a value.
const ATTRIBUTE_BYTES: usize = 64 << 10;

fn has_attributes(file: &File) -> bool {
    // A name does not fit into one byte, which is an error.
    let mut names = [0; 1];
    flistxattr(file, &mut names) != Ok(0)
}

/// Copies the extended attributes of a file to the one that takes its place, as far as the file system allows. The mode stays:
/// an access list has one of its own.
fn keep_attributes(from: &File, to: &File) {
    let mut names = vec![0; ATTRIBUTE_BYTES];
    let Ok(length) = flistxattr(from, names.as_mut_slice()) else { return };
    let names = names[..length].split(|&byte| byte == 0).filter_map(|it| str::from_utf8(it).ok());
    let kept = names.filter(|name| KEPT_ATTRIBUTES.iter().any(|it| name.starts_with(it)));
    let mode = to.metadata().map(|metadata| metadata.permissions());
    for name in kept {
        let mut value = vec![0; ATTRIBUTE_BYTES];
        if let Ok(length) = fgetxattr(from, name, value.as_mut_slice()) {
            let _ = fsetxattr(to, name, &value[..length], XattrFlags::empty());
        }
    }
    if let Ok(mode) = mode {
        let _ = to.set_permissions(mode);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_directory_that_is_exchanged_for_a_link_leads_nowhere() {
        let place = tempfile::tempdir().unwrap();
        let (root, outside) = (place.path().join("root"), place.path().join("outside"));
        fs::create_dir_all(root.join("d")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("x"), "theirs").unwrap();
        let staged = place.path().join("staged");
        fs::write(&staged, "ours").unwrap();
        let path = TreePath::new("d/x");
        let entry = Entry::open(&root, &path).unwrap();
        fs::rename(root.join("d"), root.join("away")).unwrap();
        symlink(&outside, root.join("d")).unwrap();

        assert!(Entry::open(&root, &path).is_err());
        for out in ["..", "../outside/x", "away/../../outside/x"] {
            assert!(Entry::open(&root, &TreePath::new(out)).is_err(), "{out}");
        }
        assert!(Entry::create(&root, &path).is_err());
        let linked = Entry::open(&root, &TreePath::new("d")).unwrap();
        assert!(linked.set_directory_mode(0o777).is_err());
        entry.replace_by(&staged, Path::new("beside")).unwrap();
        assert_eq!(fs::read_to_string(root.join("away/x")).unwrap(), "ours");
        assert_eq!(fs::read_to_string(outside.join("x")).unwrap(), "theirs");
    }
}
