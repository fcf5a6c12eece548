//! What a provider's cache could have served of each request of a session, what it served, and what broke it.

use std::collections::HashMap;
use std::ops::ControlFlow;

use convoke_protocol::agent_event::RequestPurpose;
use convoke_protocol::content::ContentHash;
use convoke_protocol::id::Millis;
use convoke_protocol::usage::Usage;
use convoke_protocol::window::{Grade, Part, Place, Window};
use convoke_source::{Entry, EntryKind, Request, Sink};
use serde_json::{Value, json};

use crate::prices::{Charged, OwnPrices, cost};

/// The time for which providers keep a prefix, where a request does not ask for more, and where it does.
const LIFE: i64 = 5 * 60 * 1000;
const LONG_LIFE: i64 = 60 * 60 * 1000;
/// Providers cache no prefix of fewer tokens. As of November 2026 the least are 512 to 4,096, by model.
const LEAST_TOKENS: u64 = 1024;
const BYTES_PER_TOKEN: u64 = 4;

/// Compares the requests of a session, each with the one before it of the same agent.
#[derive(Debug)]
pub struct CacheView<'p> {
    pub requests: Vec<CachedRequest>,
    places: HashMap<(Option<String>, u64), usize>,
    before: HashMap<Option<String>, Sent>,
    is_compacted: HashMap<Option<String>, bool>,
    provider: Option<&'static str>,
    prices: &'p OwnPrices,
}

/// A request, compared with the one before it.
#[derive(Debug, Clone)]
pub struct CachedRequest {
    pub place: Place,
    pub at: Option<Millis>,
    pub agent: Option<String>,
    pub purpose: RequestPurpose,
    pub model: Option<String>,
    pub grade: Grade,
    /// The bytes of the window, as far as it is known, and those at its beginning that the request before had too.
    pub bytes: u64,
    pub unchanged_bytes: u64,
    /// The tokens that the cache could have served, estimated from the provider's count of the request before.
    pub reusable_tokens: u64,
    pub usage: Option<Usage>,
    pub verdict: Verdict,
    /// What it cost in dollars that the cache did not serve it.
    pub lost: Option<f64>,
    /// The tokens that the cache could have served if nothing had changed.
    intact_tokens: u64,
    /// Whether all of the request before is at the beginning.
    is_continued: bool,
    /// The time since the request before, if it is more than the cache lives.
    pause: Option<i64>,
}

/// What became of the cached prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    First,
    /// The prefix is the same, and the cache served it.
    Served,
    /// The prefix changed here.
    Changed {
        cause: Cause,
        at: String,
    },
    /// The prefix is the same, and more time has passed than the cache keeps it.
    Pause(i64),
    /// The prefix is the same, and the provider did not serve it.
    Missed,
    /// It is too short to be cached, nothing was counted, or the window is not known.
    Unknown,
}

impl Verdict {
    /// Returns whether the cache did not serve what it could have.
    const fn is_miss(&self) -> bool {
        matches!(self, Self::Changed { .. } | Self::Pause(_) | Self::Missed)
    }
}

/// Why a prefix is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    Model,
    ToolList,
    SystemText,
    Compaction,
    EditedMessage,
}

impl Cause {
    /// Returns the name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::ToolList => "tools",
            Self::SystemText => "system",
            Self::Compaction => "compaction",
            Self::EditedMessage => "message",
        }
    }

    /// Returns the cause in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Model => "another model",
            Self::ToolList => "another list of tools",
            Self::SystemText => "another system text",
            Self::Compaction => "the conversation was compacted",
            Self::EditedMessage => {
                "an earlier message is another one, or was written again in another form"
            }
        }
    }
}

/// What is remembered of a request.
#[derive(Debug)]
struct Sent {
    key: u64,
    at: Option<Millis>,
    model: Option<String>,
    tools: Option<ContentHash>,
    system: Vec<ContentHash>,
    parts: Vec<(ContentHash, u64)>,
    bytes: u64,
    usage: Option<Usage>,
    is_long: bool,
}

/// Two requests, compared.
#[derive(Debug)]
struct Comparison {
    unchanged_bytes: u64,
    reusable_tokens: u64,
    intact_tokens: u64,
    is_continued: bool,
    pause: Option<i64>,
    verdict: Verdict,
}

impl Comparison {
    fn of(verdict: Verdict) -> Self {
        Self {
            unchanged_bytes: 0,
            reusable_tokens: 0,
            intact_tokens: 0,
            is_continued: false,
            pause: None,
            verdict,
        }
    }
}

