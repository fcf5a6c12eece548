//! Stored requests as text and as JSON.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::str::FromStr;

use convoke_core::ledger::{Style, Table};
use convoke_protocol::agent_event::AgentEventKind;
use convoke_protocol::request::{
    RequestEnd, RequestMeta, RequestOutcome, RequestRecord, RequestTexts,
};
use convoke_protocol::view::RequestFigures;

use crate::figures::{count, number, percent, seconds};
use crate::terminal::printable;

/// A selection of requests on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestSelection {
    /// All of them.
    All,
    /// The request with this number.
    One(u64),
}

impl FromStr for RequestSelection {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        match (written, written.parse()) {
            ("all", _) => Ok(Self::All),
            (_, Ok(number)) if number > 0 => Ok(Self::One(number)),
            _ => Err("a request number is 1 or more".to_owned()),
        }
    }
}

/// The remark on a request without the provider's count, which comes at the end of an answer.
const UNCOUNTED: &str = "the provider's token count is unknown";

/// Returns notes on the outcome of a request and on redactions in its stored body.
pub fn remarks<T>(record: &RequestRecord<T>) -> Vec<String> {
    let RequestOutcome { failed, end, usage, status, .. } = &record.outcome;
    let mut remarks = Vec::new();
    if record.meta.redacted {
        remarks.push("the request contained the key; the stored copy is redacted".to_owned());
    }
    if !record.meta.masked.is_empty() {
        remarks.push(format!("masked: {}", record.meta.masked.join(", ")));
    }
    if record.meta.dropped {
        remarks.push("its body was dropped to make room for later requests".to_owned());
    }
    for (index, why) in failed.iter().enumerate() {
        remarks.push(format!("attempt {} failed: {}", index + 1, printable(why)));
    }
    match end {
        Some(RequestEnd::Unsent) => remarks.push("nothing was sent".to_owned()),
        Some(RequestEnd::Cancelled) => remarks.push("cancelled".to_owned()),
        Some(RequestEnd::TimedOut) => remarks.push("the turn timed out".to_owned()),
        None => remarks.push("unknown outcome".to_owned()),
        Some(_) => {}
    }
    let is_accepted = status.is_some_and(|status| (200..300).contains(&status));
    match (usage, end) {
        (Some(usage), Some(RequestEnd::Failed)) => {
            let counted = tokens(usage);
            remarks.push(format!("the provider counted {counted}, until its response ended early"));
        }
        (Some(usage), _) => remarks.push(format!("the provider counted {}", tokens(usage))),
        (None, Some(RequestEnd::Answered)) => remarks.push(UNCOUNTED.to_owned()),
        (None, _) if is_accepted => remarks.push(UNCOUNTED.to_owned()),
        (None, _) => {}
    }
    remarks
}

/// Writes the ledger of a request as a table.
pub fn write_ledger(
    out: &mut impl Write,
    texts: &RequestTexts,
    meta: &RequestMeta,
    style: Style<'_>,
) -> io::Result<()> {
    write!(out, "{}", Table { ledger: &texts.parse_ledger(meta)?, style })
}

/// Formats what was sent to a model.
pub fn sent(requests: RequestFigures) -> String {
    let RequestFigures { count: many, bytes, unchanged_bytes } = requests;
    let (unchanged, share) = (number(unchanged_bytes), percent(unchanged_bytes, bytes));
    let (requests, bytes) = (count(many, "request"), number(bytes));
    format!("{requests}, {bytes} bytes, {unchanged} of them unchanged ({share})")
}

/// Formats the token counts of a provider.
pub fn tokens(usage: &convoke_protocol::usage::Usage) -> String {
    let mut text = format!("{} tokens in", number(usage.input));
    if usage.cached > 0 {
        let _ = write!(text, " ({} from its cache)", number(usage.cached));
    }
    let _ = write!(text, ", {} out", number(usage.output));
    text
}

/// Returns the text of a retry event.
pub fn retry(event: &AgentEventKind<'_>) -> Option<String> {
    let AgentEventKind::Retry { attempt, max, wait, reason, .. } = event else { return None };
    let of = max.map_or_else(String::new, |max| format!(" of {max}"));
    let after = wait.map_or_else(String::new, |wait| format!(" in {}", seconds(wait)));
    Some(format!("attempt {attempt}{of} failed: {}; retrying{after}", printable(reason)))
}
