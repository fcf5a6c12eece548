//! A review as the hook that runs when an agent wants to stop: a rejection sends it back to work, once.

use std::io::{Write as _, stdin};
use std::path::{Path, PathBuf};

use convoke_files::FileKind;
use convoke_files::limit::read_stream_text;
use convoke_review::Verdict;
use serde::Deserialize;
use serde_json::json;

use super::{Arguments, report::Review};
use crate::other_programs::{HomeArgument, with_catalog};
use crate::outcome::{Outcome, UsageError};
use crate::terminal::{Paint, stdout};

/// What Claude Code, Codex and Gemini CLI tell their hooks, as far as it is needed.
#[derive(Debug, Deserialize)]
struct Stopping {
    cwd: Option<PathBuf>,
    transcript_path: Option<PathBuf>,
    /// Whether the agent goes on because of this hook.
    #[serde(default)]
    stop_hook_active: bool,
}

/// Runs the review that a hook asks for.
pub(super) fn run(
    arguments: &Arguments,
    review: impl Fn(&Arguments) -> anyhow::Result<Review>,
) -> anyhow::Result<Outcome> {
    let text = read_stream_text(stdin(), Path::new("-"), FileKind::Input)
        .map_err(|error| UsageError(format!("--hook: cannot read standard input: {error}")))?;
    let stopping: Stopping = serde_json::from_str(&text)
        .map_err(|error| UsageError(format!("--hook: the input is not that of a hook: {error}")))?;
    if stopping.stop_hook_active {
        // It has been sent back once; a person decides now.
        return Ok(Outcome::Done);
    }
    let mut arguments = arguments.clone();
    if let Some(cwd) = stopping.cwd {
        arguments.path = cwd;
    }
    if arguments.session.is_none() {
        arguments.session = session(stopping.transcript_path.as_deref())?;
    }
    let review = review(&arguments)?;
    let reason = match review.verdict {
        Verdict::Approve => return Ok(Outcome::Done),
        Verdict::None if review.files == 0 => return Ok(Outcome::Done),
        Verdict::Reject => format!(
            "A review by another vendor's model rejects the change. Look at each finding, correct what is right, and say why you leave the rest:\n\n{}",
            review.text(Paint::Plain)
        ),
        Verdict::None => format!(
            "A review of the change was asked for and gave no verdict. Tell the person so; do not call the change reviewed:\n\n{}",
            review.text(Paint::Plain)
        ),
    };
    let mut out = stdout();
    writeln!(out, "{}", json!({ "decision": "block", "reason": reason }))?;
    Ok(Outcome::Done)
}

/// Returns the name of the session whose file the hook was told, if a program that is known here wrote it.
fn session(transcript: Option<&Path>) -> anyhow::Result<Option<String>> {
    let Some(path) = transcript.filter(|path| path.is_file()) else { return Ok(None) };
    let name = path.to_string_lossy().into_owned();
    with_catalog(&HomeArgument::default(), |catalog| {
        // A file that no reader knows tells nothing about the author.
        Ok(catalog.find(&name).ok().map(|_| name.clone()))
    })
}
