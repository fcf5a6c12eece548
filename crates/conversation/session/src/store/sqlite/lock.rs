//! Session locks: one process at a time writes a session.
//!
//! The locks are file locks of the operating system, released when their process ends. The file names the
//! holder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use convoke_protocol::id::{Millis, SessionId};

use super::file::{at, make_private_directory};
use crate::store::{Holder, SessionHold, StoreError};

/// The maximum size of a lock file.
const MAX_BYTES: u64 = 4096;
/// The time that a process has to write its name into the file that it locked.
const NAMING: Duration = Duration::from_secs(2);

/// The lock of a session. Released on drop.
#[derive(Debug)]
pub struct SessionLock {
    path: PathBuf,
    /// Closing the file releases the lock.
    _file: File,
}

impl SessionHold for SessionLock {
    /// Never returns, because the operating system keeps the lock as long as the process lives.
    fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        std::future::pending()
    }

    async fn release(self) {}

    /// Removes the file too.
    async fn discard(self) {
        // A leftover file is harmless.
        let _ = std::fs::remove_file(&self.path);
    }
}

pub(super) fn acquire(
    directory: &Path,
    session: SessionId,
    holder: &Holder,
) -> Result<SessionLock, StoreError> {
    let locks = directory.join("locks");
    make_private_directory(&locks)?;
    let path = locks.join(format!("{session}.lock"));
    let mut options = OpenOptions::new();
    let mut file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(at(&path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let holder = wait_for_holder(&file).map_err(at(&path))?;
            return Err(StoreError::Held { session, holder });
        }
        Err(TryLockError::Error(error)) => return Err(at(&path)(error)),
    }
    let text = format!("{}\n{}\n{}\n", holder.pid, holder.since, holder.host);
    file.set_len(0).and_then(|()| file.write_all(text.as_bytes())).map_err(at(&path))?;
    Ok(SessionLock { path, _file: file })
}

/// Returns whether a process has locked a session.
pub(super) fn is_held(directory: &Path, session: SessionId) -> bool {
    let file = File::open(directory.join("locks").join(format!("{session}.lock")));
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Reads the holder of a locked session. It locks the file before it can write its name there, which is waited for.
fn wait_for_holder(mut file: &File) -> io::Result<Holder> {
    let began = Instant::now();
    loop {
        let mut text = String::new();
        file.rewind()?;
        #[expect(clippy::disallowed_methods, reason = "three short lines are read")]
        file.take(MAX_BYTES).read_to_string(&mut text)?;
        if let Some(holder) = read_holder(&text) {
            return Ok(holder);
        }
        if began.elapsed() > NAMING {
            return Err(io::Error::other("another process has locked it, and does not say which"));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Parses the holder of a session, if it is written to its end.
fn read_holder(text: &str) -> Option<Holder> {
    let mut lines = text.strip_suffix('\n')?.lines();
    let pid = lines.next()?.parse().ok()?;
    let since = Millis(lines.next()?.parse().ok()?);
    let host = lines.next()?.to_owned();
    Some(Holder { pid, host, since })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_that_has_not_written_its_name_yet_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let session = SessionId::generate();
        let path = directory.path().join("locks").join(format!("{session}.lock"));
        std::fs::create_dir(directory.path().join("locks")).unwrap();
        let mut first = File::create(&path).unwrap();
        first.lock().unwrap();
        let holder = Holder { pid: 7, host: "there".to_owned(), since: Millis(1) };
        thread::scope(|scope| {
            let second = scope.spawn(|| acquire(directory.path(), session, &holder));
            thread::sleep(Duration::from_millis(50));
            first.write_all(b"42\n1700000000000\nhere\n").unwrap();
            let refused = second.join().unwrap().unwrap_err();
            assert!(matches!(refused, StoreError::Held { holder, .. } if holder.pid == 42));
        });
    }
}
