//! The sessions of the store, for an editor that lists them.

use std::path::{Path, PathBuf};

use convoke_inspect::HostEnvironment;
use convoke_protocol::id::Millis;
use convoke_protocol::session::Summary;
use convoke_session::Store as _;
use convoke_session::time_format::utc;
use serde_json::{Value, json};

use super::updates::safe;
use super::{ErrorResponse, INVALID_PARAMS};
use crate::conversation::store::open_store;

/// The number of sessions of one response.
const PAGE: usize = 100;

/// Lists the stored sessions, the most recently changed first: all, or those of the project that `cwd` is in.
pub(super) async fn list(host: &HostEnvironment, params: &Value) -> Result<Value, ErrorResponse> {
    let store = open_store(host).await?;
    let sessions = store.sessions().await.map_err(anyhow::Error::from)?;
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let cwd = params["cwd"].as_str().map(|cwd| real(Path::new(cwd)));
    let is_meant = |it: &&Summary| {
        cwd.as_ref().is_none_or(|cwd| cwd.starts_with(real(Path::new(&it.directory))))
    };
    let mut listed: Vec<&Summary> = sessions.iter().filter(is_meant).collect();
    if let Some(cursor) = params["cursor"].as_str() {
        let last = listed.iter().position(|it| it.id.to_string() == cursor);
        let last =
            last.ok_or_else(|| ErrorResponse::new(INVALID_PARAMS, "`cursor` names no session"))?;
        listed.drain(..=last);
    }
    let page = &listed[..listed.len().min(PAGE)];
    let mut result = json!({ "sessions": page.iter().map(|it| entry(it)).collect::<Vec<_>>() });
    if let Some(last) = page.last().filter(|_| listed.len() > PAGE) {
        result["nextCursor"] = last.id.to_string().into();
    }
    Ok(result)
}

fn entry(session: &Summary) -> Value {
    let mut entry = json!({
        "sessionId": session.id.to_string(),
        "cwd": PathBuf::from(&session.directory),
        "updatedAt": iso(session.updated_at),
    });
    let line = session.beginning.as_deref().and_then(|text| text.lines().find(|it| !it.is_empty()));
    if let Some(title) = line.or(session.name.as_deref()) {
        entry["title"] = safe(title).into();
    }
    entry
}

/// Returns a time as ISO 8601 writes it.
fn iso(at: Millis) -> String {
    utc(at).replacen(' ', "T", 1).replace(" UTC", "Z")
}
