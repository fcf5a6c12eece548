//! Ids of questions.

use std::fmt;

use crate::id::TurnId;

/// The id of a question of a running turn's agent. It names the attempt, because another attempt asks its own
/// questions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QuestionId {
    pub turn: TurnId,
    pub attempt: u32,
    /// The agent's own id of the question.
    pub id: String,
}

impl fmt::Display for QuestionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.turn, self.attempt, self.id)
    }
}

impl QuestionId {
    /// Parses the id in a question's event; `None` if it is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let (turn, rest) = text.split_once('.')?;
        let (attempt, id) = rest.split_once('.')?;
        let (turn, attempt) = (TurnId(turn.parse().ok()?), attempt.parse().ok()?);
        Some(Self { turn, attempt, id: id.to_owned() })
    }
}
