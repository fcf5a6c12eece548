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
pub(crate) enum Beat {
    Send(Bytes),
    Wait(Duration),
    /// Cut the connection.
    Cut,
    /// Send nothing more until either side closes.
    Hang,
}

pub(crate) struct Played {
    beats: VecDeque<Beat>,
    waiting: Option<Pin<Box<Sleep>>>,
}

/// The wait before a cut: a failing body loses data that is not flushed, and waiting flushes it.
const TIME_TO_FLUSH: Duration = Duration::from_millis(20);

impl Played {
    pub fn new(beats: impl IntoIterator<Item = Beat>) -> Self {
        let mut played = Self { beats: VecDeque::new(), waiting: None };
        for beat in beats {
            if beat == Beat::Cut {
                played.beats.push_back(Beat::Wait(TIME_TO_FLUSH));
            }
            played.beats.push_back(beat);
        }
        played
    }

    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::new([Beat::Send(bytes.into())])
    }
}

impl Body for Played {
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
            match self.beats.pop_front() {
                None => return Poll::Ready(None),
                Some(Beat::Send(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Some(Beat::Wait(time)) => self.waiting = Some(Box::pin(sleep(time))),
                Some(Beat::Cut) => return Poll::Ready(Some(Err(CutOnPurpose))),
                Some(Beat::Hang) => {
                    self.beats.push_front(Beat::Hang);
                    return Poll::Pending;
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.beats.is_empty() && self.waiting.is_none()
    }

    /// Exact if everything is sent at once, so that the response has a `content-length`.
    fn size_hint(&self) -> SizeHint {
        let sizes = self.beats.iter().map(|beat| match beat {
            Beat::Send(bytes) => Some(bytes.len() as u64),
            Beat::Wait(_) | Beat::Cut | Beat::Hang => None,
        });
        match sizes.sum::<Option<u64>>() {
            Some(size) if self.beats.len() <= 1 => SizeHint::with_exact(size),
            _ => SizeHint::default(),
        }
    }
}

/// The error of a connection that is cut by the script.
#[derive(Debug, thiserror::Error)]
#[error("the script cuts the connection here")]
pub(crate) struct CutOnPurpose;
