//! The body of a response: frames, waits between them, and a cut or a hang at the end.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

/// One step of sending a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SendStep {
    Send(Bytes),
    Wait(Duration),
    /// Cut the connection.
    Cut,
    /// Send nothing more until either side closes.
    Hang,
}

pub(crate) struct PacedBody {
    steps: VecDeque<SendStep>,
    waiting: Option<Pin<Box<Sleep>>>,
}

/// The wait before a cut: a failing body loses data that is not flushed, and waiting flushes it.
const TIME_TO_FLUSH: Duration = Duration::from_millis(20);

impl PacedBody {
    pub fn new(steps: impl IntoIterator<Item = SendStep>) -> Self {
        let mut played = Self { steps: VecDeque::new(), waiting: None };
        for step in steps {
            if step == SendStep::Cut {
                played.steps.push_back(SendStep::Wait(TIME_TO_FLUSH));
            }
            played.steps.push_back(step);
        }
        played
    }

    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::new([SendStep::Send(bytes.into())])
    }
}

impl Body for PacedBody {
    type Data = Bytes;
    type Error = CutOnPurpose;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutOnPurpose>>> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                ready!(waiting.as_mut().poll(context));
                self.waiting = None;
            }
            match self.steps.pop_front() {
                None => return Poll::Ready(None),
                Some(SendStep::Send(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Some(SendStep::Wait(time)) => self.waiting = Some(Box::pin(sleep(time))),
                Some(SendStep::Cut) => return Poll::Ready(Some(Err(CutOnPurpose))),
                Some(SendStep::Hang) => {
                    self.steps.push_front(SendStep::Hang);
                    return Poll::Pending;
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.steps.is_empty() && self.waiting.is_none()
    }

    /// Exact if everything is sent at once, so that the response has a `content-length`.
    fn size_hint(&self) -> SizeHint {
        let sizes = self.steps.iter().map(|step| match step {
            SendStep::Send(bytes) => Some(bytes.len() as u64),
            SendStep::Wait(_) | SendStep::Cut | SendStep::Hang => None,
        });
        match sizes.sum::<Option<u64>>() {
            Some(size) if self.steps.len() <= 1 => SizeHint::with_exact(size),
            _ => SizeHint::default(),
        }
    }
}

/// The error of a connection that is cut by the script.
#[derive(Debug, thiserror::Error)]
#[error("the script cuts the connection here")]
pub(crate) struct CutOnPurpose;
