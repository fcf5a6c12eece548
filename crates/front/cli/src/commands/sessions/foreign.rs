//! `convoke sessions show` of another program's session.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;

use convoke_files::beneath::Beneath;
use convoke_open::cache::CacheView;
use convoke_open::changes::{ChangeToday, Changes};
use convoke_open::handover::FileToday;
use convoke_open::prices::{Charged, Cost, OwnPrices, cost};
use convoke_open::request::{self, SentRequest};
use convoke_open::summary::{Summarizer, Summary};
use convoke_open::{Catalog, FindError};
use convoke_protocol::id::Millis;
use convoke_protocol::window::{Part, Text};
use convoke_source::requests::{Price, Requests, described};
use convoke_source::{Entry, EntryKind, FoundSession, Kept, Request, Sink};
use serde_json::{Value, json};

use super::show::Arguments;
use super::{heading, write_json};
use crate::commands::continue_session::file_today;
use crate::figures::{begun, count, dollars, number, padded};
use crate::other_programs::{short_name, with_catalog};
use crate::outcome::{Outcome, UsageError};
use crate::requests::{RequestSelection, tokens};
use crate::terminal::{Paint, page, printable, stderr, stdout, width};

/// Shows a session of another program.
pub(super) fn show(arguments: &Arguments) -> anyhow::Result<Outcome> {
    with_catalog(&arguments.home, |catalog| {
        let session = catalog.find(&arguments.which.id).map_err(bad_name)?;
        match arguments.request {
            _ if arguments.changes => changes(catalog, &session, arguments.json),
            _ if arguments.cache => show_cache(catalog, &session, arguments.json),
            Some(RequestSelection::One(wanted)) => {
                show_request(catalog, &session, wanted, arguments)
            }
            _ if arguments.requests || arguments.request.is_some() => {
                list_requests(catalog, &session, arguments.json)
            }
            _ if arguments.json => {
                let (summary, found) = summarize(catalog, &session)?;
                let mut value = summary.to_json(&session);
                value["found"] = json!(found);
                write_json(&value)?;
                Ok(Outcome::Done)
            }
            _ => show_conversation(catalog, &session),
        }
    })
}

/// Converts the error of a name that is not found.
pub(in crate::commands) fn bad_name(error: FindError) -> anyhow::Error {
    match error {
        FindError::Source(error) => error.into(),
        error => UsageError(error.to_string()).into(),
    }
}

fn summarize(catalog: &Catalog<'_>, session: &FoundSession) -> anyhow::Result<(Summary, String)> {
    let (provider, prices) = (catalog.provider(session), &catalog.prices);
    let mut summarizer = Summarizer { summary: Summary::default(), provider, prices };
    let mut reader = catalog.open(session, Kept::Said)?;
    reader.advance(&mut summarizer)?;
    Ok((summarizer.summary, reader.report().to_string()))
}

/// Shows all requests: as JSON with their windows, or a line for each.
fn list_requests(
    catalog: &Catalog<'_>,
    session: &FoundSession,
    is_json: bool,
) -> anyhow::Result<Outcome> {
    let price = price(catalog.provider(session), &catalog.prices);
    if is_json {
        return write_requests(catalog, session, &price);
    }
    let mut lines = RequestLines { price: &price, found: Vec::new(), places: HashMap::new() };
    let mut reader = catalog.open(session, Kept::Shown)?;
    reader.advance(&mut lines)?;
    lines.found.sort_by_key(|(at, _)| *at);
    let mut out = stdout();
    for (number, (_, request)) in (1..).zip(&lines.found) {
        writeln!(out, "{}", request_line(number, request))?;
    }
    if lines.found.is_empty() {
        writeln!(out, "No requests to a model are recorded in this session.")?;
    }
    tell(&reader.report().to_string())?;
    Ok(Outcome::Done)
}

