//! The body of a request, which records when a connection takes it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// A body of known length.
pub(super) struct TrackedBody {
    /// The bytes, until a connection takes them.
    bytes: Option<Bytes>,
    leaving: Arc<AtomicBool>,
}

impl TrackedBody {
    pub(super) fn new(bytes: Bytes, leaving: Arc<AtomicBool>) -> Self {
        Self { bytes: Some(bytes), leaving }
    }
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.leaving.store(true, Ordering::Relaxed);
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

impl From<TrackedBody> for reqwest::Body {
    fn from(body: TrackedBody) -> Self {
        Self::wrap(body)
    }
}