impl<'p> CacheView<'p> {
    /// Compares the requests of a program whose models are of a provider.
    pub fn new(provider: Option<&'static str>, prices: &'p OwnPrices) -> Self {
        Self {
            requests: Vec::new(),
            places: HashMap::new(),
            before: HashMap::new(),
            is_compacted: HashMap::new(),
            provider,
            prices,
        }
    }

    fn request(&mut self, request: &Request<'_>, entry: &Entry<'_>) {
        let agent = entry.agent.map(str::to_owned);
        let key = (agent.clone(), request.key);
        let sent = Sent::of(request, entry.at);
        if let Some(&known) = self.places.get(&key) {
            // The answer has come; the window is the same.
            let lost = self.lost(request, self.requests[known].intact_tokens, entry.at);
            let known = &mut self.requests[known];
            if known.is_continued && request.usage.is_some() {
                known.verdict = sent.served(known.reusable_tokens, known.pause);
            }
            known.usage = request.usage;
            known.lost = lost.filter(|_| known.verdict.is_miss());
            if let Some(before) = self.before.get_mut(&agent).filter(|it| it.key == request.key) {
                before.usage = request.usage;
            }
            return;
        }
        let is_compacted = self.is_compacted.insert(agent.clone(), false).unwrap_or_default();
        let compared = match self.before.get(&agent) {
            _ if request.grade == Grade::Partial => Comparison::of(Verdict::Unknown),
            None => Comparison::of(Verdict::First),
            Some(before) => sent.compare(before, is_compacted),
        };
        let Comparison {
            unchanged_bytes,
            reusable_tokens,
            intact_tokens,
            is_continued,
            pause,
            verdict,
        } = compared;
        self.places.insert(key, self.requests.len());
        self.requests.push(CachedRequest {
            place: entry.place.clone(),
            at: entry.at,
            purpose: request.purpose,
            model: sent.model.clone(),
            grade: request.grade,
            bytes: sent.bytes,
            unchanged_bytes,
            reusable_tokens,
            usage: request.usage,
            lost: self.lost(request, intact_tokens, entry.at).filter(|_| verdict.is_miss()),
            intact_tokens,
            verdict,
            is_continued,
            pause,
            agent: agent.clone(),
        });
        // A request for a summary or a title is another conversation.
        if request.purpose == RequestPurpose::Answer && request.grade != Grade::Partial {
            self.before.insert(agent, sent);
        }
    }

    /// Returns what it cost that the provider read tokens again which its cache could have served.
    fn lost(&self, request: &Request<'_>, reusable: u64, at: Option<Millis>) -> Option<f64> {
        let usage = request.usage?;
        let reusable = reusable.min(usage.input);
        let price = |usage: Usage| {
            let charged = Charged {
                provider: self.provider,
                model: request.model.unwrap_or_default(),
                usage,
                cache_write_hour: 0,
                tier: request.tier,
                at,
            };
            cost(&charged, self.prices)
        };
        let written = usage.cache_write.min(usage.input - reusable);
        let lost =
            price(usage)? - price(Usage { cached: reusable, cache_write: written, ..usage })?;
        (reusable > usage.cached && lost > 0.0).then_some(lost)
    }
}

