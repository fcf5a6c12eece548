//! Lines of a stream, as bytes: what is not UTF-8 is for the caller to refuse.

use std::io::{self, BufRead};

/// One line and its 1-based number.
pub(crate) struct Line {
    pub(crate) number: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Reads the lines that are not blank.
pub(crate) fn lines(mut input: impl BufRead) -> impl Iterator<Item = io::Result<Line>> {
    let mut number = 0;
    std::iter::from_fn(move || {
        loop {
            let mut bytes = Vec::new();
            match input.read_until(b'\n', &mut bytes) {
                Err(error) => return Some(Err(error)),
                Ok(0) => return None,
                Ok(_) => number += 1,
            }
            if !bytes.trim_ascii().is_empty() {
                return Some(Ok(Line { number, bytes }));
            }
        }
    })
}
