//! Refuses YAML before it is parsed: the parser takes time that grows with the square of how
//! deep flow collections nest, and reads to the end before it counts.

use std::fmt;

use crate::FileKind;

/// The deepest that flow collections may nest; the reader itself takes no more.
const MAX_DEPTH: usize = 128;

/// A text that is not read as YAML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// It has more bytes than front matter may have.
    TooLong {
        /// Its bytes.
        size: u64,
        /// The most that it may have.
        limit: u64,
    },
    /// Its brackets and braces nest deeper than is read.
    TooDeep,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { size, limit } => {
                write!(f, "it has {size} bytes, and the limit is {limit} bytes")
            }
            Self::TooDeep => write!(f, "its brackets nest more than {MAX_DEPTH} deep"),
        }
    }
}

impl std::error::Error for Refused {}

/// Checks front matter before it is read as YAML, in one pass. Brackets count everywhere, in texts too: no person
/// writes a text with as many open brackets as the limit.
pub fn check(front_matter: &str) -> Result<(), Refused> {
    let (size, limit) = (front_matter.len() as u64, FileKind::FrontMatter.limit());
    if size > limit {
        return Err(Refused::TooLong { size, limit });
    }
    let mut depth = 0_usize;
    for byte in front_matter.bytes() {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(Refused::TooDeep);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nests_too_deep_or_is_too_long_is_refused_before_it_is_read() {
        assert_eq!(check("paths: [src/**, {a: [b]}]"), Ok(()));
        assert_eq!(check(&format!("a: {}{}", "[".repeat(128), "]".repeat(128))), Ok(()));
        assert_eq!(check(&"[".repeat(129)), Err(Refused::TooDeep));
        assert_eq!(check(&"[{".repeat(30_000)), Err(Refused::TooDeep));
        assert_eq!(check(&"a: [b]\n".repeat(9_000)), Ok(()));
        let long = "x".repeat(64 * 1024 + 1);
        assert!(matches!(check(&long), Err(Refused::TooLong { size: 65_537, limit: 65_536 })));
    }
}
