//! A prompt, and the requests that it becomes on either wire.

mod chat;
mod ledger;
mod reserialize;
mod responses;

use convoke_core::diagnostic::Diagnostic;
use convoke_core::ledger::Ledger;
use serde_json::Value;

use crate::config::{Provider, Wire};
use crate::history::Sent;
use crate::instructions::BaseInstructions;
use crate::model::ModelInfo;

/// What one request says, whatever the wire.
#[derive(Debug)]
pub struct Prompt<'a> {
    /// The model.
    pub model: &'a ModelInfo,
    /// The instructions of the thread.
    pub instructions: &'a BaseInstructions,
    /// The items, normalised.
    pub input: Vec<Sent<'a>>,
    /// The tools, in the form of the Responses API.
    pub tools: &'a [Value],
    /// The effort that is asked for.
    pub effort: Option<&'a str>,
    /// The summary that is asked for; `none` for none.
    pub summary: &'a str,
    /// The verbosity that is asked for.
    pub verbosity: Option<&'a str>,
    /// What the answer must look like.
    pub output_schema: Option<&'a Value>,
    /// The thread's id, by which servers cache.
    pub cache_key: &'a str,
    /// What the request is for.
    pub purpose: Purpose,
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// An answer.
    Answer,
    /// A summary of the thread: no tools, no schema, outputs as they were recorded.
    Compaction,
}

/// A request, ready to be sent.
#[derive(Debug, Clone)]
pub struct Request {
    /// The path below the provider's address.
    pub path: &'static str,
    /// What it is for.
    pub purpose: Purpose,
    /// The exact body.
    pub body: String,
    /// Where every byte of the body came from.
    pub ledger: Ledger<'static>,
    /// What the user should know.
    pub diagnostics: Vec<Diagnostic>,
}

/// A prompt that cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The Chat wire has no schemas.
    #[error(
        "output_schema is not supported for Chat Completions: use a provider that speaks responses"
    )]
    SchemaOnChat,
    /// The body could not be written.
    #[error("cannot write the request")]
    Json(#[from] serde_json::Error),
}

/// Maps a prompt to the request of a provider.
pub fn build_api_prompt(
    mut prompt: Prompt<'_>,
    provider: &Provider,
    mut diagnostics: Vec<Diagnostic>,
) -> Result<Request, RequestError> {
    let freeform = match (prompt.purpose, provider.wire) {
        (Purpose::Compaction, Wire::Responses) => false,
        (Purpose::Answer, Wire::Responses) => prompt.tools.iter().any(is_freeform_patch),
        (_, Wire::Chat) => prompt.model.patches_are_freeform(),
    };
    if freeform {
        reserialize::reserialize(&mut prompt.input);
    }
    let (path, mapped) = match provider.wire {
        Wire::Responses => ("/responses", responses::map(&prompt, provider)?),
        Wire::Chat => {
            diagnostics.extend(chat::unmapped_tools(prompt.tools));
            ("/chat/completions", chat::map(&prompt, provider.developer_role)?)
        }
    };
    Ok(Request {
        path,
        purpose: prompt.purpose,
        ledger: ledger::of(&prompt, &mapped),
        body: mapped.body,
        diagnostics,
    })
}

/// Maps a prompt to the request by which a server compacts a thread itself.
pub fn build_remote_compaction(
    prompt: &Prompt<'_>,
    diagnostics: Vec<Diagnostic>,
) -> Result<Request, RequestError> {
    let mapped = responses::map_compaction(prompt)?;
    Ok(Request {
        path: "/responses/compact",
        purpose: prompt.purpose,
        ledger: ledger::of(prompt, &mapped),
        body: mapped.body,
        diagnostics,
    })
}

/// A prompt on a wire: the body, and how many bytes of each part are in it.
struct Mapped {
    body: String,
    /// The decoded text bytes of each item.
    items: Vec<u64>,
    tools: u64,
    schema: u64,
}

fn is_freeform_patch(tool: &Value) -> bool {
    tool["type"] == "custom" && tool["name"] == "apply_patch"
}

#[cfg(test)]
mod tests;
