//! Requests to models: those of a turn, and the use of caches.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use convoke_agent::thread::ThreadStore as _;
use convoke_protocol::id::{SessionId, ThreadId, TurnId};
use convoke_protocol::request::{RequestRecord, RequestTexts};
use convoke_session::StoreError;
use convoke_session::sent_turn::requests_of;
use serde::Deserialize;
use serde_json::{Value, json};

use super::extract::{Parameters, SessionPath, TurnPath, path};
use super::reply;
use super::turns::{file, range};
use crate::error::{ApiError, ApiResult};
use crate::query::{BytesQuery, ResponseForm, TurnQuery};
use crate::{App, views};

pub(super) async fn list(
    TurnPath { app, id, turn }: TurnPath,
    Parameters(query): Parameters<TurnQuery>,
    form: ResponseForm,
) -> ApiResult<Response> {
    let requests = requests_of(&app.store, id, &turn, query.attempt).await?;
    let json = || {
        let list = requests.iter().map(|record| record.json(None).unwrap_or_default());
        let list: Vec<Value> = list.collect();
        json!({ "requests": list })
    };
    let html = || views::requests::of_turn(id, turn.id, &requests);
    Ok(reply(form, json, html))
}

#[derive(Deserialize)]
struct RequestName {
    number: u64,
}

/// A stored request of the turn of a path.
pub(super) struct RequestPath {
    id: SessionId,
    turn: TurnId,
    record: RequestRecord<()>,
    texts: RequestTexts,
}

impl FromRequestParts<Arc<App>> for RequestPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> ApiResult<Self> {
        let TurnPath { app, id, turn } = TurnPath::from_request_parts(parts, app).await?;
        let RequestName { number } = path(parts, &app).await?;
        let thread = ThreadId::of_member(id, turn.member.as_str());
        let requests = app.store.requests(&thread).await.map_err(StoreError::from)?;
        let turn = turn.id;
        let is_it = |record: &RequestRecord<()>| {
            record.number == number && record.attempt.is_some_and(|attempt| attempt.turn == turn)
        };
        let record = requests.into_iter().find(is_it);
        let missing = || ApiError::not_found(format!("turn {turn} has no stored request {number}"));
        let record = record.ok_or_else(missing)?;
        let texts = app.store.request_texts(&record.thread, number).await;
        Ok(Self { id, turn, record, texts: texts.map_err(StoreError::from)? })
    }
}

pub(super) async fn request(
    RequestPath { id, turn, record, texts }: RequestPath,
    Parameters(query): Parameters<TurnQuery>,
    form: ResponseForm,
) -> ApiResult<Response> {
    let ledger = texts.parse_ledger(&record.meta).map_err(|error| {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, format!("its ledger is damaged: {error}"))
    })?;
    let json = || record.json(Some(&texts)).unwrap_or_default();
    Ok(reply(form, json, || {
        views::requests::request(id, turn, &record, &texts.body, &ledger, &query)
    }))
}

pub(super) async fn body(RequestPath { texts, .. }: RequestPath) -> Response {
    file(texts.body, "request.json")
}

pub(super) async fn bytes(
    RequestPath { id, turn, record, texts }: RequestPath,
    Parameters(query): Parameters<BytesQuery>,
    form: ResponseForm,
) -> Response {
    let path = format!("/api/sessions/{id}/turns/{turn}/requests/{}/bytes", record.number);
    range(&query, &texts.body, &path, form)
}

pub(super) async fn cache(
    SessionPath { app, id, .. }: SessionPath,
    form: ResponseForm,
) -> ApiResult<Response> {
    let rows = app.host.cache(id).await.map_err(ApiError::host)?;
    let json = || {
        let requests: Vec<&Value> = rows.iter().map(|row| &row.json).collect();
        json!({ "requests": requests })
    };
    Ok(reply(form, json, || views::requests::cache(id, &rows)))
}
