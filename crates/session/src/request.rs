//! Requests: what models were sent, in each thread from 1.
//!
//! What is said about a request is the model's matter. A session knows which turn sent it, so that a copy
//! of the session as it was earlier has only what was sent until then.

use serde::{Deserialize, Serialize};

use crate::content::ContentHash;
use crate::id::{SessionId, TurnId};

/// The texts of a request, owned or borrowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestTexts<T = String> {
    /// What was sent.
    pub body: T,
    /// Where it came from.
    pub ledger: T,
}

impl RequestTexts {
    /// Lends the texts.
    pub fn borrowed(&self) -> RequestTexts<&str> {
        RequestTexts { body: &self.body, ledger: &self.ledger }
    }
}

/// The attempt of a session's turn that sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTurn {
    /// The session, whose thread it is from then on.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The attempt of that turn.
    pub attempt: u32,
}

/// A request that is about to be sent.
#[derive(Debug, Clone, Copy)]
pub struct NewRequest<'r> {
    /// The turn that it belongs to.
    pub turn: Option<RequestTurn>,
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

/// A whole request: the requests of a thread make sense together, from the first on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentRequest {
    /// All but its texts.
    pub row: RequestRow,
    /// What its texts have that those of the request before have not.
    pub texts: RequestTexts<TextChange>,
}

impl SentRequest {
    /// Returns its texts, from those of the request before; nothing when they are not the ones that were
    /// sent, with the name of the text.
    pub fn texts_after(
        &self,
        before: RequestTexts<&str>,
    ) -> Result<RequestTexts, (&'static str, ChangeError)> {
        let RequestTexts { body, ledger } = &self.texts;
        Ok(RequestTexts {
            body: body.apply(before.body).map_err(|error| ("body", error))?,
            ledger: ledger.apply(before.ledger).map_err(|error| ("ledger", error))?,
        })
    }
}

/// A text as its difference from the one before: both begin and end alike, at whole characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TextChange {
    /// The bytes that both begin with.
    pub from_start: usize,
    /// The bytes that both end with, those of the beginning left out.
    pub from_end: usize,
    /// What stands between.
    pub between: String,
    /// The hash of the whole text.
    pub hash: ContentHash,
}

/// A difference that does not lead from the text before to the one that was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// It takes more of the text before than there is, or takes a character apart.
    #[error("it takes what the text before does not have")]
    Elsewhere,
    /// The text is another one.
    #[error("the text has another hash than {0}")]
    Hash(ContentHash),
}

impl TextChange {
    /// Compares a text with the one before. Costs one pass over what is the same.
    pub fn of(before: &str, text: &str) -> Self {
        let pairs = before.bytes().zip(text.bytes());
        let mut start = pairs.take_while(|(one, other)| one == other).count();
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let pairs = before[start..].bytes().rev().zip(text[start..].bytes().rev());
        let mut end = pairs.take_while(|(one, other)| one == other).count();
        while !text.is_char_boundary(text.len() - end) {
            end -= 1;
        }
        Self {
            from_start: start,
            from_end: end,
            between: text[start..text.len() - end].to_owned(),
            hash: ContentHash::of(text),
        }
    }

    /// Returns the text that this difference leads to.
    pub fn apply(&self, before: &str) -> Result<String, ChangeError> {
        let start = before.get(..self.from_start);
        let end_at = before.len().checked_sub(self.from_end).filter(|at| *at >= self.from_start);
        let end = end_at.and_then(|at| before.get(at..));
        let (Some(start), Some(end)) = (start, end) else { return Err(ChangeError::Elsewhere) };
        let text = [start, &self.between, end].concat();
        if ContentHash::of(&text) != self.hash {
            return Err(ChangeError::Hash(self.hash));
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_comes_back_from_its_change_or_not_at_all() {
        let texts =
            ["", "[1]", "[1,2]", "[1,2]", "[1,世界]", "[1,世丗]", "[世]", "界", "", "aaa", "aa"];
        for before in texts {
            for text in texts {
                assert_eq!(TextChange::of(before, text).apply(before).as_deref(), Ok(text));
            }
        }
        let change = TextChange::of("[1,2]", "[1,2,3]");
        assert_eq!((change.from_start, change.from_end, &*change.between), (4, 1, ",3"));
        assert_eq!(change.apply("[1,3]"), Err(ChangeError::Hash(change.hash)));
        assert_eq!(change.apply("[1"), Err(ChangeError::Elsewhere));
        assert_eq!(change.apply("[1世"), Err(ChangeError::Elsewhere));
        assert_eq!(
            TextChange { from_end: usize::MAX, ..change }.apply("[1,2]"),
            Err(ChangeError::Elsewhere)
        );
    }
}
