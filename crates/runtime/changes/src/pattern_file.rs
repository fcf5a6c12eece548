//! Files of patterns of a project. A hostile project may put a link to another file in the place of one, and patterns are
//! shown and copied: such a file is read below its directory, and no link is followed.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use convoke_files::limit::{FileKind, check, read_stream};

use crate::entry::Entry;
use crate::tree_path::TreePath;

/// Reads a file below a directory. Fails for a link, and below one.
pub(crate) fn read_below(directory: &Path, below: &Path) -> io::Result<Vec<u8>> {
    let path = TreePath::new(below.as_os_str().as_bytes());
    let file: File = Entry::open(directory, &path)?.open_file()?;
    let at = directory.join(below);
    check(&at, FileKind::Gitignore, file.metadata()?.len())?;
    read_stream(file, &at, FileKind::Gitignore)
}
