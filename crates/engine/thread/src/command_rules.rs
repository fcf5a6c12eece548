//! The user's command rules (`rules/*.rules`), which approve command prefixes.
//!
//! The files are in a language with calls, lists and strings. Only `prefix_rule` calls with literal arguments
//! are supported, which is what Codex itself writes.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;

use convoke_core::diagnostic::Diagnostic;

use crate::diagnostics::{self, not_listed};
use convoke_files::{FileKind, Files};

/// A command prefix, word by word; a choice of words is written `[a|b]`.
pub type Prefix = Vec<String>;

/// Reads the approved prefixes of a folder of rules, sorted and without duplicates.
///
/// A file that cannot be parsed contributes nothing and is reported.
pub fn approved_prefixes(
    files: &dyn Files,
    folder: &Path,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Prefix> {
    let mut prefixes = Vec::new();
    let names = files.names(folder).unwrap_or_else(|error| {
        if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) {
            diagnostics.push(not_listed("command rules", folder, &error));
        }
        Vec::new()
    });
    for name in names {
        if Path::new(&name).extension() != Some(OsStr::new("rules")) {
            continue;
        }
        let path = folder.join(name);
        let text =
            files.read_text(&path, FileKind::CommandRules).map_err(|error| error.to_string());
        match text.and_then(|text| approved(&text)) {
            Ok(approved) => prefixes.extend(approved),
            Err(reason) => {
                let message = format!("{} is ignored: {reason}", path.display());
                let ignored = Diagnostic::new(diagnostics::RULES_INVALID, message);
                diagnostics.push(ignored.at_path(path.display().to_string()));
            }
        }
    }
    prefixes.sort();
    prefixes.dedup();
    prefixes
}

/// The maximum size of the expanded prefixes of one file, because alternatives multiply.
const MAX_BYTES: usize = 4 << 20;

/// Returns the prefixes that a file allows.
fn approved(text: &str) -> Result<Vec<Prefix>, String> {
    let rules = parse(text)?;
    let bytes: usize = rules.iter().map(PrefixRule::approved_bytes).sum();
    if bytes > MAX_BYTES {
        return Err(format!("the choices expand to {bytes} bytes; the limit is {MAX_BYTES} bytes"));
    }
    Ok(rules.into_iter().flat_map(PrefixRule::approved).collect())
}

/// One `prefix_rule` call.
struct PrefixRule {
    pattern: Vec<Vec<String>>,
    decision: Option<String>,
}

impl PrefixRule {
    /// Returns the size of the result of [`Self::approved`], including a few bytes per word.
    fn approved_bytes(&self) -> usize {
        let bytes = |words: &Vec<String>| -> usize { words.iter().map(|it| it.len() + 32).sum() };
        let choices = self.pattern.first().map_or(0, Vec::len);
        let rest: usize = self.pattern.iter().skip(1).map(bytes).sum();
        choices.saturating_mul(rest).saturating_add(self.pattern.first().map_or(0, bytes))
    }

    /// Returns the prefixes that the rule allows: one for each choice of its first word.
    fn approved(self) -> Vec<Prefix> {
        let allows = self.decision.is_none_or(|decision| decision == "allow");
        let mut words = self.pattern.into_iter();
        let Some(first) = words.next().filter(|_| allows) else {
            return Vec::new();
        };
        let rest: Vec<String> = words
            .map(|mut choice| match choice.len() {
                1 => choice.swap_remove(0),
                _ => format!("[{}]", choice.join("|")),
            })
            .collect();
        let prefix = |word: String| std::iter::once(word).chain(rest.iter().cloned()).collect();
        first.into_iter().map(prefix).collect()
    }
}

fn parse(text: &str) -> Result<Vec<PrefixRule>, String> {
    let mut scan = Scan { rest: text, text };
    let mut rules = Vec::new();
    loop {
        scan.skip_blank();
        if scan.rest.is_empty() {
            return Ok(rules);
        }
        match scan.word() {
            "prefix_rule" => rules.push(scan.prefix_rule()?),
            other => {
                let other = other.to_owned();
                return Err(scan.wrong(&format!("expected `prefix_rule`, found `{other}`")));
            }
        }
        scan.skip_blank();
        scan.take(';');
    }
}

/// The maximum nesting of lists, which bounds the stack.
const MAX_DEPTH: usize = 8;

enum Literal {
    Text(String),
    List(Vec<Literal>),
}

/// The rest of a file.
struct Scan<'a> {
    rest: &'a str,
    text: &'a str,
}

/// The decisions of a rule.
const DECISIONS: [&str; 3] = ["allow", "prompt", "forbidden"];

