//! The model: the whole state of a chat and its transitions. No I/O, no clock.

mod events;
mod keys;
pub(crate) mod questions;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::time::Duration;

use convoke_agent::diagnostics::SANDBOX_PARTIAL;
use convoke_core::{Code, Diagnostic};
use convoke_protocol::event::EventKind;
use convoke_protocol::id::{MemberName, TurnId};
use convoke_protocol::message::Message;
use convoke_protocol::permission::PermissionAnswer;
use convoke_protocol::view::QueuedTurn;
use convoke_session::file_changes::{UndoAction, UndoConsent};
use convoke_session::store::INBOX_LIMIT;
use convoke_session::{NewMessage, SessionRequest};
use convoke_team::Team;
use crossterm::event::KeyEvent;
use ratatui::layout::Size;

use self::questions::OpenQuestion;
use crate::completion::Completion;
use crate::editor::Editor;
use crate::history::StoredState;
use crate::layout::Areas;
use crate::overlay::{Overlay, Page};
use crate::running_turn::RunningTurn;
use crate::sent_prompt::SentPrompt;
use crate::text::printable_line;
use crate::transcript::{EarlierPage, MessageHeader, Tone, Transcript};
use crate::user_action::{InputParser, PromptView, UserAction};

/// The initial state of a chat.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The name of the conversation.
    pub name: String,
    /// The short id of the session.
    pub session: String,
    /// The option that names the store in a command, with a space before it; empty if none is needed.
    pub store_option: String,
    pub team: Team,
    /// The person who speaks.
    pub speaker: MemberName,
    /// The initial recipients.
    pub to: Vec<String>,
    /// A suggestion for the first message.
    pub suggestion: Option<String>,
    /// A label in the header, for example that the conversation is a rehearsal.
    pub label: Option<&'static str>,
    /// The diagnostics of opening the conversation.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether the bell rings when a turn needs the person.
    pub rings: bool,
}

/// An input to the model.
#[derive(Debug)]
pub enum Input {
    /// A key was pressed.
    Key(KeyEvent),
    /// A request of another client, for example a page.
    Remote(SessionRequest),
    /// Text was pasted.
    Paste(String),
    /// The terminal was resized.
    Resize(Size),
    /// Time passed; the value is the time since the start.
    Tick(Duration),
    /// An event of the conversation.
    Event(EventKind),
    /// The queued turns and the task.
    Queue(Vec<QueuedTurn>, Option<String>),
    /// A prompt that was read from the store.
    SentPrompt(Option<SentPrompt>, PromptView),
    /// Earlier messages that were read from the store, oldest first.
    Earlier(Vec<Message>),
    /// A message with the files that it attaches, or the error.
    Attached(Result<Box<NewMessage>, String>),
    /// The text from the person's editor, or the error.
    Edited(Result<String, String>),
    /// A request was refused and had no effect.
    Refused(String),
    /// A message of another client is in the inbox of the session.
    Interjected(Box<NewMessage>),
    /// A message could not be put into the inbox of the session.
    NotInterjected {
        message: Box<NewMessage>,
        /// The line that the person entered.
        line: String,
        /// The reason.
        why: String,
    },
    /// Another process continues the conversation.
    Woken,
    /// A short notice.
    Remark(String),
    /// A text to add to the conversation.
    Note(String),
    /// An interrupt signal, like Ctrl-C.
    Interrupt,
    /// A termination signal.
    Terminate,
}

