//! The requests of each thread, in order, stored as deltas.

use super::connection::{SqlConnection, SqlRow};
use super::packed::pack;
use super::query::{query, sql};
use super::write::json;
use super::{Backend, SqlStore, threads};
use crate::request::{self, RequestDelta, TextDelta};
use crate::store::StoreError;
use crate::thread::ThreadOwner;
use convoke_agent::thread::{ThreadStoreError, first_kept};
use convoke_protocol::content::ContentHash;
use convoke_protocol::id::{AttemptRef, SessionId, ThreadId, TurnId};
use convoke_protocol::request::{RequestMeta, RequestOutcome, RequestRecord, RequestTexts};
use miniz_oxide::inflate::decompress_to_vec_with_limit;

/// The maximum length of a chain of deltas, which bounds the cost of reading a text.
const MAX_DEPTH: i64 = 63;

/// Stores a request in its own transaction.
pub(super) async fn add(
    store: &SqlStore<impl Backend>,
    record: &RequestRecord,
    before: Option<&RequestTexts>,
) -> Result<u64, StoreError> {
    store.failpoint.reach();
    let mut transaction = store.begin().await?;
    let thread = &record.thread;
    let session = match (record.attempt, threads::owner(&mut *transaction, thread).await?) {
        (Some(attempt), _) => Some(attempt.session),
        (None, Some(ThreadOwner::Session(session))) => Some(session),
        (None, Some(ThreadOwner::Nobody) | None) => None,
    };
    if let Some(session) = session {
        store.backend.check(&mut *transaction, session).await?;
    }
    transaction.lock_thread(thread).await?;
    let number = last_number(&mut *transaction, thread).await? + 1;
    // A member's first turn adds no thread line before its end, so the thread is created here.
    threads::name(&mut *transaction, thread, session).await?;
    // If another process has added a request meanwhile, this one is stored whole.
    let before = before.filter(|_| record.number == number);
    let RequestTexts { body, ledger } = &record.texts;
    let (old_body, old_ledger) = before.map_or(("", ""), |it| (&it.body, &it.ledger));
    let deltas = RequestTexts {
        body: TextDelta::between(old_body, body),
        ledger: TextDelta::between(old_ledger, ledger),
    };
    let texts = RequestTexts { body: (&deltas.body, &**body), ledger: (&deltas.ledger, &**ledger) };
    write(&mut *transaction, record, number, before.is_some(), texts).await?;
    store.end(transaction).await?;
    Ok(number)
}

/// Adds a request of an imported session. `last` is the previous request of the thread, and becomes this one.
/// Hashes are checked only when the request is read.
pub(super) async fn import(
    connection: &mut impl SqlConnection,
    session: SessionId,
    last: &mut Option<RequestRecord>,
    record: RequestRecord<RequestDelta>,
) -> Result<(), StoreError> {
    let RequestRecord { thread, number, .. } = &record;
    let before = last.take();
    if before.as_ref().map_or(0, |before| before.number) + 1 != *number {
        let what = format!("request {number} of the thread {thread}");
        return Err(StoreError::Recorded { session, what });
    }
    let has_predecessor = before.is_some();
    let before = before.map(|before| before.texts).unwrap_or_default();
    let apply = |delta: &TextDelta, before: String| {
        let mut text = before.into_bytes();
        request::splice(&mut text, delta.from_start, delta.from_end, delta.between.as_bytes())
            .map_err(|error| damaged(delta.hash, &error))?;
        String::from_utf8(text).map_err(|error| damaged(delta.hash, &error))
    };
    let body = apply(&record.texts.body, before.body)?;
    let ledger = apply(&record.texts.ledger, before.ledger)?;
    let deltas = &record.texts;
    let texts = RequestTexts { body: (&deltas.body, &*body), ledger: (&deltas.ledger, &*ledger) };
    write(connection, &record, *number, has_predecessor, texts).await?;
    *last = Some(record.with_texts(RequestTexts { body, ledger }));
    Ok(())
}

