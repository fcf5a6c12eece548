//! The text that the agent of a running attempt is writing, in pieces.

use convoke_protocol::id::{SessionId, TurnId};

use super::connection::{SqlConnection, text};
use super::query::{query, sql, text_value};
use crate::store::{Piece, StoreError};

/// Adds a piece to the text of a running attempt. A piece at the start begins a new text.
pub(super) async fn write(
    connection: &mut impl SqlConnection,
    session: SessionId,
    piece: &Piece,
) -> Result<(), StoreError> {
    let Piece { turn, attempt, position, text } = piece;
    if *position == 0 {
        super::projection::remove_pieces(connection, session, *turn, *attempt).await?;
    }
    let written = query(
        "INSERT INTO piece (session, turn, attempt, position, text) SELECT $1, $2, $3, $4, $5 \
         FROM attempt WHERE session = $1 AND turn = $2 AND number = $3 AND has_ended = 0 \
         ON CONFLICT (session, turn, attempt, position) DO UPDATE SET text = excluded.text",
    )
    .bind(session.to_string())
    .bind(sql(turn.0))
    .bind(i64::from(*attempt))
    .bind(sql(*position))
    .bind(text_value(text.as_str()))
    .execute(connection)
    .await?;
    if written == 0 {
        let what = format!("the end of attempt {attempt} of turn {turn}");
        return Err(StoreError::Recorded { session, what });
    }
    Ok(())
}

/// Returns the text of a running attempt so far, from its last whole text.
pub(super) async fn of_attempt(
    connection: &mut impl SqlConnection,
    session: SessionId,
    turn: TurnId,
    attempt: u32,
) -> Result<String, StoreError> {
    let rows = query(
        "SELECT text FROM piece WHERE session = $1 AND turn = $2 AND attempt = $3 ORDER BY position",
    )
    .bind(session.to_string())
    .bind(sql(turn.0))
    .bind(i64::from(attempt))
    .fetch_all(connection)
    .await?;
    rows.iter().map(|row| text(row, "text")).collect()
}