fn write_requests(
    catalog: &Catalog<'_>,
    session: &FoundSession,
    price: &Price<'_>,
) -> anyhow::Result<Outcome> {
    let mut requests = Requests::new(&session.id, price)?;
    let mut reader = catalog.open(session, Kept::Shown)?;
    reader.advance(&mut requests)?;
    let head = json!({
        "session": session.id, "agent": session.program, "version": requests.version,
        "found": reader.report().to_string(),
    });
    let head = head.to_string();
    let mut out = stdout();
    write!(out, "{},\"requests\":", head.trim_end_matches('}'))?;
    requests.write(&mut out)?;
    writeln!(out, "}}")?;
    Ok(Outcome::Done)
}

/// Collects the requests of a session, a line for each.
struct RequestLines<'p> {
    price: &'p Price<'p>,
    found: Vec<(Option<i64>, Value)>,
    /// The places of requests that may be handed out again, by sub-agent and key.
    places: HashMap<(Option<String>, u64), usize>,
}

impl Sink for RequestLines<'_> {
    fn take(&mut self, entry: Entry<'_>) -> ControlFlow<()> {
        if let EntryKind::Request(request) = entry.kind {
            let key = (entry.agent.map(str::to_owned), request.key);
            let found = (entry.at.map(|at| at.0), described(&entry, request, self.price));
            if let Some(&place) = self.places.get(&key) {
                self.found[place] = found;
            } else {
                self.places.insert(key, self.found.len());
                self.found.push(found);
            }
        }
        ControlFlow::Continue(())
    }
}

