//! Serves one connection: reads, records and answers requests.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use convoke_core::ledger::estimate_tokens;
use convoke_protocol::wire::Wire;
use convoke_wire::encoding::{self, EncodingError};
use convoke_wire::{AnswerEnd, AnswerFacts, AnswerReader, Framing, Recognised, RequestKind};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, PROXY_AUTHENTICATE};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::access::{Access, Refused};
use crate::auxiliary;
use crate::body::{PacedBody, SendStep};
use crate::playback::Playback;
use crate::record::{self, Answered, Recorded};
use crate::script::{Answer, Content, End, HttpError, Reply, ReplyStep, Script, Usage};
use crate::server::{Limits, Stop};
use crate::vendor_hosts::VendorHosts;
use crate::wire::{self, Facts};

/// Serves one connection until it ends, or until the server is stopped.
pub(crate) async fn serve(
    stream: TcpStream,
    shared: Arc<ServerState>,
    mut stopped: watch::Receiver<Stop>,
) {
    let tunnel = Mutex::new(None);
    let service = service_fn(async |mut request| {
        if shared.opens_tunnel(&request) {
            *tunnel.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(hyper::upgrade::on(&mut request));
        }
        respond(request, Arc::clone(&shared)).await
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    // A broken connection is not an error here.
    tokio::select! {
        _ = connection.as_mut() => {}
        _ = stopped.changed() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
            return;
        }
    }
    let opened = tunnel.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(opened) = opened else { return };
    tokio::select! {
        () = async {
            if let Ok(tunnel) = opened.await {
                shared.vendor_hosts.answer(tunnel).await;
            }
        } => {}
        _ = stopped.changed() => {}
    }
}

/// The state that all connections share: the script and the record.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub limits: Limits,
    pub access: Access,
    /// The hosts that are answered for, when the server is a proxy.
    pub vendor_hosts: VendorHosts,
    refused: AtomicUsize,
    started: Instant,
    state: Mutex<State>,
    arrivals: watch::Sender<usize>,
}

struct State {
    playback: Playback,
    requests: Vec<Recorded>,
    recorded_bytes: usize,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} requests", self.requests.len())
    }
}

impl ServerState {
    pub fn new(script: Script, limits: Limits, address: SocketAddr) -> Self {
        Self {
            limits,
            access: Access::new(address),
            vendor_hosts: VendorHosts::default(),
            refused: AtomicUsize::new(0),
            started: Instant::now(),
            state: Mutex::new(State {
                playback: Playback::new(script),
                requests: Vec::new(),
                recorded_bytes: 0,
            }),
            arrivals: watch::Sender::new(0),
        }
    }

    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns whether a request of a proxy's client opens a tunnel to a host that is answered for.
    fn opens_tunnel(&self, request: &Request<Incoming>) -> bool {
        let authority = self.access.elsewhere(request.uri());
        request.method() == Method::CONNECT
            && authority.is_some_and(|authority| self.vendor_hosts.include(authority))
    }

    pub fn requests(&self) -> Vec<Recorded> {
        self.state().requests.clone()
    }

    /// Returns the requests after the first `seen`.
    pub fn requests_after(&self, seen: usize) -> Vec<Recorded> {
        self.state().requests.get(seen..).unwrap_or_default().to_vec()
    }

    pub fn arrivals(&self) -> watch::Receiver<usize> {
        self.arrivals.subscribe()
    }

