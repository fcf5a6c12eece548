//! The origin of an item: its section in a request, and the sources of its text.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use convoke_core::ledger::{self, Rule, Source};
use convoke_core::{Fragment, SourcedText};

use super::classify::recognise;
use super::{Entry, SentItem};
use crate::item::ResponseItem;
use crate::json::entry;

/// The section of a request that an item belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Section {
    /// The text about permissions.
    Permissions,
    /// The configured developer instructions.
    DeveloperInstructions,
    /// The collaboration mode.
    CollaborationMode,
    /// A personality.
    Personality,
    /// A change of the model.
    ModelSwitch,
    /// The user instructions: documents, skills, notes.
    UserInstructions,
    /// The working directory and the shell of a turn.
    Environment,
    /// Input of the user.
    User,
    /// The text of a skill.
    Skill,
    /// An answer of the model.
    Model,
    /// The output of a tool.
    Tool,
    /// The note that a call has no output.
    MissingOutput,
    /// The note that a turn was interrupted.
    TurnAborted,
    /// The request for a summary.
    CompactionPrompt,
    /// A user message that a compaction kept.
    Kept,
    /// The summary of a compaction.
    Summary,
    /// An item of unknown origin.
    History,
}

impl Section {
    /// All sections.
    const ALL: [Self; 17] = [
        Self::Permissions,
        Self::DeveloperInstructions,
        Self::CollaborationMode,
        Self::Personality,
        Self::ModelSwitch,
        Self::UserInstructions,
        Self::Environment,
        Self::User,
        Self::Skill,
        Self::Model,
        Self::Tool,
        Self::MissingOutput,
        Self::TurnAborted,
        Self::CompactionPrompt,
        Self::Kept,
        Self::Summary,
        Self::History,
    ];

    /// Returns the name that ledgers and records use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Permissions => "permissions",
            Self::DeveloperInstructions => "developer-instructions",
            Self::CollaborationMode => "collaboration-mode",
            Self::Personality => "personality",
            Self::ModelSwitch => "model-switch",
            Self::UserInstructions => "user-instructions",
            Self::Environment => "environment",
            Self::User => "user",
            Self::Skill => "skill",
            Self::Model => "model",
            Self::Tool | Self::MissingOutput => "tool",
            Self::TurnAborted => "turn-aborted",
            Self::CompactionPrompt => "compaction-prompt",
            Self::Kept => "kept",
            Self::Summary => "summary",
            Self::History => "history",
        }
    }

    /// Finds a section by its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|section| section.name() == name)
    }

    /// Returns the source of an item in this section whose text was not written fragment by fragment.
    fn source(self, item: &ResponseItem) -> Source<'static> {
        let id = || item.id().map(|id| Cow::Owned(id.to_owned()));
        match self {
            Self::Permissions => Source::setting("sandbox_mode"),
            Self::DeveloperInstructions => Source::setting("developer_instructions"),
            Self::CollaborationMode => Source::setting("collaboration_mode"),
            Self::Personality => Source::setting("personality"),
            Self::ModelSwitch => Source::setting("model"),
            Self::Environment => Source::setting("cwd"),
            Self::CompactionPrompt => Source::setting("compact_prompt"),
            Self::MissingOutput => Source::convoke("missing output"),
            Self::TurnAborted => Source::convoke("note"),
            Self::User | Self::Kept => Source::Message { id: id(), index: None },
            Self::Model | Self::Summary => Source::Model { id: id(), index: None },
            Self::Tool => {
                let call = item.call_id().map(|id| Cow::Owned(id.to_owned()));
                Source::Tool { call, index: None }
            }
            Self::UserInstructions | Self::Skill | Self::History => Source::History { index: None },
        }
    }
}

