//! The account of a turn's request: each part, its size, and whose it is. It adds up to the body.

use convoke_core::ledger::estimate_tokens;
use convoke_rehearsal::{Kind, PartKind, Recorded, RequestParts, Wire};
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use super::ownership::{Origin, attribute};
use super::{Capture, CaptureError, Ended};

/// The account of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The number of the request.
    pub request: usize,
    /// Its wire format.
    pub wire: Wire,
    /// The model that it calls.
    pub model: String,
    /// Whether the answer was to be streamed.
    pub streamed: bool,
    /// The bytes of the body.
    pub body_bytes: u64,
    /// The bytes of it that belong to no part.
    pub envelope_bytes: u64,
    /// The parts, in order.
    pub parts: Vec<AccountPart>,
}

/// One part of the account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountPart {
    /// What it is.
    pub kind: PartKind,
    /// Where it stands.
    pub place: String,
    /// Who speaks, where the wire says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// What to call it.
    pub title: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its estimated tokens.
    pub tokens_estimate: u64,
    /// What of it is the user's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub yours: Vec<Share>,
}

impl AccountPart {
    /// Returns the bytes of it that are the user's.
    pub fn your_bytes(&self) -> u64 {
        self.yours.iter().map(|share| share.bytes).sum()
    }
}

/// A share of the user's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Where it came from.
    pub origin: Origin,
    /// Its bytes.
    pub bytes: u64,
}

impl Capture {
    /// Returns the account of the turn's own request.
    pub fn account(&self) -> Result<Account, CaptureError> {
        let (request, call) = self
            .turn()
            .and_then(|turn| Some((turn, turn.model_call()?)))
            .ok_or_else(|| self.no_call())?;
        let request_parts = RequestParts::of(call.wire, &request.body)
            .map_err(|source| CaptureError::NotJson { number: request.number, source })?;
        let spans = attribute(&request_parts.parts, &self.yours);
        let envelope_bytes = request_parts.envelope_bytes();
        let parts = request_parts.parts.into_iter().zip(spans).map(|(part, spans)| {
            let mut yours: Vec<Share> = Vec::new();
            for span in spans {
                let origin = &self.yours[span.yours].origin;
                let bytes = span.range.len() as u64;
                match yours.iter_mut().find(|share| share.origin == *origin) {
                    Some(share) => share.bytes += bytes,
                    None => yours.push(Share { origin: origin.clone(), bytes }),
                }
            }
            let bytes = part.text.len() as u64;
            AccountPart {
                kind: part.kind,
                place: part.place,
                role: part.role,
                title: part.title,
                bytes,
                tokens_estimate: estimate_tokens(bytes),
                yours,
            }
        });
        Ok(Account {
            request: request.number,
            wire: call.wire,
            model: call.model.clone(),
            streamed: call.streamed,
            body_bytes: request_parts.body_bytes,
            envelope_bytes,
            parts: parts.collect(),
        })
    }

    fn no_call(&self) -> CaptureError {
        let is_elsewhere = |request: &&Recorded| matches!(request.kind, Kind::Elsewhere { .. });
        let sent = self.requests.iter().filter(|request| !is_elsewhere(request));
        let said = match &self.ended {
            Ended::Done { output } => output.clone(),
            Ended::Failed { reason } => reason.clone(),
            Ended::TimedOut => "nothing, until its time was over".to_owned(),
            Ended::Interrupted => "nothing, until it was interrupted".to_owned(),
        };
        let sent = sent.map(|request| format!("{} {}", request.method, request.target));
        CaptureError::NoCall { sent: sent.collect(), said }
    }
}

impl Account {
    /// Returns everything that is the user's, by origin, in the order of the request.
    pub fn yours(&self) -> Vec<Share> {
        let mut yours: Vec<Share> = Vec::new();
        for share in self.parts.iter().flat_map(|part| &part.yours) {
            match yours.iter_mut().find(|known| known.origin == share.origin) {
                Some(known) => known.bytes += share.bytes,
                None => yours.push(share.clone()),
            }
        }
        yours
    }

    /// Returns the bytes that are the user's.
    pub fn your_bytes(&self) -> u64 {
        self.parts.iter().map(AccountPart::your_bytes).sum()
    }

    /// Returns the bytes that are the program's own, the envelope included.
    pub fn program_bytes(&self) -> u64 {
        self.body_bytes - self.your_bytes()
    }
}

impl Serialize for Account {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut account = serializer.serialize_struct("Account", 11)?;
        account.serialize_field("request", &self.request)?;
        account.serialize_field("wire", &self.wire)?;
        account.serialize_field("model", &self.model)?;
        account.serialize_field("streamed", &self.streamed)?;
        account.serialize_field("bodyBytes", &self.body_bytes)?;
        account.serialize_field("tokensEstimate", &estimate_tokens(self.body_bytes))?;
        account.serialize_field("yourBytes", &self.your_bytes())?;
        account.serialize_field("programBytes", &self.program_bytes())?;
        account.serialize_field("envelopeBytes", &self.envelope_bytes)?;
        account.serialize_field("yours", &self.yours())?;
        account.serialize_field("parts", &self.parts)?;
        account.end()
    }
}
