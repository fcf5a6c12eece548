//! What an agent could reach: a home with canaries, files outside, listeners, and a process of the same user.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

const CANARY: &str = "canary-5b1f0c";
const PAGE: &str = include_str!("../../../../../docs/sandbox.md");

/// A process of the same user: it waits in `~/.ssh`, and shares memory, semaphores and messages by a key.
const VICTIM: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None)
buffer = ctypes.create_string_buffer(b"canary")
key = 0x7e570000 | os.getpid() & 0xffff
made = [libc.shmget(key, 4096, 0o1600), libc.semget(key, 1, 0o1600), libc.msgget(key, 0o1600)]
print(key, hex(ctypes.addressof(buffer)), flush=True)
sys.stdin.read()
libc.shmctl(made[0], 0, None)
libc.semctl(made[1], 0, 0)
libc.msgctl(made[2], 0, None)
"#;

/// Variables with secrets in Convoke's environment, and those that lead out of the sandbox.
const VARIABLES: [&str; 26] = [
    "MY_API_KEY",
    "MY_TOKEN",
    "MY_SECRET",
    "MY_PASSWORD",
    "MY_PASSWD",
    "MY_CREDENTIALS",
    "MY_COOKIE",
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "OPENAI_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "NPM_TOKEN",
    "KIMI_API_KEY",
    "COPILOT_GITHUB_TOKEN",
    "MISTRAL_API_KEY",
    "SSH_AUTH_SOCK",
    "DOCKER_HOST",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "TMUX",
    "XDG_RUNTIME_DIR",
    "EDITOR",
];

/// Variables that lead a CLI to another directory than its home.
const OF_CLIS: [&str; 4] =
    ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "GOOGLE_APPLICATION_CREDENTIALS"];

pub struct World {
    dir: TempDir,
    /// The variables that Convoke gets besides those of this world.
    pub env: Vec<(OsString, OsString)>,
    named: Vec<(String, PathBuf)>,
    is_of_cli: bool,
    victim: Child,
    _sockets: (TcpListener, UdpSocket, UnixListener, UnixDatagram, UnixListener, UnixDatagram),
}