/// An effect to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Store a message and run turns until it is a person's turn.
    Say(NewMessage),
    /// Store a message between two turns; with the line that the person entered.
    Interject(NewMessage, String),
    /// Run turns until it is a person's turn.
    Continue,
    /// Retry a turn, then run turns until it is a person's turn.
    Retry(TurnId),
    /// Undo or redo the changes of a turn, or preview that.
    Undo(UndoAction, Option<TurnId>, UndoConsent),
    /// Cancel the running turn.
    CancelTurn,
    /// Stop the running turns at once.
    Leave,
    /// Store the messages of the inbox and quit.
    Close,
    /// Read a prompt from the store.
    Read(TurnId, PromptView),
    /// Answer a question of an agent.
    Answer(String, PermissionAnswer),
    /// Read the files that a message attaches.
    Attach(NewMessage),
    /// Read earlier messages from the store.
    ReadEarlier(EarlierPage),
    /// Open a text in the person's editor.
    Edit(String),
    /// Suspend the program, as Ctrl-Z does elsewhere.
    Suspend,
}

/// The whole state of a chat.
#[derive(Debug, Clone)]
pub struct Chat {
    pub(crate) setup: Setup,
    pub(crate) speaker: MemberName,
    pub(crate) to: Vec<String>,
    pub(crate) task: Option<String>,
    pub(crate) transcript: Transcript,
    pub(crate) queue: Vec<QueuedTurn>,
    pub(crate) running: Vec<RunningTurn>,
    /// The messages that are not part of the conversation yet, in order.
    pub(crate) pending: Vec<NewMessage>,
    pub(crate) activity: Activity,
    pub(crate) editor: Editor,
    pub(crate) completion: Option<Completion>,
    pub(crate) chosen: usize,
    pub(crate) overlay: Option<Overlay>,
    /// Questions of agents, the oldest first.
    pub(crate) questions: Vec<OpenQuestion>,
    pub(crate) notice: Option<String>,
    /// The number of lines that the conversation is scrolled back.
    pub(crate) scrolled: usize,
    pub(crate) size: Size,
    pub(crate) now: Duration,
    /// Every diagnostic that was given.
    pub(crate) codes: Vec<Code>,
    /// The notices about sandboxes, which are the same for every turn.
    partial: HashSet<String>,
    /// The cost of the turns of this chat, as far as agents reported it.
    pub(crate) cost_usd: Option<f64>,
    /// Whether the bell is to ring.
    rings: bool,
    /// Whether the next Ctrl-C quits.
    is_interrupted: bool,
    /// The last turn that failed or was cancelled.
    unfinished: Option<TurnId>,
    /// The last turn of each member that got a prompt, the newest last.
    sent: Vec<(MemberName, TurnId)>,
}

/// The activity of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Waiting for a person.
    Waiting,
    /// Running turns.
    Working,
    /// Cancelling the running turn.
    Cancelling,
    /// Saving before the chat ends.
    Leaving,
}

impl Chat {
    /// Creates a chat from the stored state of a session.
    pub(crate) fn new(setup: Setup, past: StoredState, size: Size) -> Self {
        let StoredState { messages, left_out, sent, unfinished, queue, task } = past;
        let mut chat = Self {
            speaker: setup.speaker.clone(),
            to: setup.to.clone(),
            task,
            transcript: Transcript::new(&setup.session, &setup.store_option, left_out),
            queue,
            running: Vec::new(),
            pending: Vec::new(),
            activity: Activity::Waiting,
            editor: Editor::default(),
            completion: None,
            chosen: 0,
            overlay: None,
            questions: Vec::new(),
            notice: None,
            scrolled: 0,
            size,
            now: Duration::ZERO,
            codes: Vec::new(),
            partial: HashSet::new(),
            cost_usd: None,
            rings: false,
            is_interrupted: false,
            unfinished,
            sent,
            setup,
        };
        chat.resize(size);
        for message in &messages {
            chat.add_message(message);
        }
        for diagnostic in chat.setup.diagnostics.clone() {
            chat.diagnose(&diagnostic);
        }
        if !chat.queue.is_empty() {
            let count = chat.queue.len();
            let turns = if count == 1 {
                "1 turn queued".to_owned()
            } else {
                format!("{count} turns queued")
            };
            chat.transcript.hint(Tone::Warning, &format!("{turns}; /go continues"));
        }
        chat
    }

