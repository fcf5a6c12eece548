//! The paths that the user's configuration adds to the sandbox of an agent.

use std::io;
use std::path::{Path, PathBuf};

use super::SandboxAdditions;
use super::carve::{RealPaths, link_beneath};

/// A path of the user's configuration, as it was when the configuration was read. A turn may put a link in its place later;
/// that is not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AddedPath {
    /// The path as it is written.
    given: PathBuf,
    /// The same without links.
    real: PathBuf,
}

/// The added paths of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct AddedPaths {
    /// Those that can be read although they are secrets.
    readable: Vec<AddedPath>,
    /// Those that can be changed.
    writable: Vec<AddedPath>,
}

impl AddedPaths {
    /// Looks the paths up, with `~` at their start in a home.
    pub fn find(additions: &SandboxAdditions, home: Option<&Path>) -> Self {
        let mut real = RealPaths::default();
        let mut find = |paths: &[PathBuf]| -> Vec<AddedPath> {
            let in_home = |path: &PathBuf| match (path.strip_prefix("~"), home) {
                (Ok(rest), Some(home)) => home.join(rest),
                _ => path.clone(),
            };
            let given = paths.iter().map(in_home);
            given.map(|given| AddedPath { real: real.resolve(&given), given }).collect()
        };
        Self { readable: find(&additions.readable), writable: find(&additions.writable) }
    }

    /// Adds readable paths of Convoke, in which no agent makes links.
    pub fn show(&mut self, paths: &[PathBuf]) {
        let additions =
            SandboxAdditions { readable: paths.to_owned(), ..SandboxAdditions::default() };
        self.readable.extend(Self::find(&additions, None).readable);
    }

    /// Returns the readable paths as they are written.
    pub fn given_readable(&self) -> impl Iterator<Item = &Path> {
        self.readable.iter().map(|path| path.given.as_path())
    }

    /// Returns the readable paths without links.
    pub fn readable(&self) -> impl Iterator<Item = &Path> {
        self.readable.iter().map(|path| path.real.as_path())
    }

    /// Returns the writable paths without links.
    pub fn writable(&self) -> impl Iterator<Item = &Path> {
        self.writable.iter().map(|path| path.real.as_path())
    }

    /// Fails if a path leads through a link that an agent could have made, or to a secret that it does not name. `places`
    /// are the directories in which agents work; `secrets` are hidden paths as they are named, and without links.
    pub fn check(&self, places: &[PathBuf], secrets: &[(&Path, &Path)]) -> io::Result<()> {
        for AddedPath { given, real } in self.readable.iter().chain(&self.writable) {
            let refused =
                |why: &str| Err(io::Error::other(format!("the path `{}` {why}", given.display())));
            let of_agent = places.iter().find_map(|place| link_beneath(given, place));
            // What was found without links leads through none, unless one was made since.
            if let Some(link) = of_agent.or_else(|| link_beneath(real, Path::new("/"))) {
                let link = link.display();
                return refused(&format!(
                    "leads through the link `{link}`, which an agent can change"
                ));
            }
            let mut around = secrets.iter().filter(|(_, secret)| real.starts_with(secret));
            if around.any(|(named, secret)| !given.starts_with(named) && !given.starts_with(secret))
            {
                return refused("leads to one of your secrets");
            }
        }
        Ok(())
    }
}
