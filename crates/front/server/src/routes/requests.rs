//! Requests to models: those of a turn, and the use of caches.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::Response;
use convoke_session::sent_turn::requests_of;
use serde_json::{Value, json};

use super::extract::{Parameters, SessionPath, TurnPath};
use super::given::SentPath;
use super::reply;
use super::turns::{file, range};
use crate::error::{ApiError, ApiResult};
use crate::query::{BytesQuery, ResponseForm, TurnQuery};
use crate::sent::{Sent, StoredRequest};
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

/// A stored request of the turn of a path.
pub(super) struct RequestPath(Sent);

impl FromRequestParts<Arc<App>> for RequestPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> ApiResult<Self> {
        let SentPath(sent) = SentPath::from_request_parts(parts, app).await?;
        Ok(Self(sent))
    }
}

impl RequestPath {
    fn stored(&self) -> ApiResult<&StoredRequest> {
        match &self.0 {
            Sent::Request(stored) => Ok(stored),
            _ => Err(ApiError::not_found("no such request")),
        }
    }
}

pub(super) async fn request(
    path: RequestPath,
    Parameters(query): Parameters<TurnQuery>,
    form: ResponseForm,
) -> ApiResult<Response> {
    let stored = path.stored()?;
    let json = || stored.record.json(Some(&stored.texts)).unwrap_or_default();
    Ok(reply(form, json, || views::requests::request(stored, &path.0.given(), &query)))
}

pub(super) async fn body(path: RequestPath) -> ApiResult<Response> {
    Ok(file(path.stored()?.texts.body.clone(), "request.json"))
}

pub(super) async fn bytes(
    path: RequestPath,
    Parameters(query): Parameters<BytesQuery>,
    form: ResponseForm,
) -> ApiResult<Response> {
    let stored = path.stored()?;
    let address = format!("/api{}/bytes", path.0.name().path());
    Ok(range(&query, &stored.texts.body, &address, form))
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
