//! Rules: the reasons why texts are kept, cut or dropped.

use std::borrow::Cow;
use std::fmt;

use super::owned;

/// The rule that was applied to a piece of text, with its figures.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule<'a> {
    /// The text fits.
    Fits,
    /// Convoke wrote the text around other text.
    Frame,
    /// The text has been in the thread since an earlier turn and is sent again unchanged.
    FromThread,
    /// It comes from another program, which does not record sources: it was recognised by its text.
    Recognised,
    /// No entry covered it, so its source is not known.
    Unattributed,
    /// The oldest context is dropped first: with it the text would not have fitted.
    OldestFirst {
        /// The bytes that this message and all newer text need.
        needed: u64,
        /// The bytes that were available.
        available: u64,
    },
    /// The end of the text was cut.
    EndCut {
        /// The size of the uncut text.
        needed: u64,
        /// The bytes that were available.
        available: u64,
    },
    /// The middle of the text was cut.
    MiddleCut {
        /// The size of the uncut text.
        needed: u64,
        /// The bytes that were available.
        available: u64,
    },
    /// Another rule, as text.
    Other(Cow<'a, str>),
}

/// The words of [`Rule::Recognised`].
pub(super) const RECOGNISED: &str = "recognised by its text";

/// The words of [`Rule::Recognised`] in ledgers of earlier versions.
pub(super) const RECOGNISED_BEFORE: &str = "from another program's record, recognised by its text";

/// The words of [`Rule::Unattributed`].
pub(super) const UNATTRIBUTED: &str = "its source is not known";

/// The text of [`Rule::FromThread`].
pub(super) const FROM_THREAD: &str = "from the thread";

/// The text of [`Rule::FromThread`] in ledgers of earlier versions.
pub(super) const FROM_THREAD_BEFORE: &str = "unchanged, from the thread";

impl Rule<'_> {
    pub(super) fn into_owned(self) -> Rule<'static> {
        match self {
            Self::Fits => Rule::Fits,
            Self::Frame => Rule::Frame,
            Self::FromThread => Rule::FromThread,
            Self::Recognised => Rule::Recognised,
            Self::Unattributed => Rule::Unattributed,
            Self::OldestFirst { needed, available } => Rule::OldestFirst { needed, available },
            Self::EndCut { needed, available } => Rule::EndCut { needed, available },
            Self::MiddleCut { needed, available } => Rule::MiddleCut { needed, available },
            Self::Other(text) => Rule::Other(owned(text)),
        }
    }
}

impl fmt::Display for Rule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Fits => f.write_str("fits"),
            Rule::Frame => f.write_str("frame"),
            Rule::FromThread => f.write_str(FROM_THREAD),
            Rule::Recognised => f.write_str(RECOGNISED),
            Rule::Unattributed => f.write_str(UNATTRIBUTED),
            Rule::OldestFirst { needed, available } => {
                write!(f, "oldest context first: {needed} bytes needed, {available} available")
            }
            Rule::EndCut { needed, available } => {
                write!(f, "end cut: {needed} bytes needed, {available} available")
            }
            Rule::MiddleCut { needed, available } => {
                write!(f, "middle cut: {needed} bytes needed, {available} available")
            }
            Rule::Other(text) => f.write_str(text),
        }
    }
}
