//! Limits of recording.

use std::time::Duration;

/// The limits of one recording. Over any of them but those on single files and on files that a turn hides, the turn is not
/// recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The number of files and directories.
    pub files: u64,
    /// The bytes of file contents that one recording stores.
    pub bytes: u64,
    /// The bytes of one file; of larger files only the hash is recorded.
    pub file_bytes: u64,
    /// The files and directories that are recorded of those that a turn creates and ignores itself.
    pub hidden_files: u64,
    /// The bytes of such files.
    pub hidden_bytes: u64,
    /// The free bytes that recording leaves on the disk.
    pub free_bytes: u64,
    /// The time that a recording may take.
    pub time: Duration,
    /// The time that the start of a turn waits for contents to be copied. A longer copy continues while
    /// the turn runs.
    pub wait: Duration,
    /// The time that it waits at most for contents that have no other copy, while they are being copied.
    pub lone_wait: Duration,
}

/// The time that files which are stored together may take on a busy machine. Only their end is progress.
const BATCH_TIME: Duration = Duration::from_secs(5);
/// The bytes that a slow disk copies in a second.
const SLOW_BYTES: u64 = 4 << 20;
/// The files that a slow disk copies in a second.
const SLOW_FILES: u64 = 500;

impl Limits {
    /// Returns the time for which the start of a turn waits without progress for contents that have no other copy.
    pub(crate) fn wait_for(&self, files: usize, bytes: u64) -> Duration {
        let seconds = bytes / SLOW_BYTES + files as u64 / SLOW_FILES;
        self.lone_wait.min(BATCH_TIME + Duration::from_secs(seconds))
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            files: 300_000,
            bytes: 4 << 30,
            file_bytes: 10 << 20,
            hidden_files: 2_000,
            hidden_bytes: 64 << 20,
            free_bytes: 256 << 20,
            time: Duration::from_secs(10),
            wait: Duration::from_millis(500),
            lone_wait: Duration::from_mins(2),
        }
    }
}
