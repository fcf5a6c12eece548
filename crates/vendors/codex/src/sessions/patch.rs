//! Changes of files, as the program recorded them: events, or the patches that the model wrote.

use convoke_protocol::agent_event::{FileChange, FileDiff};
use serde_json::Value;

use super::json::{Raw, object, text};
use super::record::{Change, Changes};

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";

/// Returns the changes that an event tells.
pub(super) fn of_event(changes: Raw<'_>) -> Vec<FileChange<'static>> {
    let changes: Changes<'_> = object(changes).unwrap_or_default();
    let mut found = Vec::new();
    for (path, change) in changes {
        let Some(change) = object::<Change<'_>>(Some(change)) else { continue };
        let old = [("add", change.add), ("delete", change.delete), ("update", change.update)];
        let old = old.into_iter().find_map(|(kind, it)| Some((kind, object::<Change<'_>>(it)?)));
        let (kind, change) = match (text(change.kind), old) {
            (Some(kind), _) => (kind, change),
            (None, Some((kind, change))) => (kind.into(), change),
            (None, None) => continue,
        };
        let content = || text(change.content).unwrap_or_default().into_owned();
        match &*kind {
            "add" => found.push(added(path, content())),
            "delete" => found.push(deleted(path, Some(content()))),
            _ => {
                let moved = text(change.move_path);
                let diff = text(change.unified_diff).unwrap_or_default();
                update(path, moved.as_deref(), &diff, &mut found);
            }
        }
    }
    found
}

/// Returns the patch in the input of a call, if it has one.
pub(super) fn in_input(free_text: Option<&str>, input: &str) -> Option<String> {
    if let Some(text) = free_text {
        return cut(text);
    }
    if !input.contains(BEGIN) {
        return None;
    }
    let input: Value = serde_json::from_str(input).ok()?;
    let fields = input.as_object()?.values();
    let texts = fields.flat_map(|field| match field {
        Value::Array(words) => words.iter().collect(),
        other => vec![other],
    });
    texts.filter_map(Value::as_str).find_map(cut)
}

fn cut(text: &str) -> Option<String> {
    let patch = &text[text.find(BEGIN)?..];
    let end = patch.find(END).map_or(patch.len(), |end| end + END.len());
    Some(patch[..end].to_owned())
}

/// Returns the changes of a patch that the model wrote.
pub(super) fn of_patch(patch: &str) -> Vec<FileChange<'static>> {
    let mut found = Vec::new();
    let mut lines = patch.lines().peekable();
    while let Some(line) = lines.next() {
        let mut body = || {
            let mut body = String::new();
            while let Some(line) = lines.next_if(|line| !line.starts_with("*** ")) {
                body.push_str(line);
                body.push('\n');
            }
            // The end of a file is marked within a change.
            lines.next_if(|line| *line == "*** End of File");
            body
        };
        if let Some(path) = line.strip_prefix("*** Add File: ") {
            let body = body();
            let content = body.lines().filter_map(|line| line.strip_prefix('+'));
            found.push(added(path.to_owned(), content.flat_map(|line| [line, "\n"]).collect()));
        } else if let Some(path) = line.strip_prefix("*** Delete File: ") {
            found.push(deleted(path.to_owned(), None));
        } else if let Some(path) = line.strip_prefix("*** Update File: ") {
            let moved = lines.next_if(|line| line.starts_with("*** Move to: "));
            let moved = moved.and_then(|line| line.strip_prefix("*** Move to: "));
            let mut body = String::new();
            while let Some(line) =
                lines.next_if(|line| !line.starts_with("*** ") || *line == "*** End of File")
            {
                body.push_str(line);
                body.push('\n');
            }
            update(path.to_owned(), moved, &body, &mut found);
        }
    }
    found
}

fn added(path: String, content: String) -> FileChange<'static> {
    change(path, "add", Some(FileDiff { before: None, after: content.into() }))
}

fn deleted(path: String, content: Option<String>) -> FileChange<'static> {
    let diff = content.map(|it| FileDiff { before: Some(it.into()), after: "".into() });
    change(path, "delete", diff)
}

/// Adds one change for each hunk of a diff.
fn update(path: String, moved: Option<&str>, diff: &str, found: &mut Vec<FileChange<'static>>) {
    let to = moved.map_or_else(|| path.clone(), str::to_owned);
    let (mut before, mut after) = (String::new(), String::new());
    let mut flush = |before: &mut String, after: &mut String| {
        let (before, after) = (std::mem::take(before), std::mem::take(after));
        if before != after {
            let diff = FileDiff { before: Some(before.into()), after: after.into() };
            found.push(change(to.clone(), "update", Some(diff)));
        }
    };
    for line in diff.lines() {
        match line.split_at_checked(1) {
            Some(("@", rest)) if rest.starts_with('@') => flush(&mut before, &mut after),
            Some(("-", rest)) => push_line(&mut before, rest),
            Some(("+", rest)) => push_line(&mut after, rest),
            Some((" ", rest)) => {
                push_line(&mut before, rest);
                push_line(&mut after, rest);
            }
            None => {
                push_line(&mut before, "");
                push_line(&mut after, "");
            }
            _ => {}
        }
    }
    flush(&mut before, &mut after);
    if moved.is_some() {
        found.push(deleted(path, None));
        found.push(change(to, "move", None));
    }
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn change(
    path: String,
    kind: &'static str,
    diff: Option<FileDiff<'static>>,
) -> FileChange<'static> {
    FileChange { path: path.into(), change: kind.into(), diff }
}
