//! What a session's models were sent, outside of a store.
//!
//! A request repeats most of the one before it, so a file has what is new in each, and the hash of the
//! whole.

use serde::{Deserialize, Serialize};

use super::archive::ArchiveProblem;
use super::threads::{self, ArchivedThread};
use crate::id::TurnId;
use crate::request::{RequestRow, RequestTexts, SentRequest, TextChange};
use crate::store::StoreError;
use crate::turn::Turn;

/// A request that somebody brings.
#[derive(Debug, Clone, Copy)]
pub struct BroughtRequest<'r> {
    /// What its sender said of it.
    pub about: &'r str,
    /// What came of it.
    pub outcome: Option<&'r str>,
    /// Its texts.
    pub texts: RequestTexts<&'r str>,
}

/// What is wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRequest {
    /// The field.
    pub field: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

/// Reads a request: a session does not know what it means, and its user does.
pub type RequestCheck<'c> = &'c (dyn Fn(BroughtRequest<'_>) -> Result<(), BadRequest> + Sync);

/// A request as a line of a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileRequest {
    thread: String,
    number: u64,
    turn: Option<u64>,
    attempt: Option<u32>,
    about: String,
    outcome: Option<String>,
    body: TextChange,
    ledger: TextChange,
}

/// Returns the requests of a thread as lines of a file.
pub(super) fn file_lines(thread: &ArchivedThread) -> impl Iterator<Item = FileRequest> {
    thread.requests.iter().cloned().map(|SentRequest { row, texts }| FileRequest {
        thread: thread.name.clone(),
        number: row.number,
        turn: row.turn,
        attempt: row.attempt,
        about: row.about,
        outcome: row.outcome,
        body: texts.body,
        ledger: texts.ledger,
    })
}

/// Takes a line of a file to the thread that it belongs to.
pub(super) fn add(
    threads: &mut Vec<ArchivedThread>,
    line: FileRequest,
) -> Result<(), ArchiveProblem> {
    let FileRequest { thread: name, number, turn, attempt, about, outcome, body, ledger } = line;
    let thread = threads::named(threads, &name)?;
    let broken = |what: &str| {
        Err(ArchiveProblem::Broken(format!("request {number} of the thread `{name}`: {what}")))
    };
    if number != thread.requests.len() as u64 + 1 {
        return broken("the field `number` is out of order");
    }
    if turn.is_some() != attempt.is_some() {
        return broken("of the fields `turn` and `attempt` one is missing");
    }
    let row = RequestRow { thread: name, number, turn, attempt, about, outcome };
    thread.requests.push(SentRequest { row, texts: RequestTexts { body, ledger } });
    Ok(())
}

/// Checks the requests; `places` has the place in the file of each of them.
pub(super) fn check(
    threads: &[ArchivedThread],
    turns: &[Turn],
    places: &[usize],
    read: RequestCheck<'_>,
) -> Result<(), (usize, ArchiveProblem)> {
    let mut places = places.iter();
    for thread in threads {
        let mut before = RequestTexts::default();
        for request in &thread.requests {
            let place = places.next().copied().unwrap_or_default();
            before = check_one(request, before.borrowed(), turns, read).map_err(|bad| {
                let BadRequest { field, reason } = bad;
                let (number, name) = (request.row.number, &thread.name);
                let what = format!(
                    "request {number} of the thread `{name}`: the field `{field}`: {reason}"
                );
                (place, ArchiveProblem::Broken(what))
            })?;
        }
    }
    Ok(())
}

/// Checks a request, and returns its texts.
fn check_one(
    request: &SentRequest,
    before: RequestTexts<&str>,
    turns: &[Turn],
    read: RequestCheck<'_>,
) -> Result<RequestTexts, BadRequest> {
    let RequestRow { turn, attempt, about, outcome, .. } = &request.row;
    if let Some((id, attempt)) = turn.zip(*attempt) {
        let found = turns.binary_search_by_key(&TurnId(id), |turn| turn.id);
        let found = found.ok().and_then(|index| turns.get(index));
        let found = found.ok_or_else(|| {
            let reason = format!("there is no turn {id}");
            BadRequest { field: "turn", reason }
        })?;
        if !(1..=found.attempts).contains(&attempt) {
            let reason = format!("turn {id} has no attempt {attempt}");
            return Err(BadRequest { field: "attempt", reason });
        }
    }
    let texts = request.texts_after(before);
    let texts = texts.map_err(|(field, error)| BadRequest { field, reason: error.to_string() })?;
    let outcome = outcome.as_deref();
    read(BroughtRequest { about, outcome, texts: texts.borrowed() })?;
    Ok(texts)
}

/// Forgets what was sent in turns that are not there any more.
pub(super) fn cut(requests: &mut Vec<SentRequest>, turns: &[Turn]) -> Result<(), StoreError> {
    let is_kept = kept(requests, turns);
    let (mut before, mut last): (RequestTexts, RequestTexts) = Default::default();
    let mut left = Vec::new();
    for (mut request, is_kept) in std::mem::take(requests).into_iter().zip(is_kept) {
        let texts = request.texts_after(before.borrowed()).map_err(|(text, error)| {
            StoreError::Damaged(format!("the {text} of request {}: {error}", request.row.number))
        })?;
        if is_kept {
            request.row.number = left.len() as u64 + 1;
            request.texts = RequestTexts {
                body: TextChange::of(&last.body, &texts.body),
                ledger: TextChange::of(&last.ledger, &texts.ledger),
            };
            left.push(request);
            last.clone_from(&texts);
        }
        before = texts;
    }
    *requests = left;
    Ok(())
}

/// Says which requests stay. One of no turn was sent by hand after a turn, and goes with it; if none is
/// known before it, then with the next.
fn kept(requests: &[SentRequest], turns: &[Turn]) -> Vec<bool> {
    let of_turn = |request: &SentRequest| {
        let turn = TurnId(request.row.turn?);
        Some(turns.binary_search_by_key(&turn, |turn| turn.id).is_ok())
    };
    let mut with = requests.iter().find_map(of_turn).unwrap_or(false);
    let stays = requests.iter().map(|request| {
        with = of_turn(request).unwrap_or(with);
        with
    });
    stays.collect()
}
