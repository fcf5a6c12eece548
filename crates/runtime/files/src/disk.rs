//! The real file system.

use std::ffi::OsString;
use std::fs::{self, File, FileType};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::thread;

#[cfg(unix)]
use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

#[cfg(unix)]
use rustix::fs::{CWD, Dir, FileType as RawFileType, Mode, OFlags, openat};

#[cfg(unix)]
use super::limit::MAX_ENTRIES;
use super::limit::{self, collect_entries};
use super::{EntryKind, FileKind, Files, Head, LookedInto};

/// The file system of this machine.
///
/// Only regular files are read: a link to a pipe or a device would otherwise hang or never end, and a link to a file of
/// the kernel would deliver the secrets of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Files for Disk {
    fn entry_kind(&self, path: &Path) -> io::Result<EntryKind> {
        fs::symlink_metadata(path).map(|found| kind_of(found.file_type()))
    }

    fn kind(&self, path: &Path) -> io::Result<EntryKind> {
        fs::metadata(path).map(|found| kind_of(found.file_type()))
    }

    fn read_head(&self, path: &Path, limit: u64) -> io::Result<Head> {
        OpenedFile::open(path)?.read_head(limit)
    }

    fn read(&self, path: &Path, kind: FileKind) -> io::Result<Vec<u8>> {
        OpenedFile::open(path)?.read(path, kind)
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let mut names = self.listing(directory)?;
        names.sort();
        Ok(names)
    }

    fn listing(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        collect_entries(fs::read_dir(directory)?.map(|entry| entry.map(|found| found.file_name())))
    }

    fn entries(&self, directory: &Path) -> io::Result<Vec<(OsString, EntryKind)>> {
        // The system returns the kind with the name, so that no entry needs another call.
        let found = fs::read_dir(directory)?
            .map(|entry| entry.and_then(|it| Ok((it.file_name(), kind_of(it.file_type()?)))));
        let mut entries = collect_entries(found)?;
        entries.sort_by(|(left, _), (right, _)| left.cmp(right));
        Ok(entries)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path)
    }

    #[cfg(unix)]
    fn identity(&self, path: &Path) -> io::Result<OsString> {
        use std::os::unix::fs::MetadataExt as _;
        let found = fs::metadata(path)?;
        Ok(format!("{}:{}", found.dev(), found.ino()).into())
    }

    fn look_into(
        &self,
        directories: &[PathBuf],
        name: &str,
        limit: u64,
    ) -> Vec<Option<LookedInto>> {
        let all = |directories: &[PathBuf]| {
            let look = |directory: &PathBuf| look_into(directory, name, limit);
            directories.iter().map(look).collect::<Vec<_>>()
        };
        let (here, there) = directories.split_at(directories.len() / 2);
        thread::scope(|scope| {
            let other = thread::Builder::new().spawn_scoped(scope, || all(there));
            let mut found = all(here);
            found.extend(match other {
                Ok(other) => other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                // The system has no thread to spare.
                Err(_) => all(there),
            });
            found
        })
    }
}

/// A regular file that is held open: what was checked is what is read.
#[derive(Debug)]
pub struct OpenedFile {
    file: File,
    size: u64,
    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    path: PathBuf,
}

impl OpenedFile {
    /// Opens a file, following links. Refuses everything but regular files and the null device.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Looked at before it is opened, because opening a pipe waits for its writer.
        check_regular(&fs::metadata(path)?)?;
        let file = open_at_once(path)?;
        let found = file.metadata()?;
        check_regular(&found)?;
        check_stored(&file)?;
        Ok(Self {
            file,
            size: found.len(),
            #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
            path: path.to_owned(),
        })
    }

    /// Returns the path of the opened file, without links.
    #[cfg(target_os = "linux")]
    pub fn real_path(&self) -> io::Result<PathBuf> {
        use std::os::fd::AsRawFd as _;
        fs::read_link(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// Returns the path of the opened file, without links.
    #[cfg(target_vendor = "apple")]
    pub fn real_path(&self) -> io::Result<PathBuf> {
        let path = rustix::fs::getpath(&self.file)?;
        Ok(PathBuf::from(OsStr::from_bytes(path.as_bytes())))
    }

    /// Returns the path of the opened file, without links.
    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    pub fn real_path(&self) -> io::Result<PathBuf> {
        fs::canonicalize(&self.path)
    }

    /// Reads the start of the file.
    pub fn read_head(self, limit: u64) -> io::Result<Head> {
        read_up_to(self.file, self.size, limit)
    }

    /// Reads the whole file within the limit of a kind; the error calls it `path`.
    pub fn read(self, path: &Path, kind: FileKind) -> io::Result<Vec<u8>> {
        limit::check(path, kind, self.size)?;
        let head = self.read_head(kind.limit() + 1)?;
        // It may have grown since, and some files have no size.
        limit::check(path, kind, head.bytes.len() as u64)?;
        Ok(head.bytes)
    }
}

/// Opens a file that may have been replaced by a pipe meanwhile, which is not waited for.
#[cfg(unix)]
fn open_at_once(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(openat(CWD, path, flags, Mode::empty())?))
}

