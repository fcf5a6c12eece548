//! Writes the planned text once, into a buffer of the right size, with its ledger.

use memchr::memchr_iter;

use crate::assembler::{Format, SystemPlace};
use crate::budget::Plan;
use crate::diagnostic::Diagnostic;
use crate::forged::ForgeryCheck;
use crate::fragment::{ContextLines, Fragment, Fragments, MessagePart, Section};
use crate::ledger::{ContextRow, Ledger, Rule, Source, Target};
use crate::text::TextWriter;
use crate::truncation::KeptPart;

/// The texts of a prompt and their ledger.
pub(crate) struct Rendered<'a> {
    pub(crate) prompt: String,
    pub(crate) system_flag: Option<String>,
    pub(crate) ledger: Ledger<'a>,
    /// Diagnostics of forged content.
    pub(crate) forged: Vec<Diagnostic>,
}

/// Writes the sections in their fixed order.
pub(crate) fn render<'a>(format: &Format, fragments: Fragments<'a>, plan: &Plan) -> Rendered<'a> {
    let forgery_check = ForgeryCheck::new(format, &fragments.context, plan.dropped);
    let mut writer = Writer::new(plan, forgery_check);
    let headers = &format.headers;
    let Fragments { system, file, task, context, message, message_parts, .. } = fragments;

    let has_system = !system.is_empty() || file.is_some();
    let mut system_flag = None;
    if has_system && format.system == SystemPlace::Apart {
        writer.out.begin_text(Target::System, plan.apart_len);
        writer.system(system, file, plan);
        system_flag = Some(writer.end_text(plan.apart_len));
        writer.out.begin_text(Target::Prompt, plan.prompt_len);
    } else {
        writer.out.begin_text(Target::Prompt, plan.prompt_len);
        if has_system {
            writer.header(Section::System, headers.system);
            writer.system(system, file, plan);
        }
    }
    if let Some(task) = task {
        writer.header(Section::TeamTask, headers.task);
        writer.fragment(task, KeptPart::Whole);
    }
    writer.context(headers.context, context, plan);
    if let Some(message) = message {
        writer.header(Section::Message, headers.message);
        if message_parts.is_empty() {
            writer.fragment(message, plan.message);
        } else {
            writer.parts(&message.text, message_parts, plan.message);
        }
    }
    let prompt = writer.end_text(plan.prompt_len);
    let forged = writer.forgery_check.found();
    Rendered { prompt, system_flag, ledger: writer.out.into_ledger(), forged }
}

struct Writer<'a> {
    out: TextWriter<'a>,
    section: Section,
    max_bytes: u64,
    needed: u64,
    forgery_check: ForgeryCheck<'a>,
}

impl<'a> Writer<'a> {
    fn new(plan: &Plan, forgery_check: ForgeryCheck<'a>) -> Self {
        let section = Section::System;
        let ledger = Ledger::new(Some(plan.max_bytes));
        Self {
            out: TextWriter::with_ledger(section.name(), ledger),
            section,
            max_bytes: plan.max_bytes,
            needed: plan.needed,
            forgery_check,
        }
    }

    fn end_text(&mut self, planned: usize) -> String {
        let text = self.out.take_text();
        debug_assert_eq!(text.len(), planned, "the text has the planned length");
        text
    }

    fn section(&mut self, section: Section) {
        self.section = section;
        self.out.section(section.name());
    }

    /// Writes the header of a section, after a blank line if it is not the first.
    fn header(&mut self, section: Section, header: &'static str) {
        self.section(section);
        if !self.out.text().is_empty() {
            self.out.frame("separator", "\n\n");
        }
        if !header.is_empty() {
            self.out.frame("header", &format!("{header}\n"));
        }
    }