/// Returns the price of requests to a provider, as JSON.
pub(super) fn price<'p>(
    provider: Option<&'p str>,
    prices: &'p OwnPrices,
) -> impl Fn(&Request<'_>, Option<Millis>) -> Value + 'p {
    move |request, at| {
        let charged = request.usage.map(|usage| Charged {
            provider,
            model: request.model.unwrap_or_default(),
            usage,
            cache_write_hour: request.cache_write_hour,
            tier: request.tier,
            at,
        });
        let mut sum = Cost::default();
        sum.add(charged.and_then(|charged| cost(&charged, prices)));
        json!(sum.to_json())
    }
}

pub(super) fn request_line(position: usize, request: &Value) -> String {
    let text = |name: &str| printable(request[name].as_str().unwrap_or_default()).into_owned();
    let figure = |name: &str| number(request["usage"][name].as_u64().unwrap_or_default());
    let counted = if request["usage"].is_null() {
        "not counted".to_owned()
    } else {
        format!(
            "{} in, {} cached, {} written, {} out",
            figure("input"),
            figure("cacheRead"),
            figure("cacheWrite"),
            figure("output")
        )
    };
    let cost = request["cost"]["amount"].as_f64().map_or_else(|| "-".to_owned(), dollars);
    let at: String = text("at").chars().take(19).collect();
    let agent =
        request["agent"].as_str().map_or_else(String::new, |it| format!("  {}", printable(it)));
    format!(
        "{:>4}  {}  {:<10}  {:<24}  {counted}  {cost}  {}{agent}",
        position,
        at.replace('T', " "),
        text("purpose"),
        begun(&text("model"), 24),
        text("rebuilt"),
    )
}

/// Shows the text of one request, or its ledger.
fn show_request(
    catalog: &Catalog<'_>,
    session: &FoundSession,
    wanted: u64,
    arguments: &Arguments,
) -> anyhow::Result<Outcome> {
    let found = request::read(catalog, session, wanted)?;
    let Some(found) = found else {
        let name = short_name(session);
        let problem = format!("{name} has no request {wanted}; `--requests` lists them");
        return Err(UsageError(problem).into());
    };
    match (arguments.json, arguments.explain) {
        (true, _) => write_json(&json!({
            "session": session.id, "n": wanted, "model": found.model, "rebuilt": found.grade,
            "missing": found.missing, "source": found.place, "ledger": found.ledger_json(),
            "text": text_of(&found),
        }))?,
        (false, true) => page(&ledger_table(&found, width(&stdout())))?,
        (false, false) => page(&text_of(&found))?,
    }
    Ok(Outcome::Done)
}

/// Returns a request as readable text: a heading for each message, then its parts.
fn text_of(request: &SentRequest) -> String {
    let mut text = String::new();
    let left = |it: &Text| match &it.text {
        Some(text) => text.to_string(),
        None => format!("({} bytes, SHA-256 {})", number(it.bytes), it.hash),
    };
    for system in &request.window.system {
        let _ = writeln!(text, "{}\n{}", heading("system"), left(&system.what));
    }
    if !request.window.tools.is_empty() {
        let tools = request.window.tools.join(", ");
        let _ = writeln!(text, "{}\n{tools}", heading("tools"));
    }
    for (role, parts) in request.window.messages() {
        let _ = writeln!(text, "{}", heading(role.as_str()));
        for part in parts {
            let _ = match &part.part.what {
                Part::Text(it) | Part::Result(it) => writeln!(text, "{}", left(it)),
                Part::Call { name, input } => writeln!(text, "→ {name} {input}"),
                Part::Thinking(it) => writeln!(text, "(reasoning, {} bytes)", number(it.bytes)),
                Part::Image(it) => {
                    writeln!(text, "(image, {} bytes, SHA-256 {})", number(it.bytes), it.hash)
                }
            };
        }
    }
    let _ = writeln!(text, "{}", heading("grade"));
    let _ = writeln!(text, "{}", grade_line(request));
    text
}

fn grade_line(request: &SentRequest) -> String {
    let missing = request.missing.join("; ");
    let missing = if missing.is_empty() { missing } else { format!(": {missing}") };
    format!("{}{missing}", request.grade.as_str())
}

fn ledger_table(request: &SentRequest, columns: usize) -> String {
    let mut text = format!("{:>9}  {:>11}  section    source\n", "~tokens", "bytes");
    for entry in request.ledger() {
        let place = entry.place.map_or_else(String::new, ToString::to_string);
        let place = place.rsplit('/').next().unwrap_or_default().to_owned();
        let line = format!(
            "{:>9}  {:>11}  {}  {}  {}",
            number(entry.tokens),
            number(entry.bytes),
            padded(entry.section, 9),
            place,
            printable(&entry.title),
        );
        let _ = writeln!(text, "{}", begun(line.trim_end(), columns));
    }
    if let Some(usage) = &request.usage {
        let _ = writeln!(text, "the provider counted {}", tokens(usage));
    }
    let _ = writeln!(text, "{}", grade_line(request));
    text
}

/// Shows what the session changed in files, and what is left of it today.
fn changes(
    catalog: &Catalog<'_>,
    session: &FoundSession,
    is_json: bool,
) -> anyhow::Result<Outcome> {
    let mut changes = Changes::default();
    let mut directory = session.cwd.clone();
    let mut sink = |entry: Entry<'_>| {
        if let EntryKind::Facts(facts) = &entry.kind
            && entry.agent.is_none()
            && directory.is_none()
        {
            directory = facts.cwd.map(str::to_owned);
        }
        changes.take(entry)
    };
    catalog.open(session, Kept::Said)?.advance(&mut sink)?;
    let directory = directory.map(PathBuf::from);
    let root = directory.as_deref().and_then(|it| Beneath::open(it).ok());
    let today = |path: &str| {
        root.as_ref().map_or(FileToday::Gone, |root| file_today(root, directory.as_deref(), path))
    };
    let compared = changes.compare(&today);
    if is_json {
        let entries: Vec<Value> = compared.iter().map(ChangeToday::to_json).collect();
        write_json(&json!({
            "session": session.id, "agent": session.program, "changes": entries,
            "undo": null, "withoutTexts": changes.without_texts,
        }))?;
        return Ok(Outcome::Done);
    }
    let paint = Paint::for_stream(&stdout());
    let mut text = String::new();
    for change in &compared {
        let by = change.agent.as_ref().map_or_else(String::new, |it| format!(", by {it}"));
        let title = format!("{} {}: {}{by}", change.change, change.path, change.state);
        let _ = writeln!(
            text,
            "{}\n{}",
            paint.strong(&printable(&title)),
            printable_lines(&change.diff)
        );
    }
    if compared.is_empty() {
        text += "This session records no change of a file.\n";
    } else {
        let note = "Convoke did not record this session, so it cannot undo these changes.";
        let _ = writeln!(text, "{}", paint.faint(note));
    }
    page(&text)?;
    Ok(Outcome::Done)
}

