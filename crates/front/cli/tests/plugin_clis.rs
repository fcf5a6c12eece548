//! The plugin of this repository, loaded by the real CLIs at pinned versions. `scripts/install-clis` installs them; where they are
//! missing this test says that it is skipped, and fails if `CI` is `true`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and reports that it is skipped"
)]

mod installed;

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// Runs a CLI in a home of its own, and returns what it writes.
fn run(cli: &str, program: &str, home: &Path, arguments: &[&str]) -> Option<String> {
    let programs = installed::programs(cli)?;
    let output = Command::new(programs.join(program))
        .args(arguments)
        .current_dir(home)
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap())
        .env("HOME", home)
        // Nothing leaves this machine.
        .envs(["HTTP_PROXY", "HTTPS_PROXY"].map(|name| (name, "http://127.0.0.1:1")))
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let told = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {told}");
    Some(told)
}

fn root() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    root.canonicalize().unwrap().display().to_string()
}

#[test]
fn claude_code_loads_the_plugin_with_its_skills_and_its_hook() {
    let (home, root) = (TempDir::new().unwrap(), root());
    let claude = |arguments: &[&str]| run("claude-2.1.325", "claude", home.path(), arguments);
    for place in [&root, &format!("{root}/plugin")] {
        let Some(told) = claude(&["plugin", "validate", place]) else { return };
        assert!(told.contains("Validation passed"), "{told}");
    }
    claude(&["plugin", "marketplace", "add", &root]);
    claude(&["plugin", "install", "convoke@convoke"]);
    let details = claude(&["plugin", "details", "convoke@convoke"]).unwrap();
    assert!(
        details.contains("explain, open, review") && details.contains("Hooks (1)  Stop"),
        "{details}"
    );
}

#[test]
fn codex_loads_the_plugin() {
    let (home, root) = (TempDir::new().unwrap(), root());
    std::fs::create_dir(home.path().join(".codex")).unwrap();
    let codex = |arguments: &[&str]| run("codex-0.166.0", "codex", home.path(), arguments);
    if codex(&["plugin", "marketplace", "add", &root]).is_none() {
        return;
    }
    codex(&["plugin", "add", "convoke@convoke"]);
    let listed = codex(&["plugin", "list"]).unwrap();
    assert!(
        listed.contains("convoke@convoke") && listed.contains("installed, enabled"),
        "{listed}"
    );
}
