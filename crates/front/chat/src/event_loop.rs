//! The event loop: feeds keys, conversation events and time to the model, runs its effects, and draws it.

use std::ffi::OsString;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use convoke_core::Code;
use convoke_protocol::event::Event;
use convoke_protocol::id::{SessionId, TurnId};
use convoke_protocol::view::QueuedTurn;
use convoke_session::event_queue::{EventQueue, EventReceiver, Observer, Ready, merge_text};
use convoke_session::file_changes::{ChangeRecorder, UndoRequest};
use convoke_session::{
    Controls, Coordinator, CoordinatorError, NewMessage, SessionRequest, Store, StoreError,
};
use crossterm::event::Event as TerminalEvent;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::console::{ChatSignal, Console, next_key};
use crate::history;
use crate::interjections::{Interjection, Interjections, NotPut, Sender};
use crate::model::{Chat, Effect, Input, Setup};
use crate::sent_prompt;
use crate::terminal::Screen;
use crate::user_action::PromptView;
use crate::view::render;

/// The minimum time between two frames without input.
const FRAME: Duration = Duration::from_millis(33);
/// The interval at which the elapsed times are updated.
const TICK: Duration = Duration::from_millis(250);
/// The maximum number of events between two frames.
const BATCH: usize = 1_000;

/// An error that ends a chat.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// The terminal cannot be used.
    #[error("the terminal failed: {0}")]
    Terminal(#[from] io::Error),
    /// The conversation failed.
    #[error(transparent)]
    Conversation(#[from] CoordinatorError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Merges pieces of a text: a slow terminal draws the text, not every piece of it.
fn merge(last: &mut Input, next: Input) -> Option<Input> {
    match (last, next) {
        (Input::Event(last), Input::Event(next)) => merge_text(last, next).map(Input::Event),
        (_, next) => Some(next),
    }
}

/// The updates of a conversation, for its screen.
pub struct Updates {
    queue: EventQueue<Input>,
    receiver: EventReceiver<Input>,
}

impl Updates {
    /// Shows a text in the conversation.
    pub fn note(&self, text: String) {
        self.queue.push(Input::Note(text));
    }
}

/// The summary of an ended chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedChat {
    /// The codes of all diagnostics.
    pub codes: Vec<Code>,
}

struct ScreenObserver(EventQueue<Input>);

impl Observer for ScreenObserver {
    fn observe(&mut self, event: Event) {
        self.0.push(Input::Event(event.kind));
    }

    fn ready(&mut self) -> Ready<'_> {
        Box::pin(self.0.has_room())
    }
}

/// Creates the observer that a conversation is opened with, and the updates that its screen shows.
pub fn updates() -> (Box<dyn Observer>, Updates) {
    let (queue, receiver) = EventQueue::merging(merge);
    (Box::new(ScreenObserver(queue.clone())), Updates { queue, receiver })
}

/// A request of the screen to the conversation.
enum Request {
    Act(SessionRequest),
    /// Store the messages of the inbox and stop.
    Close,
}

/// The reply to a remote request: whether it waits for the running turn, or why it was refused.
pub type RemoteReply = oneshot::Sender<Result<bool, String>>;
/// Requests of people who take part through the page.
pub type RemoteRequests = mpsc::Receiver<(SessionRequest, RemoteReply)>;

/// The maximum number of queued requests. The screen sends one at a time, and finally the one to close.
const REQUEST_LIMIT: usize = 4;

/// The parts of the machine that a chat uses.
pub struct Host {
    /// Reads the files that messages attach.
    pub attachments: Box<dyn Attachments>,
    /// The command of the person's editor.
    pub editor: String,
    /// The search path of the editor: without directories of the project, where an agent could have put a program.
    pub search_path: OsString,
}

/// Reads the files that messages attach.
pub trait Attachments: Send + Sync {
    /// Returns the message with the files that its text names, or why one cannot be attached.
    fn attach(&self, message: NewMessage) -> Result<NewMessage, String>;
}

