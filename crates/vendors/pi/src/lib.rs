//! pi: `~/.pi/agent/sessions/--<cwd>--/<time>_<id>.jsonl`, a tree of messages.
//!
//! Records name their parent, so that a session can go on from an earlier message. The files hold the messages as they were
//! sent, and neither the system text nor the tools.

mod reader;

use std::path::Path;

use convoke_source::lines::beginning;
use convoke_source::{FoundSession, Home, Kept, SessionReader, SessionSource, SourceError, files};
use convoke_vendor::Vendor;
use serde_json::Value;

/// The name of the program.
const PROGRAM: &str = "pi";
/// How much of a file is read to find its first record.
const MAX_HEAD: u64 = 64 << 10;

/// pi.
#[derive(Debug)]
pub struct Pi;

impl Vendor for Pi {
    fn sessions(&self) -> Option<&'static dyn SessionSource> {
        Some(&Pi)
    }
}

impl SessionSource for Pi {
    fn program(&self) -> &'static str {
        PROGRAM
    }

    fn list(&self, home: &Home<'_>, found: &mut dyn FnMut(Result<FoundSession, SourceError>)) {
        let agent = home.moved("PI_CODING_AGENT_DIR", ".pi/agent");
        let mut each = |directory: &Path| -> Result<(), SourceError> {
            for path in files::regular(directory)? {
                if path.extension().is_some_and(|it| it == "jsonl") {
                    self.at(&path).transpose().into_iter().for_each(&mut *found);
                }
            }
            Ok(())
        };
        let listed = files::directories(&agent.join("sessions"));
        let failed = listed.map(|it| it.iter().filter_map(|it| each(it).err()).collect::<Vec<_>>());
        failed.unwrap_or_else(|error| vec![error]).into_iter().for_each(|it| found(Err(it)));
    }

    fn at(&self, path: &Path) -> Result<Option<FoundSession>, SourceError> {
        if !path.is_file() {
            return Ok(None);
        }
        let bytes = beginning(path, MAX_HEAD).map_err(SourceError::read(path))?;
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let head: Value = serde_json::from_slice(line).unwrap_or_default();
        match (head["type"].as_str(), head["id"].as_str()) {
            (Some("session"), Some(id)) if head["timestamp"].is_string() => {
                let cwd = head["cwd"].as_str().map(str::to_owned);
                files::found(PROGRAM, id.to_owned(), path, cwd).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn open(
        &self,
        session: &FoundSession,
        kept: Kept,
    ) -> Result<Box<dyn SessionReader>, SourceError> {
        Ok(Box::new(reader::Reader::open(&session.path, kept)?))
    }
}
