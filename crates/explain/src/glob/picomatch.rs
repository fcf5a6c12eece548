//! Globs of whole paths: `*`, `**`, `?`, brackets, braces, and the `@(…)` family.
//!
//! These are the patterns of the package picomatch with dots being nothing special, which is how
//! Claude Code compares `claudeMdExcludes` with absolute paths.

use super::brackets::{range, read_set};
use super::machine::{Case, Machine};
use super::{Node, SLASH, unit};

/// The deepest nesting of groups that is read.
const MAX_DEPTH: usize = 50;

/// A glob, ready to be matched.
#[derive(Debug)]
pub(crate) struct Glob {
    pattern: String,
    negated: bool,
    machine: Machine,
}

impl Glob {
    /// Reads a glob; one that makes no sense matches itself only.
    pub(crate) fn new(pattern: &str) -> Self {
        let mut rest: Vec<char> = pattern.chars().collect();
        if rest.starts_with(&['.', '/']) {
            rest.drain(..2);
        }
        let mut marks = 0;
        while rest.get(marks) == Some(&'!')
            && (rest.get(marks + 1) != Some(&'(') || rest.get(marks + 2) == Some(&'?'))
        {
            marks += 1;
        }
        rest.drain(..marks);
        if marks > 0 && rest.starts_with(&['.', '/']) {
            rest.drain(..2);
        }
        let mut reader = Reader { characters: &rest, at: 0, depth: 0, is_broken: false };
        let body = reader.alternatives(Group::Top);
        let is_broken = reader.is_broken || rest.is_empty();
        let node = if is_broken { Node::never() } else { Node::Sequence(vec![body, Node::End]) };
        let negated = marks % 2 == 1 && !is_broken;
        Self { pattern: pattern.to_owned(), negated, machine: Machine::new(&node) }
    }

    /// Returns whether the glob matches a whole path.
    pub(crate) fn matches(&self, path: &str) -> bool {
        if path == self.pattern {
            return true;
        }
        let path: Vec<u16> = path.encode_utf16().collect();
        self.machine.matches(&path, Case::Matters) != self.negated
    }
}

/// What a group of alternatives stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Top,
    Parentheses,
    Braces,
}

impl Group {
    fn separator(self) -> char {
        if self == Group::Braces { ',' } else { '|' }
    }
}

/// What stands directly before a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// The pattern's start.
    Start,
    /// The slash that begins the pattern.
    FirstSlash,
    /// A slash, and a star before it.
    SlashAfterStar,
    /// Any other slash.
    Slash,
    /// The beginning of an alternative.
    Opening,
    /// A dot that begins a name.
    Dot,
    Star,
    /// A group or brackets.
    Group,
    Text,
}