pub(super) async fn set_outcome(
    store: &SqlStore<impl Backend>,
    thread: &ThreadId,
    number: u64,
    outcome: &RequestOutcome,
) -> Result<(), StoreError> {
    store.failpoint.reach();
    let mut transaction = store.begin().await?;
    if let Some(ThreadOwner::Session(session)) = threads::owner(&mut *transaction, thread).await? {
        store.backend.check(&mut *transaction, session).await?;
    }
    query("UPDATE request SET outcome = $1 WHERE thread = $2 AND number = $3")
        .bind(json(outcome)?)
        .bind(thread.as_str())
        .bind(sql(number))
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    store.failpoint.reach();
    Ok(())
}

/// Drops the texts of a thread's oldest requests if all of them take more than these bytes, and returns their number.
pub(super) async fn limit_texts(
    store: &SqlStore<impl Backend>,
    thread: &ThreadId,
    max_bytes: u64,
) -> Result<u64, StoreError> {
    let sizes = "SELECT number, SUM(LENGTH(packed)) AS size FROM request_text WHERE thread = $1 \
                 GROUP BY number ORDER BY number DESC";
    let mut connection = store.pool.acquire().await?;
    let rows = query(sizes).bind(thread.as_str()).fetch_all(&mut *connection).await?;
    drop(connection);
    let sizes = rows.iter().map(|row| Ok((unsigned(row, "number")?, unsigned(row, "size")?)));
    let sizes = sizes.collect::<Result<Vec<_>, StoreError>>()?;
    let Some(first) = first_kept(sizes.into_iter(), max_bytes) else { return Ok(0) };
    store.failpoint.reach();
    let mut transaction = store.begin().await?;
    if let Some(ThreadOwner::Session(session)) = threads::owner(&mut *transaction, thread).await? {
        store.backend.check(&mut *transaction, session).await?;
    }
    transaction.lock_thread(thread).await?;
    // The first that is kept becomes whole. Later ones may still count it as a difference: whatever lies before a whole
    // text in their chain is replaced by it.
    let kept = texts(&mut *transaction, thread, first).await?;
    for (text, whole) in [(TextKind::Body, &kept.body), (TextKind::Ledger, &kept.ledger)] {
        TextKey { thread, text, number: first }.replace(&mut *transaction, whole).await?;
    }
    let mut dropped = 0;
    for record in after(&mut *transaction, thread, 0, None).await? {
        let RequestRecord { number, mut meta, .. } = record;
        if number >= first || std::mem::replace(&mut meta.dropped, true) {
            continue;
        }
        for text in [TextKind::Body, TextKind::Ledger] {
            TextKey { thread, text, number }.replace(&mut *transaction, "").await?;
        }
        query("UPDATE request SET about = $1 WHERE thread = $2 AND number = $3")
            .bind(json(&meta)?)
            .bind(thread.as_str())
            .bind(sql(number))
            .execute(&mut *transaction)
            .await?;
        dropped += 1;
    }
    transaction.commit().await?;
    store.failpoint.reach();
    Ok(dropped)
}

/// Returns at most `limit` requests after one, without their texts.
pub(super) async fn after(
    connection: &mut impl SqlConnection,
    thread: &ThreadId,
    after: u64,
    limit: Option<usize>,
) -> Result<Vec<RequestRecord<()>>, StoreError> {
    let rows = query(
        "SELECT number, turn, attempt, about, outcome, session FROM request \
         JOIN thread ON thread.name = request.thread \
         WHERE request.thread = $1 AND number > $2 ORDER BY number LIMIT $3",
    )
    .bind(thread.as_str())
    .bind(sql(after))
    .bind(limit.map_or(i64::MAX, |limit| sql(limit as u64)))
    .fetch_all(connection)
    .await?;
    rows.iter().map(|row| record(thread, row)).collect()
}