/// Shows what the provider's cache served of each request, and what broke it.
fn show_cache(
    catalog: &Catalog<'_>,
    session: &FoundSession,
    is_json: bool,
) -> anyhow::Result<Outcome> {
    let mut view = CacheView::new(catalog.provider(session), &catalog.prices);
    catalog.open(session, Kept::Shown)?.advance(&mut view)?;
    view.requests.sort_by_key(|request| request.at.map(|at| at.0));
    let numbered = (1..).zip(&view.requests);
    if is_json {
        let requests: Vec<Value> = numbered.map(|(number, it)| it.to_json(number)).collect();
        let (id, program) = (&session.id, session.program);
        write_json(&json!({ "session": id, "agent": program, "requests": requests }))?;
        return Ok(Outcome::Done);
    }
    let mut text = String::new();
    for (number, request) in numbered {
        let agent = request.agent.as_ref().map_or_else(String::new, |it| format!("  {it}"));
        let counted = request.usage.map_or_else(
            || "not counted".to_owned(),
            |it| {
                format!(
                    "{} tokens, {} from the cache",
                    self::number(it.input),
                    self::number(it.cached)
                )
            },
        );
        let lost =
            request.lost.map_or_else(String::new, |lost| format!(", {} lost", dollars(lost)));
        let line = format!("{number:>4}  {counted}; {}{lost}{agent}", request.words());
        let _ = writeln!(text, "{}", printable(&line));
    }
    page(&text)?;
    Ok(Outcome::Done)
}

/// Shows what was said and done, and the figures.
fn show_conversation(catalog: &Catalog<'_>, session: &FoundSession) -> anyhow::Result<Outcome> {
    let mut text = String::new();
    let paint = Paint::for_stream(&stdout());
    let columns = width(&stdout());
    let mut sink = |entry: Entry<'_>| {
        let line = |mark: &str, what: &str| {
            let sub_agent = entry.agent.map_or("", |_| "  ");
            format!("{sub_agent}{mark} {}\n", begun(&printable(what), columns.saturating_sub(4)))
        };
        let told = match &entry.kind {
            EntryKind::Person { text } => {
                format!("\n{}\n{}\n", paint.strong("you"), printable_lines(text))
            }
            EntryKind::Text { text } if entry.agent.is_none() => {
                format!("\n{}\n{}\n", paint.strong(session.program), printable_lines(text))
            }
            EntryKind::Call { name, input, .. } => line("→", &format!("{name} {input}")),
            EntryKind::Result { ok: false, output, .. } => line("✗", output),
            EntryKind::Compacted { dropped, .. } => {
                line("≡", &format!("compacted: {} replaced", count(*dropped, "part")))
            }
            EntryKind::Failed { message, .. } => line("!", message),
            EntryKind::PlanApproved { plan } => line("✓", &format!("plan approved: {plan}")),
            EntryKind::PersonAnswered { question, answer } => {
                line("?", &format!("{question} {answer}"))
            }
            _ => String::new(),
        };
        text.push_str(&told);
        ControlFlow::Continue(())
    };
    catalog.open(session, Kept::Said)?.advance(&mut sink)?;
    let (summary, found) = summarize(catalog, session)?;
    let cost = if summary.cost.known > 0 {
        format!(", {} at API prices", dollars(summary.cost.amount))
    } else {
        String::new()
    };
    let counted = summary.usage.map_or_else(String::new, |usage| format!(", {}", tokens(&usage)));
    let requests = count(summary.requests, "request");
    let _ = writeln!(text, "\n{}", paint.faint(&format!("{requests}{counted}{cost}")));
    page(text.trim_start_matches('\n'))?;
    tell(&found)?;
    Ok(Outcome::Done)
}

fn printable_lines(text: &str) -> String {
    text.lines().map(printable).collect::<Vec<_>>().join("\n")
}

fn tell(found: &str) -> anyhow::Result<()> {
    if !found.is_empty() {
        writeln!(stderr(), "{}", printable(found))?;
    }
    Ok(())
}
