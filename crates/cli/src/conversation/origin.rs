//! The origin of a project: its git remote and commit, by which other machines find it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use convoke_inspect::HostEnvironment;
use convoke_session::shared::ProjectOrigin;

/// Returns the origin of the project in a directory; `None` without a git repository that has a remote and a commit.
pub fn of_directory(directory: &Path, host_environment: &HostEnvironment) -> Option<ProjectOrigin> {
    let git = Git::find(host_environment)?;
    let remote = remote_name(&git.run(directory, &["config", "--get", "remote.origin.url"])?)?;
    let revision = git.run(directory, &["rev-parse", "--verify", "HEAD"])?;
    let below = git.run(directory, &["rev-parse", "--show-prefix"])?;
    let below = below.trim_end_matches('/').to_owned();
    Some(ProjectOrigin { remote, revision, below })
}

/// The directories of projects on this machine.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// Directories of other machines, and those here that have the same files.
    pub mapped: Vec<(PathBuf, PathBuf)>,
    /// Repositories, which are found by their remote.
    pub repositories: Vec<PathBuf>,
}

impl Places {
    /// Finds the directory of a session: a mapped one; one with the same path; or a repository with the same remote. A
    /// repository must contain the commit that the session began with.
    pub fn find(
        &self,
        directory: &Path,
        origin: Option<&ProjectOrigin>,
        host_environment: &HostEnvironment,
    ) -> Option<PathBuf> {
        let mapped = self.mapped.iter().find_map(|(from, to)| {
            let rest = directory.strip_prefix(from).ok()?;
            Some(if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) })
        });
        if let Some(mapped) = mapped {
            return mapped.is_dir().then_some(mapped);
        }
        let Some(origin) = origin else {
            return directory.is_dir().then(|| directory.to_owned());
        };
        let git = Git::find(host_environment)?;
        let is_origin = |candidate: &Path| candidate.is_dir() && git.has_origin(candidate, origin);
        if is_origin(directory) {
            return Some(directory.to_owned());
        }
        let top = |repository: &PathBuf| {
            let top = git.run(repository, &["rev-parse", "--show-toplevel"])?;
            let place = Path::new(&top).join(&origin.below);
            is_origin(&place).then_some(place)
        };
        self.repositories.iter().find_map(top)
    }
}

struct Git(PathBuf);

impl Git {
    fn find(host_environment: &HostEnvironment) -> Option<Self> {
        host_environment.agent_program("git").map(Self)
    }

    /// Runs a command that only reads, and returns the line that it prints.
    fn run(&self, directory: &Path, arguments: &[&str]) -> Option<String> {
        let mut command = Command::new(&self.0);
        command
            .args(arguments)
            .current_dir(directory)
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE")
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        let output = command.output().ok().filter(|output| output.status.success())?;
        let text = String::from_utf8(output.stdout).ok()?;
        Some(text.trim_end_matches('\n').to_owned())
    }

    fn has_origin(&self, directory: &Path, origin: &ProjectOrigin) -> bool {
        let remote = self.run(directory, &["config", "--get", "remote.origin.url"]);
        let contains = ["merge-base", "--is-ancestor", &*origin.revision, "HEAD"];
        is_revision(&origin.revision)
            && remote.and_then(|remote| remote_name(&remote)).as_ref() == Some(&origin.remote)
            && self.run(directory, &contains).is_some()
    }
}

/// Returns whether a stored text is a commit id, and not an option of git.
fn is_revision(text: &str) -> bool {
    (40..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the host and path of a remote, without user and password, so that machines can compare it.
fn remote_name(url: &str) -> Option<String> {
    let (authority, path) = match url.split_once("://") {
        Some((_, rest)) => rest.split_once('/')?,
        // The short form `user@host:path`.
        None if !url.starts_with(['/', '.']) => url.split_once(':')?,
        None => ("", url),
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = host.split_once(':').map_or(host, |(host, _)| host).to_ascii_lowercase();
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    (!path.is_empty()).then(|| format!("{host}/{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_remote_has_one_name_however_it_is_reached() {
        for (url, name) in [
            ("https://git.example/shop/web.git", Some("git.example/shop/web")),
            ("https://ada:secret@Git.Example:8443/shop/web/", Some("git.example/shop/web")),
            ("ssh://git@git.example:2222/shop/web.git", Some("git.example/shop/web")),
            ("git@git.example:shop/web.git", Some("git.example/shop/web")),
            ("/srv/git/web.git", Some("/srv/git/web")),
            ("https://git.example/", None),
        ] {
            assert_eq!(remote_name(url).as_deref(), name, "{url}");
        }
    }

    #[test]
    fn a_revision_is_no_option() {
        assert!(is_revision(&"0a".repeat(20)));
        assert!(!is_revision("--upload-pack=x"));
        assert!(!is_revision("HEAD"));
    }

    #[test]
    fn a_directory_is_found_by_its_map_its_path_or_its_remote() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let environment = std::env::vars_os().collect();
        let host = HostEnvironment { environment, home: at("home"), cwd: at("") };
        for name in ["laptop", "server", "other"] {
            std::fs::create_dir_all(at(name).join("web")).unwrap();
            std::fs::write(at(name).join("web/a"), name).unwrap();
            let remote = if name == "other" { "git@h:x/other" } else { "https://u:p@h/x/shop.git" };
            for arguments in [
                &["init", "-q"][..],
                &["remote", "add", "origin", remote],
                &["add", "."],
                &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x"],
            ] {
                assert!(
                    Git::find(&host).unwrap().run(&at(name), arguments).is_some(),
                    "{arguments:?}"
                );
            }
        }
        let mut origin = of_directory(&at("laptop/web"), &host).unwrap();
        assert_eq!((&*origin.remote, &*origin.below), ("h/x/shop", "web"));
        let mut places =
            Places { repositories: vec![at("other"), at("server")], ..Places::default() };
        let gone = at("gone/web");
        let find = |places: &Places, directory: &Path, origin: &ProjectOrigin| {
            places.find(directory, Some(origin), &host)
        };
        assert_eq!(find(&places, &at("laptop/web"), &origin), Some(at("laptop/web")));
        // The server does not have the commit.
        assert_eq!(find(&places, &gone, &origin), None);
        origin.revision = of_directory(&at("server"), &host).unwrap().revision;
        let found = find(&places, &gone, &origin).map(|found| found.canonicalize().unwrap());
        assert_eq!(found, Some(at("server/web").canonicalize().unwrap()));
        places.mapped = vec![(at("gone"), at("other"))];
        assert_eq!(find(&places, &gone, &origin), Some(at("other/web")));
        assert_eq!(places.find(&at("nowhere"), None, &host), None);
        assert_eq!(places.find(&at("home/.."), None, &host), None);
    }
}
