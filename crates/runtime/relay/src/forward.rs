//! One request: checked, forwarded, and its answer passed on.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use convoke_protocol::wire::Wire;
use convoke_wire::AnswerReader;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, EXPECT, HOST, HeaderName,
    HeaderValue, LOCATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::response;
use hyper::{HeaderMap, Request, Response, StatusCode, Uri};
use tokio::sync::{Mutex, oneshot};

use crate::connect::Connection;
use crate::copy::{Passing, content_type};
use crate::server::RelayState;
use crate::stored;
use crate::tee::{AnswerBody, AnswerContent, AnswerTee, KeptBytes, RequestTee};
use crate::upstream::Upstream;

/// The connection to the endpoint that belongs to one connection of the program.
pub(crate) type Upstreams = Mutex<Option<Connection<RequestTee>>>;

/// Answers one request of the program.
pub(crate) async fn answer(
    request: Request<Incoming>,
    shared: Arc<RelayState>,
    upstream: Arc<Upstreams>,
) -> Result<Response<AnswerBody>, Infallible> {
    let (parts, body) = request.into_parts();
    if let Some(elsewhere) = parts.uri.host() {
        return Ok(shared.tunnels.refuse_unencrypted(&parts, elsewhere));
    }
    let target = match shared.access.admit(&parts) {
        Ok(target) => target,
        Err(reason) => return Ok(own(StatusCode::FORBIDDEN, reason)),
    };
    if parts.headers.contains_key(UPGRADE) {
        // This status makes Codex continue over HTTP at once, without another attempt.
        return Ok(own(StatusCode::UPGRADE_REQUIRED, "the relay does not support web sockets"));
    }
    if is_signed(&parts.headers) {
        shared.fail("the program signs its requests for another host (AWS SigV4), which a relay cannot forward");
        let reason = "a signed request cannot be relayed: its signature holds for another host";
        return Ok(own(StatusCode::FORBIDDEN, reason));
    }
    // Before the answer, which may repeat them.
    shared.learn(stored::credentials(&parts.headers, &target));
    let mut head = parts.clone();
    head.uri = Uri::from(target.clone());
    let mut forwarded = Request::from_parts(parts, ());
    *forwarded.uri_mut() = Uri::from(target.clone());
    remove_hop_by_hop(forwarded.headers_mut());
    forwarded.headers_mut().remove(EXPECT);
    if let Ok(host) = HeaderValue::from_str(&shared.upstream.authority) {
        // In its own place among the headers.
        if let Some(given) = forwarded.headers_mut().get_mut(HOST) {
            *given = host;
        }
    }
    let (body_done, body_copy) = oneshot::channel();
    let (answer_done, answer_copy) = oneshot::channel();
    let is_counted = shared.is_own_program(&head.headers);
    let wire = Wire::at(target.path());
    if wire.is_some() && !is_counted {
        shared.uncounted.fetch_add(1, Ordering::Relaxed);
    }
    let wire = wire.filter(|_| is_counted);
    let body_done = Some(body_done).filter(|_| wire.is_some());
    let kept = KeptBytes::new(shared.max_body_bytes, Arc::clone(&shared.kept_bytes));
    let forwarded = forwarded.map(|()| RequestTee::new(body, kept, body_done));
    if let Some(wire) = wire {
        let number = shared.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        let kept_bytes = Arc::clone(&shared.kept_bytes);
        let (body, answer) = (body_copy, answer_copy);
        let passing = Passing { number, wire, head, target, body, answer, kept_bytes };
        shared.report(passing).await;
    }
    let since = Instant::now();
    let response = match send(forwarded, &shared, &upstream).await {
        Ok(response) => response,
        Err(reason) => {
            shared.fail(&reason);
            let response = own(StatusCode::BAD_GATEWAY, &reason);
            let _ = answer_done.send(Err(reason));
            return Ok(response);
        }
    };
    let (mut parts, body) = response.into_parts();
    remove_hop_by_hop(&mut parts.headers);
    let content = match wire {
        None => AnswerContent::Ignored,
        Some(_) if parts.headers.contains_key(CONTENT_ENCODING) => {
            AnswerContent::Encoded(Some(Vec::new()))
        }
        Some(wire) => {
            let reader = AnswerReader::new(wire, content_type(&parts.headers));
            AnswerContent::Read(Box::new(reader))
        }
    };
    let redirect = wire.and_then(|_| redirect(&shared.upstream, &parts));
    if let Some(reason) = &redirect {
        shared.fail(reason);
    }
    let (copied, copy) = oneshot::channel();
    let _ = answer_done.send(Ok((parts.status.as_u16(), parts.headers.clone(), copy)));
    let tee = AnswerTee::new(body, content, since, redirect, copied);
    Ok(Response::from_parts(parts, AnswerBody::Tee(Box::new(tee))))
}

/// Sends a request once. A connection that was kept and has closed meanwhile is replaced before anything
/// is sent.
async fn send(
    request: Request<RequestTee>,
    shared: &RelayState,
    upstream: &Upstreams,
) -> Result<Response<Incoming>, String> {
    let mut kept = upstream.lock().await;
    let is_ready = match kept.as_mut() {
        Some(connection) => {
            !connection.sender.is_closed() && connection.sender.ready().await.is_ok()
        }
        None => false,
    };
    if !is_ready {
        *kept = None;
    }
    let connection = match kept.take() {
        Some(connection) => connection,
        None => shared.connector.open().await.map_err(|error| error.to_string())?,
    };
    let connection = kept.insert(connection);
    let sent = connection.sender.send_request(request).await;
    sent.map_err(|error| {
        *kept = None;
        format!("{} did not answer: {}", shared.upstream, innermost(&error))
    })
}

/// Returns an explanation of a redirect for the user; `None` if the answer is not a redirect. It names only the host of the new
/// address, because the path may contain a secret.
fn redirect(upstream: &Upstream, answer: &response::Parts) -> Option<String> {
    let location = answer.headers.get(LOCATION).filter(|_| answer.status.is_redirection())?;
    let location = location.to_str().ok().and_then(|it| it.parse::<Uri>().ok());
    let host = location.as_ref().and_then(Uri::authority).map(|it| {
        let host = it.as_str();
        host.rsplit_once('@').map_or(host, |(_, host)| host)
    });
    let target = match host {
        Some(host) => format!("to {host}"),
        None => "to another path".to_owned(),
    };
    Some(format!(
        "{upstream} redirected the request {target}, and the relay follows no redirect; if the endpoint has moved, set the \
         program's base URL to its new address"
    ))
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// Removes the headers that concern one connection only.
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE] {
        headers.remove(name);
    }
    headers.remove("keep-alive");
    headers.remove("proxy-connection");
}

/// Returns whether a request is signed with its host.
fn is_signed(headers: &HeaderMap) -> bool {
    let authorization = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    authorization.is_some_and(|value| value.starts_with("AWS4-HMAC-SHA256"))
        || headers.contains_key("x-amz-content-sha256")
}

/// Creates an answer of the relay's own, in a form that all programs read a message from.
pub(crate) fn own(status: StatusCode, message: &str) -> Response<AnswerBody> {
    let message: String = message.chars().filter(|c| !c.is_control()).collect();
    let message = message.replace('\\', "\\\\").replace('"', "\\\"");
    let kind = "relay_error";
    let body = format!(
        "{{\"type\":\"error\",\"error\":{{\"type\":\"{kind}\",\"code\":{},\"message\":\"convoke: {message}\"}}}}",
        status.as_u16()
    );
    let mut response = Response::new(AnswerBody::Own(Full::new(Bytes::from(body))));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
