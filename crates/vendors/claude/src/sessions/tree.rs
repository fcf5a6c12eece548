//! Conversations as records that name the record before them. This is how the window of a request is found where the
//! program did not log its requests.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::messages::LinePlace;

/// The maximum number of records that are known. When there are more, the older half is forgotten.
const MAX_NODES: usize = 50_000;

/// The records of a session.
#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    by_uuid: HashMap<u64, usize>,
    /// The records of each answer in a file: one for each of its blocks.
    by_answer: HashMap<(u32, u64), Vec<usize>>,
    /// The record with the result of each call in a file.
    by_call: HashMap<(u32, u64), usize>,
    pub has_forgotten: bool,
}

/// A record of the tree.
#[derive(Debug)]
pub(super) struct Node {
    pub uuid: u64,
    pub parent: Option<u64>,
    /// The answer that it is a part of.
    pub answer: Option<u64>,
    /// The calls of tools in it.
    pub calls: Box<[u64]>,
    /// The calls whose results are in it.
    pub results: Box<[u64]>,
    pub place: LinePlace,
    /// The sub-agent that it is of.
    pub agent: Option<Arc<str>>,
}

impl Tree {
    /// Adds a record. One that is there already is not replaced.
    pub fn add(&mut self, node: Node) {
        if self.nodes.len() >= MAX_NODES {
            self.has_forgotten = true;
            let kept = self.nodes.split_off(MAX_NODES / 2);
            *self = Self { has_forgotten: true, ..Self::default() };
            for node in kept {
                self.add(node);
            }
        }
        let number = self.nodes.len();
        if *self.by_uuid.entry(node.uuid).or_insert(number) != number {
            return;
        }
        let file = node.place.file;
        if let Some(answer) = node.answer {
            self.by_answer.entry((file, answer)).or_default().push(number);
        }
        for &call in &node.results {
            self.by_call.entry((file, call)).or_insert(number);
        }
        self.nodes.push(node);
    }

    /// Returns the sub-agent of a record.
    pub fn agent(&self, uuid: u64) -> Option<Arc<str>> {
        self.nodes[*self.by_uuid.get(&uuid)?].agent.clone()
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the conversation that ends with a record, in order, from the records that were there when the tree had
    /// this length. The blocks of an answer and the results of its calls can be on other branches.
    pub fn conversation(&self, last: Option<u64>, length: usize) -> Vec<LinePlace> {
        let mut chain = Vec::new();
        let mut on_chain = HashSet::new();
        let mut next = last;
        while let Some(&number) = next.and_then(|uuid| self.by_uuid.get(&uuid)) {
            // The parents of a broken file can form a ring.
            if !on_chain.insert(number) {
                break;
            }
            chain.push(number);
            next = self.nodes[number].parent;
        }
        let mut taken = HashSet::new();
        let mut places = Vec::new();
        let mut take = |number: usize| {
            if number < length && taken.insert(number) {
                places.push(self.nodes[number].place);
            }
        };
        for number in chain.into_iter().rev() {
            let Some(answer) = self.nodes[number].answer else {
                take(number);
                continue;
            };
            let file = self.nodes[number].place.file;
            let blocks = self.by_answer.get(&(file, answer)).map_or(&[][..], Vec::as_slice);
            for &block in blocks {
                take(block);
            }
            let calls = blocks.iter().flat_map(|&block| &self.nodes[block].calls);
            calls
                .filter_map(|call| self.by_call.get(&(file, *call)))
                .for_each(|&result| take(result));
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(uuid: u64, parent: u64) -> Node {
        let place = LinePlace { file: 0, line: uuid, offset: 0 };
        let parent = (parent > 0).then_some(parent);
        Node {
            uuid,
            parent,
            answer: None,
            calls: [].into(),
            results: [].into(),
            place,
            agent: None,
        }
    }

    fn lines(tree: &Tree, last: u64) -> Vec<u64> {
        tree.conversation(Some(last), tree.len()).iter().map(|place| place.line).collect()
    }

    #[test]
    fn results_of_parallel_calls_are_found_on_other_branches() {
        let mut tree = Tree::default();
        tree.add(node(1, 0));
        tree.add(Node { answer: Some(9), calls: [71].into(), ..node(2, 1) });
        tree.add(Node { answer: Some(9), calls: [72].into(), ..node(3, 2) });
        tree.add(Node { results: [72].into(), ..node(4, 3) });
        tree.add(Node { results: [71].into(), ..node(5, 2) });
        assert_eq!(lines(&tree, 4), [1, 2, 3, 5, 4]);
        assert_eq!(lines(&tree, 5), [1, 2, 3, 5, 4]);
    }

    #[test]
    fn a_ring_of_parents_ends() {
        let mut tree = Tree::default();
        tree.add(node(1, 2));
        tree.add(node(2, 1));
        assert_eq!(lines(&tree, 2), [1, 2]);
        tree.add(node(3, 3));
        assert_eq!(lines(&tree, 3), [3]);
    }

    #[test]
    fn the_older_half_of_too_many_records_is_forgotten() {
        let mut tree = Tree::default();
        (1..=MAX_NODES as u64 + 1).for_each(|uuid| tree.add(node(uuid, uuid - 1)));
        assert!(tree.has_forgotten);
        assert_eq!(tree.len(), MAX_NODES / 2 + 1);
    }
}
