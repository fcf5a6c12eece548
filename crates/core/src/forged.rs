//! Content that looks like ours: a line that could be taken for a section header or for another
//! speaker's line.
//!
//! The bytes stay as they were written; the user is told, and can have content indented.

use std::collections::HashSet;

use memchr::memchr2;

use crate::assembler::{Format, LineStyle};
use crate::budget::Plan;
use crate::diagnostic::{Code, Diagnostic};
use crate::fragment::{ContextLines, Fragment, Fragments, Section};
use crate::input::Fencing;
use crate::kept::Kept;
use crate::whitespace::trim;

/// Finds the lines of kept content that look like ours; fenced content has none.
pub(crate) fn find(format: &Format, fragments: &Fragments<'_>, plan: &Plan) -> Vec<Diagnostic> {
    if fragments.context.fencing == Fencing::Indented {
        return Vec::new();
    }
    let looks = Looks::new(format, &fragments.context, plan.dropped);
    let mut found = Vec::new();
    let task = fragments.task.as_ref().map_or("", |task| &task.text);
    found.extend(report(Section::TeamTask, "the team task", looks.count(task)));
    for (index, message) in fragments.context.messages.iter().enumerate().skip(plan.dropped) {
        let count = [&message.from, &message.content]
            .into_iter()
            .chain(&message.to)
            .map(|text| looks.count_after_first(text))
            .sum();
        let id = message.id.as_deref();
        let who = id.map_or_else(|| format!("context message {index}"), str::to_owned);
        found.extend(report(Section::Context, &who, count));
    }
    let message = fragments.message.as_ref().map_or("", |message| kept_head(message, plan.message));
    found.extend(report(Section::Message, "the message", looks.count(message)));
    found
}

fn kept_head<'t>(message: &'t Fragment<'_>, kept: Kept) -> &'t str {
    match kept {
        Kept::Whole => &message.text,
        Kept::Ends { head, .. } => &message.text[..head],
    }
}

fn report(section: Section, what: &str, count: u64) -> Option<Diagnostic> {
    let message = match count {
        0 => return None,
        1 => format!("a line of {what} looks like a header or a speaker's line"),
        _ => format!("{count} lines of {what} look like headers or speakers' lines"),
    };
    let diagnostic = Diagnostic::new(Code::ContentForged, message);
    Some(diagnostic.in_section(section.name()).with_count(count))
}

/// What the lines of a format look like.
struct Looks<'a> {
    format: &'a Format,
    /// Who speaks in this context; asked for only when the line style needs it.
    speakers: HashSet<&'a str>,
}

impl<'a> Looks<'a> {
    fn new(format: &'a Format, context: &ContextLines<'a>, dropped: usize) -> Self {
        let speakers = match format.line {
            LineStyle::Arrow => HashSet::new(),
            LineStyle::Dash | LineStyle::Bare => {
                context.messages[dropped..].iter().map(|message| &*message.from).collect()
            }
        };
        Self { format, speakers }
    }

    /// Counts the lines that look like ours.
    fn count(&self, text: &str) -> u64 {
        let first = text.split(['\n', '\r']).next().unwrap_or_default();
        u64::from(self.is_ours(first)) + self.count_after_first(text)
    }

    /// Counts the lines that look like ours, but for the first, which continues a line of ours.
    fn count_after_first(&self, text: &str) -> u64 {
        let mut count = 0;
        let mut rest = text;
        while let Some(at) = memchr2(b'\n', b'\r', rest.as_bytes()) {
            rest = &rest[at + 1..];
            if self.may_be_ours(rest.as_bytes()) {
                let end = memchr2(b'\n', b'\r', rest.as_bytes()).unwrap_or(rest.len());
                count += u64::from(self.is_ours(&rest[..end]));
            }
        }
        count
    }

    /// Tells from its first byte that a line is not worth a closer look.
    fn may_be_ours(&self, line: &[u8]) -> bool {
        match (self.format.line, line.first()) {
            (_, None) => false,
            (LineStyle::Arrow, Some(&first)) => matches!(first, b'[' | b'-' | b' ' | b'\t'),
            (LineStyle::Dash | LineStyle::Bare, Some(_)) => true,
        }
    }

    fn is_ours(&self, line: &str) -> bool {
        self.is_header(line) || self.is_speakers_line(line)
    }

    fn is_header(&self, line: &str) -> bool {
        let line = trim(line);
        self.format.headers.present().any(|header| header.eq_ignore_ascii_case(line))
    }

    fn is_speakers_line(&self, line: &str) -> bool {
        let line = match self.format.line {
            LineStyle::Arrow | LineStyle::Dash => match line.strip_prefix("- ") {
                Some(rest) => rest,
                None => return false,
            },
            LineStyle::Bare => line,
        };
        let Some((head, _)) = line.split_once(':') else {
            return false;
        };
        match self.format.line {
            LineStyle::Arrow => head.contains(" -> "),
            LineStyle::Dash | LineStyle::Bare => self.speakers.contains(head),
        }
    }
}
