//! Budget planning: decides from sizes how much of each fragment to keep, before any text is rendered.
//!
//! Steps, in this order until the prompt fits: context messages are dropped whole, oldest first; the message is
//! cut to its first 64 bytes; the instruction file is cut to its head and tail; the message is cut to its mark.
//! The configured system text and the team task are never cut.

use crate::assembler::{Format, SystemPlace};
use crate::diagnostic::Diagnostic;
use crate::diagnostics;
use crate::fragment::{Fragment, Fragments, Section};
use crate::truncation::KeptPart;

/// The fragments that are never cut do not fit, together with the truncation marks of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the budget of {available} bytes is too small: {smallest} bytes are the least that this prompt \
     takes; raise max-bytes, or shorten the system text or the team task, which are never cut"
)]
pub struct BudgetTooSmall {
    /// The size of the configured system text and the team task, with headers and separators, in bytes. If
    /// these fit, equal to `smallest`.
    pub needed: u64,
    /// The smallest budget that gives a prompt: everything that can be cut is reduced to its mark.
    pub smallest: u64,
    /// The budget, in bytes.
    pub available: u64,
}

impl BudgetTooSmall {
    /// The code of this error.
    pub const CODE: &'static str = "budget.too-small";
}

/// The part of the message that is kept until the instruction file has been cut.
const MESSAGE_FLOOR: usize = 64;

/// The kept part of each fragment, and the sizes behind the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) max_bytes: u64,
    /// The size of the uncut prompt.
    pub(crate) needed: u64,
    /// The number of dropped context messages, oldest first.
    pub(crate) dropped: usize,
    /// The bytes of their lines.
    pub(crate) dropped_bytes: u64,
    pub(crate) file: KeptPart,
    pub(crate) message: KeptPart,
    /// The bytes of the prompt.
    pub(crate) prompt_len: usize,
    /// The bytes of the separate system text.
    pub(crate) apart_len: usize,
}

/// Plans the budget, in one pass over the context from newest to oldest.
pub(crate) fn plan(
    format: &Format,
    fragments: &Fragments<'_>,
    max_bytes: u64,
) -> Result<Plan, BudgetTooSmall> {
    let layout = Layout::new(format, fragments);
    let max = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    let context = fit_context(&layout, fragments, max);
    let mut plan = Plan {
        max_bytes,
        needed: context.needed as u64,
        dropped: context.dropped,
        dropped_bytes: context.dropped_bytes as u64,
        file: KeptPart::Whole,
        message: KeptPart::Whole,
        prompt_len: 0,
        apart_len: 0,
    };
    if !context.fits {
        (plan.file, plan.message) = cut(&layout, fragments, max)?;
    }
    let lengths = Lengths {
        file: fragments.file.as_ref().map_or(0, |file| plan.file.len(file.len())),
        context: context.kept_len,
        message: fragments.message.as_ref().map_or(0, |text| plan.message.len(text.len())),
    };
    plan.apart_len = layout.apart_len(lengths);
    plan.prompt_len = layout.total(lengths) - plan.apart_len;
    Ok(plan)
}

struct FittedContext {
    /// The size of the uncut prompt.
    needed: usize,
    dropped: usize,
    dropped_bytes: usize,
    kept_len: usize,
    /// Whether everything else fits.
    fits: bool,
}

/// Finds the largest suffix of the context that fits beside everything else.
fn fit_context(layout: &Layout, fragments: &Fragments<'_>, max: usize) -> FittedContext {
    let others = Lengths {
        file: fragments.file.as_ref().map_or(0, Fragment::len),
        context: 0,
        message: fragments.message.as_ref().map_or(0, Fragment::len),
    };
    let fixed = layout.total(others);
    let lines = &fragments.context;
    let room = max.checked_sub(fixed + layout.context_frame(others));
    let (mut kept, mut kept_len) = (0, 0);
    for message in lines.messages.iter().rev() {
        let len = kept_len + lines.size(message) + if kept > 0 { LINE_BREAK } else { 0 };
        if room.is_none_or(|room| len > room) {
            break;
        }
        (kept, kept_len) = (kept + 1, len);
    }
    // The ledger needs only the sizes of the dropped messages.
    let dropped = &lines.messages[..lines.messages.len() - kept];
    let dropped_bytes: usize = dropped.iter().map(|message| lines.size(message)).sum();
    let breaks = dropped.len() - usize::from(kept == 0 && !dropped.is_empty());
    let whole_len = kept_len + dropped_bytes + breaks * LINE_BREAK;
    FittedContext {
        needed: layout.total(Lengths { context: whole_len, ..others }),
        dropped: dropped.len(),
        dropped_bytes,
        kept_len,
        fits: fixed <= max,
    }
}

