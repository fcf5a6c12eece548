//! A proxy to the database that cuts connections during a COMMIT, or stops all traffic at one.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use tempfile::TempDir;

pub struct Proxy {
    directory: TempDir,
    cuts: Arc<Cuts>,
}

/// The connections to cut during a COMMIT.
#[derive(Default)]
struct Cuts {
    planned: AtomicU32,
    /// The number cut before the COMMIT reached the server, and after it.
    before: AtomicU32,
    after: AtomicU32,
    /// Whether all traffic stops at the next COMMIT, and whether its connection is cut.
    stops: AtomicBool,
    is_cut_at_stop: AtomicBool,
    is_stopped: Mutex<bool>,
    changed: Condvar,
    /// The number of connections so far, and how many of them are silenced.
    connections: AtomicU32,
    silent: AtomicU32,
}

/// Where a connection is cut.
enum Cut {
    Before,
    After,
}

impl Cuts {
    /// Takes the next planned cut; every second one comes after the COMMIT.
    fn take(&self) -> Option<Cut> {
        let less = |left: u32| left.checked_sub(1);
        let left = self.planned.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).ok()?;
        let (made, cut) = match left % 2 {
            0 => (&self.after, Cut::After),
            _ => (&self.before, Cut::Before),
        };
        made.fetch_add(1, Ordering::SeqCst);
        Some(cut)
    }

    fn set_stopped(&self, is_stopped: bool) {
        *self.is_stopped.lock().unwrap() = is_stopped;
        self.changed.notify_all();
    }

    /// Stops all traffic if that is planned for this COMMIT. Returns whether its connection is cut.
    fn stop_at_commit(&self) -> bool {
        if !self.stops.swap(false, Ordering::SeqCst) {
            return false;
        }
        self.set_stopped(true);
        self.is_cut_at_stop.load(Ordering::SeqCst)
    }

    /// Waits until the traffic continues.
    fn wait(&self) {
        drop(self.changed.wait_while(self.is_stopped.lock().unwrap(), |stopped| *stopped).unwrap());
    }
}

impl Proxy {
    /// Forwards connections to a server.
    pub fn start(server: PathBuf) -> Self {
        let directory = TempDir::new().unwrap();
        let cuts = Arc::new(Cuts::default());
        let listener = UnixListener::bind(directory.path().join(".s.PGSQL.5432")).unwrap();
        let shared = Arc::clone(&cuts);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // Without a server, the client sees the end of its connection.
                let Ok(server) = UnixStream::connect(&server) else { continue };
                let (reader, writer) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let number = shared.connections.fetch_add(1, Ordering::SeqCst);
                let cuts = Arc::clone(&shared);
                std::thread::spawn(move || pass_on(reader, writer, number, &cuts, false));
                let cuts = Arc::clone(&shared);
                std::thread::spawn(move || pass_on(client, server, number, &cuts, true));
            }
        });
        Self { directory, cuts }
    }

    pub fn url(&self) -> String {
        format!("postgres://convoke@localhost/postgres?host={}", self.directory.path().display())
    }

    /// Stops all traffic to the server at the next COMMIT, whose connection may be cut.
    #[allow(dead_code, reason = "for tests of one process")]
    pub fn stop_at_commit(&self, is_cut: bool) {
        self.cuts.is_cut_at_stop.store(is_cut, Ordering::SeqCst);
        self.cuts.stops.store(true, Ordering::SeqCst);
    }

    /// Waits until the traffic has stopped.
    #[allow(dead_code, reason = "for tests of one process")]
    pub fn wait_for_stop(&self) {
        let is_stopped = self.cuts.is_stopped.lock().unwrap();
        drop(self.cuts.changed.wait_while(is_stopped, |stopped| !*stopped).unwrap());
    }

    /// Lets the traffic continue.
    #[allow(dead_code, reason = "for tests of one process")]
    pub fn resume(&self) {
        self.cuts.set_stopped(false);
    }

    /// Silences the connections so far without closing them. New ones work.
    #[allow(dead_code, reason = "not for all tests")]
    pub fn silence(&self) {
        let connections = self.cuts.connections.load(Ordering::SeqCst);
        self.cuts.silent.store(connections, Ordering::SeqCst);
    }

    /// Silences all connections, including new ones.
    #[allow(dead_code, reason = "not for all tests")]
    pub fn silence_all(&self) {
        self.cuts.silent.store(u32::MAX, Ordering::SeqCst);
    }

    /// Cuts the connections of the next commits, every second one after the commit has reached the server.
    #[allow(dead_code, reason = "for tests of several processes")]
    pub fn cut_commits(&self, count: u32) {
        self.cuts.planned.fetch_add(count, Ordering::SeqCst);
    }

    /// Returns how many planned cuts were not made yet.
    #[allow(dead_code, reason = "for tests of several processes")]
    pub fn planned(&self) -> u32 {
        self.cuts.planned.load(Ordering::SeqCst)
    }

    /// Returns how many connections were cut before their COMMIT reached the server, and after it.
    #[allow(dead_code, reason = "for tests of several processes")]
    pub fn made(&self) -> (u32, u32) {
        (self.cuts.before.load(Ordering::SeqCst), self.cuts.after.load(Ordering::SeqCst))
    }
}

fn pass_on(mut from: UnixStream, mut to: UnixStream, number: u32, cuts: &Cuts, is_client: bool) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if number < cuts.silent.load(Ordering::SeqCst) {
            continue;
        }
        let part = &buffer[..count];
        let is_commit = is_client && part.windows(7).any(|bytes| bytes == b"COMMIT\0");
        if is_client {
            if is_commit && cuts.stop_at_commit() {
                break;
            }
            cuts.wait();
        }
        let cut = is_commit.then(|| cuts.take()).flatten();
        if matches!(cut, Some(Cut::Before)) || to.write_all(part).is_err() || cut.is_some() {
            break;
        }
    }
    for stream in [from, to] {
        // The other direction may have closed it already.
        let _ = stream.shutdown(Shutdown::Both);
    }
}
