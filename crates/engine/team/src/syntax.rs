//! Syntax errors of TOML, with their fixes.

use std::ops::Range;

use toml::de::Error;

use crate::diagnostics;
use crate::error::{LineIndex, Problem};

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

/// Describes the parser's errors in a text. The cost of an error is its line, because there can be an error at
/// every byte.
pub(crate) struct SyntaxErrors<'t> {
    lines: LineIndex<'t>,
    /// The indices of the lines that are headers.
    headers: Vec<usize>,
    /// The end of the text without white space.
    end: usize,
    /// The last quotes of multi-line strings.
    quotes: [Option<usize>; 2],
}

impl<'t> SyntaxErrors<'t> {
    pub fn new(text: &'t str) -> Self {
        let lines = LineIndex::new(text);
        let is_header = |(_, line): &(usize, &str)| line.trim_start().starts_with('[');
        let headers = lines.all().enumerate().filter(is_header).map(|(index, _)| index).collect();
        let quotes = ["\"\"\"", "'''"].map(|quotes| text.rfind(quotes));
        Self { headers, end: text.trim_end().len(), quotes, lines }
    }

    pub fn lines(&self) -> &LineIndex<'t> {
        &self.lines
    }

    /// Returns the indices of the lines that are headers.
    pub fn headers(&self) -> &[usize] {
        &self.headers
    }

    /// Returns the position to mark for an error.
    pub fn span(&self, error: &Error) -> Range<usize> {
        // An unclosed multi-line string is marked at its opening quotes, which are the last ones of the file.
        let opening = match error.message().split(", expected").next().unwrap_or_default() {
            "invalid multi-line basic string" => self.quotes[0],
            "invalid multi-line literal string" => self.quotes[1],
            _ => None,
        };
        let span = error.span().unwrap_or(0..0);
        match opening {
            Some(opening) => opening..opening + 3,
            // An error at the end of a file with a final line break concerns its last line.
            None if span.start >= self.end => self.end..self.end,
            None => span,
        }
    }

    /// Describes an error that is marked at a position.
    pub fn problem(&self, error: &Error, span: Range<usize>) -> Problem {
        let place = error.span().unwrap_or(0..0);
        let is_blank = self.lines.text.get(place).is_none_or(|there| there.trim().is_empty());
        let message = match error.message().split(", expected").next().unwrap_or_default() {
            "string values must be quoted" if is_blank => "missing value",
            message => message,
        };
        let known = || FIXES.iter().find(|(part, _)| message.contains(part));
        let twice = || (message == "duplicate key").then(|| self.duplicate(span.start));
        let fix = slip(&self.lines, span.start)
            .or_else(twice)
            .or_else(|| known().map(|(_, fix)| *fix))
            .unwrap_or(OTHERWISE);
        Problem {
            span,
            code: diagnostics::TEAM_SYNTAX,
            message: format!("this is not TOML: {message}"),
            fix: fix.to_owned(),
        }
    }

    /// Returns the fix for a duplicate name: of a table, a member's setting, or another.
    fn duplicate(&self, at: usize) -> &'static str {
        let line = self.lines.index(at);
        let before = self.headers.partition_point(|&header| header <= line);
        match self.headers[..before].last() {
            Some(&header) if header == line => {
                "remove one of the two, and keep the settings of both below the other"
            }
            Some(&header)
                if self.lines.from(self.lines.start(header)).trim_start().starts_with("[[") =>
            {
                "remove one of the two, or begin a new `[[member]]`"
            }
            _ => "remove one of the two",
        }
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
        code: diagnostics::TEAM_SYNTAX,
        message: format!("this is {language}, not TOML"),
        fix: OTHERWISE.to_owned(),
    })
}

/// Returns the fix for a mistake that the parser's message does not name: the syntax of another language, or
/// typographic characters.
fn slip(lines: &LineIndex<'_>, at: usize) -> Option<&'static str> {
    let there = lines.text.get(at..)?.chars().next();
    if there.is_some_and(|c| matches!(c, '“' | '”' | '„' | '‘' | '’' | '«' | '»')) {
        return Some("write straight quotes: `\"`");
    }
    if there.is_some_and(|c| c.is_control() && !matches!(c, '\n' | '\r')) {
        return Some("remove the control character, or write it as `\\u` and four digits");
    }
    let line = lines.from(lines.start(lines.index(at))).trim_start();
    if line.starts_with("```") {
        return Some("remove the line: the file must be TOML without Markdown around it");
    }
    if line.starts_with("[[[") {
        return Some("write `[[member]]`, with double brackets");
    }
    let is_last = lines.from(at).trim().len() == 1;
    match there {
        Some(',') if is_last => return Some("remove the comma at the end of the line"),
        Some(';') if is_last => return Some("remove the `;` at the end of the line"),
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
            assert_eq!(slip(&LineIndex::new(text), at), fix, "{text}");
        }
    }
}
