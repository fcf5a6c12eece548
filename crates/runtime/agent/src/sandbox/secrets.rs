//! The paths that no agent can read: the user's secrets, and the state of other agents.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::Reach;
use super::carve::RealPaths;
use crate::cli::{Cli, Programs};

/// Keys and tokens of the user, in the home directory.
const USER_SECRETS: &[&str] = &[
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".password-store",
    ".oci",
    ".docker/config.json",
    ".git-credentials",
    ".netrc",
    ".pgpass",
    ".pypirc",
    ".vault-token",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/glab-cli",
    ".config/op",
    ".config/sops",
    ".gem/credentials",
    ".terraform.d/credentials.tfrc.json",
    ".npmrc",
    ".yarnrc.yml",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".my.cnf",
    ".mylogin.cnf",
    ".s3cfg",
    ".boto",
    ".fly",
    ".subversion/auth",
    ".authinfo",
    ".authinfo.gpg",
    ".bitcoin",
    ".composer/auth.json",
    ".config/netlify",
    ".config/pip/pip.conf",
    ".electrum",
    ".netlify",
    ".pip/pip.conf",
    ".cloudflared",
    ".databrickscfg",
    ".dockercfg",
    ".snowflake",
    ".terraformrc",
    ".config/.wrangler",
    ".config/age",
    ".config/composer/auth.json",
    ".config/containers/auth.json",
    ".config/doctl",
    ".config/heroku",
    ".config/hub",
    ".config/pypoetry/auth.toml",
    ".config/rclone",
    ".config/stripe",
    ".local/share/com.vercel.cli",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    // Typed commands can contain passwords and tokens.
    ".bash_history",
    ".zsh_history",
    ".local/share/fish/fish_history",
    ".psql_history",
    ".mysql_history",
    ".node_repl_history",
    ".python_history",
    ".rediscli_history",
    ".sqlite_history",
    // Cookies, mail and saved passwords.
    ".mozilla",
    ".thunderbird",
    ".config/chromium",
    ".config/google-chrome",
    ".config/microsoft-edge",
    ".config/vivaldi",
    ".config/BraveSoftware",
    ".config/Bitwarden",
    ".config/Bitwarden CLI",
    "snap/firefox",
    "snap/chromium",
    ".var/app",
];

/// Variables that name files and directories of secrets; those of CLIs are in their facts.
const SECRET_PATH_VARIABLES: &[&str] = &[
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "CLOUDSDK_CONFIG",
    "COPILOT_HOME",
    "DOCKER_CONFIG",
    "GNUPGHOME",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "KUBECONFIG",
    "NETRC",
    "NPM_CONFIG_USERCONFIG",
    "PGPASSFILE",
];

/// The directories of caches and logs.
const IN_CACHES: [&str; 2] = [".cache/", ".local/state/"];

/// Directories of agents that Convoke does not start by name; those of presets are in their table.
const AGENT_DIRECTORIES: &[&str] = &[
    ".aider.conf.yml",
    ".cline",
    ".codeium",
    ".config/amp",
    ".config/crush",
    ".config/github-copilot",
    ".config/goose",
    ".config/zed",
    ".continue",
    ".cursor",
    ".factory",
    ".grok",
    ".kimi",
    ".local/share/goose",
];

/// Files with secrets that are given to containers.
const MACHINE_SECRETS: &[&str] = &["/run/secrets"];

/// The paths that no agent may read, even when Convoke reads on its behalf.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Secrets(Vec<PathBuf>);

