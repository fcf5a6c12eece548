//! The ledger of a request that a program sent. The prompt and the system text keep the entries of their own ledger,
//! instruction files are found by their text, and the rest is the program's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use convoke_agent::TurnInput;
use convoke_agent::team_tools::SERVER;
use convoke_agent::thread::WITHHELD;
use convoke_agent::turn_input::Trust;
use convoke_core::ledger::{Entry, Ledger, Rule, Source, Target};
use convoke_protocol::agent_event::OwnerShare;
use convoke_rehearsal::{Answered, Recorded};
use convoke_vendor::MeasuredCli;
use convoke_wire::{ModelCall, RequestKind, RequestParts};

use super::ProgramHome;
use crate::capture::account::{self, MCP_SERVER, Place};
use crate::capture::ownership::{self, Given};
use crate::capture::{Origin, UserText};
use crate::explained::TurnInstructions;
use crate::host_environment::HostEnvironment;

/// The texts that an agent was given in one turn.
#[derive(Debug, Clone)]
pub(super) struct HandedOver {
    texts: Vec<OurText>,
    /// The bytes of the prompt and the system text.
    pub(super) bytes: u64,
    /// The arguments that a person gave the program.
    arguments: Vec<String>,
    /// The directory that the agent works in.
    cwd: Arc<Path>,
    trust: Trust,
    program: Program,
    has_team_tools: bool,
    /// The instruction files that the program does not get, once they were looked for.
    withheld: OnceLock<Vec<(PathBuf, u64)>>,
}