impl World {
    /// Returns a world; `None` where Python is missing and need not be there.
    pub fn new(cli: Option<&str>) -> Option<Self> {
        if !Path::new("/usr/bin/python3").exists() {
            let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
            assert!(!is_ci, "python3 is not installed");
            eprintln!("skipped: python3 is not installed");
            return None;
        }
        let dir = TempDir::new().unwrap();
        let at = |name: &str| dir.path().join(name);
        let home = at("home");
        let secrets = secrets();
        for secret in &secrets {
            plant(&home.join(secret));
        }
        write(&home.join(".ssh/id"), CANARY);
        write(&home.join(".ssh/moved"), CANARY);
        write(&home.join(".ssh/program"), "#!/bin/sh\n");
        executable(&home.join(".ssh/program"));
        write(&home.join(".aws/credentials"), CANARY);
        for name in ["notes.txt", ".bashrc", ".profile", ".gitconfig"] {
            write(&home.join(name), &format!("# {CANARY}\n"));
        }
        symlink(home.join(".ssh"), home.join("link")).unwrap();
        for name in [
            ".local/bin",
            ".config/systemd/user",
            ".config/autostart",
            ".claude/skills",
            ".claude/commands",
            ".claude/agents",
            ".claude/hooks",
            ".claude/shell-snapshots",
            ".claude/session-env",
            ".claude/projects/other/memory",
            ".codex/rules",
            ".codex/prompts",
            ".codex/skills",
            ".codex/shell_snapshots",
            ".codex/tmp/arg0",
            ".gemini/extensions",
        ] {
            std::fs::create_dir_all(home.join(name)).unwrap();
        }
        write(&home.join(".claude.json"), &format!("{{\"canary\": \"{CANARY}\"}}"));
        write(&home.join(".config/convoke/permissions.toml"), &format!("# {CANARY}\n"));
        write(&home.join(".local/share/convoke/canary"), CANARY);
        write(&at("others/.ssh/id"), CANARY);
        std::fs::create_dir_all(at("work/.git/hooks")).unwrap();
        write(&at("work/project.txt"), CANARY);
        write(&at("work/removed"), CANARY);
        let outside = at("outside");
        for name in
            ["file", "appended", "truncated", "emptied", "removed", "taken", "named", "linked"]
        {
            write(&outside.join(name), CANARY);
        }
        for name in ["removed-directory", "mount"] {
            std::fs::create_dir(outside.join(name)).unwrap();
        }
        symlink(outside.join("linked"), at("work/link-out")).unwrap();
        write(&at("inherited"), CANARY);
        // Named as Convoke names the private directory of a turn.
        write(&at("tmp/convoke-Other0/canary"), CANARY);
        std::fs::create_dir(at("results")).unwrap();
        write(&outside.join("probe.py"), include_str!("probe.py"));

        let abstract_name = dir.path().file_name().unwrap().to_str().unwrap().to_owned();
        let datagrams = format!("{abstract_name}-datagrams");
        let abstract_address = |name: &str| SocketAddr::from_abstract_name(name).unwrap();
        let sockets = (
            TcpListener::bind("0.0.0.0:0").unwrap(),
            UdpSocket::bind("127.0.0.1:0").unwrap(),
            UnixListener::bind(outside.join("socket")).unwrap(),
            UnixDatagram::bind(outside.join("datagrams")).unwrap(),
            UnixListener::bind_addr(&abstract_address(&abstract_name)).unwrap(),
            UnixDatagram::bind_addr(&abstract_address(&datagrams)).unwrap(),
        );
        let mut victim = Command::new("/usr/bin/python3")
            .args(["-c", VICTIM])
            .current_dir(home.join(".ssh"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(victim.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (key, address) = line.trim().split_once(' ').unwrap();

        let named: Vec<(String, PathBuf)> = variables()
            .into_iter()
            .filter(|name| cli.is_none() || !OF_CLIS.contains(&&**name))
            .map(|name| (name.clone(), at("named").join(name)))
            .collect();
        for (_, path) in &named {
            plant(path);
        }
        let given: Map<String, Value> =
            VARIABLES.iter().map(|name| ((*name).to_owned(), value(name).into())).collect();
        let files: Map<String, Value> =
            named.iter().map(|(name, path)| (name.clone(), json!(path))).collect();
        let parameters = json!({
            "home": home,
            "work": at("work"),
            "outside": outside,
            "others": at("others"),
            "temporary": at("tmp"),
            "config": home.join(".config/convoke"),
            "data": home.join(".local/share/convoke"),
            "results": at("results/results"),
            "inherited": at("inherited"),
            "canary": CANARY,
            "secrets": secrets,
            "named": files,
            "variables": given,
            "victim": victim.id(),
            "convoke": std::process::id(),
            "key": key.parse::<u64>().unwrap(),
            "address": address,
            "port": sockets.0.local_addr().unwrap().port(),
            "udp": sockets.1.local_addr().unwrap().port(),
            "socket": outside.join("socket"),
            "datagrams": outside.join("datagrams"),
            "abstract": abstract_name,
            "stray": format!("/tmp/{abstract_name}-stray"),
            "stray-memory": format!("/dev/shm/{abstract_name}-stray"),
            "stray-var": format!("/var/tmp/{abstract_name}-stray"),
        });
        write(&outside.join("probe.json"), &parameters.to_string());
        let is_of_cli = cli.is_some();
        Some(Self { dir, env: Vec::new(), named, is_of_cli, victim, _sockets: sockets })
    }

    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    /// Writes the user's agents and the team.
    pub fn configure(&self, agents: &str, member: &str) {
        let config = self.home().join(".config/convoke");
        write(&config.join("agents.toml"), &format!("# {CANARY}\n{agents}"));
        let team = format!("[[member]]\nname = \"max\"\n{member}");
        write(&self.dir.path().join("work/convoke.toml"), &team);
    }

    /// Runs one turn, with a secret open as the caller of Convoke may have it.
    pub fn run(&self) -> String {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "exec 7<\"$1\"; shift; exec \"$@\"", "sh"])
            .arg(self.dir.path().join("inherited"))
            .arg(env!("CARGO_BIN_EXE_convoke"))
            .args(["run", "Try everything."])
            .current_dir(self.dir.path().join("work"))
            .stdin(Stdio::null())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env("HOME", self.home())
            .env("TMPDIR", self.dir.path().join("tmp"))
            .envs(VARIABLES.map(|name| (name, value(name))))
            .envs(self.named.iter().map(|(name, path)| (name, path)));
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        text(&output.stdout) + &text(&output.stderr)
    }

    pub fn results(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("results/results")).unwrap_or_default()
    }

