//! Edits as diffs, and their state in today's tree.

use std::time::Duration;

use convoke_diff::LineDiff;
use convoke_protocol::agent_event::FileChange;

/// A change of one file.
#[derive(Debug)]
pub(crate) struct Edit {
    pub path: String,
    pub change: String,
    /// The text before, if there was one, and the text after; `None` if they are not recorded or too large to hold.
    pub texts: Option<(Option<String>, String)>,
}

impl Edit {
    /// Returns a change as its program recorded it.
    pub fn of(change: &FileChange<'_>) -> Self {
        let texts = change.diff.as_ref().map(|diff| {
            (diff.before.as_deref().map(str::to_owned), diff.after.clone().into_owned())
        });
        Self {
            path: change.path.clone().into_owned(),
            change: change.change.clone().into_owned(),
            texts,
        }
    }

    /// Returns the bytes of the texts.
    pub fn bytes(&self) -> usize {
        let texts = self.texts.as_ref();
        texts.map_or(0, |(before, after)| before.as_ref().map_or(0, String::len) + after.len())
    }
}

/// A file as it is today.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileToday {
    Text(String),
    /// There is no such file.
    Gone,
    /// It cannot be compared: too large, not text, or outside of the directory.
    Unknown,
}

/// The state of an edit in today's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EditState {
    AsLeft,
    ChangedSince,
    Gone,
    Unknown,
}

impl EditState {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::AsLeft => "as it left it",
            Self::ChangedSince => "changed since",
            Self::Gone => "gone",
            Self::Unknown => "not compared with today's file",
        }
    }
}

/// The maximum time of one comparison; beyond it the difference is correct, but not the smallest.
const MAX_COMPARISON: Duration = Duration::from_millis(20);
const CONTEXT_LINES: usize = 3;

/// Returns an edit as a diff; the path alone if no texts were recorded.
pub(crate) fn diff(edit: &Edit) -> String {
    let Some((before, after)) = &edit.texts else {
        return "(the changed text is not recorded)".to_owned();
    };
    let before = before.as_deref().unwrap_or_default();
    let diff = LineDiff::new(before, after, MAX_COMPARISON).unified(CONTEXT_LINES);
    if diff.is_empty() { "(no difference)".to_owned() } else { diff }
}

/// The number of later edits that are searched for one that changed a text again.
const LATER_EDITS: usize = 8;

/// Returns the states of the edits of one file, which are in the order in which they were made.
pub(crate) fn states(edits: &[&Edit], today: &FileToday) -> Vec<EditState> {
    let mut states = vec![EditState::Unknown; edits.len()];
    let is_deleted = edits.last().is_some_and(|last| last.change.starts_with("delete"));
    for (at, edit) in edits.iter().enumerate().rev() {
        let later = &edits[at + 1..];
        states[at] = match today {
            FileToday::Gone if is_deleted => EditState::AsLeft,
            FileToday::Gone => EditState::Gone,
            FileToday::Unknown => EditState::Unknown,
            FileToday::Text(_) if is_deleted => EditState::ChangedSince,
            FileToday::Text(now) => match &edit.texts {
                None => EditState::Unknown,
                Some((before, after)) if is_there(before.as_deref(), after, later, now) => {
                    EditState::AsLeft
                }
                // The session itself may have changed the text again: then its later edit tells.
                Some((_, after)) => later
                    .iter()
                    .take(LATER_EDITS)
                    .position(|next| touches(next, after))
                    .map_or(EditState::ChangedSince, |next| states[at + 1 + next]),
            },
        };
    }
    states
}

fn is_there(before: Option<&str>, after: &str, later: &[&Edit], now: &str) -> bool {
    if before.is_none() && later.is_empty() {
        now.trim_end() == after.trim_end()
    } else if after.trim().is_empty() {
        // What was removed must not be there again.
        !before.is_some_and(|before| !before.is_empty() && now.contains(before))
    } else {
        now.contains(after.trim_end()) || has_runs(now, after)
    }
}

/// The lines that a run must have, if the text has as many: as many as a diff shows around a change.
const MIN_RUN: usize = 3;

