//! What models were sent: the requests of each thread, in order.
//!
//! A request carries the whole thread, so each is kept as its difference from the one before: what was
//! said since, and little else. A thread of many turns then costs about as much as its last request
//! does, and not as much as all of them together.

use sqlx::Row;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::difference::Difference;
use super::{SqliteStore, sql};
use crate::content::ContentHash;
use crate::store::StoreError;

/// After this many differences a text is kept whole, which bounds what reading one costs.
const MOST_STEPS: i64 = 63;
/// Takes the write lock at once: a transaction that reads first could not get it later.
const BEGIN: &str = "BEGIN IMMEDIATE";

/// The texts of a request, owned or borrowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestTexts<T = String> {
    /// What was sent.
    pub body: T,
    /// Where it came from.
    pub ledger: T,
}

/// A request that is about to be sent.
#[derive(Debug, Clone, Copy)]
pub struct NewRequest<'r> {
    /// The turn of a session that it belongs to, and the attempt of that turn.
    pub turn: Option<(u64, u32)>,
    /// What its sender says of it.
    pub about: &'r str,
    /// Its texts.
    pub texts: RequestTexts<&'r str>,
    /// The last request of the thread, as far as the sender knows.
    pub before: Option<Predecessor<'r>>,
}

/// The request before another.
#[derive(Debug, Clone, Copy)]
pub struct Predecessor<'r> {
    /// Its number.
    pub number: u64,
    /// Its texts.
    pub texts: RequestTexts<&'r str>,
}

/// A request as it is stored, without its texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRow {
    /// The thread.
    pub thread: String,
    /// The request's number in it, from 1.
    pub number: u64,
    /// The turn of a session that it belongs to.
    pub turn: Option<u64>,
    /// The attempt of that turn.
    pub attempt: Option<u32>,
    /// What its sender said of it.
    pub about: String,
    /// What came of it, as far as that is known.
    pub outcome: Option<String>,
}

impl SqliteStore {
    /// Keeps a request, for good when it returns. Returns its number in the thread.
    pub async fn add_request(
        &self,
        thread: &str,
        request: NewRequest<'_>,
    ) -> Result<u64, StoreError> {
        let mut transaction = self.pool.begin_with(BEGIN).await?;
        let last: (Option<i64>,) =
            sqlx::query_as("SELECT MAX(number) FROM request WHERE thread = $1")
                .bind(thread)
                .fetch_one(&mut *transaction)
                .await?;
        let number = last.0.unwrap_or(0) + 1;
        sqlx::query(
            "INSERT INTO request (thread, number, turn, attempt, about) VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(thread)
        .bind(number)
        .bind(request.turn.map(|(turn, _)| sql(turn)))
        .bind(request.turn.map(|(_, attempt)| i64::from(attempt)))
        .bind(request.about)
        .execute(&mut *transaction)
        .await?;
        // Another program may have added one in between: then this one stands for itself.
        let before = request.before.filter(|before| sql(before.number) + 1 == number);
        let texts = [Text::Body, Text::Ledger];
        for text in texts {
            let before = before.map(|before| text.of(before.texts));
            let place = Place { thread, text, number };
            place.write(&mut transaction, before, text.of(request.texts)).await?;
        }
        transaction.commit().await?;
        u64::try_from(number).map_err(|_| StoreError::Damaged(format!("request {number}")))
    }

    /// Notes what came of a request, in place of what was noted before.
    pub async fn note_request(
        &self,
        thread: &str,
        number: u64,
        outcome: &str,
    ) -> Result<(), StoreError> {
        sqlx::query("UPDATE request SET outcome = $1 WHERE thread = $2 AND number = $3")
            .bind(outcome)
            .bind(thread)
            .bind(sql(number))
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Returns the requests of a thread, oldest first, without their texts.
    pub async fn requests(&self, thread: &str) -> Result<Vec<RequestRow>, StoreError> {
        let rows = sqlx::query(
            "SELECT thread, number, turn, attempt, about, outcome FROM request WHERE thread = $1 \
             ORDER BY number",
        )
        .bind(thread)
        .fetch_all(&self.pool)
        .await?;
        rows.iter().map(row).collect()
    }

    /// Returns the last request of a thread with its texts.
    pub async fn last_request(
        &self,
        thread: &str,
    ) -> Result<Option<(u64, RequestTexts)>, StoreError> {
        let last: (Option<i64>,) =
            sqlx::query_as("SELECT MAX(number) FROM request WHERE thread = $1")
                .bind(thread)
                .fetch_one(&self.pool)
                .await?;
        let Some(number) = last.0.and_then(|number| u64::try_from(number).ok()) else {
            return Ok(None);
        };
        Ok(Some((number, self.request_texts(thread, number).await?)))
    }

    /// Returns the texts of a request. Costs at most 64 differences, of which none is more than half of
    /// its text.
    pub async fn request_texts(
        &self,
        thread: &str,
        number: u64,
    ) -> Result<RequestTexts, StoreError> {
        let mut connection = self.pool.acquire().await?;
        let place = |text| Place { thread, text, number: sql(number) };
        Ok(RequestTexts {
            body: place(Text::Body).read(&mut connection).await?,
            ledger: place(Text::Ledger).read(&mut connection).await?,
        })
    }
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
