//! A PostgreSQL server for a test, on a socket in a temporary directory.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The user that runs the server if the tests run as root, which PostgreSQL refuses.
const NOBODY: u32 = 65534;

/// A running server. Stopped on drop.
pub struct Cluster {
    dir: TempDir,
    programs: PathBuf,
    settings: &'static str,
}

impl Cluster {
    #[allow(dead_code, reason = "not for measurements")]
    pub fn start() -> Self {
        Self::start_with("-c fsync=off")
    }

    /// Starts a server that counts statements.
    #[allow(dead_code, reason = "for counts")]
    pub fn start_counting() -> Self {
        Self::start_with("-c fsync=off -c shared_preload_libraries=pg_stat_statements")
    }

    /// Starts a server whose commits survive a power cut, and which counts statements.
    #[allow(dead_code, reason = "for measurements")]
    pub fn start_durable() -> Self {
        Self::start_with("-c shared_preload_libraries=pg_stat_statements")
    }

    /// Starts a server with few connections.
    #[allow(dead_code, reason = "for tests of connections")]
    pub fn start_crowded() -> Self {
        Self::start_with(
            "-c fsync=off -c max_connections=5 -c superuser_reserved_connections=0 -c max_wal_senders=0 \
             -c autovacuum=off",
        )
    }

    fn start_with(settings: &'static str) -> Self {
        let dir = tempfile::Builder::new().prefix("pg").tempdir().unwrap();
        if is_root() {
            chown(dir.path(), Some(NOBODY), None).unwrap();
        }
        let cluster = Self { dir, programs: programs(), settings };
        let data = cluster.data();
        cluster.run(
            "initdb",
            &["-A", "trust", "-U", "convoke", "--no-sync", "-E", "UTF8", "--locale=C", "-D", &data],
        );
        cluster.run_server();
        cluster
    }

    /// Returns the address of the database.
    pub fn url(&self) -> String {
        format!("postgres://convoke@localhost/postgres?host={}", self.dir.path().display())
    }

    /// Requires a password of one user.
    #[allow(dead_code, reason = "for tests of errors")]
    pub fn require_password(&self, user: &str) {
        let rules = format!("local all {user} scram-sha-256\nlocal all all trust\n");
        std::fs::write(self.dir.path().join("data/pg_hba.conf"), rules).unwrap();
        self.run("pg_ctl", &["-D", &self.data(), "reload"]);
    }

    /// Returns the socket of the server.
    #[allow(dead_code, reason = "for tests that stand between the server and its clients")]
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join(".s.PGSQL.5432")
    }

    /// Stops the server like a crash.
    pub fn crash(&self) {
        self.run("pg_ctl", &["-D", &self.data(), "-m", "immediate", "stop"]);
    }

    /// Stops the processes of the server until the result is dropped: it accepts connections and never responds.
    #[allow(dead_code, reason = "for tests of a server that is away")]
    pub fn paused(&self) -> Paused {
        let file = self.dir.path().join("data/postmaster.pid");
        let server = std::fs::read_to_string(file).unwrap().lines().next().unwrap().to_owned();
        let children = std::fs::read_to_string(format!("/proc/{server}/task/{server}/children"));
        let mut processes = vec![server];
        processes.extend(children.unwrap().split_whitespace().map(str::to_owned));
        let paused = Paused { processes };
        paused.signal("-STOP");
        paused
    }

    pub fn run_server(&self) {
        let options =
            format!("-c listen_addresses='' {} -k {}", self.settings, self.dir.path().display());
        self.run("pg_ctl", &["-w", "-D", &self.data(), "-o", &options, "start"]);
    }

    fn data(&self) -> String {
        self.dir.path().join("data").display().to_string()
    }

    fn run(&self, program: &str, args: &[&str]) {
        let mut command = Command::new(self.programs.join(program));
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        // The server keeps inherited files open.
        let log = std::fs::File::create(self.dir.path().join("log")).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log);
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let status = command.status().unwrap();
        let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        assert!(status.success(), "{program}: {log}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.dir.path().join("data/postmaster.pid").exists() {
            self.crash();
        }
    }
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Returns the directory of the server's programs, which is not on the path in Debian.
fn programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    found.sort();
    let there = found.into_iter().rev().find(|bin| bin.join("initdb").exists());
    there.unwrap_or_else(|| {
        panic!("PostgreSQL is not installed; `scripts/install-postgres` installs it")
    })
}

/// A server that is stopped.
pub struct Paused {
    processes: Vec<String>,
}

impl Paused {
    fn signal(&self, signal: &str) {
        // A process that has ended needs none.
        let _ = Command::new("kill").arg(signal).args(&self.processes).output();
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        self.signal("-CONT");
    }
}
