//! The origin of a project: its git remote and commit, by which other machines find it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use convoke_changes::git_command;
use convoke_inspect::HostEnvironment;
use convoke_session::sharing::ProjectOrigin;

use super::home::Home;
use super::trust::TrustedDirectories;

/// Returns the origin of the project in a directory; `None` without a git repository that has a remote and a commit.
pub fn of_directory(directory: &Path, host_environment: &HostEnvironment) -> Option<ProjectOrigin> {
    let git = Git::find(host_environment)?;
    let remote = remote_name(&git.run(directory, &["config", "--get", "remote.origin.url"])?)?;
    let revision = git.run(directory, &["rev-parse", "--verify", "HEAD"])?;
    let below = git.run(directory, &["rev-parse", "--show-prefix"])?;
    let below = below.trim_end_matches('/').to_owned();
    Some(ProjectOrigin { remote, revision, below })
}

/// The directories of this machine that sessions may use. A session comes from the store and can choose no others.
#[derive(Debug, Clone, Default)]
pub struct ProjectDirectories {
    /// Directories of other machines, and those here that have the same files.
    pub mapped: Vec<(PathBuf, PathBuf)>,
    /// Repositories, which are found by their remote, and directories that are found by their path.
    pub projects: Vec<PathBuf>,
}

impl ProjectDirectories {
    /// Finds the directory of a session: a mapped one; one with the same path that the user has named or trusts; or a
    /// repository with the same remote. One that is not mapped must contain the commit that the session began with.
    pub fn find(
        &self,
        directory: &Path,
        origin: Option<&ProjectOrigin>,
        host_environment: &HostEnvironment,
    ) -> Option<PathBuf> {
        let mapped = self.mapped.iter().find_map(|(from, to)| {
            let rest = directory.strip_prefix(from).ok()?;
            Some((to, if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) }))
        });
        if let Some((root, mapped)) = mapped {
            return (mapped.is_dir() && is_within(&mapped, root)).then_some(mapped);
        }
        let is_own = directory.is_dir() && self.is_own(directory, host_environment);
        let Some(origin) = origin else {
            return is_own.then(|| directory.to_owned());
        };
        let git = Git::find(host_environment)?;
        if is_own && git.has_origin(directory, origin) {
            return Some(directory.to_owned());
        }
        let top = |repository: &PathBuf| {
            let top = PathBuf::from(git.run(repository, &["rev-parse", "--show-toplevel"])?);
            let place = top.join(&origin.below);
            let is_it = place.is_dir() && is_within(&place, &top) && git.has_origin(&place, origin);
            is_it.then_some(place)
        };
        self.projects.iter().find_map(top)
    }

    /// Returns whether the user of this machine has named a directory, or one above it, or trusts it. A directory that contains
    /// the home does not include those below it: sign-ins and keys are stored there.
    fn is_own(&self, directory: &Path, host_environment: &HostEnvironment) -> bool {
        let trusted = TrustedDirectories::load(&Home::new(host_environment)).unwrap_or_default();
        let named = self.projects.iter().chain(self.mapped.iter().map(|(_, to)| to));
        let mut roots = named.map(PathBuf::as_path).chain(trusted.iter());
        roots.any(|root| {
            let counts_below = !is_within(&host_environment.home, root);
            is_within(directory, root) && (counts_below || is_within(root, directory))
        })
    }
}

/// Returns whether the real path of a directory is another directory or below it.
fn is_within(directory: &Path, root: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(directory).zip(real(root)).is_some_and(|(directory, root)| directory.starts_with(root))
}

struct Git<'h> {
    program: PathBuf,
    host_environment: &'h HostEnvironment,
}

impl<'h> Git<'h> {
    fn find(host_environment: &'h HostEnvironment) -> Option<Self> {
        let program = host_environment.agent_program("git")?;
        Some(Self { program, host_environment })
    }

