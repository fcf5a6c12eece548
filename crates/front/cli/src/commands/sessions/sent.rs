//! `convoke sessions show --request` and `convoke ask --request`: the stored requests, byte for byte.

use std::collections::BTreeSet;
use std::io::Write;

use convoke_agent::thread::ThreadStore as _;
use convoke_protocol::id::{AttemptRef, SessionId, ThreadId};
use convoke_protocol::request::{RequestRecord, RequestTexts};
use convoke_protocol::turn::Turn;
use convoke_session::rows::each_turn;
use convoke_session::sent_turn::requests_of;
use convoke_session::{AnyStore, Store as _};
use convoke_team::Team;

use super::heading;
use super::show::write_exactly;
use super::write_json;
use crate::outcome::UsageError;
use crate::requests::{self, RequestSelection};
use crate::terminal::{Paint, ledger_style, stderr, stdout};

/// The options of the output.
#[derive(Debug, Clone, Copy)]
pub(in crate::commands) struct Showing {
    pub(in crate::commands) json: bool,
    pub(in crate::commands) explain: bool,
}

/// Shows the requests of a turn: a single one byte for byte, several with headings.
pub(super) async fn show_turn(
    store: &AnyStore,
    session: SessionId,
    turn: &Turn,
    (attempt, wanted): (Option<u32>, RequestSelection),
    showing: Showing,
) -> anyhow::Result<()> {
    let mut requests = requests_of(store, session, turn, attempt).await?;
    let Turn { id, member, .. } = turn;
    if requests.is_empty() {
        return Err(UsageError(format!(
            "no request of turn {id} is stored: {member} sent none, or is a program whose requests were not \
             recorded; `--record wire` records them"
        ))
        .into());
    }
    choose(&mut requests, wanted, &format!("turn {id}"))?;
    let requests: Vec<_> =
        requests.into_iter().map(|it| (format!("turn {id}, {member}"), it)).collect();
    show(store, &requests, showing).await
}

/// Shows the requests of a thread that belongs to no session.
pub(in crate::commands) async fn show_thread(
    store: &AnyStore,
    thread: &ThreadId,
    wanted: RequestSelection,
    showing: Showing,
) -> anyhow::Result<()> {
    let mut requests = store.requests(thread).await?;
    if requests.is_empty() {
        return Err(UsageError(format!("thread {thread} has no stored requests")).into());
    }
    choose(&mut requests, wanted, "the thread")?;
    let requests: Vec<_> = requests.into_iter().map(|it| ("thread".to_owned(), it)).collect();
    show(store, &requests, showing).await
}

/// Keeps only the wanted request.
fn choose(
    requests: &mut Vec<RequestRecord<()>>,
    wanted: RequestSelection,
    of: &str,
) -> Result<(), UsageError> {
    let RequestSelection::One(number) = wanted else { return Ok(()) };
    let there: Vec<String> = requests.iter().map(|it| it.number.to_string()).collect();
    requests.retain(|request| request.number == number);
    if requests.is_empty() {
        let there = there.join(", ");
        return Err(UsageError(format!("{of} has no request {number}; it has {there}")));
    }
    Ok(())
}

/// Returns the requests of a session by member.
pub(super) async fn requests_by_member(
    store: &AnyStore,
    session: SessionId,
) -> anyhow::Result<Vec<(String, Vec<RequestRecord<()>>)>> {
    let team = Team::parse(&store.session(session).await?.began.team);
    let named = team.iter().flat_map(Team::names).map(ToString::to_string);
    let mut members: BTreeSet<String> = named.collect();
    each_turn(store, session, |turn| {
        members.insert(turn.member.as_str().to_owned());
        anyhow::Ok(())
    })
    .await?;
    let mut all = Vec::new();
    for member in members {
        let requests = store.requests(&ThreadId::of_member(session, &member)).await?;
        all.push((member, requests));
    }
    Ok(all)
}

/// Shows every request of a session, in the order in which they were sent.
pub(super) async fn show_all(
    store: &AnyStore,
    session: SessionId,
    showing: Showing,
) -> anyhow::Result<()> {
    let mut all = Vec::new();
    for (member, requests) in requests_by_member(store, session).await? {
        all.extend(requests.into_iter().map(|request| (member.clone(), request)));
    }
    all.sort_by_key(|(_, request)| (request.meta.at, request.number));
    let named = all.into_iter().map(|(member, request)| {
        let whose = match request.attempt {
            Some(AttemptRef { turn, attempt: 1, .. }) => format!("turn {turn}, {member}"),
            Some(AttemptRef { turn, attempt, .. }) => {
                format!("turn {turn}, attempt {attempt}, {member}")
            }
            None => member.clone(),
        };
        (whose, request)
    });
    for (whose, request) in named {
        show_one(store, &request, &whose, showing).await?;
    }
    Ok(())
}

/// Shows requests: a single one byte for byte, several with headings.
async fn show(
    store: &AnyStore,
    requests: &[(String, RequestRecord<()>)],
    showing: Showing,
) -> anyhow::Result<()> {
    if let ([(_, request)], false) = (requests, showing.json) {
        let texts = store.request_texts(&request.thread, request.number).await?;
        write_exactly(&texts.body)?;
        if showing.explain {
            explain(request, &texts)?;
        } else {
            remark(request, &mut stderr())?;
        }
        return Ok(());
    }
    for (whose, request) in requests {
        show_one(store, request, whose, showing).await?;
    }
    Ok(())
}

/// Shows a request with a heading.
async fn show_one(
    store: &AnyStore,
    request: &RequestRecord<()>,
    whose: &str,
    showing: Showing,
) -> anyhow::Result<()> {
    let texts = store.request_texts(&request.thread, request.number).await?;
    if showing.json {
        write_json(&request.json(Some(&texts))?)?;
        return Ok(());
    }
    let mut out = stdout();
    let paint = Paint::for_stream(&out);
    let title = format!("──── {whose}: {}", request.title());
    writeln!(out, "{}", paint.strong(&heading(&title)))?;
    for remark in requests::remarks(request) {
        writeln!(out, "{}", paint.faint(&format!("     {remark}")))?;
    }
    writeln!(out, "{}\n", texts.body)?;
    out.flush()?;
    if showing.explain {
        explain(request, &texts)?;
    }
    Ok(())
}

fn explain(request: &RequestRecord<()>, texts: &RequestTexts) -> std::io::Result<()> {
    let mut err = stderr();
    let style = ledger_style(&err);
    writeln!(err, "POST {}: {}", request.meta.path, request.title())?;
    requests::write_ledger(&mut err, texts, &request.meta, style)?;
    remark(request, &mut err)
}

fn remark(request: &RequestRecord<()>, err: &mut impl Write) -> std::io::Result<()> {
    for remark in requests::remarks(request) {
        writeln!(err, "{remark}")?;
    }
    Ok(())
}