    /// Applies an input to the state and returns the effect to run.
    pub fn update(&mut self, input: Input) -> Option<Effect> {
        let lines_before = self.height_ever();
        let is_earlier = matches!(input, Input::Earlier(_));
        let effect = match input {
            Input::Key(key) => self.key(key),
            Input::Remote(request) => self.remote(request),
            Input::Paste(text) => self.paste(&text),
            Input::Resize(size) => self.resize(size),
            Input::Tick(now) => {
                self.now = now;
                None
            }
            Input::Event(event) => self.observe(event),
            Input::Queue(queue, task) => {
                (self.queue, self.task) = (queue, task);
                None
            }
            Input::SentPrompt(sheet, what) => self.show(sheet, what),
            Input::Earlier(messages) => {
                let read =
                    messages.iter().map(|message| (self.header(message), with_files(message)));
                let read = read.collect();
                self.transcript.say_earlier(read);
                None
            }
            Input::Attached(Ok(_)) if self.pending.len() >= INBOX_LIMIT => {
                self.editor.up();
                self.remark(too_many())
            }
            Input::Attached(Ok(message)) => Some(self.send(*message)),
            Input::Attached(Err(why)) => {
                // Recalls the line for correction.
                self.editor.up();
                self.remark(why)
            }
            Input::Edited(Ok(text)) => {
                self.editor.clear();
                self.paste(&text)
            }
            Input::Edited(Err(why)) => self.remark(why),
            Input::Refused(_) if self.activity == Activity::Leaving => Some(self.close()),
            Input::Refused(why) => {
                self.activity = Activity::Waiting;
                self.remark(why)
            }
            Input::Interjected(message) => {
                self.pending.push(*message);
                // The conversation may have stopped meanwhile, without it.
                (self.activity == Activity::Waiting).then(|| self.work(Effect::Continue))
            }
            Input::NotInterjected { message, line, why } => {
                if let Some(place) = self.pending.iter().position(|pending| *pending == *message) {
                    self.pending.remove(place);
                }
                // The line names recipients and files, which the text of the message does not.
                if self.editor.text().is_empty() {
                    self.editor.insert(&line);
                } else {
                    self.transcript.note(Tone::Warning, &format!("not sent: {line}"));
                    self.editor.remember(line);
                }
                self.remark(why)
            }
            Input::Woken => {
                (self.activity == Activity::Waiting).then(|| self.work(Effect::Continue))
            }
            Input::Note(text) => {
                self.transcript.note(Tone::Quiet, &text);
                None
            }
            Input::Remark(text) => self.remark(text),
            Input::Interrupt => self.interrupt(),
            Input::Terminate => Some(self.leave()),
        };
        // New lines at the end do not move a scrolled view.
        if self.scrolled > 0 && !is_earlier {
            self.scrolled += self.height_ever().saturating_sub(lines_before);
        }
        self.scrolled = self.scrolled.min(self.most_scrolled());
        self.transcript.is_read_back = self.scrolled > 0;
        effect
    }

    /// Returns whether the bell is to ring, once.
    pub(crate) fn takes_bell(&mut self) -> bool {
        std::mem::take(&mut self.rings) && self.setup.rings
    }

    /// Returns whether the person has quit.
    pub(crate) fn is_leaving(&self) -> bool {
        self.activity == Activity::Leaving
    }

    /// Returns whether the screen changes without input.
    pub fn is_busy(&self) -> bool {
        !self.running.is_empty()
    }

    /// Returns the number of lines of the conversation, with streamed replies.
    pub(crate) fn height(&self) -> usize {
        let running = self.running.iter().filter(|work| !work.lines().is_empty());
        let running: usize = running.map(|work| work.lines().len() + 2).sum();
        self.transcript.height() + running + 2 * self.pending.len()
    }

    /// Returns the number of lines that the conversation has ever had.
    fn height_ever(&self) -> usize {
        self.height() - self.transcript.height() + self.transcript.height_ever()
    }

