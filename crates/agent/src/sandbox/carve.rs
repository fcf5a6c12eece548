//! "Everything but": Landlock knows no exceptions, so a directory that holds one is replaced by what
//! else is in it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// The directories that are looked into at the most: a ruleset has to be built before every turn.
const MOST_DIRECTORIES: usize = 256;

/// Returns paths that together cover `root`, without the excepted ones.
///
/// Symbolic links are left out, because a rule would hold for what they lead to; what is there is
/// covered, or excepted, by its own path. An exception that `root` itself lies in does not count.
pub fn carve(root: &Path, except: &[PathBuf]) -> Vec<PathBuf> {
    let excepted: HashSet<&Path> = except.iter().map(PathBuf::as_path).collect();
    let holders: HashSet<&Path> = except.iter().flat_map(|it| it.ancestors().skip(1)).collect();
    let mut covered = Vec::new();
    let mut open = vec![root.to_owned()];
    let mut looked_into = 0;
    while let Some(path) = open.pop() {
        if path != root && excepted.contains(path.as_path()) {
            continue;
        }
        if !holders.contains(path.as_path()) {
            covered.push(path);
            continue;
        }
        looked_into += 1;
        // A directory that cannot be listed, or one too many, stays closed.
        if looked_into > MOST_DIRECTORIES {
            continue;
        }
        let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
        let real = entries.filter(|it| it.file_type().is_ok_and(|kind| !kind.is_symlink()));
        open.extend(real.map(|entry| entry.path()));
    }
    covered
}

/// Paths without symbolic links, also when their ends do not exist. Those of one directory need one look at it.
#[derive(Debug, Default)]
pub struct RealPaths {
    directories: HashMap<PathBuf, PathBuf>,
}

impl RealPaths {
    /// Returns the real path.
    pub fn of(&mut self, path: &Path) -> PathBuf {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return real(path);
        };
        let known = self.directories.entry(parent.to_owned());
        let found = known.or_insert_with(|| real(parent)).join(name);
        if found.read_link().is_ok() { real(&found) } else { found }
    }
}

fn real(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let Ok(found) = ancestor.canonicalize() {
            let rest = path.strip_prefix(ancestor).unwrap_or(Path::new(""));
            // Joining nothing would add a slash.
            return if rest.as_os_str().is_empty() { found } else { found.join(rest) };
        }
    }
    path.to_owned()
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
        let mut covered: Vec<String> = carve(dir, &except)
            .into_iter()
            .map(|path| path.strip_prefix(dir).unwrap().display().to_string())
            .collect();
        covered.sort();
        covered
    }

    #[test]
    fn a_directory_with_an_exception_is_replaced_by_what_else_is_in_it() {
        let dir = tree(&[".ssh/id", ".config/gh/hosts", ".config/git/config", "project/a"]);
        assert_eq!(carved(dir.path(), &[]), [""]);
        let covered = carved(dir.path(), &[".ssh", ".config/gh"]);
        assert_eq!(covered, [".config/git", "project"]);
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
    fn a_root_inside_an_exception_is_covered() {
        let dir = tree(&["data/sample/a"]);
        let root = dir.path().join("data/sample");
        assert_eq!(carve(&root, &[dir.path().join("data")]), [root]);
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
            assert_eq!(paths.of(&dir.path().join(path)), root.join(expected), "{path}");
        }
        assert_eq!(paths.of(Path::new("/")), Path::new("/"));
    }
}
