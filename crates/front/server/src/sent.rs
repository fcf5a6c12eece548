//! A text that a model was given, wherever it is kept: the texts of a turn, a stored request, a request of another program.

use std::sync::Arc;

use axum::http::StatusCode;
use convoke_agent::thread::ThreadStore as _;
use convoke_core::ledger::Ledger;
use convoke_protocol::agent_event::RequestPurpose;
use convoke_protocol::id::{SessionId, ThreadId, TurnId};
use convoke_protocol::request::{RequestRecord, RequestTexts};
use convoke_protocol::usage::Usage;
use convoke_session::rows::find_turn;
use convoke_session::{SentTurn, StoreError};
use serde::Deserialize;

use crate::error::{ApiError, ApiResult};
use crate::other_sessions::{OtherName, OtherSessions, PricedRequest, ReadError};
use crate::views::given::{Given, of_body, of_request, of_turn};
use crate::{App, Scope};

/// The name of a text that a model was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SentName {
    Turn { session: SessionId, turn: u64, attempt: Option<u32> },
    Request { session: SessionId, turn: u64, number: u64 },
    Other { name: OtherName, number: u64 },
}

/// The names in a path.
#[derive(Debug, Deserialize)]
pub(crate) struct PathNames {
    program: Option<String>,
    id: String,
    turn: Option<String>,
    number: Option<u64>,
}

impl SentName {
    /// Returns the name that a path has.
    pub fn of_path(app: &App, names: PathNames, attempt: Option<u32>) -> ApiResult<Self> {
        let PathNames { program, id, turn, number } = names;
        let missing = || ApiError::not_found("no such text");
        if let Some(program) = program {
            let number = number.ok_or_else(missing)?;
            return Ok(Self::Other { name: OtherName { program, id }, number });
        }
        let session = app.session_id(&id)?;
        let turn = turn.ok_or_else(missing)?;
        let turn = turn.parse().map_err(|_| ApiError::not_found("no such turn"))?;
        Ok(match number {
            Some(number) => Self::Request { session, turn, number },
            None => Self::Turn { session, turn, attempt },
        })
    }

    /// Reads the address of a view: `/sessions/ID/turns/N`, `…/turns/N/requests/K` or `/programs/P/ID/requests/N`.
    pub fn parse(app: &App, address: &str) -> ApiResult<Self> {
        let unknown = || ApiError::bad_request("an address of a turn or of a request is needed");
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        let attempt = query.split('&').find_map(|it| it.strip_prefix("attempt=")?.parse().ok());
        let path = path.split('#').next().unwrap_or_default();
        let words: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let number = |word: &str| word.parse::<u64>().map_err(|_| unknown());
        let (program, id, turn, number) = match *words {
            ["sessions", id, "turns", turn] => (None, id, Some(turn.to_owned()), None),
            ["sessions", id, "turns", turn, "requests", n] => {
                (None, id, Some(turn.to_owned()), Some(number(n)?))
            }
            ["programs", program, id, "requests", n] => {
                (Some(decoded(program).ok_or_else(unknown)?), id, None, Some(number(n)?))
            }
            _ => return Err(unknown()),
        };
        let id = decoded(id).ok_or_else(unknown)?;
        Self::of_path(app, PathNames { program, id, turn, number }, attempt)
    }

    /// Returns the path of its view.
    pub fn path(&self) -> String {
        match self {
            Self::Turn { session, turn, .. } => format!("/sessions/{session}/turns/{turn}"),
            Self::Request { session, turn, number } => {
                format!("/sessions/{session}/turns/{turn}/requests/{number}")
            }
            Self::Other { name, number } => format!("{}/requests/{number}", name.path()),
        }
    }

    /// Returns the address of its view.
    pub fn address(&self) -> String {
        match self {
            Self::Turn { attempt: Some(attempt), .. } => {
                format!("{}?attempt={attempt}", self.path())
            }
            _ => self.path(),
        }
    }
}

