//! Searches what was said and done in sessions, by reading them.

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};
use std::path::Path;

use convoke_protocol::id::Millis;
use convoke_protocol::window::Place;
use convoke_source::{Entry, EntryKind, FoundSession, Kept, SourceError};
use serde::Serialize;

use crate::catalog::Readers;
use crate::index::{Index, IndexError};
use crate::parallel;
use crate::words::said;

/// The maximum number of hits in one session.
const MAX_HITS: usize = 50;
/// The number of sessions that are read before it is known whether enough was found.
const BATCH: usize = 16;
/// The characters of an excerpt on each side of the first word.
const AROUND: usize = 60;

/// What is searched for.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// In lower case. A text has to contain a word that begins with each of them.
    pub words: Vec<String>,
    /// Search the outputs of tools too.
    pub is_deep: bool,
    /// Only sessions in which a file was changed whose path contains this.
    pub file: Option<String>,
    /// The first moment whose texts are searched.
    pub since: Option<Millis>,
    /// The first moment whose texts are not searched any more.
    pub until: Option<Millis>,
}

/// A text that was found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hit {
    pub agent: &'static str,
    pub session: String,
    pub cwd: Option<String>,
    /// `message`, `reply`, `command`, `file` or `output`.
    pub kind: &'static str,
    pub at: Option<Millis>,
    pub source: Place,
    pub excerpt: String,
}

/// Searches sessions, in their order, until this many texts are found. Those of one session are together.
///
/// With an index, only those sessions are read that contain the words.
pub fn search(
    readers: &Readers,
    sessions: Vec<FoundSession>,
    index: Option<&mut Index>,
    query: &Query,
    limit: usize,
) -> Result<(Vec<Hit>, Vec<SourceError>), IndexError> {
    let (sessions, mut problems) = match index {
        // What tools returned is not in the index.
        Some(index) if !query.is_deep => index.with_words(readers, sessions, &query.words)?,
        _ => (sessions, Vec::new()),
    };
    let mut found = Vec::new();
    for batch in sessions.chunks(BATCH) {
        for result in parallel::map(batch, |session| search_one(readers, session, query)) {
            match result {
                Ok(hits) => found.extend(hits),
                Err(problem) => problems.push(problem),
            }
        }
        if found.len() >= limit {
            break;
        }
    }
    Ok((found, problems))
}

fn search_one(
    readers: &Readers,
    session: &FoundSession,
    query: &Query,
) -> Result<Vec<Hit>, SourceError> {
    let mut hits: Vec<Hit> = Vec::new();
    let mut has_file = query.file.is_none();
    let mut sink = |entry: Entry<'_>| {
        if let (EntryKind::Changed(changes), Some(file)) = (&entry.kind, &query.file) {
            has_file |= changes.iter().any(|change| change.path.contains(file.as_str()));
        }
        let is_early = query.since.is_some_and(|since| entry.at.is_some_and(|at| at < since));
        let is_late = query.until.is_some_and(|until| entry.at.is_some_and(|at| at >= until));
        if is_early || is_late || hits.len() >= MAX_HITS {
            return ControlFlow::Continue(());
        }
        let (kind, text) = match &entry.kind {
            EntryKind::Result { output, .. } if query.is_deep => ("output", Cow::Borrowed(*output)),
            kind => match said(kind) {
                Some(said) => said,
                None => return ControlFlow::Continue(()),
            },
        };
        if let Some(at) = find(&text, &query.words) {
            hits.push(Hit {
                agent: session.program,
                session: session.id.clone(),
                cwd: session.cwd.clone(),
                kind,
                at: entry.at,
                source: entry.place,
                excerpt: excerpt(&text, at),
            });
        }
        ControlFlow::Continue(())
    };
    readers.open(session, Kept::Said)?.advance(&mut sink)?;
    Ok(if has_file { hits } else { Vec::new() })
}

/// Returns the place of the first of the words, if the text contains words that begin with each of them.
fn find(text: &str, words: &[String]) -> Option<Range<usize>> {
    let mut first: Option<Range<usize>> = None;
    for word in words {
        let found = find_word(text, word)?;
        first = match first {
            Some(earlier) if earlier.start <= found.start => Some(earlier),
            _ => Some(found),
        };
    }
    first
}

/// Returns the first place at which a word begins with these letters, in any case.
fn find_word(text: &str, beginning: &str) -> Option<Range<usize>> {
    let mut before = None::<char>;
    for (start, character) in text.char_indices() {
        let is_start =
            before.is_none_or(|it| !it.is_alphanumeric() || !character.is_alphanumeric());
        before = Some(character);
        if !is_start {
            continue;
        }
        let mut rest = text[start..].char_indices();
        let mut end = start;
        let matches = beginning.chars().all(|wanted| match rest.next() {
            Some((at, found)) => {
                end = start + at + found.len_utf8();
                found == wanted || found.to_lowercase().eq(wanted.to_lowercase())
            }
            None => false,
        });
        if matches {
            return Some(start..end);
        }
    }
    None
}

/// Returns the surroundings of a place on one line.
fn excerpt(text: &str, at: Range<usize>) -> String {
    let before = text[..at.start].char_indices().rev().nth(AROUND).map_or(0, |(index, _)| index);
    let after = text[at.end..].char_indices().nth(AROUND).map_or(text.len(), |(it, _)| at.end + it);
    let words = text[before..after].split_whitespace().collect::<Vec<_>>().join(" ");
    let left = if before > 0 { "…" } else { "" };
    let right = if after < text.len() { "…" } else { "" };
    format!("{left}{words}{right}")
}

/// Returns whether a session's directory is a directory or below it.
pub fn is_below(session: &FoundSession, directory: &Path) -> bool {
    session.cwd.as_deref().is_some_and(|cwd| Path::new(cwd).starts_with(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_contains_a_word_that_begins_with_each() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let text = "Fix the LOGIN in src/login_page.rs, bitte prüfen";
        assert!(find(text, &words("log fix")).is_some());
        assert!(find(text, &words("page")).is_some());
        assert!(find(text, &words("prüf")).is_some());
        assert!(find(text, &words("ogin")).is_none());
        assert!(find(text, &words("fix absent")).is_none());
        assert!(find("", &words("a")).is_none());
    }

    #[test]
    fn an_excerpt_is_one_line_around_the_word() {
        let text = format!("{} one\ntwo needle three {}", "a".repeat(100), "b".repeat(100));
        let found = excerpt(&text, find(&text, &["needle".to_owned()]).unwrap());
        assert!(found.starts_with('…') && found.ends_with('…'), "{found}");
        assert!(found.contains("one two needle three"), "{found}");
    }
}
