//! Separates the changes of an interrupted turn from those that may have been made after its end.
//!
//! A running turn touches its file at short intervals. A crash leaves the time of the last touch: what changed before it
//! changed while the turn ran, and anything else may be a person's.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};

use crate::change::{Change, shown};
use crate::manifest::{Manifest, Stamp};
use crate::store::Place;
use crate::tree_path::TreePath;

/// The interval of touches.
const INTERVAL: Duration = Duration::from_millis(500);

/// Touches the file of a turn until it is dropped. The times are those of the kernel, as are the times of files.
#[derive(Debug)]
pub(crate) struct Pulse {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Pulse {
    pub(crate) fn start(file: PathBuf) -> Self {
        let (stop, stopped) = sync_channel(0);
        let thread = thread::spawn(move || {
            let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
            let now = Timestamps { last_access: now, last_modification: now };
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if utimensat(CWD, &file, &now, AtFlags::SYMLINK_NOFOLLOW).is_err() {
                    return;
                }
            }
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        drop(self.stop.take());
        // No touch follows the end of the turn.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Place {
    /// Returns the shown changes that may have been made after the end of an interrupted turn, whose file has the time at
    /// which it was last known to run.
    pub(crate) fn perhaps_later(
        &self,
        file: &Path,
        before: &Manifest,
        changes: &[Change],
    ) -> Vec<TreePath> {
        let evidence = fs::metadata(file).ok().filter(|touched| {
            // Another file system may have another clock.
            fs::metadata(self.root()).is_ok_and(|found| found.dev() == touched.dev())
        });
        let last_known = evidence.map(|touched| Stamp::from_metadata(&touched).modified);
        let is_earlier = |change: &Change| {
            last_known.is_some_and(|last_known| self.is_earlier(change, before, last_known))
        };
        let later = shown(changes).filter(|change| !is_earlier(change));
        later.map(|change| change.path.clone()).collect()
    }

    /// Returns whether a path is certain to be as it was at a time. Its status shows a change of its content, its mode or its
    /// name, but not that a directory above it was moved here.
    fn is_earlier(&self, change: &Change, before: &Manifest, time: i128) -> bool {
        let status = |path: &TreePath| fs::symlink_metadata(path.under(self.root())).ok();
        let is_untouched = |found: &Metadata| Stamp::from_metadata(found).changed < time;
        let is_in_place = |(path, found): (TreePath, Metadata)| {
            let known = before.directories.get(&path);
            known.is_some_and(|known| known.stamp.inode == found.ino()) || is_untouched(&found)
        };
        let above = change.path.ancestors();
        let mut above = above.filter_map(|path| status(&path).map(|found| (path, found)));
        let holder = match &change.after {
            Some(_) => status(&change.path),
            // The directory that had the entry shows that it was removed.
            None => above.next().map(|(_, found)| found),
        };
        holder.is_some_and(|found| is_untouched(&found)) && above.all(is_in_place)
    }
}
