//! `convoke sessions export --otlp` and `--atif`: sessions in formats of other tools.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use convoke_agent::thread::ThreadStore as _;
use convoke_files::draft::Draft;
use convoke_open::prices::{Charged, cost};
use convoke_protocol::id::{AttemptRef, EventNumber, MemberName, Millis, SessionId, ThreadId};
use convoke_protocol::request::RequestRecord;
use convoke_protocol::wire::Wire;
use convoke_redact::Redactor;
use convoke_session::{AnyStore, Store as _};
use convoke_source::{Kept, Request, SessionSource};
use convoke_team::{MemberKind, Team};
use convoke_trace::collector::Collector;
use convoke_trace::foreign::ForeignConversation;
use convoke_trace::otlp::{self, Batch};
use convoke_trace::own::{OwnConversation, model_request};
use convoke_trace::{Conversation, Texts, atif};

use super::bad_name;
use crate::commands::sessions::transfer::create_private;
use crate::conversation::sessions::find;
use crate::host_environment;
use crate::other_programs::{HomeArgument, short_name, with_catalog};
use crate::outcome::{Outcome, UsageError};
use crate::terminal::{printable, stderr, stdout};

/// The number of events per read.
const PAGE: usize = 1_000;
/// The time that a person waits for a collector.
const PATIENCE: Duration = Duration::from_secs(15);
/// The variable of OpenTelemetry with the headers for a collector.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// The format of another tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TraceForm {
    /// OpenTelemetry, sent to a collector or written as lines of JSON.
    Otlp { collector: Option<String>, with_content: bool, since: Option<Millis> },
    /// The Agent Trajectory Interchange Format.
    Atif,
}

/// Whose sessions are exported.
pub(super) struct Exported<'e> {
    /// The name of the session; `None` for all of the store.
    pub(super) name: Option<&'e str>,
    pub(super) home: &'e HomeArgument,
    pub(super) output: Option<&'e PathBuf>,
}

/// Exports sessions of Convoke's own.
pub(super) async fn export_own(
    form: &TraceForm,
    exported: &Exported<'_>,
    store: &AnyStore,
) -> anyhow::Result<Outcome> {
    let sessions = match exported.name {
        Some(name) => vec![find(store, name).await?],
        None => store.sessions().await?.into_iter().map(|session| session.id).collect(),
    };
    let redactor = redactor()?;
    let mut out = Destination::open(form, exported)?;
    for session in sessions {
        let texts = form.texts(&redactor);
        let conversation = read_own(store, session, texts).await?;
        out.write(form, conversation).await?;
    }
    out.finish()
}

/// Exports a session of another program.
pub(super) fn export_foreign(form: &TraceForm, exported: &Exported<'_>) -> anyhow::Result<Outcome> {
    let redactor = redactor()?;
    let conversation = with_catalog(exported.home, |catalog| {
        let session = catalog.find(exported.name.unwrap_or_default()).map_err(bad_name)?;
        let provider = catalog.provider(&session);
        let price = |request: &Request<'_>, at| {
            let charged = Charged {
                provider,
                model: request.model.unwrap_or_default(),
                usage: request.usage?,
                cache_write_hour: request.cache_write_hour,
                tier: request.tier,
                at,
            };
            cost(&charged, &catalog.prices)
        };
        let texts = form.texts(&redactor);
        let mut told = ForeignConversation::new(&session, provider, texts, &price);
        let mut reader = catalog.open(&session, Kept::Said)?;
        reader.advance(&mut told)?;
        let found = reader.report().to_string();
        if !found.is_empty() {
            writeln!(stderr(), "{}", printable(&found))?;
        }
        tell_shortened(&short_name(&session), told.texts.shortened)?;
        Ok(told.into_conversation())
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut out = Destination::open(form, exported)?;
        out.write(form, conversation).await?;
        out.finish()
    })
}

impl TraceForm {
    /// Returns which texts the form has.
    fn texts<'r>(&self, redactor: &'r Redactor) -> Texts<'r> {
        match self {
            Self::Otlp { with_content: false, .. } => Texts::none(),
            Self::Otlp { .. } | Self::Atif => Texts::redacted(redactor),
        }
    }
}

fn redactor() -> anyhow::Result<Redactor> {
    let environment: Vec<_> = host_environment::of_process()?.environment.into_iter().collect();
    Ok(Redactor::for_env(&environment))
}

fn tell_shortened(session: &str, shortened: u64) -> anyhow::Result<()> {
    if shortened > 0 {
        let texts = if shortened == 1 { "text was" } else { "texts were" };
        writeln!(stderr(), "{session}: {shortened} {texts} too long and cut")?;
    }
    Ok(())
}

