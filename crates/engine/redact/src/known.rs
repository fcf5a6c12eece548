//! Finds all spellings of all known values in one pass.

use std::collections::{BTreeMap, HashMap};

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, MatchKind};

/// Where a spelling of a known value counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// At any position.
    Anywhere,
    /// Only as a separate word.
    Word,
}

/// Finds spellings of known values.
#[derive(Debug)]
pub(crate) struct Known {
    automaton: NFA,
    start: StateID,
    places: Vec<Place>,
    /// For each state, the length of the longest suffix read so far that is an incomplete spelling.
    open: HashMap<StateID, usize>,
    longest: usize,
}

/// A spelling that was found: its length, and where it counts.
pub(crate) type Found = (usize, Place);

impl Known {
    /// Creates an automaton for these spellings; `None` if there are none.
    pub fn new(spellings: &BTreeMap<Vec<u8>, Place>) -> Option<Self> {
        if spellings.is_empty() {
            return None;
        }
        // Fails only for more than two billion states, which no environment reaches.
        let automaton =
            NFA::builder().match_kind(MatchKind::Standard).build(spellings.keys()).ok()?;
        let start = automaton.start_state(Anchored::No).ok()?;
        let run = |text: &[u8]| {
            let step = |state, byte: &u8| automaton.next_state(Anchored::No, state, *byte);
            text.iter().fold(start, step)
        };
        let mut open = HashMap::new();
        for spelling in spellings.keys() {
            let mut state = start;
            for (before, byte) in spelling.iter().enumerate().take(spelling.len() - 1) {
                state = automaton.next_state(Anchored::No, state, *byte);
                open.insert(state, before + 1);
            }
        }
        // A spelling that begins no other may end with the beginning of one.
        let mut by_length: Vec<&Vec<u8>> = spellings.keys().collect();
        by_length.sort_by_key(|spelling| spelling.len());
        for spelling in by_length {
            let shorter = open.get(&run(&spelling[1..])).copied().unwrap_or(0);
            open.entry(run(spelling)).or_insert(shorter);
        }
        let longest = spellings.keys().map(Vec::len).max().unwrap_or(0);
        let places = spellings.values().copied().collect();
        Some(Self { automaton, start, places, open, longest })
    }

    /// Returns the length of the longest spelling.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Returns whether a spelling begins with a byte.
    pub fn begins_with(&self, byte: u8) -> bool {
        self.step(self.start, byte) != self.start
    }

    /// Returns the state before the first byte.
    pub fn start(&self) -> StateID {
        self.start
    }

    /// Returns the state after another byte.
    pub fn step(&self, state: StateID, byte: u8) -> StateID {
        self.automaton.next_state(Anchored::No, state, byte)
    }

    /// Returns the spellings that end with the last byte.
    pub fn found(&self, state: StateID) -> impl Iterator<Item = Found> {
        let count =
            if self.automaton.is_match(state) { self.automaton.match_len(state) } else { 0 };
        (0..count).map(move |index| {
            let pattern = self.automaton.match_pattern(state, index);
            (self.automaton.pattern_len(pattern), self.places[pattern.as_usize()])
        })
    }

    /// Returns how many of the last bytes may be the start of a spelling.
    pub fn open_bytes(&self, state: StateID) -> usize {
        self.open.get(&state).copied().unwrap_or(0)
    }
}
