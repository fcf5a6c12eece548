//! The changes of turns in their directories, and the workspaces of members.

use std::path::Path;

use convoke_core::name::shell_word;
use convoke_protocol::id::SessionId;
use maud::{Markup, html};
use serde_json::json;

use super::code::Language;
use super::inspector::crumbs;
use super::text::{beginning, line};
use super::{confirmed, count, patch};
use crate::host::{ChangedFile, MemberWorkspace, SessionChanges, TurnChanges};
use crate::query::Layout;

/// The maximum number of bytes of a file's difference.
const DIFF_SHOWN: usize = 128 << 10;
/// The maximum number of lines of a file's difference.
const MAX_LINES: usize = 2_000;

/// Renders the changes of a session as a view of the page.
pub(crate) fn session(
    id: SessionId,
    changes: &SessionChanges,
    layout: Layout,
    shown: impl Fn(&Path) -> String + Copy,
) -> Markup {
    html! {
        (crumbs(id, None))
        div.heading {
            h1 { "Changed files" }
            nav.choice aria-label="Layout" { @for (it, name) in [(Layout::Unified, "Unified"), (Layout::Split, "Split")] {
                a href=(format!("/sessions/{id}/changes?layout={}", it.as_str())) aria-current=[(it == layout).then_some("true")] { (name) }
            } }
        }
        @for workspace in &changes.workspaces { (self::workspace(workspace, shown)) }
        (turns(id, &changes.turns, layout, shown))
    }
}

fn workspace(workspace: &MemberWorkspace, shown: impl Fn(&Path) -> String) -> Markup {
    let MemberWorkspace { member, directory, project, branch, unmerged } = workspace;
    html! {
        section.workspace {
            h2 { "Workspace of " (line(member)) }
            p {
                @if *unmerged == 0 { "All its changes are merged." }
                @else { (count(*unmerged as u64, "file")) " not merged; " code { "convoke changes apply " (line(&shell_word(member))) } @if *unmerged == 1 { " merges it." } @else { " merges them." } }
            }
            dl.facts {
                dt { "Directory" } dd.path { (line(&shown(directory))) }
                dt { "Copy of" } dd.path { (line(&shown(project))) }
                dt { "Branch" } dd.path { (line(branch)) }
            }
        }
    }
}

/// Renders the changes of turns.
pub(crate) fn turns(
    id: SessionId,
    changes: &[TurnChanges],
    layout: Layout,
    shown: impl Fn(&Path) -> String,
) -> Markup {
    html! {
        @let is_shown = |it: &&TurnChanges| {
            !it.files.is_empty() || it.repository.is_some() || it.not_recorded.is_some()
        };
        @if !changes.iter().any(|it| is_shown(&it)) { p.empty { "No changes are recorded." } }
        @for change in changes.iter().filter(is_shown) {
            section.changes {
                h3 { (title(id, change)) }
                p.path.faint { (line(&shown(&change.directory))) }
                @if let Some(why) = &change.not_recorded { p { "Not recorded: " (line(why)) } }
                @if let Some(repository) = &change.repository { p { (line(repository)) } }
                @for other in &change.shared_with { p { "At the same time as " (line(other)) } }
                @for file in &change.files { (self::file(file, layout, &of_file(id, change, file))) }
                @if !change.uncertain.is_empty() {
                    p { "The turn was interrupted. You may have made these changes after it ended:" }
                    ul { @for path in &change.uncertain { li.path { (line(path)) } } }
                }
                @match change.undone.filter(|_| change.merged.is_none()) {
                    Some(true) => p { "Undone. " (confirmed("Redo", &format!("/api/sessions/{id}/redo"), &json!({"turn": change.turn}))) },
                    Some(false) => {
                        @let is_shared = !change.shared_with.is_empty() || !change.uncertain.is_empty();
                        @let body = if is_shared { json!({"turn": change.turn, "shared": true}) } else { json!({"turn": change.turn}) };
                        @let label = if is_shared { "Undo, including changes that others may have made" } else { "Undo" };
                        p { (confirmed(label, &format!("/api/sessions/{id}/undo"), &body)) }
                    },
                    None => {},
                }
            }
        }
    }
}

fn title(id: SessionId, change: &TurnChanges) -> Markup {
    let turn = html! { a href=(format!("/sessions/{id}/turns/{}", change.turn)) { "turn " (change.turn) } };
    html! {
        @if let Some(member) = &change.merged { @if change.redo { "Redo of the merge" } @else if change.undo { "Undo of the merge" } @else { "Merge" } " of the workspace of " (line(member)) }
        @else if change.redo { "Redo of " (turn) }
        @else if change.undo { "Undo of " (turn) }
        @else if let Some(member) = &change.member {
            (line(member.as_str())) ", " (turn)
            @if change.is_workspace { " in its workspace" }
            @if change.interrupted { ", interrupted" }
        }
        @else { "You, before " (turn) }
        " " span.faint { (count(change.files.len() as u64, "file")) }
    }
}

/// Renders what a person can do with one file of a turn: take it back alone, or make its changes again.
fn of_file(id: SessionId, change: &TurnChanges, file: &ChangedFile) -> Markup {
    let is_turn = change.undone.is_some() && change.merged.is_none() && change.files.len() > 1;
    let body = json!({"turn": change.turn, "paths": [file.path], "shared": true});
    html! {
        @if is_turn { p.actions {
            @if change.undone == Some(false) { (confirmed("Undo this file", &format!("/api/sessions/{id}/undo"), &body)) }
            (confirmed("Redo this file", &format!("/api/sessions/{id}/redo"), &body))
        } }
    }
}

/// Renders a changed file, folded, with its actions.
pub(super) fn file(file: &ChangedFile, layout: Layout, actions: &Markup) -> Markup {
    let language = Language::of_file(&file.path);
    let (shown, rest) = beginning(&file.diff, DIFF_SHOWN);
    html! {
        details.step {
            summary { span.path { (line(&file.path)) } " " span.faint { (line(&file.status)) @if let (Some(added), Some(removed)) = (file.added, file.removed) { ", " span.added { "+" (added) } " " span.removed { "−" (removed) } } } }
            @match layout {
                Layout::Unified => (patch::unified(shown, language, MAX_LINES)),
                Layout::Split => (patch::split(shown, language, MAX_LINES)),
            }
            @if rest > 0 { p.faint { (count(rest as u64, "more byte")) "; " code { "convoke changes --turn" } " prints all." } }
            (actions)
        }
    }
}
