//! The ledger of a request: the decoded text of every item, and one entry for all the rest.

use std::borrow::Cow;

use convoke_core::ledger::{Entry, Ledger, Rule, Source, Target};

use super::{Mapped, Prompt};
use crate::history::{Origin, Sent};
use crate::instructions::BaseSource;
use crate::user_instructions::PieceSource;

pub(super) fn of(prompt: &Prompt<'_>, mapped: &Mapped) -> Ledger<'static> {
    let mut ledger = Ledger::new(None);
    let mut sum = 0;
    let mut push = |entry: Entry<'static>| {
        sum += entry.kept_bytes;
        ledger.push(entry);
    };
    let base = match prompt.instructions.source {
        BaseSource::Given => "base_instructions",
        BaseSource::History => "history",
        BaseSource::Model => "model",
    };
    let bytes = prompt.instructions.text.len() as u64;
    push(entry("instructions", setting(base), bytes, 0));
    for (index, (sent, kept)) in prompt.input.iter().zip(&mapped.items).enumerate() {
        push_item(&mut push, index, sent, *kept);
    }
    if mapped.tools > 0 {
        push(entry("tools", setting("tools"), mapped.tools, 0));
    }
    if mapped.schema > 0 {
        push(entry("output-schema", setting("output_schema"), mapped.schema, 0));
    }
    // JSON never writes a text in fewer bytes than it has, so something is left for the envelope.
    let rest = (mapped.body.len() as u64).saturating_sub(sum);
    let what = Cow::Borrowed("envelope");
    let mut envelope = entry("envelope", Source::Convoke { what }, rest, 0);
    envelope.rule = Rule::Frame;
    ledger.push(envelope);
    ledger
}

fn push_item(push: &mut impl FnMut(Entry<'static>), index: usize, sent: &Sent<'_>, kept: u64) {
    if let Origin::UserInstructions(pieces) = sent.origin {
        for piece in pieces.iter() {
            let source = match &piece.source {
                PieceSource::File(path) => file(path),
                PieceSource::Skills => setting("skills"),
                PieceSource::ChildAgents => setting("features.child_agents_md"),
                PieceSource::Frame => Source::Convoke { what: Cow::Borrowed("wrapper") },
            };
            let mut entry = entry("user-instructions", source, piece.kept, piece.cut);
            if piece.cut > 0 {
                entry.rule = Rule::EndCut { needed: piece.kept + piece.cut, available: piece.kept };
            } else if piece.source == PieceSource::Frame {
                entry.rule = Rule::Frame;
            }
            push(entry);
        }
        return;
    }
    let (section, source) = place(index, sent);
    let not_told = sent.item.text_bytes().saturating_sub(kept);
    let mut entry = entry(section, source, kept, sent.cut + not_told);
    if not_told > 0 {
        entry.rule = Rule::Other(Cow::Borrowed("the Chat wire does not carry it"));
    } else if sent.cut > 0 {
        entry.rule = Rule::MiddleCut { needed: kept + sent.cut, available: kept };
    } else if matches!(sent.origin, Origin::Restored(_)) {
        entry.rule = Rule::FromThread;
    }
    push(entry);
}

fn place(index: usize, sent: &Sent<'_>) -> (&'static str, Source<'static>) {
    let item = || Source::Message {
        id: sent.item.id().map(|id| Cow::Owned(id.to_owned())),
        index: Some(index),
    };
    match sent.origin {
        Origin::Permissions => ("permissions", setting("sandbox_mode")),
        Origin::DeveloperInstructions => {
            ("developer-instructions", setting("developer_instructions"))
        }
        Origin::CollaborationMode => ("collaboration-mode", setting("collaboration_mode")),
        Origin::Personality => ("personality", setting("personality")),
        Origin::ModelSwitch => ("model-switch", setting("model")),
        Origin::UserInstructions(_) => ("user-instructions", item()),
        Origin::Environment => ("environment", setting("cwd")),
        Origin::User => ("user", item()),
        Origin::Skill(path) => ("skill", file(path)),
        Origin::Model => ("model", item()),
        Origin::Tool => ("tool", item()),
        Origin::TurnAborted => ("turn-aborted", item()),
        Origin::CompactionPrompt => ("compaction-prompt", setting("compact_prompt")),
        Origin::Kept => ("kept", item()),
        Origin::Summary => ("summary", item()),
        Origin::Restored(section) => (*section, item()),
        Origin::Missing => {
            let what = Cow::Borrowed("missing output");
            ("tool", Source::Convoke { what })
        }
    }
}

fn entry(section: &'static str, source: Source<'static>, kept: u64, cut: u64) -> Entry<'static> {
    Entry {
        target: Target::Prompt,
        section: Cow::Borrowed(section),
        source,
        kept_bytes: kept,
        cut_bytes: cut,
        rule: Rule::Fits,
    }
}

fn setting(name: &'static str) -> Source<'static> {
    let name = Cow::Borrowed(name);
    Source::Setting { name }
}

fn file(path: &std::path::Path) -> Source<'static> {
    Source::File { path: Cow::Owned(path.display().to_string()), lines: None }
}
