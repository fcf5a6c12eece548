//! The input of a turn's prompt, stored so that the prompt can be assembled again.
//!
//! By default every turn gets the whole prompt and starts a new session of its agent: a resumed session contains more
//! than the prompt, such as the same messages from earlier prompts and the agent's own summaries. A member that remembers
//! (`memory = "session"`) continues its session, and its prompt has only what is new: see [`crate::memory`].

use std::borrow::Cow;

use convoke_agent::adapter::escaping;
use convoke_core::assembler::SystemPlace;
use convoke_core::{
    AgentContext, AssemblerInput, AssemblerOutput, Assemblers, BudgetTooSmall, ContextOptions,
    ContextSource, Escaping, PromptContextMessage, Visibility,
};
use convoke_protocol::attachment::{Attachment, with_attachments};
use convoke_protocol::content::ContentHash;
use convoke_protocol::id::{MemberName, MessageNumber, SessionId};
use convoke_protocol::image::Image;
use convoke_protocol::message::Message;
use convoke_team::{Member, Team};
use serde::{Deserialize, Serialize};

use crate::memory::{PromptMemory, keys};
use crate::store::{ContextReader, Store, StoreError};

/// The newest version of records.
const VERSION: u32 = 4;
/// The version of the records of members that do not remember.
const WITHOUT_MEMORY: u32 = 3;

/// The speaker of the texts about changed files and workspaces.
const SPEAKER: &str = "convoke";
/// The setting that asks for the text about changed files.
const CHANGES_SETTING: &str = "context.changes";
/// The setting that asks for the text about workspaces.
const WORKSPACES_SETTING: &str = "workspace";

/// The input of a prompt. Messages are referenced by number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptRecord {
    /// The version of this record.
    pub version: u32,
    pub member: MemberName,
    /// All names of the member.
    pub names: Vec<String>,
    /// The type of agent, which decides the format.
    pub agent_type: String,
    /// The members of the team.
    #[serde(rename = "roster")]
    pub members: Vec<MemberName>,
    /// The message to answer.
    pub answers: MessageNumber,
    /// The newest message when the prompt was assembled.
    pub as_of: MessageNumber,
    /// The context messages, newest first.
    pub context: Vec<MessageNumber>,
    /// The team task.
    pub task: Option<String>,
    /// The role summary of the member.
    pub role_summary: Option<String>,
    /// The configured system text.
    pub instructions: Option<String>,
    /// The briefing about the other members.
    pub briefing: Option<String>,
    pub instruction_file: Option<InstructionFile>,
    /// The changes of other members in the working directory since the member's last turn; `None` if the team
    /// file does not ask for them, or nothing changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<String>,
    /// The text about the team's workspaces; `None` if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspaces: Option<String>,
    /// What the member remembers; `None` if every turn of it starts afresh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<PromptMemory>,
    pub options: ContextOptions,
}

/// The text of an instruction file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstructionFile {
    /// The path, as in the team file.
    pub path: String,
    pub text: String,
}

/// The messages of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptMessages {
    /// The message to answer.
    pub current: Message,
    /// The context messages, newest first.
    pub earlier: Vec<Message>,
}

/// The maximum number of images of one turn: providers accept no more in one request.
const MAX_IMAGES: usize = 20;

/// A stored record of a prompt's input that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The record is invalid.
    #[error("the record of the prompt's input is invalid: {0}")]
    Invalid(#[from] serde_json::Error),
    /// A newer version of Convoke wrote the record.
    #[error(
        "the record of the prompt's input has version {0}, and this Convoke knows versions up to \
         {VERSION}; use a newer Convoke"
    )]
    Newer(u32),
}

impl PromptRecord {
    /// Reads a stored record.
    pub fn from_record(json: &str) -> Result<Self, RecordError> {
        let input: Self = serde_json::from_str(json)?;
        match input.version {
            ..=VERSION => Ok(input),
            newer => Err(RecordError::Newer(newer)),
        }
    }