    /// Locks the state. A poisoned lock is ignored: every change is one assignment or push.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn respond(
    request: Request<Incoming>,
    shared: Arc<ServerState>,
) -> Result<Response<PacedBody>, Infallible> {
    let (mut parts, body) = request.into_parts();
    if let Err(refused) = shared.access.admit(&mut parts) {
        shared.refused.fetch_add(1, Ordering::Relaxed);
        return Ok(denial(&parts, refused));
    }
    let body = match Limited::new(body, shared.limits.body_bytes).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            let limit = shared.limits.body_bytes;
            let message = format!("the body is larger than {limit} bytes");
            return Ok(refusal(&parts, StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        Err(_) => return Ok(refusal(&parts, StatusCode::BAD_REQUEST, "the body ended early")),
    };
    let body = match encoding::unpacked(&parts.headers, body, shared.limits.body_bytes) {
        Ok(body) => body,
        Err(error) => {
            let status = match error {
                EncodingError::Unknown(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
                EncodingError::Broken(_) => StatusCode::BAD_REQUEST,
                EncodingError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            };
            return Ok(refusal(&parts, status, error.to_string()));
        }
    };
    let Some(answer) = shared.decide(&parts, body) else {
        return Ok(refusal(&parts, StatusCode::INSUFFICIENT_STORAGE, "the record is full"));
    };
    Ok(match answer {
        Decision::Tunnel => Response::new(PacedBody::new([])),
        Decision::Fixed(status, value) => json_response(status, &value),
        Decision::Scripted(scripted) => scripted.play().await,
    })
}

/// The response to a request, chosen and recorded under one lock, so that calls get their answers in order.
enum Decision {
    Fixed(u16, Value),
    /// What is sent through it is answered for its host.
    Tunnel,
    Scripted(Box<Scripted>),
}

impl Decision {
    /// Returns the status of the answer, the tokens that it reports, and why its model stopped.
    fn report(&self) -> (u16, Option<convoke_protocol::usage::Usage>, Option<AnswerEnd>) {
        let scripted = match self {
            Self::Fixed(status, _) => return (*status, None, None),
            Self::Tunnel => return (200, None, None),
            Self::Scripted(scripted) => scripted,
        };
        match &scripted.answer.content {
            Content::Error(error) => (error.status, None, None),
            Content::Raw(raw) => {
                let facts = scripted.facts(raw.content_type, [&raw.body]);
                (200, facts.usage, facts.end)
            }
            Content::Reply(reply) => match reply.end {
                End::Failed if scripted.recognised.framing == Framing::Whole => (500, None, None),
                End::Failed | End::Cut | End::Hang => (200, None, None),
                End::Done => (200, Some(scripted.counted(reply)), None),
                End::MaxTokens | End::Refused => {
                    let played = scripted.played(reply);
                    let sent = played.iter().filter_map(|step| match step {
                        SendStep::Send(bytes) => Some(bytes),
                        SendStep::Wait(_) | SendStep::Cut | SendStep::Hang => None,
                    });
                    let end = scripted.facts(scripted.content_type(), sent).end;
                    (200, Some(scripted.counted(reply)), end)
                }
            },
        }
    }
}

struct Scripted {
    recognised: Recognised,
    answer: Answer,
    number: usize,
    request_bytes: usize,
}

impl ServerState {
    /// Chooses the response to a request and records it; `None` if the record is full.
    fn decide(&self, parts: &Parts, body: Bytes) -> Option<Decision> {
        let mut state = self.state();
        if state.recorded_bytes + body.len() > self.limits.recorded_bytes {
            return None;
        }
        let number = state.requests.len() + 1;
        let (kind, answered, decision) = self.choose(&mut state.playback, parts, &body, number);
        let (status, usage, end) = decision.report();
        state.recorded_bytes += body.len();
        state.requests.push(Recorded {
            number,
            after: self.started.elapsed(),
            method: parts.method.to_string(),
            target: record::target(parts),
            headers: record::headers(parts),
            body,
            sent: None,
            kind,
            answered,
            status,
            usage,
            end,
        });
        drop(state);
        self.arrivals.send_replace(number);
        Some(decision)
    }

    fn choose(
        &self,
        playback: &mut Playback,
        parts: &Parts,
        body: &Bytes,
        number: usize,
    ) -> (RequestKind, Answered, Decision) {
        let fixed = |kind, status, value| {
            (kind, Answered::Fixed { status }, Decision::Fixed(status, value))
        };
        if let Some(host) = self.access.elsewhere(&parts.uri).map(str::to_owned) {
            if parts.method == Method::CONNECT && self.vendor_hosts.include(&host) {
                let answered = Answered::Fixed { status: 200 };
                return (RequestKind::Elsewhere { host }, answered, Decision::Tunnel);
            }
            let message = format!("the rehearsal server blocks all other hosts; refused {host}");
            return fixed(
                RequestKind::Elsewhere { host },
                403,
                json!({"error": {"message": message}}),
            );
        }
        let path = parts.uri.path();
        let query = parts.uri.query().unwrap_or_default();
        let called = Wire::at(path).filter(|_| parts.method == Method::POST);
        let Some(wire) = called else {
            let (kind, status, value) = auxiliary::answer(parts, body, number);
            return fixed(kind, status, value);
        };
        let recognised = match Recognised::parse(wire, path, query, body) {
            Ok(recognised) => recognised,
            Err(message) => {
                let error = HttpError::new(400, message);
                return fixed(RequestKind::Unknown, 400, wire::error(wire, &error, number));
            }
        };
        let (mut answered, mut answer) = playback.next(&recognised.call, body);
        if let (Answered::Default, Some(schema)) = (answered, &recognised.schema) {
            answered = Answered::Schema;
            answer = Answer::say(wire::schema_instance(schema).to_string());
        }
        let kind = RequestKind::ModelCall(recognised.call.clone());
        let scripted = Scripted { recognised, answer, number, request_bytes: body.len() };
        (kind, answered, Decision::Scripted(Box::new(scripted)))
    }
}

impl Scripted {
    async fn play(&self) -> Response<PacedBody> {
        tokio::time::sleep(self.answer.delay).await;
        match &self.answer.content {
            Content::Error(error) => self.error(error),
            Content::Reply(reply)
                if reply.end == End::Failed && self.recognised.framing == Framing::Whole =>
            {
                self.error(&HttpError::new(500, wire::FAILURE))
            }
            Content::Reply(reply) => self.reply(reply),
            Content::Raw(raw) => {
                let mut response = Response::new(PacedBody::whole(raw.body.clone()));
                let kind = HeaderValue::from_static(raw.content_type);
                response.headers_mut().insert(CONTENT_TYPE, kind);
                response
            }
        }
    }

    /// Reads the facts of an answer as a client would.
    fn facts<'b>(
        &self,
        content_type: &str,
        pieces: impl IntoIterator<Item = &'b Bytes>,
    ) -> AnswerFacts {
        let mut reader = AnswerReader::new(self.recognised.call.wire, content_type);
        pieces.into_iter().for_each(|piece| reader.push(piece));
        reader.finish()
    }

    fn error(&self, error: &HttpError) -> Response<PacedBody> {
        let value = wire::error(self.recognised.call.wire, error, self.number);
        let mut response = json_response(error.status, &value);
        for (name, value) in &error.headers {
            let name = HeaderName::from_bytes(name.as_bytes());
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }

    fn reply(&self, reply: &Reply) -> Response<PacedBody> {
        let mut response = Response::new(PacedBody::new(self.played(reply)));
        let kind = HeaderValue::from_static(self.content_type());
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }

    fn played(&self, reply: &Reply) -> Vec<SendStep> {
        let Recognised { call, framing, stream_usage, .. } = &self.recognised;
        let facts = Facts {
            model: &call.model,
            number: self.number,
            usage: self.usage(reply),
            stream_usage: *stream_usage,
        };
        wire::play(call.wire, *framing, reply, &facts)
    }

    fn content_type(&self) -> &'static str {
        match self.recognised.framing {
            Framing::Events => "text/event-stream",
            Framing::Whole | Framing::Array => "application/json",
        }
    }

    fn usage(&self, reply: &Reply) -> Usage {
        reply.usage.unwrap_or_else(|| self.estimate(reply))
    }

    fn counted(&self, reply: &Reply) -> convoke_protocol::usage::Usage {
        let Usage { input, output, cached } = self.usage(reply);
        convoke_protocol::usage::Usage {
            input,
            output,
            cached,
            ..convoke_protocol::usage::Usage::default()
        }
    }

    fn estimate(&self, reply: &Reply) -> Usage {
        let lengths = reply.steps.iter().map(|step| match step {
            ReplyStep::Say(text) | ReplyStep::Think(text) => text.len(),
            ReplyStep::Call { name, input } => name.len() + input.to_string().len(),
            ReplyStep::Wait(_) => 0,
        });
        Usage {
            input: estimate_tokens(self.request_bytes as u64),
            output: estimate_tokens(lengths.sum::<usize>() as u64),
            cached: 0,
        }
    }
}

fn json_response(status: u16, value: &Value) -> Response<PacedBody> {
    let mut response = Response::new(PacedBody::whole(value.to_string()));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Refuses a request without access.
fn denial(parts: &Parts, refused: Refused) -> Response<PacedBody> {
    let mut response = refusal(parts, refused.status(), refused.to_string());
    if refused == Refused::ProxySecret {
        let basic = HeaderValue::from_static("Basic realm=\"convoke\"");
        response.headers_mut().insert(PROXY_AUTHENTICATE, basic);
    }
    response
}

/// Refuses a request unread, with an error in the vendor's format.
fn refusal(parts: &Parts, status: StatusCode, message: impl Into<String>) -> Response<PacedBody> {
    let error = HttpError::new(status.as_u16(), message);
    json_response(
        status.as_u16(),
        &wire::error(convoke_wire::recognition::spoken_by(parts), &error, 0),
    )
}
