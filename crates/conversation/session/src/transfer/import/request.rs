//! Checks a request of an archive.

use convoke_core::ledger::Target;
use convoke_protocol::id::{AttemptRef, SessionId, TurnId};
use convoke_protocol::request::{RequestMeta, RequestOutcome, RequestRecord, RequestTexts};
use serde::de::IgnoredAny;

use super::super::ArchiveProblem;
use super::super::lines::RequestLine;
use super::thread::OpenThread;
use crate::request::{self, RequestDelta};

/// An invalid field of a request.
struct BadField {
    field: &'static str,
    reason: String,
}

fn bad<T>(field: &'static str, reason: String) -> Result<T, BadField> {
    Err(BadField { field, reason })
}

fn unreadable(field: &'static str) -> impl Fn(serde_json::Error) -> BadField {
    move |error| BadField { field, reason: error.to_string() }
}

impl OpenThread {
    /// Adds a request of a turn with this many attempts. Returns it with the size of its whole texts.
    pub(super) fn add_request(
        &mut self,
        line: RequestLine,
        session: SessionId,
        attempts: Option<(u64, Option<u32>)>,
    ) -> Result<(RequestRecord<RequestDelta>, u64), ArchiveProblem> {
        let number = line.number;
        let problem = |what: &str| {
            let name = &self.name;
            ArchiveProblem::Broken(format!("request {number} of the thread `{name}`: {what}"))
        };
        if number != self.requests + 1 {
            return Err(problem("the field `number` is out of order"));
        }
        if line.turn.is_some() != line.attempt.is_some() {
            return Err(problem("one of the fields `turn` and `attempt` is missing"));
        }
        let in_field = |BadField { field, reason }: BadField| {
            problem(&format!("the field `{field}`: {reason}"))
        };
        let record = self.record(line, session, attempts).map_err(in_field)?;
        let before = std::mem::take(&mut self.last);
        let texts = request::apply(&record, before)
            .map_err(|(field, error)| BadField { field, reason: error.to_string() })
            .and_then(|texts| check(&record.meta, &texts).map(|()| texts));
        let texts = texts.map_err(|BadField { field, reason }| {
            let name = &self.name;
            let what =
                format!("request {number} of the thread `{name}`: the field `{field}`: {reason}");
            ArchiveProblem::Broken(what)
        })?;
        let bytes = texts.body.len() + texts.ledger.len();
        self.last = texts;
        self.requests = number;
        Ok((record, bytes as u64))
    }

    fn record(
        &self,
        line: RequestLine,
        session: SessionId,
        attempts: Option<(u64, Option<u32>)>,
    ) -> Result<RequestRecord<RequestDelta>, BadField> {
        let RequestLine { number, turn, attempt, about, outcome, body, ledger, .. } = line;
        if let (Some((turn, attempts)), Some(attempt)) = (attempts, attempt) {
            match attempts {
                None => return bad("turn", format!("there is no turn {turn}")),
                Some(attempts) if !(1..=attempts).contains(&attempt) => {
                    return bad("attempt", format!("turn {turn} has no attempt {attempt}"));
                }
                Some(_) => {}
            }
        }
        let meta: RequestMeta = serde_json::from_str(&about).map_err(unreadable("about"))?;
        let outcome: Option<RequestOutcome> = outcome
            .map(|outcome| serde_json::from_str(&outcome))
            .transpose()
            .map_err(unreadable("outcome"))?;
        Ok(RequestRecord {
            thread: self.id.clone(),
            number,
            attempt: turn.zip(attempt).map(|(turn, attempt)| AttemptRef {
                session,
                turn: TurnId(turn),
                attempt,
            }),
            meta,
            outcome: outcome.unwrap_or_default(),
            texts: RequestDelta { body, ledger },
        })
    }
}

/// Checks that the parts of a request agree with each other.
fn check(meta: &RequestMeta, texts: &RequestTexts) -> Result<(), BadField> {
    super::archive::check_time("at", meta.at)
        .or_else(|problem| bad("about", problem.to_string()))?;
    serde_json::from_str::<IgnoredAny>(&texts.body).map_err(unreadable("body"))?;
    let stored = texts.body.len() as u64;
    if !meta.redacted && meta.bytes != stored {
        let bytes = meta.bytes;
        return bad("about", format!("it records {bytes} bytes, but {stored} are stored"));
    }
    if meta.unchanged_bytes > stored {
        return bad("about", "more bytes are unchanged than there are".to_owned());
    }
    let ledger = texts.parse_ledger(meta).map_err(unreadable("ledger"))?;
    if !ledger.covers(Target::Prompt, meta.bytes) {
        let accounted = ledger.used_bytes();
        return bad("ledger", format!("it accounts for {accounted} bytes of {}", meta.bytes));
    }
    Ok(())
}
