//! Sessions of other programs: the list, a session, its requests, and the state of its files.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use convoke_protocol::id::Millis;
use convoke_session::Store as _;
use maud::html;
use serde::Deserialize;
use serde_json::{Value, json};

use super::extract::{Parameters, path};
use super::{Shared, reply};
use crate::error::{ApiError, ApiResult};
use crate::other_sessions::{MAX_SHOWN, OtherFilter, OtherName, PageEnds, StepKey, TextName};
use crate::query::{ListQuery, ResponseForm, TextQuery};
use crate::sent::{Sent, read_other};
use crate::stored::MAX_ROWS;
use crate::views::conversation::more;
use crate::views::programs::{list as list_view, request as request_view, session as session_view};
use crate::views::text::{exact, slice};
use crate::{App, Scope};

/// The default number of sessions of a page of the list; each of them is read.
const LISTED: usize = 30;

/// The session of another program that a path names.
pub(super) struct OtherPath {
    app: Arc<App>,
    name: OtherName,
}

impl FromRequestParts<Arc<App>> for OtherPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> ApiResult<Self> {
        check_scope(app)?;
        let name = path(parts, app).await?;
        Ok(Self { app: Arc::clone(app), name })
    }
}

fn check_scope(app: &App) -> ApiResult<()> {
    match app.scope {
        Scope::All => Ok(()),
        Scope::One(_) => Err(ApiError::forbidden("this page shows one conversation")),
    }
}

pub(super) async fn list(
    State(app): Shared,
    Parameters(query): Parameters<ListQuery>,
    form: ResponseForm,
) -> ApiResult<Response> {
    check_scope(&app)?;
    let (from, limit) = (query.from, query.limit.unwrap_or(LISTED).clamp(1, MAX_ROWS));
    let filter = OtherFilter {
        program: query.program.clone(),
        project: query.project.clone(),
        since: query.since(app.store.now().0).map(Millis),
    };
    let found = read_other(&app, move |others| others.list(&filter, from, limit)).await?;
    let end = from.saturating_add(limit);
    let next = (end < found.total).then_some(end);
    let json = || {
        let sessions = found.sessions.iter().map(|it| it.summary.to_json(&it.found));
        let sessions: Vec<Value> = sessions.collect();
        json!({
            "version": 1, "sessions": sessions, "total": found.total, "next": next,
            "problems": found.problems,
        })
    };
    Ok(reply(form, json, || {
        list_view::list(&found, &query, next, |path| app.host.shown_directory(path))
    }))
}

pub(super) async fn session(
    OtherPath { app, name }: OtherPath,
    form: ResponseForm,
) -> ApiResult<Response> {
    let wanted = name.clone();
    let found = read_other(&app, move |others| others.read(&wanted, &PageEnds::default())).await?;
    let json = || {
        let mut json = found.summary.to_json(&found.found);
        json["found"] = json!(found.report);
        json["state"] = json!(found.state);
        json["requestRows"] = json!(found.requests);
        json["earlierRequests"] = json!(found.earlier_requests);
        json["steps"] = json!(found.steps);
        json["earlierSteps"] = json!(found.earlier_steps);
        json
    };
    Ok(reply(form, json, || {
        let cwd = found.summary.cwd.as_deref().or(found.found.cwd.as_deref());
        let project = cwd.map(|cwd| app.host.shown_directory(cwd));
        session_view::session(&name, &found, project.as_deref())
    }))
}

/// The step after the last one of a page.
#[derive(Deserialize)]
pub(super) struct StepsQuery {
    at: i64,
    agent: Option<String>,
    number: u64,
}

pub(super) async fn steps(
    OtherPath { app, name }: OtherPath,
    Parameters(StepsQuery { at, agent, number }): Parameters<StepsQuery>,
    form: ResponseForm,
) -> ApiResult<Response> {
    let wanted = name.clone();
    let ends = PageEnds { steps: Some(StepKey { at, agent, number }), requests: None };
    let found = read_other(&app, move |others| others.read(&wanted, &ends)).await?;
    let json = || json!({ "steps": found.steps, "earlierSteps": found.earlier_steps });
    Ok(reply(form, json, || session_view::steps(&name, &found)))
}

/// The request after the last one of a page.
#[derive(Deserialize)]
pub(super) struct RequestsQuery {
    before: Option<u64>,
}

pub(super) async fn requests(
    OtherPath { app, name }: OtherPath,
    Parameters(RequestsQuery { before }): Parameters<RequestsQuery>,
    form: ResponseForm,
) -> ApiResult<Response> {
    let wanted = name.clone();
    let ends = PageEnds { steps: None, requests: before };
    let found = read_other(&app, move |others| others.read(&wanted, &ends)).await?;
    let json = || json!({ "requests": found.requests, "earlierRequests": found.earlier_requests });
    Ok(reply(form, json, || session_view::requests(&name, &found)))
}

pub(super) async fn text(
    OtherPath { app, name }: OtherPath,
    Parameters(wanted): Parameters<TextName>,
    Parameters(TextQuery { from }): Parameters<TextQuery>,
    form: ResponseForm,
) -> ApiResult<Response> {
    let path = session_view::text_path(&name, wanted.agent.as_deref(), wanted.number, wanted.part);
    let whole = read_other(&app, move |others| others.text(&name, &wanted)).await?;
    Ok(piece(&whole, from, &path, form))
}

/// Returns a piece of a text, and a button for the next.
fn piece(whole: &str, from: usize, path: &str, form: ResponseForm) -> Response {
    let part = slice(whole, from, from.saturating_add(MAX_SHOWN));
    let end = from.saturating_add(part.len());
    let rest = whole.len().saturating_sub(end);
    let json = || json!({ "from": from, "text": part, "rest": rest });
    reply(form, json, || {
        html! { (exact(part, false)) @if rest > 0 { (more(path, end, rest)) } }
    })
}

#[derive(Deserialize)]
pub(super) struct RequestName {
    number: u64,
}

pub(super) async fn request(
    OtherPath { app, name }: OtherPath,
    Path(RequestName { number }): Path<RequestName>,
    form: ResponseForm,
) -> ApiResult<Response> {
    let wanted = name.clone();
    let found = read_other(&app, move |others| others.request(&wanted, number)).await?;
    let json = || {
        let request = &found.request;
        json!({
            "agent": name.program, "session": name.id, "n": number, "of": request.total,
            "at": request.at, "model": request.model, "purpose": request.purpose.as_str(),
            "subAgent": request.agent, "rebuilt": request.grade, "missing": request.missing,
            "source": request.place, "usage": request.usage, "costUsd": found.cost,
            "status": request.status, "tools": request.window.tools,
            "messages": convoke_protocol::window::Messages(&request.window),
            "ledger": request.ledger_json(),
        })
    };
    let sent = Sent::Other { name: name.clone(), request: Arc::clone(&found) };
    Ok(reply(form, json, || request_view::request(&name, &found, &sent.given())))
}

pub(super) async fn state(OtherPath { app, name }: OtherPath) -> ApiResult<Response> {
    let state = read_other(&app, move |others| others.state(&name)).await?;
    Ok(Json(state).into_response())
}
