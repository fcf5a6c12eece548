//! What models were sent: the requests of each thread, in order.
//!
//! A request carries the whole thread, so each is kept as its difference from the one before: what was
//! said since, and little else. A thread of many turns then costs about as much as its last request
//! does, and not as much as all of them together.

use sqlx::sqlite::{SqliteConnection, SqlitePool, SqliteRow};
use sqlx::{Row, SqliteExecutor};

use super::difference::Difference;
use super::write::BEGIN;
use super::{sql, threads};
use crate::content::ContentHash;
use crate::id::SessionId;
use crate::request::{NewRequest, RequestRow, RequestTexts, SentRequest, TextChange};
use crate::store::StoreError;
use crate::store::failpoint::Failpoint;

/// After this many differences a text is kept whole, which bounds what reading one costs.
const MOST_STEPS: i64 = 63;
/// Keeps a request in a transaction of its own.
pub(super) async fn add(
    pool: &SqlitePool,
    failpoint: &Failpoint,
    thread: &str,
    request: NewRequest<'_>,
) -> Result<u64, StoreError> {
    failpoint.reach();
    let mut transaction = pool.begin_with(BEGIN).await?;
    let number = last_number(&mut transaction, thread).await? + 1;
    // The thread of a member's first turn has no line before the turn has ended, and this may be all
    // that is ever heard of it.
    threads::name(&mut transaction, thread, request.turn.map(|turn| turn.session)).await?;
    let row = RequestRow {
        thread: thread.to_owned(),
        number,
        turn: request.turn.map(|turn| turn.turn.0),
        attempt: request.turn.map(|turn| turn.attempt),
        about: request.about.to_owned(),
        outcome: None,
    };
    // Another program may have added one in between: then this one stands for itself.
    let before = request.before.filter(|before| before.number + 1 == number);
    write(&mut transaction, &row, before.map(|before| before.texts), request.texts).await?;
    failpoint.reach();
    transaction.commit().await?;
    failpoint.reach();
    Ok(number)
}

/// Adds requests as a part of a session's commit.
pub(super) async fn add_sent(
    connection: &mut SqliteConnection,
    failpoint: &Failpoint,
    session: SessionId,
    requests: Vec<SentRequest>,
) -> Result<(), StoreError> {
    let mut before: Option<(String, RequestTexts)> = None;
    for request in requests {
        failpoint.reach();
        let RequestRow { thread, number, .. } = &request.row;
        if last_number(connection, thread).await? + 1 != *number {
            let what = format!("request {number} of the thread {thread}");
            return Err(StoreError::Recorded { session, what });
        }
        let last = before.as_ref().filter(|(of, _)| of == thread).map(|(_, it)| it.borrowed());
        let texts = request.texts_after(last.unwrap_or_default()).map_err(|(text, error)| {
            StoreError::Damaged(format!("the {text} of request {number} of {thread}: {error}"))
        })?;
        threads::name(connection, thread, Some(session)).await?;
        write(connection, &request.row, last, texts.borrowed()).await?;
        before = Some((request.row.thread, texts));
    }
    Ok(())
}

pub(super) async fn note(
    pool: &SqlitePool,
    failpoint: &Failpoint,
    thread: &str,
    number: u64,
    outcome: &str,
) -> Result<(), StoreError> {
    failpoint.reach();
    sqlx::query("UPDATE request SET outcome = $1 WHERE thread = $2 AND number = $3")
        .bind(outcome)
        .bind(thread)
        .bind(sql(number))
        .execute(pool)
        .await?;
    failpoint.reach();
    Ok(())
}

pub(super) async fn rows(
    connection: impl SqliteExecutor<'_>,
    thread: &str,
) -> Result<Vec<RequestRow>, StoreError> {
    let rows = sqlx::query(
        "SELECT thread, number, turn, attempt, about, outcome FROM request WHERE thread = $1 \
         ORDER BY number",
    )
    .bind(thread)
    .fetch_all(connection)
    .await?;
    rows.iter().map(row).collect()
}

