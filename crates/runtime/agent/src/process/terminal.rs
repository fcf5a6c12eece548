//! Commands that Convoke runs for an agent, each under its own guardian.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::guarded_child::{GuardedChild, Pipes};
use super::guardian::Guardian;
use super::{Launch, PrivateDir};
use crate::ending::Exit;

/// The time limit for remaining output after all processes have ended.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// A running or ended command. Dropping it terminates the command.
#[derive(Debug)]
pub(crate) struct Terminal {
    state: Arc<Mutex<State>>,
    killed: Arc<Notify>,
    /// `None` once a caller waits for the task.
    task: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct State {
    output: Output,
    exit: Option<Exit>,
}

/// The limits on a command's output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputBounds {
    /// The number of bytes kept from the end of the output.
    pub kept: usize,
    /// The number of bytes at which the command is killed.
    pub most: u64,
}

impl Terminal {
    /// Starts a command. `ended` is called when the command and everything that it started have ended.
    pub fn start(
        mut launch: Launch,
        guardian: Guardian,
        bounds: OutputBounds,
        ended: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        // Beside the turn's directory, which the agent can change.
        let root = launch.private_dir.parent().unwrap_or_else(|| Path::new("/"));
        let private = PrivateDir::create(root)?;
        private.path().clone_into(&mut launch.private_dir);
        launch.private_home = None;
        let state = State { output: Output::new(bounds.kept), exit: None };
        let (state, killed) = (Arc::new(Mutex::new(state)), Arc::new(Notify::new()));
        let command = Running { state: state.clone(), killed: killed.clone(), most: bounds.most };
        let task = tokio::spawn(async move {
            command.run(&launch, &guardian).await;
            drop(private);
            ended();
        });
        Ok(Self { state, killed, task: Some(task) })
    }

    /// Kills the command and everything that it started.
    pub fn kill(&self) {
        self.killed.notify_one();
    }

    /// Returns the end of the output, and whether earlier output was dropped.
    pub fn output(&self) -> (String, bool) {
        lock(&self.state).output.text()
    }

    /// Returns the exit status of the command; `None` while it runs.
    pub fn exit(&self) -> Option<Exit> {
        lock(&self.state).exit
    }

