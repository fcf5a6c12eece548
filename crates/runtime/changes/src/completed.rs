//! Interrupted undos and merges that a later command completed, kept until they are reported.
//!
//! A notice is stored before the record of the undo, and removed when a command has it. So the person learns of it from
//! the next command that shows something, whichever command completed the undo.

use std::fs;
use std::io::ErrorKind::NotFound;
use std::path::PathBuf;

use convoke_files::limit::FileKind;
use convoke_files::{Disk, Files as _};
use serde::{Deserialize, Serialize};

use crate::error::ChangesError;
use crate::part::PartOf;
use crate::record::{
    Direction, Record, RecordId, SessionRecords, direction, private_directory, write_whole,
};
use crate::store::Changes;
use crate::tree_path::TreePath;

/// An undo or a merge that was interrupted, and is complete now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed {
    pub record: Record,
    /// Whether it undid changes or restored them.
    pub direction: Direction,
    /// The paths that were changed after the interruption, and stay as they are.
    pub left_alone: Vec<TreePath>,
}

/// A notice as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct Notice {
    at: i64,
    undoes: Option<RecordId>,
    #[serde(default)]
    part_of: Option<PartOf>,
    left_alone: Vec<TreePath>,
}

impl Changes {
    /// Completes what was interrupted in the directories of a session, and returns the undos and merges that were completed
    /// since the last call, by this process or another.
    pub fn take_completed(&self, session: &str) -> Result<Vec<Completed>, ChangesError> {
        self.recover(session)?;
        self.session(session).take_completed()
    }
}

impl SessionRecords {
    /// Notes that a record is of an undo or a merge that was interrupted.
    pub(crate) fn add_notice(
        &self,
        record: &Record,
        left_alone: Vec<TreePath>,
    ) -> Result<(), ChangesError> {
        let directory = self.notices();
        private_directory(&directory)?;
        let path = directory.join(format!("{}.json", record.at));
        let Record { at, undoes, part_of, .. } = *record;
        let notice = Notice { at, undoes, part_of, left_alone };
        let text =
            serde_json::to_vec(&notice).map_err(|error| ChangesError::damaged(&path, error))?;
        write_whole(&path, &text, &self.failpoint)
    }

    /// Returns the undos and merges that were completed since the last call.
    pub(crate) fn take_completed(&self) -> Result<Vec<Completed>, ChangesError> {
        let directory = self.notices();
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == NotFound => return Ok(Vec::new()),
            entries => entries.map_err(ChangesError::io(&directory))?,
        };
        let paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let records = self.load()?;
        let mut completed = Vec::new();
        for path in paths {
            let text = Disk.read(&path, FileKind::Record).map_err(ChangesError::io(&path))?;
            let notice = serde_json::from_slice::<Notice>(&text).ok();
            completed.extend(notice.and_then(|notice| {
                let Notice { at, undoes, part_of, left_alone } = notice;
                let is_it = |it: &&Record| (it.at, it.undoes, it.part_of) == (at, undoes, part_of);
                let record = records.iter().find(is_it)?.clone();
                let direction = direction(&records, &record);
                Some(Completed { record, direction, left_alone })
            }));
            fs::remove_file(&path).map_err(ChangesError::io(&path))?;
        }
        completed.sort_by_key(|completed| completed.record.at);
        Ok(completed)
    }

    fn notices(&self) -> PathBuf {
        self.directory.join("completed")
    }
}
