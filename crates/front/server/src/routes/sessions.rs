//! The list of sessions, conversations and their streams, exports, and `explain`.

use std::path::PathBuf;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use convoke_protocol::id::{MessageNumber, SessionId};
use convoke_protocol::session::{Session, Summary};
use convoke_session::{Store as _, StoreError};
use maud::html;
use serde::Deserialize;
use serde_json::{Value, json};

use super::extract::{Parameters, SessionPath};
use super::{Shared, reply};
use crate::error::{ApiError, ApiResult};
use crate::host::ExportForm;
use crate::query::{
    ExplainQuery, ExportQuery, ListQuery, MessagesQuery, ResponseForm, StreamQuery, TextQuery,
};
use crate::stored::{self, ListedSession, MAX_ROWS, PAGE, SessionStatus};
use crate::views::conversation::more;
use crate::views::sessions::{Directory, FoundMessages, List};
use crate::views::text::{SHOWN, exact, slice};
use crate::views::{self, conversation};
use crate::{App, Scope, stream as events};

/// The maximum number of messages that a search finds.
const MAX_FOUND: usize = 50;

pub(super) async fn list(
    State(app): Shared,
    Parameters(query): Parameters<ListQuery>,
    form: ResponseForm,
) -> ApiResult<Response> {
    let (summaries, found) = found_sessions(&app, &query.q).await?;
    let total = summaries.len();
    let page = match form {
        ResponseForm::Json => MAX_ROWS,
        ResponseForm::Html => PAGE,
    };
    let limit = query.limit.unwrap_or(page).clamp(1, MAX_ROWS);
    let mut rows = Vec::new();
    for summary in summaries.into_iter().skip(query.from).take(limit) {
        rows.push(ListedSession::read(&app.store, summary).await?);
    }
    let end = query.from.saturating_add(rows.len());
    let next = (end < total).then_some(end);
    let json = || {
        let sessions: Vec<Value> = rows.iter().map(ListedSession::json).collect();
        json!({
            "version": 1, "sessions": sessions, "total": total, "next": next,
            "messages": found.as_ref().map(|found| &found.messages),
            "isComplete": found.as_ref().is_none_or(|found| !found.has_more),
        })
    };
    Ok(reply(form, json, || {
        let directories = by_directory(&app, &rows);
        let has_others = app.scope == Scope::All && found.is_none();
        let list = List { directories, words: &query.q, total, next, has_others };
        if query.from > 0 {
            return views::sessions::directories(&list);
        }
        let no_new = match app.scope {
            Scope::All => app.host.no_new_session(),
            Scope::One(_) => Some("this page shows one conversation".to_owned()),
        };
        views::sessions::list(&list, found.as_ref(), no_new.as_deref())
    }))
}

/// Returns the sessions that are shown, and the messages that have the words, if there are words.
async fn found_sessions(
    app: &App,
    words: &str,
) -> Result<(Vec<Summary>, Option<FoundMessages>), StoreError> {
    let mut summaries = app.store.sessions().await?;
    if let Scope::One(only) = app.scope {
        summaries.retain(|summary| summary.id == only);
    }
    let words: Vec<String> = words
        .split_whitespace()
        .filter(|word| word.contains(char::is_alphanumeric))
        .map(str::to_owned)
        .collect();
    if words.is_empty() {
        return Ok((summaries, None));
    }
    let within: Vec<SessionId> = summaries.iter().map(|summary| summary.id).collect();
    // One more than is shown, to find out whether there are more.
    let mut messages = app.store.search(&words, Some(&within), MAX_FOUND + 1).await?;
    let has_more = messages.len() > MAX_FOUND;
    messages.truncate(MAX_FOUND);
    summaries.retain(|summary| messages.iter().any(|message| message.session == summary.id));
    Ok((summaries, Some(FoundMessages { messages, has_more })))
}

/// Groups sessions by directory, in the order of their first session.
fn by_directory<'r>(app: &App, rows: &'r [ListedSession]) -> Vec<Directory<'r>> {
    let mut directories: Vec<Directory<'r>> = Vec::new();
    for row in rows {
        let shown = app.host.shown_directory(&row.summary.directory);
        match directories.iter_mut().find(|directory| directory.shown == shown) {
            Some(directory) => directory.sessions.push(row),
            None => directories.push(Directory { shown, sessions: vec![row] }),
        }
    }
    directories
}

pub(super) async fn session(
    SessionPath { app, id, session }: SessionPath,
    Parameters(query): Parameters<MessagesQuery>,
    form: ResponseForm,
) -> ApiResult<Response> {
    let page = message_page(&app, &session, &query).await?;
    let is_held = app.store.is_held(id).await?;
    let feed = app.feeds.get(id);
    let known = feed.status().filter(|status| status.head == session.head.0);
    let has_costs = known.is_some() || form == ResponseForm::Json;
    let mut status = match known {
        Some(status) => status,
        // The feed has not read the last commit yet; its other state, such as a question, is current.
        None => feed.with_events(SessionStatus::read(&app.store, session.clone(), is_held).await?),
    };
    if form == ResponseForm::Json {
        status.costs = app.store.costs(id).await?;
    }
    let team = stored::team_of(&session);
    let json = || {
        let began = &session.began;
        let mut members = Vec::new();
        for member in team.iter().flat_map(|team| &team.members) {
            members.push(json!({"name": member.name, "human": member.agent().is_none()}));
        }
        json!({
            "session": id, "name": began.name, "directory": began.directory,
            "rehearsal": began.rehearsal, "held": is_held,
            "createdAt": began.created_at, "updatedAt": session.updated_at,
            "task": session.state.task, "costs": status.costs, "members": members,
            "messages": page.json(), "hasEarlier": page.has_earlier, "hasLater": page.has_later,
            "standing": status,
        })
    };
    Ok(reply(form, json, || {
        let directory = app.host.shown_directory(&session.began.directory);
        let costs = has_costs.then_some(&*status.costs);
        conversation::conversation(&session, &directory, team.as_ref(), &page, &status, costs)
    }))
}

