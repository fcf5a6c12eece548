//! Completes the messages of people on a page as the terminal does.

use std::sync::Arc;

use convoke_chat::{Attachments as _, InputParser};
use convoke_inspect::HostEnvironment;
use convoke_protocol::id::{MemberName, SessionId};
use convoke_server::Compose;
use convoke_session::{AnyStore, NewMessage, Store as _, StoreError};
use convoke_team::Team;

use crate::conversation::Conversation;
use crate::conversation::attachments::ProjectAttachments;

/// Returns a function that adds recipients, and the files of `@path`, to the messages of a conversation.
pub(super) fn compose(conversation: &Conversation, host_environment: &HostEnvironment) -> Compose {
    let attachments = Arc::new(ProjectAttachments::new(conversation, host_environment));
    let coordinator = &conversation.coordinator;
    let (store, session) = (coordinator.store().clone(), coordinator.session());
    let team = Arc::new(coordinator.team_agents().team().clone());
    Arc::new(move |message| {
        let (attachments, store) = (Arc::clone(&attachments), store.clone());
        let team = Arc::clone(&team);
        Box::pin(async move {
            let message = addressed(message, &team, &store, session).await?;
            // Reading files must not delay other requests.
            let attached = tokio::task::spawn_blocking(move || attachments.attach(message)).await;
            attached.map_err(|failed| failed.to_string())?
        })
    })
}

/// Resolves the recipients of a message: `@NAME` at its beginning, else the chosen ones, else the default recipient.
async fn addressed(
    mut message: NewMessage,
    team: &Team,
    store: &AnyStore,
    session: SessionId,
) -> Result<NewMessage, String> {
    let parser = InputParser::new(team);
    let (named, rest) = parser.addressed(&message.content);
    let mut to = message.addressees().to_vec();
    if !named.is_empty() {
        if rest.is_empty() {
            return Err("the message is empty: add a text".to_owned());
        }
        (to, message.content) = (named, rest.to_owned());
    }
    if to.is_empty() {
        let recipient =
            default_recipient(team, store, session).await.map_err(|error| error.to_string())?;
        to.push(recipient.ok_or("the team has no agents")?);
    }
    let to = parser.meant(&MemberName::new(message.speaker.name()), to);
    Ok(message.to(to))
}

/// Returns the recipient of a message that names none: the agent whose question a person has to answer, else the
/// first agent.
async fn default_recipient(
    team: &Team,
    store: &AnyStore,
    session: SessionId,
) -> Result<Option<String>, StoreError> {
    let open = store.open_turns(session).await?;
    if let Some(turn) = open.iter().find(|turn| team.is_person(&turn.member)) {
        let asking = store.message(session, turn.answers).await?.message;
        let author = team.resolve(asking.speaker.name());
        if let Some(agent) = author.filter(|author| team.agents().any(|agent| agent == *author)) {
            return Ok(Some(agent.to_string()));
        }
    }
    Ok(team.agents().next().map(ToString::to_string))
}