    /// Returns whether an attempt is left out here.
    pub fn is_left_out(&self, name: &str) -> bool {
        let of_cli = OF_CLIS.iter().any(|it| name == format!("read the file of {it}"));
        self.is_of_cli && of_cli
    }

    /// Returns what was changed, seen from outside, that may not be.
    pub fn touched(&self, level: &str) -> Vec<String> {
        let mut touched = Vec::new();
        if level == "full" {
            return touched;
        }
        let mut open = vec![self.home(), self.dir.path().join("outside")];
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_symlink() {
                    continue;
                }
                let is_named = path.file_name().is_some_and(|name| name == "planted");
                let is_written = || {
                    let text = std::fs::read(&path).unwrap_or_default();
                    let is_probe = path.file_stem().is_some_and(|stem| stem == "probe");
                    !is_probe && text.windows(20).any(|it| it == b"planted-by-the-probe")
                };
                if is_named || path.is_file() && is_written() {
                    touched.push(format!("{level}: {} was planted", path.display()));
                } else if path.is_dir() {
                    open.push(path);
                }
            }
        }
        for name in ["file", "appended", "truncated", "emptied", "removed", "taken", "named"] {
            let text = std::fs::read_to_string(self.dir.path().join("outside").join(name));
            if text.ok().as_deref() != Some(CANARY) {
                touched.push(format!("{level}: {name} outside was changed"));
            }
        }
        touched
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.victim.stdin.take());
        let _ = self.victim.wait();
    }
}

/// Returns the paths in the home that the page calls secrets.
fn secrets() -> Vec<String> {
    let (_, list) = PAGE.split_once("## What counts as a secret\n").unwrap();
    // The introduction of the list names a variable, not a path.
    let (_, list) = list.split_once("): ").unwrap();
    let (list, _) = list.split_once("Named by variables:").unwrap();
    let paths = list.split('`').skip(1).step_by(2);
    let paths: Vec<String> = paths.map(str::to_owned).collect();
    assert!(paths.len() > 100, "{} secrets", paths.len());
    paths
}

/// Returns the variables that the page says name secrets.
pub(crate) fn variables() -> Vec<String> {
    let (_, list) = PAGE.split_once("Named by variables:").unwrap();
    let (list, _) = list.split_once("The working directory of").unwrap();
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Puts a canary in a place: a file if its name is one of a file, and otherwise into a directory.
fn plant(path: &Path) {
    let name = path.file_name().unwrap().to_str().unwrap();
    let is_file = name.trim_start_matches('.').contains('.')
        || name.ends_with("_history")
        || name.ends_with("_FILE")
        || name.ends_with("_CREDENTIALS")
        || ["KUBECONFIG", "NETRC", "PGPASSFILE", "NPM_CONFIG_USERCONFIG"].contains(&name)
        || [".netrc", ".pgpass", ".npmrc", ".git-credentials", "credentials"].contains(&name);
    write(&if is_file { path.to_owned() } else { path.join("canary") }, CANARY);
}

fn value(name: &str) -> String {
    format!("value-{}", name.to_lowercase())
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn executable(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