/// Returns at most `limit` requests after one, each as a delta from its predecessor. Makes one pass over the
/// texts of these requests; holds one request and the additions of each.
pub(super) async fn deltas_after(
    connection: &mut impl SqlConnection,
    thread: &ThreadId,
    number: u64,
    limit: usize,
) -> Result<Vec<RequestRecord<RequestDelta>>, StoreError> {
    let records = after(connection, thread, number, Some(limit)).await?;
    let before = match number {
        0 => RequestTexts::default(),
        number => texts(connection, thread, number).await?,
    };
    let body = TextKey { thread, text: TextKind::Body, number };
    let bodies = body.deltas(connection, before.body, limit).await?;
    let ledger = TextKey { thread, text: TextKind::Ledger, number };
    let ledgers = ledger.deltas(connection, before.ledger, limit).await?;
    if bodies.len() != records.len() || ledgers.len() != records.len() {
        return Err(StoreError::Damaged(format!("a request of the thread {thread} has no text")));
    }
    let texts = bodies.into_iter().zip(ledgers).map(|(body, ledger)| RequestDelta { body, ledger });
    Ok(records.into_iter().zip(texts).map(|(record, texts)| record.with_texts(texts)).collect())
}

/// Returns the last request of a thread.
pub(super) async fn last(
    connection: &mut impl SqlConnection,
    thread: &ThreadId,
) -> Result<Option<RequestRecord>, StoreError> {
    let number = last_number(connection, thread).await?;
    let Some(record) = after(connection, thread, number.saturating_sub(1), None).await?.pop()
    else {
        return Ok(None);
    };
    let texts = texts(connection, thread, record.number).await?;
    Ok(Some(record.with_texts(texts)))
}

/// Returns the texts of a request. Applies at most 64 deltas, each but the first at most half the size of its
/// text.
pub(super) async fn texts(
    connection: &mut impl SqlConnection,
    thread: &ThreadId,
    number: u64,
) -> Result<RequestTexts, StoreError> {
    let place = |text| TextKey { thread, text, number };
    Ok(RequestTexts {
        body: place(TextKind::Body).read(connection).await?,
        ledger: place(TextKind::Ledger).read(connection).await?,
    })
}

/// Returns the number of a thread's last request; 0 if it has none.
async fn last_number(
    connection: &mut impl SqlConnection,
    thread: &ThreadId,
) -> Result<u64, StoreError> {
    let last = "SELECT COALESCE(MAX(number), 0) AS number FROM request WHERE thread = $1";
    let row = query(last).bind(thread.as_str()).fetch_optional(connection).await?;
    row.map_or(Ok(0), |row| unsigned(&row, "number"))
}

async fn write<T>(
    connection: &mut impl SqlConnection,
    record: &RequestRecord<T>,
    number: u64,
    has_predecessor: bool,
    texts: RequestTexts<(&TextDelta, &str)>,
) -> Result<(), StoreError> {
    let RequestRecord { thread, attempt, meta, outcome, .. } = record;
    let outcome = (*outcome != RequestOutcome::default()).then(|| json(outcome)).transpose()?;
    query(
        "INSERT INTO request (thread, number, turn, attempt, about, outcome) \
         VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(thread.as_str())
    .bind(sql(number))
    .bind(attempt.map(|attempt| sql(attempt.turn.0)))
    .bind(attempt.map(|attempt| i64::from(attempt.attempt)))
    .bind(json(meta)?)
    .bind(outcome)
    .execute(connection)
    .await?;
    for (text, delta) in [(TextKind::Body, texts.body), (TextKind::Ledger, texts.ledger)] {
        let place = TextKey { thread, text, number };
        place.write(connection, has_predecessor, delta.0, delta.1).await?;
    }
    Ok(())
}

/// A text of a request.
#[derive(Debug, Clone, Copy)]
enum TextKind {
    Body,
    Ledger,
}

impl TextKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::Ledger => "ledger",
        }
    }
}

/// The place of a text in the table.
#[derive(Debug, Clone, Copy)]
struct TextKey<'p> {
    thread: &'p ThreadId,
    text: TextKind,
    number: u64,
}