/// Runs a conversation in the terminal until the person quits. Everything is stored as it happens.
pub async fn run<S: Store + Clone>(
    coordinator: Coordinator<S>,
    updates: Updates,
    setup: Setup,
    host: Host,
    remote: Option<RemoteRequests>,
) -> Result<ClosedChat, ChatError> {
    let past = history::read(&coordinator).await?;
    let console = Console::take(host.editor, host.search_path)?;
    let chat = Chat::new(setup, past, console.screen.size()?);
    let (requests, asked) = mpsc::channel(REQUEST_LIMIT);
    let Updates { queue, receiver } = updates;
    let effects = EffectRunner {
        store: coordinator.store().clone(),
        session: coordinator.session(),
        controls: coordinator.controls(),
        recorder: coordinator.team_agents().recorder.clone(),
        attachments: host.attachments,
        requests: Some(requests),
        interjections: Interjections::new(coordinator.controls()),
        held_back: Vec::new(),
    };
    let conversation = answer_requests(coordinator, asked, queue);
    let shown = show(chat, console, receiver, effects, remote);
    let (answered, shown) = tokio::join!(conversation, shown);
    answered?;
    shown
}

/// Carries out requests, one after the other, until the screen sends no more.
async fn answer_requests<S: Store>(
    mut coordinator: Coordinator<S>,
    mut asked: mpsc::Receiver<Request>,
    updates: EventQueue<Input>,
) -> Result<(), CoordinatorError> {
    let standing = |coordinator: &Coordinator<S>| {
        let waiting = coordinator.waiting().iter().map(QueuedTurn::from).collect();
        Input::Queue(waiting, coordinator.task().map(str::to_owned))
    };
    loop {
        let request = tokio::select! {
            biased;
            request = asked.recv() => request,
            // Other processes continue a shared session: the screen asks to take part.
            woken = coordinator.wake() => {
                woken?;
                updates.push(Input::Woken);
                asked.recv().await
            }
        };
        let Some(request) = request else { return Ok(()) };
        match request {
            Request::Act(request) => match coordinator.carry_out(request).await {
                Err(error @ CoordinatorError::NoRetry { .. }) => {
                    updates.push(Input::Refused(error.to_string()));
                    continue;
                }
                done => drop(done?),
            },
            Request::Close => {
                match coordinator.deliver().await {
                    // They stay in the inbox, and are stored when the session is opened again.
                    Err(CoordinatorError::Store(error)) if error.is_transient() => {}
                    delivered => delivered?,
                }
                continue;
            }
        }
        updates.push(standing(&coordinator));
        coordinator.run().await?;
        updates.push(standing(&coordinator));
    }
}

/// Runs the effects of the model.
struct EffectRunner<S> {
    store: S,
    session: SessionId,
    controls: Controls,
    recorder: Option<Arc<dyn ChangeRecorder>>,
    attachments: Box<dyn Attachments>,
    /// `None` once the person has quit; dropping it ends the conversation.
    requests: Option<mpsc::Sender<Request>>,
    /// The messages that are being put into the inbox.
    interjections: Interjections,
    /// The requests that came after them, and wait for them.
    held_back: Vec<Request>,
}

