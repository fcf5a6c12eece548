//! The event loop: feeds keys, conversation events and time to the model, runs its effects, and draws it.

use std::future::pending;
use std::io;
use std::time::{Duration, Instant};

use convoke_core::Code;
use convoke_session::coordinator::Observer;
use convoke_session::{
    Controls, Coordinator, CoordinatorError, MemberName, PersonMessage, SessionEvent,
    SessionEventKind, SessionId, Store, StoreError, TurnId,
};
use crossterm::event::{Event as TerminalEvent, EventStream};
use futures_util::StreamExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::history;
use crate::model::{Chat, Effect, Input, Setup, Waiting};
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
    /// The conversation could not go on.
    #[error(transparent)]
    Conversation(#[from] CoordinatorError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A message from the conversation to the screen.
#[derive(Debug)]
enum Report {
    /// An event.
    Event(SessionEventKind),
    /// The queued turns and the task.
    Standing(Vec<Waiting>, Option<String>),
    /// A request failed and had no effect.
    Refused(String),
}

impl From<Report> for Input {
    fn from(report: Report) -> Self {
        match report {
            Report::Event(event) => Self::Event(event),
            Report::Standing(queue, task) => Self::Standing(queue, task),
            Report::Refused(why) => Self::Refused(why),
        }
    }
}

/// The receiver of the conversation's events.
pub struct Reports {
    sender: mpsc::UnboundedSender<Report>,
    receiver: mpsc::UnboundedReceiver<Report>,
}

/// The summary of an ended chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closing {
    /// Every diagnostic that was given.
    pub codes: Vec<Code>,
}

/// Creates the observer of a conversation and the receiver of its events.
pub fn reports() -> (Observer, Reports) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let reports = Reports { sender: sender.clone(), receiver };
    // Sending fails only once the chat is over.
    let observer = Box::new(move |event: SessionEvent| {
        let _ = sender.send(Report::Event(event.kind));
    });
    (observer, reports)
}

/// A request from the screen to the conversation.
enum Request {
    Say(PersonMessage),
    GoOn,
    Retry(TurnId),
    /// Store messages without running turns.
    Keep(Vec<PersonMessage>),
}

/// Runs a conversation in the terminal until the person quits. Everything is stored as it happens.
pub async fn hold<S: Store + Clone>(
    coordinator: Coordinator<S>,
    reports: Reports,
    setup: Setup,
) -> Result<Closing, ChatError> {
    let past = history::read(&coordinator).await?;
    let mut screen = Screen::take()?;
    let chat = Chat::new(setup, past, screen.size()?);
    let (requests, asked) = mpsc::unbounded_channel();
    let Reports { sender, receiver } = reports;
    let desk = EffectRunner {
        store: coordinator.store().clone(),
        session: coordinator.session(),
        controls: coordinator.controls(),
        requests: Some(requests),
    };
    let conversation = conduct(coordinator, asked, sender);
    let (conducted, shown) = tokio::join!(conversation, attend(chat, &mut screen, receiver, desk));
    drop(screen);
    conducted?;
    shown
}

/// Handles requests in order until the channel is closed.
async fn conduct<S: Store>(
    mut coordinator: Coordinator<S>,
    mut asked: mpsc::UnboundedReceiver<Request>,
    reports: mpsc::UnboundedSender<Report>,
) -> Result<(), CoordinatorError> {
    // Sending fails if the screen is gone; the request is handled all the same.
    let tell = |report| {
        let _ = reports.send(report);
    };
    let standing = |coordinator: &Coordinator<S>| {
        let waiting = coordinator.waiting().iter().map(Waiting::from).collect();
        Report::Standing(waiting, coordinator.task().map(str::to_owned))
    };
    while let Some(request) = asked.recv().await {
        match request {
            Request::Say(saying) => {
                coordinator.accept(saying).await?;
            }
            Request::GoOn => {}
            Request::Keep(sayings) => {
                for saying in sayings {
                    coordinator.accept(saying).await?;
                }
                continue;
            }
            Request::Retry(turn) => match coordinator.retry(turn).await {
                Err(error @ CoordinatorError::NoRetry { .. }) => {
                    tell(Report::Refused(error.to_string()));
                    continue;
                }
                retried => retried?,
            },
        }
        tell(standing(&coordinator));
        coordinator.run().await?;
        tell(standing(&coordinator));
    }
    Ok(())
}