/// Returns a segment of a path as text.
fn decoded(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let code = digit(rest.next()?)? * 16 + digit(rest.next()?)?;
        bytes.push(u8::try_from(code).ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// A stored request with its texts.
pub(crate) struct StoredRequest {
    pub session: SessionId,
    pub turn: TurnId,
    pub record: RequestRecord<()>,
    pub texts: RequestTexts,
    pub ledger: Ledger<'static>,
    /// The request before it, with which a cache compares it.
    pub before: Option<SentName>,
}

/// A text that a model was given.
pub(crate) enum Sent {
    Turn { session: SessionId, sent: Box<SentTurn> },
    Request(Box<StoredRequest>),
    Other { name: OtherName, request: Arc<PricedRequest> },
}

impl Sent {
    /// Reads a text.
    pub async fn read(app: &App, name: SentName) -> ApiResult<Self> {
        match name {
            SentName::Turn { session, turn, attempt } => {
                let turn = turn_of(app, session, turn).await?;
                let (id, state) = (turn.id, turn.state.as_str());
                let sent = SentTurn::read(&app.store, session, turn, attempt).await?;
                let sent = sent.ok_or_else(|| {
                    ApiError::not_found(match attempt {
                        None => format!("nothing was sent for turn {id}: it is {state}"),
                        Some(attempt) => format!("turn {id} has no attempt {attempt}"),
                    })
                })?;
                Ok(Self::Turn { session, sent: Box::new(sent) })
            }
            SentName::Request { session, turn, number } => {
                let stored = stored_request(app, session, turn, number).await?;
                Ok(Self::Request(Box::new(stored)))
            }
            SentName::Other { name, number } => {
                if app.scope != Scope::All {
                    return Err(ApiError::forbidden("this page shows one conversation"));
                }
                let wanted = name.clone();
                let request =
                    read_other(app, move |others| others.request(&wanted, number)).await?;
                Ok(Self::Other { name, request })
            }
        }
    }

    /// Returns its name.
    pub fn name(&self) -> SentName {
        match self {
            Self::Turn { session, sent } => SentName::Turn {
                session: *session,
                turn: sent.turn.id.0,
                attempt: Some(sent.attempt.number),
            },
            Self::Request(stored) => SentName::Request {
                session: stored.session,
                turn: stored.turn.0,
                number: stored.record.number,
            },
            Self::Other { name, request } => {
                SentName::Other { name: name.clone(), number: request.request.number }
            }
        }
    }

    /// Returns a title for people.
    pub fn title(&self) -> String {
        match self {
            Self::Turn { sent, .. } => {
                let attempt = match sent.attempts.len() {
                    0 | 1 => String::new(),
                    _ => format!(", attempt {}", sent.attempt.number),
                };
                format!("Prompt of turn {}{attempt}, {}", sent.turn.id, sent.turn.member)
            }
            Self::Request(stored) => {
                format!("Request {} of turn {}", stored.record.number, stored.turn)
            }
            Self::Other { name, request } => {
                format!("Request {} of {}", request.request.number, name.short())
            }
        }
    }

    /// Returns its parts.
    pub fn given(&self) -> Given<'_> {
        let parts = match self {
            Self::Turn { sent, .. } => of_turn(&sent.ledger, sent.system.as_deref(), &sent.prompt),
            Self::Request(stored) => of_body(&stored.ledger, &stored.texts.body),
            Self::Other { request, .. } => of_request(&request.request),
        };
        let query = match self.name() {
            SentName::Turn { attempt: Some(attempt), .. } => format!("?attempt={attempt}"),
            _ => String::new(),
        };
        Given { parts, path: format!("/api{}", self.name().path()), query }
    }

    /// Returns the tokens that the provider counted.
    pub fn usage(&self) -> Option<Usage> {
        match self {
            Self::Turn { .. } => None,
            Self::Request(stored) => stored.record.outcome.usage,
            Self::Other { request, .. } => request.request.usage,
        }
    }
}

/// Reads a turn of a session by its number.
pub(crate) async fn turn_of(
    app: &App,
    session: SessionId,
    turn: u64,
) -> ApiResult<convoke_protocol::turn::Turn> {
    let found = find_turn(&app.store, session, TurnId(turn)).await?;
    found.ok_or_else(|| ApiError::not_found(format!("no turn {turn}")))
}

async fn stored_request(
    app: &App,
    session: SessionId,
    turn: u64,
    number: u64,
) -> ApiResult<StoredRequest> {
    let turn = turn_of(app, session, turn).await?;
    let thread = ThreadId::of_member(session, turn.member.as_str());
    let requests = app.store.requests(&thread).await.map_err(StoreError::from)?;
    let turn = turn.id;
    let is_it = |record: &&RequestRecord<()>| {
        record.number == number && record.attempt.is_some_and(|attempt| attempt.turn == turn)
    };
    let missing = || ApiError::not_found(format!("turn {turn} has no stored request {number}"));
    let record = requests.iter().find(is_it).cloned().ok_or_else(missing)?;
    let before = requests.iter().rev().find(|it| {
        it.number < number && is_aside(it.meta.purpose) == is_aside(record.meta.purpose)
    });
    let before = before.and_then(|it| {
        Some(SentName::Request { session, turn: it.attempt?.turn.0, number: it.number })
    });
    let texts = app.store.request_texts(&record.thread, number).await.map_err(StoreError::from)?;
    let ledger = texts.parse_ledger(&record.meta).map_err(|error| {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, format!("its ledger is damaged: {error}"))
    })?;
    Ok(StoredRequest { session, turn, record, texts, ledger, before })
}

/// Returns whether requests with a purpose stand beside the conversation, so that a cache does not continue it.
pub(crate) const fn is_aside(purpose: RequestPurpose) -> bool {
    !matches!(purpose, RequestPurpose::Answer | RequestPurpose::Compaction)
}

/// Reads sessions of other programs on a thread that may block.
pub(crate) async fn read_other<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&dyn OtherSessions) -> Result<T, ReadError> + Send + 'static,
) -> ApiResult<T> {
    let others = app.host.other_sessions();
    let done = tokio::task::spawn_blocking(move || work(&*others)).await;
    let failed = |error: tokio::task::JoinError| {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    };
    Ok(done.map_err(failed)??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_decoded_or_refused() {
        assert_eq!(decoded("a%20b%2F%C3%A4").as_deref(), Some("a b/ä"));
        assert_eq!((decoded("%2"), decoded("%zz"), decoded("%ff")), (None, None, None));
    }
}