/// Returns the requests of a thread with their texts, as they are at one moment. Costs one pass over all
/// that was sent, and holds two requests and what each of them added.
pub(super) async fn sent(pool: &SqlitePool, thread: &str) -> Result<Vec<SentRequest>, StoreError> {
    let mut transaction = pool.begin().await?;
    let rows = rows(&mut *transaction, thread).await?;
    let bodies = changes(&mut transaction, thread, Text::Body).await?;
    let ledgers = changes(&mut transaction, thread, Text::Ledger).await?;
    if bodies.len() != rows.len() || ledgers.len() != rows.len() {
        return Err(StoreError::Damaged(format!("a request of the thread {thread} has no text")));
    }
    let texts = bodies.into_iter().zip(ledgers);
    let sent = rows
        .into_iter()
        .zip(texts)
        .map(|(row, (body, ledger))| SentRequest { row, texts: RequestTexts { body, ledger } });
    Ok(sent.collect())
}

async fn changes(
    connection: &mut SqliteConnection,
    thread: &str,
    text: Text,
) -> Result<Vec<TextChange>, StoreError> {
    let rows = sqlx::query(
        "SELECT from_start, from_end, bytes, hash, packed FROM request_text WHERE thread = $1 \
         AND text = $2 ORDER BY number",
    )
    .bind(thread)
    .bind(text.name())
    .fetch_all(connection)
    .await?;
    let mut before = String::new();
    let mut changes = Vec::with_capacity(rows.len());
    for row in &rows {
        let difference = difference(row)?;
        let mut text = before.clone().into_bytes();
        difference.apply(&mut text)?;
        let text = difference.checked(text)?;
        changes.push(TextChange::of(&before, &text));
        before = text;
    }
    Ok(changes)
}

pub(super) async fn last(
    pool: &SqlitePool,
    thread: &str,
) -> Result<Option<(u64, RequestTexts)>, StoreError> {
    let mut connection = pool.acquire().await?;
    match last_number(&mut connection, thread).await? {
        0 => Ok(None),
        number => Ok(Some((number, texts(&mut connection, thread, number).await?))),
    }
}

/// Returns the texts of a request. Costs at most 64 differences, of which none is more than half of its
/// text.
pub(super) async fn texts(
    connection: &mut SqliteConnection,
    thread: &str,
    number: u64,
) -> Result<RequestTexts, StoreError> {
    let place = |text| Place { thread, text, number: sql(number) };
    Ok(RequestTexts {
        body: place(Text::Body).read(connection).await?,
        ledger: place(Text::Ledger).read(connection).await?,
    })
}

/// Returns the number of a thread's last request; 0 when it has none.
async fn last_number(connection: &mut SqliteConnection, thread: &str) -> Result<u64, StoreError> {
    let last = "SELECT COALESCE(MAX(number), 0) AS number FROM request WHERE thread = $1";
    unsigned(&sqlx::query(last).bind(thread).fetch_one(connection).await?, "number")
}

async fn write(
    connection: &mut SqliteConnection,
    row: &RequestRow,
    before: Option<RequestTexts<&str>>,
    texts: RequestTexts<&str>,
) -> Result<(), StoreError> {
    let (thread, number) = (&*row.thread, sql(row.number));
    sqlx::query(
        "INSERT INTO request (thread, number, turn, attempt, about, outcome) \
         VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(thread)
    .bind(number)
    .bind(row.turn.map(sql))
    .bind(row.attempt.map(i64::from))
    .bind(&row.about)
    .bind(&row.outcome)
    .execute(&mut *connection)
    .await?;
    for text in [Text::Body, Text::Ledger] {
        let before = before.map(|before| text.of(before));
        Place { thread, text, number }.write(connection, before, text.of(texts)).await?;
    }
    Ok(())
}

/// A text of a request.
#[derive(Debug, Clone, Copy)]
enum Text {
    Body,
    Ledger,
}

impl Text {
    const fn name(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::Ledger => "ledger",
        }
    }

    const fn of(self, texts: RequestTexts<&str>) -> &str {
        match self {
            Self::Body => texts.body,
            Self::Ledger => texts.ledger,
        }
    }
}