    /// Returns the areas of the screen.
    pub(crate) fn areas(&self) -> Areas {
        Areas::new(self)
    }

    fn most_scrolled(&self) -> usize {
        self.height().saturating_sub(usize::from(self.areas().conversation.height))
    }

    fn resize(&mut self, size: Size) -> Option<Effect> {
        self.size = size;
        let width = self.text_width();
        self.transcript.resize(width);
        self.running.iter_mut().for_each(|work| work.resize(width));
        let page = self.areas().page_width();
        if let Some(overlay) = &mut self.overlay {
            overlay.resize(page);
        }
        None
    }

    /// Returns the width of texts.
    pub(crate) fn text_width(&self) -> usize {
        usize::from(self.size.width).saturating_sub(3).max(2)
    }

    fn show(&mut self, sheet: Option<SentPrompt>, what: PromptView) -> Option<Effect> {
        match sheet {
            Some(sheet) => {
                let page = Page::SentPrompt(Box::new(sheet), what);
                self.overlay = Some(Overlay::open(page, self.areas().page_width()));
                None
            }
            None => self.remark("no prompt was sent in that turn"),
        }
    }

    /// Handles an entered line.
    fn enter(&mut self) -> Option<Effect> {
        let line = self.editor.take();
        self.completion = None;
        if line.trim().is_empty() {
            return None;
        }
        self.scrolled = 0;
        match InputParser::new(&self.setup.team).understand(&line, &self.to) {
            Ok(UserAction::Say { .. }) if self.pending.len() >= INBOX_LIMIT => {
                self.editor.insert(&line);
                self.remark(too_many())
            }
            Ok(user_action) => self.act(user_action),
            Err(why) => {
                // Put the line back for correction.
                self.editor.insert(&line);
                self.remark(why)
            }
        }
    }

    fn act(&mut self, user_action: UserAction) -> Option<Effect> {
        match user_action {
            UserAction::Say { text, to } => Some(self.say(&text, to)),
            UserAction::Edit(text) => {
                // It stays in the line if the editor fails.
                self.editor.insert(&text);
                Some(Effect::Edit(text))
            }
            UserAction::Address(to) => {
                self.to = to;
                None
            }
            UserAction::SpeakAs(person) => {
                self.speaker = person;
                None
            }
            UserAction::Cancel => self.cancel(),
            UserAction::Retry | UserAction::Undo { .. } if self.activity != Activity::Waiting => {
                self.remark("agents are running; /cancel cancels the turn")
            }
            UserAction::Retry => match self.unfinished.take() {
                Some(turn) => Some(self.work(Effect::Retry(turn))),
                None => self.remark("no turn to retry"),
            },
            UserAction::Undo { action, turn, consent } => Some(Effect::Undo(action, turn, consent)),
            UserAction::Continue if self.activity != Activity::Waiting => {
                self.remark("agents are already running")
            }
            UserAction::Continue => Some(self.work(Effect::Continue)),
            UserAction::Look(what, member) => self.look(what, member.as_ref()),
            UserAction::Help => {
                self.overlay = Some(Overlay::open(Page::Help, self.areas().page_width()));
                None
            }
            UserAction::Quit => Some(self.leave()),
        }
    }

    fn say(&mut self, text: &str, to: Vec<String>) -> Effect {
        let to = InputParser::new(&self.setup.team).meant(&self.speaker, to);
        let message = NewMessage::from_person(self.speaker.as_str(), text).to(to);
        if text.contains('@') {
            return Effect::Attach(message);
        }
        self.send(message)
    }

    fn send(&mut self, message: NewMessage) -> Effect {
        self.pending.push(message.clone());
        if self.activity == Activity::Waiting {
            return self.work(Effect::Say(message));
        }
        let line = self.editor.last_entered().unwrap_or(&message.content).to_owned();
        Effect::Interject(message, line)
    }

