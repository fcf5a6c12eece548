//! Protects against git configuration in an untrusted directory.
//!
//! Agents run `git`, and `.git/config` can configure commands for it to run. Configuration in environment
//! variables overrides every file, so it is used to replace those commands: fixed settings always, and settings
//! of drivers, remotes and the like for the names in the repository's configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use convoke_core::Diagnostic;
use convoke_files::{Disk, FileKind, Files, GitSetting, GitSettings, git_settings};

use super::UntrustedFile;
use crate::command_files::{GitConfigurations, GitDirectory, Location, locate};
use crate::diagnostics;

/// Settings that run a command, each with a harmless value.
const FIXED: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.editor", "true"),
    ("sequence.editor", "true"),
    ("core.sshCommand", "ssh"),
    ("core.askPass", ""),
    ("core.gitProxy", ""),
    ("core.alternateRefsCommand", "true"),
    ("credential.helper", ""),
    ("gpg.program", "gpg"),
    ("gpg.openpgp.program", "gpg"),
    ("gpg.x509.program", "gpgsm"),
    ("gpg.ssh.program", "ssh-keygen"),
    ("gpg.ssh.defaultKeyCommand", ""),
    ("interactive.diffFilter", "cat"),
    ("protocol.ext.allow", "never"),
    ("diff.tool", ""),
    ("diff.guitool", ""),
    ("merge.tool", ""),
    ("merge.guitool", ""),
    ("web.browser", ""),
];

/// Settings of named subsections: section, key and harmless value.
const NAMED: &[(&str, &str, &str)] = &[
    ("filter", "clean", ""),
    ("filter", "smudge", ""),
    ("filter", "process", ""),
    ("filter", "required", "false"),
    ("diff", "textconv", "cat"),
    ("diff", "command", PLAIN_DIFF),
    ("merge", "driver", "false"),
    ("remote", "uploadpack", "git-upload-pack"),
    ("remote", "receivepack", "git-receive-pack"),
    ("submodule", "update", "none"),
    ("credential", "helper", ""),
    ("trailer", "command", ""),
    ("trailer", "cmd", ""),
    ("difftool", "cmd", "false"),
    ("mergetool", "cmd", "false"),
    ("difftool", "path", "false"),
    ("mergetool", "path", "false"),
    ("browser", "cmd", "false"),
    ("browser", "path", "false"),
    ("man", "cmd", "false"),
    ("man", "path", "false"),
    ("tar", "command", "false"),
    ("guitool", "cmd", "false"),
    ("hook", "command", "true"),
    ("lfs", "path", "false"),
    ("lfs", "clean", "cat"),
    ("lfs", "smudge", "cat"),
    ("sendemail", "tocmd", "true"),
    ("sendemail", "cccmd", "true"),
    ("sendemail", "headercmd", "true"),
    ("sendemail", "sendmailcmd", "false"),
    ("sendemail", "smtpserver", "localhost"),
];

/// Settings that are replaced only where the repository has them, because the user's own are wanted: section, key and
/// harmless value.
const CONFIGURED: &[(&str, &str, &str)] = &[
    ("diff", "external", PLAIN_DIFF),
    ("imap", "tunnel", "false"),
    ("instaweb", "httpd", "false"),
    ("sendemail", "tocmd", "true"),
    ("sendemail", "cccmd", "true"),
    ("sendemail", "headercmd", "true"),
    ("sendemail", "sendmailcmd", "false"),
    // An absolute path is a program.
    ("sendemail", "smtpserver", "localhost"),
    ("svn", "authorsprog", "false"),
];

/// Settings with several values, which are all run. One without a value makes git ignore the others, and only this
/// variable can express it.
const UNSET: &[(&str, &str)] = &[("gc", "recentobjectshook")];
const PARAMETERS: &str = "GIT_CONFIG_PARAMETERS";

/// Sections whose every key is a command.
const COMMANDS: &[(&str, &str)] = &[("alias", ""), ("pager", "cat")];

/// An external diff command with the same output as git's own.
const PLAIN_DIFF: &str = r#"f() { diff -u --label "a/$1" --label "b/$1" -- "$2" "$5"; :; }; f"#;