impl Sink for CacheView<'_> {
    fn take(&mut self, entry: Entry<'_>) -> ControlFlow<()> {
        match entry.kind {
            EntryKind::Compacted { .. } => {
                self.is_compacted.insert(entry.agent.map(str::to_owned), true);
            }
            EntryKind::Request(request) => self.request(request, &entry),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl Sent {
    fn of(request: &Request<'_>, at: Option<Millis>) -> Self {
        let window: &Window = request.window;
        let parts: Vec<_> =
            window.parts.iter().map(|it| hash(it.role.as_str(), &it.part.what)).collect();
        let system: u64 = window.system.iter().map(|text| text.what.bytes).sum();
        let tools = (!window.tools.is_empty()).then(|| ContentHash::new(&window.tools.join("\n")));
        Self {
            key: request.key,
            at,
            model: request.model.map(str::to_owned),
            tools,
            system: window.system.iter().map(|text| text.what.hash).collect(),
            bytes: system + parts.iter().map(|(_, bytes)| bytes).sum::<u64>(),
            parts,
            usage: request.usage,
            is_long: request.cache_write_hour > 0,
        }
    }

    fn compare(&self, before: &Self, is_compacted: bool) -> Comparison {
        let intact_tokens = before.usage.map_or(0, |usage| usage.input);
        let changed = |cause, at: &str| {
            let verdict = Verdict::Changed { cause, at: at.to_owned() };
            Comparison { intact_tokens, ..Comparison::of(verdict) }
        };
        if self.model != before.model {
            return changed(Cause::Model, "model");
        }
        if self.tools != before.tools {
            return changed(Cause::ToolList, "tools");
        }
        if self.system != before.system {
            return changed(Cause::SystemText, "system");
        }
        let same = self.parts.iter().zip(&before.parts).take_while(|(one, other)| one == other);
        let same = same.count();
        let changed_bytes: u64 = before.parts[same..].iter().map(|(_, bytes)| bytes).sum();
        let unchanged_bytes = before.bytes - changed_bytes;
        let reusable_tokens = intact_tokens.saturating_sub(changed_bytes.div_ceil(BYTES_PER_TOKEN));
        if same < before.parts.len() {
            let cause = if is_compacted { Cause::Compaction } else { Cause::EditedMessage };
            let at = format!("part {} of the conversation", same + 1);
            let verdict = Verdict::Changed { cause, at };
            return Comparison {
                unchanged_bytes,
                reusable_tokens,
                intact_tokens,
                ..Comparison::of(verdict)
            };
        }
        let pause = self.pause(before);
        let verdict = self.served(reusable_tokens, pause);
        Comparison {
            unchanged_bytes,
            reusable_tokens,
            intact_tokens,
            is_continued: true,
            pause,
            verdict,
        }
    }

    fn served(&self, reusable: u64, pause: Option<i64>) -> Verdict {
        let Some(usage) = self.usage.filter(|_| reusable >= LEAST_TOKENS) else {
            return Verdict::Unknown;
        };
        // Providers cache in steps: half of the possible tokens is not a miss.
        if usage.cached >= reusable / 2 {
            return Verdict::Served;
        }
        pause.map_or(Verdict::Missed, Verdict::Pause)
    }

    /// Returns the milliseconds since the request before, if they are more than the cache lives.
    fn pause(&self, before: &Self) -> Option<i64> {
        let pause = self.at?.0.saturating_sub(before.at?.0);
        let life = if before.is_long { LONG_LIFE } else { LIFE };
        (pause > life).then_some(pause)
    }
}

fn hash(role: &str, part: &Part) -> (ContentHash, u64) {
    let hash = match part {
        Part::Text(text) | Part::Result(text) | Part::Thinking(text) | Part::Image(text) => {
            ContentHash::new(&format!("{role} {}", text.hash))
        }
        Part::Call { name, input } => ContentHash::new(&format!("{role} {name} {input}")),
    };
    (hash, part.bytes())
}

impl CachedRequest {
    /// Returns the verdict in words.
    pub fn words(&self) -> String {
        match &self.verdict {
            Verdict::First => "the first request".to_owned(),
            Verdict::Served => "the prefix is the same and came from the cache".to_owned(),
            Verdict::Changed { cause, at } => format!("{}: {at}", cause.words()),
            Verdict::Pause(millis) => {
                format!(
                    "the prefix is the same; {} minutes have passed since the request before",
                    millis / 60_000
                )
            }
            Verdict::Missed => "the prefix is the same and the provider missed".to_owned(),
            Verdict::Unknown if self.grade == Grade::Partial => {
                "its window is not known".to_owned()
            }
            Verdict::Unknown => "the prefix is the same".to_owned(),
        }
    }

    /// Returns the JSON form.
    pub fn to_json(&self, number: usize) -> Value {
        let difference = match &self.verdict {
            Verdict::Changed { cause, at } => json!({ "source": at, "cause": cause.as_str() }),
            _ => Value::Null,
        };
        let verdict = match &self.verdict {
            Verdict::First => "first",
            Verdict::Served => "served",
            Verdict::Changed { .. } => "changed",
            Verdict::Pause(_) => "pause",
            Verdict::Missed => "missed",
            Verdict::Unknown => "unknown",
        };
        json!({
            "number": number, "agent": self.agent, "at": self.at, "source": self.place,
            "model": self.model, "purpose": self.purpose.as_str(), "rebuilt": self.grade,
            "bytes": self.bytes, "unchangedBytes": self.unchanged_bytes,
            "countedTokens": self.usage.map(|usage| usage.input),
            "cachedTokens": self.usage.map(|usage| usage.cached),
            "reusableTokens": self.reusable_tokens, "firstDifference": difference,
            "verdict": verdict, "lostUsd": self.lost,
        })
    }
}

#[cfg(test)]
mod tests;
