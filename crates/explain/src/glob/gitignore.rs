//! Patterns that select files the way lines of `.gitignore` do.
//!
//! Where the package that Claude Code uses departs from git, the package counts: case does not matter,
//! and brackets hold nothing but the characters between them, without negation.

use convoke_core::whitespace::is_space;

use super::machine::{Case, Machine};
use super::{Node, SLASH, Set, unit};

/// Patterns that select files together, the last that matches deciding.
#[derive(Debug)]
pub(crate) struct Selection {
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    takes_back: bool,
    machine: Machine,
}

/// A pattern of which no regular expression can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Invalid;

impl Selection {
    /// Reads patterns; those that say nothing are passed over.
    pub(crate) fn new(patterns: &[String]) -> Result<Self, Invalid> {
        let lines = patterns.iter().filter_map(|pattern| line(pattern).transpose());
        Ok(Self { lines: lines.collect::<Result<_, _>>()? })
    }

    /// Returns whether a relative path is selected, by itself or with a directory above it.
    pub(crate) fn selects(&self, relative: &str) -> bool {
        let ends = relative.match_indices('/').map(|(at, _)| at + 1);
        let mut places = ends.chain([relative.len()]);
        places.any(|end| self.selects_itself(&relative[..end]))
    }

    fn selects_itself(&self, path: &str) -> bool {
        let path: Vec<u16> = path.encode_utf16().collect();
        let mut last_first = self.lines.iter().rev();
        let decides = last_first.find(|line| line.machine.matches(&path, Case::Folds));
        decides.is_some_and(|line| !line.takes_back)
    }
}

fn line(pattern: &str) -> Result<Option<Line>, Invalid> {
    let ends_in_escape = pattern.ends_with('\\') && !pattern.ends_with("\\\\");
    if pattern.trim_matches(is_space).is_empty() || pattern.starts_with('#') || ends_in_escape {
        return Ok(None);
    }
    let (takes_back, body) = match pattern.strip_prefix('!') {
        Some(body) => (true, body),
        None => (false, pattern),
    };
    let body = match body.strip_prefix('\\') {
        Some(rest) if rest.starts_with(['!', '#']) => rest,
        _ => body,
    };
    let machine = Machine::new(&read(&without_trailing_space(body))?);
    Ok(Some(Line { takes_back, machine }))
}

/// White space at the end counts only behind a backslash, and then as one space.
fn without_trailing_space(body: &str) -> String {
    let trimmed = body.trim_end_matches(is_space);
    let backslashes = trimmed.len() - trimmed.trim_end_matches('\\').len();
    if trimmed.len() < body.len() && backslashes % 2 == 1 {
        return format!("{} ", &trimmed[..trimmed.len() - 1]);
    }
    trimmed.to_owned()
}

/// Reads a pattern into what it asks of a path, whose directories end with a slash.
fn read(body: &str) -> Result<Node, Invalid> {
    let is_anchored = body.trim_end_matches('/').contains('/') || body.starts_with('/');
    let mut rest = body.strip_prefix('/').unwrap_or(body);
    let mut nodes = Vec::new();
    if let Some(below) = rest.strip_prefix("**/") {
        rest = below;
        nodes.push(any_directories());
    } else if !is_anchored {
        nodes.push(any_directories());
    }
    // Behind a slash of the pattern's own, a last star asks for at least one character.
    let mut after_slash = false;
    while let Some(character) = rest.chars().next() {
        let is_slash = character == '/';
        rest = match character {
            '/' => slash(rest, &mut nodes),
            '*' => stars(rest, after_slash, &mut nodes),
            '?' => one(rest, Node::NotSlash, &mut nodes),
            '[' => brackets(rest, &mut nodes)?,
            '\\' => escaped(&rest[1..], after_slash, &mut nodes),
            other => one(rest, Node::literal(other.encode_utf8(&mut [0; 4])), &mut nodes),
        };
        after_slash = is_slash;
    }
    if !body.ends_with('/') {
        nodes.push(Node::Optional(Box::new(Node::Unit(SLASH))));
    }
    nodes.push(Node::End);
    Ok(Node::Sequence(nodes))
}

fn any_directories() -> Node {
    let any = Node::Repeat(Box::new(Node::Any));
    Node::Optional(Box::new(Node::Sequence(vec![any, Node::Unit(SLASH)])))
}

fn one<'a>(rest: &'a str, node: Node, nodes: &mut Vec<Node>) -> &'a str {
    nodes.push(node);
    let mut characters = rest.chars();
    characters.next();
    characters.as_str()
}

/// A slash, and the `**` behind it when it fills its piece of the path.
fn slash<'a>(rest: &'a str, nodes: &mut Vec<Node>) -> &'a str {
    let below = match rest.strip_prefix("/**") {
        Some(below) if below.is_empty() || below.starts_with('/') => below,
        _ => return one(rest, Node::Unit(SLASH), nodes),
    };
    let below_slash =
        |node: Node| Node::Sequence(vec![Node::Unit(SLASH), Node::Several(Box::new(node))]);
    nodes.push(if below.is_empty() {
        below_slash(Node::Any)
    } else {
        Node::Repeat(Box::new(below_slash(Node::NotSlash)))
    });
    below
}

/// Stars side by side are one.
fn stars<'a>(rest: &'a str, after_slash: bool, nodes: &mut Vec<Node>) -> &'a str {
    let behind = rest.trim_start_matches('*');
    let is_several = rest == "*" && after_slash;
    nodes.push(if is_several { Node::Several(Box::new(Node::NotSlash)) } else { Node::star() });
    behind
}

