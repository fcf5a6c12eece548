//! A session of an editor: a conversation that answers one prompt after the other.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::path::Path;
use std::rc::Rc;

use convoke_chat::{InputParser, PromptView, UserAction, read_last_prompt};
use convoke_inspect::HostEnvironment;
use convoke_protocol::event::{Event, EventKind, StopReason};
use convoke_protocol::id::{MemberName, MessageNumber};
use convoke_protocol::image::Image;
use convoke_protocol::message::Message;
use convoke_session::event_queue::{EventQueue, EventReceiver};
use convoke_session::file_changes::UndoRequest;
use convoke_session::{Controls, NewMessage, Store as _};
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

use super::output::Output;
use super::prompt::{Prompt, fenced};
use super::updates::{Updates, chunk, safe};
use super::{ErrorResponse, INTERNAL_ERROR};
use crate::commands::run::{addressees, retry};
use crate::conversation::attachments::ProjectAttachments;
use crate::conversation::{self, Conversation, ConversationOptions};
use crate::program;

/// The maximum number of earlier messages that an editor gets.
const MESSAGES: usize = 1_000;

/// The commands of a prompt, with their descriptions.
const COMMANDS: [(&str, &str, Option<&str>); 6] = [
    ("who", "show the members and whose turn is next", None),
    ("ledger", "show the ledger of the last prompt", Some("member")),
    ("cancel", "cancel the running turn", None),
    ("undo", "preview undoing the last turn; `yes` undoes it", Some("[turn] [yes]")),
    ("redo", "preview redoing the turn undone last; `yes` redoes it", Some("[turn] [yes]")),
    ("to", "send the next messages to these members, or to all", Some("member …")),
];

/// Returns the update that announces the commands.
pub(super) fn commands() -> Value {
    let commands = COMMANDS.map(|(name, about, hint)| {
        let mut command = json!({ "name": name, "description": about });
        if let Some(hint) = hint {
            command["input"] = json!({ "hint": hint });
        }
        command
    });
    json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands })
}

/// A session of an editor.
pub(super) struct EditorSession {
    pub(super) id: String,
    controls: Controls,
    prompts: Sender<(Value, Prompt)>,
    state: Rc<State>,
    past: Vec<Message>,
    people: Vec<MemberName>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    /// The request of the running prompt.
    running: RefCell<Option<Value>>,
    is_cancelled: Cell<bool>,
}

impl EditorSession {
    /// Opens the conversation of a session. `servers` is the number of MCP servers that the editor offers.
    pub(super) async fn open(
        options: &ConversationOptions,
        host_environment: &HostEnvironment,
        output: Output,
        servers: usize,
    ) -> anyhow::Result<Self> {
        let (observer, events) = EventQueue::new();
        let conversation =
            conversation::open(options, host_environment, Box::new(observer)).await?;
        let opened = async {
            let to = addressees(&[], &conversation).await?;
            Ok((conversation.speaker().await?, to, past(&conversation).await?))
        };
        let (speaker, to, past) = match opened.await {
            Ok(opened) => opened,
            Err(error) => {
                conversation.discard().await?;
                return Err(error);
            }
        };
        let mut notes: Vec<String> =
            conversation.diagnostics.iter().map(|diagnostic| diagnostic.message.clone()).collect();
        let directory = &conversation.project.directory;
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if options.session.is_some() && !real(&host_environment.cwd).starts_with(real(directory)) {
            notes.push(format!("this session belongs to {}", real(directory).display()));
        }
        if servers > 0 {
            notes.push(format!("MCP servers of the editor are not passed on: {servers}"));
        }
        let team = conversation.coordinator.team_agents().team();
        let people = team.people().cloned().collect();
        let id = conversation.coordinator.session().to_string();
        let controls = conversation.coordinator.controls();
        let state = Rc::new(State::default());
        // A prompt is accepted only while no other is running.
        let (prompts, asked) = channel(1);
        let replies = Replies {
            attachments: ProjectAttachments::new(&conversation, host_environment),
            id: id.clone(),
            conversation,
            events,
            output,
            speaker,
            to,
            notes,
            state: Rc::clone(&state),
        };
        let (failed, open) = (Rc::clone(&state), replies.output.clone());
        let answering = tokio::task::spawn_local(replies.answer(asked));
        let task = tokio::task::spawn_local(async move {
            if let Err(error) = answering.await
                && let Some(prompt) = failed.running.take()
            {
                open.respond(
                    &prompt,
                    Err((INTERNAL_ERROR, format!("the session failed: {error}"))),
                );
            }
        });
        Ok(Self { id, controls, prompts, state, past, people, task })
    }