    /// Creates the input of a member's prompt; [`Self::read`] adds the messages.
    pub fn new(
        team: &Team,
        member: &Member,
        instruction_file: Option<InstructionFile>,
        task: Option<&str>,
        answers: MessageNumber,
        as_of: MessageNumber,
    ) -> Self {
        let settings = member.agent();
        Self {
            version: WITHOUT_MEMORY,
            member: member.name.clone(),
            names: member.names().map(str::to_owned).collect(),
            agent_type: settings.map_or_else(String::new, |settings| settings.agent.clone()),
            members: team.names().cloned().collect(),
            answers,
            as_of,
            context: Vec::new(),
            task: task.map(str::to_owned),
            role_summary: settings.and_then(|settings| settings.role_summary.clone()),
            instructions: settings.and_then(|settings| settings.instructions.clone()),
            briefing: team.briefing_for(member),
            instruction_file,
            changes: None,
            workspaces: None,
            memory: None,
            options: ContextOptions {
                escaping: settings.map_or_else(Escaping::default, |it| escaping(&it.agent)),
                ..team.context_options(member)
            },
        }
    }

    /// Makes it the input of a member that remembers.
    pub fn remember(&mut self, memory: PromptMemory) {
        self.version = VERSION;
        self.memory = Some(memory);
    }

    /// Returns the messages that the member sees.
    pub(crate) fn reader(&self) -> ContextReader {
        match self.options.visibility {
            Visibility::All => ContextReader::Everything,
            Visibility::Addressed => ContextReader::Member(keys(&self.names)),
        }
    }

    /// Reads the messages as of the time of the record. O(window), or O(messages since the member's last turn).
    pub async fn read(
        &self,
        store: &impl Store,
        session: SessionId,
    ) -> Result<PromptMessages, StoreError> {
        let current = store.message(session, self.answers).await?;
        let mut earlier = store.window(session, self.search()).await?;
        earlier.retain(|message| self.is_new(message));
        if self.since().is_none() {
            earlier.truncate(self.options.window);
        }
        Ok(PromptMessages { current, earlier })
    }

    /// Returns the images of the messages, oldest first, and those that are too many for one turn.
    pub fn images(material: &PromptMessages) -> (Vec<Image>, Vec<Image>) {
        let messages = material.earlier.iter().chain([&material.current]);
        let mut images: Vec<Image> =
            messages.flat_map(|message| Image::from_message(&message.message)).collect();
        let shown = images.split_off(images.len().saturating_sub(MAX_IMAGES));
        (shown, images)
    }

