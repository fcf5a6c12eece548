use convoke_core::ledger::Target;
use convoke_core::{
    AssemblerInput, Assemblers, AttachedFile, ContextSource, Escaping, Fencing,
    PromptContextMessage, Trimming, begins_with_slash,
};

const AGENTS: [&str; 5] = ["claude", "codex", "gemini", "plain", "another"];
/// A field that is not set.
const ABSENT: &str = "-";

/// Assembles any input for any agent: the budget holds, and the ledger slices the text at character
/// boundaries.
///
/// The first four bytes select the agent, how often texts are repeated, whether they are fenced and
/// escaped, and the budget. The rest is text: fields that are separated by zeros.
pub fn assemble(bytes: &[u8]) -> bool {
    let Some((&[agent, form, budget @ ..], text)) = bytes.split_first_chunk::<4>() else {
        return false;
    };
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let agent = AGENTS[usize::from(agent) % AGENTS.len()];
    let input = input(text, form, u16::from_be_bytes(budget));
    let output = match Assemblers::default().assemble(agent, &input) {
        Ok(output) => output,
        Err(error) => {
            assert!(error.needed > error.available);
            return false;
        }
    };
    assert!(output.ledger.used_bytes() <= input.max_bytes);
    let system = output.system_flag.as_deref().unwrap_or_default();
    for (target, text) in [(Target::Prompt, output.prompt.as_str()), (Target::System, system)] {
        let mut at = 0;
        for entry in output.ledger.entries().filter(|entry| entry.target == target) {
            at += usize::try_from(entry.kept_bytes()).expect("a length");
            assert!(text.is_char_boundary(at), "{entry:?}");
        }
        assert_eq!(at, text.len(), "the ledger adds up");
        assert_eq!(input.escaping.count(text), 0, "everything is escaped");
    }
    let is_guarded = input.escaping == Escaping::LeadingSlash;
    assert!(!is_guarded || begins_with_slash(&output.prompt) != Some(true));
    true
}

fn input(text: &str, form: u8, budget: u16) -> AssemblerInput<'_> {
    let repeated = |text: &str| text.repeat(usize::from(form % 16) + 1);
    let mut fields = text.split('\0').map(|field| (field != ABSENT).then_some(field));
    let mut field = || fields.next().flatten();
    let message = field().unwrap_or_default();
    let (task, role, briefing) = (field(), field(), field());
    let (system, file, path) = (field(), field(), field());
    let rest: Vec<_> = fields.collect();
    let context = rest.chunks(3).map(|message| {
        let part = |index: usize| message.get(index).copied().flatten();
        PromptContextMessage {
            from: part(0).unwrap_or_default().into(),
            to: part(1).map(Into::into),
            content: part(2).unwrap_or_default().into(),
            source: ContextSource::Message(None),
        }
    });
    let attached = (form & 128 != 0).then(|| AttachedFile {
        path: path.unwrap_or_default().into(),
        text: repeated(file.unwrap_or(message)).into(),
    });
    AssemblerInput {
        context_messages: context.collect(),
        current_message: repeated(message).into(),
        current_message_id: None,
        attachments: attached.into_iter().collect(),
        team_task: task.map(Into::into),
        role_summary: role.map(Into::into),
        briefing: briefing.map(Into::into),
        system_instruction: system.map(Into::into),
        instruction_file_text: file.map(|file| repeated(file).into()),
        instruction_file_path: path.map(Into::into),
        max_bytes: u64::from(budget),
        fencing: if form & 16 == 0 { Fencing::AsWritten } else { Fencing::Indented },
        escaping: match form & 32 {
            0 if form.is_multiple_of(2) => Escaping::AsWritten,
            0 => Escaping::LeadingSlash,
            _ => Escaping::AtSigns,
        },
        trimming: if form & 64 == 0 { Trimming::BothEnds } else { Trimming::End },
    }
}
