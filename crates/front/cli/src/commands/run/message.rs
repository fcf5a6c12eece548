//! The first message of a run and its recipients.

use std::path::Path;

use convoke_chat::{Attachments as _, InputParser};
use convoke_core::name::NameKey;
use convoke_files::FileKind;
use convoke_files::limit::read_stream_text;
use convoke_inspect::HostEnvironment;
use convoke_session::NewMessage;

use super::Arguments;
use crate::conversation::attachments::ProjectAttachments;
use crate::conversation::project::Origin;
use crate::conversation::{Conversation, sample};
use crate::outcome::UsageError;

/// The first message if the team file has a task and no message was given.
const BEGIN: &str = "Please begin with the team task.";
/// The first message of a rehearsal without a task.
const HELLO: &str = "Hello! Please introduce yourself.";

/// Returns the first message; `None` if a resumed session continues without one.
pub(super) async fn first_message(
    arguments: &Arguments,
    conversation: &Conversation,
    host_environment: &HostEnvironment,
) -> anyhow::Result<Option<NewMessage>> {
    if let Some(handover) = &arguments.handover {
        let (speaker, to) =
            (conversation.speaker().await?, addressees(&arguments.to, conversation).await?);
        return Ok(Some(NewMessage::from_person(speaker.as_str(), handover.clone()).to(to)));
    }
    let text = match &arguments.task[..] {
        [dash] if dash == "-" => {
            let input = std::io::stdin();
            read_stream_text(input, Path::new("-"), FileKind::Input).map_err(|error| {
                UsageError(format!("cannot read the task from standard input: {error}"))
            })?
        }
        [_, ..] => arguments.task.join(" "),
        [] if !conversation.is_new => {
            if !arguments.to.is_empty() {
                return Err(UsageError("--to needs a message".to_owned()).into());
            }
            return Ok(None);
        }
        [] if conversation.project.origin == Origin::Sample => sample::QUESTION.to_owned(),
        [] if conversation.project.team.task.is_some() => BEGIN.to_owned(),
        [] if conversation.backend.rehearsal().is_some() => HELLO.to_owned(),
        [] => {
            let file = &conversation.project.file;
            return Err(
                UsageError(format!("nothing to do: pass a TASK, or set `task` in {file}")).into()
            );
        }
    };
    if text.trim().is_empty() {
        return Err(UsageError("the task is empty".to_owned()).into());
    }
    let speaker = conversation.speaker().await?;
    let parser = InputParser::new(conversation.coordinator.team_agents().team());
    let (named, rest) = parser.addressed(&text);
    let message = if named.is_empty() {
        let to = addressees(&arguments.to, conversation).await?;
        NewMessage::from_person(speaker.as_str(), text).to(to)
    } else if rest.is_empty() {
        return Err(UsageError("the task is empty: add a message".to_owned()).into());
    } else {
        let to = parser.meant(&speaker, named);
        NewMessage::from_person(speaker.as_str(), rest).to(to)
    };
    // A text from a pipe may be untrusted, and must not choose which files are sent.
    if arguments.task == ["-"] {
        return Ok(Some(message));
    }
    let attached = ProjectAttachments::new(conversation, host_environment).attach(message);
    Ok(Some(attached.map_err(UsageError)?))
}

/// Returns the recipients of a text that names none.
pub(in crate::commands) async fn addressees(
    to: &[String],
    conversation: &Conversation,
) -> anyhow::Result<Vec<String>> {
    let team = conversation.coordinator.team_agents().team();
    if to.is_empty() {
        let recipient = conversation.default_recipient().await?;
        let recipient = recipient.ok_or_else(|| {
            let file = &conversation.project.file;
            UsageError(format!("{file}: the team has no agents"))
        })?;
        return Ok(vec![recipient.to_string()]);
    }
    let mut names = Vec::new();
    for written in to {
        if NameKey::new(written).is_all() {
            names.extend(team.agents().map(ToString::to_string));
        } else if let Some(member) = team.resolve(written) {
            names.push(member.to_string());
        } else {
            let hint = team.hint(written);
            return Err(
                UsageError(format!("--to: no member has the name `{written}`; {hint}")).into()
            );
        }
    }
    Ok(names)
}