/// The origin of an item's text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Origin {
    /// A known section. The whole text has the source that the section implies.
    Section(Section),
    /// A known section, with the entries that cover the texts of the item.
    Fragments(Section, Arc<[ledger::Entry<'static>]>),
    /// A Codex session file, which records no origin. The section is recognised from the text.
    Codex,
    /// A record without an origin.
    #[default]
    Unknown,
}

impl Origin {
    /// Returns the section, if it is known.
    pub fn section(&self) -> Option<Section> {
        match self {
            Self::Section(section) | Self::Fragments(section, _) => Some(*section),
            Self::Codex | Self::Unknown => None,
        }
    }

    /// Returns the entries that cover the texts of an item.
    pub(super) fn entries(&self, item: &ResponseItem) -> Vec<ledger::Entry<'static>> {
        let section = match self {
            Self::Fragments(_, entries) => return entries.to_vec(),
            Self::Section(section) => *section,
            Self::Codex | Self::Unknown => by_type(item).unwrap_or(Section::History),
        };
        let recognised = *self == Self::Codex && section == Section::History;
        let rule = if recognised { Rule::Recognised } else { Rule::Fits };
        let range = 0..item.text_bytes();
        vec![ledger::Entry { range, rule, ..entry(section.name(), section.source(item)) }]
    }

    /// Returns the origin of a truncated item, given the pieces of its texts in order.
    pub(crate) fn cut(&self, item: &ResponseItem, pieces: &[Piece], rule: &Rule<'static>) -> Self {
        let section = self.section().or_else(|| by_type(item)).unwrap_or(Section::History);
        let whole = self.entries(item);
        let mut kept: Vec<(Option<usize>, ledger::Entry<'static>)> = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Mark(bytes) => {
                    let mark = entry(section.name(), Source::convoke("mark"));
                    kept.push((
                        None,
                        ledger::Entry { range: 0..*bytes, rule: Rule::Frame, ..mark },
                    ));
                }
                Piece::Text(text) => {
                    kept.extend(whole.iter().enumerate().filter_map(|(index, it)| {
                        let range = text.start.max(it.range.start)..text.end.min(it.range.end);
                        let cut_bytes = 0;
                        (!range.is_empty()).then(|| {
                            (Some(index), ledger::Entry { range, cut_bytes, ..it.clone() })
                        })
                    }));
                }
            }
        }
        for (index, it) in whole.iter().enumerate() {
            let pieces = kept.iter().filter(|(of, _)| *of == Some(index));
            let bytes: u64 = pieces.map(|(_, piece)| piece.kept_bytes()).sum();
            let cut = it.kept_bytes() - bytes;
            let first = kept.iter().position(|(of, _)| *of == Some(index));
            let first = first.unwrap_or_else(|| {
                let next = kept.iter().position(|(of, _)| of.is_some_and(|of| of > index));
                let at = next.unwrap_or(kept.len());
                kept.insert(at, (Some(index), ledger::Entry { range: 0..0, ..it.clone() }));
                at
            });
            kept[first].1.cut_bytes = it.cut_bytes + cut;
            for (_, piece) in kept.iter_mut().filter(|(of, _)| cut > 0 && *of == Some(index)) {
                piece.rule = rule.clone();
            }
        }
        let mut at = 0;
        let placed = kept.into_iter().map(|(_, it)| {
            let range = at..at + it.kept_bytes();
            at = range.end;
            ledger::Entry { range, ..it }
        });
        Self::Fragments(section, placed.collect())
    }

    /// Returns the origin of the same text of an item in another section.
    pub(crate) fn in_section(self, item: &ResponseItem, section: Section) -> Self {
        match self {
            // The other section implies another source, or none is recorded.
            Self::Section(Section::Tool) | Self::Codex | Self::Unknown => {
                let entries = self.entries(item).into_iter().filter(|it| !it.range.is_empty());
                Self::Fragments(section, entries.collect()).in_section(item, section)
            }
            Self::Fragments(_, entries) => {
                let entries = entries.iter().cloned();
                let moved =
                    entries.map(|it| ledger::Entry { section: section.name().into(), ..it });
                Self::Fragments(section, moved.collect())
            }
            Self::Section(_) => Self::Section(section),
        }
    }

    /// Returns whether the entries cover the texts of an item, each ending at a character boundary.
    pub(crate) fn fits(&self, item: &ResponseItem) -> bool {
        let Self::Fragments(_, entries) = self else { return true };
        let text: String = item.texts().collect();
        let entries = entries.to_vec();
        let boundary = |it: &ledger::Entry<'_>| {
            usize::try_from(it.range.end).is_ok_and(|end| text.is_char_boundary(end))
        };
        entries.iter().all(boundary) && SourcedText::covered(text, entries).is_some()
    }
}

/// A piece of a truncated text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A range of the text.
    Text(Range<u64>),
    /// A truncation mark of this size.
    Mark(u64),
}

impl Piece {
    /// Returns the piece shifted by a number of bytes.
    pub(crate) fn after(self, bytes: u64) -> Self {
        match self {
            Self::Text(range) => Self::Text(range.start + bytes..range.end + bytes),
            Self::Mark(length) => Self::Mark(length),
        }
    }

    /// Returns the number of bytes of the text that the piece keeps.
    pub(crate) fn text_bytes(&self) -> u64 {
        match self {
            Self::Text(range) => range.end - range.start,
            Self::Mark(_) => 0,
        }
    }
}

/// Returns the section of an item if its type alone implies it.
fn by_type(item: &ResponseItem) -> Option<Section> {
    match item {
        ResponseItem::FunctionCallOutput(_) | ResponseItem::CustomToolCallOutput(_) => {
            Some(Section::Tool)
        }
        ResponseItem::Message(message) if message.role != "assistant" => None,
        ResponseItem::Compaction(_) => Some(Section::Summary),
        ResponseItem::Other(_) | ResponseItem::GhostSnapshot(_) => None,
        _ => Some(Section::Model),
    }
}

/// The sources of an item's texts, in the order in which they are written.
#[derive(Debug)]
pub(crate) struct Sources<'a> {
    kind: SourceEntries<'a>,
    /// The position of the item in the request.
    index: usize,
    is_restored: bool,
}

#[derive(Debug)]
enum SourceEntries<'a> {
    /// Not recorded.
    Unrecorded,
    One(ledger::Entry<'static>),
    /// A recognised summary: so many bytes of the prefix that all have, then the text.
    Summary {
        prefix: usize,
        text: ledger::Entry<'static>,
    },
    Many {
        entries: &'a [ledger::Entry<'static>],
        /// The number of written bytes of the first entry.
        written: u64,
    },
}

