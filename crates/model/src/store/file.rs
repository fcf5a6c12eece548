//! Threads as files: one of JSON lines for each, in one directory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{StoreError, Stored, ThreadId, ThreadStore};

/// Keeps threads in a directory, for this user's eyes only.
#[derive(Debug, Clone)]
pub struct FileStore {
    directory: PathBuf,
}

impl FileStore {
    /// Creates a store; the directory is made with the first thread.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    fn path(&self, thread: &ThreadId) -> PathBuf {
        self.directory.join(format!("{thread}.jsonl"))
    }

    fn add(&self, thread: &ThreadId, known: usize, lines: &[String]) -> Result<(), StoreError> {
        let path = self.path(thread);
        let failed = |error: io::Error| failure(&path, &error);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)
            .map_err(failed)?;
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        // Held until the file is closed, which is when this returns, or when the process ends.
        file.lock().map_err(failed)?;
        let (there, end) = whole_lines(&mut file).map_err(failed)?;
        if there.len() != known {
            return Err(StoreError::Conflict(thread.clone()));
        }
        let mut text = String::with_capacity(lines.iter().map(|line| line.len() + 1).sum());
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        // What follows the last whole line was cut off when a program died; it was never acknowledged.
        file.set_len(end).map_err(failed)?;
        file.seek(SeekFrom::Start(end)).map_err(failed)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
        if let Err(error) = written {
            // All or none: half of a turn is no turn.
            let _ = file.set_len(end);
            return Err(failed(error));
        }
        if known == 0 {
            let synced = File::open(&self.directory).and_then(|directory| directory.sync_all());
            synced.map_err(failed)?;
        }
        Ok(())
    }

    fn read(&self, thread: &ThreadId) -> Result<Vec<String>, StoreError> {
        let path = self.path(thread);
        let read = File::open(&path).and_then(|mut file| {
            file.lock_shared()?;
            whole_lines(&mut file)
        });
        match read {
            Ok((lines, _)) => Ok(lines),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(failure(&path, &error)),
        }
    }
}

/// Returns the lines that are whole, and where the last of them ends.
fn whole_lines(file: &mut File) -> io::Result<(Vec<String>, u64)> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let end = memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1);
    bytes.truncate(end);
    let text = String::from_utf8(bytes)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))?;
    let lines = text.lines().map(str::to_owned).collect();
    Ok((lines, end as u64))
}

fn failure(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Failed(format!("{}: {error}", path.display()))
}

impl ThreadStore for FileStore {
    fn load<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Vec<String>> {
        Box::pin(async move { self.read(thread) })
    }

    fn append<'s>(
        &'s self,
        thread: &'s ThreadId,
        known: usize,
        lines: Vec<String>,
    ) -> Stored<'s, ()> {
        Box::pin(async move { self.add(thread, known, &lines) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[tokio::test]
    async fn lines_are_added_whole_and_only_by_those_who_know_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::new(folder.path().join("threads"));
        let thread = ThreadId::new();
        assert_eq!(store.load(&thread).await, Ok(vec![]));
        store.append(&thread, 0, lines(&["1", "2"])).await.unwrap();
        let late = store.append(&thread, 0, lines(&["x"])).await;
        assert_eq!(late, Err(StoreError::Conflict(thread.clone())));
        store.append(&thread, 2, lines(&["3"])).await.unwrap();
        assert_eq!(store.load(&thread).await, Ok(lines(&["1", "2", "3"])));
    }

    #[tokio::test]
    async fn a_line_that_was_cut_off_is_passed_over_and_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let store = FileStore::new(folder.path());
        let thread = ThreadId::new();
        store.append(&thread, 0, lines(&["1"])).await.unwrap();
        let mut file = OpenOptions::new().append(true).open(store.path(&thread)).unwrap();
        file.write_all(b"{\"half").unwrap();
        assert_eq!(store.load(&thread).await, Ok(lines(&["1"])));
        store.append(&thread, 1, lines(&["2"])).await.unwrap();
        assert_eq!(fs::read_to_string(store.path(&thread)).unwrap(), "1\n2\n");
    }

    #[test]
    fn names_that_could_leave_the_directory_are_no_names() {
        for name in ["", "../x", "a/b", ".hidden", "a b", &"x".repeat(200)] {
            assert_eq!(ThreadId::parse(name), None, "{name}");
        }
        assert!(ThreadId::parse(ThreadId::new().as_str()).is_some());
    }
}
