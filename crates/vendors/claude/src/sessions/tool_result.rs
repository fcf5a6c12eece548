//! What tools did, as the program recorded it beside their results.

use std::borrow::Cow;
use std::ops::ControlFlow;

use convoke_protocol::agent_event::{FileChange, FileDiff, TodoItem, TodoState};
use convoke_source::EntryKind;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::record::{Raw, list, parsed, text};

/// The maximum number of tasks of an agent that are known.
const MAX_TASKS: usize = 1_000;
/// The maximum number of answers to questions of one call.
const MAX_ANSWERS: usize = 100;

/// What the program recorded beside a result. Each tool has its own fields.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Recorded<'l> {
    #[serde(borrow, rename = "type")]
    kind: Raw<'l>,
    #[serde(borrow)]
    file_path: Raw<'l>,
    #[serde(borrow)]
    content: Raw<'l>,
    #[serde(borrow)]
    old_string: Raw<'l>,
    #[serde(borrow)]
    new_string: Raw<'l>,
    #[serde(borrow)]
    structured_patch: Raw<'l>,
    #[serde(borrow, rename = "notebook_path")]
    notebook_path: Raw<'l>,
    #[serde(borrow, rename = "new_source")]
    new_source: Raw<'l>,
    #[serde(borrow, rename = "old_source")]
    old_source: Raw<'l>,
    #[serde(borrow)]
    new_todos: Raw<'l>,
    #[serde(borrow)]
    plan: Raw<'l>,
    #[serde(borrow)]
    answers: Raw<'l>,
    #[serde(borrow)]
    task: Raw<'l>,
    #[serde(borrow)]
    tasks: Raw<'l>,
    #[serde(borrow)]
    task_id: Raw<'l>,
    #[serde(borrow)]
    status_change: Raw<'l>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Hunk<'l> {
    #[serde(borrow)]
    lines: Raw<'l>,
}

/// An item of a to-do list, or a task.
#[derive(Default, Deserialize)]
#[serde(default)]
struct WrittenTask<'l> {
    #[serde(borrow)]
    id: Raw<'l>,
    #[serde(borrow)]
    content: Raw<'l>,
    #[serde(borrow)]
    subject: Raw<'l>,
    #[serde(borrow)]
    status: Raw<'l>,
    #[serde(borrow)]
    to: Raw<'l>,
}

/// The tasks of an agent, where its program has a tool for each change of them.
#[derive(Debug, Default)]
pub(super) struct Tasks(Vec<Task>);

#[derive(Debug)]
struct Task {
    id: String,
    text: String,
    state: TodoState,
}

/// Tells what a tool did.
pub(super) fn tell(
    recorded: &RawValue,
    tasks: &mut Tasks,
    tell: &mut dyn FnMut(EntryKind<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let Some(recorded) = parsed::<Recorded<'_>>(Some(recorded)) else {
        return ControlFlow::Continue(());
    };
    if let Some(change) = change(&recorded) {
        tell(EntryKind::Changed(vec![change]))?;
    }
    if recorded.new_todos.is_some() {
        let items = list(recorded.new_todos).into_iter();
        let items = items.filter_map(|item| parsed::<WrittenTask<'_>>(Some(item)));
        tell(EntryKind::Todo(items.filter_map(|item| item.todo()).collect()))?;
    }
    if let Some(plan) = text(recorded.plan) {
        tell(EntryKind::PlanApproved { plan: &plan })?;
    }
    let answers: serde_json::Map<_, _> = parsed(recorded.answers).unwrap_or_default();
    for (question, answer) in answers.iter().take(MAX_ANSWERS) {
        let answer = answer.as_str().map_or_else(|| Cow::Owned(answer.to_string()), Cow::Borrowed);
        tell(EntryKind::PersonAnswered { question, answer: &answer })?;
    }
    if tasks.update(&recorded) {
        tell(EntryKind::Todo(tasks.0.iter().map(Task::todo).collect()))?;
    }
    ControlFlow::Continue(())
}

fn change<'l>(recorded: &Recorded<'l>) -> Option<FileChange<'l>> {
    if let Some(path) = text(recorded.notebook_path) {
        let after = text(recorded.new_source)?;
        let diff = Some(FileDiff { before: text(recorded.old_source), after });
        return Some(FileChange { path, change: "update".into(), diff });
    }
    let path = text(recorded.file_path)?;
    // A file that was only read has no patch.
    recorded.structured_patch?;
    let is_new = text(recorded.kind).as_deref() == Some("create");
    let change = if is_new { "add" } else { "update" }.into();
    let diff = if is_new {
        text(recorded.content).map(|after| FileDiff { before: None, after })
    } else {
        patch(recorded.structured_patch).or_else(|| {
            let after = text(recorded.new_string)?;
            Some(FileDiff { before: text(recorded.old_string), after })
        })
    };
    Some(FileChange { path, change, diff })
}

