//! The comparison of any two texts that models were given.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;

use super::extract::Parameters;
use super::{Shared, reply};
use crate::comparison::Comparison;
use crate::error::ApiResult;
use crate::query::ResponseForm;
use crate::sent::{Sent, SentName};
use crate::views;

/// The addresses of two views.
#[derive(Deserialize)]
pub(super) struct CompareQuery {
    a: String,
    b: String,
}

pub(super) async fn compare(
    State(app): Shared,
    Parameters(CompareQuery { a, b }): Parameters<CompareQuery>,
    form: ResponseForm,
) -> ApiResult<Response> {
    let earlier = Sent::read(&app, SentName::parse(&app, &a)?).await?;
    let later = Sent::read(&app, SentName::parse(&app, &b)?).await?;
    let (before, after) = (earlier.given(), later.given());
    let found = Comparison::between(&before, &after);
    Ok(reply(form, || found.json(), || views::compare::comparison(&earlier, &later, &found)))
}
