//! The sign-in of Claude Code, which it renews in the middle of a turn.
//!
//! To do so it makes a lock and a new file in the directory that holds the sign-in, and the right to make
//! those in its own directory would be the right to put settings and skills in place. So it finds its sign-in
//! by a link in a separate directory, and a file that replaces the link is moved to the place of the original.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::vendor::Vendor;

/// The variable that names the directory of the sign-in.
pub(crate) const VARIABLE: &str = "CLAUDE_SECURESTORAGE_CONFIG_DIR";

/// The file, in the directory of the program.
const FILE: &str = ".credentials.json";
/// The directory with the link, in the same.
const DIRECTORY: &str = "convoke-sign-in";
/// No sign-in is longer.
const LONGEST: u64 = 1 << 20;

/// A sign-in, by its file and its link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SignIn {
    file: PathBuf,
    directory: PathBuf,
}

impl SignIn {
    /// Returns the sign-in of a CLI that has one and renews it in this way.
    pub(crate) fn find(vendor: Vendor, directory: &Path) -> Option<Self> {
        let file = directory.join(FILE);
        let is_there = vendor == Vendor::Claude && file.is_file();
        is_there.then(|| Self { file, directory: directory.join(DIRECTORY) })
    }

    /// Returns the directory for the variable.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Creates the directory with the link, and returns it.
    pub(super) fn prepare(self) -> io::Result<PathBuf> {
        if !self.directory.is_dir() {
            DirBuilder::new().mode(0o700).create(&self.directory)?;
        }
        // A turn that was killed could not keep what it renewed.
        self.keep()?;
        Ok(self.directory)
    }

    /// Moves a renewed sign-in to its file, and makes the link again.
    pub(crate) fn keep(&self) -> io::Result<()> {
        let link = self.directory.join(FILE);
        let target = Path::new("..").join(FILE);
        match std::fs::symlink_metadata(&link) {
            Ok(_) if std::fs::read_link(&link).is_ok_and(|found| found == target) => return Ok(()),
            Ok(found) if found.is_file() && self.is_newer(&link)? => {
                return std::fs::rename(&link, &self.file).and_then(|()| make_link(&target, &link));
            }
            Ok(_) => std::fs::remove_file(&link)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        make_link(&target, &link)
    }

    /// Returns whether a file is a sign-in, and newer than the one in place.
    fn is_newer(&self, renewed: &Path) -> io::Result<bool> {
        let in_place = self.file.metadata()?.modified()?;
        let mut text = Vec::new();
        #[expect(clippy::disallowed_methods, reason = "a limit is taken")]
        File::open(renewed)?.take(LONGEST).read_to_end(&mut text)?;
        let is_sign_in = serde_json::from_slice::<Map<String, Value>>(&text).is_ok();
        Ok(is_sign_in && renewed.metadata()?.modified()? > in_place)
    }
}

fn make_link(target: &Path, link: &Path) -> io::Result<()> {
    match symlink(target, link) {
        // Another turn was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn signed_in() -> (tempfile::TempDir, SignIn) {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(FILE), "{\"old\": 1}").unwrap();
        let before = SystemTime::now() - Duration::from_mins(1);
        File::options()
            .write(true)
            .open(home.path().join(FILE))
            .unwrap()
            .set_modified(before)
            .unwrap();
        let sign_in = SignIn::find(Vendor::Claude, home.path()).unwrap();
        sign_in.clone().prepare().unwrap();
        (home, sign_in)
    }

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    /// Replaces the link, as the program does.
    fn replace(sign_in: &SignIn, content: &str) {
        let new = sign_in.directory.join("new");
        std::fs::write(&new, content).unwrap();
        std::fs::rename(new, sign_in.directory.join(FILE)).unwrap();
    }

    #[test]
    fn a_renewed_sign_in_is_kept_for_the_user() {
        let (_home, sign_in) = signed_in();
        assert_eq!(text(&sign_in.directory.join(FILE)), "{\"old\": 1}");
        replace(&sign_in, "{\"new\": 1}");
        sign_in.keep().unwrap();
        assert_eq!(text(&sign_in.file), "{\"new\": 1}");
        // What the user's own program renews is seen.
        std::fs::write(&sign_in.file, "{\"newer\": 1}").unwrap();
        assert_eq!(text(&sign_in.directory.join(FILE)), "{\"newer\": 1}");
    }

    #[test]
    fn what_is_older_or_no_sign_in_is_not_kept() {
        let (home, sign_in) = signed_in();
        for content in ["", "[]", "not JSON"] {
            replace(&sign_in, content);
            sign_in.keep().unwrap();
            assert_eq!(text(&sign_in.file), "{\"old\": 1}");
        }
        replace(&sign_in, "{\"renewed\": 1}");
        // Meanwhile the user has signed in again.
        let later = SystemTime::now() + Duration::from_mins(1);
        File::options().write(true).open(&sign_in.file).unwrap().set_modified(later).unwrap();
        sign_in.keep().unwrap();
        assert_eq!(text(&sign_in.file), "{\"old\": 1}");
        // A link to elsewhere is replaced, and not followed.
        let secret = home.path().join("secret");
        std::fs::write(&secret, "{\"secret\": 1}").unwrap();
        std::fs::remove_file(sign_in.directory.join(FILE)).unwrap();
        symlink(&secret, sign_in.directory.join(FILE)).unwrap();
        sign_in.keep().unwrap();
        assert_eq!(text(&sign_in.file), "{\"old\": 1}");
        assert_eq!(text(&sign_in.directory.join(FILE)), "{\"old\": 1}");
        assert_eq!(text(&secret), "{\"secret\": 1}");
    }

    #[test]
    fn only_a_program_that_is_signed_in_gets_a_link() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(SignIn::find(Vendor::Claude, home.path()), None);
        std::fs::write(home.path().join(FILE), "{}").unwrap();
        assert_eq!(SignIn::find(Vendor::Codex, home.path()), None);
        assert!(SignIn::find(Vendor::Claude, home.path()).is_some());
    }
}
