//! The text around a match of a search.

/// The maximum number of characters of an excerpt.
const EXCERPT: usize = 160;
/// The number of characters before the match.
const EXCERPT_LEAD: usize = 40;

/// Returns whether the script of this character separates words without spaces.
pub(super) fn is_written_without_spaces(c: char) -> bool {
    matches!(c, '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
        | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{3FFFF}')
}

/// Returns one line of text around the first match of any word.
pub(super) fn excerpt(content: &str, words: &[String]) -> String {
    let first =
        words.iter().filter_map(|word| find_ignoring_case(content, word)).min().unwrap_or(0);
    let lead = content[..first].char_indices().rev().take(EXCERPT_LEAD).last();
    let start = lead.map_or(first, |(index, _)| index);
    let mut line = String::new();
    for word in content[start..].split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.chars().nth(EXCERPT).is_some() {
            break;
        }
    }
    let cut: String = line.chars().take(EXCERPT).collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if cut.len() < line.len() { "…" } else { "" };
    format!("{before}{cut}{after}")
}

/// Returns where `word` begins in `text`. ASCII letters match in either case.
fn find_ignoring_case(text: &str, word: &str) -> Option<usize> {
    let (bytes, length) = (text.as_bytes(), word.len());
    if length == 0 || bytes.len() < length {
        return None;
    }
    bytes
        .windows(length)
        .position(|window| window.eq_ignore_ascii_case(word.as_bytes()))
        .filter(|index| text.is_char_boundary(*index))
}
