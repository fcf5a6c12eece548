//! The inspector: a turn and its attempts, exact texts, events, changes and differences.

use axum::extract::Path;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, ETAG, HeaderName};
use axum::response::{IntoResponse as _, Response};
use convoke_protocol::content::Content;
use convoke_protocol::id::TurnId;
use convoke_session::sent_turn::requests_of;
use convoke_session::{SentTurn, Store as _};
use maud::html;
use serde::Deserialize;
use serde_json::{Value, json};

use super::extract::{AttemptPath, Parameters, SessionPath, TurnPath, read_sent, read_turn};
use super::{fragment, reply};
use crate::difference::Difference;
use crate::error::{ApiError, ApiResult};
use crate::query::{BytesQuery, DiffQuery, Layout, ResponseForm, TurnQuery, TurnsQuery};
use crate::sent::Sent;
use crate::stored::{MAX_ROWS, PAGE};
use crate::views::given::{self, Given, of_turn};
use crate::views::inspector::{self, InspectorData};
use crate::views::text::{SHOWN, exact, slice};
use crate::views::{self, events};

/// The number of turns around one that are offered for a comparison.
const NEAR: u64 = 40;

pub(super) async fn list(
    SessionPath { app, id, session }: SessionPath,
    Parameters(query): Parameters<TurnsQuery>,
    form: ResponseForm,
) -> ApiResult<Response> {
    let limit = query.limit.unwrap_or(PAGE).clamp(1, MAX_ROWS);
    let turns = app.store.turns_after(id, TurnId(query.after), limit).await?;
    let last = turns.last().map(|turn| turn.id);
    let next = last.filter(|last| *last < session.state.last_turn);
    let json = || json!({"turns": turns, "next": next});
    Ok(reply(form, json, || inspector::turns(id, &turns, next)))
}

pub(super) async fn turn(
    AttemptPath { app, id, sent }: AttemptPath,
    Parameters(query): Parameters<TurnQuery>,
    form: ResponseForm,
) -> ApiResult<Response> {
    if form == ResponseForm::Json {
        return Ok(reply(ResponseForm::Json, || sent.json().unwrap_or_default(), || html! {}));
    }
    let requests = requests_of(&app.store, id, &sent.turn, Some(sent.attempt.number)).await?;
    let after = TurnId(sent.turn.id.0.saturating_sub(NEAR / 2));
    let near = app.store.turns_after(id, after, usize::try_from(NEAR).unwrap_or(0)).await?;
    let others = near.into_iter().filter(|turn| turn.id != sent.turn.id && turn.attempts > 0);
    let around = InspectorData { requests, others: others.rev().collect() };
    let sent = Sent::Turn { session: id, sent: Box::new(sent) };
    let given = sent.given();
    let Sent::Turn { sent: turn, .. } = &sent else {
        return Err(ApiError::not_found("no such turn"));
    };
    Ok(fragment(&inspector::turn(id, turn, &given, &around, &query)))
}

pub(super) async fn prompt(AttemptPath { sent, .. }: AttemptPath) -> Response {
    file(sent.prompt, "prompt.txt")
}

pub(super) async fn system(AttemptPath { sent, .. }: AttemptPath) -> ApiResult<Response> {
    let system = sent.system.ok_or_else(|| ApiError::not_found("it has no system text"))?;
    Ok(file(system, "system.txt"))
}

/// Returns exact bytes as a file, with the hash that the store has of them.
pub(super) fn file(text: String, name: &'static str) -> Response {
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
    AttemptPath { id, sent, .. }: AttemptPath,
    form: ResponseForm,
) -> Response {
    let json = || serde_json::from_str(&sent.ledger_json).unwrap_or_default();
    let given = || Given {
        parts: of_turn(&sent.ledger, sent.system.as_deref(), &sent.prompt),
        path: format!("/api/sessions/{id}/turns/{}", sent.turn.id),
        query: format!("?attempt={}", sent.attempt.number),
    };
    reply(form, json, || given::list(&given()))
}

pub(super) async fn bytes(
    AttemptPath { id, sent, .. }: AttemptPath,
    Parameters(query): Parameters<BytesQuery>,
    form: ResponseForm,
) -> Response {
    let text = match query.target.as_str() {
        "system" => sent.system.unwrap_or_default(),
        _ => sent.prompt,
    };
    let path = format!("/api/sessions/{id}/turns/{}/bytes", sent.turn.id);
    range(&query, &text, &path, form)
}

/// Returns a range of a text, with a button for the next one.
pub(super) fn range(query: &BytesQuery, text: &str, path: &str, form: ResponseForm) -> Response {
    let BytesQuery { attempt, target, from, whitespace, .. } = query;
    let to = query.to.unwrap_or(text.len()).min(text.len());
    let part = slice(text, *from, to.min(from.saturating_add(8 * SHOWN)));
    let end = from + part.len();
    let json = || json!({"from": from, "to": end, "text": part});
    reply(form, json, || {
        let attempt = attempt.map_or_else(String::new, |it| format!("&attempt={it}"));
        let next =
            format!("{path}?target={target}{attempt}&from={end}&to={to}&whitespace={whitespace}");
        html! {
            (exact(part, *whitespace != 0))
            @if end < to && !part.is_empty() { button.more type="button" data-more=(next) { "Show " (views::number((to - end) as u64)) " more bytes" } }
        }
    })
}

pub(super) async fn steps(
    AttemptPath { app, id, sent }: AttemptPath,
    form: ResponseForm,
) -> ApiResult<Response> {
    let so_far = sent.read_progress(&app.store, id).await?;
    if form == ResponseForm::Json {
        let events: Vec<Value> = so_far
            .events
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_default())
            .collect();
        let json = || json!({"events": events, "partial": so_far.reply});
        return Ok(reply(ResponseForm::Json, json, || html! {}));
    }
    let requests = requests_of(&app.store, id, &sent.turn, Some(sent.attempt.number)).await?;
    Ok(fragment(&events::steps(&sent.attempt, &requests, &so_far)))
}

pub(super) async fn changes(
    TurnPath { app, id, turn }: TurnPath,
    form: ResponseForm,
) -> ApiResult<Response> {
    let mut changes = app.host.changes(id).await.map_err(ApiError::host)?.turns;
    changes.retain(|change| change.turn == turn.id.0);
    let json = || json!({"session": id, "turns": changes});
    Ok(reply(form, json, || {
        views::changes::turns(id, &changes, Layout::Unified, |path| app.shown(path))
    }))
}

#[derive(Deserialize)]
pub(super) struct OtherTurn {
    other: String,
}

pub(super) async fn diff(
    AttemptPath { app, id, sent: turn }: AttemptPath,
    Path(OtherTurn { other }): Path<OtherTurn>,
    Parameters(query): Parameters<DiffQuery>,
    form: ResponseForm,
) -> ApiResult<Response> {
    let other = read_turn(&app, id, &other).await?;
    let other = read_sent(&app, id, other, query.other).await?;
    let place = |sent: &SentTurn| (sent.turn.id, sent.attempt.number);
    let (earlier, later) =
        if place(&turn) <= place(&other) { (turn, other) } else { (other, turn) };
    let found = Difference::between(&earlier, &later);
    let json = || found.json(id, &earlier, &later);
    Ok(reply(form, json, || views::diff::prompts(id, &earlier, &later, &found)))
}
