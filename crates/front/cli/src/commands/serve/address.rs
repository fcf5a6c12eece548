//! The token and the port of the page, which stay the same when the server is restarted.
//!
//! They are in a file that only the user can read. It is written beside its place and then put there, so that it is whole
//! whoever reads it, and a link in its place is never followed.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::Context as _;
use convoke_files::draft;
use convoke_files::limit::{FileKind, read_stream};
use convoke_server::Token;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::outcome::UsageError;

/// The name of the file in the data directory.
const FILE: &str = "page.json";

/// The token and the port of the page.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Address {
    token: String,
    /// The port of the first server; another server meanwhile has another one.
    pub(super) port: u16,
}

impl Address {
    pub(super) fn new(token: &Token, port: u16) -> Self {
        Self { token: token.as_str().to_owned(), port }
    }

    pub(super) fn token(&self) -> Option<Token> {
        Token::parse(&self.token)
    }

    /// Reads the address; `None` if there is none.
    pub(super) fn read(data: &Path) -> anyhow::Result<Option<Self>> {
        let path = data.join(FILE);
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        let options = options.read(true).custom_flags(flags.bits().cast_signed());
        let mut file = match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // Opening a link fails.
            opened => opened.with_context(|| advice(&path, "cannot be read"))?,
        };
        let found = file.metadata()?;
        let is_private = found.is_file()
            && found.mode() & 0o777 == 0o600
            && found.uid() == rustix::process::geteuid().as_raw();
        if !is_private {
            return Err(UsageError(advice(&path, "is not a file for you alone")).into());
        }
        let text = read_stream(&mut file, &path, FileKind::Pointer)?;
        let address: Option<Self> = serde_json::from_slice(&text).ok();
        let address = address.filter(|address| address.token().is_some());
        address.map(Some).ok_or_else(|| UsageError(advice(&path, "is damaged")).into())
    }

    /// Writes the address in place of another. Of two servers that start at the same time, the last one is remembered.
    pub(super) fn write(&self, data: &Path) -> anyhow::Result<()> {
        self.put(data, draft::replace)
    }

    /// Writes the address if there is none. Returns whether there was none.
    pub(super) fn create(&self, data: &Path) -> anyhow::Result<bool> {
        let mut is_new = true;
        self.put(data, |path, text, mode| match draft::write_new(path, text, mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                is_new = false;
                Ok(())
            }
            written => written,
        })?;
        Ok(is_new)
    }

    fn put(
        &self,
        data: &Path,
        write: impl FnOnce(&Path, &[u8], u32) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let path = data.join(FILE);
        let text = serde_json::to_vec(self)?;
        let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(data);
        let written = created.and_then(|()| write(&path, &text, 0o600));
        written.with_context(|| format!("{} cannot be written", path.display()))
    }
}

/// Returns whether a process of this user listens on a port, as far as the system tells.
pub(super) fn is_listened_to_by_this_user(port: u16) -> bool {
    /// The state of a socket that listens.
    const LISTENS: &str = "0A";
    let path = Path::new("/proc/net/tcp");
    let Ok(mut table) = fs::File::open(path) else { return false };
    let Ok(table) = read_stream(&mut table, path, FileKind::Configuration) else { return false };
    let local = format!("0100007F:{port:04X}");
    String::from_utf8_lossy(&table).lines().any(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let user = fields.get(7).and_then(|user| user.parse().ok());
        fields.get(1) == Some(&&*local)
            && fields.get(3) == Some(&LISTENS)
            && user == Some(rustix::process::geteuid().as_raw())
    })
}

fn advice(path: &Path, what: &str) -> String {
    format!("{} {what}; remove it, and a new token is made", path.display())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn address(port: u16) -> Address {
        Address::new(&Token::generate(), port)
    }

    #[test]
    fn an_address_is_for_the_user_alone_and_the_first_one_stays() {
        let data = tempfile::tempdir().unwrap();
        assert!(Address::read(data.path()).unwrap().is_none());
        let (first, second) = (address(1), address(2));
        assert!(first.create(data.path()).unwrap() && !second.create(data.path()).unwrap());
        let mode = fs::metadata(data.path().join(FILE)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        let read = || Address::read(data.path()).unwrap().unwrap();
        assert_eq!((read().token.clone(), read().port), (first.token, 1));
        second.write(data.path()).unwrap();
        assert_eq!((read().token.clone(), read().port), (second.token, 2));
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn a_listener_of_this_user_is_recognised() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(is_listened_to_by_this_user(port));
        drop(listener);
        assert!(!is_listened_to_by_this_user(port));
    }

    #[test]
    fn a_link_is_neither_read_nor_written_through() {
        let data = tempfile::tempdir().unwrap();
        let other = data.path().join("other");
        fs::write(&other, "mine").unwrap();
        symlink(&other, data.path().join(FILE)).unwrap();
        assert!(Address::read(data.path()).unwrap_err().to_string().contains("remove it"));
        assert!(!address(1).create(data.path()).unwrap());
        address(1).write(data.path()).unwrap();
        assert!(Address::read(data.path()).unwrap().is_some());
        assert_eq!(fs::read_to_string(&other).unwrap(), "mine");
    }

    #[test]
    fn a_file_that_others_can_read_or_that_is_damaged_is_refused() {
        let data = tempfile::tempdir().unwrap();
        address(1).write(data.path()).unwrap();
        let path = data.path().join(FILE);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(Address::read(data.path()).unwrap_err().to_string().contains("for you alone"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for text in ["", "{}", r#"{"token":"guess","port":1}"#] {
            fs::write(&path, text).unwrap();
            assert!(Address::read(data.path()).unwrap_err().to_string().contains("is damaged"));
        }
    }
}