impl TextKey<'_> {
    /// Writes a text as its delta, or whole if the delta saves less than half or the chain is long.
    async fn write(
        self,
        connection: &mut impl SqlConnection,
        has_predecessor: bool,
        delta: &TextDelta,
        text: &str,
    ) -> Result<(), StoreError> {
        let before =
            query("SELECT depth FROM request_text WHERE thread = $1 AND text = $2 AND number = $3")
                .bind(self.thread.as_str())
                .bind(self.text.name())
                .bind(sql(self.number) - 1)
                .fetch_optional(connection)
                .await?;
        let depth = before.map(|row| row.get("depth")).transpose()?;
        let depth = depth.map_or(0, |depth: i64| depth + 1);
        let common = delta.from_start + delta.from_end;
        let is_delta = has_predecessor && depth <= MAX_DEPTH && common >= text.len().div_ceil(2);
        let (depth, from_start, from_end, between) = if is_delta {
            (depth, delta.from_start, delta.from_end, &*delta.between)
        } else {
            (0, 0, 0, text)
        };
        query(
            "INSERT INTO request_text (thread, text, number, depth, from_start, from_end, bytes, \
             hash, packed) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        )
        .bind(self.thread.as_str())
        .bind(self.text.name())
        .bind(sql(self.number))
        .bind(depth)
        .bind(sql(from_start as u64))
        .bind(sql(from_end as u64))
        .bind(sql(text.len() as u64))
        .bind(delta.hash.as_bytes().as_slice())
        .bind(pack(between))
        .execute(connection)
        .await?;
        Ok(())
    }

    /// Replaces a stored text by a whole one.
    async fn replace(
        self,
        connection: &mut impl SqlConnection,
        text: &str,
    ) -> Result<(), StoreError> {
        query(
            "UPDATE request_text SET depth = 0, from_start = 0, from_end = 0, bytes = $1, hash = $2, \
             packed = $3 WHERE thread = $4 AND text = $5 AND number = $6",
        )
        .bind(sql(text.len() as u64))
        .bind(ContentHash::new(text).as_bytes().as_slice())
        .bind(pack(text))
        .bind(self.thread.as_str())
        .bind(self.text.name())
        .bind(sql(self.number))
        .execute(connection)
        .await?;
        Ok(())
    }

    async fn read(self, connection: &mut impl SqlConnection) -> Result<String, StoreError> {
        let rows = query(
            "SELECT depth, from_start, from_end, bytes, hash, packed FROM request_text \
             WHERE thread = $1 AND text = $2 AND number <= $3 AND number >= $3 - \
             (SELECT depth FROM request_text WHERE thread = $1 AND text = $2 AND number = $3) \
             ORDER BY number",
        )
        .bind(self.thread.as_str())
        .bind(self.text.name())
        .bind(sql(self.number))
        .fetch_all(connection)
        .await?;
        let mut text = Vec::new();
        let mut last = None;
        for row in &rows {
            let step = StoredDelta::read(row)?;
            step.apply(&mut text)?;
            last = Some(step.hash);
        }
        let (thread, number) = (self.thread.clone(), self.number);
        let hash = last.ok_or(ThreadStoreError::NoRequest { thread, number })?;
        request::checked(text, hash).map_err(|error| damaged(hash, &error))
    }

    /// Returns the deltas of at most `limit` texts after this one, whose text is `before`.
    async fn deltas(
        self,
        connection: &mut impl SqlConnection,
        before: String,
        limit: usize,
    ) -> Result<Vec<TextDelta>, StoreError> {
        let rows = query(
            "SELECT depth, from_start, from_end, bytes, hash, packed FROM request_text \
             WHERE thread = $1 AND text = $2 AND number > $3 ORDER BY number LIMIT $4",
        )
        .bind(self.thread.as_str())
        .bind(self.text.name())
        .bind(sql(self.number))
        .bind(sql(limit as u64))
        .fetch_all(connection)
        .await?;
        let mut before = before;
        let mut deltas = Vec::with_capacity(rows.len());
        for row in &rows {
            let StoredDelta { depth, from_start, from_end, between, hash, .. } =
                StoredDelta::read(row)?;
            // Texts stored whole, and texts that an early version split within a character, are compared again.
            let between = String::from_utf8(between).ok().filter(|_| {
                depth > 0
                    && before.is_char_boundary(from_start)
                    && before
                        .len()
                        .checked_sub(from_end)
                        .is_some_and(|at| before.is_char_boundary(at))
            });
            let delta = if let Some(between) = between {
                TextDelta { from_start, from_end, between, hash }
            } else {
                let mut text = if depth == 0 { Vec::new() } else { before.clone().into_bytes() };
                StoredDelta::read(row)?.apply(&mut text)?;
                let text = String::from_utf8(text).map_err(|error| damaged(hash, &error))?;
                TextDelta { hash, ..TextDelta::between(&before, &text) }
            };
            before = delta.apply(before).map_err(|error| damaged(hash, &error))?;
            deltas.push(delta);
        }
        Ok(deltas)
    }
}

