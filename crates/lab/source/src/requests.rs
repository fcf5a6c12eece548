//! The requests of a session, as JSON.

use std::collections::HashMap;
use std::ops::ControlFlow;

use convoke_protocol::id::Millis;
use convoke_protocol::usage::Usage;
use convoke_protocol::window::Messages;
use serde_json::{Value, json};

use crate::{Entry, EntryKind, Request, Sink};

/// Returns the cost of a request as JSON.
pub type Price<'p> = dyn Fn(&Request<'_>, Option<Millis>) -> Value + 'p;

/// Collects the requests of a session as JSON, in the order in which they were sent.
#[derive(Default)]
pub struct Requests<'p> {
    session: String,
    price: Option<&'p Price<'p>>,
    found: Vec<(Option<Millis>, Value)>,
    /// The places of requests that may be handed out again, by sub-agent and key.
    places: HashMap<(Option<String>, u64), usize>,
    /// The version of the program.
    pub version: Option<String>,
}

impl<'p> Requests<'p> {
    /// Collects the requests of a session with this id, with their costs.
    pub fn new(session: &str, price: &'p Price<'p>) -> Self {
        Self { session: session.to_owned(), price: Some(price), ..Self::default() }
    }

    /// Returns the requests.
    pub fn into_json(mut self) -> Vec<Value> {
        self.found.sort_by_key(|(at, _)| at.map(|at| at.0));
        let requests = self.found.into_iter().zip(1_u64..);
        let numbered = requests.map(|((_, mut request), number)| {
            request["n"] = number.into();
            request
        });
        numbered.collect()
    }
}

impl Sink for Requests<'_> {
    fn take(&mut self, entry: Entry<'_>) -> ControlFlow<()> {
        let request = match entry.kind {
            EntryKind::Request(request) => request,
            EntryKind::Facts(facts) => {
                self.version = facts.version.map(str::to_owned).or(self.version.take());
                return ControlFlow::Continue(());
            }
            _ => return ControlFlow::Continue(()),
        };
        let window = request.window;
        let system = window
            .system
            .iter()
            .map(|it| json!({ "sha256": it.what.hash, "bytes": it.what.bytes }));
        let value = json!({
            "n": 0, "at": entry.at.map(time), "session": self.session, "agent": entry.agent, "purpose": request.purpose.as_str(),
            "model": request.model, "system": system.collect::<Vec<_>>(),
            "tools": window.tools.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>(),
            "messages": Messages(window), "usage": request.usage.map(usage), "status": request.status,
            "rebuilt": request.grade, "missing": request.missing, "source": entry.place,
            "cost": self.price.map_or(Value::Null, |price| price(request, entry.at)),
        });
        let key = (entry.agent.map(str::to_owned), request.key);
        if let Some(&place) = self.places.get(&key) {
            self.found[place] = (entry.at, value);
        } else {
            self.places.insert(key, self.found.len());
            self.found.push((entry.at, value));
        }
        ControlFlow::Continue(())
    }
}

/// Returns a time as JSON: date and time in UTC.
pub fn time(at: Millis) -> Value {
    jiff::Timestamp::from_millisecond(at.0).map_or(Value::Null, |at| at.to_string().into())
}

/// Returns token counts as JSON: `input` are those neither read from nor written to the cache.
pub fn usage(usage: Usage) -> Value {
    let Usage { input, cached, cache_write, output, reasoning } = usage;
    let input = input.saturating_sub(cached).saturating_sub(cache_write);
    json!({
        "input": input, "output": output, "cacheRead": cached, "cacheWrite": cache_write,
        "reasoning": reasoning,
    })
}
