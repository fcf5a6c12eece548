//! Recorded output of the real CLIs, and the readers for it.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use convoke_agent::TurnResult;
use convoke_agent::ending::{Ending, Exit, TerminationCause};
use convoke_agent::stream::EventReader;
use convoke_agent::stream::lines::LineSplitter;
use convoke_agent::stream::plain::Plain;
use convoke_vendor_claude::stream::Claude;
use convoke_vendor_codex::stream::app::CodexApp;
use convoke_vendor_codex::stream::exec::CodexExec;
use convoke_vendor_gemini::stream::Gemini;
use serde_json::Value;

/// Returns the directories of the recordings, which are not part of the project.
pub fn streams_directories() -> Vec<PathBuf> {
    convoke_conformance::recorded("CONVOKE_STREAMS", &["streams", "new/streams"])
}

/// A recorded output, with the program's arguments and exit status.
pub struct Recording {
    pub name: String,
    pub output: Vec<u8>,
    arguments: Vec<String>,
    pub exit: Exit,
    stderr: String,
}

/// A recording as read by its reader.
#[derive(Debug, PartialEq)]
pub struct ReadTurn {
    pub result: TurnResult,
    pub session: Option<String>,
}

impl ReadTurn {
    /// Returns the warnings about unknown kinds of events, one for each kind.
    pub fn unknown_kinds(&self) -> Vec<&str> {
        let diagnostics = self.result.diagnostics.iter();
        let unknown =
            diagnostics.filter(|it| it.code == convoke_agent::diagnostics::AGENT_EVENT_UNKNOWN);
        unknown.map(|it| it.message.as_str()).collect()
    }
}

/// Returns the recordings in a directory, in order.
pub fn recordings(root: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "jsonl") {
                paths.push(path);
            }
        }
    }
    if paths.is_empty() {
        return Err(std::io::Error::other("no recordings"));
    }
    paths.sort();
    Ok(paths)
}

/// The output format that a recorded program was asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Plain,
    Claude,
    CodexExec,
    CodexApp,
    Gemini,
}

impl Recording {
    pub fn open(root: &Path, path: &Path) -> Result<Self, String> {
        let meta = path.with_extension("meta.json");
        let named = |error: &dyn Display| format!("{}: {error}", meta.display());
        let text = std::fs::read(&meta).map_err(|error| named(&error))?;
        let meta: Value = serde_json::from_slice(&text).map_err(|error| named(&error))?;
        let arguments = meta["argv"].as_array().into_iter().flatten();
        let code = meta["rc"].as_i64().map(i32::try_from).transpose();
        Ok(Self {
            name: path.strip_prefix(root).unwrap_or(path).with_extension("").display().to_string(),
            output: std::fs::read(path).map_err(|error| error.to_string())?,
            arguments: arguments
                .filter_map(|argument| argument.as_str().map(str::to_owned))
                .collect(),
            exit: match code.map_err(|error| error.to_string())? {
                Some(code @ ..0) => Exit::Signal(-code),
                Some(code) => Exit::Code(code),
                None => Exit::Unknown,
            },
            stderr: meta["stderr"].as_str().unwrap_or_default().to_owned(),
        })
    }

    /// Returns the value of a flag, as `--flag value` or `--flag=value`; `None` if it is missing.
    fn asks_for(&self, flags: &[&str]) -> Option<&str> {
        let mut arguments = self.arguments.iter();
        while let Some(argument) = arguments.next() {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (argument.as_str(), None),
            };
            if flags.contains(&name) {
                return value.or_else(|| arguments.next().map(String::as_str)).or(Some(""));
            }
        }
        None
    }

    pub fn format(&self) -> Option<Format> {
        let folder = self.name.split('/').next().filter(|folder| *folder != self.name);
        let program =
            folder.or_else(|| self.arguments.first()?.rsplit('/').next()).unwrap_or_default();
        let is_text = || match self.asks_for(&["-o", "--output-format"]) {
            None => !self.arguments.is_empty(),
            Some(format) => format == "text",
        };
        Some(match program {
            name if name.starts_with("claude") && is_text() => Format::Plain,
            name if name.starts_with("claude") => Format::Claude,
            name if name.starts_with("codex") => {
                if self.arguments.iter().any(|argument| argument == "app-server") {
                    Format::CodexApp
                } else if self.asks_for(&["--json"]).is_some() {
                    Format::CodexExec
                } else {
                    Format::Plain
                }
            }
            name if name.starts_with("gemini") && is_text() => Format::Plain,
            name if name.starts_with("gemini") => Format::Gemini,
            _ => return None,
        })
    }

    /// Returns a reader for the recording.
    pub fn reader(&self) -> Option<Box<dyn EventReader>> {
        let limit = 1 << 20;
        Some(match self.format()? {
            Format::Plain => Box::new(Plain::new(limit)),
            Format::Claude => Box::new(Claude::new(limit)),
            Format::CodexExec => Box::new(CodexExec::new(limit)),
            Format::Gemini => Box::new(Gemini::new(limit)),
            Format::CodexApp => {
                let mut reader = CodexApp::new(limit);
                let events = self.events();
                let mut threads =
                    events.iter().filter_map(|e| e["result"]["thread"]["id"].as_str());
                if let Some(thread) = threads.next() {
                    reader.thread_is(thread, None, &mut |_| {});
                }
                Box::new(reader)
            }
        })
    }

    /// Returns the objects of the output: one per line, one over several lines, or all in a list.
    pub fn events(&self) -> Vec<Value> {
        let lines = self.output.split(|&byte| byte == b'\n');
        let mut events: Vec<Value> =
            lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        if let Some(at) = self.output.windows(2).position(|two| two == b"{\n") {
            let values = serde_json::Deserializer::from_slice(&self.output[at..]).into_iter();
            events.extend(values.map_while(Result::ok));
        }
        let lists = events.iter_mut().filter_map(Value::as_array_mut);
        let listed: Vec<Value> = lists.flat_map(std::mem::take).collect();
        events.extend(listed);
        events
    }

    /// Reads the recording in chunks of this size.
    pub fn read(&self, chunk: usize) -> Option<ReadTurn> {
        self.read_bytes(&self.output, chunk)
    }

    /// Reads other bytes in place of the recorded ones.
    pub fn read_bytes(&self, output: &[u8], chunk: usize) -> Option<ReadTurn> {
        let mut reader = self.reader()?;
        let mut lines = LineSplitter::json(64 << 20);
        for bytes in output.chunks(chunk) {
            lines.push(bytes, |line| reader.line(line.bytes, &mut |_| {}));
        }
        lines.finish(|line| reader.line(line.bytes, &mut |_| {}));
        let ending = Ending {
            exit: self.exit,
            // A recording without an exit code belongs to a program that outlived its recorder.
            stop: (self.exit == Exit::Unknown).then_some(TerminationCause::TimedOut),
            stderr: &self.stderr,
        };
        let result = reader.finish(&ending, &mut |_| {});
        Some(ReadTurn { result, session: reader.session().map(str::to_owned) })
    }
}
