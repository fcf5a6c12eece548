//! Extractors: the session, the turn and the attempt that a path names, and the body of an action.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use convoke_protocol::id::{SessionId, TurnId};
use convoke_protocol::session::Session;
use convoke_protocol::turn::Turn;
use convoke_session::rows::find_turn;
use convoke_session::{SentTurn, Store as _};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::App;
use crate::error::{ApiError, ApiResult};
use crate::query::ResponseForm;

/// The session of a path.
pub(super) struct SessionPath {
    pub app: Arc<App>,
    pub id: SessionId,
    pub session: Session,
}

/// A turn of the session of a path.
pub(super) struct TurnPath {
    pub app: Arc<App>,
    pub id: SessionId,
    pub turn: Turn,
}

/// The texts of an attempt: the query's, else the last of the turn of a path.
pub(super) struct AttemptPath {
    pub app: Arc<App>,
    pub id: SessionId,
    pub sent: SentTurn,
}

/// The parameters of a request.
pub(super) struct Parameters<T>(pub T);

/// The JSON body of an action.
pub(super) struct JsonBody<T>(pub T);

#[derive(Deserialize)]
struct SessionName {
    id: String,
}

#[derive(Deserialize)]
struct TurnName {
    turn: String,
}

#[derive(Deserialize)]
struct AttemptQuery {
    attempt: Option<u32>,
}

impl FromRequestParts<Arc<App>> for SessionPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> ApiResult<Self> {
        let SessionName { id } = path(parts, app).await?;
        let id = app.session_id(&id)?;
        let session = app.store.session(id).await?;
        Ok(Self { app: Arc::clone(app), id, session })
    }
}

impl FromRequestParts<Arc<App>> for TurnPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> ApiResult<Self> {
        let SessionPath { app, id, .. } = SessionPath::from_request_parts(parts, app).await?;
        let TurnName { turn } = path(parts, &app).await?;
        let turn = read_turn(&app, id, &turn).await?;
        Ok(Self { app, id, turn })
    }
}

impl FromRequestParts<Arc<App>> for AttemptPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> ApiResult<Self> {
        let TurnPath { app, id, turn } = TurnPath::from_request_parts(parts, app).await?;
        let Parameters(AttemptQuery { attempt }) =
            Parameters::from_request_parts(parts, &app).await?;
        let sent = read_sent(&app, id, turn, attempt).await?;
        Ok(Self { app, id, sent })
    }
}

impl FromRequestParts<Arc<App>> for ResponseForm {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Infallible> {
        Ok(Self::from_headers(&parts.headers))
    }
}

impl<T: DeserializeOwned> FromRequestParts<Arc<App>> for Parameters<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> ApiResult<Self> {
        match Query::from_request_parts(parts, app).await {
            Ok(Query(given)) => Ok(Self(given)),
            Err(rejected) => Err(ApiError::new(rejected.status(), rejected.body_text())),
        }
    }
}

impl<T: DeserializeOwned> FromRequest<Arc<App>> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> ApiResult<Self> {
        match Json::from_request(request, app).await {
            Ok(Json(given)) => Ok(Self(given)),
            Err(rejected) => Err(ApiError::new(rejected.status(), rejected.body_text())),
        }
    }
}

/// Reads a turn of a session by its number in a path.
pub(super) async fn read_turn(app: &App, session: SessionId, turn: &str) -> ApiResult<Turn> {
    let id = turn.parse().map_err(|_| ApiError::not_found("no such turn"))?;
    let turn = find_turn(&app.store, session, TurnId(id)).await?;
    turn.ok_or_else(|| ApiError::not_found(format!("no turn {id}")))
}

/// Reads the texts of an attempt, by default the last.
pub(super) async fn read_sent(
    app: &App,
    session: SessionId,
    turn: Turn,
    attempt: Option<u32>,
) -> ApiResult<SentTurn> {
    let (id, state) = (turn.id, turn.state.as_str());
    let sent = SentTurn::read(&app.store, session, turn, attempt).await?;
    sent.ok_or_else(|| {
        ApiError::not_found(match attempt {
            None => format!("nothing was sent for turn {id}: it is {state}"),
            Some(attempt) => format!("turn {id} has no attempt {attempt}"),
        })
    })
}

/// Reads some parameters of a path.
pub(super) async fn path<T: DeserializeOwned + Send>(
    parts: &mut Parts,
    app: &Arc<App>,
) -> ApiResult<T> {
    let read = Path::from_request_parts(parts, app).await;
    let Path(names) =
        read.map_err(|rejected| ApiError::new(rejected.status(), rejected.body_text()))?;
    Ok(names)
}
