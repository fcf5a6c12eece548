//! Records: what a turn or a person changed, one file each, below the directory of their session.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use convoke_files::limit::FileKind;
use convoke_files::{Disk, Files as _};
use serde::{Deserialize, Serialize};

use crate::change::{Change, Content, Node, shown};
use crate::error::ChangesError;
use crate::part::PartOf;
use crate::repository::RepositoryChange;
use crate::tree_path::TreePath;
use crate::turn::milliseconds;
use convoke_files::failpoint::Failpoint;

/// The characters of the last group of a session's id that name it.
const SHORT_ID: usize = 8;

/// The number of a record in its session, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RecordId(pub u64);

/// An attempt at a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnKey {
    pub session: String,
    pub turn: u64,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The member whose turn it is.
    pub member: String,
}

/// The author of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Author {
    /// An agent, in its turn.
    Agent,
    /// A person, between two turns or by an undo.
    Person,
}

/// The changes of a turn or of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The number in the session.
    pub id: RecordId,
    /// The turn that made the changes. For a person: the turn before which they were found.
    pub turn: TurnKey,
    /// The author.
    pub by: Author,
    pub directory: PathBuf,
    /// The time in milliseconds since 1970.
    pub at: i64,
    /// The time at which the turn began. 0 if it is not known, and for a person.
    #[serde(default)]
    pub(crate) began: i64,
    /// The changes, sorted by path.
    pub changes: Vec<Change>,
    /// The record that this one took back.
    pub undoes: Option<RecordId>,
    /// The record of which this one took a part back, or made it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<PartOf>,
    /// Whether the turn was interrupted by a crash, so that later changes may be included.
    pub interrupted: bool,
    /// The paths of an interrupted turn that may have changed after its end: a person may have changed them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncertain: Vec<TreePath>,
    /// Files whose content before the turn is that of an object of the user's repository, or of a file that they were moved to,
    /// by their size and time alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unverified: Vec<TreePath>,
    /// Turns that ran in the directory at the same time.
    pub shared_with: Vec<TurnKey>,
    /// Directories that could not be read, and indexes of repositories: what lies in them, or is tracked by them, is not
    /// recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
    /// Paths that the turn created and ignored itself, and that are too large to be recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<TreePath>,
    /// New files that the turn moved from where nothing is recorded. An undo keeps them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved_in: Vec<TreePath>,
    /// The merge that made the changes, or that this record took back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Applied>,
    /// The changes of the turn to the repository around the directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<RepositoryChange>,
    /// The directories whose own repository the turn removed or moved: nested ones, and submodules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_repositories: Vec<TreePath>,
    /// The reason why the changes of the turn were not recorded. The record then lists none, although the agent may have made some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_recorded: Option<String>,
    /// The reason why the first copy of the directory stopped before its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_failed: Option<String>,
}

/// A merge of a member's workspace into its project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    pub member: String,
    /// The workspace, by the time at which it was created.
    pub(crate) workspace: i64,
    /// The merged state of the workspace, by the time of the merge.
    pub(crate) state: i64,
}

impl TurnKey {
    /// Names the turn for a reader of a session: `turn 1 of max`, with the short id of its session if that is another.
    pub fn name_in(&self, session: &str) -> String {
        let Self { turn, member, .. } = self;
        if self.session == session {
            return format!("turn {turn} of {member}");
        }
        let group = self.session.rsplit('-').next().unwrap_or(&self.session);
        let id = group.get(..SHORT_ID).unwrap_or(group);
        format!("turn {turn} of {member} in session {id}")
    }
}

impl Record {
    /// Creates a record of changes. It gets its number when it is stored.
    pub(crate) fn new(turn: TurnKey, by: Author, directory: PathBuf, changes: Vec<Change>) -> Self {
        Self {
            id: RecordId(0),
            turn,
            by,
            directory,
            at: milliseconds(),
            began: 0,
            changes,
            undoes: None,
            part_of: None,
            interrupted: false,
            uncertain: Vec::new(),
            unverified: Vec::new(),
            shared_with: Vec::new(),
            unread: Vec::new(),
            hidden: Vec::new(),
            moved_in: Vec::new(),
            applied: None,
            repository: None,
            lost_repositories: Vec::new(),
            not_recorded: None,
            copy_failed: None,
        }
    }

    /// Returns the changes that are shown: files, links, and directories that are empty or whose mode
    /// changed.
    pub fn shown(&self) -> impl Iterator<Item = &Change> {
        shown(&self.changes)
    }

