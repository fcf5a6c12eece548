//! The views, as JSON and as HTML.

use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, ETAG, HeaderName};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use convoke_agent::milliseconds;
use convoke_agent::thread::{RequestRecord, RequestTexts, ThreadStore as _};
use convoke_session::diff::diff as prompt_diff;
use convoke_session::sent_turn::{self, requests_of};
use convoke_session::{
    Content, MessageNumber, SentTurn, Session, SessionId, Store as _, StoreError, Turn, TurnId,
};
use maud::html;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{fragment, reply, turn_id};
use crate::error::{ApiError, ApiResult};
use crate::host::ExportForm;
use crate::query::{
    ExplainQuery, ExportQuery, Form, ListQuery, MessagesQuery, StreamQuery, TextQuery, TurnQuery,
    TurnsQuery,
};
use crate::stored::{self, ListedSession, MOST_ROWS, PAGE, Standing};
use crate::views::conversation::more;
use crate::views::inspector::{self, Around};
use crate::views::sessions::{Directory, Found};
use crate::views::text::{SHOWN, exact, slice};
use crate::views::{self, conversation};
use crate::{App, Scope, stream as events};

/// The most messages that a search finds.
const MOST_FOUND: usize = 50;
/// The other turns that a turn can be compared with, the latest ones.
const OTHERS: u64 = 200;

type Shared = State<Arc<App>>;

pub(super) async fn sessions(
    State(app): Shared,
    Query(query): Query<ListQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let mut summaries = app.store.sessions().await?;
    if let Scope::One(only) = app.scope {
        summaries.retain(|summary| summary.id == only);
    }
    let words: Vec<String> = query
        .q
        .split_whitespace()
        .filter(|word| word.contains(char::is_alphanumeric))
        .map(str::to_owned)
        .collect();
    let mut has_more = false;
    let found = if words.is_empty() {
        None
    } else {
        let within: Vec<SessionId> = summaries.iter().map(|summary| summary.id).collect();
        // One more than is shown tells whether there are more.
        let mut found = app.store.search(&words, Some(&within), MOST_FOUND + 1).await?;
        has_more = found.len() > MOST_FOUND;
        found.truncate(MOST_FOUND);
        summaries.retain(|summary| found.iter().any(|message| message.session == summary.id));
        Some(found)
    };
    let total = summaries.len();
    let form = Form::of(&headers);
    let mut rows = Vec::with_capacity(total);
    for summary in summaries {
        rows.push(ListedSession::read(&app.store, summary).await?);
    }
    let json = || {
        let sessions: Vec<Value> = rows.iter().map(ListedSession::json).collect();
        json!({
            "version": 1, "sessions": sessions, "total": total, "messages": found,
            "isComplete": !has_more,
        })
    };
    Ok(reply(form, json, || {
        let mut directories: Vec<Directory> = Vec::new();
        for row in rows.iter().cloned() {
            let shown = app.host.shown_directory(&row.summary.directory);
            match directories.iter_mut().find(|directory| directory.shown == shown) {
                Some(directory) => directory.sessions.push(row),
                None => directories.push(Directory { shown, sessions: vec![row] }),
            }
        }
        let no_new = match app.scope {
            Scope::All => app.host.no_new_session(),
            Scope::One(_) => Some("this page shows one conversation".to_owned()),
        };
        let found = found.as_deref().map(|messages| Found { messages, has_more });
        views::sessions::list(&directories, &query.q, found.as_ref(), no_new.as_deref())
    }))
}

