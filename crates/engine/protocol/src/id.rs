//! Identifiers of sessions, turns, messages, members and threads, and points in time.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use convoke_core::Millis;
pub use convoke_core::name::MemberName;

/// The id of a session; later sessions sort after earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(Uuid);

/// The digits of an id that people see.
const SHORT: usize = 8;

impl SessionId {
    /// Creates a new id.
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }

    /// Returns the id by which people name the session: the beginning of its last group, which is random.
    ///
    /// The beginning of the whole id is the time, which sessions of the same minute share.
    pub fn short(&self) -> String {
        self.random_group()[..SHORT].to_owned()
    }

    /// Returns the shortest id by which the session can be told from the others, at least [`Self::short`].
    pub fn short_among<'a>(&self, others: impl IntoIterator<Item = &'a Self>) -> String {
        let group = self.random_group();
        let common = |other: &Self| {
            let other = other.random_group();
            group.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count()
        };
        let others = others.into_iter().filter(|other| *other != self);
        let shared = others.map(common).max().unwrap_or(0);
        group[..(shared + 1).clamp(SHORT, group.len())].to_owned()
    }

    /// Returns whether a text is the beginning of the short id.
    pub fn is_begun_by(&self, written: &str) -> bool {
        !written.is_empty() && self.random_group().starts_with(&written.to_ascii_lowercase())
    }

    /// Returns whether a text is the beginning of this id, or at least eight digits of its end, with or without hyphens.
    pub fn is_abbreviated_by(&self, written: &str) -> bool {
        let written: String = written.chars().filter(|&c| c != '-').collect();
        let written = written.to_ascii_lowercase();
        let whole = self.0.simple().to_string();
        !written.is_empty()
            && (whole.starts_with(&written) || written.len() >= SHORT && whole.ends_with(&written))
    }

    fn random_group(&self) -> String {
        let id = self.0.simple().to_string();
        id[id.len() - 12..].to_owned()
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// A text that is not a session id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a session id")]
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
            /// Returns the next number.
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
    /// The number of a turn in its session, from 1, in queueing order.
    TurnId;
    /// The number of a message in its session, from 1.
    MessageNumber;
    /// The number of an event in the log of its session, from 1.
    EventNumber;
}

/// One attempt at a turn of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptRef {
    pub session: SessionId,
    pub turn: TurnId,
    /// The number of the attempt, from 1.
    pub attempt: u32,
}

/// The id of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ThreadId(String);

impl ThreadId {
    /// The maximum length of an id.
    const MAX_BYTES: usize = 1000;

    /// Creates a new id; later threads sort after earlier ones.
    pub fn generate() -> Self {
        Self(Uuid::now_v7().to_string())
    }

    /// Returns the id of a member's thread in a session.
    pub fn of_member(session: SessionId, member: &str) -> Self {
        let mut id = format!("{session}-");
        for byte in member.bytes() {
            match byte {
                byte if byte.is_ascii_alphanumeric() => id.push(char::from(byte)),
                // All other bytes are written in hexadecimal, so that ids are unique.
                other => {
                    let _ = write!(id, "_{other:02x}");
                }
            }
        }
        Self(id)
    }

    /// Returns the id without the session's prefix; `None` if the thread does not belong to the session.
    pub fn suffix_in(&self, session: SessionId) -> Option<&str> {
        self.0.strip_prefix(&session.to_string())?.strip_prefix('-')
    }

    /// Returns the id of a session's thread from its suffix; `None` if the suffix is invalid.
    pub fn with_suffix(session: SessionId, suffix: &str) -> Option<Self> {
        Self::parse(suffix)?;
        Self::parse(&format!("{session}-{suffix}"))
    }

    /// Returns the member of a session that the thread belongs to.
    pub fn member_of(&self, session: SessionId) -> Option<String> {
        let mut parts = self.suffix_in(session)?.split('_');
        let mut bytes = parts.next()?.as_bytes().to_vec();
        for part in parts {
            bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
            bytes.extend_from_slice(part.get(2..)?.as_bytes());
        }
        String::from_utf8(bytes).ok()
    }

    /// Parses an id; `None` if it is empty, too long, or contains invalid characters.
    pub fn parse(id: &str) -> Option<Self> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let usable = (1..=Self::MAX_BYTES).contains(&id.len()) && id.bytes().all(fits);
        usable.then(|| Self(id.to_owned()))
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ThreadId {
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
        for written in ["", "-", "c3d4", "0199b", "4a5b"] {
            assert!(!id.is_abbreviated_by(written), "{written}");
        }
    }

    #[test]
    fn the_short_id_grows_until_it_names_one_session() {
        let [one, two, three] = [
            "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b",
            "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a66",
            "0199a1b2-c3d4-7e5f-8a9b-ffff00001111",
        ]
        .map(|id| id.parse::<SessionId>().unwrap());
        assert_eq!(one.short(), "0c1d2e3f");
        assert_eq!(one.short_among(&[one, three]), "0c1d2e3f");
        assert_eq!(one.short_among(&[one, two, three]), "0c1d2e3f4a5");
        assert!(one.is_begun_by("0C1d") && three.is_begun_by("f"));
        assert!(!one.is_begun_by("") && !one.is_begun_by("0199"));
    }

    #[test]
    fn a_text_that_could_mean_something_else_is_no_thread_id() {
        for id in ["", "../x", "a/b", ".hidden", "a b", "a'b", &"x".repeat(2000)] {
            assert_eq!(ThreadId::parse(id), None, "{id}");
        }
        assert!(ThreadId::parse(ThreadId::generate().as_str()).is_some());
    }

    #[test]
    fn the_id_of_a_members_thread_names_the_member() {
        let [one, two] = [SessionId::generate(), SessionId::generate()];
        assert_eq!(ThreadId::of_member(one, "Kai Lai").suffix_in(one), Some("Kai_20Lai"));
        for member in ["max", "Kai Lai", "小林", "_", "a-b_c", ""] {
            let thread = ThreadId::of_member(one, member);
            assert_eq!(thread.member_of(one).as_deref(), Some(member));
            assert_eq!(thread.member_of(two), None);
        }
        for suffix in ["a_2", "a_zz", "_ff"] {
            let thread = ThreadId::with_suffix(one, suffix).unwrap();
            assert_eq!(thread.member_of(one), None, "{suffix}");
        }
    }
}