    /// Sends the stored messages of the session.
    pub(super) fn repeat(&self, output: &Output) {
        let left_out = self.past.first().map_or(0, |first| first.number.0 - 1);
        if left_out > 0 {
            let note = format!(
                "*{left_out} earlier messages are not shown; `convoke sessions show {}{}` shows them.*",
                self.id,
                program::store_option()
            );
            output.update(&self.id, &chunk("agent_message_chunk", &note, None));
        }
        let mut last = "";
        for message in &self.past {
            let is_person = self.people.contains(&message.from());
            let kind = if is_person { "user_message_chunk" } else { "agent_message_chunk" };
            let mut text = safe(&message.text);
            // Editors join successive chunks of the same kind.
            if !is_person || self.people.len() > 1 {
                text = format!("\n\n**{}:** {text}", message.from());
            } else if last == kind {
                text = format!("\n\n{text}");
            }
            last = kind;
            output.update(&self.id, &chunk(kind, &text, None));
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.state.running.borrow().is_some()
    }

    /// Returns whether the running prompt belongs to a request.
    pub(super) fn answers(&self, request: &Value) -> bool {
        self.state.running.borrow().as_ref() == Some(request)
    }

    /// Hands a prompt to the idle session. Fails if the session has failed.
    pub(super) fn prompt(&mut self, id: Value, prompt: Prompt) -> Result<(), ErrorResponse> {
        self.prompts.try_send((id.clone(), prompt)).map_err(|_| {
            ErrorResponse::new(INTERNAL_ERROR, "the session has failed; load it again")
        })?;
        self.state.running.replace(Some(id));
        self.state.is_cancelled.set(false);
        Ok(())
    }

    /// Cancels the running prompt, if there is one.
    pub(super) fn cancel(&self) {
        if self.is_busy() {
            self.state.is_cancelled.set(true);
            self.controls.cancel_turn();
        }
    }

    /// Terminates the agents of the running prompt.
    pub(super) fn leave(&self) {
        if self.is_busy() {
            self.controls.leave();
        }
    }

    /// Ends the session; everything is stored.
    pub(super) async fn end(self) {
        self.leave();
        drop(self.prompts);
        if let Err(error) = self.task.await {
            tracing::warn!("session {} ended with an error: {error}", self.id);
        }
    }
}

async fn past(conversation: &Conversation) -> anyhow::Result<Vec<Message>> {
    let coordinator = &conversation.coordinator;
    let (store, id) = (coordinator.store(), coordinator.session());
    let last = store.session(id).await?.state.last_message;
    let first = MessageNumber(last.0.saturating_sub(MESSAGES as u64));
    Ok(store.messages_after(id, first, MESSAGES).await?)
}

/// Adds the images that an editor sent to those that the text mentions.
fn with_images(mut message: NewMessage, sent: Vec<Image>) -> NewMessage {
    let mut images = Image::from_message(&message);
    images.extend(sent);
    Image::add(images, &mut message);
    message
}

/// The task that answers the prompts of a session.
struct Replies {
    id: String,
    conversation: Conversation,
    events: EventReceiver<Event>,
    output: Output,
    speaker: MemberName,
    to: Vec<String>,
    /// Notices that are sent with the first answer.
    notes: Vec<String>,
    state: Rc<State>,
    attachments: ProjectAttachments,
}

impl Replies {
    async fn answer(mut self, mut prompts: Receiver<(Value, Prompt)>) {
        while let Some((id, prompt)) = self.next(&mut prompts).await {
            for left_out in &prompt.left_out {
                let note =
                    format!("left out, because members read only text and images: {left_out}");
                self.notes.push(note);
            }
            for note in std::mem::take(&mut self.notes) {
                self.say(&format!("*{note}*\n\n"));
            }
            let mut outcome = self.reply(prompt).await;
            if self.state.is_cancelled.get() {
                // A cancelled prompt ends as cancelled, whatever its result.
                self.cancel_waiting().await;
                outcome = Ok("cancelled");
            }
            self.state.running.replace(None);
            let response = match outcome {
                Ok(reason) => Ok(json!({ "stopReason": reason })),
                Err(error) => Err((INTERNAL_ERROR, format!("{error:#}"))),
            };
            self.output.respond(&id, response);
        }
        // A session without messages is not stored.
        if let Err(error) = self.conversation.discard().await {
            tracing::warn!("an empty session was not removed: {error:#}");
        }
    }

