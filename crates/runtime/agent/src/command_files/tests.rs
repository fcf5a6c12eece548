use std::os::unix::fs::PermissionsExt as _;

use super::search::MAX_FILES;
use super::*;

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn trusted(project: &Path, below: &str) -> TrustedCommands {
    let files = CommandFiles::read(project, &[below.into()].into(), None);
    TrustedCommands { files, below: below.into(), granted: project.to_owned(), home: None }
}

#[test]
fn every_file_that_names_commands_is_trusted_by_its_content() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["AGENTS.md", "CLAUDE.md", "src/main.rs", ".claude/plans/a.md"] {
        write(&dir.path().join(name), "a");
    }
    let before = trusted(dir.path(), "");
    assert_eq!(before.check(dir.path()), None);
    for name in [
        "AGENTS.md",
        ".claude/CLAUDE.md",
        "a/CLAUDE.md",
        "src/main.rs",
        ".claude/plans/b.md",
        "other/.env",
        ".github/workflows/x.yml",
    ] {
        write(&dir.path().join(name), "b");
    }
    assert_eq!(before.check(dir.path()), None, "instructions and sources are no commands");
    for name in [
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".claude/skills/x/SKILL.md",
        ".claude/agents/x.md",
        ".claude/commands/x.md",
        ".claude/hooks/x.sh",
        ".claude/workflows/x.js",
        ".claude/output-styles/x.md",
        "nested/deep/.claude/skills/x/SKILL.md",
        "nested/.mcp.json",
        ".opencode/plugin/x.js",
        "opencode.json",
        ".qwen/settings.json",
        ".github/hooks/x.json",
        ".mcp.json",
        ".codex/config.toml",
        ".codex/hooks.json",
        ".codex/rules/x.rules",
        ".agents/skills/x/SKILL.md",
        ".gemini/settings.json",
        ".gemini/.env",
        ".env",
        ".git/hooks/pre-commit",
        // A directory that is not an entry may contain some.
        ".claude/plans/x/.claude/skills/x/SKILL.md",
        ".claude/worktrees/x/.mcp.json",
        ".github/x/.claude/skills/x/SKILL.md",
        ".git/x/.claude/skills/x/SKILL.md",
    ] {
        let before = trusted(dir.path(), "");
        for text in ["one", "two"] {
            write(&dir.path().join(name), text);
            let told = before.check(dir.path()).map(|it| it.message).unwrap_or_default();
            assert!(told.starts_with(&format!("{name}: changed")), "{name}: {told}");
            assert_eq!(trusted(dir.path(), "").check(dir.path()), None, "{name}");
        }
        let with = trusted(dir.path(), "");
        std::fs::remove_file(dir.path().join(name)).unwrap();
        assert_eq!(with.check(dir.path()), None, "{name} is gone");
    }
}

#[test]
fn a_directory_that_cannot_be_listed_hides_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let hidden = dir.path().join("hidden");
    write(&hidden.join("sub/x"), "a");
    let before = trusted(dir.path(), "");
    let is_root = nix::unistd::geteuid().is_root();
    std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o311)).unwrap();
    let check = || before.check(dir.path()).map(|it| it.message);
    if is_root {
        // Root can list everything.
        assert_eq!(check(), None);
    } else {
        assert!(check().is_some_and(|told| told.starts_with("hidden: changed")));
    }
    std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn the_files_of_a_working_directory_below_count_too_and_in_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let (project, copy) = (dir.path().join("project"), dir.path().join("copy"));
    for root in [&project, &copy] {
        write(&root.join("a/b/.claude/settings.json"), "{}");
        write(&root.join("a/.mcp.json"), "{}");
    }
    let before = trusted(&project, "a/b");
    assert_eq!(before.check(&copy.join("a/b")), None);
    for name in ["a/b/.claude/settings.json", "a/.mcp.json", ".mcp.json"] {
        write(&copy.join(name), "{\"x\": 1}");
        let told = before.check(&copy.join("a/b")).unwrap();
        assert!(told.message.contains(name), "{told:?}");
    }
    assert_eq!(before.check(&project.join("a/b")), None);
}

#[test]
fn a_hook_that_becomes_executable_or_is_linked_has_changed() {
    let dir = tempfile::tempdir().unwrap();
    let hook = dir.path().join(".git/hooks/pre-commit");
    write(&hook, "#!/bin/sh\n");
    write(&dir.path().join(".git/hooks/pre-push.sample"), "#!/bin/sh\n");
    let before = trusted(dir.path(), "");
    assert_eq!(before.files.paths().collect::<Vec<_>>(), [".git/hooks/pre-commit"]);
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(before.check(dir.path()).is_some());

    write(&dir.path().join("skills/x/SKILL.md"), "one");
    std::fs::create_dir(dir.path().join(".claude")).unwrap();
    std::os::unix::fs::symlink("../skills", dir.path().join(".claude/skills")).unwrap();
    // A cycle of links ends the search.
    std::os::unix::fs::symlink("..", dir.path().join("skills/x/up")).unwrap();
    let before = trusted(dir.path(), "");
    assert!(before.files.contains(".claude/skills/x/SKILL.md"));
    write(&dir.path().join("skills/x/SKILL.md"), "two");
    assert!(before.check(dir.path()).is_some());
}

