//! The inspector: a turn and its attempts, exact texts, events, changes and differences.

use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, ETAG, HeaderName};
use axum::response::{IntoResponse as _, Response};
use convoke_session::sent_turn::{self, requests_of};
use convoke_session::{Content, SentTurn, SessionId, Store as _, Turn, TurnId};
use maud::html;
use serde_json::{Value, json};

use super::{Shared, fragment, reply, turn_id};
use crate::App;
use crate::difference::Difference;
use crate::error::{ApiError, ApiResult};
use crate::query::{BytesQuery, DiffQuery, Form, TurnQuery, TurnsQuery};
use crate::stored::{MOST_ROWS, PAGE};
use crate::views::inspector::{self, Around};
use crate::views::text::{SHOWN, exact, slice};
use crate::views::{self, events};

/// The number of turns around one that are offered for a comparison.
const NEAR: u64 = 40;

pub(super) async fn list(
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

/// Finds a turn of a session.
pub(super) async fn find_turn(app: &App, session: SessionId, turn: &str) -> ApiResult<Turn> {
    // An unknown session has its own error.
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
    let after = TurnId(sent.turn.id.0.saturating_sub(NEAR / 2));
    let near = app.store.turns_after(id, after, usize::try_from(NEAR).unwrap_or(0)).await?;
    let others = near.into_iter().filter(|turn| turn.id != sent.turn.id && turn.attempts > 0);
    let around = Around { requests, others: others.rev().collect() };
    Ok(fragment(&inspector::turn(id, &sent, &around, &query)))
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
    State(app): Shared,
    Path((id, turn)): Path<(String, String)>,
    Query(query): Query<TurnQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let sent = read_sent(&app, id, &turn, query.attempt).await?;
    let json = || serde_json::from_str(&sent.ledger_json).unwrap_or_default();
    Ok(reply(Form::of(&headers), json, || views::ledger::view(&sent.ledger, query.by)))
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
    Ok(range(&query, &text, &path, &headers))
}

/// Returns a range of a text, with a button for the next one.
pub(super) fn range(query: &BytesQuery, text: &str, path: &str, headers: &HeaderMap) -> Response {
    let BytesQuery { attempt, target, from, whitespace, .. } = query;
    let to = query.to.unwrap_or(text.len()).min(text.len());
    let part = slice(text, *from, to.min(from.saturating_add(8 * SHOWN)));
    let end = from + part.len();
    let json = || json!({"from": from, "to": end, "text": part});
    reply(Form::of(headers), json, || {
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
    State(app): Shared,
    Path((id, turn)): Path<(String, String)>,
    Query(query): Query<TurnQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let sent = read_sent(&app, id, &turn, query.attempt).await?;
    let so_far = sent.came_back(&app.store, id).await?;
    if Form::of(&headers) == Form::Json {
        let events: Vec<Value> = so_far
            .events
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_default())
            .collect();
        let json = || json!({"events": events, "partial": so_far.said});
        return Ok(reply(Form::Json, json, || html! {}));
    }
    let requests = requests_of(&app.store, id, &sent.turn, Some(sent.attempt.number)).await?;
    Ok(fragment(&events::steps(&sent.attempt, &requests, &so_far)))
}

pub(super) async fn changes(
    State(app): Shared,
    Path((id, turn)): Path<(String, String)>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let turn = find_turn(&app, id, &turn).await?.id;
    let mut changes = app.host.changes(id).await.map_err(ApiError::host)?.turns;
    changes.retain(|change| change.turn == turn.0);
    let json = || json!({"session": id, "turns": changes});
    Ok(reply(Form::of(&headers), json, || {
        views::changes::turns(id, &changes, |path| app.shown(path))
    }))
}

pub(super) async fn diff(
    State(app): Shared,
    Path((id, turn, other)): Path<(String, String, String)>,
    Query(query): Query<DiffQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let id = app.session_id(&id)?;
    let turn = read_sent(&app, id, &turn, query.attempt).await?;
    let other = read_sent(&app, id, &other, query.other).await?;
    let place = |sent: &SentTurn| (sent.turn.id, sent.attempt.number);
    let (earlier, later) =
        if place(&turn) <= place(&other) { (turn, other) } else { (other, turn) };
    let found = Difference::between(&earlier, &later);
    let json = || found.json(id, &earlier, &later);
    Ok(reply(Form::of(&headers), json, || views::diff::prompts(id, &earlier, &later, &found)))
}