/// Runs the effects of the model.
struct EffectRunner<S> {
    store: S,
    session: SessionId,
    controls: Controls,
    /// `None` once the person has quit; dropping it ends the conversation.
    requests: Option<mpsc::UnboundedSender<Request>>,
}

impl<S: Store> EffectRunner<S> {
    /// Runs an effect; may return an input with its result.
    async fn carry_out(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Say(saying) => self.ask(Request::Say(saying)),
            Effect::Interject(saying) => self.controls.interject(saying),
            Effect::GoOn => self.ask(Request::GoOn),
            Effect::Retry(turn) => self.ask(Request::Retry(turn)),
            Effect::CancelTurn => self.controls.cancel_turn(),
            Effect::Leave => self.controls.leave(),
            Effect::Close(sayings) => {
                self.ask(Request::Keep(sayings));
                self.requests = None;
            }
            Effect::Read(member, turn, what) => return Some(self.read(member, turn, what).await),
        }
        None
    }

    fn ask(&self, request: Request) {
        if let Some(requests) = &self.requests {
            // Sending fails only once the conversation is over.
            let _ = requests.send(request);
        }
    }

    async fn read(&self, member: MemberName, turn: TurnId, what: PromptView) -> Input {
        match sent_prompt::read(&self.store, self.session, member, turn).await {
            Ok(sheet) => Input::SentPrompt(sheet, what),
            Err(error) => Input::Remark(error.to_string()),
        }
    }
}

/// Shows the conversation until it ends.
async fn attend<S: Store>(
    mut chat: Chat,
    screen: &mut Screen,
    mut reports: mpsc::UnboundedReceiver<Report>,
    mut desk: EffectRunner<S>,
) -> Result<Closing, ChatError> {
    let began = Instant::now();
    let mut keys = EventStream::new();
    let mut signals = Signals::listen()?;
    let mut batch = Vec::new();
    let mut drawn = Instant::now();
    // A broken terminal ends the chat after all messages are stored.
    let mut broken: Option<io::Error> = None;
    screen.draw(|frame| render(&chat, frame))?;
    let mut is_over = false;
    while !is_over {
        let is_waiting = !batch.is_empty();
        let next_frame = if is_waiting { drawn + FRAME } else { drawn + TICK };
        let input = tokio::select! {
            key = keys.next(), if broken.is_none() => match key {
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
            ended = signals.next() => Some(ended),
            count = reports.recv_many(&mut batch, BATCH), if batch.len() < BATCH => {
                is_over = count == 0;
                None
            }
            () = tokio::time::sleep_until(next_frame.into()), if is_waiting || chat.is_busy() => None,
        };
        if input.is_none() && drawn.elapsed() < FRAME && !is_over {
            continue;
        }
        take_in(&mut chat, &mut desk, Input::Tick(began.elapsed())).await;
        for report in batch.drain(..) {
            take_in(&mut chat, &mut desk, report.into()).await;
        }
        if let Some(input) = input {
            take_in(&mut chat, &mut desk, input).await;
        }
        if broken.is_none()
            && let Err(error) = screen.draw(|frame| render(&chat, frame))
        {
            broken = Some(error);
            take_in(&mut chat, &mut desk, Input::Terminate).await;
        }
        drawn = Instant::now();
    }
    broken.map_or(Ok(Closing { codes: chat.codes }), |error| Err(error.into()))
}

/// Applies an input and runs its effects.
async fn take_in<S: Store>(chat: &mut Chat, desk: &mut EffectRunner<S>, input: Input) {
    if let Some(effect) = chat.update(input)
        && let Some(answer) = desk.carry_out(effect).await
    {
        chat.update(answer);
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

/// The signals that end a chat.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Input {
        tokio::select! {
            Some(()) = self.interrupt.recv() => Input::Interrupt,
            Some(()) = self.terminate.recv() => Input::Terminate,
            Some(()) = self.hang_up.recv() => Input::Terminate,
            else => pending().await,
        }
    }
}