    /// Runs a command that only reads, and returns the line that it prints. The user's own configuration says which
    /// repositories of others git may open.
    fn run(&self, directory: &Path, arguments: &[&str]) -> Option<String> {
        let path = self.host_environment.search_path().to_variable();
        let is_users = |name: &OsStr| {
            let name = name.as_encoded_bytes();
            name == b"HOME" || name == b"XDG_CONFIG_HOME" || name.starts_with(b"GIT_CONFIG")
        };
        let users = self.host_environment.environment.iter().filter(|(name, _)| is_users(name));
        let output = git_command(&self.program, &path)
            .envs(users)
            .args(arguments)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        let output = output.ok().filter(|output| output.status.success())?;
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
    fn a_revision_is_not_an_option() {
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
        let mut places = ProjectDirectories {
            projects: vec![at("other"), at("server")],
            ..ProjectDirectories::default()
        };
        let gone = at("gone/web");
        let find = |places: &ProjectDirectories, directory: &Path, origin: &ProjectOrigin| {
            places.find(directory, Some(origin), &host)
        };
        // Only directories that the user named are used.
        assert_eq!(find(&places, &at("laptop/web"), &origin), None);
        places.projects.push(at("laptop"));
        assert_eq!(find(&places, &at("laptop/web"), &origin), Some(at("laptop/web")));
        places.projects.pop();
        // The server does not have the commit.
        assert_eq!(find(&places, &gone, &origin), None);
        origin.revision = of_directory(&at("server"), &host).unwrap().revision;
        let found = find(&places, &gone, &origin).map(|found| found.canonicalize().unwrap());
        assert_eq!(found, Some(at("server/web").canonicalize().unwrap()));
        places.mapped = vec![(at("gone"), at("other"))];
        assert_eq!(find(&places, &gone, &origin), Some(at("other/web")));
        assert_eq!(places.find(&at("nowhere"), None, &host), None);
        // No text of the store leads out of a directory.
        assert_eq!(find(&places, &at("gone/../server"), &origin), None);
        std::os::unix::fs::symlink(at("laptop"), at("other/link")).unwrap();
        assert_eq!(find(&places, &at("gone/link"), &origin), None);
        assert_eq!(places.find(&at("other/../laptop"), None, &host), None);
        origin.below = "../laptop".to_owned();
        assert_eq!(find(&places, &at("nowhere"), &origin), None);
    }

    /// Git would fetch a commit that a partial clone lacks, by commands that an agent may write into the configuration.
    #[test]
    fn a_commit_that_is_missing_is_not_fetched() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let environment = std::env::vars_os().collect();
        let host = HostEnvironment { environment, home: at("home"), cwd: at("") };
        let escaped = at("escaped");
        let plant = |command: &str| format!("touch '{}'; {command}", escaped.display());
        std::fs::create_dir(at("shop")).unwrap();
        for (name, url) in
            [("ssh", "ssh://git@h/x/shop"), ("file", "/x/shop"), ("ext", "ext::false /x/shop")]
        {
            let git = Git::find(&host).unwrap();
            git.run(&at("shop"), &["init", "-q"]).unwrap();
            for (key, value) in [
                ("core.repositoryFormatVersion", "1"),
                ("extensions.partialClone", "origin"),
                ("remote.origin.promisor", "true"),
                ("remote.origin.url", url),
                ("remote.origin.uploadpack", &plant("false")),
                ("core.sshCommand", &plant("false")),
                ("core.fsmonitor", &plant("true")),
                ("protocol.allow", "always"),
            ] {
                git.run(&at("shop"), &["config", key, value]).unwrap();
            }
            let commit = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q"];
            git.run(&at("shop"), &[&commit[..], &["--allow-empty", "-m", "x"]].concat()).unwrap();
            let found = of_directory(&at("shop"), &host).unwrap();
            assert!(git.has_origin(&at("shop"), &found), "{name}");
            let missing = ProjectOrigin { revision: "1".repeat(40), ..found };
            assert!(!git.has_origin(&at("shop"), &missing), "{name}");
            assert!(!escaped.exists(), "{name}: a command of the project was run");
        }
    }

    #[test]
    fn a_node_that_was_started_in_the_home_serves_nothing_below_it() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("home");
        std::fs::create_dir_all(home.join(".claude")).unwrap();
        std::fs::create_dir_all(home.join("shop/web")).unwrap();
        let host = HostEnvironment {
            environment: std::iter::empty().collect(),
            home: home.clone(),
            cwd: home.clone(),
        };
        for named in [&home, &root.path().to_owned()] {
            let places = ProjectDirectories {
                projects: vec![named.clone()],
                ..ProjectDirectories::default()
            };
            assert_eq!(places.find(named, None, &host).as_ref(), Some(named));
            assert_eq!(places.find(&home.join(".claude"), None, &host), None);
            assert_eq!(places.find(&home.join("shop"), None, &host), None);
        }
        let places = ProjectDirectories {
            projects: vec![home.join("shop")],
            ..ProjectDirectories::default()
        };
        assert_eq!(places.find(&home.join("shop/web"), None, &host), Some(home.join("shop/web")));
        assert_eq!(places.find(&home.join(".claude"), None, &host), None);
    }
}