impl<S: Store> EffectRunner<S> {
    /// Runs an effect and returns the resulting input.
    async fn carry_out(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Say(message) => {
                self.request(Request::Act(SessionRequest::Say(Box::new(message))))
            }
            Effect::Interject(message, line) => {
                self.interjections.push(Interjection { message, sender: Sender::Here(line) });
                None
            }
            Effect::Continue => self.request(Request::Act(SessionRequest::Continue)),
            Effect::Retry(turn) => self.request(Request::Act(SessionRequest::Retry(turn))),
            Effect::Undo(action, turn, consent) => {
                let session = self.session;
                Some(
                    self.undo(UndoRequest { session, action, turn, paths: Vec::new(), consent })
                        .await,
                )
            }
            Effect::CancelTurn => {
                self.controls.cancel_turn();
                None
            }
            Effect::Leave => {
                self.controls.leave();
                None
            }
            Effect::Close => self.request(Request::Close),
            Effect::Answer(question, answer) => {
                self.controls.answer(&question, answer);
                None
            }
            Effect::Read(turn, view) => Some(self.read(turn, view).await),
            Effect::Attach(message) => {
                Some(Input::Attached(self.attachments.attach(message).map(Box::new)))
            }
            Effect::ReadEarlier(page) => {
                let read = history::read_earlier(&self.store, self.session, page);
                Some(match read.await {
                    Ok(messages) => Input::Earlier(messages),
                    Err(error) => Input::Remark(error.to_string()),
                })
            }
            // The console runs the effects on the terminal.
            Effect::Edit(_) | Effect::Suspend => None,
        }
    }

    /// Sends a request to the conversation, once the messages before it are in the inbox.
    fn request(&mut self, request: Request) -> Option<Input> {
        if !self.interjections.is_empty() {
            self.held_back.push(request);
            return None;
        }
        let is_last = matches!(request, Request::Close);
        let sent = self.requests.as_ref()?.try_send(request);
        if is_last {
            self.requests = None;
        }
        match sent {
            // A closed queue means that the conversation is over.
            Ok(()) | Err(TrySendError::Closed(_)) => None,
            Err(TrySendError::Full(_)) => Some(Input::Refused("the session is busy".to_owned())),
        }
    }

    /// Sends the requests that were held back, if no message is before them any longer.
    fn send_held_back(&mut self) -> Vec<Input> {
        if !self.interjections.is_empty() {
            return Vec::new();
        }
        let held_back = std::mem::take(&mut self.held_back);
        held_back.into_iter().filter_map(|request| self.request(request)).collect()
    }

    async fn undo(&self, request: UndoRequest) -> Input {
        let Some(recorder) = &self.recorder else {
            return Input::Remark("no changes are recorded here".to_owned());
        };
        match recorder.undo(request).await {
            Ok(text) => Input::Note(text),
            Err(why) => Input::Remark(why),
        }
    }

    async fn read(&self, turn: TurnId, what: PromptView) -> Input {
        match sent_prompt::read(&self.store, self.session, turn).await {
            Ok(sheet) => Input::SentPrompt(sheet, what),
            Err(error) => Input::Remark(error.to_string()),
        }
    }
}

/// Shows the conversation until it ends.
async fn show<S: Store>(
    mut chat: Chat,
    mut console: Console,
    mut updates: EventReceiver<Input>,
    mut effects: EffectRunner<S>,
    mut remote: Option<RemoteRequests>,
) -> Result<ClosedChat, ChatError> {
    let began = Instant::now();
    let mut batch = Vec::new();
    let mut drawn = Instant::now();
    // A broken terminal ends the chat after all messages are stored.
    let mut broken: Option<io::Error> = None;
    console.screen.draw(|frame| render(&chat, frame))?;
    let mut is_over = false;
    // The messages that the store did not accept when no screen was left to show them.
    let mut lost = Vec::new();
    while !is_over {
        let is_waiting = !batch.is_empty();
        let next_frame = if is_waiting { drawn + FRAME } else { drawn + TICK };
        let input = tokio::select! {
            key = next_key(&mut console.keys), if broken.is_none() => match key {
                Some(Ok(event)) => terminal_input(event),
                Some(Err(error)) => {
                    broken = Some(error);
                    Some(Input::Terminate)
                }
                None => {
                    broken = Some(io::ErrorKind::UnexpectedEof.into());
                    Some(Input::Terminate)
                }
            },
            caught = console.signals.next() => match caught {
                ChatSignal::Interrupt => Some(Input::Interrupt),
                ChatSignal::Terminate => Some(Input::Terminate),
                ChatSignal::Continue => {
                    // The terminal may have changed while the program was stopped.
                    Screen::release();
                    console.screen.size().ok().map(Input::Resize)
                }
            },
            (request, reply) = next_remote(&mut remote) => {
                admit(&chat, &mut effects.interjections, request, reply)
            }
            put = effects.interjections.next() => match put {
                Ok(input) => Some(input.unwrap_or(Input::Tick(began.elapsed()))),
                Err(not_put) if chat.is_leaving() => {
                    lost.push(not_put);
                    None
                }
                Err(NotPut { message, line, error }) => {
                    let (message, why) = (Box::new(message), error.to_string());
                    Some(Input::NotInterjected { message, line, why })
                }
            },
            count = updates.recv_many(&mut batch, BATCH), if batch.len() < BATCH => {
                is_over = count == 0;
                None
            }
            () = tokio::time::sleep_until(next_frame.into()), if is_waiting || chat.is_busy() => None,
        };
        batch.extend(effects.send_held_back());
        if input.is_none() && drawn.elapsed() < FRAME && !is_over {
            continue;
        }
        let inputs = std::iter::once(Input::Tick(began.elapsed()));
        let inputs = inputs.chain(batch.drain(..)).chain(input);
        for input in inputs {
            apply(&mut chat, &mut effects, &mut console, input).await;
        }
        if broken.is_none()
            && let Err(error) = console.draw(&mut chat)
        {
            broken = Some(error);
            apply(&mut chat, &mut effects, &mut console, Input::Terminate).await;
        }
        drawn = Instant::now();
    }
    // The conversation may have failed while messages were on their way.
    while !effects.interjections.is_empty() {
        lost.extend(effects.interjections.next().await.err());
    }
    not_stored(lost)?;
    broken.map_or(Ok(ClosedChat { codes: chat.codes }), |error| Err(error.into()))
}