/// Variables that override the configuration.
const VARIABLES: &[(&str, &str)] = &[
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "true"),
    ("GIT_SEQUENCE_EDITOR", "true"),
    // Of several `core.gitProxy`, the first counts, which is the repository's.
    ("GIT_PROXY_COMMAND", ""),
];

/// The maximum number of configuration files that are read, including included ones.
const MAX_FILES: usize = 1000;
/// The maximum number of named settings that are replaced.
const MAX_NAMED: usize = 2000;

/// Adds variables to a child's environment that keep git from running the project's commands. Refuses configuration in
/// which git may find commands that Convoke does not find.
pub(super) fn disarm(
    cwd: &Path,
    env: &mut BTreeMap<OsString, OsString>,
) -> Result<Option<Diagnostic>, UntrustedFile> {
    let mut settings: Vec<(String, &str)> =
        FIXED.iter().map(|&(key, value)| (key.to_owned(), value)).collect();
    let found = ConfiguredNames::around(cwd)?;
    settings.extend(found.replacements());
    let count = env.get(OsStr::new(COUNT)).and_then(|count| count.to_str()?.parse().ok());
    let before: usize = count.unwrap_or(0);
    for (index, (key, value)) in settings.iter().enumerate() {
        let number = before + index;
        env.insert(format!("GIT_CONFIG_KEY_{number}").into(), key.into());
        env.insert(format!("GIT_CONFIG_VALUE_{number}").into(), value.into());
    }
    env.insert(COUNT.into(), (before + settings.len()).to_string().into());
    for (name, value) in VARIABLES {
        // A variable that the user has set already overrides the project's configuration.
        env.entry((*name).into()).or_insert_with(|| (*value).into());
    }
    for (section, key) in UNSET.iter().filter(|(section, key)| found.has(section, key)) {
        let parameters = env.entry(PARAMETERS.into()).or_default();
        let separator = if parameters.is_empty() { "" } else { " " };
        parameters.push(format!("{separator}'{section}.{key}'"));
    }
    Ok(found.is_cut.then(|| {
        let message = format!(
            "`{}` has too many directories to look for git repositories in all of them; git could run commands that \
             one of the others configures",
            cwd.display()
        );
        Diagnostic::new(diagnostics::AGENT_GIT_UNSEARCHED, message)
    }))
}

const COUNT: &str = "GIT_CONFIG_COUNT";

/// Returns the configuration files of the repositories around a directory. Git skips a directory that only looks like a
/// repository, and goes on above it, so that all of them count.
fn configuration_files(cwd: &Path) -> Result<Vec<PathBuf>, UntrustedFile> {
    let cwd = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
    let mut files = Vec::new();
    for directory in cwd.ancestors() {
        let mut repositories = vec![directory.join(".git")];
        // The directory may be a bare repository.
        if locate(&directory.join("HEAD")) != Location::Missing {
            repositories.push(directory.to_owned());
        }
        for repository in repositories {
            match GitDirectory::find(&repository) {
                Ok(GitDirectory { own, common }) => {
                    files.extend([common.join("config"), own.join("config.worktree")]);
                }
                Err(Location::Missing) => {}
                Err(_) => return Err(unclear(&repository, "it leads to no repository")),
            }
        }
    }
    Ok(files)
}

fn unclear(path: &Path, reason: impl Into<String>) -> UntrustedFile {
    UntrustedFile::Unclear { program: "git", path: path.to_owned(), reason: reason.into() }
}

