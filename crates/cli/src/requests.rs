//! What models were sent, as it is stored: read, and shown to people and programs.

use std::fmt::Write as _;
use std::str::FromStr;
use std::time::Duration;

use convoke_agent::event::EventKind;
use convoke_core::ledger::{Ledger, Style, Table};
use convoke_model::sent::{Ending, RequestEnd, RequestMeta, read_ledger};
use convoke_session::request::RequestRow;
use convoke_session::{SqliteStore, Store as _};
use serde_json::{Value, json};

use crate::figures::{number, seconds};
use crate::terminal::printable;

/// Which requests are meant, on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// All that there are.
    All,
    /// The one of this number.
    One(u64),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        match (written, written.parse()) {
            ("all", _) => Ok(Self::All),
            (_, Ok(number)) if number > 0 => Ok(Self::One(number)),
            _ => Err("a request is a number, from 1".to_owned()),
        }
    }
}

/// A request as it is stored, without its texts.
#[derive(Debug)]
pub struct StoredRequest {
    row: RequestRow,
    /// What was known of it when it was sent.
    pub about: RequestMeta,
    ending: Ending,
}

/// The texts of a request.
#[derive(Debug)]
pub struct RequestTexts {
    /// What was sent.
    pub body: String,
    /// Where every byte of it came from.
    pub ledger: Ledger<'static>,
}

impl StoredRequest {
    /// Reads the requests of a thread, oldest first.
    pub async fn of_thread(store: &SqliteStore, thread: &str) -> anyhow::Result<Vec<Self>> {
        store.requests(thread).await?.into_iter().map(Self::read).collect()
    }

    fn read(row: RequestRow) -> anyhow::Result<Self> {
        let about = serde_json::from_str(&row.about)?;
        let ending = row.outcome.as_deref().map(serde_json::from_str).transpose()?;
        Ok(Self { about, ending: ending.unwrap_or_default(), row })
    }

    /// Returns its number in the thread.
    pub fn number(&self) -> u64 {
        self.row.number
    }

    /// Returns the turn of a session that it belongs to, and the attempt of that turn.
    pub fn turn(&self) -> Option<(u64, u32)> {
        self.row.turn.zip(self.row.attempt)
    }

    /// Reads its texts.
    pub async fn texts(&self, store: &SqliteStore) -> anyhow::Result<RequestTexts> {
        let texts = store.request_texts(&self.row.thread, self.row.number).await?;
        let ledger = read_ledger(&texts.ledger, &self.about)?;
        Ok(RequestTexts { body: texts.body, ledger })
    }

    /// Returns everything about it, for other programs.
    pub fn json(&self, texts: &RequestTexts) -> Value {
        let Self { row, about, ending } = self;
        json!({
            "thread": row.thread, "request": row.number, "turn": row.turn, "attempt": row.attempt,
            "at": about.at, "path": about.path, "purpose": about.purpose, "bytes": about.bytes,
            "unchangedBytes": about.unchanged_bytes, "redacted": about.redacted,
            "failedAttempts": ending.failed, "ended": ending.how, "usage": ending.usage,
            "model": ending.model, "ledger": texts.ledger, "body": texts.body,
        })
    }

    /// Names it: its number, what it is for, and how much of it is new.
    pub fn title(&self) -> String {
        let RequestMeta { purpose, bytes, unchanged_bytes, .. } = &self.about;
        format!(
            "request {}, {}, {} bytes, {} unchanged",
            self.row.number,
            purpose.as_str(),
            number(*bytes),
            number(*unchanged_bytes)
        )
    }

    /// Says what came of it, and whether what is shown is all that was sent.
    pub fn remarks(&self) -> Vec<String> {
        let Ending { failed, how, usage, .. } = &self.ending;
        let mut remarks = Vec::new();
        if self.about.redacted {
            remarks.push("the key stood in it, and was taken out of what is kept".to_owned());
        }
        for (index, why) in failed.iter().enumerate() {
            remarks.push(format!("attempt {} failed: {}", index + 1, printable(why)));
        }
        match how {
            Some(RequestEnd::Answered | RequestEnd::Failed) => {}
            Some(RequestEnd::Cancelled) => remarks.push("it was cancelled".to_owned()),
            Some(RequestEnd::TimedOut) => remarks.push("the turn took too long".to_owned()),
            None => remarks.push("no end of it is known".to_owned()),
        }
        if let Some(usage) = usage {
            remarks.push(format!("the provider counted {}", tokens(usage)));
        }
        remarks
    }
}

/// Returns tokens as a provider counted them, in words.
pub fn tokens(usage: &convoke_agent::usage::Usage) -> String {
    let mut text = format!("{} tokens in", number(usage.input));
    if usage.cached > 0 {
        let _ = write!(text, " ({} from its cache)", number(usage.cached));
    }
    let _ = write!(text, ", {} out", number(usage.output));
    text
}

impl RequestTexts {
    /// Returns the ledger as a table.
    pub fn table(&self, style: Style) -> Table<'_, 'static> {
        Table { ledger: &self.ledger, style }
    }
}

/// Says that a request failed and is sent again, where an event tells so.
pub fn retry(event: &EventKind<'_>) -> Option<String> {
    let EventKind::Retry { attempt, max, wait_ms, reason, .. } = event else { return None };
    let of = max.map_or_else(String::new, |max| format!(" of {max}"));
    let after = wait_ms
        .map_or_else(String::new, |wait| format!(" in {}", seconds(Duration::from_millis(wait))));
    Some(format!("attempt {attempt}{of} failed: {}; trying again{after}", printable(reason)))
}
