//! The page in a real browser: `tests/browser/page.mjs` drives it, and `tsc` checks the types of its modules.

#![expect(clippy::expect_used, clippy::print_stdout, reason = "this is a test")]

use std::path::{Path, PathBuf};
use std::process::Command;

use convoke_rehearsal::{Answer, Script, start};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().expect("the repository")
}

/// Returns where `scripts/install-browser` has put its packages; nothing on a machine of one's own without them.
fn packages() -> Option<PathBuf> {
    let named = std::env::var_os("CONVOKE_BROWSER").map(PathBuf::from);
    let packages = named.unwrap_or_else(|| root().join("target/browser")).join("node_modules");
    if packages.join("playwright-core").is_dir() {
        return Some(packages);
    }
    assert!(std::env::var_os("CI").is_none(), "run scripts/install-browser first");
    println!("skipped: scripts/install-browser has not been run");
    None
}

fn run(command: &mut Command) {
    let output = command.output().expect("node runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    println!("{}", text(&output.stdout));
}

#[test]
fn a_conversation_is_driven_in_a_browser() {
    let Some(packages) = packages() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let answers = ["One.", "Two."].map(Answer::say);
    let model = runtime.block_on(start(Script::new(answers))).expect("a model");
    run(script("page.mjs", &packages, directory.path()).env("MODEL", model.base_url()));
}

#[test]
fn a_session_of_another_program_is_opened_in_a_browser() {
    let Some(packages) = packages() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    run(&mut script("open.mjs", &packages, directory.path()));
}

#[test]
fn the_chat_is_drawn_as_a_picture() {
    let Some(packages) = packages() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    run(&mut script("chat.mjs", &packages, directory.path()));
}

/// Returns a script that works in a directory. With `UPDATE_DOCS`, it writes the pictures of the docs.
fn script(name: &str, packages: &Path, directory: &Path) -> Command {
    let mut node = Command::new("node");
    node.arg(root().join("crates/front/cli/tests/browser").join(name))
        .env("CONVOKE", env!("CARGO_BIN_EXE_convoke"))
        .env("PACKAGES", packages)
        .env("DIRECTORY", directory)
        .env("CONVOKE_DATA_DIR", directory.join("data"))
        .env("CONVOKE_CONFIG_DIR", directory.join("config"))
        .env_remove("IMAGES");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        node.env("IMAGES", root().join("docs/images"));
    }
    node
}

#[test]
fn the_modules_of_the_page_have_right_types() {
    let Some(packages) = packages() else { return };
    let assets = root().join("crates/front/server/assets");
    let modules = [
        "app.js",
        "api.js",
        "actions.js",
        "chunks.js",
        "conversation.js",
        "given.js",
        "keys.js",
        "programs.js",
        "workbench.js",
    ];
    run(Command::new("node")
        .arg(packages.join("typescript/bin/tsc"))
        .args(["--noEmit", "--allowJs", "--checkJs", "--strict", "--target", "es2022"])
        .args(["--module", "es2022", "--lib", "es2022,dom,dom.iterable"])
        .args(modules.map(|module| assets.join(module))));
}
