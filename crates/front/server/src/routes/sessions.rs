//! The list of sessions, conversations and their streams, exports, and `explain`.

use std::path::PathBuf;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use convoke_agent::thread::ThreadStore as _;
use convoke_protocol::id::{MessageNumber, SessionId, ThreadId, TurnId};
use convoke_protocol::request::RequestRecord;
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
    ChangesQuery, ExplainQuery, ExportQuery, ListQuery, MessagesQuery, ResponseForm, StreamQuery,
    TextQuery,
};
use crate::stored::{self, ListedSession, MAX_ROWS, PAGE, SessionStatus};
use crate::views::conversation::SentRow;
use crate::views::conversation::more;
use crate::views::sessions::{FoundMessages, List};
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
    let (mut summaries, found) = found_sessions(&app, &query.q).await?;
    let since = query.since(app.store.now().0);
    let project = query.project.to_lowercase();
    summaries.retain(|summary| {
        let is_there = project.is_empty() || summary.directory.to_lowercase().contains(&project);
        is_there && since.is_none_or(|since| summary.updated_at.0 >= since)
    });
    if !query.shows_own() {
        summaries.clear();
    }
    let page = match form {
        ResponseForm::Json => MAX_ROWS,
        ResponseForm::Html => PAGE,
    };
    let limit = query.limit.unwrap_or(page).clamp(1, MAX_ROWS);
    // A state is known when a session is read: those with another one are read too, and left out.
    let total = summaries.len();
    let mut rows = Vec::new();
    let mut end = query.from.min(total);
    for summary in summaries.into_iter().skip(query.from) {
        if rows.len() == limit {
            break;
        }
        end += 1;
        let has_question = app.feeds.has_question(summary.id);
        let row = ListedSession::read(&app.store, summary, has_question).await?;
        if query.state.is_empty() || row.state.as_str() == query.state {
            rows.push(row);
        }
    }
    let next = (end < total).then_some(end);
    let total = if query.state.is_empty() || next.is_some() { total } else { rows.len() };
    let json = || {
        let sessions: Vec<Value> = rows.iter().map(ListedSession::json).collect();
        json!({
            "version": 1, "sessions": sessions, "total": total, "next": next,
            "messages": found.as_ref().map(|found| &found.messages),
            "isComplete": found.as_ref().is_none_or(|found| !found.has_more),
        })
    };
    let programs = match app.scope {
        Scope::All => app.host.other_sessions().programs(),
        Scope::One(_) => Vec::new(),
    };
    Ok(reply(form, json, || {
        let sessions = rows
            .iter()
            .map(|row| (row, app.host.shown_directory(&row.summary.directory)))
            .collect();
        let list = List { sessions, query: &query, total, next, programs: &programs };
        if query.from > 0 {
            return views::sessions::rows(&list);
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

/// The turns of a session, the last ones, with their requests.
pub(super) async fn waterfall(
    SessionPath { app, id, session }: SessionPath,
    form: ResponseForm,
) -> ApiResult<Response> {
    let before = session.state.last_turn.0.saturating_sub(PAGE as u64);
    let turns = app.store.turns_after(id, TurnId(before), PAGE).await?;
    let mut members: Vec<_> = turns.iter().map(|turn| turn.member.clone()).collect();
    members.sort();
    members.dedup();
    let mut requests = Vec::new();
    for member in members {
        let thread = ThreadId::of_member(id, member.as_str());
        requests.extend(app.store.requests(&thread).await.map_err(StoreError::from)?);
    }
    let mut rows = Vec::new();
    for turn in turns {
        let attempt = app.store.attempts(id, turn.id).await?.pop();
        let of_turn = |it: &&RequestRecord<()>| it.attempt.is_some_and(|at| at.turn == turn.id);
        let requests = requests.iter().filter(of_turn).cloned().collect();
        rows.push(SentRow { turn, attempt, requests });
    }
    let json = || {
        let turns = rows.iter().map(|row| json!({
            "turn": row.turn, "attempt": row.attempt,
            "requests": row.requests.iter().map(|it| it.json(None).unwrap_or_default()).collect::<Vec<_>>(),
        }));
        json!({ "turns": turns.collect::<Vec<_>>() })
    };
    Ok(reply(form, json, || conversation::waterfall(id, &rows)))
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
    Parameters(ChangesQuery { layout }): Parameters<ChangesQuery>,
    form: ResponseForm,
) -> ApiResult<Response> {
    let changes = app.host.changes(id).await.map_err(ApiError::host)?;
    let json = || json!({"session": id, "turns": changes.turns, "workspaces": changes.workspaces});
    Ok(reply(form, json, || views::changes::session(id, &changes, layout, |path| app.shown(path))))
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
