//! The sessions on a machine, and their names.

use std::path::{Path, PathBuf};

use convoke_source::{FoundSession, Home, Kept, SessionReader, SessionSource, SourceError};

/// The sessions of all programs in one home.
pub struct Catalog<'c> {
    pub sources: Vec<&'static dyn SessionSource>,
    pub home: Home<'c>,
    /// Directories whose sessions are left out.
    pub excluded: Vec<PathBuf>,
}

/// The sessions that were found.
#[derive(Debug, Default)]
pub struct Found {
    /// The one that changed last first.
    pub sessions: Vec<FoundSession>,
    /// What could not be read.
    pub problems: Vec<SourceError>,
}

/// A session was not found by its name.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("no program is called `{0}`; its sessions can be read of: {1}")]
    UnknownProgram(String, String),
    #[error("no session of {program} has an id that begins with `{id}`")]
    NotFound { program: &'static str, id: String },
    #[error("`{program}:{id}` is the beginning of {count} ids: {examples}; write more of it")]
    Ambiguous { program: &'static str, id: String, count: usize, examples: String },
    #[error("{} is not a session of a program that is known here: {}", path.display(), programs)]
    UnknownFile { path: PathBuf, programs: String },
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl Catalog<'_> {
    /// Finds all sessions.
    pub fn list(&self) -> Found {
        let mut found = Found::default();
        for source in &self.sources {
            self.list_of(*source, &mut found);
        }
        found.sessions.sort_by(|one, other| {
            other.changed_at.0.cmp(&one.changed_at.0).then_with(|| one.id.cmp(&other.id))
        });
        found
    }

    fn list_of(&self, source: &dyn SessionSource, found: &mut Found) {
        source.list(&self.home, &mut |session| match session {
            Ok(session) if self.is_excluded(&session) => {}
            Ok(session) => found.sessions.push(session),
            Err(problem) => found.problems.push(problem),
        });
    }

    fn is_excluded(&self, session: &FoundSession) -> bool {
        let cwd = session.cwd.as_deref().map(Path::new);
        cwd.is_some_and(|cwd| self.excluded.iter().any(|directory| cwd.starts_with(directory)))
    }

    /// Returns whether a name is of another program's session: `program:id`, or a path.
    pub fn is_named(&self, name: &str) -> bool {
        let program = name.split_once(':').map(|(program, _)| program);
        let is_known = |program| self.sources.iter().any(|source| source.program() == program);
        program.is_some_and(is_known) || is_path(name)
    }

    /// Finds a session by `program:id`, where a unique beginning of the id is enough, or by its path.
    pub fn find(&self, name: &str) -> Result<FoundSession, FindError> {
        match name.split_once(':') {
            Some((program, id)) if !is_path(name) => self.find_by_id(program, id),
            _ => self.find_by_path(Path::new(name)),
        }
    }

    fn find_by_id(&self, program: &str, id: &str) -> Result<FoundSession, FindError> {
        let source = self.sources.iter().find(|source| source.program() == program);
        let unknown = || FindError::UnknownProgram(program.to_owned(), self.programs());
        let source = *source.ok_or_else(unknown)?;
        let program = source.program();
        let mut found = Found::default();
        self.list_of(source, &mut found);
        found.sessions.retain(|session| session.id.starts_with(id));
        if let Some(whole) = found.sessions.iter().position(|session| session.id == id) {
            return Ok(found.sessions.swap_remove(whole));
        }
        if found.sessions.len() > 1 {
            let examples = found.sessions.iter().take(3).map(|it| &*it.id).collect::<Vec<_>>();
            let (count, examples) = (found.sessions.len(), examples.join(", "));
            return Err(FindError::Ambiguous { program, id: id.to_owned(), count, examples });
        }
        let only = found.sessions.pop();
        only.ok_or_else(|| FindError::NotFound { program, id: id.to_owned() })
    }

    fn find_by_path(&self, path: &Path) -> Result<FoundSession, FindError> {
        for source in &self.sources {
            if let Some(session) = source.at(path)? {
                return Ok(session);
            }
        }
        Err(FindError::UnknownFile { path: path.to_owned(), programs: self.programs() })
    }

    /// Opens a session.
    pub fn open(
        &self,
        session: &FoundSession,
        kept: Kept,
    ) -> Result<Box<dyn SessionReader>, SourceError> {
        let source = self.sources.iter().find(|source| source.program() == session.program);
        source.ok_or_else(|| unknown(session))?.open(session, kept)
    }

    /// Returns the provider of the models of a session's program, if it has but one.
    pub fn provider(&self, session: &FoundSession) -> Option<&'static str> {
        let source = self.sources.iter().find(|source| source.program() == session.program);
        source.and_then(|source| source.provider())
    }

    fn programs(&self) -> String {
        self.sources.iter().map(|source| source.program()).collect::<Vec<_>>().join(", ")
    }
}

fn is_path(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|it| it.to_str());
    name.contains('/') || matches!(extension, Some("jsonl" | "json"))
}

fn unknown(session: &FoundSession) -> SourceError {
    let problem = "no reader knows this program".to_owned();
    SourceError::Format { program: session.program, path: session.path.clone(), problem }
}