impl<'a> Sources<'a> {
    /// Creates the sources of a text that needs no ledger.
    pub(crate) fn unrecorded() -> Self {
        Self { kind: SourceEntries::Unrecorded, index: 0, is_restored: false }
    }

    /// Creates the sources of a text with one source.
    pub(crate) fn one(entry: ledger::Entry<'static>, is_restored: bool) -> Self {
        Self { kind: SourceEntries::One(entry), index: 0, is_restored }
    }

    /// Creates the sources of an item of a request. The section is recognised from the text only for items of a
    /// Codex session file.
    pub(crate) fn new(sent: &'a SentItem<'_>, index: usize, summary_prefix: &str) -> Self {
        let item = sent.item.as_ref();
        let one =
            |section: Section| SourceEntries::One(entry(section.name(), section.source(item)));
        let kind = match sent.origin.as_ref() {
            Origin::Fragments(_, entries) => SourceEntries::Many { entries, written: 0 },
            Origin::Section(section) => one(*section),
            Origin::Unknown => one(by_type(item).unwrap_or(Section::History)),
            Origin::Codex => {
                if let Some(section) = by_type(item) {
                    one(section)
                } else {
                    let section = recognise(item, summary_prefix);
                    let source = Source::History { index: None };
                    let rule = Rule::Recognised;
                    let text = ledger::Entry { rule, ..entry(section.name(), source) };
                    match section {
                        Section::Summary => {
                            let prefix = summary_prefix.len() + "\n".len();
                            SourceEntries::Summary { prefix, text }
                        }
                        _ => SourceEntries::One(text),
                    }
                }
            }
        };
        Self { kind, index, is_restored: sent.is_restored }
    }

    /// Returns the entry of the next bytes of a text with `rest` bytes left, and their number; `None` at the end of the
    /// text, or if no ledger is written. An entry without bytes was dropped.
    pub(crate) fn next(&mut self, rest: usize) -> Option<(usize, ledger::Entry<'static>)> {
        let (bytes, entry) = match &mut self.kind {
            SourceEntries::Unrecorded => return None,
            SourceEntries::One(entry) | SourceEntries::Summary { prefix: 0, text: entry } => {
                (rest, entry.clone())
            }
            SourceEntries::Summary { prefix, text } => {
                let source = Source::Convoke { what: "summary prefix".into() };
                (std::mem::take(prefix).min(rest), ledger::Entry { source, ..text.clone() })
            }
            SourceEntries::Many { entries, written } => match entries.split_first() {
                None => (rest, unattributed()),
                Some((first, others)) => {
                    let left = first.kept_bytes() - *written;
                    let bytes = usize::try_from(left).unwrap_or(usize::MAX).min(rest);
                    let mut entry = first.clone();
                    if *written > 0 {
                        entry.cut_bytes = 0;
                    }
                    *written += bytes as u64;
                    if left == bytes as u64 {
                        *entries = others;
                        *written = 0;
                        return Some((bytes, self.placed(entry)));
                    }
                    (bytes, entry)
                }
            },
        };
        (bytes > 0).then(|| (bytes, self.placed(entry)))
    }

    /// Returns the entry of a value that is not a text, because fragments cover only texts.
    pub(crate) fn value(&self) -> Option<ledger::Entry<'static>> {
        let entry = match &self.kind {
            SourceEntries::Unrecorded => return None,
            SourceEntries::One(entry) => entry.clone(),
            SourceEntries::Summary { .. } | SourceEntries::Many { .. } => unattributed(),
        };
        Some(self.placed(entry))
    }

    /// Adds the position in the request, and whether it was sent before.
    fn placed(&self, mut entry: ledger::Entry<'static>) -> ledger::Entry<'static> {
        match &mut entry.source {
            Source::Message { id: None, index }
            | Source::Tool { index, .. }
            | Source::Model { index, .. }
            | Source::History { index } => {
                index.get_or_insert(self.index);
            }
            _ => {}
        }
        if self.is_restored && entry.rule == Rule::Fits {
            entry.rule = Rule::FromThread;
        }
        entry
    }
}

/// Creates the entry of a text that the entries of its item do not cover.
fn unattributed() -> ledger::Entry<'static> {
    let entry = entry(Section::History.name(), Source::History { index: None });
    ledger::Entry { rule: Rule::Unattributed, ..entry }
}

impl Entry {
    /// Creates a message from a text that was written with its ledger.
    pub(crate) fn message(role: &str, section: Section, text: SourcedText<'static>) -> Self {
        let (text, entries) = text.into_parts();
        let origin = Origin::Fragments(section, entries.into());
        Self::new(ResponseItem::text(role, text), origin)
    }

    /// Creates a message from a text with one source.
    pub(crate) fn of_fragment(role: &str, section: Section, fragment: Fragment<'static>) -> Self {
        Self::message(role, section, SourcedText::new(section.name(), fragment))
    }
}
