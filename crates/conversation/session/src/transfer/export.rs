//! Exports a session as an archive.

use std::collections::{HashSet, VecDeque};
use std::io::{self, Write};

use convoke_protocol::content::{Content, ContentHash};
use convoke_protocol::id::{EventNumber, SessionId, ThreadId};
use serde::Serialize;
use serde_json::json;

use super::TransferError;
use super::lines::{Header, RequestLine, ThreadLineLine};
use super::pages::Pages;
use crate::store::{Page, Store};

/// The number of events that are read at once.
const PAGE: usize = 256;
/// The number of recent contents that are not repeated in the file, limited to bound the memory.
const RECENT: usize = 4096;

/// Writes a whole session as an archive, as of one moment: its log, with the texts that the events refer to. Memory: one page.
pub async fn export(
    store: &impl Store,
    session: SessionId,
    out: &mut (impl Write + Send),
) -> Result<(), TransferError> {
    let mut pages = Pages::open(store, session).await?;
    line(out, &Header::new(pages.session.began.clone()))?;
    let mut recent = RecentContents::default();
    while let Some(page) = pages.next().await? {
        let Page { contents, events, lines, requests, .. } = page;
        for event in &events {
            for hash in event.kind.contents().map(|it| it.hash).filter(|it| recent.is_new(*it)) {
                let own = contents.iter().find(|content| content.reference().hash == hash);
                let stored = match own {
                    Some(_) => None,
                    None => Some(pages.store.content(hash).await?),
                };
                let text = stored.as_deref().or(own.map(Content::text));
                line(out, &json!({"content": text}))?;
            }
            line(out, event)?;
        }
        for (thread, it) in lines {
            let thread = name(&thread, session).to_owned();
            let it = ThreadLineLine { thread, as_of: it.as_of, line: it.text };
            line(out, &json!({"threadLine": it}))?;
        }
        for record in requests {
            let thread = name(&record.thread, session).to_owned();
            let record = RequestLine::new(&thread, record).map_err(io::Error::from)?;
            line(out, &json!({"request": record}))?;
        }
    }
    Ok(())
}

/// Writes the log of a session: its events, one a line, without the texts that they refer to. Memory: one page.
pub async fn export_log(
    store: &impl Store,
    session: SessionId,
    out: &mut (impl Write + Send),
) -> Result<(), TransferError> {
    let store = store.snapshot().await?;
    store.session(session).await?;
    let mut after = EventNumber::default();
    loop {
        let page = store.events(session, after, PAGE).await?;
        let Some(last) = page.last().and_then(|event| event.number) else { return Ok(()) };
        after = last;
        page.iter().try_for_each(|event| line(out, event))?;
    }
}

/// Returns the name of a thread in an archive: its id without the session's prefix, else the whole id.
pub(super) fn name(thread: &ThreadId, session: SessionId) -> &str {
    thread.suffix_in(session).unwrap_or(thread.as_str())
}

fn line(out: &mut impl Write, value: &impl Serialize) -> Result<(), TransferError> {
    serde_json::to_writer(&mut *out, value).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(())
}

/// The recently written contents.
#[derive(Default)]
struct RecentContents {
    known: HashSet<ContentHash>,
    order: VecDeque<ContentHash>,
}

impl RecentContents {
    /// Adds a content, and returns whether it is new.
    fn is_new(&mut self, hash: ContentHash) -> bool {
        let is_new = self.known.insert(hash);
        if is_new {
            self.order.push_back(hash);
        }
        if self.order.len() > RECENT
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        is_new
    }
}
