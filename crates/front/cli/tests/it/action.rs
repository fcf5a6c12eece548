//! The shell parts of the GitHub action, in the environment of a runner that is made up here.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// A runner, with a repository to check.
struct Runner {
    directory: TempDir,
}

impl Runner {
    fn new() -> Self {
        let runner = Self { directory: TempDir::new().unwrap() };
        for directory in ["bin", "temp", "tools", "work/.convoke"] {
            std::fs::create_dir_all(runner.path(directory)).unwrap();
        }
        runner.write("work/AGENTS.md", &"A rule of some words.\n".repeat(40));
        runner.work("git", &["init", "--quiet"]);
        runner.work(
            env!("CARGO_BIN_EXE_convoke"),
            &["explain", "--baseline", ".convoke/baseline.toml", "--update"],
        );
        runner.work("git", &["add", "--all"]);
        let person = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"];
        runner.work("git", &[&person[..], &["commit", "--quiet", "--message", "Begin"]].concat());
        runner
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        std::fs::write(self.path(path), text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap_or_default()
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.path("bin").join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, executable).unwrap();
    }

    fn work(&self, program: &str, arguments: &[&str]) {
        let ran = Command::new(program).args(arguments).current_dir(self.path("work")).output();
        assert!(ran.unwrap().status.success());
    }

    /// Runs a step of the action.
    fn step(&self, name: &str, variables: &[(&str, &str)]) -> Output {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        Command::new(root.join("packaging/action").join(name))
            .current_dir(self.path("work"))
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.path(""))
            .env("GITHUB_ACTION_PATH", &root)
            .env("GITHUB_REPOSITORY", "shop/shop")
            .env("RUNNER_OS", "Linux")
            .env("RUNNER_ARCH", "X64")
            .env("RUNNER_TEMP", self.path("temp"))
            .env("RUNNER_TOOL_CACHE", self.path("tools"))
            .env("LOG", self.path("log"))
            .envs(
                ["OUTPUT", "PATH", "STEP_SUMMARY"]
                    .map(|name| (format!("GITHUB_{name}"), self.path(&name.to_lowercase()))),
            )
            .envs(variables.iter().copied())
            .output()
            .unwrap()
    }

    fn output(&self, name: &str) -> String {
        let text = self.read("output");
        let line = text.lines().rev().find_map(|line| line.strip_prefix(&format!("{name}=")));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
    }
}

fn told(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn the_binary_is_built_once_and_comes_from_the_cache_then() {
    let runner = Runner::new();
    let key = runner.step("key", &[]);
    assert!(key.status.success(), "{}", told(&key));
    let directory = runner.output("directory");
    assert!(runner.output("key").starts_with("convoke-Linux-X64-"));
    runner.program(
        "cargo",
        "echo \"cargo $*\" >> \"$LOG\"; while [ $# -gt 1 ]; do [ \"$1\" != --target-dir ] || target=$2; shift; done; \
         mkdir -p \"$target/release\"; printf '#!/bin/sh\\necho convoke 1\\n' > \"$target/release/convoke\"; chmod +x \"$target/release/convoke\"",
    );
    for _ in 0..2 {
        let installed = runner.step("install", &[("CONVOKE_DIRECTORY", &directory)]);
        assert!(installed.status.success(), "{}", told(&installed));
    }
    assert_eq!(runner.read("log").lines().count(), 1, "{}", runner.read("log"));
    assert!(runner.read("log").contains("--locked -p convoke"));
    assert!(runner.read("path").contains(&format!("{directory}/bin")));
    // A pinned version is a package.
    runner.program("npm", "echo \"npm $*\" >> \"$LOG\"; exit 1");
    let pinned = runner.path("tools/pinned").display().to_string();
    let failed =
        runner.step("install", &[("CONVOKE_DIRECTORY", &pinned), ("CONVOKE_VERSION", "1.2.3")]);
    assert!(!failed.status.success() && runner.read("log").contains("convoke@1.2.3"));
}

#[test]
fn a_regression_is_annotated_commented_and_the_outcome() {
    let runner = Runner::new();
    let binary = env!("CARGO_BIN_EXE_convoke");
    runner.program("convoke", &format!("exec {binary} \"$@\""));
    let baseline = [("CONVOKE_BASELINE", ".convoke/baseline.toml")];
    let well = runner.step("run", &baseline);
    assert_eq!(
        (well.status.code(), &*runner.output("exit-code")),
        (Some(0), "0"),
        "{}",
        told(&well)
    );
    runner.write("work/CLAUDE.md", "Mine.\n");
    let worse = runner.step("run", &baseline);
    assert_eq!(
        (worse.status.code(), &*runner.output("exit-code")),
        (Some(0), "3"),
        "{}",
        told(&worse)
    );
    assert!(told(&worse).starts_with("::error file=CLAUDE.md"), "{}", told(&worse));
    let sarif = Path::new(&runner.output("sarif")).join("baseline.sarif");
    let sarif: Value = serde_json::from_slice(&std::fs::read(sarif).unwrap()).unwrap();
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "baseline.file-lost");
    assert!(runner.read("step_summary").contains("baseline.file-lost"));
    let missing = runner.step("run", &[("CONVOKE_BASELINE", "none.toml")]);
    assert_eq!(runner.output("exit-code"), "2", "{}", told(&missing));
}

#[test]
fn a_comment_is_written_once_and_changed_then() {
    let runner = Runner::new();
    runner.write("comment.md", "### Convoke\n");
    let file = runner.path("comment.md").display().to_string();
    let variables = [("CONVOKE_COMMENT", &*file), ("CONVOKE_PULL_REQUEST", "7")];
    for (known, expected) in [
        ("", "--method POST repos/shop/shop/issues/7/comments"),
        ("42", "--method PATCH repos/shop/shop/issues/comments/42"),
    ] {
        let script = format!(
            "echo \"gh $*\" >> \"$LOG\"; case \"$*\" in *--paginate*) echo '{known}';; esac"
        );
        runner.program("gh", &script);
        let ran = runner.step("comment", &variables);
        assert!(ran.status.success(), "{}", told(&ran));
        assert!(runner.read("log").contains(expected), "{}", runner.read("log"));
    }
}

#[test]
fn a_review_is_run_once_for_all_formats() {
    let runner = Runner::new();
    runner.program(
        "convoke",
        "echo \"convoke $*\" >> \"$LOG\"; for it in \"$@\"; do case $it in markdown=*) echo reviewed > \"${it#*=}\";; sarif=*) echo '{}' > \"${it#*=}\";; esac; done; exit 3",
    );
    let variables = [("CONVOKE_REVIEWERS", "codex,claude"), ("CONVOKE_FAIL_ON", "high")];
    let ran = runner.step("run", &variables);
    assert_eq!((ran.status.code(), &*runner.output("exit-code")), (Some(0), "3"), "{}", told(&ran));
    assert_eq!(runner.read("log").lines().count(), 1);
    assert!(
        runner.read("log").contains("--by codex,claude")
            && runner.read("log").contains("--fail-on high")
    );
    assert_eq!(runner.read("step_summary"), "reviewed\n");
}