pub(super) async fn session(
    State(app): Shared,
    Path(id): Path<String>,
    Query(query): Query<MessagesQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let session = app.store.session(id).await?;
    let page = message_page(&app, &session, &query).await?;
    let is_held = app.store.is_held(id).await?;
    let standing = match app.feeds.of(id).standing() {
        Some(standing) if standing.head == session.head.0 => standing,
        _ => Standing::read(&app.store, session.clone(), is_held).await?,
    };
    let team = stored::team_of(&session);
    let json = || {
        let messages: Vec<Value> = page.messages.iter().map(stored::ShownMessage::json).collect();
        let began = &session.began;
        let mut members = Vec::new();
        for member in team.iter().flat_map(|team| &team.members) {
            members.push(json!({"name": member.name, "human": member.agent().is_none()}));
        }
        json!({
            "session": id, "name": began.name, "directory": began.directory,
            "rehearsal": began.rehearsal, "held": is_held,
            "createdAt": began.created_at, "updatedAt": session.updated_at,
            "task": session.state.task, "costs": standing.costs, "members": members,
            "messages": messages, "hasEarlier": page.has_earlier, "standing": standing,
        })
    };
    Ok(reply(Form::of(&headers), json, || {
        let directory = app.host.shown_directory(&session.began.directory);
        conversation::conversation(&session, &directory, team.as_ref(), &page, &standing)
    }))
}

async fn message_page(
    app: &App,
    session: &Session,
    query: &MessagesQuery,
) -> Result<stored::MessagePage, StoreError> {
    let before = MessageNumber(query.before.unwrap_or(u64::MAX));
    let limit = query.limit.unwrap_or(PAGE).clamp(1, MOST_ROWS);
    stored::messages_before(&app.store, session, before, limit).await
}

pub(super) async fn messages(
    State(app): Shared,
    Path(id): Path<String>,
    Query(query): Query<MessagesQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let session = app.store.session(id).await?;
    let page = message_page(&app, &session, &query).await?;
    let json = || {
        let messages: Vec<Value> = page.messages.iter().map(stored::ShownMessage::json).collect();
        json!({"messages": messages, "hasEarlier": page.has_earlier})
    };
    Ok(reply(Form::of(&headers), json, || conversation::messages(id, &page)))
}

pub(super) async fn message_text(
    State(app): Shared,
    Path((id, number)): Path<(String, u64)>,
    Query(query): Query<TextQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let session = app.store.session(id).await?;
    let message = app.store.message(id, MessageNumber(number)).await?;
    let shown = stored::shown(&app.store, &session, vec![message]).await?;
    let text = shown.first().map(|message| message.text.as_str()).unwrap_or_default();
    let part = slice(text, query.from, query.from.saturating_add(8 * SHOWN));
    let rest = text.len().saturating_sub(query.from + part.len());
    let json = || json!({"number": number, "from": query.from, "text": part, "rest": rest});
    Ok(reply(Form::of(&headers), json, || {
        let path = format!("/api/sessions/{id}/messages/{number}/text");
        html! { (exact(part, false)) @if rest > 0 { (more(&path, query.from + part.len(), rest)) } }
    }))
}

