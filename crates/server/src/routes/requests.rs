//! Requests to models: those of a turn, and what caches could serve.

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use convoke_agent::id::ThreadId;
use convoke_agent::milliseconds;
use convoke_agent::thread::{RequestRecord, RequestTexts, ThreadStore as _};
use convoke_session::sent_turn::requests_of;
use convoke_session::{SessionId, Store as _, StoreError, Turn};
use serde_json::{Value, json};

use super::turns::{file, find_turn, range};
use super::{Shared, reply};
use crate::error::{ApiError, ApiResult};
use crate::query::{BytesQuery, Form, TurnQuery};
use crate::{App, views};

pub(super) async fn list(
    State(app): Shared,
    Path((id, turn)): Path<(String, String)>,
    Query(query): Query<TurnQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let turn = find_turn(&app, id, &turn).await?;
    let requests = requests_of(&app.store, id, &turn, query.attempt).await?;
    let json = || {
        let list: Vec<Value> = requests.iter().map(|record| request_json(record, None)).collect();
        json!({ "requests": list })
    };
    let html = || views::requests::of_turn(id, turn.id, &requests);
    Ok(reply(Form::of(&headers), json, html))
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
    let thread = ThreadId::of_member(id, turn.member.as_str());
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
        views::requests::request(id, turn.id, &record, &texts.body, &ledger, &query)
    }))
}

pub(super) async fn body(
    State(app): Shared,
    Path((id, turn, number)): Path<(String, String, u64)>,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let (_, _, texts) = found_request(&app, id, &turn, number).await?;
    Ok(file(texts.body, "request.json"))
}

pub(super) async fn bytes(
    State(app): Shared,
    Path((id, turn, number)): Path<(String, String, u64)>,
    Query(query): Query<BytesQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let (turn, _, texts) = found_request(&app, id, &turn, number).await?;
    let path = format!("/api/sessions/{id}/turns/{}/requests/{number}/bytes", turn.id);
    Ok(range(&query, &texts.body, &path, &headers))
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
    Ok(reply(Form::of(&headers), json, || views::requests::cache(id, &rows)))
}