    /// Waits for a prompt, and shows the messages and turns of others in a shared session. The protocol permits updates
    /// between two prompts.
    async fn next(&mut self, prompts: &mut Receiver<(Value, Prompt)>) -> Option<(Value, Prompt)> {
        let Self { id, conversation, events, output, notes, .. } = self;
        let coordinator = &mut conversation.coordinator;
        if coordinator.store().sharing().is_none() {
            return prompts.recv().await;
        }
        let people: Vec<MemberName> = coordinator.team_agents().team().people().cloned().collect();
        let mut updates = Updates::default();
        loop {
            tokio::select! {
                biased;
                prompt = prompts.recv() => {
                    updates.flush().iter().for_each(|waiting| output.update(id, waiting));
                    return prompt;
                }
                Some(event) = events.recv() => {
                    if let EventKind::Message(message) = &event.kind
                        && people.contains(&message.from())
                    {
                        let words = format!("\n\n**{}:** {}\n\n", message.from(), safe(&message.text));
                        updates.flush().iter().for_each(|waiting| output.update(id, waiting));
                        output.update(id, &chunk("agent_message_chunk", &words, None));
                    }
                    for update in updates.for_event(&event.kind) {
                        output.update(id, &update);
                    }
                }
                () = updates.due() => {
                    updates.flush().iter().for_each(|waiting| output.update(id, waiting));
                }
                error = coordinator.watch() => {
                    updates.flush().iter().for_each(|waiting| output.update(id, waiting));
                    notes.push(format!("cannot follow the session: {error}"));
                    return prompts.recv().await;
                }
            }
        }
    }

    fn say(&self, text: &str) {
        self.output.update(&self.id, &chunk("agent_message_chunk", &safe(text), None));
    }

    /// Answers a prompt, and returns why it stopped.
    async fn reply(&mut self, prompt: Prompt) -> anyhow::Result<&'static str> {
        let Prompt { text, images, .. } = prompt;
        let text = text.as_str();
        if let Some(after) = text.strip_prefix("/who")
            && after.chars().next().is_none_or(char::is_whitespace)
        {
            self.who();
            if !after.trim().is_empty() {
                self.say("\n\n*`/who` takes no argument; the text after it was not sent.*");
            }
            return Ok("end_turn");
        }
        let parser = InputParser::new(self.conversation.coordinator.team_agents().team());
        let action = match parser.understand(text, &self.to) {
            Ok(action) => action,
            Err(why) => {
                self.say(&why);
                return Ok("end_turn");
            }
        };
        match action {
            UserAction::Say { text, to } => {
                if let Err(why) = self.attachments.check_first_name(&text) {
                    self.say(&why);
                    return Ok("end_turn");
                }
                let to = parser.meant(&self.speaker, to);
                let message = NewMessage::from_person(self.speaker.as_str(), text).to(to);
                let message = match self.attachments.attach_images(message) {
                    Ok(message) => with_images(message, images),
                    Err(why) => {
                        self.say(&why);
                        return Ok("end_turn");
                    }
                };
                self.conversation.coordinator.accept(message).await?;
                return self.drive().await;
            }
            UserAction::Retry => {
                retry(&mut self.conversation).await?;
                return self.drive().await;
            }
            UserAction::Continue => return self.drive().await,
            UserAction::Address(to) => {
                self.say(&format!("The next messages go to {}.", to.join(", ")));
                self.to = to;
            }
            UserAction::SpeakAs(person) => {
                self.say(&format!("You speak as {person}."));
                self.speaker = person;
            }
            UserAction::Undo { action, turn, consent } => {
                let session = self.conversation.coordinator.session();
                self.undo(UndoRequest { session, action, turn, paths: Vec::new(), consent }).await;
            }
            UserAction::Look(what, member) => self.look(what, member).await?,
            UserAction::Cancel => self.say("No turn is running."),
            UserAction::Quit => self.say("Close the session in the editor."),
            UserAction::Edit(_) => self.say("Write the message here."),
            UserAction::Help => {
                let lines = COMMANDS.map(|(name, about, _)| format!("- `/{name}`: {about}"));
                self.say(&lines.join("\n"));
            }
        }
        Ok("end_turn")
    }

    /// Cancels the queued turns of a cancelled prompt, except in a shared session, where they may be other people's.
    async fn cancel_waiting(&mut self) {
        let coordinator = &mut self.conversation.coordinator;
        if coordinator.store().sharing().is_none() {
            let cancelled = coordinator.cancel_waiting().await;
            cancelled.unwrap_or_else(|error| self.notes.push(error.to_string()));
        }
    }