/// Returns the messages that were not stored as an error, so that they are printed.
fn not_stored(lost: Vec<NotPut>) -> Result<(), CoordinatorError> {
    let text = lost.iter().map(|it| &*it.line).collect::<Vec<_>>().join("\n\n");
    match lost.into_iter().next() {
        Some(NotPut { error, .. }) => Err(CoordinatorError::NotStored { text, error }),
        None => Ok(()),
    }
}

/// Admits a remote request. A message that waits for the running turn is in the inbox when its sender gets the reply.
fn admit(
    chat: &Chat,
    interjections: &mut Interjections,
    request: SessionRequest,
    reply: RemoteReply,
) -> Option<Input> {
    let (admitted, input) = match (chat.admits(&request), request) {
        (Ok(true), SessionRequest::Say(message)) => {
            let sender = Sender::Remote(reply);
            interjections.push(Interjection { message: *message, sender });
            return None;
        }
        (Ok(waits), request) => (Ok(waits), Some(Input::Remote(request))),
        (Err(why), _) => (Err(why), None),
    };
    // The asker may have disconnected.
    let _ = reply.send(admitted);
    input
}

/// Waits for a remote request; forever if there is no sender.
async fn next_remote(remote: &mut Option<RemoteRequests>) -> (SessionRequest, RemoteReply) {
    if let Some(requests) = remote
        && let Some(request) = requests.recv().await
    {
        return request;
    }
    *remote = None;
    pending().await
}

/// Applies an input to the state and carries out its effects.
async fn apply<S: Store>(
    chat: &mut Chat,
    effects: &mut EffectRunner<S>,
    console: &mut Console,
    input: Input,
) {
    let mut next = Some(input);
    while let Some(effect) = next.take().and_then(|input| chat.update(input)) {
        next = match effect {
            Effect::Suspend => console.suspend().await,
            Effect::Edit(text) => Some(Input::Edited(console.edit(&text).await)),
            effect => effects.carry_out(effect).await,
        };
    }
}

fn terminal_input(event: TerminalEvent) -> Option<Input> {
    match event {
        TerminalEvent::Key(key) => Some(Input::Key(key)),
        TerminalEvent::Paste(text) => Some(Input::Paste(text)),
        TerminalEvent::Resize(width, height) => Some(Input::Resize((width, height).into())),
        TerminalEvent::FocusGained | TerminalEvent::FocusLost | TerminalEvent::Mouse(_) => None,
    }
}
