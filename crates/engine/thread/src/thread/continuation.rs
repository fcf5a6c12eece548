//! Continues a thread of Convoke, sending only the context that changed since its last turn.
//!
//! Codex sends the whole context again on resume ([`Thread::resume`]), so a thread of many turns would grow by
//! its context each time. Here, each text of the context is compared with the last one sent, and only changes
//! are sent. Earlier items stay byte for byte the same, as providers' caches require.

use std::collections::BTreeMap;

use convoke_core::diagnostic::Diagnostic;
use serde::{Deserialize, Serialize};

use super::{Setup, Thread, ThreadError};
use crate::config::Config;
use crate::diagnostics;
use crate::history::{Entry, Section};
use crate::record::Record;

/// The context that a model was last sent, by kind of text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LastSituation(BTreeMap<String, String>);

impl<'a> Thread<'a> {
    /// Continues a recorded thread under its own id, sending the changes of the context.
    pub fn continued(
        setup: Setup<'a>,
        config: Config,
        record: &Record,
        last: &LastSituation,
    ) -> Result<Self, ThreadError> {
        let mut thread = Self::new(setup, config, &record.id, record.base())?;
        let before = thread.diagnostics.len();
        thread.replay(record);
        // Earlier truncations were reported at the time.
        thread.diagnostics.truncate(before);
        thread.seeded = true;
        thread.set_resumed_model(record);
        thread.record_changes(last);
        Ok(thread)
    }

    /// Returns the context that the model was sent.
    pub fn last_situation(&self) -> LastSituation {
        let entries = self.build_initial_context(&self.previous, &mut Vec::new());
        let texts = entries.iter().filter_map(|entry| Some((place(entry)?, text(entry))));
        LastSituation(texts.map(|(place, text)| (place.to_owned(), text)).collect())
    }

    fn record_changes(&mut self, last: &LastSituation) {
        let mut diagnostics = Vec::new();
        let now = self.build_initial_context(&self.previous, &mut diagnostics);
        let mut withdrawn = last.0.clone();
        for entry in now {
            let Some(place) = place(&entry) else { continue };
            if withdrawn.remove(place).as_deref() != Some(&text(&entry)) {
                self.record(entry);
            }
        }
        for place in withdrawn.keys() {
            let message =
                format!("the {place} of earlier turns were removed, but stay in the thread");
            diagnostics.push(Diagnostic::new(diagnostics::THREAD_TEXT_WITHDRAWN, message));
        }
        self.diagnostics.append(&mut diagnostics);
    }
}

fn place(entry: &Entry) -> Option<&'static str> {
    Some(match entry.origin.section()? {
        Section::Permissions => "permissions",
        Section::DeveloperInstructions => "developer instructions",
        Section::CollaborationMode => "collaboration mode",
        Section::Personality => "personality",
        Section::UserInstructions => "user instructions",
        Section::Environment => "environment",
        _ => return None,
    })
}

fn text(entry: &Entry) -> String {
    entry.item.texts().collect()
}