struct Reader<'a> {
    characters: &'a [char],
    at: usize,
    depth: usize,
    /// Braces that never close leave nothing that could be matched.
    is_broken: bool,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.at + ahead).copied()
    }

    /// Reads alternatives up to the end of their group, which is taken.
    fn alternatives(&mut self, group: Group) -> Node {
        let mut choices = Vec::new();
        let mut first = if group == Group::Top { Before::Start } else { Before::Opening };
        loop {
            choices.push(self.sequence(group, first));
            first = Before::Opening;
            match self.peek(0) {
                Some(next) if next == group.separator() => self.at += 1,
                Some(_) => {
                    self.at += 1;
                    break;
                }
                None => break,
            }
        }
        match choices.len() {
            1 => choices.remove(0),
            _ => Node::Choice(choices),
        }
    }

    /// Reads up to a separator or the end of the group.
    fn sequence(&mut self, group: Group, first: Before) -> Node {
        let mut nodes: Vec<Node> = Vec::new();
        let mut before = first;
        while let Some(character) = self.peek(0) {
            let ends = match group {
                Group::Top => character == '|',
                Group::Parentheses => matches!(character, '|' | ')'),
                Group::Braces => matches!(character, ',' | '}'),
            };
            if ends {
                break;
            }
            before = self.one(character, group, before, &mut nodes);
        }
        Node::Sequence(nodes)
    }

    fn one(
        &mut self,
        character: char,
        group: Group,
        before: Before,
        nodes: &mut Vec<Node>,
    ) -> Before {
        let opens_group = self.peek(1) == Some('(') && self.peek(2) != Some('?');
        match character {
            '?' | '*' | '+' | '@' | '!' if opens_group && self.closes(1, '(', ')') => {
                self.extended(character, nodes)
            }
            '*' => self.stars(before, nodes),
            '(' if self.closes(0, '(', ')') => {
                self.at += 1;
                nodes.push(self.nested(Group::Parentheses));
                Before::Group
            }
            '{' if self.closes(0, '{', '}') => self.braces(nodes),
            '{' => {
                self.is_broken = true;
                self.literal(nodes)
            }
            '[' => self.brackets(nodes),
            '?' if before == Before::Opening && group == Group::Parentheses => self.literal(nodes),
            '?' => self.push(Node::NotSlash, Before::Text, nodes),
            '+' if before == Before::Group => {
                if let Some(last) = nodes.pop() {
                    nodes.push(Node::Several(Box::new(last)));
                }
                self.at += 1;
                Before::Group
            }
            '/' => {
                let slash = match before {
                    Before::Start => Before::FirstSlash,
                    Before::Star => Before::SlashAfterStar,
                    _ => Before::Slash,
                };
                self.push(Node::Unit(SLASH), slash, nodes)
            }
            '.' => {
                let begins = matches!(
                    before,
                    Before::Start | Before::FirstSlash | Before::SlashAfterStar | Before::Slash
                );
                let is_dot = begins || group != Group::Top;
                let after = if is_dot { Before::Dot } else { Before::Text };
                self.push(Node::Unit(unit('.')), after, nodes)
            }
            '\\' if self.peek(1).is_some() => {
                self.at += 1;
                self.literal(nodes)
            }
            '"' => self.quoted(nodes),
            _ => self.literal(nodes),
        }
    }

    fn push(&mut self, node: Node, after: Before, nodes: &mut Vec<Node>) -> Before {
        self.at += 1;
        nodes.push(node);
        after
    }

    fn literal(&mut self, nodes: &mut Vec<Node>) -> Before {
        if let Some(character) = self.peek(0) {
            nodes.push(Node::literal(character.encode_utf8(&mut [0; 4])));
        }
        self.at += 1;
        Before::Text
    }

    /// What stands between quotation marks stands for itself.
    fn quoted(&mut self, nodes: &mut Vec<Node>) -> Before {
        self.at += 1;
        while let Some(character) = self.peek(0) {
            if character == '"' {
                self.at += 1;
                break;
            }
            self.literal(nodes);
        }
        Before::Text
    }

    fn nested(&mut self, group: Group) -> Node {
        self.depth += 1;
        let node = if self.depth > MAX_DEPTH {
            self.at = self.characters.len();
            self.is_broken = true;
            Node::never()
        } else {
            self.alternatives(group)
        };
        self.depth -= 1;
        node
    }

    /// Returns whether the group that opens so many characters ahead is closed.
    fn closes(&self, ahead: usize, open: char, close: char) -> bool {
        let mut depth = 0_usize;
        let mut characters = self.characters[self.at + ahead..].iter();
        while let Some(character) = characters.next() {
            if *character == '\\' {
                characters.next();
            } else if *character == open {
                depth += 1;
            } else if *character == close {
                depth -= 1;
                if depth == 0 {
                    return true;
                }
            }
        }
        false
    }

    fn stars(&mut self, before: Before, nodes: &mut Vec<Node>) -> Before {
        let run = self.characters[self.at..].iter().take_while(|it| **it == '*').count();
        let behind = self.characters.get(self.at + run);
        let opens_group =
            behind == Some(&'(') && self.characters.get(self.at + run + 1) != Some(&'?');
        // The last star before a parenthesis belongs to it.
        let run = if opens_group && self.closes(run, '(', ')') { run - 1 } else { run };
        self.at += run;
        let slashes = [Before::FirstSlash, Before::SlashAfterStar, Before::Slash];
        let is_start = before == Before::Start || slashes.contains(&before);
        let fills_piece = matches!(self.peek(0), None | Some('/' | ',' | '|' | ')' | '}'));
        if run == 2 && fills_piece && (is_start || before == Before::Opening) {
            return self.globstar(before, nodes);
        }
        if run == 1 && (is_start || before == Before::Dot) {
            nodes.push(Node::NotAhead(Box::new(Node::End)));
        }
        if before != Before::Star {
            nodes.push(Node::star());
        }
        Before::Star
    }

    /// Two stars that fill their piece of the path.
    fn globstar(&mut self, before: Before, nodes: &mut Vec<Node>) -> Before {
        while self.characters[self.at..].starts_with(&['/', '*', '*'])
            && matches!(self.peek(3), None | Some('/'))
        {
            self.at += 3;
        }
        let slash = || Node::Unit(SLASH);
        let any = || Node::Repeat(Box::new(Node::Any));
        let is_last = self.peek(0).is_none();
        let is_followed = self.peek(0) == Some('/');
        let is_inner = matches!(before, Before::Slash | Before::SlashAfterStar);
        if before == Before::Slash && is_last {
            nodes.pop();
            let below = Node::Sequence(vec![slash(), any()]);
            nodes.push(Node::Choice(vec![below, Node::End]));
        } else if is_inner && is_followed {
            nodes.pop();
            let below = Node::Sequence(vec![slash(), any(), slash()]);
            nodes.push(Node::Choice(vec![below, slash()]));
            self.at += 1;
            return Before::SlashAfterStar;
        } else if before == Before::Start && is_followed {
            let below = Node::Sequence(vec![any(), slash()]);
            nodes.push(Node::Optional(Box::new(below)));
            self.at += 1;
            return Before::SlashAfterStar;
        } else {
            nodes.push(any());
        }
        Before::Star
    }

    /// A parenthesis behind one of `?*+@!`.
    fn extended(&mut self, mark: char, nodes: &mut Vec<Node>) -> Before {
        self.at += 2;
        let start = self.at;
        let body = self.nested(Group::Parentheses);
        let inner = &self.characters[start..self.at.saturating_sub(1).max(start)];
        match mark {
            '?' => nodes.push(Node::Optional(Box::new(body))),
            '*' => nodes.push(Node::Repeat(Box::new(body))),
            '+' => nodes.push(Node::Several(Box::new(body))),
            '!' => nodes.extend(self.anything_but(body, inner)),
            _ => nodes.push(body),
        }
        Before::Group
    }

    /// `!(…)`: what stands at the end is compared whole, else a beginning suffices.
    fn anything_but(&self, body: Node, inner: &[char]) -> [Node; 2] {
        let rest = &self.characters[self.at..];
        let crosses = inner.len() > 1 && inner.contains(&'/');
        let star = if crosses { Node::Repeat(Box::new(Node::Any)) } else { Node::star() };
        let mut refused = vec![body];
        let is_extension = rest.len() > 1
            && rest[0] == '.'
            && !rest[1..].iter().any(|it| matches!(it, '.' | '/' | '\\'));
        if inner.contains(&'*') && is_extension {
            let mut reader =
                Reader { characters: rest, at: 0, depth: self.depth + 1, is_broken: false };
            refused.push(reader.alternatives(Group::Top));
        } else if crosses || rest.iter().all(|it| *it == ')') {
            refused.push(Node::End);
        }
        [Node::NotAhead(Box::new(Node::Sequence(refused))), star]
    }

    fn braces(&mut self, nodes: &mut Vec<Node>) -> Before {
        let inside = self.top_level_of_braces();
        if inside.contains(&',') {
            self.at += 1;
            nodes.push(self.nested(Group::Braces));
            return Before::Group;
        }
        let text: String = inside.iter().collect();
        match text.split_once("..") {
            Some((first, last)) => {
                self.at += inside.len() + 2;
                nodes.push(range(first, last).unwrap_or_else(|| Node::literal(&text)));
                Before::Group
            }
            None => self.literal(nodes),
        }
    }

    /// The characters between the braces that open here, without those of inner groups.
    fn top_level_of_braces(&self) -> Vec<char> {
        let mut depth = 0_usize;
        let mut inside = Vec::new();
        let mut characters = self.characters[self.at..].iter();
        while let Some(character) = characters.next() {
            match character {
                '\\' => {
                    characters.next();
                }
                '{' | '(' => depth += 1,
                '}' | ')' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        break;
                    }
                }
                other if depth == 1 => inside.push(*other),
                _ => {}
            }
        }
        inside
    }

    /// Brackets that close hold characters; without special ones they also stand for themselves.
    fn brackets(&mut self, nodes: &mut Vec<Node>) -> Before {
        let Some((set, length)) = read_set(&self.characters[self.at..]) else {
            return self.literal(nodes);
        };
        let written: String = self.characters[self.at..self.at + length].iter().collect();
        let inside = &written[1..written.len() - 1];
        let is_plain = !inside.contains(['-', '*', '+', '?', '.', '^', '$', '{', '}', '(', '|'])
            && !inside.contains([')', '[', ']']);
        self.at += length;
        nodes.push(if is_plain {
            Node::Choice(vec![Node::literal(&written), Node::Set(set)])
        } else {
            Node::Set(set)
        });
        Before::Group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_is_compared_with_the_whole_path() {
        let cases = [
            ("**/CLAUDE.md", "/lab/repo/CLAUDE.md", true),
            ("**/CLAUDE.md", "/CLAUDE.md", true),
            ("CLAUDE.md", "/lab/CLAUDE.md", false),
            ("./CLAUDE.md", "/lab/CLAUDE.md", false),
            ("/lab/ws/CLAUDE.md", "/lab/ws/CLAUDE.md", true),
            ("/lab/*/CLAUDE.md", "/lab/ws/CLAUDE.md", true),
            ("/lab/*/CLAUDE.md", "/lab/a/b/CLAUDE.md", false),
            ("**/rules/**", "/lab/.claude/rules/a/b.md", true),
            ("**/.claude/**", "/lab/.claude/CLAUDE.md", true),
            ("/lab/**", "/lab/x/y", true),
            ("/lab/**", "/lab", true),
            ("/lab/a*c*e", "/lab/abcde", true),
            ("/lab/a*c*f", "/lab/abcde", false),
            ("/lab/*b.md", "/lab/b.md", true),
            ("/lab/**b.md", "/lab/a/b.md", false),
            ("/lab/a**e", "/lab/ab/de", false),
            ("/lab/[x", "/lab/[x", true),
            ("/LAB/**", "/lab/x", false),
            ("", "/lab", false),
            ("/lab/{a*", "/lab/{ab", false),
            ("!**/CLAUDE.md", "/lab/x.md", true),
            ("!!**/CLAUDE.md", "/lab/x.md", false),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(Glob::new(pattern).matches(path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn groups_brackets_and_ranges_are_understood() {
        let cases = [
            ("/{lab,home}/CLAUDE.md", "/home/CLAUDE.md", true),
            ("/{a,b{c,d}}/x", "/bd/x", true),
            ("**/*.{md,txt}", "/lab/a.txt", true),
            ("/lab/{1..3}.md", "/lab/2.md", true),
            ("/lab/{1..3}.md", "/lab/4.md", false),
            ("/lab/{a}.md", "/lab/{a}.md", true),
            ("/lab/[a-c]?.md", "/lab/bz.md", true),
            ("/lab/[^a-c]?.md", "/lab/bz.md", false),
            ("/lab/[!a].md", "/lab/b.md", false),
            ("/lab/[[:alpha:]].md", "/lab/b.md", true),
            ("/lab/[[:digit:]].md", "/lab/b.md", false),
            ("/lab/[ab].md", "/lab/[ab].md", true),
            ("/lab/@(a|b).md", "/lab/b.md", true),
            ("/lab/?(a)b.md", "/lab/b.md", true),
            ("/lab/+(a)b.md", "/lab/b.md", false),
            ("/lab/+(a)b.md", "/lab/aab.md", true),
            ("/lab/*(a|b)c", "/lab/abac", true),
            ("/lab/!(a).md", "/lab/b.md", true),
            ("/lab/!(a)", "/lab/a", false),
            ("/lab/!(a)", "/lab/ab", true),
            ("/lab/!(*.md)", "/lab/a.md", false),
        ];
        for (pattern, path, expected) in cases {
            assert_eq!(Glob::new(pattern).matches(path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn hostile_globs_end_quickly() {
        let matches = |pattern: &str, path: &str| Glob::new(pattern).matches(path);
        assert!(!matches(&"*a".repeat(2_000), &format!("{}b", "a".repeat(4_000))));
        assert!(!matches(&format!("{}b", "**/".repeat(500)), &"a/".repeat(500)));
        assert!(!matches(&"{a,b}".repeat(2_000), "/x"));
        assert!(!matches(&"{".repeat(10_000), "/x"));
        assert!(!matches(&"!(".repeat(5_000), "/x"));
        for mark in ["+(", "!(", "*(", "{a,"] {
            let end = if mark == "{a," { "}" } else { ")" };
            let nested = format!("/{}x{}", mark.repeat(49), end.repeat(49));
            Glob::new(&nested).matches(&"/x".repeat(500));
        }
    }
}
