//! The HTTP client: sends a request and streams the response.
//!
//! A [`RunningRequest`] reads data from the socket on demand, so a slow reader slows the server down instead of filling
//! memory. Dropping a call ends it immediately.

mod body;
mod error;
mod retry;
mod stream;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use convoke_files::clock::since_1970;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
};
use tokio::time::Instant;

use self::body::TrackedBody;
pub use self::error::{CallError, may_speak_chat};
use self::stream::{Advance, Stream};
use crate::endpoint::{Endpoint, EndpointError, Proxies};
use crate::secret::Key;
use crate::wire::ParsedResponse;

/// The maximum size of an error body.
const ERROR_BYTES: usize = 64 << 10;

/// The maximum size of a list of models.
const LIST_BYTES: usize = 4 << 20;

/// The limits of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// The time limit for connecting.
    pub connect: Duration,
    /// The maximum time without data from the server.
    pub idle: Duration,
    /// The time limit for all attempts together.
    pub total: Duration,
    /// The maximum number of retries.
    pub retries: u32,
    /// The maximum size of an event.
    pub event_bytes: usize,
    /// The maximum size of each text. The rest is counted and left out.
    pub reply_bytes: usize,
    /// The maximum size of a response.
    pub answer_bytes: u64,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(20),
            idle: Duration::from_mins(5),
            total: Duration::from_mins(30),
            retries: 3,
            event_bytes: 32 << 20,
            reply_bytes: 4 << 20,
            answer_bytes: 512 << 20,
        }
    }
}

/// An event of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallEvent {
    /// The model wrote a piece of text.
    Text(String),
    /// The model wrote a piece of reasoning.
    Thought(String),
    /// An attempt failed and is retried. Discard earlier text of the response.
    Retry {
        /// The number of the failed attempt, from 1.
        attempt: u32,
        /// The maximum number of attempts.
        max: u32,
        /// The wait before the next attempt.
        wait: Duration,
        /// The reason.
        error: CallError,
    },
    /// The response is complete; the last event.
    Answered(ParsedResponse),
    /// The call failed; the last event.
    Failed(CallError),
}

/// Sends requests to one endpoint.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    endpoint: Endpoint,
    key: Option<Key>,
    limits: CallLimits,
}

/// An error while creating a client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The endpoint or a proxy is invalid.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The system's certificates cannot be used.
    #[error("cannot prepare connections: {0}")]
    Tls(String),
}

impl Client {
    /// Creates a client without connecting.
    pub fn new(
        endpoint: Endpoint,
        key: Option<Key>,
        proxies: &Proxies,
        limits: CallLimits,
    ) -> Result<Self, ClientError> {
        // The cryptography provider is global; an existing one is kept.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .connect_timeout(limits.connect)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("convoke/", env!("CARGO_PKG_VERSION")));
        for proxy in proxies.towards(&endpoint)? {
            builder = builder.proxy(proxy);
        }
        let http = builder.build().map_err(|error| ClientError::Tls(message_of(&error)))?;
        Ok(Self { http, endpoint, key, limits })
    }

    /// Returns the endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Starts a call: sends the exact body to a path below the endpoint's address.
    pub fn call(
        &self,
        path: &str,
        body: impl Into<Bytes>,
        headers: &[(&'static str, &str)],
    ) -> RunningRequest<'_> {
        let mut given = HeaderMap::new();
        for (name, value) in headers {
            if let Ok(value) = HeaderValue::from_str(value) {
                given.insert(HeaderName::from_static(name), value);
            }
        }
        let started = Instant::now();
        RunningRequest {
            client: self,
            url: self.endpoint.url(path),
            body: body.into(),
            headers: given,
            deadline: started + self.limits.total,
            attempt: 0,
            events: VecDeque::new(),
            state: State::Ready,
            leaving: Arc::default(),
        }
    }

    /// Returns the name of the first model that the server lists, if it lists any.
    pub async fn first_model(&self) -> Option<String> {
        const TIMEOUT: Duration = Duration::from_secs(10);
        let mut request = self.http.get(self.endpoint.url("/models"));
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key.header());
        }
        let read = async {
            let mut response = request.send().await.ok().filter(|it| it.status().is_success())?;
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await.ok()? {
                body.extend_from_slice(&chunk);
                if body.len() > LIST_BYTES {
                    return None;
                }
            }
            let list: serde_json::Value = serde_json::from_slice(&body).ok()?;
            let first = list["data"].as_array().or_else(|| list["models"].as_array())?.first()?;
            let name = ["id", "name", "model"].iter().find_map(|field| first[field].as_str())?;
            Some(name.to_owned())
        };
        tokio::time::timeout(TIMEOUT, read).await.ok().flatten()
    }

    fn redacted(&self, error: CallError) -> CallError {
        match &self.key {
            Some(key) => error.with_message(|message| key.redactor().redact(message).into_owned()),
            None => error,
        }
    }
}

/// A running call. Dropping it ends the call.
#[derive(Debug)]
pub struct RunningRequest<'c> {
    client: &'c Client,
    url: reqwest::Url,
    body: Bytes,
    headers: HeaderMap,
    deadline: Instant,
    attempt: u32,
    events: VecDeque<CallEvent>,
    state: State,
    leaving: Arc<AtomicBool>,
}