    /// Kills the command, and returns a future that resolves when everything has ended.
    pub fn end(&mut self) -> impl Future<Output = ()> + Send + use<> {
        self.kill();
        let task = self.task.take();
        async move {
            if let Some(task) = task {
                // A task that panicked has dropped its child.
                let _ = task.await;
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Running {
    state: Arc<Mutex<State>>,
    killed: Arc<Notify>,
    most: u64,
}

impl Running {
    async fn run(&self, launch: &Launch, guardian: &Guardian) {
        let exit = match GuardedChild::start(launch, guardian).await {
            Ok((child, pipes)) => self.wait(child, pipes).await,
            Err(error) => {
                lock(&self.state).output.push(0, format!("{error}\n").as_bytes());
                Exit::Unknown
            }
        };
        lock(&self.state).exit = Some(exit);
    }

    async fn wait(&self, mut child: GuardedChild, pipes: Pipes) -> Exit {
        let Pipes { stdin, mut stdout, mut stderr } = pipes;
        drop(stdin);
        let (mut out, mut err) = (vec![0; 32 << 10], vec![0; 32 << 10]);
        let mut open = [true, true];
        let mut bytes = 0;
        let mut end = None;
        let mut drained = Instant::now();
        while end.is_none() || open.contains(&true) {
            let (stream, read) = tokio::select! {
                biased;
                ended = child.ended(), if end.is_none() => {
                    end = Some(ended);
                    drained = Instant::now() + DRAIN_LIMIT;
                    continue;
                }
                () = self.killed.notified(), if end.is_none() => {
                    child.kill().await;
                    continue;
                }
                read = read(&mut stdout, &mut out, end.is_some().then_some(drained)), if open[0] => (0, read),
                read = read(&mut stderr, &mut err, end.is_some().then_some(drained)), if open[1] => (1, read),
            };
            let count = read.unwrap_or_else(|error| {
                let message = format!("\n[the rest of the output could not be read: {error}]\n");
                lock(&self.state).output.push(stream, message.as_bytes());
                0
            });
            open[stream] = count > 0;
            bytes += count as u64;
            if bytes > self.most {
                child.kill().await;
                continue;
            }
            let buffer = if stream == 0 { &out } else { &err };
            lock(&self.state).output.push(stream, &buffer[..count]);
        }
        let Some(end) = end else { return Exit::Unknown };
        if let Some(problem) = end.problem {
            lock(&self.state).output.push(1, problem.as_bytes());
        }
        end.exit
    }
}

/// Reads bytes; zero means the end or a timeout.
async fn read(
    pipe: &mut (impl AsyncRead + Unpin),
    buffer: &mut [u8],
    until: Option<Instant>,
) -> io::Result<usize> {
    let read = pipe.read(buffer);
    match until {
        Some(until) => timeout_at(until, read).await.unwrap_or(Ok(0)),
        None => read.await,
    }
}

/// The end of the output of two streams, as text.
#[derive(Debug)]
struct Output {
    kept: usize,
    text: VecDeque<u8>,
    is_cut: bool,
    /// The bytes of an incomplete character, by stream.
    partial: [Vec<u8>; 2],
}

impl Output {
    fn new(kept: usize) -> Self {
        Self { kept, text: VecDeque::new(), is_cut: false, partial: [Vec::new(), Vec::new()] }
    }

    fn push(&mut self, stream: usize, bytes: &[u8]) {
        let mut all = std::mem::take(&mut self.partial[stream]);
        all.extend_from_slice(bytes);
        for chunk in all.utf8_chunks() {
            self.text.extend(chunk.valid().as_bytes());
            let rest = chunk.invalid();
            let is_last = chunk_end(&all, rest) == all.len();
            if is_last && is_incomplete(rest) && !bytes.is_empty() {
                self.partial[stream] = rest.to_vec();
            } else if !rest.is_empty() {
                self.text.extend("\u{fffd}".as_bytes());
            }
        }
        // Drop the beginning, including a partial character.
        let over = self.text.len().saturating_sub(self.kept);
        let is_rest = |byte: &u8| (0x80..0xc0).contains(byte);
        let over = over + self.text.iter().skip(over).take_while(|byte| is_rest(byte)).count();
        if over > 0 {
            self.text.drain(..over);
            self.is_cut = true;
        }
    }

    fn text(&self) -> (String, bool) {
        let bytes: Vec<u8> = self.text.iter().copied().collect();
        (String::from_utf8_lossy(&bytes).into_owned(), self.is_cut)
    }
}

/// Returns the end of a part within a text.
fn chunk_end(all: &[u8], part: &[u8]) -> usize {
    (part.as_ptr() as usize - all.as_ptr() as usize) + part.len()
}

/// Returns whether bytes are the start of an incomplete character.
fn is_incomplete(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_output_is_kept_at_a_character() {
        let mut output = Output::new(4);
        output.push(0, "aé你".as_bytes());
        assert_eq!(output.text(), ("你".to_owned(), true));
        output.push(1, b"x");
        assert_eq!(output.text(), ("你x".to_owned(), true));
        output.push(1, b"yz");
        assert_eq!(output.text(), ("xyz".to_owned(), true));
        let mut none = Output::new(0);
        none.push(0, b"x");
        assert_eq!(none.text(), (String::new(), true));
    }

    #[test]
    fn a_character_in_two_pieces_is_one_and_bytes_that_are_none_are_replaced() {
        let mut output = Output::new(100);
        let text = "é你".as_bytes();
        output.push(0, &text[..1]);
        output.push(1, b"err ");
        output.push(0, &text[1..3]);
        output.push(0, &text[3..]);
        output.push(0, b"\xff!\xe4");
        assert_eq!(output.text(), ("err é你\u{fffd}!".to_owned(), false));
        // An incomplete character is replaced at the end.
        output.push(0, b"");
        assert_eq!(output.text().0, "err é你\u{fffd}!\u{fffd}");
    }
}
