//! Exports a session as an archive.

use std::collections::{HashSet, VecDeque};
use std::io::{self, Write};

use convoke_protocol::content::{Content, ContentHash};
use convoke_protocol::id::{SessionId, ThreadId};
use convoke_protocol::session::NumberedMessage;
use serde::Serialize;
use serde_json::json;

use super::TransferError;
use super::lines::{Header, RequestLine, ThreadLineLine};
use super::pages::{Pages, contents_of};
use crate::store::{Page, Store};

/// The number of recent contents that are not repeated in the file, limited to bound the memory.
const RECENT: usize = 4096;

/// Writes a whole session as an archive, as of one moment. Memory: one page.
pub async fn export(
    store: &impl Store,
    session: SessionId,
    out: &mut (impl Write + Send),
) -> Result<(), TransferError> {
    let mut pages = Pages::open(store, session).await?;
    let header = Header::new(pages.session.began.clone(), pages.session.state.clone());
    line(out, &header)?;
    let mut recent = RecentContents::default();
    while let Some(page) = pages.next().await? {
        let Page { contents, messages, turns, attempts, lines, requests, .. } = page;
        for NumberedMessage { number, answers, message } in &messages {
            line(out, &json!({"message": message, "number": number, "answers": answers}))?;
        }
        let mut attempts = attempts.iter().peekable();
        for turn in &turns {
            line(out, &json!({"turn": turn}))?;
            while let Some(attempt) = attempts.next_if(|attempt| attempt.turn == turn.id) {
                for hash in contents_of(attempt).filter(|hash| recent.is_new(*hash)) {
                    let own = contents.iter().find(|content| content.reference().hash == hash);
                    let stored = match own {
                        Some(_) => None,
                        None => Some(pages.store.content(hash).await?),
                    };
                    let text = stored.as_deref().or(own.map(Content::text));
                    line(out, &json!({"content": text}))?;
                }
                line(out, &json!({"attempt": attempt}))?;
            }
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
