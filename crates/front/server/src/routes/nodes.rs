//! The machines that run turns of a shared store.

use axum::extract::State;
use axum::response::Response;
use convoke_session::AnyStore;
use serde_json::json;

use super::{Shared, reply};
use crate::error::{ApiError, ApiResult};
use crate::query::ResponseForm;
use crate::{Scope, views};

pub(super) async fn nodes(State(app): Shared, form: ResponseForm) -> ApiResult<Response> {
    if app.scope != Scope::All {
        return Err(ApiError::forbidden("this page shows one conversation"));
    }
    let nodes = match &app.store {
        AnyStore::Postgres(store) => Some(store.nodes().await?),
        AnyStore::Sqlite(_) => None,
    };
    let json = || {
        let is_shared = nodes.is_some();
        let nodes = nodes.iter().flatten().map(|node| {
            json!({
                "name": node.name, "isAlive": node.is_alive, "host": node.holder.host,
                "agents": node.offer.agents, "labels": node.offer.labels, "turns": node.turns,
            })
        });
        json!({ "isShared": is_shared, "nodes": nodes.collect::<Vec<_>>() })
    };
    Ok(reply(form, json, || views::nodes::nodes(nodes.as_deref())))
}
