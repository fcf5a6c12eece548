//! The ledger of a request that a program sent. The prompt and the system text keep the entries of their own ledger,
//! instruction files are found by their text, and the rest is the program's own.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use convoke_agent::adapter::CLAUDE_TAIL;
use convoke_agent::event::OwnerShare;
use convoke_agent::{TurnInput, Vendor};
use convoke_core::ledger::{Entry, Ledger, Source, Target};
use convoke_rehearsal::{Answered, Recorded};
use convoke_wire::{ModelCall, RequestKind, RequestParts};

use super::ProgramHome;
use crate::capture::account::{self, Place};
use crate::capture::ownership::{self, Given};
use crate::capture::{Origin, UserText};

/// The texts that an agent was given in one turn.
#[derive(Debug, Clone)]
pub(super) struct HandedOver {
    texts: Vec<OurText>,
    /// The directory that the agent works in.
    cwd: Arc<Path>,
    vendor: Vendor,
}

#[derive(Debug, Clone)]
struct OurText {
    text: String,
    /// The entries of its ledger; none if it was not assembled.
    entries: Vec<Entry<'static>>,
}

/// The owner of the prompt and the system text.
const OURS: &str = "ours";

impl HandedOver {
    pub(super) fn new(turn_input: &TurnInput, vendor: Vendor) -> Self {
        let entries = |target: Target| {
            let entries = turn_input.ledger.iter().flat_map(Ledger::entries);
            let kept = entries.filter(|it| it.target == target && it.kept_bytes() > 0);
            kept.map(Entry::into_owned).collect()
        };
        let text = |text: &str, entries| OurText { text: text.to_owned(), entries };
        let mut texts = vec![text(&turn_input.prompt, entries(Target::Prompt))];
        texts.extend(turn_input.system.iter().map(|it| text(it, entries(Target::System))));
        if vendor == Vendor::Claude {
            texts.push(text(CLAUDE_TAIL, Vec::new()));
        }
        Self { texts, cwd: turn_input.cwd.as_path().into(), vendor }
    }

    /// Returns the ledger of a request, and its bytes by owner.
    pub(super) fn account(
        &self,
        call: &ModelCall,
        body: &str,
        home: &ProgramHome,
    ) -> Result<(Ledger<'static>, Vec<OwnerShare>), serde_json::Error> {
        let parts = RequestParts::parse(call.wire, body.as_bytes())?.parts;
        let mut yours: Vec<UserText> = self.texts.iter().map(OurText::as_given).collect();
        yours.extend(self.files(call, body, home));
        let ledger = account::ledger(body.as_bytes(), &parts, &yours);
        let shares = self.shares(&ledger);
        Ok((self.refined(&ledger, body), shares))
    }

    fn files(&self, call: &ModelCall, body: &str, home: &ProgramHome) -> Vec<UserText> {
        let (private_home, configuration_from) = match home {
            ProgramHome::Users(home) => (Path::new("/nonexistent"), Some(home)),
            ProgramHome::Private(home) => (home.as_path(), None),
        };
        let given = Given { arguments: &[], stdin: "", cwd: &self.cwd, configuration_from };
        let request = Recorded {
            number: 1,
            after: Duration::ZERO,
            method: "POST".to_owned(),
            target: String::new(),
            headers: Vec::new(),
            body: body.to_owned().into(),
            kind: RequestKind::ModelCall(call.clone()),
            answered: Answered::Default,
            status: 200,
            usage: None,
        };
        ownership::candidates(&given, Some(self.vendor), &[request], private_home, None)
    }

    fn shares(&self, ledger: &Ledger<'_>) -> Vec<OwnerShare> {
        let mut bytes: BTreeMap<String, u64> = BTreeMap::new();
        for entry in ledger.entries() {
            let owner = match &entry.source {
                _ if entry.section == "tools" => "tools".to_owned(),
                Source::Program { .. } => "the program's own".to_owned(),
                Source::File { path, .. } => {
                    let path = Path::new(&**path);
                    let near = path.strip_prefix(&self.cwd).ok().map(Path::as_os_str);
                    let name = near.or_else(|| path.file_name()).unwrap_or_default();
                    name.to_string_lossy().into_owned()
                }
                _ => OURS.to_owned(),
            };
            *bytes.entry(owner).or_default() += entry.kept_bytes();
        }
        let shares = bytes.into_iter().map(|(owner, bytes)| OwnerShare { owner, bytes });
        sorted(shares.collect())
    }