/// Reads a file, if there is one. Bytes that are not UTF-8 are replaced.
fn read(path: &Path) -> Result<Option<String>, UntrustedFile> {
    let real = match locate(path) {
        Location::Missing => return Ok(None),
        Location::Unclear => return Err(unclear(path, "another process may find another file")),
        Location::Found(real) => real,
    };
    let bytes = Disk.read(&real, FileKind::Configuration);
    let bytes = bytes.map_err(|error| unclear(path, error.to_string()))?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// The subsections found in configuration files, and the keys of sections without subsections.
#[derive(Default)]
struct ConfiguredNames {
    files: BTreeSet<PathBuf>,
    subsections: BTreeSet<(String, String)>,
    keys: BTreeSet<(String, String)>,
    /// Whether there may be more repositories.
    is_cut: bool,
    /// The remotes that name a helper.
    helpers: BTreeSet<String>,
}

impl ConfiguredNames {
    /// Reads the configuration of the repository around a directory, and of those in it, which git reads too.
    fn around(cwd: &Path) -> Result<Self, UntrustedFile> {
        let below = GitConfigurations::below(cwd);
        let mut found = Self { is_cut: below.is_cut, ..Self::default() };
        if let Some(path) = below.unclear {
            return Err(unclear(&cwd.join(path), "the repositories in it cannot be found"));
        }
        for path in configuration_files(cwd)?.into_iter().chain(below.files) {
            found.read(&path)?;
        }
        Ok(found)
    }

    fn has(&self, section: &str, key: &str) -> bool {
        self.keys.contains(&(section.to_owned(), key.to_owned()))
    }

    /// Returns the replacements of the settings that were found.
    fn replacements(&self) -> Vec<(String, &'static str)> {
        let in_section = |section: &'static str| {
            let names = self.subsections.iter().filter(move |(given, _)| given == section);
            names.map(|(_, name)| name)
        };
        let below = NAMED.iter().flat_map(|&(section, key, value)| {
            in_section(section).map(move |name| (format!("{section}.{name}.{key}"), value))
        });
        let keys = COMMANDS.iter().flat_map(|&(section, value)| {
            let keys = self.keys.iter().filter(move |(given, _)| given == section);
            keys.map(move |(_, key)| (format!("{section}.{key}"), value))
        });
        // An empty value would count as a name.
        let helpers = self.helpers.iter().map(|name| (format!("remote.{name}.vcs"), "none"));
        let configured = CONFIGURED.iter().filter(|(section, key, _)| self.has(section, key));
        let configured =
            configured.map(|(section, key, value)| (format!("{section}.{key}"), *value));
        below.chain(keys).chain(helpers).chain(configured).collect()
    }

    /// Reads a file and the files that it includes, ignoring conditions.
    fn read(&mut self, path: &Path) -> Result<(), UntrustedFile> {
        if !self.files.insert(path.to_owned()) {
            return Ok(());
        }
        let Some(text) = read(path)? else { return Ok(()) };
        if self.files.len() > MAX_FILES {
            return Err(unclear(path, format!("there are more than {MAX_FILES} files")));
        }
        let GitSettings { settings, subsections } = git_settings(&text);
        if subsections.iter().any(|(_, name)| is_replaced(name)) {
            return Err(unclear(path, "a name in it is not UTF-8"));
        }
        self.subsections.extend(subsections);
        for GitSetting { section, subsection, key, value, .. } in settings {
            // Files in the home directory are the user's own.
            let is_users = value.starts_with('~');
            if section.starts_with("include") && key == "path" && !is_users {
                if is_replaced(&value) {
                    return Err(unclear(path, "a path in it is not UTF-8"));
                }
                self.read(&path.parent().unwrap_or(path).join(value))?;
            }
            match subsection {
                Some(name) if section == "remote" && key == "vcs" => {
                    self.helpers.insert(name);
                }
                Some(_) => {}
                None => {
                    self.keys.insert((section, key));
                }
            }
        }
        if self.replacements().len() > MAX_NAMED {
            return Err(unclear(path, format!("there are more than {MAX_NAMED} settings")));
        }
        Ok(())
    }
}