/// A project in a directory with a repository, in which git and its hooks run as for the user.
fn repository(dir: &Path) -> PathBuf {
    let project = dir.join("project");
    std::fs::create_dir_all(&project).unwrap();
    shell(&project, "git init -q . && git config user.name a && git config user.email a@b");
    project
}

fn shell(dir: &Path, script: &str) {
    let mut command = std::process::Command::new("sh");
    let command = command.args(["-ec", script]).current_dir(dir).env_remove("GIT_DIR");
    let output = command.env("HOME", dir).output().unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
}

#[test]
fn git_is_followed_wherever_its_files_are() {
    let hook = "printf '#!/bin/sh\\n' > \"$1\"; chmod +x \"$1\"";
    let hook = format!("hook() {{ {hook}; }};");
    for (script, named) in [
        ("git config core.fsmonitor x", ".git/config"),
        ("hook .git/hooks/pre-commit", ".git/hooks/pre-commit"),
        (
            "mv .git .g; echo 'gitdir: .g' > .git; git config -f .g/config core.fsmonitor x",
            ".git/config",
        ),
        (
            "cp -r .git .g; echo ../.g > .git/commondir; git config -f .g/config alias.x '!y'",
            ".git/config",
        ),
        (
            "cp -r .git .g; echo ../.g > .git/commondir; hook .g/hooks/pre-commit",
            ".git/hooks/pre-commit",
        ),
        ("git config -f .git/config.worktree core.fsmonitor x", ".git/config"),
        ("git init -q sub; git -C sub config core.fsmonitor x", "sub/.git/config"),
        ("git init -q --bare x.git; hook x.git/hooks/pre-receive", "x.git/hooks/pre-receive"),
        ("git config remote.origin.url $PWD/x.git", ".git/config"),
        ("mkdir .git/remotes; echo 'URL: x' > .git/remotes/origin", ".git/remotes/origin"),
        (
            "git init -q --bare .git/modules/a/b; git config -f .git/modules/a/b/config core.fsmonitor x",
            ".git/modules/a/b/config",
        ),
        (
            "rm -rf .git/hooks; mkdir .h; hook .h/pre-commit; ln -s ../.h .git/hooks",
            ".git/hooks/pre-commit",
        ),
        ("rm -rf .git/hooks; ln -s /proc/self/cwd/.h .git/hooks", ".git/hooks"),
        ("ln -s /proc/self/cwd/x.json .mcp.json", ".mcp.json"),
        ("mkdir .claude; mkfifo .claude/settings.json", ".claude/settings.json"),
        ("mv .git .g; echo 'gitdir: /proc/self/cwd/.g' > .git", ".git"),
        ("git config include.path /proc/self/cwd/x", ".git/config"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let project = repository(dir.path());
        let before = trusted(&project, "");
        assert_eq!(before.check(&project), None);
        shell(&project, &format!("{hook} {script}"));
        let told = before.check(&project).map(|it| it.message).unwrap_or_default();
        let names = told.split_once(": changed").map_or("", |(names, _)| names);
        assert!(names.split(", ").any(|name| name == named), "{script}: {told}");
    }
}

#[test]
fn everyday_work_with_git_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let project = repository(dir.path());
    let before = trusted(&project, "");
    shell(
        &project,
        "git remote add origin https://h.example/a.git; git config branch.main.remote origin;
         touch a; git add a; git commit -qm a; git branch b; git init -q sub; git worktree add -q tree b;
         git -C tree config user.name b",
    );
    assert_eq!(before.check(&project), None);
}

#[test]
fn files_above_a_project_count_except_those_of_the_home() {
    let dir = tempfile::tempdir().unwrap();
    let (home, project) = (dir.path().join("home"), dir.path().join("home/repo/app"));
    std::fs::create_dir_all(&project).unwrap();
    let home = Some(home);
    let read = || TrustedCommands {
        files: CommandFiles::read(&project, &[PathBuf::new()].into(), home.as_deref()),
        below: PathBuf::new(),
        granted: project.clone(),
        home: home.clone(),
    };
    let before = read();
    write(&dir.path().join("home/.claude/settings.json"), "{}");
    write(&dir.path().join("home/.mcp.json"), "{}");
    assert_eq!(before.check(&project), None);
    for name in [".mcp.json", "../.mcp.json", "../.claude/skills/x/SKILL.md", "../../../.env"] {
        let before = read();
        write(&project.join(name), "x");
        let told = before.check(&project).map(|it| it.message).unwrap_or_default();
        assert!(told.starts_with(&format!("{name}: changed")), "{name}: {told}");
    }
}

#[test]
fn what_is_over_a_limit_is_never_trusted() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..=MAX_FILES {
        write(&dir.path().join(format!(".codex/{number}")), "");
    }
    let told = trusted(dir.path(), "").check(dir.path()).unwrap();
    assert!(told.message.starts_with(".codex: changed"), "{told:?}");
}