    /// Runs the conversation until it stops, and writes its events.
    async fn drive(&mut self) -> anyhow::Result<&'static str> {
        if self.state.is_cancelled.get() {
            return Ok("cancelled");
        }
        let Self { id, conversation, events, output, state, .. } = self;
        let controls = conversation.coordinator.controls();
        let mut updates = Updates::default();
        let mut has_turns = false;
        let mut show = |updates: &mut Updates, Event { kind: event, .. }: &Event| {
            has_turns |= matches!(event, EventKind::TurnStarted { .. });
            match event {
                // A question that a rule or an earlier answer decides has no answers.
                EventKind::PermissionAsked { member, question, answers, .. }
                    if !answers.is_empty() =>
                {
                    updates.flush().iter().for_each(|waiting| output.update(id, waiting));
                    output.ask(id, member.as_str(), question, controls.clone());
                }
                EventKind::PermissionAnswered { id: question, .. } => {
                    output.withdraw(question);
                }
                _ => {}
            }
            for update in updates.for_event(event) {
                output.update(id, &update);
            }
            if output.is_gone() {
                controls.leave();
            }
        };
        let running = conversation.coordinator.run();
        tokio::pin!(running);
        let stop = loop {
            // Starting a conversation clears earlier cancels, so a cancel that came before the start is repeated.
            if state.is_cancelled.get() {
                controls.cancel_turn();
            }
            tokio::select! {
                biased;
                Some(event) = events.recv() => show(&mut updates, &event),
                stop = &mut running => break stop,
                () = updates.due() => {
                    updates.flush().iter().for_each(|waiting| output.update(id, waiting));
                }
            }
        };
        while let Some(event) = events.try_recv() {
            show(&mut updates, &event);
        }
        updates.flush().iter().for_each(|waiting| output.update(id, waiting));
        let stop = stop?;
        if let StopReason::Addressed { person, .. } = &stop {
            self.speaker.clone_from(person);
        }
        if !has_turns && matches!(stop, StopReason::Idle { .. }) {
            let note = "*Stored; the message addresses no agent.*";
            output.update(id, &chunk("agent_message_chunk", note, None));
        }
        match stop {
            StopReason::Idle { .. } | StopReason::Addressed { .. } => Ok("end_turn"),
            StopReason::Cancelled { .. } | StopReason::Left => Ok("cancelled"),
            StopReason::TurnLimit { .. }
            | StopReason::Repetition { .. }
            | StopReason::QueueFull { .. } => Ok("max_turn_requests"),
            StopReason::TurnFailed { turns, .. } => {
                let failures: Vec<String> =
                    turns.iter().map(|turn| format!("{}: {}", turn.member, turn.outcome)).collect();
                anyhow::bail!("{}", failures.join("; "))
            }
        }
    }

    fn who(&self) {
        let coordinator = &self.conversation.coordinator;
        let team = coordinator.team_agents().team();
        let members = team.members.iter().map(|member| match member.agent() {
            // The team names the format of the prompt.
            Some(settings) => {
                let named = coordinator.team_agents().requirements.get(&member.name);
                let agent = named.map_or(&settings.agent, |it| &it.agent);
                format!("- **{}**: {agent}", member.name)
            }
            None => format!("- **{}**: a person", member.name),
        });
        let mut text = members.collect::<Vec<_>>().join("\n");
        let waiting: Vec<String> =
            coordinator.waiting().iter().map(|turn| turn.member.to_string()).collect();
        if !waiting.is_empty() {
            let _ = write!(text, "\n\nNext: {}", waiting.join(", "));
        }
        let _ = write!(text, "\n\nMessages go to {}.", self.to.join(", "));
        self.say(&text);
    }

    async fn undo(&self, request: UndoRequest) {
        let coordinator = &self.conversation.coordinator;
        let text = match coordinator.team_agents().recorder.clone() {
            Some(recorder) => recorder.undo(request).await.unwrap_or_else(|why| why),
            None => "no changes are recorded here".to_owned(),
        };
        self.say(&text);
    }

    async fn look(&self, what: PromptView, member: Option<MemberName>) -> anyhow::Result<()> {
        let coordinator = &self.conversation.coordinator;
        let (store, session) = (coordinator.store(), coordinator.session());
        let sheet = read_last_prompt(store, session, member.as_ref()).await?;
        let text = match (sheet, what) {
            (None, _) => "no prompt was sent yet".to_owned(),
            (Some(sheet), PromptView::Ledger) => {
                format!("**{}**, turn {}\n\n{}", sheet.member, sheet.turn, fenced("", &sheet.table))
            }
            (Some(sheet), PromptView::Prompt) => fenced("", &sheet.texts()),
        };
        self.say(&text);
        Ok(())
    }
}
