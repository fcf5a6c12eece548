//! Syntax errors of TOML, with their fixes.

use std::ops::Range;

use toml::de::Error;

use crate::error::{Problem, TeamFileCode};

/// Fixes by a part of the parser's message.
const FIXES: &[(&str, &str)] = &[
    ("string values must be quoted", "put the value in double quotes"),
    ("duplicate key", "remove one of the two"),
    ("unclosed array table", "close the header with `]]`"),
    ("unclosed table", "close the header with `]`"),
    ("unclosed inline table", "close the table with `}`"),
    ("unclosed array", "close the list with `]`"),
    ("missing comma", "put a comma between the values"),
    ("extra comma", "remove the comma"),
    ("missing assignment", "write `name = value`"),
    ("key with no value", "write `name = value`"),
    ("missing value", "write a value after `=`"),
    ("extra", "remove the second `=`"),
    ("invalid unquoted key", "write names of letters, digits, `-` and `_`"),
    ("invalid basic string", "close the string with `\"`, and write a backslash as `\\\\`"),
    ("invalid multi-line basic string", "close the string with `\"\"\"`"),
    ("invalid literal string", "close the string with `'`"),
    ("invalid multi-line literal string", "close the string with `'''`"),
    ("invalid boolean", "write `true` or `false`, in lower case"),
    ("unicode", "write a backslash as `\\\\`, or put the value in single quotes"),
    ("escape", "write a backslash as `\\\\`, or put the value in single quotes"),
    ("recurs", "use fewer brackets"),
    ("carriage return", "end lines with LF or CRLF"),
    ("leading zero", "write the number without leading zeros"),
];

const OTHERWISE: &str = "write `name = value` lines below `[table]` and `[[member]]` headers";

/// Describes an error of the parser.
pub(crate) fn syntax_problem(text: &str, error: &Error) -> Problem {
    let span = error.span().unwrap_or(0..0);
    let is_blank = text.get(span.clone()).is_none_or(|there| there.trim().is_empty());
    let message = match error.message().split(", expected").next().unwrap_or_default() {
        "string values must be quoted" if is_blank => "missing value",
        message => message,
    };
    // An error at the end of a file with a final line break concerns its last line.
    let last = text.trim_end().len();
    let span = match opening(text, message) {
        Some(opening) => opening,
        None if span.start >= last => last..last,
        None => span,
    };
    let known = || FIXES.iter().find(|(part, _)| message.contains(part));
    let twice = || (message == "duplicate key").then(|| duplicate(text, span.start));
    let fix = slip(text, &span)
        .or_else(twice)
        .or_else(|| known().map(|(_, fix)| *fix))
        .unwrap_or(OTHERWISE);
    Problem {
        span,
        code: TeamFileCode::Syntax,
        message: format!("this is not TOML: {message}"),
        fix: fix.to_owned(),
    }
}

/// Returns the problem if the text is in another language.
pub(crate) fn foreign_problem(text: &str) -> Option<Problem> {
    let start = text.len() - text.trim_start().len();
    let language = match text.get(start..)?.chars().next()? {
        '{' => "JSON",
        '<' => "markup",
        _ => return None,
    };
    Some(Problem {
        span: start..start + 1,
        code: TeamFileCode::Syntax,
        message: format!("this is {language}, not TOML"),
        fix: OTHERWISE.to_owned(),
    })
}

/// Returns the opening quotes of an unclosed multi-line string: the last ones of the file.
fn opening(text: &str, message: &str) -> Option<Range<usize>> {
    let quotes = match message {
        "invalid multi-line basic string" => "\"\"\"",
        "invalid multi-line literal string" => "'''",
        _ => return None,
    };
    let start = text.rfind(quotes)?;
    Some(start..start + quotes.len())
}

/// Returns the fix for a duplicate name: of a table, a member's setting, or another.
fn duplicate(text: &str, at: usize) -> &'static str {
    let is_header = |line: &&str| line.trim_start().starts_with('[');
    let line = text[..at].rfind('\n').map_or(0, |at| at + 1);
    if text[line..].lines().next().is_some_and(|line| is_header(&line)) {
        return "remove one of the two, and keep the settings of both below the other";
    }
    // The settings of a member follow its header closely.
    let near = text.floor_char_boundary(line.saturating_sub(4096));
    match text[near..line].lines().rev().find(is_header).map(str::trim_start) {
        Some(header) if header.starts_with("[[") => {
            "remove one of the two, or begin a new `[[member]]`"
        }
        _ => "remove one of the two",
    }
}

/// Returns the fix for a mistake that the parser's message does not name: syntax of another language, or typographic
/// characters.
fn slip(text: &str, span: &Range<usize>) -> Option<&'static str> {
    let there = text.get(span.start..)?.chars().next();
    if there.is_some_and(|c| matches!(c, '“' | '”' | '„' | '‘' | '’' | '«' | '»')) {
        return Some("write straight quotes: `\"`");
    }
    if there.is_some_and(|c| c.is_control() && !matches!(c, '\n' | '\r')) {
        return Some("remove the control character, or write it as `\\u` and four digits");
    }
    let line = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
    let line = text[line..].lines().next().unwrap_or_default().trim_start();
    if line.starts_with("```") {
        return Some("remove the line: the file is TOML alone, without Markdown around it");
    }
    if line.starts_with("[[[") {
        return Some("write `[[member]]`, in two brackets");
    }
    let is_last = text[span.start..].lines().next().is_some_and(|rest| rest.trim().len() == 1);
    match there {
        Some(',') if is_last => return Some("remove the comma: a line ends without one"),
        Some(';') if is_last => return Some("remove the `;`: a line ends without one"),
        _ => {}
    }
    if ["//", "--", ";", "/*"].iter().any(|mark| line.starts_with(mark)) {
        return Some("begin a comment with `#`");
    }
    let name = line.trim_start_matches(|c: char| c.is_alphanumeric() || "-_\"' ".contains(c));
    name.starts_with(':').then_some("write `name = value`, with `=` instead of `:`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_have_fixes_of_their_own() {
        for (text, at, fix) in [
            ("// my team\nname = 5\n", 0, Some("begin a comment with `#`")),
            ("name = “x”\n", 7, Some("write straight quotes: `\"`")),
            ("name : 5\n", 5, Some("write `name = value`, with `=` instead of `:`")),
            ("name = 5 5\n", 9, None),
            (
                "name = \"\u{7}\"\n",
                8,
                Some("remove the control character, or write it as `\\u` and four digits"),
            ),
        ] {
            assert_eq!(slip(text, &(at..at)), fix, "{text}");
        }
    }
}