    /// Returns whether an agent made these changes in its turn: they are no undo and no merge.
    pub(crate) fn is_of_agent(&self) -> bool {
        self.by == Author::Agent && self.undoes.is_none() && self.applied.is_none()
    }

    /// Returns the paths of changes that match.
    pub(crate) fn paths(&self, matches: impl Fn(&Node) -> bool) -> Vec<String> {
        let is_match = |change: &&Change| {
            let nodes = [change.before.as_ref(), change.after.as_ref()];
            nodes.into_iter().flatten().any(&matches)
        };
        self.changes.iter().filter(is_match).map(|change| change.path.to_string()).collect()
    }

    /// Returns the files whose state before the turn is not known.
    pub fn incomplete(&self) -> Vec<String> {
        self.paths(|node| node.content() == Some(Content::Pending))
    }

    /// Returns the files of which only the hash is recorded.
    pub fn large(&self) -> Vec<String> {
        self.paths(|node| matches!(node.content(), Some(Content::HashOnly(_))))
    }

    /// Returns the files and directories that could not be read.
    pub fn unreadable(&self) -> Vec<String> {
        let mut paths = self.paths(|node| node.content() == Some(Content::Unreadable));
        paths.extend_from_slice(&self.unread);
        paths
    }
}

/// Whether a record changes files, takes changes back, or makes them again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// It changes files for the first time.
    Change,
    /// It takes changes back.
    Undo,
    /// It takes an undo back, and so makes the changes again.
    Redo,
}

/// Returns the direction of a record among the records of its session: an undo of an undo is a redo, and an undo of that
/// is an undo again.
pub fn direction(records: &[Record], record: &Record) -> Direction {
    let mut direction = Direction::Change;
    let mut at = record.undoes;
    for _ in records {
        let Some(id) = at else { break };
        direction = match direction {
            Direction::Undo => Direction::Redo,
            Direction::Change | Direction::Redo => Direction::Undo,
        };
        at = records.iter().find(|other| other.id == id).and_then(|other| other.undoes);
    }
    direction
}

/// The records of one session.
#[derive(Debug, Clone)]
pub(crate) struct SessionRecords {
    pub(crate) directory: PathBuf,
    pub(crate) failpoint: Failpoint,
}

impl SessionRecords {
    /// Names the records of a session. A session's id is a file name.
    pub(crate) fn new(changes: &Path, session: &str, failpoint: Failpoint) -> Self {
        let name: String = session
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' })
            .collect();
        Self { directory: changes.join("sessions").join(name), failpoint }
    }

    /// Reads all records, the oldest first.
    pub(crate) fn load(&self) -> Result<Vec<Record>, ChangesError> {
        let mut records = Vec::new();
        for id in self.ids()? {
            let path = self.path(id);
            let text = Disk.read(&path, FileKind::Record).map_err(ChangesError::io(&path))?;
            // A record without changes may have been emptied by a power failure.
            if text.is_empty() {
                continue;
            }
            let record: Record = serde_json::from_slice(&text)
                .map_err(|error| ChangesError::damaged(&path, error))?;
            records.push(record);
        }
        Ok(records)
    }

    /// Returns whether there is a record of a directory.
    pub(crate) fn has_any(&self, directory: &Path) -> Result<bool, ChangesError> {
        Ok(self.directories()?.iter().any(|known| known == directory))
    }

