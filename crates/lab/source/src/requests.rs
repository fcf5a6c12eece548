//! The requests of a session, as JSON.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use convoke_protocol::id::Millis;
use convoke_protocol::usage::Usage;
use convoke_protocol::window::Messages;
use serde_json::{Value, json};

use crate::{Entry, EntryKind, Request, SessionReader, Sink, SourceError};

/// Returns the cost of a request as JSON.
pub type Price<'p> = dyn Fn(&Request<'_>, Option<Millis>) -> Value + 'p;

/// Collects the requests of a session as JSON, in the order in which they were sent. As each has its whole window, they wait in a
/// private temporary file.
pub struct Requests<'p> {
    session: String,
    price: &'p Price<'p>,
    found: Vec<Written>,
    /// The places of requests that may be handed out again, by sub-agent and key.
    places: HashMap<(Option<String>, u64), usize>,
    file: BufWriter<File>,
    bytes: u64,
    failed: Option<io::Error>,
    /// The version of the program.
    pub version: Option<String>,
}

/// Where a request is in the temporary file.
struct Written {
    at: Option<Millis>,
    offset: u64,
    bytes: u64,
}

impl<'p> Requests<'p> {
    /// Collects the requests of a session with this id, with their costs.
    pub fn new(session: &str, price: &'p Price<'p>) -> io::Result<Self> {
        Ok(Self {
            session: session.to_owned(),
            price,
            found: Vec::new(),
            places: HashMap::new(),
            file: BufWriter::new(tempfile::tempfile()?),
            bytes: 0,
            failed: None,
            version: None,
        })
    }

    /// Writes the requests as a list.
    pub fn write(mut self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        self.file.flush()?;
        self.found.sort_by_key(|it| it.at.map(|at| at.0));
        let mut file = BufReader::new(self.file.get_ref());
        out.write_all(b"[")?;
        for (number, Written { offset, bytes, .. }) in (1_u64..).zip(&self.found) {
            let comma = if number > 1 { "," } else { "" };
            // The number takes the place of the brace.
            write!(out, "{comma}{{\"n\":{number},")?;
            file.seek(SeekFrom::Start(offset + 1))?;
            io::copy(&mut file.by_ref().take(bytes - 1), out)?;
        }
        out.write_all(b"]")
    }

    fn add(&mut self, entry: &Entry<'_>, request: &Request<'_>) -> io::Result<()> {
        let mut value = described(entry, request, self.price);
        let window = request.window;
        let system = window
            .system
            .iter()
            .map(|it| json!({ "sha256": it.what.hash, "bytes": it.what.bytes }));
        value["session"] = json!(self.session);
        value["system"] = system.collect();
        value["tools"] = window.tools.iter().map(|name| json!({ "name": name })).collect();
        value["messages"] = json!(Messages(window));
        let json = serde_json::to_vec(&value)?;
        self.file.write_all(&json)?;
        let written = Written { at: entry.at, offset: self.bytes, bytes: json.len() as u64 };
        self.bytes += written.bytes;
        let key = (entry.agent.map(str::to_owned), request.key);
        if let Some(&place) = self.places.get(&key) {
            self.found[place] = written;
        } else {
            self.places.insert(key, self.found.len());
            self.found.push(written);
        }
        Ok(())
    }
}

impl Sink for Requests<'_> {
    fn take(&mut self, entry: Entry<'_>) -> ControlFlow<()> {
        match entry.kind {
            EntryKind::Request(request) => {
                if let Err(failed) = self.add(&entry, request) {
                    self.failed = Some(failed);
                    return ControlFlow::Break(());
                }
            }
            EntryKind::Facts(facts) => {
                self.version = facts.version.map(str::to_owned).or(self.version.take());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Reads the requests of a session that is small enough for memory, without their costs.
pub fn all(reader: &mut dyn SessionReader) -> Result<Vec<Value>, SourceError> {
    let failed = |source: io::Error| SourceError::Read { path: PathBuf::new(), source };
    let mut requests = Requests::new("", &|_, _| Value::Null).map_err(failed)?;
    reader.advance(&mut requests)?;
    let mut json = Vec::new();
    requests.write(&mut json).map_err(failed)?;
    serde_json::from_slice(&json).map_err(|error| failed(error.into()))
}

/// Returns a request as JSON, without its window.
pub fn described(entry: &Entry<'_>, request: &Request<'_>, price: &Price<'_>) -> Value {
    json!({
        "at": entry.at.map(time), "agent": entry.agent, "purpose": request.purpose.as_str(),
        "model": request.model, "usage": request.usage.map(usage), "status": request.status,
        "rebuilt": request.grade, "missing": request.missing, "source": entry.place,
        "cost": price(request, entry.at),
    })
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