impl Secrets {
    /// Returns the secrets of a user; `private` are Convoke's own directories.
    pub fn of_user<'v>(
        home: Option<&Path>,
        cwd: &Path,
        variable: impl Fn(&str) -> Option<&'v OsStr>,
        private: &[PathBuf],
        programs: Programs,
    ) -> Self {
        let homes = users_homes(home);
        let mut paths: Vec<PathBuf> =
            homes.iter().flat_map(|home| secret_paths(home, None, programs)).collect();
        let started_in = Path::new("");
        paths.extend(secret_paths_from_env(variable, started_in, None, programs, (&homes, cwd)));
        paths.extend(private.iter().cloned());
        Self(paths)
    }

    /// Returns whether a path without links is secret for a member of a project. The innermost listed directory
    /// around it decides.
    pub fn contain(&self, path: &Path, project: &Path) -> bool {
        let mut real = RealPaths::default();
        let hidden: Vec<PathBuf> = self.0.iter().map(|secret| real.resolve(secret)).collect();
        !Reach { hidden, shown: vec![real.resolve(project)], ..Reach::default() }.shows(path)
    }

    /// Returns the secret paths in a directory, relative to it. The directory's path contains no links.
    pub fn below(&self, directory: &Path) -> Vec<PathBuf> {
        let mut real = RealPaths::default();
        let below =
            |secret: &PathBuf| Some(real.resolve(secret).strip_prefix(directory).ok()?.to_owned());
        self.0.iter().filter_map(below).filter(|it| !it.as_os_str().is_empty()).collect()
    }
}

/// Returns the homes of the user whose secrets are hidden: the one that Convoke was given, those of its own environment and of
/// the user database. An agent's `HOME` is not among them.
pub(crate) fn users_homes(given: Option<&Path>) -> BTreeSet<PathBuf> {
    let variable = std::env::var_os("HOME").map(PathBuf::from);
    let listed = nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten();
    let homes = [given.map(Path::to_owned), variable, listed.map(|user| user.dir)];
    // A relative home is in the directory in which Convoke was started.
    let absolute = homes.into_iter().flatten().filter_map(|home| std::path::absolute(home).ok());
    absolute.collect()
}

/// Returns the paths of secrets that an environment names, relative ones in `base`, which is empty for the directory in
/// which Convoke was started; `own` is the CLI that the agent runs. The working directory, what is in it, its parents,
/// the user's homes and their parents are never secret.
pub(crate) fn secret_paths_from_env<'v>(
    variable: impl Fn(&str) -> Option<&'v OsStr>,
    base: &Path,
    own: Option<&'static dyn Cli>,
    programs: Programs,
    (users_homes, cwd): (&BTreeSet<PathBuf>, &Path),
) -> Vec<PathBuf> {
    let of_vendors = others(programs, own).filter_map(|vendor| vendor.facts().directory_variable);
    let names = SECRET_PATH_VARIABLES.iter().copied().chain(of_vendors);
    let paths = names.filter_map(variable).flat_map(std::env::split_paths);
    let paths = paths.filter(|path| !path.as_os_str().is_empty());
    let paths = paths.filter_map(|path| std::path::absolute(base.join(path)).ok());
    let mut real = RealPaths::default();
    let cwd = real.resolve(cwd);
    let users_homes: Vec<PathBuf> = users_homes.iter().map(|home| real.resolve(home)).collect();
    let is_secret = |path: &PathBuf| {
        let path = real.resolve(path);
        let is_above = |place: &PathBuf| place.starts_with(&path);
        !path.starts_with(&cwd) && !is_above(&cwd) && !users_homes.iter().any(is_above)
    };
    paths.filter(is_secret).collect()
}

/// Returns the paths that an agent cannot read; `own` is the CLI that it runs. Paths of its own preset are
/// included.
pub(super) fn secret_paths(
    home: &Path,
    own: Option<&'static dyn Cli>,
    programs: Programs,
) -> Vec<PathBuf> {
    let of_presets =
        programs.presets.iter().flat_map(|preset| preset.directory.iter().chain(preset.state));
    // A new file in a directory with a hidden entry could not be read, and programs create caches.
    let of_presets =
        of_presets.filter(|name| !IN_CACHES.iter().any(|cache| name.starts_with(cache)));
    let in_home = USER_SECRETS.iter().chain(AGENT_DIRECTORIES).chain(of_presets);
    let of_vendors = others(programs, own).flat_map(|vendor| {
        let facts = vendor.facts();
        facts.beside.iter().map(|(name, _)| *name).chain([facts.directory])
    });
    let in_home = in_home.copied().chain(of_vendors).map(|name| home.join(name));
    in_home.chain(MACHINE_SECRETS.iter().map(PathBuf::from)).collect()
}

/// Returns the CLIs beside the agent's own.
fn others(
    programs: Programs,
    own: Option<&'static dyn Cli>,
) -> impl Iterator<Item = &'static dyn Cli> {
    programs.clis.iter().copied().filter(move |cli| Some(*cli) != own)
}
