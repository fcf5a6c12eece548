//! The sign-in of Claude Code, which the program renews in the middle of a turn.
//!
//! To renew it, the program creates a lock and a new file in the directory of the sign-in. The right to create
//! files in its own directory would also let an agent install settings and skills. Therefore the program finds
//! its sign-in through a link in a separate directory, and a file that replaces the link is moved to the
//! original location.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use convoke_agent::cli::RenewedSignIn;

/// The variable that names the directory of the sign-in.
pub(super) const VARIABLE: &str = "CLAUDE_SECURESTORAGE_CONFIG_DIR";

/// The file of the sign-in, in the program's directory.
const FILE: &str = ".credentials.json";
/// The directory of the link, in the program's directory.
const DIRECTORY: &str = "convoke-sign-in";
/// The maximum size of a sign-in.
const MAX_BYTES: u64 = 1 << 20;

/// A sign-in: its file and its link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SignInLink {
    file: PathBuf,
    directory: PathBuf,
}

impl SignInLink {
    /// Returns the sign-in in a directory, if there is one.
    pub(super) fn find(directory: &Path) -> Option<Self> {
        let file = directory.join(FILE);
        file.is_file().then(|| Self { file, directory: directory.join(DIRECTORY) })
    }

    /// Returns the directory for the variable.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns whether a file is a sign-in that is newer than the current one.
    fn is_newer(&self, renewed: &Path) -> io::Result<bool> {
        let in_place = self.file.metadata()?.modified()?;
        let is_same = is_renewal(&read(&self.file)?, &read(renewed)?);
        Ok(is_same && renewed.metadata()?.modified()? > in_place)
    }
}

impl RenewedSignIn for SignInLink {
    /// Creates the directory with the link, and returns it.
    fn prepare(&self) -> io::Result<PathBuf> {
        if !self.directory.is_dir() {
            DirBuilder::new().mode(0o700).create(&self.directory)?;
        }
        // A killed turn could not keep its renewed sign-in.
        self.keep()?;
        Ok(self.directory.clone())
    }

    /// Moves a renewed sign-in to its file, and restores the link. Returns whether there was one.
    fn keep(&self) -> io::Result<bool> {
        let link = self.directory.join(FILE);
        let target = Path::new("..").join(FILE);
        match std::fs::symlink_metadata(&link) {
            Ok(_) if std::fs::read_link(&link).is_ok_and(|found| found == target) => {
                return Ok(false);
            }
            Ok(found) if found.is_file() && self.is_newer(&link)? => {
                std::fs::rename(&link, &self.file)?;
                return make_link(&target, &link).map(|()| true);
            }
            Ok(_) => std::fs::remove_file(&link)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        make_link(&target, &link).map(|()| false)
    }
}

/// The fields that name the account of a sign-in.
const ACCOUNT: &[&str] = &["accountUuid", "organizationUuid"];

/// Returns whether a new sign-in differs from the old one only in its tokens. Account fields, if present, must
/// be equal.
fn is_renewal(old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    let is_same = |(name, old): (&String, &Value)| match (old, new.get(name)) {
        (old, Some(new)) if old["accessToken"].is_string() => {
            new["accessToken"].is_string() && ACCOUNT.iter().all(|it| old[*it] == new[*it])
        }
        (old, new) => new == Some(old),
    };
    !new.is_empty() && new.len() == old.len() && old.iter().all(is_same)
}

fn read(path: &Path) -> io::Result<Map<String, Value>> {
    let mut text = Vec::new();
    #[expect(clippy::disallowed_methods, reason = "the size is limited")]
    File::open(path)?.take(MAX_BYTES).read_to_end(&mut text)?;
    // A file that is not JSON is not a sign-in.
    Ok(serde_json::from_slice(&text).unwrap_or_default())
}

fn make_link(target: &Path, link: &Path) -> io::Result<()> {
    match symlink(target, link) {
        // Another turn created the link first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn signed_in() -> (tempfile::TempDir, SignInLink) {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(FILE), OLD).unwrap();
        let before = SystemTime::now() - Duration::from_mins(1);
        File::options()
            .write(true)
            .open(home.path().join(FILE))
            .unwrap()
            .set_modified(before)
            .unwrap();
        let sign_in = SignInLink::find(home.path()).unwrap();
        sign_in.prepare().unwrap();
        (home, sign_in)
    }

    const OLD: &str = r#"{"oauth": {"accessToken": "old", "organizationUuid": "a"}}"#;
    const NEW: &str =
        r#"{"oauth": {"accessToken": "new", "expiresAt": 9, "organizationUuid": "a"}}"#;

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    /// Replaces the link, as the program does.
    fn replace(sign_in: &SignInLink, content: &str) {
        let new = sign_in.directory.join("new");
        std::fs::write(&new, content).unwrap();
        std::fs::rename(new, sign_in.directory.join(FILE)).unwrap();
    }

    #[test]
    fn a_renewed_sign_in_is_kept_for_the_user() {
        let (_home, sign_in) = signed_in();
        assert_eq!(text(&sign_in.directory.join(FILE)), OLD);
        replace(&sign_in, NEW);
        assert!(sign_in.keep().unwrap());
        assert_eq!(text(&sign_in.file), NEW);
        // A sign-in renewed by the user's own program is visible.
        std::fs::write(&sign_in.file, "{\"newer\": 1}").unwrap();
        assert_eq!(text(&sign_in.directory.join(FILE)), "{\"newer\": 1}");
    }

    #[test]
    fn what_is_older_or_no_sign_in_is_not_kept() {
        let (home, sign_in) = signed_in();
        let other = r#"{"oauth": {"accessToken": "new", "organizationUuid": "b"}}"#;
        let more = NEW.replacen('{', r#"{"mcpOAuth": {}, "#, 1);
        let less = r#"{"oauth": {}}"#;
        for content in ["", "[]", "{}", "not JSON", other, &more, less] {
            replace(&sign_in, content);
            assert!(!sign_in.keep().unwrap());
            assert_eq!(text(&sign_in.file), OLD);
        }
        replace(&sign_in, NEW);
        // The user has signed in again meanwhile.
        let later = SystemTime::now() + Duration::from_mins(1);
        File::options().write(true).open(&sign_in.file).unwrap().set_modified(later).unwrap();
        sign_in.keep().unwrap();
        assert_eq!(text(&sign_in.file), OLD);
        // A link to another file is replaced, not followed.
        let secret = home.path().join("secret");
        std::fs::write(&secret, "{\"secret\": 1}").unwrap();
        std::fs::remove_file(sign_in.directory.join(FILE)).unwrap();
        symlink(&secret, sign_in.directory.join(FILE)).unwrap();
        sign_in.keep().unwrap();
        assert_eq!(text(&sign_in.file), OLD);
        assert_eq!(text(&sign_in.directory.join(FILE)), OLD);
        assert_eq!(text(&secret), "{\"secret\": 1}");
    }

    #[test]
    fn only_a_program_that_is_signed_in_gets_a_link() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(SignInLink::find(home.path()), None);
        std::fs::write(home.path().join(FILE), "{}").unwrap();
        assert!(SignInLink::find(home.path()).is_some());
    }
}
