//! Matches a pattern with a text in time proportional to the product of their lengths, but for what a
//! pattern refuses ahead.

use std::collections::HashMap;

use super::{Node, SLASH, Set};

/// The most steps of one pattern; a longer one matches nothing.
const MAX_STEPS: usize = 8_000;

/// The most places that are looked at for one text; beyond, it does not match.
const MAX_WORK: usize = 50_000_000;

/// A pattern, ready to be matched.
#[derive(Debug)]
pub(super) struct Machine {
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    Unit(u16),
    Set(Set),
    NotSlash,
    Any,
    End,
    /// Goes on behind its body, unless the body matches here.
    NotAhead {
        behind: usize,
    },
    /// Tries both.
    Fork(usize, usize),
    Jump(usize),
    Fail,
    Found,
}

/// How units are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Matters,
    Folds,
}

impl Machine {
    pub(super) fn new(pattern: &Node) -> Self {
        let mut steps = Vec::new();
        compile(pattern, &mut steps);
        if steps.len() > MAX_STEPS {
            steps = vec![Step::Fail];
        }
        steps.push(Step::Found);
        Self { steps }
    }

    /// Returns whether the pattern matches from the start of a text.
    pub(super) fn matches(&self, text: &[u16], case: Case) -> bool {
        let refused = HashMap::new();
        Run { steps: &self.steps, text, case, refused, work: 0 }.finds(0, self.steps.len(), 0)
    }
}

fn compile(node: &Node, steps: &mut Vec<Step>) {
    if steps.len() > MAX_STEPS {
        return;
    }
    match node {
        Node::Unit(unit) => steps.push(Step::Unit(*unit)),
        Node::Set(set) => steps.push(Step::Set(set.clone())),
        Node::NotSlash => steps.push(Step::NotSlash),
        Node::Any => steps.push(Step::Any),
        Node::End => steps.push(Step::End),
        Node::Sequence(nodes) => nodes.iter().for_each(|node| compile(node, steps)),
        Node::NotAhead(body) => {
            let at = steps.len();
            steps.push(Step::Fail);
            compile(body, steps);
            steps.push(Step::Found);
            steps[at] = Step::NotAhead { behind: steps.len() };
        }
        Node::Choice(nodes) => choice(nodes, steps),
        Node::Optional(body) => {
            let at = steps.len();
            steps.push(Step::Fail);
            compile(body, steps);
            steps[at] = Step::Fork(at + 1, steps.len());
        }
        Node::Several(body) => {
            let at = steps.len();
            compile(body, steps);
            steps.push(Step::Fork(at, steps.len() + 1));
        }
        Node::Repeat(body) => {
            let at = steps.len();
            steps.push(Step::Fail);
            compile(body, steps);
            steps.push(Step::Jump(at));
            steps[at] = Step::Fork(at + 1, steps.len());
        }
    }
}

fn choice(nodes: &[Node], steps: &mut Vec<Step>) {
    let Some((last, others)) = nodes.split_last() else {
        return steps.push(Step::Fail);
    };
    let mut ends = Vec::new();
    for node in others {
        let at = steps.len();
        steps.push(Step::Fail);
        compile(node, steps);
        ends.push(steps.len());
        steps.push(Step::Fail);
        steps[at] = Step::Fork(at + 1, steps.len());
    }
    compile(last, steps);
    let behind = steps.len();
    for end in ends {
        steps[end] = Step::Jump(behind);
    }
}

struct Run<'a> {
    steps: &'a [Step],
    text: &'a [u16],
    case: Case,
    /// What was found where something is refused, by step and place.
    refused: HashMap<(usize, usize), bool>,
    work: usize,
}

impl Run<'_> {
    /// Returns whether some steps lead to their end from here; each is tried once at each place.
    fn finds(&mut self, first: usize, end: usize, place: usize) -> bool {
        let width = self.text.len() + 1;
        let size = (end - first) * width;
        self.work = self.work.saturating_add(size);
        if self.work > MAX_WORK {
            return false;
        }
        let mut tried = vec![false; size];
        let mut open = vec![(first, place)];
        while let Some((step, place)) = open.pop() {
            let Some(tried) = tried.get_mut((step - first) * width + place) else {
                continue;
            };
            if std::mem::replace(tried, true) {
                continue;
            }
            let here = self.text.get(place).copied();
            let passes = match &self.steps[step] {
                Step::Found => return true,
                Step::Fail => false,
                Step::Unit(unit) => here.is_some_and(|it| self.is_same(it, *unit)),
                Step::Set(set) => here.is_some_and(|it| self.is_in(it, set)),
                Step::NotSlash => here.is_some_and(|it| it != SLASH),
                Step::Any => here.is_some(),
                Step::End => {
                    if here.is_none() {
                        open.push((step + 1, place));
                    }
                    continue;
                }
                Step::NotAhead { behind } => {
                    let behind = *behind;
                    if !self.is_ahead(step, behind, place) {
                        open.push((behind, place));
                    }
                    continue;
                }
                Step::Fork(one, other) => {
                    open.extend([(*other, place), (*one, place)]);
                    continue;
                }
                Step::Jump(to) => {
                    open.push((*to, place));
                    continue;
                }
            };
            if passes {
                open.push((step + 1, place + 1));
            }
        }
        false
    }

    fn is_ahead(&mut self, step: usize, behind: usize, place: usize) -> bool {
        if let Some(found) = self.refused.get(&(step, place)) {
            return *found;
        }
        let found = self.finds(step + 1, behind, place);
        self.refused.insert((step, place), found);
        found
    }

    fn is_same(&self, left: u16, right: u16) -> bool {
        left == right || (self.case == Case::Folds && upper(left) == upper(right))
    }

    fn is_in(&self, unit: u16, set: &Set) -> bool {
        match self.case {
            Case::Matters => set.holds(unit),
            Case::Folds => [unit, upper(unit), lower(unit)].iter().any(|it| set.holds(*it)),
        }
    }
}

/// The upper case of a unit, where it is one unit and no ASCII stands for something else.
fn upper(unit: u16) -> u16 {
    let character = char::from_u32(u32::from(unit));
    let folded = character.and_then(|it| single(it.to_uppercase()));
    folded.filter(|folded| unit < 0x80 || *folded >= 0x80).unwrap_or(unit)
}

fn lower(unit: u16) -> u16 {
    let character = char::from_u32(u32::from(unit));
    let folded = character.and_then(|it| single(it.to_lowercase()));
    folded.filter(|folded| unit < 0x80 || *folded >= 0x80).unwrap_or(unit)
}

fn single(mut characters: impl Iterator<Item = char>) -> Option<u16> {
    let first = characters.next()?;
    if characters.next().is_some() {
        return None;
    }
    u16::try_from(u32::from(first)).ok()
}
