//! `convoke sessions show --turn N --window`: everything that the model was given in each request of a turn.
//!
//! Recorded requests tell it exactly. Without a record it is read from the session file of the agent's own program, with
//! the grade that this file allows.

use std::io::Write as _;

use anyhow::Context as _;
use convoke_agent::thread::ThreadStore as _;
use convoke_protocol::id::{Millis, SessionId};
use convoke_protocol::request::{RequestEnd, RequestRecord};
use convoke_protocol::turn::{Attempt, Turn};
use convoke_protocol::window::{At, Grade, MAX_SHOWN_TEXT, Place};
use convoke_session::sent_turn::requests_of;
use convoke_session::{AnyStore, Store as _};
use convoke_source::requests::Requests;
use convoke_source::{Entry, EntryKind, Kept, Request, SessionSource, Sink as _};
use convoke_wire::normal;
use serde_json::{Value, json};

use super::foreign::{price, request_line};
use crate::host_environment;
use crate::other_programs::{HomeArgument, with_catalog};
use crate::outcome::UsageError;
use crate::terminal::{printable, stdout, write_json};
use crate::user_settings::UserSettings;

/// Shows the windows of a turn's requests: a line for each, or as JSON.
pub(super) async fn show(
    store: &AnyStore,
    session: SessionId,
    turn: &Turn,
    attempt: Option<u32>,
    home: &HomeArgument,
    is_json: bool,
) -> anyhow::Result<()> {
    let recorded = requests_of(store, session, turn, attempt).await?;
    let windows = if recorded.is_empty() {
        let attempts = store.attempts(session, turn.id).await?;
        let chosen = attempts.into_iter().rfind(|it| attempt.is_none_or(|n| it.number == n));
        let chosen = chosen.with_context(|| format!("turn {} has no such attempt", turn.id))?;
        of_program(turn, &chosen, home)?
    } else {
        of_record(store, session, &recorded).await?
    };
    if is_json {
        write_json(&windows)?;
        return Ok(());
    }
    let mut out = stdout();
    for (number, request) in (1..).zip(windows["requests"].as_array().into_iter().flatten()) {
        writeln!(out, "{}", request_line(number, request))?;
        for message in request["messages"].as_array().into_iter().flatten() {
            writeln!(out, "      {}", message_line(message))?;
        }
    }
    Ok(())
}

/// Returns the windows of recorded requests.
async fn of_record(
    store: &AnyStore,
    session: SessionId,
    recorded: &[RequestRecord<()>],
) -> anyhow::Result<Value> {
    let prices = UserSettings::read(&host_environment::of_process()?)?.prices;
    let price = price(None, &prices);
    let mut requests = Requests::new(&session.to_string(), &price)?;
    for record in recorded.iter().filter(|it| it.outcome.end != Some(RequestEnd::Unsent)) {
        let texts = store.request_texts(&record.thread, record.number).await?;
        let at = At::Row(record.number.to_string().into());
        let place = Place { file: record.thread.as_str().into(), at };
        let wire =
            record.meta.wire.context("an early version stored the request without its format")?;
        let window = normal::window(wire, texts.body.as_bytes(), &place, MAX_SHOWN_TEXT)?;
        let is_whole = !record.meta.redacted;
        let missing = if is_whole { Vec::new() } else { vec!["secrets were removed".to_owned()] };
        let request = Request {
            key: record.number,
            answer_id: None,
            purpose: record.meta.purpose,
            model: record.outcome.model.as_deref(),
            window: &window,
            grade: if is_whole { Grade::Exact } else { Grade::Messages },
            missing,
            usage: record.outcome.usage,
            cache_write_hour: 0,
            tier: None,
            status: record.outcome.status,
            is_settled: true,
        };
        let (at, kind) = (Some(record.meta.at), EntryKind::Request(&request));
        // Nothing ends the collection.
        let _ = requests.take(Entry { place, at, agent: None, kind });
    }
    Ok(json!({ "session": session, "agent": "convoke", "requests": collected(requests)? }))
}

/// Returns the windows that the agent's own program stored while an attempt ran.
fn of_program(turn: &Turn, attempt: &Attempt, home: &HomeArgument) -> anyhow::Result<Value> {
    let none = |why: &str| {
        let (id, member) = (turn.id, &turn.member);
        UsageError(format!("no window of turn {id} of {member} is known: {why}"))
    };
    let ended = attempt.ended.as_ref().ok_or_else(|| none("it has not ended"))?;
    let handle = ended.resume.as_ref();
    let handle =
        handle.ok_or_else(|| none("its program named no session; `--record wire` records"))?;
    with_catalog(home, |catalog| {
        let named = |program: &str| catalog.find(&format!("{program}:{}", handle.session)).ok();
        let mut sources = convoke_vendors::sources().map(SessionSource::program);
        let known = handle.program.as_deref().and_then(named);
        let session = known.or_else(|| sources.find_map(named));
        let session = session.ok_or_else(|| none("the session file of its program is gone"))?;
        let price = price(catalog.provider(&session), &catalog.prices);
        let mut requests = Requests::new(&session.id, &price)?;
        let mut reader = catalog.open(&session, Kept::Shown)?;
        reader.advance(&mut requests)?;
        let mut found = collected(requests)?;
        found.retain(|request| is_within(request, attempt.began_at, ended.at));
        Ok(json!({ "session": session.id, "agent": session.program, "requests": found }))
    })
}

fn collected(requests: Requests<'_>) -> anyhow::Result<Vec<Value>> {
    let mut json = Vec::new();
    requests.write(&mut json)?;
    Ok(serde_json::from_slice(&json)?)
}

/// Returns whether a request was sent between two times, which its program and Convoke read from one clock.
fn is_within(request: &Value, from: Millis, to: Millis) -> bool {
    let at = request["at"].as_str().and_then(|at| at.parse::<jiff::Timestamp>().ok());
    at.is_some_and(|at| (from.0..=to.0).contains(&at.as_millisecond()))
}

fn message_line(message: &Value) -> String {
    let parts = message["parts"].as_array().into_iter().flatten();
    let parts: Vec<String> = parts
        .map(|part| {
            let text = part["text"].as_str().or_else(|| part["name"].as_str());
            let text = text.or_else(|| part["kind"].as_str()).unwrap_or_default();
            let line: String = text.chars().take(60).collect();
            printable(&line.replace('\n', " ")).into_owned()
        })
        .collect();
    format!("{:<10} {}", message["role"].as_str().unwrap_or_default(), parts.join(" · "))
}
