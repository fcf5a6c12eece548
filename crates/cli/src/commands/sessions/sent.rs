//! `convoke sessions show --request` and `convoke ask --request`: what models were sent, to the byte.

use std::io::{Write, stderr, stdout};

use convoke_core::ledger::Style;
use convoke_model::ThreadId;
use convoke_session::{SessionId, SqliteStore, Store as _, Turn};
use convoke_team::Team;

use super::show::{heading, turns, write_exactly};
use super::write_json;
use crate::outcome::UsageError;
use crate::requests::{StoredRequest, Wanted};
use crate::terminal::Paint;

/// How requests are shown.
#[derive(Debug, Clone, Copy)]
pub(in crate::commands) struct Showing {
    pub(in crate::commands) json: bool,
    pub(in crate::commands) explain: bool,
}

/// Returns what one attempt of a turn sent, by default the last that sent something.
pub(super) async fn of_turn(
    store: &SqliteStore,
    session: SessionId,
    turn: &Turn,
    attempt: Option<u32>,
) -> anyhow::Result<Vec<StoredRequest>> {
    let thread = ThreadId::of_member(&session.to_string(), turn.member.as_str());
    let mut found = StoredRequest::of_thread(store, thread.as_str()).await?;
    found.retain(|request| request.turn().is_some_and(|(number, _)| number == turn.id.0));
    let last = found.iter().filter_map(StoredRequest::turn).map(|(_, attempt)| attempt).max();
    let attempt = attempt.or(last);
    found.retain(|request| request.turn().map(|(_, attempt)| attempt) == attempt);
    Ok(found)
}

/// Shows the requests of a turn: exactly its bytes when it is one, each under its heading otherwise.
pub(super) async fn show_turn(
    store: &SqliteStore,
    session: SessionId,
    turn: &Turn,
    (attempt, wanted): (Option<u32>, Wanted),
    showing: Showing,
) -> anyhow::Result<()> {
    let mut requests = of_turn(store, session, turn, attempt).await?;
    let Turn { id, member, .. } = turn;
    if requests.is_empty() {
        return Err(UsageError(format!(
            "no request of turn {id} is stored: {member} sent none, or is a program that sends its own \
             (`convoke capture` shows what it sends)"
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
    store: &SqliteStore,
    thread: &ThreadId,
    wanted: Wanted,
    showing: Showing,
) -> anyhow::Result<()> {
    let mut requests = StoredRequest::of_thread(store, thread.as_str()).await?;
    if requests.is_empty() {
        return Err(UsageError(format!("no request of a thread {thread} is stored")).into());
    }
    choose(&mut requests, wanted, "the thread")?;
    let requests: Vec<_> = requests.into_iter().map(|it| ("thread".to_owned(), it)).collect();
    show(store, &requests, showing).await
}

/// Leaves the request of a number, when one is asked for.
fn choose(requests: &mut Vec<StoredRequest>, wanted: Wanted, of: &str) -> Result<(), UsageError> {
    let Wanted::One(number) = wanted else { return Ok(()) };
    let there: Vec<String> = requests.iter().map(|it| it.number().to_string()).collect();
    requests.retain(|request| request.number() == number);
    if requests.is_empty() {
        let there = there.join(", ");
        return Err(UsageError(format!("{of} has no request {number}; it has {there}")));
    }
    Ok(())
}

/// Shows every request of a session, in the order in which they were sent.
pub(super) async fn show_all(
    store: &SqliteStore,
    session: SessionId,
    showing: Showing,
) -> anyhow::Result<()> {
    let team = Team::parse(&store.session(session).await?.began.team);
    let named = team.iter().flat_map(|team| &team.members).map(|member| member.name.clone());
    let spoke = turns(store, session).await?;
    let spoke = spoke.iter().map(|turn| turn.member.as_str().to_owned());
    let members: std::collections::BTreeSet<String> = named.chain(spoke).collect();
    let mut all = Vec::new();
    for member in members {
        let thread = ThreadId::of_member(&session.to_string(), &member);
        let requests = StoredRequest::of_thread(store, thread.as_str()).await?;
        all.extend(requests.into_iter().map(|request| (member.clone(), request)));
    }
    all.sort_by_key(|(_, request)| (request.about.at, request.number()));
    let named = all.into_iter().map(|(member, request)| {
        let whose = match request.turn() {
            Some((turn, 1)) => format!("turn {turn}, {member}"),
            Some((turn, attempt)) => format!("turn {turn}, attempt {attempt}, {member}"),
            None => format!("by hand, {member}"),
        };
        (whose, request)
    });
    for (whose, request) in named {
        show_one(store, &request, &whose, showing).await?;
    }
    Ok(())
}

/// Shows requests: exactly its bytes when it is one, each under its heading otherwise.
async fn show(
    store: &SqliteStore,
    requests: &[(String, StoredRequest)],
    showing: Showing,
) -> anyhow::Result<()> {
    if let ([(_, request)], false) = (requests, showing.json) {
        let texts = request.texts(store).await?;
        write_exactly(&texts.body)?;
        if showing.explain {
            explain(request, &texts)?;
        } else {
            remark(request, &mut stderr().lock())?;
        }
        return Ok(());
    }
    for (whose, request) in requests {
        show_one(store, request, whose, showing).await?;
    }
    Ok(())
}

/// Shows a request under a heading of its own.
async fn show_one(
    store: &SqliteStore,
    request: &StoredRequest,
    whose: &str,
    showing: Showing,
) -> anyhow::Result<()> {
    let texts = request.texts(store).await?;
    if showing.json {
        write_json(&request.json(&texts))?;
        return Ok(());
    }
    let mut out = stdout().lock();
    let paint = Paint::for_stream(&out);
    let title = format!("──── {whose}: {}", request.title());
    writeln!(out, "{}", paint.strong(&heading(&title)))?;
    for remark in request.remarks() {
        writeln!(out, "{}", paint.faint(&format!("     {remark}")))?;
    }
    writeln!(out, "{}\n", texts.body)?;
    out.flush()?;
    if showing.explain {
        explain(request, &texts)?;
    }
    Ok(())
}

fn explain(request: &StoredRequest, texts: &crate::requests::RequestTexts) -> std::io::Result<()> {
    let mut err = stderr().lock();
    let style = match Paint::for_stream(&err) {
        Paint::Plain => Style::Plain,
        Paint::Coloured => Style::Coloured,
    };
    writeln!(err, "POST {}: {}", request.about.path, request.title())?;
    write!(err, "{}", texts.table(style))?;
    remark(request, &mut err)
}

fn remark(request: &StoredRequest, err: &mut impl Write) -> std::io::Result<()> {
    for remark in request.remarks() {
        writeln!(err, "{remark}")?;
    }
    Ok(())
}