    /// Returns the directories that the session has worked in.
    pub(crate) fn directories(&self) -> Result<Vec<PathBuf>, ChangesError> {
        use std::os::unix::ffi::OsStrExt as _;
        let marker = self.directory.join("directories");
        let text = read_if_there(&marker)?;
        let names = text.split(|&byte| byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| PathBuf::from(std::ffi::OsStr::from_bytes(name))).collect())
    }

    /// Returns the name of the session's directory.
    pub(crate) fn name(&self) -> std::borrow::Cow<'_, str> {
        self.directory.file_name().unwrap_or_default().to_string_lossy()
    }

    /// Removes all records.
    pub(crate) fn remove(&self) -> Result<(), ChangesError> {
        match fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(ChangesError::io(&self.directory)(error))
            }
            _ => Ok(()),
        }
    }

    fn remember(&self, directory: &Path) -> Result<(), ChangesError> {
        if self.has_any(directory)? {
            return Ok(());
        }
        let marker = self.directory.join("directories");
        let mut text = read_if_there(&marker)?;
        text.extend_from_slice(directory.as_os_str().as_encoded_bytes());
        text.push(0);
        write_whole(&marker, &text, &self.failpoint)
    }

    fn ids(&self) -> Result<Vec<RecordId>, ChangesError> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(ChangesError::io(&self.directory)(error)),
        };
        let mut ids = Vec::new();
        for entry in entries {
            let name = entry.map_err(ChangesError::io(&self.directory))?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(".json")?.parse().ok());
            ids.extend(number.map(RecordId));
        }
        ids.sort_unstable();
        Ok(ids)
    }

    fn path(&self, id: RecordId) -> PathBuf {
        self.directory.join(format!("{:08}.json", id.0))
    }

    /// Notes that a turn was recorded in a directory, also when it changed nothing.
    pub(crate) fn visit(&self, directory: &Path) -> Result<(), ChangesError> {
        private_directory(&self.directory)?;
        self.remember(directory)
    }

    /// Stores a record under the next number, which is set in it.
    pub(crate) fn add(&self, record: &mut Record) -> Result<(), ChangesError> {
        private_directory(&self.directory)?;
        // Nothing is known of a directory that could not be recorded.
        if record.not_recorded.is_none() {
            self.remember(&record.directory)?;
        }
        loop {
            let last = self.ids()?.pop().map_or(0, |id| id.0);
            record.id = RecordId(last + 1);
            if self.add_as(record)? {
                return Ok(());
            }
        }
    }

    /// Returns the next number.
    pub(crate) fn next(&self) -> Result<RecordId, ChangesError> {
        Ok(RecordId(self.ids()?.pop().map_or(0, |id| id.0) + 1))
    }

    /// Stores a record under its number. Returns `false` if the number is taken.
    pub(crate) fn add_as(&self, record: &Record) -> Result<bool, ChangesError> {
        private_directory(&self.directory)?;
        let path = self.path(record.id);
        let text =
            serde_json::to_vec(record).map_err(|error| ChangesError::damaged(&path, error))?;
        let added = if record.changes.is_empty() {
            // A record without changes may be lost, so it is not synced to the disk. One that a crash left empty is skipped.
            fs::File::create_new(&path).and_then(|mut file| {
                self.failpoint.reach();
                file.write_all(&text)
            })
        } else {
            let draft = draft_of(&path);
            write_draft(&draft, &text)?;
            self.failpoint.reach();
            let linked = fs::hard_link(&draft, &path);
            let _ = fs::remove_file(&draft);
            linked
        };
        self.failpoint.reach();
        match added {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(ChangesError::io(&path)(error)),
        }
    }
}

/// Reads a file of the store. One that is not there is empty.
pub(crate) fn read_if_there(path: &Path) -> Result<Vec<u8>, ChangesError> {
    match Disk.read(path, FileKind::State) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read.map_err(ChangesError::io(path)),
    }
}

/// Creates a directory that only this user can read.
pub(crate) fn private_directory(path: &Path) -> Result<(), ChangesError> {
    use std::os::unix::fs::DirBuilderExt as _;
    if path.is_dir() {
        return Ok(());
    }
    let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    created.map_err(ChangesError::io(path))
}

/// Writes a file whole or not at all.
pub(crate) fn write_whole(
    path: &Path,
    bytes: &[u8],
    failpoint: &Failpoint,
) -> Result<(), ChangesError> {
    let draft = draft_of(path);
    write_draft(&draft, bytes)?;
    failpoint.reach();
    fs::rename(&draft, path).map_err(ChangesError::io(path))?;
    failpoint.reach();
    Ok(())
}

/// Writes a file that can be made again, whole or not at all.
pub(crate) fn write_cache(
    path: &Path,
    bytes: &[u8],
    failpoint: &Failpoint,
) -> Result<(), ChangesError> {
    let draft = draft_of(path);
    fs::write(&draft, bytes).map_err(ChangesError::io(&draft))?;
    failpoint.reach();
    fs::rename(&draft, path).map_err(ChangesError::io(path))?;
    failpoint.reach();
    Ok(())
}

fn draft_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".draft-{}", std::process::id()));
    path.with_file_name(name)
}

fn write_draft(draft: &Path, bytes: &[u8]) -> Result<(), ChangesError> {
    let written = fs::File::create(draft).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_data()
    });
    if written.is_err() {
        let _ = fs::remove_file(draft);
    }
    written.map_err(ChangesError::io(draft))
}
