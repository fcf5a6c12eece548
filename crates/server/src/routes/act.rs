//! The actions of people. Each is a POST with a JSON body.

use axum::Json;
use axum::extract::State;
use convoke_agent::id::now;
use convoke_agent::permission::PermissionAnswer;
use convoke_session::file_changes::{UndoConsent, UndoRequest};
use convoke_session::transfer::{TransferError, fork as fork_session};
use convoke_session::{MessageNumber, NewMessage, SessionId, Store as _, TurnId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Shared;
use super::extract::{Given, InSession};
use crate::Scope;
use crate::error::{ApiError, ApiResult};
use crate::held::{ActionError, Done};

/// The longest name of a session, in characters.
const LONGEST_NAME: usize = 200;

impl From<ActionError> for ApiError {
    fn from(error: ActionError) -> Self {
        Self::conflict(error.0)
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
    #[serde(default)]
    shared: bool,
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

pub(super) async fn create(
    State(app): Shared,
    Given(Nothing {}): Given<Nothing>,
) -> ApiResult<Json<Value>> {
    if app.scope != Scope::All {
        return Err(ApiError::forbidden("this page shows one conversation"));
    }
    let session = app.held.create().await?;
    Ok(Json(json!({"session": session})))
}

pub(super) async fn say(
    InSession { app, id, .. }: InSession,
    Given(Say { person, text, to }): Given<Say>,
) -> ApiResult<Json<Done>> {
    if text.trim().is_empty() {
        return Err(ApiError::bad_request("the message is empty"));
    }
    Ok(Json(app.held.say(id, NewMessage::from_person(&*person, text).to(to)).await?))
}

pub(super) async fn cancel(
    InSession { app, id, .. }: InSession,
    Given(Nothing {}): Given<Nothing>,
) -> ApiResult<Json<Done>> {
    Ok(Json(app.held.cancel(id).await?))
}

pub(super) async fn retry(
    InSession { app, id, .. }: InSession,
    Given(Retry { turn }): Given<Retry>,
) -> ApiResult<Json<Done>> {
    Ok(Json(app.held.retry(id, TurnId(turn)).await?))
}

pub(super) async fn resume(
    InSession { app, id, .. }: InSession,
    Given(Nothing {}): Given<Nothing>,
) -> ApiResult<Json<Done>> {
    Ok(Json(app.held.resume(id).await?))
}

pub(super) async fn release(
    InSession { app, id, .. }: InSession,
    Given(Nothing {}): Given<Nothing>,
) -> ApiResult<Json<Done>> {
    Ok(Json(app.held.release(id).await?))
}

pub(super) async fn answer(
    InSession { app, id, .. }: InSession,
    Given(Answer { question, answer }): Given<Answer>,
) -> ApiResult<Json<Done>> {
    Ok(Json(app.held.answer(id, &question, answer).await?))
}

pub(super) async fn undo(
    InSession { app, id, .. }: InSession,
    Given(Undo { turn, confirmed, shared }): Given<Undo>,
) -> ApiResult<Json<Value>> {
    let consent = match (confirmed, shared) {
        (false, _) => UndoConsent::Preview,
        (true, false) => UndoConsent::Turn,
        (true, true) => UndoConsent::Shared,
    };
    let request = UndoRequest { session: id, turn: turn.map(TurnId), consent };
    let text = app.host.undo(request).await.map_err(ApiError::conflict)?;
    Ok(Json(json!({"text": text, "done": confirmed})))
}

pub(super) async fn fork(
    InSession { app, id, .. }: InSession,
    Given(Fork { after }): Given<Fork>,
) -> ApiResult<Json<Value>> {
    if app.scope != Scope::All {
        return Err(ApiError::forbidden("this page shows one conversation"));
    }
    let copy = SessionId::generate();
    let after = after.map(MessageNumber);
    let told =
        fork_session(&app.store, id, after, copy, now()).await.map_err(|error| match error {
            TransferError::Store(error) => error.into(),
            other => ApiError::bad_request(other.to_string()),
        })?;
    Ok(Json(json!({"session": copy, "from": id, "diagnostics": told})))
}

pub(super) async fn rename(
    InSession { app, id, .. }: InSession,
    Given(Rename { name }): Given<Rename>,
) -> ApiResult<Json<Value>> {
    let name = name.trim();
    if name.is_empty() || name.contains(char::is_control) || name.chars().count() > LONGEST_NAME {
        let problem = format!("a name is one line of 1 to {LONGEST_NAME} characters");
        return Err(ApiError::bad_request(problem));
    }
    app.store.rename(id, name).await?;
    Ok(Json(json!({"session": id, "name": name})))
}
