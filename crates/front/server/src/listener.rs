//! The listener: accepts a bounded number of connections, and closes those that make no progress.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinError;
use tokio::time::{Sleep, sleep};

/// The maximum number of connections at a time; more wait to be accepted.
pub const MAX_CONNECTIONS: usize = 512;
/// The time limit for the head of a request.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The time after which a client that reads nothing of a response is disconnected.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// The largest head of a request.
const HEAD_BYTES: usize = 32 << 10;

/// Accepts connections until the future is dropped, which closes them all.
pub(crate) async fn accept(listener: TcpListener, router: Router) {
    accept_at_most(MAX_CONNECTIONS, listener, router).await;
}

async fn accept_at_most(most: usize, listener: TcpListener, router: Router) {
    let serve = |stream, _| Some(serve(stream, router.clone()));
    convoke_listener::accept(listener, most, std::future::pending(), serve, note_failure).await;
}

/// Reports a connection that panicked: its client gets no answer.
#[expect(clippy::needless_pass_by_value, reason = "the listener gives it away")]
fn note_failure(error: JoinError) {
    tracing::error!("a connection failed: {error}");
}

async fn serve(stream: TcpStream, router: Router) {
    let _ = stream.set_nodelay(true);
    let stream = TimedStream { stream, stuck: None };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        .half_close(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // A broken connection cannot be answered.
    let _ = connection.await;
}

/// A connection that fails when nothing can be written for too long.
struct TimedStream<S> {
    stream: S,
    /// The deadline of the current write.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<S> TimedStream<S> {
    /// Returns the result of a write, or fails if the client has read nothing for the whole time.
    fn timed<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        match stuck.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.timed(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.timed(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.timed(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn connections_over_the_limit_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(async || "answered");
        let accepting = tokio::spawn(accept_at_most(2, listener, router));
        let first = TcpStream::connect(address).await.unwrap();
        let _second = TcpStream::connect(address).await.unwrap();
        let mut third = TcpStream::connect(address).await.unwrap();
        third.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        {
            let reading = third.read_to_string(&mut answer);
            tokio::pin!(reading);
            tokio::select! {
                biased;
                _ = &mut reading => panic!("it was answered"),
                () = sleep(Duration::from_millis(200)) => {}
            }
            // The next connection takes a place that was released.
            drop(first);
            reading.await.unwrap();
        }
        assert!(answer.ends_with("answered"), "{answer}");
        accepting.abort();
    }

    /// Counts the errors that are logged.
    struct Errors(Arc<AtomicUsize>);

    impl tracing::Subscriber for Errors {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            *metadata.level() == tracing::Level::ERROR
        }

        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }

        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

        fn event(&self, _: &tracing::Event<'_>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }

        fn enter(&self, _: &tracing::span::Id) {}

        fn exit(&self, _: &tracing::span::Id) {}
    }

    #[tokio::test]
    async fn a_connection_that_panics_is_an_error_and_the_next_is_answered() {
        let errors = Arc::new(AtomicUsize::new(0));
        let _logged = tracing::subscriber::set_default(Errors(errors.clone()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/panic", axum::routing::get(async || -> &'static str { panic!("a handler") }))
            .fallback(async || "answered");
        let accepting = tokio::spawn(accept_at_most(1, listener, router));
        for (path, is_answered) in [("/panic", false), ("/", true)] {
            let mut client = TcpStream::connect(address).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            client.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            let _ = client.read_to_string(&mut answer).await;
            assert_eq!(answer.ends_with("answered"), is_answered, "{path}: {answer}");
        }
        assert_eq!(errors.load(Ordering::SeqCst), 1);
        accepting.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_disconnected() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut stream = TimedStream { stream: ours, stuck: None };
        // One that takes something now and then may be as slow as it likes.
        let slow = tokio::spawn(async move {
            let mut bytes = [0; 16];
            for _ in 0..4 {
                sleep(WRITE_TIMEOUT / 2).await;
                theirs.read_exact(&mut bytes).await.unwrap();
            }
            theirs
        });
        stream.write_all(&[0; 64]).await.unwrap();
        let theirs = slow.await.unwrap();
        let refused = stream.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        drop(theirs);
    }
}