    /// Assembles the prompt. The same input and the same messages give the same bytes.
    pub fn assemble(
        &self,
        material: &PromptMessages,
    ) -> Result<AssemblerOutput<'static>, BudgetTooSmall> {
        let clean = |message: &Message| message.message.text(self.options.text).into_owned();
        let text = clean(&material.current);
        let attached = Attachment::from_message(&material.current.message);
        let earlier_text = |message: &Message| with_attachments(clean(message), &message.message);
        let texts: Vec<String> = material.earlier.iter().map(earlier_text).collect();
        let earlier_count = material.earlier.len();
        let earlier = material
            .earlier
            .iter()
            .zip(&texts)
            .map(|(numbered, text)| PromptContextMessage::new(&numbered.message, text));
        let assemblers = Assemblers::default();
        let since = self.since();
        // The session of a member has its texts already. A text apart is given to every process again, and is equal.
        let is_told =
            since.is_some() && assemblers.system_place(&self.agent_type) == SystemPlace::Inline;
        let agent = if is_told { AgentContext::default() } else { self.agent_context() };
        let task = self
            .task
            .as_deref()
            .filter(|task| since.is_none_or(|since| since.task != Some(ContentHash::new(task))));
        // Everything that is new counts, whatever the window of a whole prompt is.
        let window = since.map_or(self.options.window, |_| earlier_count);
        let current = &material.current.message;
        let mut input = AssemblerInput::new(&agent, task, &self.options)
            .answering(current, &text, earlier, window);
        input.attachments = attached.iter().map(Attachment::file).collect();
        // The newest context message, so it is dropped last.
        let workspaces = self.workspaces.as_deref().filter(|text| {
            since.is_none_or(|since| since.workspaces != Some(ContentHash::new(text)))
        });
        let texts = [(self.changes.as_deref(), CHANGES_SETTING), (workspaces, WORKSPACES_SETTING)];
        let texts = texts.into_iter().filter_map(|(text, setting)| Some((text?, setting)));
        input.context_messages.extend(texts.map(|(text, setting)| PromptContextMessage {
            from: Cow::Borrowed(SPEAKER),
            to: Some(Cow::Borrowed(self.member.as_str())),
            content: Cow::Borrowed(text),
            source: ContextSource::Setting(setting),
        }));
        Ok(assemblers.assemble(&self.agent_type, &input)?.into_owned())
    }

    /// Returns the member's own texts.
    fn agent_context(&self) -> AgentContext<'_> {
        let file = self.instruction_file.as_ref();
        AgentContext {
            role_summary: self.role_summary.as_deref(),
            system_instruction: self.instructions.as_deref(),
            briefing: self.briefing.as_deref(),
            instruction_file_text: file.map(|file| &*file.text),
            instruction_file_path: file.map(|file| &*file.path),
            ..AgentContext::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use convoke_core::ledger::{Source, Target};
    use convoke_core::marker::TextPolicy;
    use convoke_core::{MessageId, NewMessage, Trimming};

    use super::*;

    #[test]
    fn texts_of_convoke_are_settings_in_the_ledger_and_every_byte_has_an_entry() {
        let mut input = PromptRecord::from_record(&record(VERSION).to_string()).unwrap();
        input.briefing = None;
        input.changes = Some("Changed since your last turn:\n- a.rs +1 -0".to_owned());
        input.workspaces = Some("You work in a copy.".to_owned());
        let message = |number: u64, from: &str, text: &str| {
            let mut message = NewMessage::from_person(from, text);
            let file = Attachment { path: "n.md".to_owned(), text: format!("{number}\n") };
            Attachment::add(vec![file], &mut message);
            let message = message.with_id(MessageId::numbered(number));
            Message::new(MessageNumber(number), None, message, TextPolicy::Preserve)
        };
        let material = PromptMessages {
            current: message(2, "lin", "And now?"),
            // A member may have the name that these texts are said under.
            earlier: vec![message(1, "convoke", "Look at this.")],
        };
        let whole = input.assemble(&material).unwrap();
        let mut sources = Vec::new();
        let mut at = 0;
        for entry in whole.ledger.entries().filter(|entry| entry.target == Target::Prompt) {
            assert_eq!(entry.range.start, at);
            at = entry.range.end;
            let place = |at: u64| usize::try_from(at).unwrap();
            let own = &whole.prompt[place(entry.range.start)..place(entry.range.end)];
            if !matches!(entry.source, Source::Convoke { .. }) {
                sources.push((entry.source, own));
            }
        }
        assert_eq!(at, whole.prompt.len() as u64);
        let said = |id: &'static str, index| Source::Message { id: Some(id.into()), index };
        let file = Source::File { path: "n.md".into(), lines: Some((1, 1)) };
        let changes = "- convoke: Changed since your last turn:\n- a.rs +1 -0";
        let expected = [
            (said("msg-1", Some(0)), "- convoke: Look at this.\n\nn.md:\n```\n1\n```"),
            (Source::setting("context.changes"), changes),
            (Source::setting("workspace"), "- convoke: You work in a copy."),
            (said("msg-2", None), "And now?"),
            (file, "2\n"),
        ];
        assert_eq!(sources, expected);
        // Where the budget cuts, the ledger still covers the prompt.
        for max_bytes in 0..at {
            input.options.max_bytes = max_bytes;
            let Ok(cut) = input.assemble(&material) else { continue };
            assert!(cut.ledger.covers(Target::Prompt, cut.prompt.len() as u64), "{max_bytes}");
        }
    }

    fn record(version: u32) -> serde_json::Value {
        let file = "[[member]]\nname = \"max\"\nagent = \"gemini\"\n";
        let team = Team::parse(file).unwrap();
        let (answers, as_of) = (MessageNumber(1), MessageNumber(1));
        let input = PromptRecord::new(&team, &team.members[0], None, None, answers, as_of);
        let mut record = serde_json::to_value(input).unwrap();
        record["version"] = version.into();
        record
    }

    #[test]
    fn records_of_earlier_versions_escape_nothing_and_trim_both_ends() {
        let mut earlier = record(1);
        let options = earlier["options"].as_object_mut().unwrap();
        options.remove("escaping");
        options.remove("trimming");
        let earlier = PromptRecord::from_record(&earlier.to_string()).unwrap();
        assert_eq!(earlier.options.escaping, Escaping::AsWritten);
        assert_eq!(earlier.options.trimming, Trimming::BothEnds);
        let current = PromptRecord::from_record(&record(VERSION).to_string()).unwrap();
        assert_eq!(current.options.escaping, Escaping::AtSigns);
        assert_eq!(current.options.trimming, Trimming::End);
    }

    #[test]
    fn records_of_later_versions_are_refused() {
        let error = PromptRecord::from_record(&record(VERSION + 1).to_string()).unwrap_err();
        assert!(matches!(error, RecordError::Newer(_)), "{error}");
    }
}
