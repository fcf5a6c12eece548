//! Reads a ledger from JSON. Rules are read back as text, which includes their figures.

use std::borrow::Cow;
use std::ops::Range;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::rule::{FROM_THREAD, FROM_THREAD_BEFORE, RECOGNISED, RECOGNISED_BEFORE, UNATTRIBUTED};
use super::{Entry, Ledger, Row, Rule, Source, Target};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredLedger {
    max_bytes: Option<u64>,
    unchanged_bytes: Option<u64>,
    entries: Vec<StoredEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredEntry {
    target: Target,
    section: String,
    source: Source<'static>,
    range: Option<(u64, u64)>,
    kept_bytes: u64,
    cut_bytes: u64,
    rule: String,
}

impl<'de> Deserialize<'de> for Ledger<'static> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let StoredLedger { max_bytes, unchanged_bytes, entries } =
            StoredLedger::deserialize(deserializer)?;
        let is_version_1 = entries.iter().any(|entry| entry.range.is_none());
        let mut ledger = Self { max_bytes, unchanged_bytes, is_version_1, rows: Vec::new() };
        let mut ends = [0_u64; 2];
        for stored in entries {
            let end = &mut ends[usize::from(stored.target == Target::System)];
            let range = match stored.range.filter(|_| !is_version_1) {
                Some((from, to)) => from..to,
                None => *end..end.saturating_add(stored.kept_bytes),
            };
            *end = range.end;
            ledger.rows.push(Row::One(stored.entry(range).map_err(D::Error::custom)?));
        }
        Ok(ledger)
    }
}

impl<'de> Deserialize<'de> for Entry<'static> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = StoredEntry::deserialize(deserializer)?;
        let (from, to) = stored.range.ok_or_else(|| D::Error::missing_field("range"))?;
        stored.entry(from..to).map_err(D::Error::custom)
    }
}

impl StoredEntry {
    fn entry(self, range: Range<u64>) -> Result<Entry<'static>, String> {
        if range.end.checked_sub(range.start) != Some(self.kept_bytes) {
            let (from, to, kept) = (range.start, range.end, self.kept_bytes);
            return Err(format!("the range [{from}, {to}) does not have {kept} bytes"));
        }
        let rule = match &*self.rule {
            "fits" => Rule::Fits,
            "frame" => Rule::Frame,
            FROM_THREAD | FROM_THREAD_BEFORE => Rule::FromThread,
            RECOGNISED | RECOGNISED_BEFORE => Rule::Recognised,
            UNATTRIBUTED => Rule::Unattributed,
            _ => Rule::Other(Cow::Owned(self.rule)),
        };
        Ok(Entry {
            target: self.target,
            section: Cow::Owned(self.section),
            source: self.source,
            range,
            cut_bytes: self.cut_bytes,
            rule,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::ledger::{Ledger, Style, Table};
    use crate::{AssemblerInput, Assemblers, ContextSource, PromptContextMessage};

    #[test]
    fn a_ledger_that_was_written_is_read_with_every_byte() {
        let said = |from: &'static str| PromptContextMessage {
            from: from.into(),
            to: None,
            content: "a fairly long remark".into(),
            source: ContextSource::Message(Some("msg-1".into())),
        };
        let input = AssemblerInput {
            context_messages: ["ada", "lin", "sam"].map(said).into(),
            current_message: "What now?".into(),
            system_instruction: Some("Be brief.".into()),
            instruction_file_text: Some("Read first.".into()),
            instruction_file_path: Some("agents/lin.md".into()),
            max_bytes: 130,
            ..AssemblerInput::default()
        };
        let ledger = Assemblers::default().assemble("codex", &input).unwrap().ledger;
        let json = serde_json::to_string(&ledger).unwrap();
        let read: Ledger<'static> = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), json);
        let table = |ledger: &Ledger<'_>| Table { ledger, style: Style::default() }.to_string();
        assert_eq!(table(&read), table(&ledger));
        assert!(json.contains("dropped"), "{json}");
    }
}
