//! Content that looks like ours: a line that could be taken for a section header or for another
//! speaker's line.
//!
//! The bytes stay as they were written; the user is told, and can have content indented.

use std::collections::HashSet;

use memchr::memchr;

use crate::assembler::{Format, LineStyle};
use crate::budget::Plan;
use crate::diagnostic::{Code, Diagnostic};
use crate::fragment::{ContextLines, Fragment, Fragments, Section};
use crate::input::Fencing;
use crate::kept::Kept;
use crate::line_break::{line_breaks, line_starts};
use crate::whitespace::{may_begin_space, trim};

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
        if count > 0 {
            let id = message.id.as_deref();
            let who = id.map_or_else(|| format!("context message {index}"), str::to_owned);
            found.extend(report(Section::Context, &who, count));
        }
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
    /// The bytes of the longest of their names.
    longest_name: usize,
    /// The bytes that a line of ours can begin with: nearly all lines need no closer look.
    first_bytes: [bool; 256],
}

impl<'a> Looks<'a> {
    fn new(format: &'a Format, context: &ContextLines<'a>, dropped: usize) -> Self {
        let speakers: HashSet<&str> = match format.line {
            LineStyle::Arrow => HashSet::new(),
            LineStyle::Dash | LineStyle::Bare => {
                context.messages[dropped..].iter().map(|message| &*message.from).collect()
            }
        };
        let longest_name = speakers.iter().map(|name| name.len()).max().unwrap_or(0);
        let first_bytes = first_bytes(format, &speakers);
        Self { format, speakers, longest_name, first_bytes }
    }

    /// Counts the lines that look like ours.
    fn count(&self, text: &str) -> u64 {
        let first = line_breaks(text).next().map_or(text, |line_break| &text[..line_break.start]);
        u64::from(self.is_ours(first)) + self.count_after_first(text)
    }

    /// Counts the lines that look like ours, but for the first, which continues a line of ours.
    fn count_after_first(&self, text: &str) -> u64 {
        let mut count = 0;
        for start in line_starts(text) {
            let Some(&first) = text.as_bytes().get(start) else { break };
            if self.first_bytes[usize::from(first)] {
                let rest = &text[start..];
                let end =
                    line_breaks(rest).next().map_or(rest.len(), |line_break| line_break.start);
                count += u64::from(self.is_ours(&rest[..end]));
            }
        }
        count
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
        match self.format.line {
            LineStyle::Arrow => line.split_once(':').is_some_and(|(head, _)| head.contains(" -> ")),
            LineStyle::Dash | LineStyle::Bare => {
                let most = line.len().min(self.longest_name + 1);
                let colon = memchr(b':', &line.as_bytes()[..most]);
                colon.is_some_and(|colon| self.speakers.contains(&line[..colon]))
            }
        }
    }
}

/// Returns the bytes that a line of ours can begin with. Before a header there may be white space.
fn first_bytes(format: &Format, speakers: &HashSet<&str>) -> [bool; 256] {
    let mut first_bytes = [false; 256];
    for header in format.headers.present() {
        for first in header.bytes().take(1) {
            first_bytes[usize::from(first.to_ascii_lowercase())] = true;
            first_bytes[usize::from(first.to_ascii_uppercase())] = true;
        }
        for space in (0..=u8::MAX).filter(|&byte| may_begin_space(byte)) {
            first_bytes[usize::from(space)] = true;
        }
    }
    match format.line {
        LineStyle::Arrow | LineStyle::Dash => first_bytes[usize::from(b'-')] = true,
        LineStyle::Bare => {
            for speaker in speakers {
                let first = speaker.bytes().next().unwrap_or(b':');
                first_bytes[usize::from(first)] = true;
            }
        }
    }
    first_bytes
}
