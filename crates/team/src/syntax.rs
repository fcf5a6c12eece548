//! Errors of TOML's syntax, with what to do about them.

use toml::de::Error;

use crate::error::{Problem, TeamFileCode};

/// Fixes by a part of the parser's message.
const FIXES: &[(&str, &str)] = &[
    ("string values must be quoted", "put the value in double quotes"),
    ("duplicate key", "remove one of the two, or begin a new `[[member]]`"),
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
    let said = match error.message().split(", expected").next().unwrap_or_default() {
        "string values must be quoted" if is_blank => "missing value",
        said => said,
    };
    // An error at the end of a file that ends with a line break is about its last line.
    let last = text.trim_end().len();
    let span = if span.start >= last { last..last } else { span };
    let fix = FIXES.iter().find(|(part, _)| said.contains(part)).map_or(OTHERWISE, |(_, fix)| fix);
    Problem {
        span,
        code: TeamFileCode::Syntax,
        message: format!("this is not TOML: {said}"),
        fix: fix.to_owned(),
    }
}