/// A row of a text: its delta from the previous text.
struct StoredDelta {
    depth: i64,
    from_start: usize,
    from_end: usize,
    /// Rows of early versions may begin or end within a character.
    between: Vec<u8>,
    hash: ContentHash,
}

impl StoredDelta {
    fn read(row: &impl SqlRow) -> Result<Self, StoreError> {
        let hash: Vec<u8> = row.get("hash")?;
        let hash: [u8; 32] =
            hash.try_into().map_err(|_| StoreError::Damaged("a request has no hash".to_owned()))?;
        let hash = ContentHash::from(hash);
        let size = |column| {
            let size = usize::try_from(unsigned(row, column)?);
            size.map_err(|error| damaged(hash, &error))
        };
        let (from_start, from_end, bytes) =
            (size("from_start")?, size("from_end")?, size("bytes")?);
        let wrong = || damaged(hash, &"it cannot be unpacked");
        let expected = bytes.checked_sub(from_start.saturating_add(from_end)).ok_or_else(wrong)?;
        let packed: &[u8] = row.get("packed")?;
        let between = decompress_to_vec_with_limit(packed, expected).map_err(|_| wrong())?;
        if between.len() != expected {
            return Err(wrong());
        }
        Ok(Self { depth: row.get("depth")?, from_start, from_end, between, hash })
    }

    fn apply(&self, text: &mut Vec<u8>) -> Result<(), StoreError> {
        request::splice(text, self.from_start, self.from_end, &self.between)
            .map_err(|error| damaged(self.hash, &error))
    }
}

fn record(thread: &ThreadId, row: &impl SqlRow) -> Result<RequestRecord<()>, StoreError> {
    let number = unsigned(row, "number")?;
    let unreadable = |column: &str, error: &dyn std::fmt::Display| {
        StoreError::Damaged(format!("request {number} of the thread {thread}: {column}: {error}"))
    };
    let meta: &str = row.get("about")?;
    let meta: RequestMeta =
        serde_json::from_str(meta).map_err(|error| unreadable("about", &error))?;
    let outcome: Option<&str> = row.get("outcome")?;
    let outcome: Option<RequestOutcome> = outcome
        .map(serde_json::from_str)
        .transpose()
        .map_err(|error| unreadable("outcome", &error))?;
    let session: Option<&str> = row.get("session")?;
    let turn: Option<i64> = row.get("turn")?;
    let attempt: Option<i64> = row.get("attempt")?;
    let attempt = match (session, turn, attempt) {
        (Some(session), Some(turn), Some(attempt)) => Some(AttemptRef {
            session: session.parse().map_err(|error| unreadable("session", &error))?,
            turn: TurnId(u64::try_from(turn).map_err(|error| unreadable("turn", &error))?),
            attempt: u32::try_from(attempt).map_err(|error| unreadable("attempt", &error))?,
        }),
        _ => None,
    };
    let outcome = outcome.unwrap_or_default();
    Ok(RequestRecord { thread: thread.clone(), number, attempt, meta, outcome, texts: () })
}

fn damaged(hash: ContentHash, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Damaged(format!("request {hash}: {error}"))
}

fn unsigned(row: &impl SqlRow, column: &str) -> Result<u64, StoreError> {
    let number: i64 = row.get(column)?;
    u64::try_from(number)
        .map_err(|_| StoreError::Damaged(format!("a request's {column} is {number}")))
}
