//! The real file system, quick in and above one deep directory.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, OFlags, openat, statat};

use super::disk::read_open;
use super::{Disk, Files, Head, Kind};

/// One directory in so many is held open.
const EVERY: usize = 16;

/// The longest path that the system takes whole, its final zero included.
const MAX_PATH: usize = 4096;

/// The file system of this machine, seen from a directory that much will be asked about.
///
/// The system walks a path from its first name whenever it is asked about a file, which below 200
/// directories is a large part of the work. Here some directories on the way are held open, so that
/// a look costs a few names however deep the file lies. The answers are those of [`Disk`], and what
/// lies elsewhere is asked of it.
#[derive(Debug, Default)]
pub struct Nearby {
    /// The part of the directory's path that was seen to be free of links.
    physical: PathBuf,
    /// Directories of that part, outermost first.
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    path: PathBuf,
    descriptor: OwnedFd,
}

impl Nearby {
    /// Holds directories on the way to this one, which should be absolute; where one cannot be
    /// opened, those before it are held.
    pub fn new(directory: &Path) -> Self {
        let near = Self::walk(directory);
        if near.physical == directory {
            return near;
        }
        match Disk.canonicalize(directory) {
            Ok(physical) if physical != directory => Self::walk(&physical),
            _ => near,
        }
    }

    /// Goes down name by name, as far as there are directories and no links.
    fn walk(directory: &Path) -> Self {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut near = Self::default();
        let mut at: Option<OwnedFd> = None;
        for (depth, component) in directory.components().enumerate() {
            let opened = match (&at, component) {
                (None, Component::RootDir) => openat(CWD, "/", flags, 0.into()),
                (Some(above), Component::Normal(name)) => openat(above, name, flags, 0.into()),
                _ => break,
            };
            let Ok(descriptor) = opened else { break };
            near.physical.push(component);
            if depth > 0
                && depth.is_multiple_of(EVERY)
                && let Ok(descriptor) = descriptor.try_clone()
            {
                near.held.push(Held { path: near.physical.clone(), descriptor });
            }
            at = Some(descriptor);
        }
        near
    }

    /// Returns the nearest directory above a path that is held, and the path from there.
    fn nearest_held<'a>(&self, path: &'a Path) -> Option<(&OwnedFd, &'a OsStr)> {
        let path = path.as_os_str().as_bytes();
        // What is too long for the system is for others too, and so must fail here.
        if path.len() >= MAX_PATH {
            return None;
        }
        self.held.iter().rev().find_map(|held| {
            let below = below(path, held.path.as_os_str().as_bytes())?;
            // Left at the start, a slash would lead back to the root.
            let start = below.iter().position(|byte| *byte != b'/');
            let below = start.map_or(&b"."[..], |start| &below[start..]);
            Some((&held.descriptor, OsStr::from_bytes(below)))
        })
    }
}

/// What follows a directory in a path: nothing, or a slash and more.
fn below<'a>(path: &'a [u8], directory: &[u8]) -> Option<&'a [u8]> {
    path.strip_prefix(directory).filter(|rest| rest.first().is_none_or(|byte| *byte == b'/'))
}

impl Files for Nearby {
    fn entry_kind(&self, path: &Path) -> io::Result<Kind> {
        let Some((held, below)) = self.nearest_held(path) else {
            return Disk.entry_kind(path);
        };
        let found = statat(held, below, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(kind_of(FileType::from_raw_mode(found.st_mode)))
    }

    fn kind(&self, path: &Path) -> io::Result<Kind> {
        let Some((held, below)) = self.nearest_held(path) else {
            return Disk.kind(path);
        };
        let found = statat(held, below, AtFlags::empty())?;
        Ok(kind_of(FileType::from_raw_mode(found.st_mode)))
    }

    fn read_head(&self, path: &Path, limit: u64) -> io::Result<Head> {
        let Some((held, below)) = self.nearest_held(path) else {
            return Disk.read_head(path, limit);
        };
        let found = statat(held, below, AtFlags::empty())?;
        let kind = FileType::from_raw_mode(found.st_mode);
        let (FileType::RegularFile, Ok(size)) = (kind, u64::try_from(found.st_size)) else {
            return Disk.read_head(path, limit);
        };
        let file = openat(held, below, OFlags::RDONLY | OFlags::CLOEXEC, 0.into())?;
        read_open(File::from(file), size, limit)
    }

    fn listing(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        Disk.listing(directory)
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        Ok(self.entries(directory)?.into_iter().map(|(name, _)| name).collect())
    }

    fn entries(&self, directory: &Path) -> io::Result<Vec<(OsString, Kind)>> {
        let Some((held, below)) = self.nearest_held(directory) else {
            return Disk.entries(directory);
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut entries = Vec::new();
        for entry in Dir::new(openat(held, below, flags, 0.into())?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let name = OsString::from_vec(name.to_owned());
            let kind = match entry.file_type() {
                FileType::Unknown => self.entry_kind(&directory.join(&name))?,
                known => kind_of(known),
            };
            entries.push((name, kind));
        }
        entries.sort_by(|(left, _), (right, _)| left.cmp(right));
        Ok(entries)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        let physical = self.physical.as_os_str().as_bytes();
        let is_way =
            path.file_name().is_some() && below(physical, path.as_os_str().as_bytes()).is_some();
        if is_way { Ok(path.to_owned()) } else { Disk.canonicalize(path) }
    }
}

fn kind_of(found: FileType) -> Kind {
    match found {
        FileType::Symlink => Kind::Symlink,
        FileType::Directory => Kind::Directory,
        FileType::RegularFile => Kind::File,
        _ => Kind::Special,
    }
}
