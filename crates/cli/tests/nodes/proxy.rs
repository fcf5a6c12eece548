//! A proxy between nodes and the database that cuts connections while a COMMIT is in flight.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

pub struct Proxy {
    directory: TempDir,
    /// The commits to cut.
    cuts: Arc<AtomicU32>,
    made: Arc<AtomicU32>,
}

impl Proxy {
    /// Passes connections on to a server.
    pub fn start(server: PathBuf) -> Self {
        let directory = TempDir::new().unwrap();
        let (cuts, made) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let listener = UnixListener::bind(directory.path().join(".s.PGSQL.5432")).unwrap();
        let shared = (Arc::clone(&cuts), Arc::clone(&made));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // Without a server the client sees the end of its connection.
                let Ok(server) = UnixStream::connect(&server) else { continue };
                let (reader, writer) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || pass_on(reader, writer, None));
                let (cuts, made) = shared.clone();
                std::thread::spawn(move || pass_on(client, server, Some((&cuts, &made))));
            }
        });
        Self { directory, cuts, made }
    }

    pub fn url(&self) -> String {
        format!("postgres://convoke@localhost/postgres?host={}", self.directory.path().display())
    }

    /// Cuts the connections of the next commits: every second one after it has reached the server.
    pub fn cut_commits(&self, count: u32) {
        self.cuts.fetch_add(count, Ordering::SeqCst);
    }

    /// Returns how many commits were cut.
    pub fn made(&self) -> u32 {
        self.made.load(Ordering::SeqCst)
    }
}

fn pass_on(mut from: UnixStream, mut to: UnixStream, cuts: Option<(&AtomicU32, &AtomicU32)>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let part = &buffer[..count];
        let is_commit = part.windows(7).any(|bytes| bytes == b"COMMIT\0");
        let cut = cuts.filter(|_| is_commit).and_then(|(cuts, made)| {
            let less = |left: u32| left.checked_sub(1);
            let cut = cuts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).ok()?;
            made.fetch_add(1, Ordering::SeqCst);
            Some(cut)
        });
        if cut.is_none_or(|left| left % 2 == 0) && to.write_all(part).is_err() {
            break;
        }
        if cut.is_some() {
            break;
        }
    }
    for stream in [from, to] {
        // The other direction may have closed it.
        let _ = stream.shutdown(Shutdown::Both);
    }
}
