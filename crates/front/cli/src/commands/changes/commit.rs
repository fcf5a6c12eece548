//! `convoke changes commit`: a git commit of what a turn changed, by the person.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use clap::Args;
use convoke_changes::{ChangesError, TreePath, git_command, shown};
use convoke_inspect::HostEnvironment;
use convoke_protocol::id::TurnId;
use serde_json::json;

use super::{paths_json, reported};
use crate::commands::sessions::parse_turn;
use crate::conversation::change_recorder::changes_of;
use crate::conversation::sessions::{find_to_change, open_store};
use crate::host_environment;
use crate::outcome::{AfterWork as _, Outcome, UsageError};
use crate::terminal::{stdout, write_json};

/// The variables of the person that git reads, beside those that begin with `GIT_AUTHOR_` and `GIT_COMMITTER_`.
const VARIABLES: [&str; 7] =
    ["HOME", "XDG_CONFIG_HOME", "GNUPGHOME", "GPG_TTY", "SSH_AUTH_SOCK", "EMAIL", "USER"];

#[derive(Debug, Args)]
pub struct Commit {
    /// The session: its id, the beginning of it, or `last`
    #[arg(value_name = "ID", default_value = "last")]
    id: String,
    /// The turn; by default the latest turn that is not undone
    #[arg(long, value_name = "N", value_parser = parse_turn)]
    turn: Option<TurnId>,
    /// The message of the commit
    #[arg(long, short, value_name = "TEXT")]
    message: Option<String>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

impl Commit {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<Outcome> {
        reported(self.json, self.commit())
    }

    fn commit(&self) -> anyhow::Result<Outcome> {
        let host_environment = host_environment::of_process()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let session = runtime.block_on(async {
            find_to_change(&open_store(&host_environment).await?, &self.id).await
        })?;
        let changes = changes_of(&host_environment);
        let planned = changes.plan_undo(&session.to_string(), self.turn.map(|turn| turn.0));
        // What could be undone is what is there as the turn left it.
        let plan = match planned {
            Err(ChangesError::NothingToUndo(why)) => return Err(UsageError(why).into()),
            planned => planned?,
        };
        if let Some(first) = plan.conflicts.first() {
            let why = format!(
                "nothing was committed: {} is not as turn {} left it ({}); commit it with git",
                first.path, plan.turn.turn, first.reason
            );
            return Err(UsageError(why).into());
        }
        let mut paths: Vec<TreePath> = shown(&plan.changes).map(|it| it.path.clone()).collect();
        paths.retain(TreePath::is_safe);
        if paths.is_empty() {
            let why = format!("turn {} left nothing to commit", plan.turn.turn);
            return Err(UsageError(why).into());
        }
        let default = || format!("Changes of turn {} ({})", plan.turn.turn, plan.turn.member);
        let message = self.message.clone().unwrap_or_else(default);
        let git = PersonGit::find(&host_environment, &plan.directory)?;
        git.run(&["add", "--all"], &paths)?;
        git.run(&["commit", "--quiet", "--only", "--message", &message], &paths)?;
        let commit = git.output(&["rev-parse", "--short", "HEAD"])?;
        let done = format!("turn {} is committed as {commit}", plan.turn.turn);
        if self.json {
            let turn = plan.turn.turn;
            let files = paths_json(&paths);
            let report = json!({"version": 1, "turn": turn, "commit": commit, "files": files});
            write_json(&report).after(done)?;
        } else {
            writeln!(stdout(), "{done}: {message}").after(done)?;
        }
        Ok(Outcome::Done)
    }
}

/// The git of a person in a directory, with the person's own configuration. Hooks do not run: an agent may have written them.
struct PersonGit<'h> {
    program: PathBuf,
    directory: &'h Path,
    host_environment: &'h HostEnvironment,
}

impl<'h> PersonGit<'h> {
    fn find(host_environment: &'h HostEnvironment, directory: &'h Path) -> anyhow::Result<Self> {
        let program = host_environment.agent_program("git");
        let program = program.ok_or_else(|| UsageError("git is not on the PATH".to_owned()))?;
        let git = Self { program, directory, host_environment };
        if git.output(&["rev-parse", "--is-inside-work-tree"]).is_err() {
            let why = format!("{} is in no git repository", directory.display());
            return Err(UsageError(why).into());
        }
        Ok(git)
    }

    fn run(&self, arguments: &[&str], paths: &[TreePath]) -> anyhow::Result<String> {
        let path = self.host_environment.search_path().to_variable();
        let is_persons = |name: &OsStr| {
            let name = name.as_encoded_bytes();
            let begins = |with: &str| name.starts_with(with.as_bytes());
            VARIABLES.iter().any(|it| it.as_bytes() == name)
                || ["GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_CONFIG"].iter().any(|it| begins(it))
        };
        let persons = self.host_environment.environment.iter();
        let persons = persons.filter(|(name, _)| is_persons(name));
        let mut command = git_command(&self.program, &path);
        command.envs(persons).args(["--literal-pathspecs"]).args(arguments);
        if !paths.is_empty() {
            command.arg("--").args(paths.iter().map(|it| OsStr::from_bytes(it.as_bytes())));
        }
        let output = command.current_dir(self.directory).stdin(Stdio::null()).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            anyhow::bail!("git {} failed: {}", arguments[0], said.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn output(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.run(arguments, &[])
    }
}