impl<'a> Scan<'a> {
    fn prefix_rule(&mut self) -> Result<PrefixRule, String> {
        self.expect('(')?;
        let mut pattern = None;
        let mut decision = None;
        let mut position = 0;
        loop {
            self.skip_blank();
            if self.take(')') {
                break;
            }
            let keyword = self.keyword();
            let positional = ["pattern", "decision"].get(position).copied().unwrap_or("");
            let value = self.literal(MAX_DEPTH)?;
            match (keyword.unwrap_or(positional), value) {
                ("pattern", Literal::List(words)) => pattern = Some(self.choices(words)?),
                ("decision", Literal::Text(text)) => {
                    if !DECISIONS.contains(&&*text) {
                        let known = DECISIONS.join(", ");
                        return Err(self.wrong(&format!("unknown decision `{text}`; use {known}")));
                    }
                    decision = Some(text);
                }
                ("match" | "not_match" | "justification", _) => {}
                (other, _) => {
                    let other = other.to_owned();
                    return Err(self.wrong(&format!("invalid argument `{other}`")));
                }
            }
            position += 1;
            self.skip_blank();
            if !self.take(',') {
                self.expect(')')?;
                break;
            }
        }
        let pattern = pattern.filter(|words: &Vec<_>| !words.is_empty());
        let pattern = pattern.ok_or_else(|| self.wrong("a rule has no pattern"))?;
        Ok(PrefixRule { pattern, decision })
    }

    fn choices(&self, words: Vec<Literal>) -> Result<Vec<Vec<String>>, String> {
        let text = |word: Literal| match word {
            Literal::Text(text) => Ok(text),
            Literal::List(_) => Err(self.wrong("a choice of words contains another list")),
        };
        let choice = |word: Literal| match word {
            Literal::Text(text) => Ok(vec![text]),
            Literal::List(words) if words.is_empty() => Err(self.wrong("a choice has no words")),
            Literal::List(words) => words.into_iter().map(text).collect(),
        };
        words.into_iter().map(choice).collect()
    }

    /// Parses `name =`, if it is next.
    fn keyword(&mut self) -> Option<&'a str> {
        let before = self.rest;
        let word = self.word();
        self.skip_blank();
        if !word.is_empty() && self.take('=') {
            return Some(word);
        }
        self.rest = before;
        None
    }

    fn literal(&mut self, depth: usize) -> Result<Literal, String> {
        self.skip_blank();
        if self.take('[') {
            return match depth.checked_sub(1) {
                Some(below) => self.list(below),
                None => Err(self.wrong("lists are nested too deeply")),
            };
        }
        let quote = self.rest.chars().next();
        match quote.filter(|it| matches!(it, '"' | '\'')) {
            Some(quote) => self.string(quote).map(Literal::Text),
            None => Err(self.wrong("expected a string or a list")),
        }
    }

    fn list(&mut self, depth: usize) -> Result<Literal, String> {
        let mut values = Vec::new();
        loop {
            self.skip_blank();
            if self.take(']') {
                return Ok(Literal::List(values));
            }
            values.push(self.literal(depth)?);
            self.skip_blank();
            if !self.take(',') {
                self.expect(']')?;
                return Ok(Literal::List(values));
            }
        }
    }

    fn string(&mut self, quote: char) -> Result<String, String> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, char)) = chars.next() {
            match char {
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, 'r')) => text.push('\r'),
                    Some((_, other)) => text.push(other),
                    None => break,
                },
                '\n' => break,
                _ if char == quote => {
                    self.rest = &self.rest[at + char.len_utf8()..];
                    return Ok(text);
                }
                _ => text.push(char),
            }
        }
        Err(self.wrong("unclosed string"))
    }

    fn word(&mut self) -> &'a str {
        let ends = |it: char| !(it.is_ascii_alphanumeric() || it == '_');
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn take(&mut self, char: char) -> bool {
        let rest = self.rest.strip_prefix(char);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, char: char) -> Result<(), String> {
        self.skip_blank();
        if self.take(char) {
            return Ok(());
        }
        Err(self.wrong(&format!("expected `{char}`")))
    }

    /// Skips white space and comments.
    fn skip_blank(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            let Some(comment) = self.rest.strip_prefix('#') else {
                return;
            };
            self.rest = comment.find('\n').map_or("", |end| &comment[end..]);
        }
    }

    fn wrong(&self, what: &str) -> String {
        let read = &self.text[..self.text.len() - self.rest.len()];
        let line = read.matches('\n').count() + 1;
        format!("line {line}: {what}")
    }
}

#[cfg(test)]
mod tests;