    /// Replaces the single entry of each given text by the entries of its own ledger.
    fn refined(&self, ledger: &Ledger<'static>, body: &str) -> Ledger<'static> {
        let mut refined = Ledger::default();
        for entry in ledger.entries() {
            let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
            let raw = &body.as_bytes()[place(entry.range.start)..place(entry.range.end)];
            let ours = match &entry.source {
                Source::Setting { .. } => self.texts.iter().find(|it| it.is(raw)),
                _ => None,
            };
            match ours {
                None => refined.push(entry),
                Some(text) => text.write(raw, &entry, &mut refined),
            }
        }
        refined
    }
}

/// Returns shares with the largest first.
pub(super) fn sorted(mut shares: Vec<OwnerShare>) -> Vec<OwnerShare> {
    shares.sort_by(|one, other| (other.bytes, &one.owner).cmp(&(one.bytes, &other.owner)));
    shares
}

impl OurText {
    fn as_given(&self) -> UserText {
        UserText { origin: Origin::Stdin, text: self.text.clone(), cut_bytes: 0 }
    }

    /// Returns whether the content of a JSON string is this text.
    fn is(&self, raw: &[u8]) -> bool {
        let quoted = [b"\"", raw, b"\""].concat();
        serde_json::from_slice::<String>(&quoted).is_ok_and(|text| text == self.text)
    }

    fn write(&self, raw: &[u8], whole: &Entry<'static>, ledger: &mut Ledger<'static>) {
        let mut at = Place::default();
        let mut start = whole.range.start;
        let mut push = |end: u64, section, source, cut_bytes, rule| {
            let entry = Entry {
                target: Target::Prompt,
                section,
                source,
                range: start..end,
                cut_bytes,
                rule,
            };
            start = end;
            ledger.push(entry);
        };
        for entry in &self.entries {
            at.decode_up_to(usize::try_from(entry.range.end).unwrap_or(usize::MAX), raw);
            let Entry { section, source, cut_bytes, rule, .. } = entry.clone();
            push(whole.range.start + at.raw as u64, section, source, cut_bytes, rule);
        }
        if start < whole.range.end {
            let source = Source::Convoke { what: "prompt".into() };
            let rule = whole.rule.clone();
            ledger.push(Entry { source, range: start..whole.range.end, rule, ..whole.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use convoke_core::assembler::CodexAssembler;
    use convoke_core::{AssemblerInput, ContextAssembler as _};
    use convoke_wire::Wire;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_handed_over_keeps_the_entries_of_its_ledger() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("AGENTS.md"), "Always use \"tabs\" here.\n").unwrap();
        let input = AssemblerInput {
            current_message: "Is the \"token\"\nsafe?".into(),
            team_task: Some("Review".into()),
            system_instruction: Some("You are Max.".into()),
            ..AssemblerInput::default()
        };
        let output = CodexAssembler.assemble(&input).unwrap();
        let mut turn_input = TurnInput::new(output.prompt.clone(), directory.path());
        turn_input.ledger = Some(output.ledger.into_owned());
        let body = json!({
            "model": "m", "instructions": "You are an agent.",
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "# AGENTS.md\n\nAlways use \"tabs\" here.\n"}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": output.prompt}]},
            ],
            "tools": [{"type": "function", "name": "shell"}],
        })
        .to_string();
        let call = ModelCall {
            wire: Wire::Responses,
            model: "m".to_owned(),
            streamed: true,
            aside: false,
        };
        let handed_over = HandedOver::new(&turn_input, Vendor::Codex);
        let home = ProgramHome::Private("/nonexistent".into());
        let (ledger, shares) = handed_over.account(&call, &body, &home).unwrap();
        assert!(ledger.covers(Target::Prompt, body.len() as u64));
        assert_eq!(crate::schema::check_ledger(&json!(ledger)), Ok(()));
        assert_eq!(shares.iter().map(|share| share.bytes).sum::<u64>(), body.len() as u64);
        let owners: Vec<&str> = shares.iter().map(|share| &*share.owner).collect();
        assert!(
            ["tools", "ours", "AGENTS.md", "the program's own"]
                .iter()
                .all(|it| owners.contains(it)),
            "{owners:?}"
        );
        let place = |at: u64| usize::try_from(at).unwrap();
        let ours: Vec<Entry<'_>> = turn_input.ledger.iter().flat_map(Ledger::entries).collect();
        for entry in ours {
            let text = &turn_input.prompt[place(entry.range.start)..place(entry.range.end)];
            let found = ledger.entries().any(|it| {
                let raw = &body[place(it.range.start)..place(it.range.end)];
                it.source == entry.source
                    && serde_json::from_str::<String>(&format!("\"{raw}\""))
                        .is_ok_and(|it| it == text)
            });
            assert!(found, "{entry:?} is missing");
        }
    }
}
