//! What a model was given, in pieces: chunks of parts, the text of a part, rows of the list, a search. The routes are the same for
//! the texts of a turn, a stored request and a request of another program.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use maud::html;
use serde::Deserialize;
use serde_json::{Value, json};

use super::extract::{Parameters, path};
use super::{fragment, reply};
use crate::App;
use crate::error::{ApiError, ApiResult};
use crate::other_sessions::MAX_SHOWN;
use crate::query::{ChunkQuery, FindQuery, PartQuery, ResponseForm, RowsQuery};
use crate::sent::{Sent, SentName};
use crate::views::conversation::more;
use crate::views::given::{self, Given};
use crate::views::text::{exact, slice};

/// The text that a path names.
pub(super) struct SentPath(pub Sent);

#[derive(Deserialize)]
struct AttemptQuery {
    attempt: Option<u32>,
}

impl FromRequestParts<Arc<App>> for SentPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> ApiResult<Self> {
        let names = path(parts, app).await?;
        let Parameters(AttemptQuery { attempt }) =
            Parameters::from_request_parts(parts, app).await?;
        let name = SentName::of_path(app, names, attempt)?;
        Ok(Self(Sent::read(app, name).await?))
    }
}

fn part_json(given: &Given<'_>, from: usize, limit: usize) -> Value {
    let parts = given.parts.iter().skip(from).take(limit).map(|part| {
        json!({
            "part": part.index, "kind": part.kind.name(), "section": part.section,
            "label": part.label, "source": part.source, "rule": part.rule, "bytes": part.bytes,
            "tokensEstimate": part.tokens, "leftOutBytes": part.left_out,
        })
    });
    Value::Array(parts.collect())
}

pub(super) async fn chunk(
    SentPath(sent): SentPath,
    Parameters(ChunkQuery { chunk }): Parameters<ChunkQuery>,
    form: ResponseForm,
) -> ApiResult<Response> {
    let given = sent.given();
    if form == ResponseForm::Json {
        let parts = part_json(&given, chunk.saturating_mul(given::CHUNK), given::CHUNK);
        return Ok(reply(form, || json!({ "parts": parts }), || html! {}));
    }
    let found = given::chunk(&given, chunk);
    Ok(fragment(&found.ok_or_else(|| ApiError::not_found("it has no such parts"))?))
}

pub(super) async fn rows(
    SentPath(sent): SentPath,
    Parameters(RowsQuery { from, sort }): Parameters<RowsQuery>,
    form: ResponseForm,
) -> Response {
    let given = sent.given();
    let json = || json!({ "parts": part_json(&given, 0, usize::MAX) });
    reply(form, json, || given::rows(&given, sort, from))
}

pub(super) async fn find(
    SentPath(sent): SentPath,
    Parameters(FindQuery { q }): Parameters<FindQuery>,
    form: ResponseForm,
) -> Response {
    let found = sent.given().find(&q);
    let json = || {
        let matches = found.iter().map(|(part, times)| json!({ "part": part, "times": times }));
        json!({ "matches": matches.collect::<Vec<_>>() })
    };
    let times: usize = found.iter().map(|(_, times)| times).sum();
    reply(form, json, || html! { p { (times) } })
}

#[derive(Deserialize)]
pub(super) struct PartName {
    part: usize,
}

pub(super) async fn part(
    SentPath(sent): SentPath,
    Path(PartName { part }): Path<PartName>,
    Parameters(PartQuery { from, raw }): Parameters<PartQuery>,
    form: ResponseForm,
) -> ApiResult<Response> {
    let given = sent.given();
    let found = given.parts.get(part).and_then(|part| part.text.as_deref());
    let text = found.ok_or_else(|| ApiError::not_found(format!("it has no text {part}")))?;
    if raw != 0 {
        return Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], text.to_owned()).into_response());
    }
    let shown = slice(text, from, from.saturating_add(MAX_SHOWN));
    let end = from.saturating_add(shown.len());
    let rest = text.len().saturating_sub(end);
    let path = given.address(&format!("parts/{part}"), "");
    let json = || json!({ "from": from, "text": shown, "rest": rest });
    Ok(reply(form, json, || {
        html! { (exact(shown, false)) @if rest > 0 { (more(&path, end, rest)) } }
    }))
}
