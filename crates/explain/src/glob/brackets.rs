//! The characters that brackets and ranges of a glob hold.

use super::{Node, SLASH, Set, unit};

/// `{a..c}`: one character of the range that the ends, sorted as texts, span.
pub(super) fn range(first: &str, last: &str) -> Option<Node> {
    let (first, last) = if first <= last { (first, last) } else { (last, first) };
    let written: Vec<char> = format!("[{first}-{last}]").chars().collect();
    let (set, length) = read_set(&written)?;
    (length == written.len() && !set.negated).then_some(Node::Set(set))
}

/// Reads brackets and returns how many characters they take.
pub(super) fn read_set(characters: &[char]) -> Option<(Set, usize)> {
    let mut set = Set::default();
    let mut at = 1;
    if characters.get(at) == Some(&'^') {
        set.negated = true;
        set.add(SLASH);
        at += 1;
    }
    let first = at;
    let mut members: Vec<char> = Vec::new();
    loop {
        match *characters.get(at)? {
            ']' if at > first => break,
            '[' if characters.get(at + 1) == Some(&':') => {
                let name: String =
                    characters[at + 2..].iter().take_while(|it| **it != ':').collect();
                let end = at + 2 + name.chars().count();
                match posix(&name) {
                    Some(ranges) if characters.get(end + 1) == Some(&']') => {
                        set.ranges.extend(ranges.iter().map(|it| (unit(it.0), unit(it.1))));
                        at = end + 2;
                        continue;
                    }
                    _ => members.push('['),
                }
            }
            '\\' => {
                at += 1;
                members.push(*characters.get(at)?);
            }
            other => members.push(other),
        }
        at += 1;
    }
    let mut rest = members.as_slice();
    while let Some((first, behind)) = rest.split_first() {
        rest = match behind {
            ['-', last, behind @ ..] if first <= last => {
                set.ranges.push((unit(*first), unit(*last)));
                behind
            }
            // Out of order: no regular expression, and so no set.
            ['-', _, ..] => return None,
            _ => {
                set.add(unit(*first));
                behind
            }
        };
    }
    Some((set, at + 1))
}

fn posix(name: &str) -> Option<&'static [(char, char)]> {
    Some(match name {
        "alnum" => &[('a', 'z'), ('A', 'Z'), ('0', '9')],
        "alpha" => &[('a', 'z'), ('A', 'Z')],
        "ascii" => &[('\0', '\x7f')],
        "blank" => &[(' ', ' '), ('\t', '\t')],
        "cntrl" => &[('\0', '\x1f'), ('\x7f', '\x7f')],
        "digit" => &[('0', '9')],
        "graph" => &[('!', '~')],
        "lower" => &[('a', 'z')],
        "print" => &[(' ', '~')],
        "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => &[(' ', ' '), ('\t', '\r')],
        "upper" => &[('A', 'Z')],
        "word" => &[('A', 'Z'), ('a', 'z'), ('0', '9'), ('_', '_')],
        "xdigit" => &[('A', 'F'), ('a', 'f'), ('0', '9')],
        _ => return None,
    })
}