    /// Returns whether a request from elsewhere waits for the running turn; the error is why it is refused.
    pub fn admits(&self, request: &SessionRequest) -> Result<bool, String> {
        let is_waiting = self.activity == Activity::Waiting;
        match request {
            _ if self.activity == Activity::Leaving => Err("the chat is ending".to_owned()),
            SessionRequest::Say(_) if self.pending.len() >= INBOX_LIMIT => Err(too_many()),
            SessionRequest::Say(_) => Ok(!is_waiting),
            SessionRequest::Continue | SessionRequest::Retry(_) if is_waiting => Ok(false),
            SessionRequest::Continue | SessionRequest::Retry(_) => {
                Err("a turn is running; try again when it has ended".to_owned())
            }
        }
    }

    /// Carries out a request from another client.
    fn remote(&mut self, request: SessionRequest) -> Option<Effect> {
        self.admits(&request).ok()?;
        Some(match request {
            SessionRequest::Say(message) => self.send(*message),
            SessionRequest::Continue => self.work(Effect::Continue),
            SessionRequest::Retry(turn) => self.work(Effect::Retry(turn)),
        })
    }

    fn look(&mut self, what: PromptView, member: Option<&MemberName>) -> Option<Effect> {
        let mut sent = self.sent.iter().rev();
        let found = match member {
            None => sent.next(),
            Some(member) => sent.find(|(name, _)| name == member),
        };
        match (found, member) {
            (Some((_, turn)), _) => Some(Effect::Read(*turn, what)),
            (None, Some(member)) => self.remark(format!("no prompt was sent to {member} yet")),
            (None, None) => self.remark("no prompt was sent yet"),
        }
    }

    fn cancel(&mut self) -> Option<Effect> {
        if self.activity != Activity::Working {
            return self.remark("no turn is running");
        }
        self.activity = Activity::Cancelling;
        Some(Effect::CancelTurn)
    }

    /// Quits at once, or when the running turns have ended.
    fn leave(&mut self) -> Effect {
        if self.activity == Activity::Waiting {
            return self.close();
        }
        self.activity = Activity::Leaving;
        Effect::Leave
    }

    fn close(&mut self) -> Effect {
        self.activity = Activity::Leaving;
        Effect::Close
    }

    fn work(&mut self, effect: Effect) -> Effect {
        self.activity = Activity::Working;
        self.transcript.remove_hints();
        effect
    }

    /// Shows a short notice.
    fn remark(&mut self, text: impl AsRef<str>) -> Option<Effect> {
        self.notice = Some(printable_line(text.as_ref()));
        None
    }

    fn add_message(&mut self, message: &Message) {
        let head = self.header(message);
        self.transcript.say(head, &with_files(message));
    }

    fn header(&self, message: &Message) -> MessageHeader {
        let from = message.from();
        MessageHeader {
            id: message.id().clone(),
            from: printable_line(from.as_str()),
            to: printable_line(&message.message.addressees().join(", ")),
            is_person: self.setup.team.is_person(&from),
            cost: String::new(),
        }
    }

    /// Shows a diagnostic, the first of its code with the fix.
    fn diagnose(&mut self, diagnostic: &Diagnostic) {
        let Diagnostic { code, message, .. } = diagnostic;
        let is_first = !self.codes.contains(code);
        self.codes.push(code.clone());
        if *code == SANDBOX_PARTIAL && !self.partial.insert(message.clone()) {
            return;
        }
        let fix = if is_first { format!(" ({})", code.fix()) } else { String::new() };
        self.transcript.note(Tone::Warning, &format!("{}: {message}{fix}", code.name()));
    }
}

/// Returns the text of a message, followed by the files that it attaches.
fn with_files(message: &Message) -> String {
    let mut text = message.text.clone();
    for file in message.attachments() {
        if !text.is_empty() {
            text.push('\n');
        }
        text += "+ ";
        text += &file.to_string();
    }
    text
}

fn too_many() -> String {
    format!("{INBOX_LIMIT} messages wait to be stored; send this later")
}
