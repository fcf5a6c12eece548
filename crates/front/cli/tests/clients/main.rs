//! Independent clients against the protocols of the command: the official conformance suite and the Python client of MCP,
//! the Python and the TypeScript SDK of ACP, and the packages that read exported traces. `scripts/install-clients` installs them; where they are missing a test says
//! that it is skipped, and fails if `CI` is `true`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and reports that it is skipped"
)]

mod conformance;
mod traces;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

const TEAM: &str = "[[member]]\nname = \"kailai\"\nhuman = true\n\n\
                    [[member]]\nname = \"max\"\nagent = \"claude\"\n\n\
                    [[member]]\nname = \"eva\"\nagent = \"codex\"\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Returns the directory of the clients, unless they are to be skipped.
fn installed() -> Option<PathBuf> {
    let at = std::env::var_os("CONVOKE_CLIENTS").map_or("target/clients".into(), PathBuf::from);
    let clients = root().join(at);
    if clients.join("pins").exists() {
        return Some(clients.canonicalize().unwrap());
    }
    let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(!is_ci, "there are no clients in {}; run scripts/install-clients", clients.display());
    eprintln!("skipped: the clients are not installed; run scripts/install-clients");
    None
}

/// Returns the search path with the Node.js of the CLIs, where it is newer than that of the machine.
fn path() -> OsString {
    let clis = std::env::var_os("CONVOKE_CLIS").map_or("target/clis".into(), PathBuf::from);
    let node = root().join(clis).join("node-22.23.3/node_modules/node/bin");
    let path = std::env::var_os("PATH").unwrap();
    std::env::join_paths(std::iter::once(node).chain(std::env::split_paths(&path))).unwrap()
}

/// A user with a project and a team.
struct Place {
    clients: PathBuf,
    home: TempDir,
    project: TempDir,
}

impl Place {
    fn new() -> Option<Self> {
        let place = Self {
            clients: installed()?,
            home: TempDir::new().unwrap(),
            project: TempDir::new().unwrap(),
        };
        std::fs::write(place.project.path().join("convoke.toml"), TEAM).unwrap();
        std::fs::write(place.project.path().join("AGENTS.md"), "Be brief.\n").unwrap();
        Some(place)
    }

    fn script(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
    }

    fn sdk(&self) -> PathBuf {
        self.clients.join("node_modules/@agentclientprotocol/sdk")
    }

    fn run(&self, program: &str, arguments: &[OsString]) -> String {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(self.project.path())
            .env_clear()
            .env("PATH", path())
            .env("HOME", self.home.path())
            .env("PYTHONPATH", self.clients.join("python"))
            .env("CONVOKE_DATA_DIR", self.home.path().join("data"))
            .env("CONVOKE_CONFIG_DIR", self.home.path().join("config"))
            .output()
            .unwrap();
        let [out, err] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{arguments:?}: {out}{err}");
        out
    }

    /// Has a client drive `convoke acp`, and validates every message of both by the published schema.
    fn drive_acp(&self, program: &str, client: &[OsString]) {
        let log = self.home.path();
        let recorded = r#"tee "$1/sent" | "$2" acp --rehearse | tee "$1/received""#;
        let command = ["sh", "-c", recorded, "sh"].map(OsString::from).into_iter();
        let command = command.chain([log.into(), env!("CARGO_BIN_EXE_convoke").into()]);
        self.run(program, &client.iter().cloned().chain(command).collect::<Vec<_>>());
        let schema = self.sdk().join("schema/v1/schema.json");
        let files = [Self::script("acp_schema.py"), schema, log.join("sent"), log.join("received")];
        let counts = self.run("python3", &files.map(PathBuf::into_os_string));
        assert!(counts.contains("'Notification'") && counts.contains("'Response'"), "{counts}");
    }
}

#[test]
fn the_python_sdk_of_acp_drives_a_conversation() {
    let Some(place) = Place::new() else { return };
    place.drive_acp("python3", &[Place::script("acp_client.py").into()]);
}

#[test]
fn the_typescript_sdk_of_acp_drives_a_conversation() {
    let Some(place) = Place::new() else { return };
    place.drive_acp("node", &[Place::script("acp_client.mjs").into(), place.sdk().into()]);
}

#[test]
fn the_python_client_of_mcp_calls_tools_in_each_generation() {
    let Some(place) = Place::new() else { return };
    let program = env!("CARGO_BIN_EXE_convoke").into();
    place.run("python3", &[Place::script("mcp_client.py").into(), program]);
}