pub(super) async fn stream(
    State(app): Shared,
    Path(id): Path<String>,
    Query(query): Query<StreamQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    app.store.session(id).await?;
    let last = headers.get("last-event-id").and_then(|last| last.to_str().ok()?.parse().ok());
    let after = last.or(query.after).map(MessageNumber);
    let viewer = app.feeds.of(id).view();
    let form = Form::of(&headers);
    let parts = events::follow(app.store.clone(), id, viewer, after, form);
    Ok(([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(parts)).into_response())
}

pub(super) async fn turns(
    State(app): Shared,
    Path(id): Path<String>,
    Query(query): Query<TurnsQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let session = app.store.session(id).await?;
    let limit = query.limit.unwrap_or(PAGE).clamp(1, MOST_ROWS);
    let turns = app.store.turns_after(id, TurnId(query.after), limit).await?;
    let last = turns.last().map(|turn| turn.id);
    let next = last.filter(|last| *last < session.state.last_turn);
    let json = || json!({"turns": turns, "next": next});
    Ok(reply(Form::of(&headers), json, || inspector::turns(id, &turns, next)))
}

async fn find_turn(app: &App, session: SessionId, turn: &str) -> ApiResult<Turn> {
    // A session that is not there has no turns either, and says so.
    app.store.session(session).await?;
    let id = turn_id(turn)?;
    let turn = sent_turn::find_turn(&app.store, session, id).await?;
    turn.ok_or_else(|| ApiError::not_found(format!("there is no turn {id}")))
}

async fn read_sent(
    app: &App,
    session: SessionId,
    turn: &str,
    attempt: Option<u32>,
) -> ApiResult<SentTurn> {
    let turn = find_turn(app, session, turn).await?;
    let (id, state) = (turn.id, turn.state.as_str());
    let sent = SentTurn::read(&app.store, session, turn, attempt).await?;
    sent.ok_or_else(|| {
        ApiError::not_found(match attempt {
            None => format!("nothing was sent for turn {id}: it is {state}"),
            Some(attempt) => format!("turn {id} has no attempt {attempt}"),
        })
    })
}

pub(super) async fn turn(
    State(app): Shared,
    Path((id, turn)): Path<(String, String)>,
    Query(query): Query<TurnQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let sent = read_sent(&app, id, &turn, query.attempt).await?;
    if Form::of(&headers) == Form::Json {
        return Ok(reply(Form::Json, || sent.json().unwrap_or_default(), || html! {}));
    }
    let requests = requests_of(&app.store, id, &sent.turn, Some(sent.attempt.number)).await?;
    let after = TurnId(sent.turn.id.0.saturating_sub(OTHERS / 2));
    let near = app.store.turns_after(id, after, usize::try_from(OTHERS).unwrap_or(0)).await?;
    let is_other = |turn: &&Turn| {
        turn.member == sent.turn.member && turn.id != sent.turn.id && turn.attempts > 0
    };
    let others = near.iter().filter(is_other).map(|turn| turn.id).rev().take(20).collect();
    Ok(fragment(&inspector::turn(id, &sent, &Around { requests, others }, &query)))
}

pub(super) async fn prompt(
    State(app): Shared,
    Path((id, turn)): Path<(String, String)>,
    Query(query): Query<TurnQuery>,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let sent = read_sent(&app, id, &turn, query.attempt).await?;
    Ok(file(sent.prompt, "prompt.txt"))
}

pub(super) async fn system(
    State(app): Shared,
    Path((id, turn)): Path<(String, String)>,
    Query(query): Query<TurnQuery>,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let sent = read_sent(&app, id, &turn, query.attempt).await?;
    let system = sent.system.ok_or_else(|| ApiError::not_found("it has no system text"))?;
    Ok(file(system, "system.txt"))
}

/// Returns exact bytes as a file, with the hash that the store has of them.
fn file(text: String, name: &'static str) -> Response {
    let hash = Content::new(&*text).reference().hash.to_string();
    let headers = [
        (CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
        (ETAG, format!("\"{hash}\"")),
        (HeaderName::from_static("x-content-sha256"), hash),
    ];
    (headers, text).into_response()
}

pub(super) async fn ledger(
    State(app): Shared,
    Path((id, turn)): Path<(String, String)>,
    Query(query): Query<TurnQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let sent = read_sent(&app, id, &turn, query.attempt).await?;
    let json = || serde_json::from_str(&sent.ledger_json).unwrap_or_default();
    Ok(reply(Form::of(&headers), json, || inspector::ledger_view(&sent.ledger, query.by)))
}

/// The parameters of a range of bytes.
#[derive(Debug, Deserialize)]
pub(super) struct BytesQuery {
    attempt: Option<u32>,
    #[serde(default)]
    target: String,
    #[serde(default)]
    from: usize,
    to: Option<usize>,
    #[serde(default)]
    whitespace: u8,
}

impl BytesQuery {
    /// Returns a range of a text, and a button for what follows it.
    fn reply(&self, text: &str, path: &str, headers: &HeaderMap) -> Response {
        let to = self.to.unwrap_or(text.len()).min(text.len());
        let part = slice(text, self.from, to.min(self.from.saturating_add(8 * SHOWN)));
        let end = self.from + part.len();
        let json = || json!({"from": self.from, "to": end, "text": part});
        reply(Form::of(headers), json, || {
            let Self { target, whitespace, .. } = self;
            let attempt = self.attempt.map_or_else(String::new, |it| format!("&attempt={it}"));
            let next = format!(
                "{path}?target={target}{attempt}&from={end}&to={to}&whitespace={whitespace}"
            );
            html! {
                (exact(part, *whitespace != 0))
                @if end < to && !part.is_empty() { button.more type="button" data-more=(next) { "Show " (views::number((to - end) as u64)) " more bytes" } }
            }
        })
    }
}

pub(super) async fn bytes(
    State(app): Shared,
    Path((id, turn)): Path<(String, String)>,
    Query(query): Query<BytesQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let sent = read_sent(&app, id, &turn, query.attempt).await?;
    let text = match query.target.as_str() {
        "system" => sent.system.unwrap_or_default(),
        _ => sent.prompt,
    };
    let path = format!("/api/sessions/{id}/turns/{}/bytes", sent.turn.id);
    Ok(query.reply(&text, &path, &headers))
}

pub(super) async fn steps(
    State(app): Shared,
    Path((id, turn)): Path<(String, String)>,
    Query(query): Query<TurnQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let sent = read_sent(&app, id, &turn, query.attempt).await?;
    let so_far = sent.came_back(&app.store, id).await?;
    let json = || {
        let events: Vec<Value> = so_far
            .events
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_default())
            .collect();
        json!({"events": events, "partial": so_far.said})
    };
    Ok(reply(Form::of(&headers), json, || inspector::steps(&so_far.events, &so_far.said)))
}

pub(super) async fn changes(
    State(app): Shared,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    app.store.session(id).await?;
    let changes = app.host.changes(id).await.map_err(ApiError::host)?;
    let json = || json!({"session": id, "turns": changes});
    Ok(reply(Form::of(&headers), json, || inspector::changes(id, &changes, true)))
}

pub(super) async fn turn_changes(
    State(app): Shared,
    Path((id, turn)): Path<(String, String)>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let turn = find_turn(&app, id, &turn).await?.id;
    let mut changes = app.host.changes(id).await.map_err(ApiError::host)?;
    changes.retain(|change| change.turn == turn.0);
    let json = || json!({"session": id, "turns": changes});
    Ok(reply(Form::of(&headers), json, || inspector::changes(id, &changes, false)))
}

pub(super) async fn diff(
    State(app): Shared,
    Path((id, turn, other)): Path<(String, String, String)>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let (a, b) = (turn_id(&turn)?, turn_id(&other)?);
    let (earlier, later) = (a.min(b), a.max(b));
    let found = prompt_diff(&app.store, id, earlier, later).await?;
    let sent = read_sent(&app, id, &later.to_string(), None).await?;
    let json = || {
        json!({
            "session": id, "earlier": earlier, "later": later,
            "reusableBytes": found.reusable_bytes(), "diff": found,
        })
    };
    Ok(reply(Form::of(&headers), json, || {
        views::diff::prompts(id, (earlier, later), &found, &sent.ledger)
    }))
}

pub(super) async fn requests(
    State(app): Shared,
    Path((id, turn)): Path<(String, String)>,
    Query(query): Query<TurnQuery>,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let turn = find_turn(&app, id, &turn).await?;
    let requests = requests_of(&app.store, id, &turn, query.attempt).await?;
    let list: Vec<Value> = requests.iter().map(|record| request_json(record, None)).collect();
    Ok(reply(Form::Json, || json!({"requests": list}), || html! {}))
}

/// Returns a request as JSON, as `sessions show --request --json` writes it.
fn request_json(record: &RequestRecord<()>, texts: Option<&RequestTexts>) -> Value {
    let RequestRecord { thread, number, attempt, meta, outcome, .. } = record;
    let headers = meta.headers.iter().map(|(name, value)| (name.clone(), json!(value)));
    let headers: serde_json::Map<String, Value> = headers.collect();
    let mut value = json!({
        "thread": thread, "request": number,
        "turn": attempt.map(|it| it.turn), "attempt": attempt.map(|it| it.attempt),
        "at": meta.at, "path": meta.path, "purpose": meta.purpose, "bytes": meta.bytes,
        "unchangedBytes": meta.unchanged_bytes, "redacted": meta.redacted, "wire": meta.wire,
        "sentSha256": meta.sent_sha256, "masked": meta.masked, "headers": headers,
        "failedAttempts": outcome.failed, "ended": outcome.end, "usage": outcome.usage,
        "model": outcome.model, "status": outcome.status, "firstByteMs": outcome.first_byte.map(milliseconds::whole),
        "elapsedMs": outcome.elapsed.map(milliseconds::whole), "cacheMiss": outcome.cache_miss,
    });
    if let Some(texts) = texts {
        value["ledger"] = json!(texts.parse_ledger(meta).unwrap_or_default());
        value["body"] = json!(texts.body);
    }
    value
}

async fn found_request(
    app: &App,
    id: SessionId,
    turn: &str,
    number: u64,
) -> ApiResult<(Turn, RequestRecord<()>, RequestTexts)> {
    let turn = find_turn(app, id, turn).await?;
    let thread = convoke_agent::id::ThreadId::of_member(id, turn.member.as_str());
    let requests = app.store.requests(&thread).await.map_err(StoreError::from)?;
    let is_it = |record: &RequestRecord<()>| {
        record.number == number && record.attempt.is_some_and(|attempt| attempt.turn == turn.id)
    };
    let record = requests.into_iter().find(is_it);
    let record = record.ok_or_else(|| {
        ApiError::not_found(format!("turn {} has no stored request {number}", turn.id))
    })?;
    let texts = app.store.request_texts(&record.thread, number).await.map_err(StoreError::from)?;
    Ok((turn, record, texts))
}

pub(super) async fn request(
    State(app): Shared,
    Path((id, turn, number)): Path<(String, String, u64)>,
    Query(query): Query<TurnQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let (turn, record, texts) = found_request(&app, id, &turn, number).await?;
    let ledger = texts.parse_ledger(&record.meta).map_err(|error| {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, format!("its ledger is damaged: {error}"))
    })?;
    let json = || request_json(&record, Some(&texts));
    Ok(reply(Form::of(&headers), json, || {
        inspector::request(id, turn.id, &record, &texts.body, &ledger, &query)
    }))
}

