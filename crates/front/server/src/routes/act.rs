//! The actions of people. Each is a POST with a JSON body.

use axum::Json;
use axum::extract::State;
use convoke_protocol::id::{MessageNumber, SessionId, TurnId};
use convoke_protocol::permission::PermissionAnswer;
use convoke_session::file_changes::{UndoAction, UndoConsent, UndoRequest};
use convoke_session::transfer::{TransferError, fork as fork_session};
use convoke_session::{NewMessage, Store as _};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Shared;
use super::extract::{JsonBody, SessionPath};
use crate::Scope;
use crate::error::{ApiError, ApiResult};
use crate::host::UndoReply;
use crate::running_sessions::{ActionError, ActionResult};

/// The longest name of a session, in characters.
const MAX_NAME_LENGTH: usize = 200;

impl From<ActionError> for ApiError {
    fn from(error: ActionError) -> Self {
        Self::conflict(error.0)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EmptyBody {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SayBody {
    person: String,
    text: String,
    #[serde(default)]
    to: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RetryBody {
    turn: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerBody {
    question: String,
    answer: PermissionAnswer,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UndoBody {
    turn: Option<u64>,
    #[serde(default)]
    confirmed: bool,
    #[serde(default)]
    shared: bool,
    #[serde(default)]
    paths: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ForkBody {
    after: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RenameBody {
    name: String,
}

pub(super) async fn create(
    State(app): Shared,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> ApiResult<Json<Value>> {
    if app.scope != Scope::All {
        return Err(ApiError::forbidden("this page shows one conversation"));
    }
    let session = app.running.create().await?;
    Ok(Json(json!({"session": session})))
}

pub(super) async fn say(
    SessionPath { app, id, .. }: SessionPath,
    JsonBody(SayBody { person, text, to }): JsonBody<SayBody>,
) -> ApiResult<Json<ActionResult>> {
    if text.trim().is_empty() {
        return Err(ApiError::bad_request("the message is empty"));
    }
    Ok(Json(app.running.say(id, NewMessage::from_person(&*person, text).to(to)).await?))
}

pub(super) async fn cancel(
    SessionPath { app, id, .. }: SessionPath,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> ApiResult<Json<ActionResult>> {
    Ok(Json(app.running.cancel(id).await?))
}

pub(super) async fn retry(
    SessionPath { app, id, .. }: SessionPath,
    JsonBody(RetryBody { turn }): JsonBody<RetryBody>,
) -> ApiResult<Json<ActionResult>> {
    Ok(Json(app.running.retry(id, TurnId(turn)).await?))
}

pub(super) async fn resume(
    SessionPath { app, id, .. }: SessionPath,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> ApiResult<Json<ActionResult>> {
    Ok(Json(app.running.resume(id).await?))
}

pub(super) async fn release(
    SessionPath { app, id, .. }: SessionPath,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> ApiResult<Json<ActionResult>> {
    Ok(Json(app.running.release(id).await?))
}

pub(super) async fn answer(
    SessionPath { app, id, .. }: SessionPath,
    JsonBody(AnswerBody { question, answer }): JsonBody<AnswerBody>,
) -> ApiResult<Json<ActionResult>> {
    Ok(Json(app.running.answer(id, &question, answer).await?))
}

pub(super) async fn undo(
    path: SessionPath,
    JsonBody(body): JsonBody<UndoBody>,
) -> ApiResult<Json<Value>> {
    undo_or_redo(path, UndoAction::Undo, body).await
}

pub(super) async fn redo(
    path: SessionPath,
    JsonBody(body): JsonBody<UndoBody>,
) -> ApiResult<Json<Value>> {
    undo_or_redo(path, UndoAction::Redo, body).await
}

async fn undo_or_redo(
    SessionPath { app, id, .. }: SessionPath,
    action: UndoAction,
    UndoBody { turn, confirmed, shared, paths }: UndoBody,
) -> ApiResult<Json<Value>> {
    let consent = match (confirmed, shared) {
        (false, _) => UndoConsent::Preview,
        (true, false) => UndoConsent::Turn,
        (true, true) => UndoConsent::Shared,
    };
    let request = UndoRequest { session: id, action, turn: turn.map(TurnId), paths, consent };
    let UndoReply { text, turn } = app.host.undo(request).await.map_err(ApiError::conflict)?;
    Ok(Json(json!({"text": text, "turn": turn, "done": confirmed})))
}

pub(super) async fn fork(
    SessionPath { app, id, .. }: SessionPath,
    JsonBody(ForkBody { after }): JsonBody<ForkBody>,
) -> ApiResult<Json<Value>> {
    if app.scope != Scope::All {
        return Err(ApiError::forbidden("this page shows one conversation"));
    }
    let copy = SessionId::generate();
    let after = after.map(MessageNumber);
    let told = fork_session(&app.store, id, after, copy, app.store.now(), None).await.map_err(
        |error| match error {
            TransferError::Store(error) => error.into(),
            other => ApiError::bad_request(other.to_string()),
        },
    )?;
    Ok(Json(json!({"session": copy, "from": id, "diagnostics": told})))
}

pub(super) async fn rename(
    SessionPath { app, id, .. }: SessionPath,
    JsonBody(RenameBody { name }): JsonBody<RenameBody>,
) -> ApiResult<Json<Value>> {
    let name = name.trim();
    if name.is_empty() || name.contains(char::is_control) || name.chars().count() > MAX_NAME_LENGTH
    {
        let problem = format!("a name is one line of 1 to {MAX_NAME_LENGTH} characters");
        return Err(ApiError::bad_request(problem));
    }
    app.store.rename(id, name).await?;
    Ok(Json(json!({"session": id, "name": name})))
}
