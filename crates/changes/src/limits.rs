//! Limits of recording.

use std::time::Duration;

/// The limits of one recording. Over any of them but `file_bytes`, the turn is not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The number of files and directories.
    pub files: u64,
    /// The bytes of file contents that one recording stores.
    pub bytes: u64,
    /// The bytes of one file; of larger files only the hash is recorded.
    pub file_bytes: u64,
    /// The free bytes that recording leaves on the disk.
    pub free_bytes: u64,
    /// The time that a recording may take.
    pub time: Duration,
    /// The time that the start of a turn waits for contents to be copied. A longer copy continues while
    /// the turn runs.
    pub wait: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            files: 300_000,
            bytes: 4 << 30,
            file_bytes: 10 << 20,
            free_bytes: 256 << 20,
            time: Duration::from_secs(10),
            wait: Duration::from_millis(500),
        }
    }
}