/// Cuts the message and the instruction file when dropping all context is not enough.
fn cut(
    layout: &Layout,
    fragments: &Fragments<'_>,
    max: usize,
) -> Result<(KeptPart, KeptPart), BudgetTooSmall> {
    let file = fragments.file.as_ref().map_or("", |file| &file.text);
    let message = fragments.message.as_ref().map_or("", |message| &message.text);
    // The bytes left for one text when the other takes `len` bytes.
    let room_for_message =
        |len| max.checked_sub(layout.total(Lengths { file: len, context: 0, message: 1 }) - 1);
    let room_for_file =
        |len| max.checked_sub(layout.total(Lengths { file: 1, context: 0, message: len }) - 1);

    let floor = message.floor_char_boundary(MESSAGE_FLOOR);
    if let Some(room) = room_for_message(file.len())
        && let Some(kept) = KeptPart::without_end(message, room, floor)
    {
        return Ok((KeptPart::Whole, kept));
    }

    let short_message = KeptPart::shortest(message, floor);
    let (resumption, escaping) =
        (fragments.context.fencing.resumption(), fragments.context.escaping);
    if let Some(room) = room_for_file(short_message.len(message.len()))
        && let Some(kept) = KeptPart::without_middle(file, room, resumption, escaping)
    {
        return Ok((kept, short_message));
    }

    let shortest_file = KeptPart::shortest(file, 0);
    if let Some(room) = room_for_message(shortest_file.len(file.len()))
        && let Some(kept) = KeptPart::without_end(message, room, 0)
    {
        return Ok((shortest_file, kept));
    }

    let never_cut = layout.total(Lengths { file: 0, context: 0, message: 0 });
    let with_marks = layout.total(Lengths {
        file: shortest_file.len(file.len()),
        context: 0,
        message: KeptPart::shortest(message, 0).len(message.len()),
    });
    let needed = if never_cut > max { never_cut } else { with_marks };
    Err(BudgetTooSmall {
        needed: needed as u64,
        smallest: with_marks as u64,
        available: max as u64,
    })
}

impl Plan {
    /// Returns a diagnostic for each kind of cut.
    pub(crate) fn diagnostics(&self) -> Vec<Diagnostic> {
        let mut diagnostics = Vec::new();
        let max = self.max_bytes;
        if self.dropped > 0 {
            let (count, bytes) = (self.dropped as u64, self.dropped_bytes);
            let message = match count {
                1 => format!(
                    "the oldest context message ({bytes} bytes) was left out to fit {max} bytes"
                ),
                _ => format!(
                    "the {count} oldest context messages ({bytes} bytes) were left out to fit {max} bytes"
                ),
            };
            diagnostics.push(
                Diagnostic::new(diagnostics::CONTEXT_DROPPED, message)
                    .in_section(Section::Context.name())
                    .with_count(count)
                    .with_bytes(bytes),
            );
        }
        if let KeptPart::Ends { mark, .. } = self.message {
            let bytes = mark.cut as u64;
            let message =
                format!("the last {bytes} bytes of the message were cut to fit {max} bytes");
            diagnostics.push(
                Diagnostic::new(diagnostics::MESSAGE_TRUNCATED, message)
                    .in_section(Section::Message.name())
                    .with_bytes(bytes),
            );
        }
        if let KeptPart::Ends { mark, .. } = self.file {
            let bytes = mark.cut as u64;
            let message =
                format!("{bytes} bytes of the instruction file's text were cut to fit {max} bytes");
            diagnostics.push(
                Diagnostic::new(diagnostics::INSTRUCTIONS_TRUNCATED, message)
                    .in_section(Section::System.name())
                    .with_bytes(bytes),
            );
        }
        diagnostics
    }
}

/// The sizes of the bodies that depend on the plan; 0 means absent.
#[derive(Debug, Clone, Copy)]
struct Lengths {
    file: usize,
    context: usize,
    message: usize,
}

/// The sizes of what a format adds around bodies, and of the bodies that are never cut.
struct Layout {
    system: SystemPlace,
    /// The bytes of each header, with its line break.
    system_header: usize,
    task_header: usize,
    context_header: usize,
    message_header: usize,
    /// The bytes of the system text that is never cut.
    configured: usize,
    task: usize,
}

/// The bytes of the line break between two context lines.
const LINE_BREAK: usize = 1;

/// The bytes of the blank line between two sections, or between two parts of the system text.
const SEPARATOR: usize = 2;

impl Layout {
    fn new(format: &Format, fragments: &Fragments<'_>) -> Self {
        let header = |text: &str| if text.is_empty() { 0 } else { text.len() + 1 };
        Self {
            system: format.system,
            system_header: header(format.headers.system),
            task_header: header(format.headers.task),
            context_header: header(format.headers.context),
            message_header: header(format.headers.message),
            configured: joined(fragments.system.iter().map(Fragment::len)),
            task: fragments.task.as_ref().map_or(0, Fragment::len),
        }
    }

    /// Returns the bytes of everything that is sent.
    fn total(&self, lengths: Lengths) -> usize {
        let section = |header, body| if body == 0 { 0 } else { header + body };
        let rest = [
            section(self.task_header, self.task),
            section(self.context_header, lengths.context),
            section(self.message_header, lengths.message),
        ];
        let system = self.system_body(lengths);
        match self.system {
            SystemPlace::Apart => system + joined(rest),
            SystemPlace::Inline => {
                joined([section(self.system_header, system)].into_iter().chain(rest))
            }
        }
    }

    /// Returns the bytes of the separate system text.
    fn apart_len(&self, lengths: Lengths) -> usize {
        match self.system {
            SystemPlace::Apart => self.system_body(lengths),
            SystemPlace::Inline => 0,
        }
    }

    fn system_body(&self, lengths: Lengths) -> usize {
        joined([self.configured, lengths.file])
    }

    /// Returns the bytes that a context adds beyond those of its lines.
    fn context_frame(&self, others: Lengths) -> usize {
        self.total(Lengths { context: 1, ..others })
            - self.total(Lengths { context: 0, ..others })
            - 1
    }
}

/// Returns the bytes of the non-empty parts, joined by separators.
fn joined(parts: impl IntoIterator<Item = usize>) -> usize {
    let present = parts.into_iter().filter(|&len| len > 0);
    present.reduce(|sum, len| sum + SEPARATOR + len).unwrap_or(0)
}
