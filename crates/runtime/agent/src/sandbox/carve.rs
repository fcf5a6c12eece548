//! Covers a directory except some paths. Landlock supports no exceptions, so a directory that contains one is
//! replaced by its other entries.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// The maximum number of directories to list, because the ruleset is built before every turn.
const MAX_DIRECTORIES: usize = 256;

/// A part of the cover of a root.
#[derive(Debug)]
pub enum Covered {
    /// The root itself, with everything in it.
    Root(PathBuf),
    /// Some entries of a directory, each with everything in it.
    Entries {
        directory: PathBuf,
        /// The names of the entries, and whether each is a directory.
        entries: Vec<(OsString, bool)>,
    },
}

/// The relation of a directory entry to the exceptions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exception {
    /// The entry is an exception.
    Entry,
    /// The entry contains an exception.
    Holder,
}

/// Returns parts that together cover `root`, except the given paths.
///
/// Symbolic links are left out, because a rule would apply to their targets; a target is covered or excepted by
/// its own path. An exception that contains `root` leaves nothing of it.
pub fn carve(root: &Path, except: &[PathBuf]) -> Vec<Covered> {
    if except.iter().any(|path| root.starts_with(path)) {
        return Vec::new();
    }
    if exceptions_in(root, except).is_empty() {
        return vec![Covered::Root(root.to_owned())];
    }
    let mut covered = Vec::new();
    let mut open = vec![root.to_owned()];
    let mut looked_into = 0;
    while let Some(directory) = open.pop() {
        looked_into += 1;
        // A directory that cannot be listed, or is beyond the limit, stays closed.
        if looked_into > MAX_DIRECTORIES {
            break;
        }
        let Ok(listing) = std::fs::read_dir(&directory) else { continue };
        let exceptions = exceptions_in(&directory, except);
        let mut entries = Vec::new();
        for entry in listing.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.file_name();
            match exceptions.get(name.as_os_str()) {
                _ if kind.is_symlink() => {}
                Some(Exception::Entry) => {}
                Some(Exception::Holder) => open.push(directory.join(name)),
                None => entries.push((name, kind.is_dir())),
            }
        }
        covered.push(Covered::Entries { directory, entries });
    }
    covered
}

/// Returns the entries of a directory that are excepted or contain an exception, whether or not they exist.
fn exceptions_in<'a>(directory: &Path, except: &'a [PathBuf]) -> HashMap<&'a OsStr, Exception> {
    let mut found = HashMap::new();
    for path in except {
        let Ok(below) = path.strip_prefix(directory) else { continue };
        let mut names = below.components();
        let Some(Component::Normal(name)) = names.next() else { continue };
        match names.next() {
            None => found.insert(name, Exception::Entry),
            Some(_) if found.contains_key(name) => continue,
            Some(_) => found.insert(name, Exception::Holder),
        };
    }
    found
}

/// The maximum number of links on a path, as in the kernel.
const MAX_LINKS: usize = 40;

/// Returns the first link in a directory that a path leads through.
pub fn link_beneath(path: &Path, place: &Path) -> Option<PathBuf> {
    let mut real = PathBuf::from("/");
    let own = |part: Component<'_>| part.as_os_str().to_owned();
    let mut left: Vec<OsString> = path.components().rev().map(own).collect();
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name == ".." {
            real.pop();
            continue;
        }
        // An absolute name replaces the path.
        let next = real.join(name);
        match next.read_link() {
            Ok(target) if links < MAX_LINKS => {
                if next.starts_with(place) {
                    return Some(next);
                }
                links += 1;
                left.extend(target.components().rev().map(own));
            }
            _ => real = next,
        }
    }
    None
}

/// Resolves symbolic links, also in paths whose ends do not exist. Each directory is looked up once.
#[derive(Debug, Default)]
pub struct RealPaths {
    /// The real path of each directory, and whether it exists.
    directories: HashMap<PathBuf, (PathBuf, bool)>,
}

impl RealPaths {
    /// Returns the real path.
    pub fn resolve(&mut self, path: &Path) -> PathBuf {
        self.find(path).0
    }

