//! Writing what was decided: the text once, into a buffer of the right size, and the ledger with it.

use std::borrow::Cow;

use memchr::memchr_iter;

use crate::assembler::{Format, SystemPlace};
use crate::budget::Plan;
use crate::diagnostic::Diagnostic;
use crate::forged::Watch;
use crate::fragment::{ContextLines, Fragment, Fragments, Section};
use crate::ledger::{ContextRow, Entry, Ledger, Rule, Source, Target};
use crate::truncation::{Kept, Mark};

/// The texts of a prompt and their account.
pub(crate) struct Rendered<'a> {
    pub(crate) prompt: String,
    pub(crate) system_flag: Option<String>,
    pub(crate) ledger: Ledger<'a>,
    /// What looks forged in the content that was written.
    pub(crate) forged: Vec<Diagnostic>,
}

/// Writes the sections in their fixed order.
pub(crate) fn render<'a>(format: &Format, fragments: Fragments<'a>, plan: &Plan) -> Rendered<'a> {
    let watch = Watch::new(format, &fragments.context, plan.dropped);
    let mut writer = Writer::new(plan, watch);
    let headers = &format.headers;
    let Fragments { system, file, task, context, message } = fragments;

    let has_system = !system.is_empty() || file.is_some();
    let mut system_flag = None;
    if has_system && format.system == SystemPlace::Apart {
        writer.begin_text(Target::System, plan.apart_len);
        writer.system(system, file, plan);
        system_flag = Some(writer.end_text(plan.apart_len));
        writer.begin_text(Target::Prompt, plan.prompt_len);
    } else {
        writer.begin_text(Target::Prompt, plan.prompt_len);
        if has_system {
            writer.header(Section::System, headers.system);
            writer.system(system, file, plan);
        }
    }
    if let Some(task) = task {
        writer.header(Section::TeamTask, headers.task);
        writer.fragment(task, Kept::Whole);
    }
    writer.context(headers.context, context, plan);
    if let Some(message) = message {
        writer.header(Section::Message, headers.message);
        writer.fragment(message, plan.message);
    }
    let prompt = writer.end_text(plan.prompt_len);
    Rendered { prompt, system_flag, ledger: writer.ledger, forged: writer.watch.found() }
}

struct Writer<'a> {
    text: String,
    target: Target,
    section: Section,
    max_bytes: u64,
    needed: u64,
    ledger: Ledger<'a>,
    watch: Watch<'a>,
}

impl<'a> Writer<'a> {
    fn new(plan: &Plan, watch: Watch<'a>) -> Self {
        Self {
            text: String::new(),
            target: Target::Prompt,
            section: Section::System,
            max_bytes: plan.max_bytes,
            needed: plan.needed,
            ledger: Ledger::new(Some(plan.max_bytes)),
            watch,
        }
    }

    fn begin_text(&mut self, target: Target, len: usize) {
        self.target = target;
        self.text = String::with_capacity(len);
    }

    fn end_text(&mut self, planned: usize) -> String {
        debug_assert_eq!(self.text.len(), planned, "the text is as long as it was decided");
        std::mem::take(&mut self.text)
    }

    /// Begins a section: a blank line after what stands before it, then its header.
    fn header(&mut self, section: Section, header: &'static str) {
        self.section = section;
        if !self.text.is_empty() {
            self.frame("separator", "\n\n");
        }
        if !header.is_empty() {
            let before = self.text.len();
            self.text.push_str(header);
            self.text.push('\n');
            self.enter_frame("header", before);
        }
    }

    fn system(&mut self, parts: Vec<Fragment<'a>>, file: Option<Fragment<'a>>, plan: &Plan) {
        self.section = Section::System;
        let parts = parts.into_iter().map(|part| (part, Kept::Whole));
        let file = file.into_iter().map(|file| (file, plan.file));
        for (index, (part, kept)) in parts.chain(file).enumerate() {
            if index > 0 {
                self.frame("separator", "\n\n");
            }
            self.fragment(part, kept);
        }
    }

    /// Writes what is kept of a fragment, with a mark where text is missing.
    fn fragment(&mut self, fragment: Fragment<'a>, kept: Kept) {
        let Fragment { text, source } = fragment;
        let Kept::Ends { head, tail, mark, resumption } = kept else {
            self.watch.body(self.section, &text);
            self.text.push_str(&text);
            return self.enter(source, text.len(), 0, Rule::Fits);
        };
        let (needed, available) = (self.needed, self.max_bytes);
        let rule = match tail {
            0 => Rule::EndCut { needed, available },
            _ => Rule::MiddleCut { needed, available },
        };
        let tail_start = text.len() - tail;
        self.watch.body(self.section, &text[..head]);
        self.text.push_str(&text[..head]);
        self.enter(lines_of(&source, &text, 0, head), head, mark.cut, rule.clone());
        self.mark(mark, head > 0, resumption);
        if tail > 0 {
            self.text.push_str(&text[tail_start..]);
            self.enter(lines_of(&source, &text, tail_start, text.len()), tail, 0, rule);
        }
    }

    fn mark(&mut self, mark: Mark, after_text: bool, resumption: &str) {
        let before = self.text.len();
        if after_text {
            self.text.push('\n');
        }
        self.text.push_str(&mark.to_string());
        self.text.push_str(resumption);
        self.enter_frame("mark", before);
    }

    fn context(&mut self, header: &'static str, lines: ContextLines<'a>, plan: &Plan) {
        if lines.messages.is_empty() {
            return;
        }
        if plan.dropped < lines.messages.len() {
            self.header(Section::Context, header);
        }
        let before = self.text.len();
        for (index, message) in lines.messages.iter().enumerate().skip(plan.dropped) {
            if index > plan.dropped {
                self.text.push('\n');
            }
            // Looked at and written at once, while its bytes are near.
            self.watch.message(index, message);
            lines.write(message, &mut self.text);
        }
        self.ledger.push_context(ContextRow {
            target: self.target,
            lines,
            dropped: plan.dropped,
            kept_bytes: (self.text.len() - before) as u64,
            needed: plan.needed,
            available: plan.max_bytes,
        });
    }

    /// Writes a text of ours.
    fn frame(&mut self, what: &'static str, text: &str) {
        let before = self.text.len();
        self.text.push_str(text);
        self.enter_frame(what, before);
    }

    fn enter_frame(&mut self, what: &'static str, before: usize) {
        let source = Source::Convoke { what: Cow::Borrowed(what) };
        self.enter(source, self.text.len() - before, 0, Rule::Frame);
    }

    fn enter(&mut self, source: Source<'a>, kept: usize, cut: usize, rule: Rule<'a>) {
        self.ledger.push(Entry {
            target: self.target,
            section: Cow::Borrowed(self.section.name()),
            source,
            kept_bytes: kept as u64,
            cut_bytes: cut as u64,
            rule,
        });
    }
}

/// Names the lines of a file that a part of its text spans.
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
