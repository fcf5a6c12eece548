//! Chat without a full screen: each line of standard input is a message or a command, and the output is that of
//! `convoke run`.

use std::io::{self, BufRead as _, Write as _};
use std::time::Instant;

use convoke_chat::{
    Attachments as _, InputParser, PromptView, SentPrompt, UserAction, help, printable,
    read_last_prompt,
};
use convoke_protocol::event::{Event, StopReason};
use convoke_protocol::id::MemberName;
use convoke_server::{HeldRequest, answer};
use convoke_session::event_queue::{EventQueue, EventReceiver};
use convoke_session::file_changes::{UndoAction, UndoRequest};
use convoke_session::{NewMessage, Store as _};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{Receiver, channel};

use crate::commands::run::{self, Answers, Reached, RunEnd, Show, conclude, drive};
use crate::commands::serve::page::{self, SessionPage};
use crate::conversation::attachments::ProjectAttachments;
use crate::conversation::{self, Conversation};
use crate::figures::count;
use crate::host_environment;
use crate::outcome::{AfterWork as _, Outcome, UsageError, WorkDone};
use crate::terminal::{stderr, stdout};

/// Runs a conversation from the lines of standard input.
pub(super) async fn converse(arguments: &run::Arguments) -> anyhow::Result<Outcome> {
    let host_environment = host_environment::of_process()?;
    let began = Instant::now();
    let (observer, events) = EventQueue::new();
    let (observer, page_observer) = page::shared(Box::new(observer));
    let conversation =
        conversation::open(&arguments.conversation, &host_environment, observer).await?;
    let to = match run::addressees(&arguments.to, &conversation).await {
        Ok(to) => to,
        Err(error) => {
            conversation.discard().await?;
            return Err(error);
        }
    };
    let page =
        run::open_page(arguments.page, &host_environment, &conversation, &page_observer).await?;
    let mut chat = LineChat {
        page,
        speaker: conversation.speaker().await?,
        to,
        attachments: ProjectAttachments::new(&conversation, &host_environment),
        show: Show::new(arguments, &conversation),
        conversation,
        events,
        reached: Vec::new(),
        form: if arguments.json { OutputFormat::Json } else { OutputFormat::Text },
        stop: None,
        misunderstood: 0,
    };
    if let Err(error) = chat.show.opening(&chat.conversation).await {
        chat.conversation.discard().await?;
        return Err(error.context(WorkDone("nothing was run".to_owned())));
    }
    let listened = Box::pin(chat.listen()).await;
    let LineChat { conversation, mut show, reached, stop, speaker, misunderstood, form, .. } = chat;
    let stop = stop.unwrap_or(StopReason::Idle { person: speaker });
    let finale = RunEnd { stop, reached, elapsed: began.elapsed() };
    let is_kept = conversation.is_kept().await?;
    let outcome = match listened {
        Ok(()) if !is_kept && form == OutputFormat::Text => {
            writeln!(stdout(), "no messages; the session was not saved")?;
            Ok(show.denied(&arguments.deny))
        }
        Ok(()) => conclude(&conversation, &mut show, finale, &arguments.deny)
            .await
            .after("the conversation has ended"),
        Err(error) if error.is::<WorkDone>() => Err(error),
        Err(error) => Err(error.context(run::stopped(&conversation).await?)),
    };
    let store = conversation.coordinator.store().clone();
    conversation.discard().await?;
    store.close().await;
    match outcome? {
        Outcome::Done if misunderstood > 0 => {
            let lines = count(misunderstood, "line");
            Err(UsageError(format!("{lines} not understood; all other lines were processed"))
                .into())
        }
        outcome => Ok(outcome),
    }
}

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputFormat {
    Text,
    Json,
}

/// A chat without a full screen.
struct LineChat {
    conversation: Conversation,
    page: Option<SessionPage>,
    show: Show,
    events: EventReceiver<Event>,
    speaker: MemberName,
    to: Vec<String>,
    attachments: ProjectAttachments,
    reached: Vec<Reached>,
    form: OutputFormat,
    /// The reason of the last stop.
    stop: Option<StopReason>,
    /// The number of invalid lines.
    misunderstood: u64,
}

impl LineChat {
    /// Processes lines until the input ends or the person leaves.
    async fn listen(&mut self) -> anyhow::Result<()> {
        let mut lines = read_lines();
        let is_shared = self.conversation.coordinator.store().sharing().is_some();
        while self.stop != Some(StopReason::Left) {
            // Installed for each line separately: while agents run, their own loop handles interrupts.
            let mut interrupts = signal(SignalKind::interrupt())?;
            let mut ends = signal(SignalKind::terminate())?;
            let line = tokio::select! {
                biased;
                // Messages and turns of others are shown as they arrive.
                Some(event) = self.events.recv(), if is_shared => {
                    self.show.event(&event)?;
                    continue;
                }
                line = lines.recv() => line,
                error = self.conversation.coordinator.watch() => return Err(error.into()),
                request = page::next(&mut self.page) => {
                    self.take_part(request).await?;
                    continue;
                }
                _ = interrupts.recv() => None,
                _ = ends.recv() => None,
            };
            let Some(line) = line else { return Ok(()) };
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            match self.parser().understand(&line, &self.to) {
                Ok(UserAction::Quit) => return Ok(()),
                Ok(user_action) => match self.act(user_action).await {
                    Err(error) if error.is::<UsageError>() => {
                        self.reject(&line, &error.to_string())?;
                    }
                    done => done?,
                },
                // An invalid line must not lose the lines that follow.
                Err(why) => self.reject(&line, &why)?,
            }
        }
        Ok(())
    }

