//! Resolves the locations of files, except through links that differ between processes.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// The maximum number of links on the way to a file.
const MAX_LINKS: usize = 40;
/// A directory whose links differ between processes, for example to the working directory.
const PROCESSES: &str = "/proc";

/// The location of a file.
#[derive(Debug, PartialEq, Eq)]
pub enum Location {
    /// The path without links.
    Found(PathBuf),
    /// There is no file.
    Missing,
    /// Another process might find another file.
    Unclear,
}

/// Finds a file by an absolute path.
pub fn locate(path: &Path) -> Location {
    let mut left: VecDeque<OsString> = parts(path).collect();
    let (mut found, mut links) = (PathBuf::from("/"), 0);
    while let Some(part) = left.pop_front() {
        if part == ".." {
            found.pop();
            continue;
        }
        found.push(&part);
        if found.starts_with(PROCESSES) {
            return Location::Unclear;
        }
        match found.read_link() {
            Ok(target) => {
                links += 1;
                if links > MAX_LINKS {
                    return Location::Unclear;
                }
                found.pop();
                if target.is_absolute() {
                    found = PathBuf::from("/");
                }
                for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
                    left.push_front(part);
                }
            }
            // The path exists and is not a link.
            Err(error) if error.kind() == ErrorKind::InvalidInput => {}
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Location::Missing;
            }
            Err(_) => return Location::Unclear,
        }
    }
    Location::Found(found)
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    let parts = path
        .components()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    parts.map(|part| part.as_os_str().to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_and_those_of_processes_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("a")).unwrap();
        std::fs::write(root.join("a/file"), "").unwrap();
        symlink("a", root.join("relative")).unwrap();
        symlink(root.join("relative"), root.join("absolute")).unwrap();
        symlink("circle", root.join("circle")).unwrap();
        symlink("/proc/self/cwd", root.join("a/here")).unwrap();
        let file = Location::Found(root.join("a/file"));
        for (path, expected) in [
            ("a/file", &file),
            ("relative/file", &file),
            ("absolute/../a/file", &file),
            ("absolute/file", &file),
            ("a/none", &Location::Missing),
            ("a/file/none", &Location::Missing),
            ("circle", &Location::Unclear),
            ("relative/here/file", &Location::Unclear),
        ] {
            assert_eq!(&locate(&root.join(path)), expected, "{path}");
        }
        assert_eq!(locate(Path::new("/proc/self/cwd")), Location::Unclear);
    }
}