pub(super) async fn cost(
    SessionPath { app, id, .. }: SessionPath,
    form: ResponseForm,
) -> ApiResult<Response> {
    let costs = app.store.costs(id).await?;
    let json = || json!({"session": id, "costs": costs, "costUsd": stored::total_cost(&costs)});
    Ok(reply(form, json, || conversation::cost(&costs)))
}

async fn message_page(
    app: &App,
    session: &Session,
    query: &MessagesQuery,
) -> Result<stored::MessagePage, StoreError> {
    let limit = query.limit.unwrap_or(PAGE).clamp(1, MAX_ROWS);
    // A requested message is in the middle of the page.
    let around = query.message.map(|message| message.saturating_add(limit as u64 / 2));
    let before = MessageNumber(query.before.or(around).unwrap_or(u64::MAX));
    stored::messages_before(&app.store, session, before, limit).await
}

pub(super) async fn messages(
    SessionPath { app, id, session }: SessionPath,
    Parameters(query): Parameters<MessagesQuery>,
    form: ResponseForm,
) -> ApiResult<Response> {
    let page = message_page(&app, &session, &query).await?;
    let json = || {
        json!({
            "messages": page.json(), "hasEarlier": page.has_earlier, "hasLater": page.has_later,
        })
    };
    Ok(reply(form, json, || conversation::messages(id, &page)))
}

#[derive(Deserialize)]
pub(super) struct MessageName {
    number: u64,
}

pub(super) async fn message_text(
    SessionPath { app, id, .. }: SessionPath,
    Path(MessageName { number }): Path<MessageName>,
    Parameters(query): Parameters<TextQuery>,
    form: ResponseForm,
) -> ApiResult<Response> {
    let message = app.store.message(id, MessageNumber(number)).await?;
    let text = message.text;
    let part = slice(&text, query.from, query.from.saturating_add(8 * SHOWN));
    let rest = text.len().saturating_sub(query.from + part.len());
    let json = || json!({"number": number, "from": query.from, "text": part, "rest": rest});
    Ok(reply(form, json, || {
        let path = format!("/api/sessions/{id}/messages/{number}/text");
        html! { (exact(part, false)) @if rest > 0 { (more(&path, query.from + part.len(), rest)) } }
    }))
}

pub(super) async fn stream(
    SessionPath { app, id, .. }: SessionPath,
    Parameters(query): Parameters<StreamQuery>,
    form: ResponseForm,
    headers: HeaderMap,
) -> Response {
    let last = headers.get("last-event-id").and_then(|last| last.to_str().ok()?.parse().ok());
    let after = last.or(query.after).map(MessageNumber);
    let viewer = app.feeds.get(id).view();
    let parts = events::follow(app.store.clone(), id, viewer, after, form);
    ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(parts)).into_response()
}

pub(super) async fn changes(
    SessionPath { app, id, .. }: SessionPath,
    form: ResponseForm,
) -> ApiResult<Response> {
    let changes = app.host.changes(id).await.map_err(ApiError::host)?;
    let json = || json!({"session": id, "turns": changes.turns, "workspaces": changes.workspaces});
    Ok(reply(form, json, || views::changes::session(id, &changes, |path| app.shown(path))))
}

pub(super) async fn export(
    SessionPath { app, id, .. }: SessionPath,
    Parameters(query): Parameters<ExportQuery>,
) -> ApiResult<Response> {
    let form = ExportForm::parse(&query.form).ok_or_else(|| {
        ApiError::bad_request("the forms are snapshot, archive, log, markdown and html")
    })?;
    let bytes = app.host.export(id, form).await.map_err(ApiError::host)?;
    let name = format!("convoke-{}.{}", views::short(id), form.extension());
    let headers = [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
    ];
    Ok((headers, bytes).into_response())
}

pub(super) async fn explain(
    State(app): Shared,
    Parameters(query): Parameters<ExplainQuery>,
    form: ResponseForm,
) -> ApiResult<Response> {
    if app.scope != Scope::All {
        return Err(ApiError::forbidden("this page shows one conversation"));
    }
    let path = query.path.filter(|path| !path.is_empty()).map(PathBuf::from);
    let report = app.host.explain(path).await.map_err(ApiError::host)?;
    let json = || serde_json::to_value(&report).unwrap_or_default();
    Ok(reply(form, json, || views::explain::report(&report, |path| app.shown(path))))
}