/// Returns whether a file has the lines of a text, in order and in runs: a program may have recorded several places of a file
/// as one change. O(lines).
fn has_runs(now: &str, text: &str) -> bool {
    let now: Vec<&str> = now.lines().collect();
    let text: Vec<&str> = text.lines().collect();
    let (mut at, mut rest) = (0, &text[..]);
    while !rest.is_empty() {
        let run = &rest[..rest.len().min(MIN_RUN)];
        let Some(found) = now[at..].windows(run.len()).position(|lines| lines == run) else {
            return false;
        };
        at += found;
        let length = now[at..].iter().zip(rest).take_while(|(one, other)| one == other).count();
        (at, rest) = (at + length, &rest[length..]);
    }
    text.len() >= MIN_RUN
}

/// Returns whether an edit replaced lines of a text.
fn touches(edit: &Edit, text: &str) -> bool {
    match &edit.texts {
        Some((Some(before), _)) => {
            before.contains(text)
                || before
                    .lines()
                    .any(|line| !line.trim().is_empty() && text.lines().any(|other| other == line))
        }
        // The whole file was written.
        Some((None, _)) => true,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(change: &str, before: Option<&str>, after: &str) -> Edit {
        let texts = Some((before.map(str::to_owned), after.to_owned()));
        Edit { path: "a.rs".to_owned(), change: change.to_owned(), texts }
    }

    fn state(edit: &Edit, later: &[&Edit], today: &FileToday) -> EditState {
        let edits: Vec<&Edit> = [edit].into_iter().chain(later.iter().copied()).collect();
        states(&edits, today)[0]
    }

    fn today(text: &str) -> FileToday {
        FileToday::Text(text.to_owned())
    }

    #[test]
    fn an_edit_is_compared_with_the_file_of_today() {
        let changed = edit("update", Some("one\n"), "two\n");
        assert_eq!(state(&changed, &[], &today("zero\ntwo\nthree\n")), EditState::AsLeft);
        assert_eq!(state(&changed, &[], &today("zero\nthree\n")), EditState::ChangedSince);
        assert_eq!(state(&changed, &[], &FileToday::Gone), EditState::Gone);
        assert_eq!(state(&changed, &[], &FileToday::Unknown), EditState::Unknown);
        let written = edit("add", None, "one\n");
        assert_eq!(state(&written, &[], &today("one\n")), EditState::AsLeft);
        assert_eq!(state(&written, &[], &today("one\ntwo\n")), EditState::ChangedSince);
        let removed = edit("update", Some("old\n"), "");
        assert_eq!(state(&removed, &[], &today("new\n")), EditState::AsLeft);
        assert_eq!(state(&removed, &[], &today("old\nnew\n")), EditState::ChangedSince);
    }

    #[test]
    fn an_edit_that_the_session_changed_again_is_not_a_change_of_somebody_else() {
        let first = edit("update", Some("one"), "two");
        let second = edit("update", Some("two"), "three");
        assert_eq!(state(&first, &[&second], &today("three")), EditState::AsLeft);
        assert_eq!(state(&first, &[&second], &today("four")), EditState::ChangedSince);
        let elsewhere = edit("update", Some("x"), "y");
        assert_eq!(state(&first, &[&elsewhere], &today("four y")), EditState::ChangedSince);
        let deletion = edit("delete", Some("two"), "");
        assert_eq!(state(&first, &[&deletion], &FileToday::Gone), EditState::AsLeft);
        assert_eq!(state(&first, &[&deletion], &today("two")), EditState::ChangedSince);
    }

    #[test]
    fn an_edit_of_several_places_is_found_in_its_parts() {
        let file = |one: &str, other: &str| {
            format!("a\nb\n{one}\nc\nd\n{}e\nf\n{other}\ng\n", "between\n".repeat(9))
        };
        let hunks = |one: &str, other: &str| format!("a\nb\n{one}\nc\nd\ne\nf\n{other}\ng\n");
        let changed = edit("update", Some(&hunks("1", "2")), &hunks("3", "4"));
        assert_eq!(state(&changed, &[], &today(&file("3", "4"))), EditState::AsLeft);
        assert_eq!(state(&changed, &[], &today(&file("3", "5"))), EditState::ChangedSince);
        assert_eq!(state(&changed, &[], &today("")), EditState::ChangedSince);
    }

    #[test]
    fn an_edit_is_a_diff() {
        let changed = edit("update", Some("a\nb\n"), "a\nc\n");
        assert_eq!(diff(&changed), "@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
        let unknown = Edit { texts: None, ..changed };
        assert_eq!(diff(&unknown), "(the changed text is not recorded)");
    }
}
