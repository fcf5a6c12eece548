//! Path patterns as the agents understand them: lines of `.gitignore`, and globs of whole paths.
//!
//! Both kinds are read into one small language, [`Node`], and matched by one machine. The programs that
//! are modelled make regular expressions of JavaScript from their patterns, so texts are compared in
//! UTF-16 units, as JavaScript counts.

mod brackets;
mod gitignore;
mod machine;
mod picomatch;

pub(crate) use gitignore::Selection;
pub(crate) use picomatch::Glob;

/// What a pattern asks of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    /// This unit.
    Unit(u16),
    /// One unit of a set.
    Set(Set),
    /// One unit that is no slash.
    NotSlash,
    /// One unit.
    Any,
    /// The end of the text.
    End,
    /// The text does not go on like this.
    NotAhead(Box<Node>),
    /// One after the other.
    Sequence(Vec<Node>),
    /// One of these.
    Choice(Vec<Node>),
    /// Not at all or once.
    Optional(Box<Node>),
    /// As often as it goes.
    Repeat(Box<Node>),
    /// Once or more often.
    Several(Box<Node>),
}

impl Node {
    /// Characters that stand for themselves.
    fn literal(text: &str) -> Self {
        Self::Sequence(text.encode_utf16().map(Self::Unit).collect())
    }

    /// Any number of units that are no slash.
    fn star() -> Self {
        Self::Repeat(Box::new(Self::NotSlash))
    }

    /// What no text fulfils.
    fn never() -> Self {
        Self::Choice(Vec::new())
    }
}

/// A set of units, as between square brackets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Set {
    negated: bool,
    ranges: Vec<(u16, u16)>,
}

impl Set {
    fn add(&mut self, unit: u16) {
        self.ranges.push((unit, unit));
    }

    fn holds(&self, unit: u16) -> bool {
        let within = |(first, last): &(u16, u16)| (*first..=*last).contains(&unit);
        self.ranges.iter().any(within) != self.negated
    }
}

/// The unit of a character that lies in the first plane.
fn unit(character: char) -> u16 {
    u16::try_from(u32::from(character)).unwrap_or(u16::MAX)
}

const SLASH: u16 = 0x2f;
