//! Reading a ledger that was written as JSON. Rules come back in words: the arithmetic is in the text.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};

use super::{Entry, FROM_THREAD, FROM_THREAD_BEFORE, Ledger, Row, Rule, Source, Target};

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
    kept_bytes: u64,
    cut_bytes: u64,
    rule: String,
}

impl<'de> Deserialize<'de> for Ledger<'static> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let StoredLedger { max_bytes, unchanged_bytes, entries } =
            StoredLedger::deserialize(deserializer)?;
        let rows = entries.into_iter().map(|entry| Row::One(entry.into())).collect();
        Ok(Self { max_bytes, unchanged_bytes, rows })
    }
}

impl From<StoredEntry> for Entry<'static> {
    fn from(stored: StoredEntry) -> Self {
        let rule = match &*stored.rule {
            "fits" => Rule::Fits,
            "frame" => Rule::Frame,
            FROM_THREAD | FROM_THREAD_BEFORE => Rule::FromThread,
            _ => Rule::Other(Cow::Owned(stored.rule)),
        };
        Self {
            target: stored.target,
            section: Cow::Owned(stored.section),
            source: stored.source,
            kept_bytes: stored.kept_bytes,
            cut_bytes: stored.cut_bytes,
            rule,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ledger::{Ledger, Style, Table};
    use crate::{AssemblerInput, Assemblers, PromptContextMessage};

    #[test]
    fn a_ledger_that_was_written_is_read_with_every_byte() {
        let said = |from: &'static str| PromptContextMessage {
            from: from.into(),
            to: None,
            content: "a fairly long remark".into(),
            id: Some("msg-1".into()),
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