pub(super) async fn request_body(
    State(app): Shared,
    Path((id, turn, number)): Path<(String, String, u64)>,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let (_, _, texts) = found_request(&app, id, &turn, number).await?;
    Ok(file(texts.body, "request.json"))
}

pub(super) async fn request_bytes(
    State(app): Shared,
    Path((id, turn, number)): Path<(String, String, u64)>,
    Query(query): Query<BytesQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let (turn, _, texts) = found_request(&app, id, &turn, number).await?;
    let path = format!("/api/sessions/{id}/turns/{}/requests/{number}/bytes", turn.id);
    Ok(query.reply(&texts.body, &path, &headers))
}

pub(super) async fn cache(
    State(app): Shared,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    app.store.session(id).await?;
    let rows = app.host.cache(id).await.map_err(ApiError::host)?;
    let json = || {
        let requests: Vec<&Value> = rows.iter().map(|row| &row.json).collect();
        json!({ "requests": requests })
    };
    Ok(reply(Form::of(&headers), json, || inspector::cache(id, &rows)))
}

pub(super) async fn export(
    State(app): Shared,
    Path(id): Path<String>,
    Query(query): Query<ExportQuery>,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let form = ExportForm::parse(&query.form).ok_or_else(|| {
        ApiError::bad_request("the forms are snapshot, archive, markdown and html")
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
    Query(query): Query<ExplainQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    if app.scope != Scope::All {
        return Err(ApiError::forbidden("this page shows one conversation"));
    }
    let path = query.path.filter(|path| !path.is_empty()).map(PathBuf::from);
    let report = app.host.explain(path).await.map_err(ApiError::host)?;
    let json = || serde_json::to_value(&report).unwrap_or_default();
    Ok(reply(Form::of(&headers), json, || {
        views::explain::report(&report, |path| app.host.shown_directory(path))
    }))
}
