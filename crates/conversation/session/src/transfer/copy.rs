//! Copies a session to another store.

use std::collections::HashSet;
use std::io::{self, Write};

use convoke_protocol::content::{Content, ContentHash};
use convoke_protocol::id::SessionId;
use sha2::{Digest as _, Sha256};

use super::pages::Pages;
use super::{TransferError, export};
use crate::store::{SessionImport as _, Store, StoreError};

/// A copied session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopiedSession {
    /// The SHA-256 of the archive, which is the same for both stores.
    pub hash: [u8; 32],
    /// Whether the other store already had the same session.
    pub was_there: bool,
}

/// Copies a session under its id, and compares the archives of both stores. A different session with that id is
/// left unchanged, and the copy is refused. Memory: one page, and the hashes of the contents.
pub async fn copy(
    from: &impl Store,
    to: &impl Store,
    session: SessionId,
) -> Result<CopiedSession, TransferError> {
    let was_there = match to.session(session).await {
        Ok(_) => true,
        Err(StoreError::NoSession(_)) => false,
        Err(error) => return Err(error.into()),
    };
    if !was_there {
        write(from, to, session).await?;
    }
    let hash = hash(from, session).await?;
    if self::hash(to, session).await? == hash {
        return Ok(CopiedSession { hash, was_there });
    }
    if !was_there {
        to.remove(session).await?;
    }
    Err(TransferError::Differs { session })
}

async fn write(
    from: &impl Store,
    to: &impl Store,
    session: SessionId,
) -> Result<(), TransferError> {
    let mut pages = Pages::open(from, session).await?;
    let mut import = to.import(pages.session.began.clone()).await?;
    let mut known: HashSet<ContentHash> = HashSet::new();
    while let Some(mut page) = pages.next().await? {
        known.extend(page.contents.iter().map(|content| content.reference().hash));
        let used: Vec<ContentHash> =
            page.events.iter().flat_map(|event| event.kind.contents()).map(|it| it.hash).collect();
        for hash in used {
            if known.insert(hash) {
                page.contents.push(Content::new(pages.store.content(hash).await?));
            }
        }
        import.write(page).await?;
    }
    import.finish().await?;
    Ok(())
}

/// Returns the SHA-256 of a session's archive.
async fn hash(store: &impl Store, session: SessionId) -> Result<[u8; 32], TransferError> {
    let mut out = HashingWriter(Sha256::new());
    export(store, session, &mut out).await?;
    Ok(out.0.finalize().into())
}

struct HashingWriter(Sha256);

impl Write for HashingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
