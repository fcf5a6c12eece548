//! Questions to programs: about their version, their sign-in and their configuration.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use convoke_agent::Cli;
use convoke_agent::launch::{
    self, Answer, AskError, ConfinedEnvironment, ObservedPlace, ObservedState, Program,
    UntrustedFile,
};
use convoke_agent::process::guardian::Guardian;
use convoke_agent::process::{Input, PrivateDir, temp_root};

use crate::host_environment::HostEnvironment;

/// The time limit, long enough for a busy machine.
pub(crate) const TIME_LIMIT: Duration = Duration::from_mins(1);

/// A question that a program answers with its output.
pub(crate) struct Question<'a> {
    pub path: &'a Path,
    pub arguments: &'a [&'a str],
    pub environment: ConfinedEnvironment,
    pub cwd: &'a Path,
    pub vendor: Option<&'static dyn Cli>,
    pub state: ObservedState<'a>,
    pub time_limit: Duration,
}

impl Question<'_> {
    /// Returns the output of the program. It gets no input.
    pub fn ask(self, host: &HostEnvironment, guardian: &Guardian) -> Result<Answer, AskError> {
        self.converse(Input::last(Vec::new()), &mut |_| Some(Input::nothing()), host, guardian)
    }

    /// Talks to the program: `next` reads a line and returns the next input; `None` if it has answered.
    pub fn converse(
        self,
        opening: Input,
        next: &mut (dyn FnMut(&str) -> Option<Input> + Send),
        host: &HostEnvironment,
        guardian: &Guardian,
    ) -> Result<Answer, AskError> {
        let temp_root = temp_root();
        let private = PrivateDir::create(&temp_root)?;
        let args = self.arguments.iter().map(Into::into).collect();
        let program = Program { path: self.path.to_owned(), args, environment: self.environment };
        // A directory that does not exist is reported when the program is started.
        let cwd = self.cwd.canonicalize().unwrap_or_else(|_| self.cwd.to_owned());
        let place = ObservedPlace {
            vendor: self.vendor,
            programs: convoke_vendors::programs(),
            cwd: &cwd,
            users_home: &host.home,
            users_variables: &host.environment,
            private_dir: private.path(),
            temp_root: &temp_root,
            state: self.state,
            private: &host.private_directories(),
            newest_abi: host.newest_landlock(),
        };
        let time_limit = self.time_limit;
        launch::ask(launch::Question { program, place, guardian, time_limit, opening, next })
    }
}

/// The reason why a program was not asked, or gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum QuestionError {
    /// A file of the project keeps it from being started.
    #[error(transparent)]
    Untrusted(#[from] UntrustedFile),
    /// There is no place for its files.
    #[error("cannot create a private directory in {}: {reason}", directory.display())]
    NoPlace {
        /// The directory of temporary files.
        directory: PathBuf,
        /// The kind of error.
        reason: io::ErrorKind,
    },
    /// It gave no answer.
    #[error(transparent)]
    Unanswered(#[from] AskError),
}

/// Runs `--version` with a private home, because some CLIs write to it even then, and without a network.
pub(crate) fn version(
    path: &Path,
    vendor: &'static dyn Cli,
    host: &HostEnvironment,
    guardian: &Guardian,
) -> Result<Answer, QuestionError> {
    let directory = temp_root();
    let home = PrivateDir::create(&directory)
        .map_err(|error| QuestionError::NoPlace { directory, reason: error.kind() })?;
    let search_path = host.variable("PATH").unwrap_or_default();
    let environment = [("PATH", search_path), ("HOME", home.path().as_os_str())];
    let environment = environment.map(|(name, value)| (name.into(), value.to_owned()));
    let environment = host.confined(environment.into(), None)?;
    let users_directory = &host.user_home(vendor).directory;
    let question = Question {
        path,
        arguments: &["--version"],
        environment,
        cwd: home.path(),
        vendor: Some(vendor),
        state: ObservedState::PrivateHome { home: home.path(), users_directory, port: None },
        time_limit: TIME_LIMIT,
    };
    Ok(question.ask(host, guardian)?)
}
