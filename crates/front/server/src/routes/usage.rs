//! The tokens and dollars of all sessions.

use axum::extract::State;
use axum::response::Response;
use convoke_protocol::id::Millis;
use convoke_session::Store as _;
use serde_json::json;

use super::extract::Parameters;
use super::{Shared, reply};
use crate::error::{ApiError, ApiResult};
use crate::query::{ResponseForm, UsageQuery};
use crate::sent::read_other;
use crate::{Scope, views};

pub(super) async fn usage(
    State(app): Shared,
    Parameters(query): Parameters<UsageQuery>,
    form: ResponseForm,
) -> ApiResult<Response> {
    if app.scope != Scope::All {
        return Err(ApiError::forbidden("this page shows one conversation"));
    }
    let since = query.since(app.store.now().0).map(Millis);
    let found = read_other(&app, move |others| others.usage(since)).await?;
    let json = || {
        json!({
            "days": found.by_day, "programs": found.by_program, "models": found.by_model,
            "projects": found.by_project, "total": found.total, "sessions": found.sessions,
            "problems": found.problems, "prices": found.prices,
        })
    };
    Ok(reply(form, json, || {
        views::usage::usage(&found, query, |path| app.host.shown_directory(path))
    }))
}