/// Reads the log of a session, and the requests that are stored beside it.
async fn read_own(
    store: &AnyStore,
    session: SessionId,
    texts: Texts<'_>,
) -> anyhow::Result<Conversation> {
    let programs = programs(&store.session(session).await?.began.team);
    let mut own = OwnConversation::new(texts);
    let mut requests = HashMap::new();
    let mut after = EventNumber::default();
    loop {
        let events = store.events(session, after, PAGE).await?;
        let Some(last) = events.last().and_then(|event| event.number) else { break };
        for event in &events {
            let Some(attempt) = own.add(event) else { continue };
            let Some(invocation) = own.conversation.invocations.last_mut() else { continue };
            let member = &invocation.agent;
            if !requests.contains_key(member) {
                let thread = ThreadId::of_member(session, member);
                requests.insert(member.clone(), store.requests(&thread).await?);
            }
            let of_attempt: Vec<_> =
                requests[member].iter().filter(|it| is_of(it, attempt)).collect();
            invocation.provider = provider(programs.get(member), &of_attempt).map(str::to_owned);
            invocation.requests = of_attempt.into_iter().map(model_request).collect();
        }
        after = last;
    }
    tell_shortened(&session.short(), own.texts.shortened)?;
    Ok(own.conversation)
}

fn is_of(request: &RequestRecord<()>, attempt: AttemptRef) -> bool {
    request.attempt == Some(attempt)
}

/// Returns the programs of a team's members by name.
fn programs(team: &str) -> HashMap<String, String> {
    let team = Team::parse(team).ok();
    let members = team.into_iter().flat_map(|team| team.members);
    let agents = members.filter_map(|member| match member.kind {
        MemberKind::Agent(settings) => Some((MemberName::to_string(&member.name), settings.agent)),
        _ => None,
    });
    agents.collect()
}

/// Returns the provider of a member's models: that of its program, or that of the format in which it asks.
fn provider(program: Option<&String>, requests: &[&RequestRecord<()>]) -> Option<&'static str> {
    let mut sources = convoke_vendors::sources();
    let source = program.and_then(|program| sources.find(|it| it.program() == program));
    let wire = || requests.iter().find_map(|request| request.meta.wire);
    source.and_then(SessionSource::provider).or_else(|| {
        Some(match wire()? {
            Wire::Messages => "anthropic",
            Wire::Responses | Wire::Chat => "openai",
            Wire::Gemini => "google",
        })
    })
}

/// Where an export goes.
enum Destination {
    Collector { collector: Collector, spans: u64 },
    File { file: Draft, path: PathBuf },
    Output,
}

impl Destination {
    fn open(form: &TraceForm, exported: &Exported<'_>) -> anyhow::Result<Self> {
        if let TraceForm::Otlp { collector: Some(address), .. } = form {
            let host = host_environment::of_process()?;
            let headers = host.variable(HEADERS).and_then(|it| it.to_str()).unwrap_or_default();
            let collector = Collector::new(address, headers, PATIENCE)
                .map_err(|error| UsageError(error.to_string()))?;
            return Ok(Self::Collector { collector, spans: 0 });
        }
        Ok(match exported.output {
            Some(path) => Self::File { file: create_private(path)?, path: path.clone() },
            None => Self::Output,
        })
    }

    async fn write(&mut self, form: &TraceForm, mut told: Conversation) -> anyhow::Result<()> {
        if let TraceForm::Otlp { since: Some(since), .. } = form {
            told.invocations.retain(|invocation| invocation.ended >= *since);
            if told.invocations.is_empty() {
                return Ok(());
            }
        }
        let text = match (&mut *self, form) {
            (Self::Collector { collector, spans }, _) => {
                for batch in otlp::trace(&told) {
                    collector.send(&batch).await?;
                    *spans += batch.spans() as u64;
                }
                return Ok(());
            }
            (_, TraceForm::Otlp { .. }) => lines(&otlp::trace(&told))?,
            (_, TraceForm::Atif) => serde_json::to_string(&atif::trajectory(&told))? + "\n",
        };
        match self {
            Self::File { file, path } => file
                .write_all(text.as_bytes())
                .with_context(|| format!("cannot write {}", path.display())),
            _ => Ok(stdout().verbatim().write_all(text.as_bytes())?),
        }
    }

    fn finish(self) -> anyhow::Result<Outcome> {
        match self {
            Self::Collector { spans, .. } => writeln!(stderr(), "sent {spans} spans")?,
            Self::File { file, path } => {
                file.publish().with_context(|| format!("cannot write {}", path.display()))?;
                writeln!(stderr(), "wrote {}", path.display())?;
            }
            Self::Output => {}
        }
        Ok(Outcome::Done)
    }
}

fn lines(batches: &[Batch]) -> anyhow::Result<String> {
    let mut text = String::new();
    for batch in batches {
        text.push_str(&batch.to_json()?);
        text.push('\n');
    }
    Ok(text)
}
