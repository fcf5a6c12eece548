//! Detects forged content: lines that look like a section header or like another speaker's line.
//!
//! Content is reported, not changed; `fence` can indent it. All content is searched, so the search must cost
//! less than writing the text. It looks for bytes that every header and speaker's line contains and that are
//! rare elsewhere, and reads only lines with such a byte.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashSet;

use memchr::{memchr, memchr2, memchr3};

use crate::assembler::{Format, LineStyle};
use crate::diagnostic::Diagnostic;
use crate::diagnostics;
use crate::escape::Escaping;
use crate::fragment::{ContextLines, Section};
use crate::input::{ContextSource, Fencing, PromptContextMessage};
use crate::line_break::{ends_line_break, last_line_break, line_breaks};
use crate::whitespace::trim;

/// Checks content as it is written.
pub(crate) struct ForgeryCheck<'a> {
    /// `None` for fenced content, which cannot imitate anything.
    patterns: Option<LinePatterns<'a>>,
    found: Vec<Diagnostic>,
}

impl<'a> ForgeryCheck<'a> {
    /// Creates a check for the content of a prompt, given the number of dropped messages.
    pub(crate) fn new(format: &Format, context: &ContextLines<'a>, dropped: usize) -> Self {
        let patterns = match context.fencing {
            Fencing::AsWritten => {
                Some(LinePatterns::new(format, &context.messages[dropped..], context.escaping))
            }
            Fencing::Indented => None,
        };
        Self { patterns, found: Vec::new() }
    }

    /// Checks the body of a section.
    pub(crate) fn body(&mut self, section: Section, text: &str) {
        let what = match section {
            Section::TeamTask => "the team task",
            Section::Message => "the message",
            // The system text is the user's own. Context is checked message by message.
            Section::System | Section::Context => return,
        };
        let Some(patterns) = &self.patterns else { return };
        let count = patterns.count_from(text, 0);
        self.found.extend(report(section, what, count));
    }

    /// Checks a context message. The first line of each of its texts continues a line that Convoke began.
    pub(crate) fn message(&mut self, index: usize, message: &PromptContextMessage<'_>) {
        let Some(patterns) = &self.patterns else { return };
        let [from, to, content] = patterns.format.line.contents(message);
        let count = patterns.count_from(from, 1)
            + patterns.count_from(to, 1)
            + patterns.count_from(content, 1);
        if count > 0 {
            let who = match &message.source {
                ContextSource::Message(Some(id)) => id.to_string(),
                ContextSource::Message(None) => format!("context message {index}"),
                ContextSource::Setting(name) => (*name).to_owned(),
            };
            self.found.extend(report(Section::Context, &who, count));
        }
    }

    /// Returns the diagnostics.
    pub(crate) fn found(self) -> Vec<Diagnostic> {
        self.found
    }
}

fn report(section: Section, what: &str, count: usize) -> Option<Diagnostic> {
    let message = match count {
        0 => return None,
        1 => format!("a line of {what} looks like a header or a speaker's line"),
        _ => format!("{count} lines of {what} look like headers or speakers' lines"),
    };
    let diagnostic = Diagnostic::new(diagnostics::CONTENT_FORGED, message);
    Some(diagnostic.in_section(section.name()).with_count(count as u64))
}

/// The lines that a format writes: its headers and speakers' lines.
struct LinePatterns<'a> {
    format: Format,
    /// The speakers of this context, in formats where only the name marks a speaker's line.
    speakers: Option<Speakers<'a>>,
    /// The minimum size of a header or a speaker's line.
    shortest_line: usize,
    tell_tales: TellTales,
}

