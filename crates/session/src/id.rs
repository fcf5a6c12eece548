//! Identifiers: sessions, turns, messages and members are never mixed up.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Milliseconds since 1970.
pub type Millis = i64;

/// The id of a session; later sessions sort after earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(Uuid);

impl SessionId {
    /// Creates the id of a new session.
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }

    /// Tells whether what a user typed is the beginning or the end of this id, with or without hyphens.
    ///
    /// Sessions of the same minute begin alike; their ends differ.
    pub fn is_abbreviated_by(&self, written: &str) -> bool {
        let written: String = written.chars().filter(|&c| c != '-').collect();
        let written = written.to_ascii_lowercase();
        let whole = self.0.simple().to_string();
        !written.is_empty() && (whole.starts_with(&written) || whole.ends_with(&written))
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// A text that is no session's id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the id of a session")]
pub struct InvalidSessionId(pub String);

impl FromStr for SessionId {
    type Err = InvalidSessionId;

    fn from_str(text: &str) -> Result<Self, InvalidSessionId> {
        text.parse().map(Self).map_err(|_| InvalidSessionId(text.to_owned()))
    }
}

impl TryFrom<String> for SessionId {
    type Error = InvalidSessionId;

    fn try_from(text: String) -> Result<Self, InvalidSessionId> {
        text.parse()
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.to_string()
    }
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// Returns the one after this.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )+};
}

numbers! {
    /// The number of a turn in its session, from 1, in the order in which turns were called for.
    TurnId;
    /// The place of a message in its session, from 1.
    MessageNumber;
    /// How many commits a session has had; a commit on any other head is refused.
    Head;
}

/// The name of a member, as its team spells it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberName(String);

impl MemberName {
    /// Creates a name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for MemberName {
    fn from(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl fmt::Display for MemberName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_found_by_either_end_of_its_id() {
        let id: SessionId = "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b".parse().unwrap();
        for written in
            ["0199a1b2", "0199A1B2-C3", "2e3f4a5b", "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b"]
        {
            assert!(id.is_abbreviated_by(written), "{written}");
        }
        for written in ["", "-", "c3d4", "0199b"] {
            assert!(!id.is_abbreviated_by(written), "{written}");
        }
    }
}