#[derive(Debug)]
enum State {
    Ready,
    Waiting(Instant),
    Streaming(Box<Stream>),
    Over,
}

impl RunningRequest<'_> {
    /// Returns a flag that is set once a connection takes the body.
    pub fn leaving(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.leaving)
    }

    /// Returns the next event; `None` after the last one.
    pub async fn next(&mut self) -> Option<CallEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            match &mut self.state {
                State::Over => return None,
                State::Waiting(until) => {
                    tokio::time::sleep_until(*until).await;
                    self.state = State::Ready;
                }
                State::Ready => {
                    self.attempt += 1;
                    match self.open().await {
                        Ok(stream) => self.state = State::Streaming(Box::new(stream)),
                        Err(error) => self.failed(error),
                    }
                }
                State::Streaming(stream) => {
                    let total = self.client.limits.total;
                    let advanced =
                        tokio::time::timeout_at(self.deadline, stream.advance(&mut self.events));
                    match advanced.await {
                        Ok(Ok(Advance::More)) => {}
                        Ok(Ok(Advance::Over)) => self.answered(),
                        Ok(Err(error)) => self.failed(error),
                        Err(_) => self.failed(CallError::TimedOut(total)),
                    }
                }
            }
        }
    }

    fn answered(&mut self) {
        if let State::Streaming(stream) = std::mem::replace(&mut self.state, State::Over) {
            self.events.push_back(CallEvent::Answered(stream.into_response()));
        }
    }

    fn failed(&mut self, error: CallError) {
        let error = self.client.redacted(error);
        let retries = self.client.limits.retries;
        let wait = retry::wait(self.attempt, error.asked_wait());
        let retry_at = Instant::now() + wait;
        if error.is_passing() && self.attempt <= retries && retry_at < self.deadline {
            let max = retries + 1;
            self.events.push_back(CallEvent::Retry { attempt: self.attempt, max, wait, error });
            self.state = State::Waiting(retry_at);
        } else {
            self.events.push_back(CallEvent::Failed(error));
            self.state = State::Over;
        }
    }

    async fn open(&self) -> Result<Stream, CallError> {
        let limits = &self.client.limits;
        let mut request = self
            .client
            .http
            .post(self.url.clone())
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream")
            .body(TrackedBody::new(self.body.clone(), Arc::clone(&self.leaving)));
        if let Some(key) = &self.client.key {
            request = request.header(AUTHORIZATION, key.header());
        }
        let give_up_at = self.deadline.min(Instant::now() + limits.connect + limits.idle);
        let response = match tokio::time::timeout_at(give_up_at, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(unreachable(&error)),
            Err(_) if Instant::now() >= self.deadline => {
                return Err(CallError::TimedOut(limits.total));
            }
            Err(_) => return Err(CallError::Idle(limits.idle)),
        };
        if response.status().is_success() {
            return Ok(Stream::new(response, self.client.endpoint.wire, limits));
        }
        let read = tokio::time::timeout_at(self.deadline, refusal(response, limits.idle));
        Err(read.await.unwrap_or(CallError::TimedOut(limits.total)))
    }
}

/// Reads an error response.
async fn refusal(mut response: reqwest::Response, idle: Duration) -> CallError {
    let status = response.status().as_u16();
    if response.status().is_redirection() {
        let target = match leads_to(&response) {
            Some(target) => format!("to {target}"),
            None => "elsewhere".to_owned(),
        };
        let message = format!(
            "the address redirects {target}, and redirects are not followed; set `base-url` accordingly"
        );
        let reason = convoke_protocol::verdict::FailureReason::Request;
        return CallError::Status { status, reason, message, after: None };
    }
    let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let after = after.and_then(|value| retry::retry_after(value, since_1970()));
    let mut body = Vec::new();
    while body.len() < ERROR_BYTES {
        match tokio::time::timeout(idle, response.chunk()).await {
            Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
            // The status is enough; the body may be missing.
            _ => break,
        }
    }
    body.truncate(ERROR_BYTES);
    CallError::from_answer(status, &String::from_utf8_lossy(&body), after)
}

/// Returns the target of a redirect, without credentials.
fn leads_to(response: &reqwest::Response) -> Option<reqwest::Url> {
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    let mut target = response.url().join(location).ok()?;
    target.set_query(None);
    target.set_fragment(None);
    // Fails only for addresses without a host, which have no credentials.
    let _ = (target.set_username(""), target.set_password(None));
    Some(target)
}

/// Converts a connection error, without its address, which may contain a key.
fn unreachable(error: &reqwest::Error) -> CallError {
    match tls_error(error) {
        Some(tls) => CallError::Tls(tls.to_string()),
        None if error.is_connect() => CallError::Connect(message_of(error)),
        None => CallError::Lost(message_of(error)),
    }
}

/// Finds a TLS error among the causes. I/O errors hide the wrapped error from `source`.
fn tls_error<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e rustls::Error> {
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        return Some(tls);
    }
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    match wrapped {
        Some(inner) => tls_error(inner),
        None => tls_error(error.source()?),
    }
}

/// Returns the message of the innermost cause.
fn message_of(error: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    if std::ptr::addr_eq(innermost, std::ptr::from_ref(error)) {
        if error.is_timeout() {
            "the server did not respond in time".to_owned()
        } else {
            "the connection failed".to_owned()
        }
    } else {
        innermost.to_string()
    }
}