/// What means something else behind the backslash of a regular expression.
const MEANS_MORE: &str = "/?bcdfknrstuvwxBDSW0123456789";

/// The character behind a backslash.
fn escaped<'a>(rest: &'a str, after_slash: bool, nodes: &mut Vec<Node>) -> &'a str {
    match rest.chars().next() {
        // The last star of a pattern is always one.
        Some('*') if rest == "*" => stars(rest, after_slash, nodes),
        // A letter means what it means in a regular expression, which no file name follows.
        Some(letter) if MEANS_MORE.contains(letter) => one(rest, Node::never(), nodes),
        Some(other) => one(rest, Node::literal(other.encode_utf8(&mut [0; 4])), nodes),
        None => rest,
    }
}

/// Brackets and what they hold; those that never close match nothing.
fn brackets<'a>(rest: &'a str, nodes: &mut Vec<Node>) -> Result<&'a str, Invalid> {
    let Some((inside, behind)) = rest[1..].split_once(']') else {
        // What stars, question marks and brackets become has a bracket that closes these.
        if rest[1..].contains('/') && !rest[1..].contains(['*', '?', '[']) {
            return Err(Invalid);
        }
        nodes.push(Node::never());
        return Ok("");
    };
    if inside.contains(['*', '?']) || inside.ends_with('\\') {
        nodes.push(Node::never());
    } else {
        nodes.push(Node::Set(set(inside)?));
    }
    Ok(behind)
}

fn set(inside: &str) -> Result<Set, Invalid> {
    let mut members = Vec::new();
    let mut units = inside.encode_utf16();
    while let Some(next) = units.next() {
        let is_escaped = next == unit('\\');
        let member = if is_escaped { units.next().unwrap_or(next) } else { next };
        members.push((member, !is_escaped && member == unit('-')));
    }
    let mut set = Set::default();
    let mut rest = members.as_slice();
    while let Some(((first, _), behind)) = rest.split_first() {
        rest = match behind {
            [(_, true), (last, _), behind @ ..] if first <= last => {
                set.ranges.push((*first, *last));
                behind
            }
            // What is out of order is passed over among letters and digits only.
            [(_, true), (last, _), behind @ ..] => {
                let is_plain = |it: &u16| (unit('0')..=unit('z')).contains(it);
                if !is_plain(first) || !is_plain(last) {
                    return Err(Invalid);
                }
                behind
            }
            _ => {
                set.add(*first);
                behind
            }
        };
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(patterns: &[&str], path: &str) -> bool {
        let patterns: Vec<_> = patterns.iter().map(|it| (*it).to_owned()).collect();
        Selection::new(&patterns).unwrap().selects(path)
    }

    #[test]
    fn a_pattern_selects_like_a_line_of_gitignore() {
        let cases = [
            ("src", "src/a/b.rs", true),
            ("src", "lib/src/x", true),
            ("/src", "lib/src/x", false),
            ("/src", "src/x", true),
            ("src/*.ts", "src/a.ts", true),
            ("src/*.ts", "src/b/a.ts", false),
            ("src/**/*.ts", "src/a.ts", true),
            ("src/**/*.ts", "src/b/c/a.ts", true),
            ("**/src", "a/src/b", true),
            ("**/*", "a", true),
            ("*", ".hidden", true),
            ("docs/", "docs/a.md", true),
            ("docs/", "docs", false),
            ("src/**/", "src/a", true),
            ("a.md", "b.md", false),
            ("?.md", "b.md", true),
            ("??.md", "b.md", false),
            ("s**c/x", "src/x", true),
            ("src/***/x", "src/x", false),
            ("./src", "src/x", false),
            ("", "a", false),
            ("# src", "src", false),
            ("\\#a", "#a", true),
            ("\\!a", "!a", true),
            ("a\\ b", "a b", true),
            ("\\*.md", "b.md", false),
            ("b\\.md", "b.md", true),
            ("src\\dir", "src/dir", false),
            ("@(a|b)", "a", false),
            ("a\\", "a", false),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(selects(&[pattern], path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn brackets_hold_characters_and_negate_nothing() {
        let cases = [
            ("[a-c].md", "b.md", true),
            ("[!a].md", "b.md", false),
            ("[!a].md", "!.md", true),
            ("[[:alpha:]].md", "b.md", false),
            ("x.[jt]s", "x.ts", true),
            ("b.m[d", "b.md", false),
            ("[].md", "b.md", false),
            ("[z-a]b.md", "b.md", false),
            ("[-a].md", "-.md", true),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(selects(&[pattern], path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn case_does_not_matter() {
        assert!(selects(&["SRC/**"], "src/a"));
        assert!(selects(&["É.md"], "é.MD"));
        assert!(selects(&["[A-Z]"], "q"));
    }

    #[test]
    fn the_last_pattern_decides_but_for_what_lies_in_a_selected_directory() {
        assert!(!selects(&["*.md", "!b.md"], "b.md"));
        assert!(selects(&["!b.md", "*.md"], "b.md"));
        assert!(selects(&["src", "!src/x.ts"], "src/x.ts"));
        assert!(!selects(&["src/*", "!src/x.ts"], "src/x.ts"));
    }

    #[test]
    fn what_makes_no_regular_expression_is_invalid() {
        for pattern in ["[z-!]", "[a/b"] {
            let failed = Selection::new(&[pattern.to_owned()]).map(|_| ());
            assert_eq!(failed, Err(Invalid), "{pattern}");
        }
    }
}