#[cfg(not(unix))]
fn open_at_once(path: &Path) -> io::Result<File> {
    File::open(path)
}

fn check_regular(found: &fs::Metadata) -> io::Result<()> {
    match found {
        found if found.is_dir() => Err(is_a_directory()),
        found if found.is_file() || is_null_device(found) => Ok(()),
        _ => Err(not_regular()),
    }
}

/// A link to the null device is how people empty a file for good.
#[cfg(unix)]
fn is_null_device(found: &fs::Metadata) -> bool {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
    let is_same = |null: fs::Metadata| null.rdev() == found.rdev();
    found.file_type().is_char_device() && fs::metadata("/dev/null").is_ok_and(is_same)
}

#[cfg(not(unix))]
fn is_null_device(_found: &fs::Metadata) -> bool {
    false
}

/// Refuses files that the kernel makes up, wherever they are mounted: what they contain depends on who reads them, such
/// as the environment of this process.
#[cfg(target_os = "linux")]
fn check_stored(file: &File) -> io::Result<()> {
    /// The file systems of `/proc` and of everything below `/sys`.
    const KERNELS: [u32; 13] = [
        0x9fa0,      // proc
        0x6265_6572, // sysfs
        0x6462_6720, // debugfs
        0x7472_6163, // tracefs
        0x7363_6673, // securityfs
        0x0027_e0eb, // cgroup
        0x6367_7270, // cgroup2
        0x6265_6570, // configfs
        0xde5e_81e4, // efivarfs
        0xcafe_4a11, // bpf
        0x6165_676c, // pstore
        0xf97c_ff8c, // selinuxfs
        0x6573_5543, // fusectl
    ];
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a magic number has 32 bits, in a field whose type depends on the machine"
    )]
    let kind = rustix::fs::fstatfs(file)?.f_type as u32;
    if KERNELS.contains(&kind) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a file of the kernel"));
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn check_stored(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Reads the beginning of a regular file of a size; nothing is asked for behind its end.
fn read_up_to(file: File, size: u64, limit: u64) -> io::Result<Head> {
    // Some files have no size.
    let end = if size == 0 { limit } else { size.min(limit) };
    let mut bytes = Vec::with_capacity(usize::try_from(size.min(limit)).unwrap_or(0));
    #[expect(clippy::disallowed_methods, reason = "a limit is taken")]
    file.take(end).read_to_end(&mut bytes)?;
    // It may have grown since.
    let size = size.max(bytes.len() as u64);
    Ok(Head { bytes, size })
}

#[cfg(not(unix))]
fn look_into(directory: &Path, name: &str, limit: u64) -> Option<LookedInto> {
    let entries = Disk.entries(directory).ok()?;
    let is_there = entries.iter().any(|(it, kind)| it == name && *kind == EntryKind::File);
    let head = is_there.then(|| Disk.read_head(&directory.join(name), limit).ok()).flatten();
    Some(LookedInto { entries, head })
}

/// Looks into a directory that is held open, so that the file in it is found without another walk along the path.
#[cfg(unix)]
fn look_into(directory: &Path, name: &str, limit: u64) -> Option<LookedInto> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut open = Dir::new(openat(CWD, directory, flags, Mode::empty()).ok()?).ok()?;
    let mut entries = Vec::new();
    while let Some(entry) = open.read() {
        let entry = entry.ok()?;
        let bytes = entry.file_name().to_bytes();
        if matches!(bytes, b"." | b"..") {
            continue;
        }
        let found = OsStr::from_bytes(bytes).to_owned();
        let kind = match entry.file_type() {
            RawFileType::RegularFile => EntryKind::File,
            RawFileType::Directory => EntryKind::Directory,
            RawFileType::Symlink => EntryKind::Symlink,
            // Some file systems leave it to another call.
            RawFileType::Unknown => Disk.entry_kind(&directory.join(&found)).ok()?,
            _ => EntryKind::Special,
        };
        entries.push((found, kind));
        if entries.len() > MAX_ENTRIES {
            return None;
        }
    }
    entries.sort_by(|(left, _), (right, _)| left.cmp(right));
    let is_there = entries.iter().any(|(it, kind)| it == name && *kind == EntryKind::File);
    let head = || {
        // What has replaced the file meanwhile is not waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(open.fd().ok()?, name, flags, Mode::empty()).ok()?);
        let found = file.metadata().ok().filter(fs::Metadata::is_file)?;
        check_stored(&file).ok()?;
        read_up_to(file, found.len(), limit).ok()
    };
    let head = is_there.then(head).flatten();
    Some(LookedInto { entries, head })
}

fn kind_of(found: FileType) -> EntryKind {
    if found.is_symlink() {
        EntryKind::Symlink
    } else if found.is_dir() {
        EntryKind::Directory
    } else if found.is_file() {
        EntryKind::File
    } else {
        EntryKind::Special
    }
}

/// The error of a read, which a caller may show to a model word for word.
fn is_a_directory() -> io::Error {
    if cfg!(unix) {
        return io::Error::from_raw_os_error(21);
    }
    io::ErrorKind::IsADirectory.into()
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}
