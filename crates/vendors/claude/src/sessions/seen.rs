//! Things that were seen before, in bounded memory.

use std::collections::HashSet;
use std::mem;

/// Names of things that were seen. When there are too many, the older half is forgotten.
#[derive(Debug)]
pub(super) struct Seen {
    new: HashSet<u64>,
    old: HashSet<u64>,
    max: usize,
}

impl Seen {
    /// Creates a memory for this number of names.
    pub fn new(max: usize) -> Self {
        Self { new: HashSet::new(), old: HashSet::new(), max }
    }

    /// Notes a name, and returns whether it was not seen before.
    pub fn is_new(&mut self, name: u64) -> bool {
        if self.old.contains(&name) || !self.new.insert(name) {
            return false;
        }
        if self.new.len() > self.max / 2 {
            self.old = mem::take(&mut self.new);
        }
        true
    }
}
