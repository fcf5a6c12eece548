//! The user's configuration of git in a private home: programs tell the model who the user is and what the state of the
//! repository is, as git reports it.
//!
//! Only settings that change what git reports are copied: none that runs a program, and none that may hold a credential.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use convoke_agent::launch::ObservedState;
use convoke_agent::process::guardian::Guardian;

use crate::host_environment::HostEnvironment;
use crate::question::{Question, TIME_LIMIT};

/// The settings that are copied, in lower case; a section with `*` is copied whole.
const COPIED: &[&str] = &[
    "user.name",
    "user.email",
    "user.useconfigonly",
    "author.name",
    "author.email",
    "committer.name",
    "committer.email",
    "core.abbrev",
    "core.attributesfile",
    "core.autocrlf",
    "core.checkstat",
    "core.eol",
    "core.excludesfile",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.quotepath",
    "core.safecrlf",
    "core.symlinks",
    "core.trustctime",
    "core.whitespace",
    "advice.*",
    "column.*",
    "status.*",
    "branch.sort",
    "diff.ignoresubmodules",
    "diff.mnemonicprefix",
    "diff.noprefix",
    "diff.renamelimit",
    "diff.renames",
    "format.pretty",
    "i18n.commitencoding",
    "i18n.logoutputencoding",
    "init.defaultbranch",
    "log.abbrevcommit",
    "log.date",
    "log.decorate",
    "log.follow",
    "log.mailmap",
    "safe.directory",
    "tag.sort",
    "versionsort.suffix",
];

/// The settings whose values are paths, each with the file in git's own directory that counts without it.
const FILES: [(&str, &str); 2] =
    [("core.excludesfile", "ignore"), ("core.attributesfile", "attributes")];

/// Copies the settings of a user's home into a private one, as git reads them in the working directory.
pub(super) fn copy_configuration(
    user: &Path,
    private_home: &Path,
    host_environment: &HostEnvironment,
    guardian: &Guardian,
) -> io::Result<()> {
    let Some(git) = host_environment.agent_program("git") else { return Ok(()) };
    let mut environment = host_environment.environment.clone();
    if user != host_environment.home {
        // These are not of that home.
        environment.retain(|name, _| name != "XDG_CONFIG_HOME" && name != "GIT_CONFIG_GLOBAL");
    }
    let directory = environment.get("XDG_CONFIG_HOME".as_ref() as &std::ffi::OsStr);
    let directory = directory.filter(|path| Path::new(path).is_absolute());
    let directory = directory.map_or_else(|| user.join(".config"), Into::into).join("git");
    environment.insert("HOME".into(), user.into());
    let list = ["config", "--global", "--includes", "--list", "--null"];
    let environment = host_environment.confined(environment, None).map_err(io::Error::other)?;
    let question = Question {
        path: &git,
        arguments: &list,
        environment,
        cwd: &host_environment.cwd,
        vendor: None,
        state: ObservedState::PrivateHome { home: private_home, users_directory: user, port: None },
        time_limit: TIME_LIMIT,
    };
    let answer = question.ask(host_environment, guardian).map_err(io::Error::other)?;
    // Without a configuration it fails.
    let listed = Some(answer).filter(|answer| answer.code == Some(0)).map(|answer| answer.output);
    let text = configuration(&listed.unwrap_or_default(), user, &directory);
    if text.is_empty() {
        return Ok(());
    }
    std::fs::write(private_home.join(".gitconfig"), text)
}

/// Returns the configuration with the settings of a list that are copied.
fn configuration(listed: &str, user: &Path, directory: &Path) -> String {
    let mut text = String::new();
    let mut given = Vec::new();
    for setting in listed.split_terminator('\0') {
        // A setting without a value is true.
        let (name, value) = setting.split_once('\n').unwrap_or((setting, "true"));
        if !is_copied(name) {
            continue;
        }
        given.push(name);
        if FILES.iter().any(|(file, _)| *file == name) {
            let path = value.strip_prefix("~/").map_or_else(|| value.into(), |it| user.join(it));
            write_setting(&mut text, name, &path.to_string_lossy());
        } else {
            write_setting(&mut text, name, value);
        }
    }
    for (name, file) in FILES {
        let path = directory.join(file);
        if !given.contains(&name) && path.is_file() {
            write_setting(&mut text, name, &path.to_string_lossy());
        }
    }
    text
}

/// Returns whether a setting, as git lists it, is copied. The name of a subsection may have dots.
fn is_copied(name: &str) -> bool {
    let Some((section, key)) = name.split_once('.').filter(|(_, key)| !key.contains('.')) else {
        return false;
    };
    COPIED.iter().any(|copied| {
        *copied == name || copied.strip_suffix(".*").is_some_and(|whole| whole == section)
    }) && !key.is_empty()
}

fn write_setting(text: &mut String, name: &str, value: &str) {
    let Some((section, key)) = name.split_once('.') else { return };
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let _ = writeln!(text, "[{section}]\n\t{key} = \"{value}\"");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_reports_is_copied_and_nothing_that_runs_or_signs_in() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join(".config/git");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("attributes"), "").unwrap();
        let listed = [
            "user.name\nKim \"K\" Lee\\",
            "core.excludesfile\n~/.gitignore",
            "status.short",
            "safe.directory\n/srv/a",
            "safe.directory\n/srv/b",
            "credential.helper\n!steal",
            "credential.https://example.com.helper\nstore",
            "http.extraheader\nAuthorization: Bearer x",
            "url.https://user:key@example.com/.insteadof\nexample:",
            "alias.x\n!rm",
            "core.fsmonitor\n/bin/run",
            "core.pager\nrun",
            "core.hookspath\n/hooks",
            "diff.external\nrun",
            "filter.lfs.clean\ngit-lfs",
            "user.signingkey\nABC",
            "log.showsignature\ntrue",
            "status.a.b\nx",
        ];
        let listed = listed.join("\0");
        let expected = format!(
            "[user]\n\tname = \"Kim \\\"K\\\" Lee\\\\\"\n[core]\n\texcludesfile = \"{home}/.gitignore\"\n\
             [status]\n\tshort = \"true\"\n[safe]\n\tdirectory = \"/srv/a\"\n[safe]\n\tdirectory = \"/srv/b\"\n\
             [core]\n\tattributesfile = \"{home}/.config/git/attributes\"\n",
            home = home.path().display()
        );
        assert_eq!(configuration(&listed, home.path(), &directory), expected);
        assert_eq!(configuration("", home.path(), Path::new("/nonexistent")), "");
    }

    #[test]
    fn an_unreadable_or_missing_git_copies_nothing() {
        let home = tempfile::tempdir().unwrap();
        let host = HostEnvironment {
            environment: [("PATH".into(), "/nonexistent".into())].into(),
            home: home.path().to_owned(),
            cwd: "/".into(),
        };
        copy_configuration(
            home.path(),
            home.path(),
            &host,
            &Guardian::from_program("/nonexistent"),
        )
        .unwrap();
        assert!(!home.path().join(".gitconfig").exists());
    }
}
