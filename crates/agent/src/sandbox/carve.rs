//! "Everything but": Landlock knows no exceptions, so a directory that holds one is replaced by what
//! else is in it.

use std::path::{Path, PathBuf};

/// The directories that are looked into at the most: a ruleset has to be built before every turn.
const MOST_DIRECTORIES: usize = 256;

/// Returns paths that together cover `root`, without the excepted ones.
///
/// Symbolic links are left out, because a rule would hold for what they lead to; what is there is
/// covered, or excepted, by its own path. An exception that `root` itself lies in does not count.
pub fn carve(root: &Path, except: &[PathBuf]) -> Vec<PathBuf> {
    let mut covered = Vec::new();
    let mut open = vec![root.to_owned()];
    let mut looked_into = 0;
    while let Some(path) = open.pop() {
        if path != root && except.contains(&path) {
            continue;
        }
        let holds_exception = except.iter().any(|it| it != &path && it.starts_with(&path));
        if !holds_exception {
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

/// Returns a path without symbolic links, also when its end does not exist.
pub fn real(path: &Path) -> PathBuf {
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
        assert_eq!(real(&dir.path().join("link/b/c")), root.join("real/b/c"));
        assert_eq!(real(&dir.path().join("link")), root.join("real"));
    }
}
