//! The line and the commit that did it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use convoke_changes::{Changed, ChangesError, Commit, How, UsersRepository};
use convoke_diff::{LineChange, LineDiff};
use convoke_files::{Disk, FileKind, Files as _};

use crate::regression::{Kind, Regression};

/// The time for the comparison of one file.
const DIFF_TIME: Duration = Duration::from_millis(200);

/// What did it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cause {
    /// The file that was changed, as it is seen from the root.
    pub file: Option<String>,
    pub line: Option<u64>,
    /// `None` if no commit has the change yet.
    pub commit: Option<Commit>,
}

/// What changed in a repository since its baseline was accepted.
pub struct Changes<'r> {
    repository: &'r UsersRepository,
    /// The commit of the baseline.
    base: Option<String>,
    changed: Vec<Changed>,
}

impl<'r> Changes<'r> {
    /// Finds what changed since the last commit of the baseline's file; since the newest commit if none has it.
    pub fn since_baseline(
        repository: &'r UsersRepository,
        baseline: &Path,
    ) -> Result<Self, ChangesError> {
        let accepted = repository.last_change(baseline)?;
        let base = repository.commit(accepted.as_ref().map_or("HEAD", |commit| &commit.id))?;
        let changed = match &base {
            Some(base) => repository.changed_since(base)?,
            None => Vec::new(),
        };
        Ok(Self { repository, base, changed })
    }

    /// Finds the cause of a regression.
    pub fn cause(&self, regression: &Regression) -> Result<Cause, ChangesError> {
        let subject = Path::new(&regression.subject);
        let file = match regression.kind {
            Kind::Growth | Kind::OverBudget if self.repository.root().join(subject).is_file() => {
                Some(subject.to_owned())
            }
            Kind::NewLoss if self.is_changed(subject) => Some(subject.to_owned()),
            _ => self.culprit(regression)?,
        };
        let Some(file) = file else { return Ok(Cause::default()) };
        let word = match regression.kind {
            Kind::Growth | Kind::OverBudget => String::new(),
            _ => needle(regression),
        };
        let line = match regression.line.filter(|_| file == subject) {
            Some(line) => Some(line),
            None => self.changed_line(&file, &word)?,
        };
        let exists = self.repository.root().join(&file).is_file();
        let commit = match line.filter(|_| exists) {
            Some(line) if regression.kind != Kind::FileLost => {
                self.repository.line_written_by(&file, line)?
            }
            _ if self.is_uncommitted(&file)? => None,
            _ => self.repository.last_change(&file)?,
        };
        Ok(Cause { file: Some(file.to_string_lossy().into_owned()), line, commit })
    }

    /// Returns whether the working tree has a change that no commit has.
    fn is_uncommitted(&self, file: &Path) -> Result<bool, ChangesError> {
        let committed = self.repository.file("HEAD", file)?;
        Ok(committed != self.there(file))
    }

    /// Returns a file of the working tree; `None` if there is none that can be read.
    fn there(&self, file: &Path) -> Option<Vec<u8>> {
        Disk.read(&self.repository.root().join(file), FileKind::Instructions).ok()
    }

    fn is_changed(&self, file: &Path) -> bool {
        self.changed.iter().any(|it| it.path == file || it.earlier.as_deref() == Some(file))
    }

    /// Returns the file whose change took something away: the file itself, else one that no longer names it, else settings.
    fn culprit(&self, regression: &Regression) -> Result<Option<PathBuf>, ChangesError> {
        let subject = Path::new(&regression.subject);
        let needle = needle(regression);
        let is_it = |it: &&Changed| {
            let paths = [Some(&it.path), it.earlier.as_ref()];
            let is_skill = |path: &Path| {
                path.ends_with("SKILL.md")
                    && path.parent().and_then(Path::file_name).is_some_and(|it| *it == *needle)
            };
            paths.into_iter().flatten().any(|path| path == subject || is_skill(path))
        };
        if let Some(own) = self.changed.iter().find(is_it) {
            return Ok(Some(own.path.clone()));
        }
        for changed in self.changed.iter().filter(|it| may_decide(&it.path)) {
            let (before, after) = self.texts(changed)?;
            let names = |text: &str| text.matches(&*needle).count();
            if names(&before) != names(&after) {
                return Ok(Some(changed.path.clone()));
            }
        }
        // A name in the rule: the file that shadows it, or the settings that exclude it.
        let named = self.changed.iter().filter(|it| may_decide(&it.path));
        let mut named: Vec<&Changed> = named.collect();
        named.sort_by_key(|it| {
            let is_named = regression.why.contains(&*it.path.to_string_lossy());
            (!is_named, it.how == How::Deleted)
        });
        Ok(named.first().map(|it| it.path.clone()))
    }

    /// Returns the first changed line of a file that has a word, else its first changed line.
    fn changed_line(&self, file: &Path, word: &str) -> Result<Option<u64>, ChangesError> {
        let Some(changed) = self.changed.iter().find(|it| it.path == file) else {
            return Ok(None);
        };
        let (before, after) = self.texts(changed)?;
        let diff = LineDiff::new(&before, &after, DIFF_TIME);
        let (mut line, mut first, mut with_word) = (1, None, None);
        for (change, text) in diff.lines() {
            if change != LineChange::Same {
                first = first.or(Some(line));
                if !word.is_empty() && text.contains(word) {
                    with_word = with_word.or(Some(line));
                }
            }
            line += u64::from(change != LineChange::Removed);
        }
        let last = after.lines().count() as u64;
        Ok(with_word.or(first).filter(|_| last > 0).map(|line| line.min(last)))
    }

    fn texts(&self, changed: &Changed) -> Result<(String, String), ChangesError> {
        let earlier = changed.earlier.as_ref().unwrap_or(&changed.path);
        let before = match &self.base {
            Some(base) => self.repository.file(base, earlier)?,
            None => None,
        };
        let after = self.there(&changed.path);
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok((before.map(text).unwrap_or_default(), after.map(text).unwrap_or_default()))
    }
}

/// Returns the name by which other files refer to a file or a skill.
fn needle(regression: &Regression) -> String {
    let name = Path::new(&regression.subject).file_name();
    name.map(|it| it.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns whether a file may decide what is loaded.
fn may_decide(path: &Path) -> bool {
    let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
    let extension = path.extension().and_then(|it| it.to_str()).unwrap_or_default();
    let is_of_agents = path.components().any(|it| {
        [".claude", ".codex", ".gemini", ".agents"].iter().any(|place| it.as_os_str() == *place)
    });
    is_of_agents
        || extension.eq_ignore_ascii_case("md")
        || name.eq_ignore_ascii_case("AGENTS.override.md")
}