    fn find(&mut self, path: &Path) -> (PathBuf, bool) {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return (path.canonicalize().unwrap_or_else(|_| path.to_owned()), true);
        };
        let (parent, is_there) = if let Some(known) = self.directories.get(parent) {
            known.clone()
        } else {
            let found = self.find(parent);
            self.directories.insert(parent.to_owned(), found.clone());
            found
        };
        let path = parent.join(name);
        if !is_there {
            return (path, false);
        }
        match path.read_link() {
            Ok(_) => match path.canonicalize() {
                Ok(target) => (target, true),
                Err(_) => (path, false),
            },
            // The path exists and is not a link.
            Err(error) if error.kind() == ErrorKind::InvalidInput => (path, true),
            Err(error) => {
                let is_there = error.kind() != ErrorKind::NotFound;
                (path, is_there)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(names: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in names {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        dir
    }

    fn carved(dir: &Path, except: &[&str]) -> Vec<String> {
        let except: Vec<PathBuf> = except.iter().map(|it| dir.join(it)).collect();
        let mut covered = Vec::new();
        for part in carve(dir, &except) {
            match part {
                Covered::Root(path) => covered.push(path),
                Covered::Entries { directory, entries } => {
                    for (name, is_directory) in entries {
                        let path = directory.join(name);
                        assert_eq!(path.is_dir(), is_directory, "{path:?}");
                        covered.push(path);
                    }
                }
            }
        }
        let shown = |path: PathBuf| path.strip_prefix(dir).unwrap().display().to_string();
        let mut covered: Vec<String> = covered.into_iter().map(shown).collect();
        covered.sort();
        covered
    }

    #[test]
    fn a_directory_with_an_exception_is_replaced_by_what_else_is_in_it() {
        let dir = tree(&[".ssh/id", ".config/gh/hosts", ".config/git/config", "project/a"]);
        assert_eq!(carved(dir.path(), &[]), [""]);
        let covered = carved(dir.path(), &[".ssh", ".config/gh"]);
        assert_eq!(covered, [".config/git", "project"]);
        // One exception inside another, in either order.
        for except in [[".config", ".config/gh"], [".config/gh", ".config"]] {
            assert_eq!(carved(dir.path(), &except), [".ssh", "project"]);
        }
    }

    #[test]
    fn an_exception_that_does_not_exist_yet_closes_its_directory() {
        let dir = tree(&["project/a"]);
        assert_eq!(carved(dir.path(), &[".ssh"]), ["project"]);
    }

    #[test]
    fn a_link_into_an_exception_is_left_out() {
        let dir = tree(&[".ssh/id", "project/a"]);
        std::os::unix::fs::symlink(".ssh", dir.path().join("keys")).unwrap();
        assert_eq!(carved(dir.path(), &[".ssh"]), ["project"]);
    }

    #[test]
    fn nothing_is_covered_of_a_root_inside_an_exception() {
        let dir = tree(&["data/sample/a"]);
        let root = dir.path().join("data/sample");
        for except in ["data", "data/sample"] {
            assert!(carve(&root, &[dir.path().join(except)]).is_empty(), "{except}");
        }
    }

    #[test]
    fn a_link_beneath_a_place_is_found_on_any_way_through_it() {
        let dir = tree(&["work/sub/a", "elsewhere/b"]);
        let root = dir.path().canonicalize().unwrap();
        let work = root.join("work");
        std::os::unix::fs::symlink("../elsewhere", work.join("link")).unwrap();
        std::os::unix::fs::symlink("work/link", root.join("outer")).unwrap();
        std::os::unix::fs::symlink("work/sub", root.join("fine")).unwrap();
        for path in ["work/link", "work/link/b", "work/sub/../link", "outer/b"] {
            assert_eq!(link_beneath(&root.join(path), &work), Some(work.join("link")), "{path}");
        }
        for path in ["work/sub/a", "fine/a", "elsewhere/b", "work/none"] {
            assert_eq!(link_beneath(&root.join(path), &work), None, "{path}");
        }
    }

    #[test]
    fn the_real_path_of_a_file_to_come_is_known() {
        let dir = tree(&["real/a"]);
        std::os::unix::fs::symlink("real", dir.path().join("link")).unwrap();
        let root = dir.path().canonicalize().unwrap();
        let mut paths = RealPaths::default();
        for (path, expected) in [
            ("link/b/c", "real/b/c"),
            ("link", "real"),
            ("link/a", "real/a"),
            ("real/a/", "real/a"),
        ] {
            assert_eq!(paths.resolve(&dir.path().join(path)), root.join(expected), "{path}");
        }
        assert_eq!(paths.resolve(Path::new("/")), Path::new("/"));
    }
}