/// Returns the changed parts of a file, with the lines around them.
fn patch(hunks: Raw<'_>) -> Option<FileDiff<'static>> {
    let (mut before, mut after) = (String::new(), String::new());
    for hunk in list(hunks) {
        for line in list(parsed::<Hunk<'_>>(Some(hunk))?.lines) {
            let line = text(Some(line))?;
            let mut rest = line.chars();
            let mark = rest.next()?;
            let sides: &mut [&mut String] = match mark {
                '-' => &mut [&mut before],
                '+' => &mut [&mut after],
                ' ' => &mut [&mut before, &mut after],
                _ => continue,
            };
            for side in sides {
                side.push_str(rest.as_str());
                side.push('\n');
            }
        }
    }
    let is_empty = before.is_empty() && after.is_empty();
    (!is_empty).then_some(FileDiff { before: Some(before.into()), after: after.into() })
}

impl<'l> WrittenTask<'l> {
    fn todo(&self) -> Option<TodoItem<'l>> {
        let text = text(self.content).or_else(|| text(self.subject))?;
        Some(TodoItem { text, state: state(self.status)? })
    }

    fn task(&self) -> Option<Task> {
        let state = state(self.status).unwrap_or(TodoState::Pending);
        Some(Task { id: text(self.id)?.into(), text: text(self.subject)?.into(), state })
    }
}

impl Task {
    fn todo(&self) -> TodoItem<'_> {
        TodoItem { text: self.text.as_str().into(), state: self.state }
    }
}

fn state(status: Raw<'_>) -> Option<TodoState> {
    match &*text(status)? {
        "pending" => Some(TodoState::Pending),
        "in_progress" => Some(TodoState::InProgress),
        "completed" => Some(TodoState::Completed),
        "cancelled" | "deleted" => Some(TodoState::Cancelled),
        _ => None,
    }
}

impl Tasks {
    /// Takes a change of the tasks, and returns whether there was one.
    fn update(&mut self, recorded: &Recorded<'_>) -> bool {
        let written = |raw| parsed::<WrittenTask<'_>>(Some(raw));
        if let Some(task) = recorded.task.and_then(written).and_then(|task| task.task()) {
            match self.0.iter().position(|it| it.id == task.id) {
                Some(known) => self.0[known] = task,
                None if self.0.len() < MAX_TASKS => self.0.push(task),
                None => return false,
            }
            return true;
        }
        if recorded.tasks.is_some() {
            let tasks = list(recorded.tasks).into_iter().filter_map(written);
            let tasks = tasks.filter_map(|task| task.task());
            let tasks: Vec<_> = tasks.take(MAX_TASKS).collect();
            let is_list = !tasks.is_empty();
            if is_list {
                self.0 = tasks;
            }
            return is_list;
        }
        let to = recorded.status_change.and_then(written).and_then(|change| state(change.to));
        let (Some(id), Some(state)) = (text(recorded.task_id), to) else { return false };
        let known = self.0.iter_mut().find(|it| it.id == id);
        known.map(|task| task.state = state).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(recorded: &[&str]) -> Vec<String> {
        let mut told = Vec::new();
        let mut tasks = Tasks::default();
        for recorded in recorded {
            let recorded = RawValue::from_string((*recorded).to_owned()).unwrap();
            let _ = tell(&recorded, &mut tasks, &mut |kind| {
                told.push(match kind {
                    EntryKind::Changed(changes) => {
                        let change = &changes[0];
                        let diff =
                            change.diff.as_ref().map(|it| (it.before.clone(), it.after.clone()));
                        format!("{} {} {diff:?}", change.change, change.path)
                    }
                    EntryKind::Todo(items) => {
                        let items = items.iter().map(|it| format!("{} {:?}", it.text, it.state));
                        items.collect::<Vec<_>>().join(", ")
                    }
                    other => format!("{other:?}"),
                });
                ControlFlow::Continue(())
            });
        }
        told
    }

    #[test]
    fn changes_are_told_as_the_program_recorded_them() {
        let edit = r#"{"filePath":"/a","oldString":"x","newString":"y","structuredPatch":[{"lines":[" 1","-x","+y","\\ No newline"]}]}"#;
        assert_eq!(told(&[edit]), [r#"update /a Some((Some("1\nx\n"), "1\ny\n"))"#]);
        let create = r#"{"type":"create","filePath":"/b","content":"z","structuredPatch":[]}"#;
        assert_eq!(told(&[create]), [r#"add /b Some((None, "z"))"#]);
        let read = r#"{"type":"text","file":{"filePath":"/b"}}"#;
        assert_eq!(told(&[read]), [""; 0]);
    }

    #[test]
    fn tasks_are_told_whole_after_each_change() {
        let changes = [
            r#"{"task":{"id":"1","subject":"one"}}"#,
            r#"{"task":{"id":"2","subject":"two"}}"#,
            r#"{"success":true,"taskId":"1","statusChange":{"from":"pending","to":"completed"}}"#,
        ];
        let todo = ["one Pending", "one Pending, two Pending", "one Completed, two Pending"];
        assert_eq!(told(&changes), todo);
        let written = r#"{"oldTodos":[],"newTodos":[{"content":"a","status":"in_progress"}]}"#;
        assert_eq!(told(&[written]), ["a InProgress"]);
    }

    #[test]
    fn plans_and_answers_are_told() {
        let plan = r#"{"plan":"Do it","isAgent":false}"#;
        let answers = r#"{"questions":[],"answers":{"Which?":"This"}}"#;
        let expected = [
            r#"PlanApproved { plan: "Do it" }"#,
            r#"PersonAnswered { question: "Which?", answer: "This" }"#,
        ];
        assert_eq!(told(&[plan, answers]), expected);
    }
}