/// Where a text is kept.
#[derive(Debug, Clone, Copy)]
struct Place<'p> {
    thread: &'p str,
    text: Text,
    number: i64,
}

impl Place<'_> {
    async fn write(
        self,
        connection: &mut SqliteConnection,
        before: Option<&str>,
        text: &str,
    ) -> Result<(), StoreError> {
        let steps: Option<(i64,)> = sqlx::query_as(
            "SELECT depth FROM request_text WHERE thread = $1 AND text = $2 AND number = $3",
        )
        .bind(self.thread)
        .bind(self.text.name())
        .bind(self.number - 1)
        .fetch_optional(&mut *connection)
        .await?;
        let mut depth = steps.map_or(0, |(steps,)| steps + 1);
        let mut difference = Difference::between(before.unwrap_or_default(), text);
        let same = difference.from_start + difference.from_end;
        if depth > MOST_STEPS || same < difference.bytes.div_ceil(2) || before.is_none() {
            depth = 0;
            difference = Difference::between("", text);
        }
        sqlx::query(
            "INSERT INTO request_text (thread, text, number, depth, from_start, from_end, bytes, \
             hash, packed) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        )
        .bind(self.thread)
        .bind(self.text.name())
        .bind(self.number)
        .bind(depth)
        .bind(sql(difference.from_start))
        .bind(sql(difference.from_end))
        .bind(sql(difference.bytes))
        .bind(difference.hash.as_bytes().as_slice())
        .bind(difference.packed)
        .execute(connection)
        .await?;
        Ok(())
    }

    async fn read(self, connection: &mut SqliteConnection) -> Result<String, StoreError> {
        let rows = sqlx::query(
            "SELECT from_start, from_end, bytes, hash, packed FROM request_text \
             WHERE thread = $1 AND text = $2 AND number <= $3 AND number >= $3 - \
             (SELECT depth FROM request_text WHERE thread = $1 AND text = $2 AND number = $3) \
             ORDER BY number",
        )
        .bind(self.thread)
        .bind(self.text.name())
        .bind(self.number)
        .fetch_all(connection)
        .await?;
        let mut text = Vec::new();
        let mut last = None;
        for row in &rows {
            let difference = difference(row)?;
            difference.apply(&mut text)?;
            last = Some(difference);
        }
        let (thread, number) = (self.thread, self.number);
        let missing = || StoreError::Damaged(format!("thread {thread} has no request {number}"));
        last.ok_or_else(missing)?.checked(text)
    }
}

fn difference(row: &SqliteRow) -> Result<Difference, StoreError> {
    let hash: Vec<u8> = row.try_get("hash")?;
    let hash: [u8; 32] =
        hash.try_into().map_err(|_| StoreError::Damaged("a request has no hash".to_owned()))?;
    Ok(Difference {
        from_start: unsigned(row, "from_start")?,
        from_end: unsigned(row, "from_end")?,
        bytes: unsigned(row, "bytes")?,
        hash: ContentHash::from(hash),
        packed: row.try_get("packed")?,
    })
}

fn row(row: &SqliteRow) -> Result<RequestRow, StoreError> {
    let turn: Option<i64> = row.try_get("turn")?;
    let attempt: Option<i64> = row.try_get("attempt")?;
    Ok(RequestRow {
        thread: row.try_get("thread")?,
        number: unsigned(row, "number")?,
        turn: turn.and_then(|turn| u64::try_from(turn).ok()),
        attempt: attempt.and_then(|attempt| u32::try_from(attempt).ok()),
        about: row.try_get("about")?,
        outcome: row.try_get("outcome")?,
    })
}

fn unsigned(row: &SqliteRow, column: &str) -> Result<u64, StoreError> {
    let number: i64 = row.try_get(column)?;
    u64::try_from(number)
        .map_err(|_| StoreError::Damaged(format!("a request's {column} is {number}")))
}