impl<'a> LinePatterns<'a> {
    fn new(format: &Format, context: &'a [PromptContextMessage<'a>], escaping: Escaping) -> Self {
        let (speakers, shortest_speakers_line) = match format.line {
            LineStyle::Arrow => (None, "-  -> :".len()),
            LineStyle::Dash | LineStyle::Bare => {
                (Some(Speakers::new(context, escaping)), ":".len())
            }
        };
        let headers = format.headers.present().map(str::len);
        Self {
            format: *format,
            speakers,
            shortest_line: headers.chain([shortest_speakers_line]).min().unwrap_or(0),
            tell_tales: TellTales::new(format),
        }
    }

    /// Counts the lines from byte `first` on that look like a header or a speaker's line. Linear in the text; a
    /// text without a tell-tale costs one search.
    #[inline]
    fn count_from(&self, text: &str, first: usize) -> usize {
        if text.len() < self.shortest_line {
            return 0;
        }
        match self.tell_tales.find(text.as_bytes()) {
            Some(at) => self.count_near(text, first, at),
            None => 0,
        }
    }

    /// Counts such lines, given the position of the first tell-tale.
    fn count_near(&self, text: &str, first: usize, mut at: usize) -> usize {
        let bytes = text.as_bytes();
        let mut count = 0;
        // The ends of the searched bytes and of the lines that were read.
        let (mut searched, mut read) = (0, 0);
        loop {
            if self.may_be_ours(bytes, searched, at) {
                let break_before = last_line_break(&text[read..at]);
                let start = break_before.map_or(read, |line_break| read + line_break.end);
                let break_after = line_breaks(&text[at..]).next();
                read = break_after.map_or(text.len(), |line_break| at + line_break.start);
                searched = read;
                count += usize::from(start >= first && self.is_ours(&text[start..read]));
            } else {
                searched = at + 1;
            }
            match self.tell_tales.find(&bytes[searched..]) {
                Some(found) => at = searched + found,
                None => return count,
            }
        }
    }

    /// Decides from the bytes around a tell-tale whether its line needs to be read.
    #[inline]
    fn may_be_ours(&self, text: &[u8], searched: usize, at: usize) -> bool {
        let may_be_speakers = match &self.speakers {
            None => text[..at].ends_with(b" -") && text[at..].starts_with(b"> "),
            Some(speakers) => text[at] == b':' && speakers.may_end_at(text, searched, at),
        };
        may_be_speakers || self.tell_tales.is_in_header(text, at)
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
        match &self.speakers {
            None => line.split_once(" -> ").is_some_and(|(_, rest)| rest.contains(':')),
            Some(speakers) => line.split_once(':').is_some_and(|(head, _)| speakers.include(head)),
        }
    }
}

/// The speakers of a context.
struct Speakers<'a> {
    context: &'a [PromptContextMessage<'a>],
    escaping: Escaping,
    /// Escaped names, collected at the first line that could be a speaker's.
    names: OnceCell<HashSet<Cow<'a, str>>>,
    /// The bytes of the longest name, escaped.
    longest: usize,
    /// The bytes that names end in.
    ends: [bool; 256],
}

impl<'a> Speakers<'a> {
    fn new(context: &'a [PromptContextMessage<'a>], escaping: Escaping) -> Self {
        let mut longest = 0;
        let mut ends = [false; 256];
        for message in context {
            longest = longest.max(message.from.len() + escaping.count(&message.from));
            match message.from.as_bytes().last() {
                Some(&last) => ends[usize::from(last)] = true,
                // An empty name can follow any byte.
                None => ends = [true; 256],
            }
        }
        Self { context, escaping, names: OnceCell::new(), longest, ends }
    }

    /// Returns whether a name is a speaker's. Bodies are escaped already, messages are not.
    fn include(&self, name: &str) -> bool {
        let escaped = |message: &'a PromptContextMessage<'_>| self.escaping.escape(&message.from);
        let names = self.names.get_or_init(|| self.context.iter().map(escaped).collect());
        names.contains(&*self.escaping.escape(name))
    }

    /// Returns whether a name may end at a colon: the first of its line, and near the line's start.
    #[inline]
    fn may_end_at(&self, text: &[u8], searched: usize, colon: usize) -> bool {
        let reach = self.longest + b"\n- ".len();
        let near = searched.max(colon.saturating_sub(reach));
        let follows_name = colon == 0 || self.ends[usize::from(text[colon - 1])];
        follows_name && (near == 0 || text[near..colon].iter().any(|&b| ends_line_break(b)))
    }
}