    fn system(&mut self, parts: Vec<Fragment<'a>>, file: Option<Fragment<'a>>, plan: &Plan) {
        self.section(Section::System);
        let parts = parts.into_iter().map(|part| (part, KeptPart::Whole));
        let file = file.into_iter().map(|file| (file, plan.file));
        for (index, (part, kept)) in parts.chain(file).enumerate() {
            if index > 0 {
                self.out.frame("separator", "\n\n");
            }
            self.fragment(part, kept);
        }
    }

    /// Writes the kept part of a fragment, with a mark where text is missing.
    fn fragment(&mut self, fragment: Fragment<'a>, kept: KeptPart) {
        let KeptPart::Ends { head, tail, mark, resumption } = kept else {
            self.forgery_check.body(self.section, &fragment.text);
            return self.out.fragment(fragment);
        };
        let Fragment { text, source } = fragment;
        let (needed, available) = (self.needed, self.max_bytes);
        let rule = match tail {
            0 => Rule::EndCut { needed, available },
            _ => Rule::MiddleCut { needed, available },
        };
        let tail_start = text.len() - tail;
        self.forgery_check.body(self.section, &text[..head]);
        let lines = lines_of(&source, &text, 0, head);
        self.out.piece(&text[..head], lines, mark.cut as u64, rule.clone());
        let line_break = if head > 0 { "\n" } else { "" };
        self.out.frame("mark", &format!("{line_break}{mark}{resumption}"));
        if tail > 0 {
            let lines = lines_of(&source, &text, tail_start, text.len());
            self.out.piece(&text[tail_start..], lines, 0, rule);
        }
    }

    /// Writes the kept part of a message with attached files, each part with its own source.
    fn parts(&mut self, text: &str, parts: Vec<MessagePart<'a>>, kept: KeptPart) {
        let (kept_len, mark) = match kept {
            KeptPart::Ends { head, mark, resumption, .. } => (head, Some((mark, resumption))),
            KeptPart::Whole => (text.len(), None),
        };
        self.forgery_check.body(self.section, &text[..kept_len]);
        let (needed, available) = (self.needed, self.max_bytes);
        let mut start = 0;
        for MessagePart { end, source } in parts {
            let own = &text[start..end];
            let piece = text.get(start..end.min(kept_len)).unwrap_or_default();
            let cut = (own.len() - piece.len()) as u64;
            start = end;
            let (source, rule) = match source {
                None => (Source::convoke("attachment"), Rule::Frame),
                Some(source) => (lines_of(&source, own, 0, piece.len()), Rule::Fits),
            };
            let rule = if cut == 0 { rule } else { Rule::EndCut { needed, available } };
            self.out.piece(piece, source, cut, rule);
        }
        if let Some((mark, resumption)) = mark {
            let line_break = if kept_len > 0 { "\n" } else { "" };
            self.out.frame("mark", &format!("{line_break}{mark}{resumption}"));
        }
    }

    fn context(&mut self, header: &'static str, lines: ContextLines<'a>, plan: &Plan) {
        if lines.messages.is_empty() {
            return;
        }
        if plan.dropped < lines.messages.len() {
            self.header(Section::Context, header);
        }
        let row = ContextRow::new(lines, plan);
        let forgery_check = &mut self.forgery_check;
        self.out.context(row, |text, ends| {
            for (index, message) in lines.messages.iter().enumerate().skip(plan.dropped) {
                if index > plan.dropped {
                    text.push('\n');
                }
                // Check and write each message together, while its bytes are in the cache.
                forgery_check.message(index, message);
                lines.write(message, text);
                ends.push(text.len() as u64);
            }
        });
    }
}

/// Returns the source of a part of a file, with its lines.
fn lines_of<'a>(source: &Source<'a>, text: &str, start: usize, end: usize) -> Source<'a> {
    match source {
        Source::File { path, lines: Some((first, _)) } if start < end => {
            let line_at =
                |at: usize| memchr_iter(b'\n', &text.as_bytes()[..at]).count() as u64 + first;
            Source::File { path: path.clone(), lines: Some((line_at(start), line_at(end - 1))) }
        }
        other => other.clone(),
    }
}
