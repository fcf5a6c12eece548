//! The routes. Every view is a path of the page, answered with the shell, and the same path below `/api`, answered with
//! JSON, or with a fragment of HTML for `Accept: text/html`.

mod act;
mod compare;
mod extract;
mod given;
mod nodes;
mod programs;
mod requests;
mod sessions;
mod turns;
mod usage;

use std::path::Path;
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use convoke_protocol::id::SessionId;
use maud::Markup;
use serde_json::Value;

use crate::error::{ApiError, ApiResult};
use crate::query::ResponseForm;
use crate::{App, Scope, assets, guard};

/// The largest body of a request: a message of a person, with room for its JSON.
pub const BODY_BYTES: usize = 4 << 20;

/// The paths of texts that models were given.
const GIVEN: [&str; 3] = [
    "/sessions/{id}/turns/{turn}",
    "/sessions/{id}/turns/{turn}/requests/{number}",
    "/programs/{program}/{id}/requests/{number}",
];

/// The state that every handler receives.
type Shared = State<Arc<App>>;

/// Returns the routes, behind the guard.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let api = Router::new()
        .route("/sessions", get(sessions::list).post(act::create))
        .route("/sessions/{id}", get(sessions::session))
        .route("/sessions/{id}/stream", get(sessions::stream))
        .route("/sessions/{id}/messages", get(sessions::messages))
        .route("/sessions/{id}/messages/{number}/text", get(sessions::message_text))
        .route("/sessions/{id}/turns", get(turns::list))
        .route("/sessions/{id}/turns/{turn}", get(turns::turn))
        .route("/sessions/{id}/turns/{turn}/prompt", get(turns::prompt))
        .route("/sessions/{id}/turns/{turn}/system", get(turns::system))
        .route("/sessions/{id}/turns/{turn}/ledger", get(turns::ledger))
        .route("/sessions/{id}/turns/{turn}/bytes", get(turns::bytes))
        .route("/sessions/{id}/turns/{turn}/steps", get(turns::steps))
        .route("/sessions/{id}/turns/{turn}/changes", get(turns::changes))
        .route("/sessions/{id}/turns/{turn}/diff/{other}", get(turns::diff))
        .route("/sessions/{id}/turns/{turn}/requests", get(requests::list))
        .route("/sessions/{id}/turns/{turn}/requests/{number}", get(requests::request))
        .route("/sessions/{id}/turns/{turn}/requests/{number}/body", get(requests::body))
        .route("/sessions/{id}/turns/{turn}/requests/{number}/bytes", get(requests::bytes))
        .route("/sessions/{id}/changes", get(sessions::changes))
        .route("/sessions/{id}/cost", get(sessions::cost))
        .route("/sessions/{id}/waterfall", get(sessions::waterfall))
        .route("/sessions/{id}/cache", get(requests::cache))
        .route("/sessions/{id}/export", get(sessions::export))
        .route("/sessions/{id}/say", post(act::say))
        .route("/sessions/{id}/cancel", post(act::cancel))
        .route("/sessions/{id}/retry", post(act::retry))
        .route("/sessions/{id}/continue", post(act::resume))
        .route("/sessions/{id}/release", post(act::release))
        .route("/sessions/{id}/answer", post(act::answer))
        .route("/sessions/{id}/undo", post(act::undo))
        .route("/sessions/{id}/redo", post(act::redo))
        .route("/sessions/{id}/fork", post(act::fork))
        .route("/sessions/{id}/rename", post(act::rename))
        .route("/programs", get(programs::list))
        .route("/programs/{program}/{id}", get(programs::session))
        .route("/programs/{program}/{id}/state", get(programs::state))
        .route("/programs/{program}/{id}/steps", get(programs::steps))
        .route("/programs/{program}/{id}/text", get(programs::text))
        .route("/programs/{program}/{id}/requests", get(programs::requests))
        .route("/programs/{program}/{id}/requests/{number}", get(programs::request))
        .route("/compare", get(compare::compare))
        .route("/usage", get(usage::usage))
        .route("/nodes", get(nodes::nodes))
        .route("/explain", get(sessions::explain));
    let api = GIVEN.iter().fold(api, |api, base| {
        api.route(&format!("{base}/parts"), get(given::chunk))
            .route(&format!("{base}/parts/{{part}}"), get(given::part))
            .route(&format!("{base}/rows"), get(given::rows))
            .route(&format!("{base}/find"), get(given::find))
    });
    Router::new()
        .nest("/api", api)
        .route("/", get(assets::shell))
        .route("/explain", get(assets::shell))
        .route("/compare", get(assets::shell))
        .route("/usage", get(assets::shell))
        .route("/nodes", get(assets::shell))
        .route("/sessions/{*view}", get(assets::shell))
        .route("/programs/{*view}", get(assets::shell))
        .route("/assets/{version}/{name}", get(assets::asset))
        .fallback(async || ApiError::not_found("there is nothing at this address"))
        .method_not_allowed_fallback(async || ApiError::forbidden("this path accepts no actions"))
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .layer(from_fn_with_state(Arc::clone(app), guard::guard))
        .with_state(Arc::clone(app))
}

impl App {
    /// Returns a path formatted for people.
    fn shown(&self, path: &Path) -> String {
        self.host.shown_directory(&path.display().to_string())
    }

    /// Parses the id of a session in a path, and rejects one that the server does not show.
    pub(crate) fn session_id(&self, written: &str) -> ApiResult<SessionId> {
        let id = written.parse().map_err(|_| ApiError::not_found("no such session"))?;
        match self.scope {
            Scope::One(only) if only != id => {
                Err(ApiError::not_found("this page shows one session, and not this one"))
            }
            _ => Ok(id),
        }
    }
}

/// Returns data in the form that the client asks for.
fn reply(
    form: ResponseForm,
    json: impl FnOnce() -> Value,
    html: impl FnOnce() -> Markup,
) -> Response {
    match form {
        ResponseForm::Json => Json(json()).into_response(),
        ResponseForm::Html => fragment(&html()),
    }
}

/// Returns a fragment of HTML.
fn fragment(html: &Markup) -> Response {
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], html.0.clone()).into_response()
}