/// Tell-tales: bytes of which every header or speaker's line has at least one.
struct TellTales {
    bytes: Vec<u8>,
    /// The headers, each with the position of its tell-tale.
    headers: Vec<(&'static [u8], usize)>,
    /// The bytes that can precede the tell-tale of a header.
    before: [bool; 256],
}

impl TellTales {
    fn new(format: &Format) -> Self {
        // Punctuation is rarer than letters and has no case. The last one is used, because the text before it
        // distinguishes the header.
        let tell_tale = |header: &'static str| {
            let punctuation = header.bytes().rposition(|byte| byte.is_ascii_punctuation());
            (header.as_bytes(), punctuation.unwrap_or(0))
        };
        let headers: Vec<_> = format.headers.present().map(tell_tale).collect();
        let mut bytes = vec![match format.line {
            LineStyle::Arrow => b'>',
            LineStyle::Dash | LineStyle::Bare => b':',
        }];
        let mut before = [false; 256];
        for &(header, at) in &headers {
            bytes.extend(both_cases(header[at]));
            match at.checked_sub(1) {
                Some(at) => {
                    for byte in both_cases(header[at]) {
                        before[usize::from(byte)] = true;
                    }
                }
                // A header that begins with its tell-tale can follow any white space.
                None => before = [true; 256],
            }
        }
        bytes.sort_unstable();
        bytes.dedup();
        Self { bytes, headers, before }
    }

    #[inline]
    fn find(&self, text: &[u8]) -> Option<usize> {
        match *self.bytes.as_slice() {
            [a] => memchr(a, text),
            [a, b] => memchr2(a, b, text),
            [a, b, c] => memchr3(a, b, c, text),
            ref many => text.iter().position(|byte| many.contains(byte)),
        }
    }

    /// Returns whether a tell-tale may belong to a header, from the byte before it and the header's first and
    /// last byte around it.
    #[inline]
    fn is_in_header(&self, text: &[u8], at: usize) -> bool {
        let may_be = at == 0 || self.before[usize::from(text[at - 1])];
        may_be
            && self.headers.iter().any(|&(header, tell_tale)| {
                let last = header.len() - 1;
                at.checked_sub(tell_tale).is_some_and(|start| {
                    text.get(start + last)
                        .is_some_and(|byte| byte.eq_ignore_ascii_case(&header[last]))
                        && text[start].eq_ignore_ascii_case(&header[0])
                })
            })
    }
}

fn both_cases(byte: u8) -> [u8; 2] {
    [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assembler::{CodexAssembler, Headers};

    #[test]
    fn headers_of_letters_and_of_many_kinds_are_found_too() {
        let headers = Headers { system: "system", task: "# Task", context: "*c*", message: "~ m" };
        let format = Format { headers, ..CodexAssembler::FORMAT };
        let patterns = LinePatterns::new(&format, &[], Escaping::AsWritten);
        for line in ["SYSTEM", " System ", "# task", "*C*", "~ m", "- a -> b: c"] {
            assert_eq!(patterns.count_from(&format!("x\n{line}\ny"), 0), 1, "{line}");
        }
        assert_eq!(patterns.count_from("s\nsystems\n# t\n* c\n- a > b: c", 0), 0);
    }

    #[test]
    fn a_line_that_is_read_is_read_once() {
        let format = CodexAssembler::FORMAT;
        let patterns = LinePatterns::new(&format, &[], Escaping::AsWritten);
        let one_line = "[".repeat(400_000) + &" -> ".repeat(100_000);
        assert_eq!(patterns.count_from(&one_line, 0), 0);
        assert_eq!(patterns.count_from(&"[SYSTEM]\n".repeat(1000), 0), 1000);
    }
}
