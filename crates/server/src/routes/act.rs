//! The actions of people. Each is a POST with a JSON body.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use convoke_agent::id::now;
use convoke_agent::permission::PermissionAnswer;
use convoke_session::file_changes::UndoRequest;
use convoke_session::transfer::{TransferError, fork as fork_session};
use convoke_session::{MessageNumber, PersonMessage, SessionId, Store as _, TurnId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Shared;
use crate::error::{ApiError, ApiResult};
use crate::held::{ActionError, Done};
use crate::{App, Scope};

type Body<T> = Result<Json<T>, JsonRejection>;

/// The longest name of a session, in characters.
const LONGEST_NAME: usize = 200;

impl From<ActionError> for ApiError {
    fn from(error: ActionError) -> Self {
        Self::conflict(error.0)
    }
}

/// Returns what a body says, or what is wrong with it.
fn given<T>(body: Body<T>) -> ApiResult<T> {
    match body {
        Ok(Json(given)) => Ok(given),
        Err(rejected) => Err(ApiError::new(rejected.status(), rejected.body_text())),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Say {
    person: String,
    text: String,
    #[serde(default)]
    to: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Retry {
    turn: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    question: String,
    answer: PermissionAnswer,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Undo {
    turn: Option<u64>,
    #[serde(default)]
    confirmed: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fork {
    after: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rename {
    name: String,
}

pub(super) async fn create(State(app): Shared, body: Body<Nothing>) -> ApiResult<Json<Value>> {
    let Nothing {} = given(body)?;
    if app.scope != Scope::All {
        return Err(ApiError::forbidden("this page shows one conversation"));
    }
    let session = app.held.create().await?;
    Ok(Json(json!({"session": session})))
}

/// Finds the session of an action.
async fn session(app: &App, id: &str) -> ApiResult<SessionId> {
    let id = app.session_id(id)?;
    app.store.session(id).await?;
    Ok(id)
}

pub(super) async fn say(
    State(app): Shared,
    Path(id): Path<String>,
    body: Body<Say>,
) -> ApiResult<Json<Done>> {
    let Say { person, text, to } = given(body)?;
    let id = session(&app, &id).await?;
    if text.trim().is_empty() {
        return Err(ApiError::bad_request("the message is empty"));
    }
    Ok(Json(app.held.say(id, PersonMessage::new(&*person, text).to(to)).await?))
}

pub(super) async fn cancel(
    State(app): Shared,
    Path(id): Path<String>,
    body: Body<Nothing>,
) -> ApiResult<Json<Done>> {
    let Nothing {} = given(body)?;
    let id = session(&app, &id).await?;
    Ok(Json(app.held.cancel(id).await?))
}

pub(super) async fn retry(
    State(app): Shared,
    Path(id): Path<String>,
    body: Body<Retry>,
) -> ApiResult<Json<Done>> {
    let Retry { turn } = given(body)?;
    let id = session(&app, &id).await?;
    Ok(Json(app.held.retry(id, TurnId(turn)).await?))
}

pub(super) async fn resume(
    State(app): Shared,
    Path(id): Path<String>,
    body: Body<Nothing>,
) -> ApiResult<Json<Done>> {
    let Nothing {} = given(body)?;
    let id = session(&app, &id).await?;
    Ok(Json(app.held.resume(id).await?))
}

pub(super) async fn release(
    State(app): Shared,
    Path(id): Path<String>,
    body: Body<Nothing>,
) -> ApiResult<Json<Done>> {
    let Nothing {} = given(body)?;
    let id = session(&app, &id).await?;
    Ok(Json(app.held.release(id).await?))
}

pub(super) async fn answer(
    State(app): Shared,
    Path(id): Path<String>,
    body: Body<Answer>,
) -> ApiResult<Json<Done>> {
    let Answer { question, answer } = given(body)?;
    let id = session(&app, &id).await?;
    Ok(Json(app.held.answer(id, &question, answer).await?))
}

pub(super) async fn undo(
    State(app): Shared,
    Path(id): Path<String>,
    body: Body<Undo>,
) -> ApiResult<Json<Value>> {
    let Undo { turn, confirmed } = given(body)?;
    let session = session(&app, &id).await?;
    let request = UndoRequest { session, turn: turn.map(TurnId), is_confirmed: confirmed };
    let text = app.host.undo(request).await.map_err(ApiError::conflict)?;
    Ok(Json(json!({"text": text, "done": confirmed})))
}

pub(super) async fn fork(
    State(app): Shared,
    Path(id): Path<String>,
    body: Body<Fork>,
) -> ApiResult<Json<Value>> {
    let Fork { after } = given(body)?;
    let session = session(&app, &id).await?;
    if app.scope != Scope::All {
        return Err(ApiError::forbidden("this page shows one conversation"));
    }
    let copy = SessionId::generate();
    let after = after.map(MessageNumber);
    let told =
        fork_session(&app.store, session, after, copy, now()).await.map_err(
            |error| match error {
                TransferError::Store(error) => error.into(),
                other => ApiError::bad_request(other.to_string()),
            },
        )?;
    Ok(Json(json!({"session": copy, "from": session, "diagnostics": told})))
}

pub(super) async fn rename(
    State(app): Shared,
    Path(id): Path<String>,
    body: Body<Rename>,
) -> ApiResult<Json<Value>> {
    let Rename { name } = given(body)?;
    let session = session(&app, &id).await?;
    let name = name.trim();
    if name.is_empty() || name.contains(char::is_control) || name.chars().count() > LONGEST_NAME {
        let problem = format!("a name is one line of 1 to {LONGEST_NAME} characters");
        return Err(ApiError::bad_request(problem));
    }
    app.store.rename(session, name).await?;
    Ok(Json(json!({"session": session, "name": name})))
}
