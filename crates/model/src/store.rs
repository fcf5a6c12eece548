//! Where threads are kept: each is a log of lines that only grows, and the requests that it made.
//!
//! A store knows nothing of what the lines and the requests say ([`crate::log`] and [`crate::sent`] do).
//! Whoever adds lines says how many it has read, so that two programs that go on with the same thread
//! cannot mix their turns.

mod memory;

use std::fmt::{self, Write as _};
use std::pin::Pin;

use convoke_agent::turn_input::TurnName;

pub use self::memory::MemoryStore;

/// The name of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ThreadId(String);

impl ThreadId {
    /// Makes a new name, which sorts by its time.
    pub fn new() -> Self {
        Self(uuid::Uuid::now_v7().to_string())
    }

    /// Returns the name of a member's thread in a session.
    pub fn of_member(session: &str, member: &str) -> Self {
        let mut name = format!("{session}-");
        for byte in member.bytes() {
            match byte {
                byte if byte.is_ascii_alphanumeric() => name.push(char::from(byte)),
                // Every other byte by its number, so that no two members share a name.
                other => {
                    let _ = write!(name, "_{other:02x}");
                }
            }
        }
        Self(name)
    }

    /// Returns the member of a session whose thread has this name.
    pub fn member_of(&self, session: &str) -> Option<String> {
        let written = self.0.strip_prefix(session)?.strip_prefix('-')?;
        let mut parts = written.split('_');
        let mut bytes = parts.next()?.as_bytes().to_vec();
        for part in parts {
            bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
            bytes.extend_from_slice(part.get(2..)?.as_bytes());
        }
        String::from_utf8(bytes).ok()
    }

    /// Takes a name that was made before; `None` for what no store could use as one.
    pub fn parse(name: &str) -> Option<Self> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let usable = (1..=1000).contains(&name.len()) && name.bytes().all(fits);
        usable.then(|| Self(name.to_owned()))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for ThreadId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a store answers, some time later.
pub type Stored<'s, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 's>>;

/// Keeps threads.
pub trait ThreadStore: Send + Sync {
    /// Returns the lines of a thread, oldest first; none when there is no such thread.
    fn load<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Vec<String>>;

    /// Adds lines at the end: all of them or none, and for good when it returns.
    ///
    /// `known` is the number of lines that the caller has read; when there are others by now, nothing
    /// is added.
    fn append<'s>(
        &'s self,
        thread: &'s ThreadId,
        known: usize,
        lines: Vec<String>,
    ) -> Stored<'s, ()>;

    /// Returns the last request that was kept of a thread.
    fn last_request<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Option<KeptRequest>>;

    /// Keeps a request that is about to be sent, for good when it returns. Returns its number in the
    /// thread, from 1.
    fn keep_request<'s>(&'s self, thread: &'s ThreadId, request: NewRequest<'s>)
    -> Stored<'s, u64>;

    /// Notes what came of a request, in place of what was noted before.
    fn note_request<'s>(
        &'s self,
        thread: &'s ThreadId,
        number: u64,
        outcome: String,
    ) -> Stored<'s, ()>;
}

/// A request that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptRequest {
    /// Its number in the thread.
    pub number: u64,
    /// What was sent.
    pub body: String,
    /// Where it came from.
    pub ledger: String,
}

/// A request that is about to be sent. It has much in common with the one before.
#[derive(Debug, Clone, Copy)]
pub struct NewRequest<'r> {
    /// The turn of a session that it belongs to.
    pub turn: Option<&'r TurnName>,
    /// What is known of it.
    pub about: &'r str,
    /// What is sent.
    pub body: &'r str,
    /// Where it came from.
    pub ledger: &'r str,
    /// The request before it.
    pub before: Option<&'r KeptRequest>,
}

/// A store could not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Somebody else has gone on with the thread.
    #[error("the thread {0} was changed by another program; nothing was added to it")]
    Conflict(ThreadId),
    /// The disk or the database failed.
    #[error("the store of threads failed: {0}")]
    Failed(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_mean_something_else_are_no_names() {
        for name in ["", "../x", "a/b", ".hidden", "a b", "a'b", &"x".repeat(2000)] {
            assert_eq!(ThreadId::parse(name), None, "{name}");
        }
        assert!(ThreadId::parse(ThreadId::new().as_str()).is_some());
        assert_eq!(ThreadId::of_member("s", "Kai Lai").as_str(), "s-Kai_20Lai");
    }

    #[test]
    fn the_name_of_a_members_thread_tells_whose_it_is() {
        for member in ["max", "Kai Lai", "小林", "_", "a-b_c", ""] {
            let thread = ThreadId::of_member("s-1", member);
            assert_eq!(thread.member_of("s-1").as_deref(), Some(member));
            assert_eq!(thread.member_of("s-2"), None);
        }
        for name in ["s-1-a_2", "s-1-a_zz", "s-1-_ff"] {
            assert_eq!(ThreadId::parse(name).unwrap().member_of("s-1"), None, "{name}");
        }
    }
}