/// Returns whether a text has the character that replaces bytes that are not UTF-8.
fn is_replaced(text: &str) -> bool {
    text.contains(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Creates a repository that configures a command wherever possible. Each command leaves a file.
    fn hostile(dir: &Path) {
        let git = |args: &[&str]| {
            let status = Command::new("git").args(args).current_dir(dir).status().unwrap();
            assert!(status.success(), "{args:?}");
        };
        git(&["init", "-q"]);
        std::fs::write(dir.join("a.txt"), "a\n").unwrap();
        std::fs::write(dir.join(".gitattributes"), "*.txt diff=d filter=f merge=m\n").unwrap();
        // Git looks into nested repositories.
        git(&["init", "-q", "nested"]);
        std::fs::write(dir.join("nested/b.txt"), "b\n").unwrap();
        std::fs::write(dir.join("nested/.gitattributes"), "*.txt filter=nested\n").unwrap();
        git(&["-C", "nested", "add", "."]);
        let commit = ["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x"];
        git(&[&["-C", "nested"][..], &commit].concat());
        let clean = format!("touch {}/ran-nested; cat", dir.display());
        git(&["-C", "nested", "config", "filter.nested.clean", &clean]);
        std::fs::write(dir.join("nested/b.txt"), "c\n").unwrap();
        git(&["add", "."]);
        git(&commit);
        std::fs::write(dir.join("a.txt"), "a\nb\n").unwrap();
        let ran = |name: &str| format!("touch {}/ran-{name}; cat", dir.display());
        let quoted = |name: &str| format!("\"{}\"", ran(name));
        // Not run by a shell.
        let program = |name: &str| {
            let path = dir.join(format!("program-{name}"));
            std::fs::write(&path, format!("#!/bin/sh\ntouch {}/ran-{name}\n", dir.display()))
                .unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&path, mode).unwrap();
            path.display().to_string()
        };
        let config = format!(
            "[core]\n fsmonitor = {}\n pager = {}\n editor = {}\n hooksPath = hooks\n sshCommand = {}\n gitProxy = {}\n\
             [diff]\n external = {}\n[diff \"d\"] textconv = {}\n command = {}\n\
             [filter \"f\"]\n clean = {}\n smudge = {}\n[alias]\n st = !{}\n\
             [credential \"https://example.com\"]\n helper = !{}\n[gpg]\n program = {}\n\
             [gc]\n recentObjectsHook = {}\n[imap]\n tunnel = {}\n host = x\n folder = y\n\
             [remote \"nested\"]\n url = ./nested\n[remote \"helped\"]\n vcs = evil\n\
             [include]\n path = more # the first\n path = mo\"re~2\"\n",
            quoted("fsmonitor"),
            quoted("pager"),
            quoted("editor"),
            quoted("ssh"),
            program("proxy"),
            quoted("external"),
            quoted("textconv"),
            quoted("command"),
            quoted("clean"),
            quoted("smudge"),
            ran("alias"),
            ran("helper"),
            quoted("gpg"),
            quoted("gc"),
            // It ends at once, so that nothing waits for its answers.
            program("imap"),
        );
        let mut text = std::fs::read_to_string(dir.join(".git/config")).unwrap();
        text.push_str(&config);
        std::fs::write(dir.join(".git/config"), text).unwrap();
        let more = format!("[filter \"g h\"]\n process = {}\n", quoted("included"));
        std::fs::write(dir.join(".git/more"), more).unwrap();
        let quoted = format!("[filter \"i\"]\n clean = {}\n", quoted("included-too"));
        std::fs::write(dir.join(".git/more~2"), quoted).unwrap();
    }

    fn replaced(dir: &Path) -> Vec<(String, &'static str)> {
        ConfiguredNames::around(dir).unwrap().replacements()
    }

    fn ran(dir: &Path) -> Vec<String> {
        let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("ran-")).collect()
    }

    const CALLS: &[&[&str]] = &[
        &["status", "--short"],
        &["diff"],
        &["--paginate", "log", "-p"],
        &["st"],
        &["stash"],
        &["stash", "pop"],
        &[
            "-c",
            "user.name=x",
            "-c",
            "user.email=x@x",
            "commit",
            "-a",
            "--allow-empty-message",
            "-S",
        ],
        &["fetch", "ssh://example.invalid/x"],
        &["fetch", "git://example.invalid/x"],
    ];

    fn call_all(dir: &Path, env: &BTreeMap<OsString, OsString>) {
        for args in CALLS {
            let mut git = Command::new("git");
            let _ = git.args(*args).current_dir(dir).env_clear().envs(env).output().unwrap();
        }
        let mut credential = Command::new("git");
        credential.args(["-c", "core.askPass=true", "credential", "reject"]).current_dir(dir);
        let mut child =
            credential.env_clear().envs(env).stdin(std::process::Stdio::piped()).spawn().unwrap();
        let input = b"protocol=https\nhost=example.com\nusername=x\npassword=y\n";
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), input).unwrap();
        child.wait().unwrap();
        // Git asks which objects are recent only for old ones.
        std::fs::write(dir.join("unreachable"), "x").unwrap();
        let mut hash = Command::new("git");
        hash.args(["hash-object", "-w", "--no-filters", "unreachable"]).current_dir(dir);
        let id = hash.env_clear().envs(env).output().unwrap().stdout;
        let id = String::from_utf8(id).unwrap();
        let object = dir.join(".git/objects").join(&id[..2]).join(id[2..].trim());
        let old = std::fs::FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH);
        let object = std::fs::File::open(object).unwrap();
        object.set_times(old).unwrap();
        let mut prune = Command::new("git");
        prune.args(["-c", "user.name=x", "prune", "--expire=1.hour.ago"]).current_dir(dir);
        let _ = prune.env_clear().envs(env).output().unwrap();
        let mut send = Command::new("git");
        send.arg("imap-send").current_dir(dir).env_clear().envs(env);
        let mut child = send.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let mail = b"From x Mon Sep 17 00:00:00 2001\nFrom: a@b.c\nDate: Mon, 17 Sep 2001 00:00:00 +0000\nSubject: x\n\nx\n";
        // It may have ended before it reads.
        let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), mail);
        child.wait().unwrap();
    }

    #[test]
    fn git_runs_no_command_of_the_project() {
        let home = tempfile::tempdir().unwrap();
        let path = std::env::var_os("PATH").unwrap();
        let plain: BTreeMap<OsString, OsString> =
            [("PATH".into(), path), ("HOME".into(), home.path().into())].into();

        let armed = tempfile::tempdir().unwrap();
        hostile(armed.path());
        call_all(armed.path(), &plain);
        let ran_armed = ran(armed.path());
        assert!(ran_armed.len() >= 7, "the test cannot fail: {ran_armed:?}");
        for name in ["nested", "gc", "imap", "proxy"] {
            let it = format!("ran-{name}");
            assert!(ran_armed.contains(&it), "{name}: {ran_armed:?}");
        }

        let dir = tempfile::tempdir().unwrap();
        hostile(dir.path());
        let mut env = plain.clone();
        env.insert("GIT_CONFIG_COUNT".into(), "1".into());
        env.insert("GIT_CONFIG_KEY_0".into(), "user.name".into());
        env.insert("GIT_CONFIG_VALUE_0".into(), "The User".into());
        disarm(dir.path(), &mut env).unwrap();
        call_all(dir.path(), &env);
        assert_eq!(ran(dir.path()), [""; 0]);
        assert!(replaced(dir.path()).iter().any(|(key, _)| key == "filter.g h.process"));

        let mut git = Command::new("git");
        git.args(["fetch", "--dry-run", "nested"]).current_dir(dir.path()).env_clear().envs(&env);
        let fetched = git.output().unwrap();
        assert!(fetched.status.success(), "a remote can be reached: {fetched:?}");
        assert!(replaced(dir.path()).contains(&("filter.i.clean".to_owned(), "")));
        assert!(replaced(dir.path()).contains(&("remote.helped.vcs".to_owned(), "none")));

        let mut git = Command::new("git");
        let own = git.args(["config", "user.name"]).current_dir(dir.path()).env_clear().envs(&env);
        assert_eq!(own.output().unwrap().stdout, b"The User\n", "the user's own stay");
        std::fs::write(dir.path().join("a.txt"), "a\nc\n").unwrap();
        let mut git = Command::new("git");
        let diff = git.arg("diff").current_dir(dir.path()).env_clear().envs(&env).output().unwrap();
        assert!(String::from_utf8_lossy(&diff.stdout).contains("\n+c\n"), "{diff:?}");
    }

    fn repository() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let git = |args: &[&str]| {
            let git = Command::new("git").args(args).current_dir(dir.path()).output().unwrap();
            assert!(git.status.success(), "{git:?}");
        };
        git(&["init", "-q"]);
        dir
    }

    fn add_to_configuration(dir: &Path, text: impl AsRef<[u8]>) {
        let config = dir.join(".git/config");
        let bytes = [std::fs::read(&config).unwrap(), text.as_ref().to_vec()].concat();
        std::fs::write(config, bytes).unwrap();
    }

    /// Returns why a program is not started in a directory.
    fn refusal(dir: &Path) -> String {
        let given = BTreeMap::from([("PATH".into(), OsString::from("/usr/bin"))]);
        disarm(dir, &mut given.clone()).unwrap_err().to_string()
    }

    #[test]
    fn configuration_that_cannot_be_read_as_git_does_is_refused() {
        let armed = "[filter \"f\"]\n clean = touch x; cat\n";
        let long = format!("[core]\n#{}\n{armed}", "x".repeat(5 << 20));
        let many: String = (0..MAX_NAMED).fold(String::new(), |names, number| {
            names + &format!("[remote \"r{number}\"]\n url = x\n")
        });
        let endless = "[include]\n path = ../.git/./config\n";
        for (text, reason) in [
            (long.as_bytes(), "too large"),
            (many.as_bytes(), "more than 2000 settings"),
            (endless.as_bytes(), "more than 1000 files"),
            (b"[filter \"\xff\"]\n clean = touch x\n", "a name in it is not UTF-8"),
            (b"[include]\n path = \xff\n", "a path in it is not UTF-8"),
            (b"[include]\n path = /proc/self/cwd/more\n", "another process may find another file"),
            (b"[include]\n path = pipe\n", "not a regular file"),
        ] {
            let dir = repository();
            let pipe = dir.path().join(".git/pipe");
            nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
            add_to_configuration(dir.path(), text);
            let refusal = refusal(dir.path());
            assert!(refusal.contains(reason), "{reason}: {refusal}");
            assert!(refusal.contains(".git/") || refusal.contains("/proc/"), "{refusal}");
            assert!(refusal.contains("convoke trust"), "{refusal}");
        }
        let dir = repository();
        add_to_configuration(dir.path(), b"[user]\n name = Jos\xe9\n[include]\n path = none\n");
        assert!(disarm(dir.path(), &mut BTreeMap::new()).is_ok(), "a value runs nothing");
        std::fs::create_dir(dir.path().join("config")).unwrap();
        std::fs::create_dir(dir.path().join("fixture")).unwrap();
        std::fs::write(dir.path().join("fixture/.git"), "").unwrap();
        assert!(disarm(dir.path(), &mut BTreeMap::new()).is_ok(), "these are no repositories");
    }

    /// Git passes over an empty `.git`, and finds a repository whose objects are elsewhere.
    #[test]
    fn every_repository_that_git_finds_is_disarmed() {
        let above = repository();
        add_to_configuration(above.path(), "[filter \"above\"]\n clean = x\n");
        let sub = above.path().join("sub");
        std::fs::create_dir_all(sub.join(".git")).unwrap();
        assert!(replaced(&sub).contains(&("filter.above.clean".to_owned(), "")));

        let dir = tempfile::tempdir().unwrap();
        for bare in [dir.path().to_owned(), dir.path().join("below")] {
            std::fs::create_dir_all(bare.join("shared/objects")).unwrap();
            std::fs::create_dir_all(bare.join("shared/refs")).unwrap();
            std::fs::write(bare.join("HEAD"), "ref: refs/heads/main\n").unwrap();
            std::fs::write(bare.join("commondir"), "shared\n").unwrap();
            let config = "[core]\n repositoryformatversion = 0\n[alias]\n st = !echo armed\n";
            std::fs::write(bare.join("shared/config"), config).unwrap();
            let run = |env: &BTreeMap<OsString, OsString>| {
                let mut git = Command::new("git");
                let output = git.arg("st").current_dir(&bare).envs(env).output().unwrap();
                String::from_utf8(output.stdout).unwrap()
            };
            assert_eq!(run(&BTreeMap::new()), "armed\n", "{}", bare.display());
            let mut env = BTreeMap::new();
            disarm(dir.path(), &mut env).unwrap();
            assert_eq!(run(&env), "", "{}", bare.display());
        }

        // A path in a `.git` file, and in an included file, counts from where the file was looked up.
        let dir = tempfile::tempdir().unwrap();
        let (root, real) = (dir.path().join("root"), dir.path().join("root/real.git"));
        std::fs::create_dir_all(root.join("links")).unwrap();
        Command::new("git").args(["init", "-q", "--bare"]).arg(&real).output().unwrap();
        std::fs::write(root.join("links/dot-git"), "gitdir: real.git\n").unwrap();
        std::os::unix::fs::symlink("links/dot-git", root.join(".git")).unwrap();
        let config = "[core]\n repositoryformatversion = 0\n[include]\n path = more\n";
        std::fs::write(root.join("links/config"), config).unwrap();
        std::fs::write(real.join("more"), "[alias]\n st = !echo armed\n").unwrap();
        std::fs::remove_file(real.join("config")).unwrap();
        std::os::unix::fs::symlink("../links/config", real.join("config")).unwrap();
        let listed = Command::new("git").args(["config", "alias.st"]).current_dir(&root).output();
        assert_eq!(listed.unwrap().stdout, b"!echo armed\n");
        assert!(replaced(&root).contains(&("alias.st".to_owned(), "")));
    }

    /// Returns whether settings that run a program are replaced under a name of `git help --config`.
    fn is_known_command(name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        let (section, rest) = name.split_once('.').unwrap();
        let in_section = |(given, _): &(&str, &str)| *given == section;
        let is_fixed = |key: &str| FIXED.iter().any(|(fixed, _)| fixed.eq_ignore_ascii_case(key));
        let is_unset = UNSET.contains(&(section, rest));
        match rest.rsplit_once('.') {
            Some((name, key)) if name.starts_with('<') => {
                let is_named = |&&(given, own, _): &&(&str, &str, &str)| {
                    given == section && (key == "*" || own.eq_ignore_ascii_case(key))
                };
                // The subsections of these are known: three formats, and one transport that runs commands.
                let is_known =
                    [("gpg", "program"), ("protocol", "allow")].contains(&(section, key));
                let is_helper = (section, key) == ("remote", "vcs");
                is_known || is_helper || NAMED.iter().any(|it| is_named(&it))
            }
            _ => {
                let is_configured = CONFIGURED.iter().any(|it| (it.0, it.1) == (section, rest));
                is_fixed(&name) || is_unset || is_configured || COMMANDS.iter().any(in_section)
            }
        }
    }

    /// Returns the settings that run nothing, as (section, key).
    fn harmless() -> BTreeSet<(&'static str, &'static str)> {
        let lines = include_str!("git/harmless.txt").lines().filter(|line| !line.starts_with('#'));
        let mut section = "";
        let mut found = BTreeSet::new();
        for word in lines.flat_map(str::split_whitespace) {
            match word.strip_suffix(':') {
                Some(name) => section = name,
                None => {
                    found.insert((section, word));
                }
            }
        }
        found
    }

    #[test]
    fn every_setting_that_git_names_is_replaced_or_known_to_run_nothing() {
        let help = Command::new("git").args(["help", "--config"]).output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        let names: Vec<&str> = help.lines().filter(|line| line.contains('.')).collect();
        assert!(names.len() > 500, "git names its settings: {help}");
        let harmless = harmless();
        let is_harmless = |name: &str| {
            let spelt = name.replace(' ', "-");
            name.match_indices('.').any(|(at, _)| {
                let (section, key) = (&spelt[..at], &spelt[at + 1..]);
                harmless.contains(&(section, key)) || harmless.contains(&(section, "*"))
            })
        };
        let unknown: Vec<&&str> =
            names.iter().filter(|name| !is_known_command(name) && !is_harmless(name)).collect();
        assert!(
            unknown.is_empty(),
            "new settings of git: replace those that run a program, and add the others to harmless.txt: {unknown:?}"
        );
        let both: Vec<&&str> =
            names.iter().filter(|name| is_known_command(name) && is_harmless(name)).collect();
        assert!(both.is_empty(), "replaced, and called harmless: {both:?}");
    }
}
