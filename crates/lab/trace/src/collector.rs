//! A collector of traces, and what is sent to it.

use std::time::{Duration, Instant};

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{StatusCode, Url};

use crate::otlp::Batch;

/// The path at which a collector takes traces, if its address has none.
const PATH: &str = "/v1/traces";
/// The maximum time of one attempt at sending a batch.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The first pause after a failed attempt; each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// A collector of traces that takes OTLP over HTTP.
#[derive(Debug, Clone)]
pub struct Collector {
    http: reqwest::Client,
    url: Url,
    headers: HeaderMap,
    patience: Duration,
}

/// A collector cannot be used, or did not take a trace.
#[derive(Debug, thiserror::Error)]
pub enum CollectorError {
    /// The address is none of HTTP.
    #[error("the address of the collector, {0}, is not one of HTTP; write http://127.0.0.1:4318")]
    Address(String),
    /// A header cannot be sent.
    #[error("the header `{0}` cannot be sent; write name=value")]
    Header(String),
    /// The certificates of this system cannot be used.
    #[error("cannot prepare connections: {0}")]
    Connections(String),
    /// The collector could not be reached in time.
    #[error("the collector {url} cannot be reached: {problem}")]
    Away { url: String, problem: String },
    /// The collector refused a trace.
    #[error("the collector {url} refused the trace: {problem}")]
    Refused { url: String, problem: String },
}

impl Collector {
    /// Creates a collector at an address, with headers as `name=value,…`. A batch that it does not take is sent again until its
    /// patience is over.
    pub fn new(address: &str, headers: &str, patience: Duration) -> Result<Self, CollectorError> {
        let wrong = || CollectorError::Address(address.to_owned());
        let mut url = Url::parse(address).map_err(|_| wrong())?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(wrong());
        }
        if url.path() == "/" {
            url.set_path(PATH);
        }
        // The cryptography provider is global; an existing one is kept.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("convoke/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| CollectorError::Connections(error.to_string()))?;
        Ok(Self { http, url, headers: parse_headers(headers)?, patience })
    }

    /// Sends a batch. Returns after the collector has taken it.
    pub async fn send(&self, batch: &Batch) -> Result<(), CollectorError> {
        let body = batch.to_protobuf();
        let deadline = Instant::now() + self.patience;
        let mut pause = FIRST_PAUSE;
        loop {
            let failed = match self.try_send(body.clone()).await {
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            let wait = failed.wait.unwrap_or(pause);
            pause *= 2;
            if !failed.is_transient || Instant::now() + wait > deadline {
                return Err(failed.error);
            }
            tokio::time::sleep(wait).await;
        }
    }

    async fn try_send(&self, body: Vec<u8>) -> Result<(), FailedAttempt> {
        let request = self.http.post(self.url.clone()).headers(self.headers.clone());
        let request = request.header(CONTENT_TYPE, "application/x-protobuf").body(body);
        let url = self.url.to_string();
        let response = request.send().await.map_err(|error| {
            let problem = innermost(&error);
            FailedAttempt {
                error: CollectorError::Away { url: url.clone(), problem },
                is_transient: true,
                wait: None,
            }
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let header = response.headers().get(RETRY_AFTER).and_then(|it| it.to_str().ok());
        let wait = header.and_then(|it| it.parse().ok()).map(Duration::from_secs);
        let is_transient =
            status == StatusCode::TOO_MANY_REQUESTS || matches!(status.as_u16(), 502..=504);
        let error = CollectorError::Refused { url, problem: status.to_string() };
        Err(FailedAttempt { error, is_transient, wait })
    }
}

/// An attempt at sending that failed.
struct FailedAttempt {
    error: CollectorError,
    is_transient: bool,
    /// The pause that the collector asked for.
    wait: Option<Duration>,
}

fn innermost(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

fn parse_headers(written: &str) -> Result<HeaderMap, CollectorError> {
    let mut headers = HeaderMap::new();
    for header in written.split(',').map(str::trim).filter(|it| !it.is_empty()) {
        let name = header.split('=').next().unwrap_or_default();
        let wrong = || CollectorError::Header(name.to_owned());
        let (name, value) = header.split_once('=').ok_or_else(wrong)?;
        let name: HeaderName = name.trim().parse().map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}