/// The program of a turn.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub vendor: &'static dyn MeasuredCli,
    /// Its version, if known.
    pub version: Option<String>,
    pub home: ProgramHome,
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
    pub(super) fn new(turn_input: &TurnInput, program: Program) -> Self {
        let entries = |target: Target| {
            let entries = turn_input.ledger.iter().flat_map(Ledger::entries);
            let kept = entries.filter(|it| it.target == target && it.kept_bytes() > 0);
            kept.map(Entry::into_owned).collect()
        };
        let text = |text: &str, entries| OurText { text: text.to_owned(), entries };
        let mut texts = vec![text(&turn_input.prompt, entries(Target::Prompt))];
        texts.extend(turn_input.system.iter().map(|it| text(it, entries(Target::System))));
        let bytes = texts.iter().map(|it| it.text.len() as u64).sum();
        texts.extend(program.vendor.facts().tail.map(|tail| text(tail, Vec::new())));
        Self {
            texts,
            bytes,
            arguments: Vec::new(),
            cwd: turn_input.cwd.as_path().into(),
            trust: turn_input.trust,
            program,
            has_team_tools: turn_input.team_tools.is_some(),
            withheld: OnceLock::new(),
        }
    }

    /// Creates the account of a program that a person started: Convoke hands nothing over.
    pub(super) fn by_person(arguments: Vec<String>, cwd: &Path, program: Program) -> Self {
        Self {
            texts: Vec::new(),
            bytes: 0,
            arguments,
            cwd: cwd.into(),
            trust: Trust::Trusted,
            program,
            has_team_tools: false,
            withheld: OnceLock::new(),
        }
    }

    /// Returns the ledger of a request, and its bytes by owner.
    pub(super) fn account(
        &self,
        call: &ModelCall,
        body: &str,
    ) -> Result<(Ledger<'static>, Vec<OwnerShare>), serde_json::Error> {
        let parts = RequestParts::parse(call.wire, body.as_bytes())?.parts;
        let mut yours: Vec<UserText> = self.texts.iter().map(OurText::as_given).collect();
        yours.extend(self.files(call, body));
        let ledger = account::ledger(body.as_bytes(), &parts, &yours);
        let shares = self.shares(&ledger);
        Ok((self.refined(&ledger, body), shares))
    }

    pub(super) fn vendor(&self) -> &'static dyn MeasuredCli {
        self.program.vendor
    }

    /// Returns whether a text is one of the program's own configuration, which its user may change at any time.
    pub(super) fn is_setting_of_user(&self, source: &Source<'_>) -> bool {
        let Source::Setting { name } = source else { return false };
        let directory = match &self.program.home {
            ProgramHome::Users(home) => Some(home.directory.as_path()),
            ProgramHome::Private(_) => None,
        };
        let found = self.program.vendor.setting_texts(&self.arguments, directory, &self.cwd);
        found.texts.iter().any(|(it, _)| it == name)
    }

    fn files(&self, call: &ModelCall, body: &str) -> Vec<UserText> {
        let (private_home, configuration_from) = match &self.program.home {
            ProgramHome::Users(home) => (Path::new("/nonexistent"), Some(home)),
            ProgramHome::Private(home) => (home.as_path(), None),
        };
        let arguments = &self.arguments;
        let given = Given { arguments, stdin: "", cwd: &self.cwd, configuration_from };
        let request = Recorded {
            number: 1,
            after: Duration::ZERO,
            method: "POST".to_owned(),
            target: String::new(),
            headers: Vec::new(),
            body: body.to_owned().into(),
            sent: None,
            kind: RequestKind::ModelCall(call.clone()),
            answered: Answered::Default,
            status: 200,
            usage: None,
            end: None,
        };
        ownership::candidates(&given, Some(self.program.vendor), &[request], private_home, None)
    }

    /// Returns the instruction files that the program would load in a trusted directory, with their bytes.
    fn withheld(&self) -> &[(PathBuf, u64)] {
        let find = || {
            let Program { vendor, version, home } = &self.program;
            let (home, directory) = match home {
                ProgramHome::Users(users) => (&users.home, Some(&users.directory)),
                ProgramHome::Private(home) => (home, None),
            };
            let variable = vendor.facts().directory_variable.zip(directory);
            let host_environment = HostEnvironment {
                environment: variable
                    .map(|(name, it)| (name.into(), it.into()))
                    .into_iter()
                    .collect(),
                home: home.clone(),
                cwd: self.cwd.to_path_buf(),
            };
            let explained =
                TurnInstructions::new(*vendor, version.as_deref(), self.trust, &host_environment);
            let withheld = explained.into_iter().flat_map(|it| it.withheld);
            withheld.map(|file| (file.path, file.bytes_loaded)).collect()
        };
        match self.trust {
            Trust::Trusted => &[],
            Trust::Untrusted => self.withheld.get_or_init(find),
        }
    }

    fn shares(&self, ledger: &Ledger<'_>) -> Vec<OwnerShare> {
        let mut bytes: BTreeMap<String, u64> = BTreeMap::new();
        for entry in ledger.entries() {
            let owner = match &entry.source {
                _ if self.is_team_tool(&entry) => OURS.to_owned(),
                Source::Setting { name } if name.starts_with(MCP_SERVER) => name.to_string(),
                Source::Program { .. } if entry.section == "tools" => "tools".to_owned(),
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

    /// Replaces the single entry of each given text by the entries of its own ledger, and adds the files that are withheld.
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
                None if self.is_team_tool(&entry) => {
                    let source = Source::Convoke { what: "team tools".into() };
                    refined.push(Entry { source, ..entry });
                }
                None => refined.push(entry),
                Some(text) => text.write(raw, &entry, &mut refined),
            }
        }
        for (path, cut_bytes) in self.withheld() {
            refined.push(Entry {
                target: Target::Prompt,
                section: "instructions".into(),
                source: Source::file(path.display().to_string()),
                range: body.len() as u64..body.len() as u64,
                cut_bytes: *cut_bytes,
                rule: Rule::Other(WITHHELD.into()),
            });
        }
        refined
    }

    /// Returns whether an entry is a tool of the MCP server that Convoke adds.
    fn is_team_tool(&self, entry: &Entry<'_>) -> bool {
        let server = match &entry.source {
            Source::Setting { name } => name.strip_prefix(MCP_SERVER),
            _ => None,
        };
        self.has_team_tools && server == Some(SERVER)
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
    use convoke_protocol::wire::Wire;
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
        let home = ProgramHome::Private("/nonexistent".into());
        let program =
            Program { vendor: convoke_vendors::cli("codex").unwrap(), version: None, home };
        let handed_over = HandedOver::new(&turn_input, program);
        let (ledger, shares) = handed_over.account(&call, &body).unwrap();
        assert!(ledger.covers(Target::Prompt, body.len() as u64));
        assert_eq!(convoke_conformance::check_ledger(&json!(ledger)), Ok(()));
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

    fn accounted(
        turn_input: &TurnInput,
        body: &serde_json::Value,
    ) -> (Ledger<'static>, Vec<OwnerShare>) {
        let wire = Wire::Messages;
        let call = ModelCall { wire, model: "m".to_owned(), streamed: true, aside: false };
        let home = ProgramHome::Private("/nonexistent".into());
        let version = Some("2.1.325".to_owned());
        let program = Program { vendor: convoke_vendors::cli("claude").unwrap(), version, home };
        HandedOver::new(turn_input, program).account(&call, &body.to_string()).unwrap()
    }

    #[test]
    fn a_file_that_is_withheld_is_in_the_ledger_with_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let cwd = directory.path().canonicalize().unwrap();
        std::fs::create_dir(cwd.join(".git")).unwrap();
        std::fs::write(cwd.join("CLAUDE.md"), "Always use tabs here.\n").unwrap();
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "Hello there."}]});
        let mut turn_input = TurnInput::new("Hello there.", &cwd);
        let dropped = |turn_input: &TurnInput| {
            let (ledger, shares) = accounted(turn_input, &body);
            assert!(ledger.covers(Target::Prompt, body.to_string().len() as u64));
            assert_eq!(convoke_conformance::check_ledger(&json!(ledger)), Ok(()));
            assert!(shares.iter().all(|share| share.owner != "CLAUDE.md"), "{shares:?}");
            let dropped = ledger.entries().filter(|entry| entry.kept_bytes() == 0);
            let shown =
                dropped.map(|it| (it.source.into_owned(), it.cut_bytes, it.rule.to_string()));
            shown.collect::<Vec<_>>()
        };
        let file = Source::file(cwd.join("CLAUDE.md").display().to_string());
        assert_eq!(dropped(&turn_input), [(file, 21, WITHHELD.to_owned())]);
        turn_input.trust = Trust::Trusted;
        assert_eq!(dropped(&turn_input), []);
    }

    #[test]
    fn tools_belong_to_convoke_to_the_users_servers_or_to_the_program() {
        let body = json!({
            "model": "m", "messages": [{"role": "user", "content": "Hello there."}],
            "tools": [{"name": "Bash"}, {"name": "mcp__github__search"}, {"name": "mcp__team__say"}],
        });
        let mut turn_input = TurnInput::new("Hello there.", "/nonexistent");
        turn_input.trust = Trust::Trusted;
        let owners = |turn_input: &TurnInput| {
            let mut owners: Vec<_> = accounted(turn_input, &body).1;
            owners.sort_by(|one, other| one.owner.cmp(&other.owner));
            owners.into_iter().map(|share| (share.owner, share.bytes)).collect::<Vec<_>>()
        };
        let own = |owner: &str, bytes: u64| (owner.to_owned(), bytes);
        let (bash, github) = (own("tools", 15), own("MCP server github", 30));
        let found = owners(&turn_input);
        assert!(found.contains(&bash) && found.contains(&github), "{found:?}");
        assert!(found.contains(&own("MCP server team", 25)), "the user's own: {found:?}");
        let attempt = convoke_protocol::id::AttemptRef {
            session: convoke_protocol::id::SessionId::generate(),
            turn: convoke_protocol::id::TurnId(1),
            attempt: 1,
        };
        let calls = tokio::sync::mpsc::channel(1).0;
        turn_input.team_tools = Some(convoke_agent::team_tools::TeamTools::new(attempt, calls));
        let found = owners(&turn_input);
        assert!(found.contains(&own("ours", 12 + 25)), "{found:?}");
        assert!(found.contains(&bash) && found.contains(&github), "{found:?}");
    }
}
