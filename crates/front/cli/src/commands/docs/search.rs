//! Words in the documentation: the sections that have them, the best first.

use serde::Serialize;

/// The sections that are shown.
const SHOWN: usize = 12;
/// The characters of an excerpt.
const EXCERPT: usize = 100;

/// A section that has the words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Found {
    pub(super) topic: &'static str,
    /// The heading; empty at the beginning of a page.
    pub(super) heading: &'static str,
    /// The line with the most of the words.
    pub(super) excerpt: String,
    #[serde(skip)]
    rank: u32,
}

/// Returns the sections of pages that have all words, ignoring case, those first that have them in a heading or often.
pub(super) fn find(pages: &[(&'static str, &'static str)], words: &[String]) -> Vec<Found> {
    let words: Vec<String> =
        words.iter().flat_map(|it| it.split_whitespace()).map(str::to_lowercase).collect();
    let mut found: Vec<Found> =
        pages.iter().flat_map(|(topic, text)| in_page(topic, text, &words)).collect();
    found.sort_by_key(|section| std::cmp::Reverse(section.rank));
    found.truncate(SHOWN);
    found
}

fn in_page(topic: &'static str, text: &'static str, words: &[String]) -> Vec<Found> {
    let starts = text.match_indices("\n## ").map(|(at, _)| at + 1);
    let starts: Vec<usize> = std::iter::once(0).chain(starts).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let sections = starts.iter().zip(ends).map(|(&start, end)| &text[start..end]);
    sections.filter_map(|section| in_section(topic, section, words)).collect()
}

fn in_section(topic: &'static str, section: &'static str, words: &[String]) -> Option<Found> {
    let lower = section.to_lowercase();
    let times = |text: &str, word: &String| {
        u32::try_from(text.matches(word.as_str()).count()).unwrap_or(u32::MAX)
    };
    if words.iter().any(|word| !lower.contains(word.as_str())) {
        return None;
    }
    let first = section.lines().next().unwrap_or_default();
    let heading = first.strip_prefix("## ").unwrap_or_default();
    let title = format!("{topic} {}", first.to_lowercase());
    let rank = words.iter().map(|word| times(&lower, word).min(9) + 20 * times(&title, word)).sum();
    let is_text = |line: &&str| !line.starts_with('#') && !line.trim().is_empty();
    let words_in = |line: &str| {
        let line = line.to_lowercase();
        words.iter().filter(|word| line.contains(word.as_str())).count()
    };
    // The first of the best lines.
    let line = section.lines().filter(is_text).rev().max_by_key(|line| words_in(line));
    let line = line.unwrap_or_default().trim();
    let end = line.char_indices().nth(EXCERPT).map_or(line.len(), |(at, _)| at);
    let more = if end < line.len() { "…" } else { "" };
    Some(Found { topic, heading, excerpt: format!("{}{more}", &line[..end]), rank })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_with_the_words_comes_first() {
        let pages = [
            ("run", "# Run\n\nA cache is mentioned.\n"),
            ("sessions", "# Sessions\n\nText.\n\n## The cache\n\nWhy the cache missed.\n"),
        ];
        let found = find(&pages, &["Cache".to_owned()]);
        let shown: Vec<_> = found.iter().map(|it| (it.topic, it.heading, &*it.excerpt)).collect();
        let sessions = ("sessions", "The cache", "Why the cache missed.");
        assert_eq!(shown, [sessions, ("run", "", "A cache is mentioned.")]);
        assert_eq!(find(&pages, &["cache".to_owned(), "nothing".to_owned()]), []);
    }
}