    fn parser(&self) -> InputParser<'_> {
        InputParser::new(self.conversation.coordinator.team_agents().team())
    }

    fn reject(&mut self, line: &str, why: &str) -> anyhow::Result<()> {
        self.misunderstood += 1;
        match self.form {
            OutputFormat::Text => Ok(writeln!(stderr(), "convoke: `{}`: {why}", printable(line))?),
            OutputFormat::Json => {
                write_json(&json!({"type": "misunderstood", "line": line, "why": why}))
            }
        }
    }

    async fn act(&mut self, user_action: UserAction) -> anyhow::Result<()> {
        match user_action {
            UserAction::Say { text, to } => {
                let to = self.parser().meant(&self.speaker, to);
                let message = NewMessage::from_person(self.speaker.as_str(), text).to(to);
                let message = self.attachments.attach(message).map_err(UsageError)?;
                self.conversation.coordinator.accept(message).await?;
                self.go_on().await
            }
            UserAction::Address(to) => {
                self.to = to;
                Ok(())
            }
            UserAction::SpeakAs(person) => {
                self.speaker = person;
                Ok(())
            }
            UserAction::Retry => {
                run::retry(&mut self.conversation).await?;
                self.go_on().await
            }
            UserAction::Continue => self.go_on().await,
            UserAction::Undo { action, turn, consent } => {
                let session = self.conversation.coordinator.session();
                self.undo(UndoRequest { session, action, turn, paths: Vec::new(), consent }).await
            }
            UserAction::Look(what, member) => self.look(what, member).await,
            UserAction::Edit(_) => Err(UsageError("an editor needs a terminal".to_owned()).into()),
            UserAction::Help => self.help(),
            // No turn runs between two lines.
            UserAction::Cancel | UserAction::Quit => Ok(()),
        }
    }

    /// Carries out a request of the page.
    async fn take_part(&mut self, request: HeldRequest) -> anyhow::Result<()> {
        match request {
            HeldRequest::Act(request, reply) => {
                let done = self.conversation.coordinator.carry_out(request).await;
                if answer(reply, done) { self.go_on().await } else { Ok(()) }
            }
            HeldRequest::Release(reply) => {
                // The client may have disconnected.
                let _ = reply.send(Err(page::kept()));
                Ok(())
            }
        }
    }

    async fn go_on(&mut self) -> anyhow::Result<()> {
        let Self { conversation, events, show, reached, page, .. } = self;
        // Lines of standard input are messages here, and a message cannot answer a question.
        let mut answers = Answers::without_input(conversation, page.take());
        let stop = drive(conversation, events, show, reached, &mut answers).await;
        *page = answers.into_page();
        let stop = stop?;
        if let StopReason::Addressed { person, .. } = &stop {
            self.speaker.clone_from(person);
        }
        self.stop = Some(stop);
        Ok(())
    }

    /// Undoes or redoes the changes of a turn, or previews that.
    async fn undo(&self, request: UndoRequest) -> anyhow::Result<()> {
        let coordinator = &self.conversation.coordinator;
        let recorder = coordinator.team_agents().recorder.clone();
        let recorder =
            recorder.ok_or_else(|| UsageError("no changes are recorded here".to_owned()))?;
        let kind = match request.action {
            UndoAction::Undo => "undo",
            UndoAction::Redo => "redo",
        };
        let done = recorder.undo(request).await;
        let text = done.map_err(UsageError)?;
        match self.form {
            OutputFormat::Text => Ok(writeln!(stdout(), "{}", printable(&text))?),
            OutputFormat::Json => write_json(&json!({"type": kind, "text": text})),
        }
    }

    /// Shows the last prompt of a member, or of all.
    async fn look(&self, what: PromptView, member: Option<MemberName>) -> anyhow::Result<()> {
        let coordinator = &self.conversation.coordinator;
        let (store, session) = (coordinator.store(), coordinator.session());
        let sheet = read_last_prompt(store, session, member.as_ref()).await?;
        let text = match (&sheet, what) {
            _ if self.form == OutputFormat::Json => {
                return write_json(&sheet_event(sheet.as_ref()));
            }
            (None, _) => "no prompt was sent yet\n".to_owned(),
            (Some(sheet), PromptView::Ledger) => sheet.table.clone(),
            (Some(sheet), PromptView::Prompt) => sheet.texts() + "\n",
        };
        let mut out = stdout();
        // A file gets the exact bytes; on a terminal, control characters are replaced.
        let text = if out.is_terminal() { printable(&text) } else { text.into() };
        Ok(out.write_all(text.as_bytes())?)
    }

    fn help(&self) -> anyhow::Result<()> {
        match self.form {
            OutputFormat::Text => Ok(stdout().write_all(help().as_bytes())?),
            OutputFormat::Json => write_json(&json!({"type": "help", "text": help()})),
        }
    }
}

/// Returns the JSON event of a prompt.
fn sheet_event(sheet: Option<&SentPrompt>) -> Value {
    let Some(sheet) = sheet else { return json!({"type": "sheet", "member": null}) };
    let SentPrompt { member, turn, attempt, table, system, prompt } = sheet;
    json!({
        "type": "sheet", "member": member, "turn": turn, "attempt": attempt,
        "prompt": prompt, "systemFlag": system, "table": table,
    })
}

fn write_json(value: &Value) -> anyhow::Result<()> {
    Ok(writeln!(stdout(), "{value}")?)
}

/// The number of lines that are read ahead.
const LINES_AHEAD: usize = 64;

/// Reads lines in a separate thread, which ends with the process: a read of standard input cannot be
/// interrupted.
fn read_lines() -> Receiver<io::Result<String>> {
    let (sender, lines) = channel(LINES_AHEAD);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}
