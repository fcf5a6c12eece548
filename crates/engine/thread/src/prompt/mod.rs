//! A prompt, and the requests built from it for either wire.

mod chat;
mod reserialize;
mod responses;

use convoke_core::diagnostic::Diagnostic;
use convoke_core::ledger::Ledger;
use serde_json::Value;

use crate::config::{Provider, Wire};
use crate::history::{SentItem, Sources};
use crate::instructions::BaseInstructions;
use crate::json::JsonWriter;
use crate::model::ModelInfo;

/// The content of a request, for either wire.
#[derive(Debug)]
pub struct Prompt<'a> {
    pub model: &'a ModelInfo,
    /// The instructions of the thread.
    pub instructions: &'a BaseInstructions,
    /// The items, normalised.
    pub input: Vec<SentItem<'a>>,
    /// The tools, in the form of the Responses API.
    pub tools: &'a [Value],
    /// The requested reasoning effort.
    pub effort: Option<&'a str>,
    /// The requested reasoning summary; `none` for no summary.
    pub summary: &'a str,
    /// The requested verbosity.
    pub verbosity: Option<&'a str>,
    /// The JSON schema of the answer.
    pub output_schema: Option<&'a Value>,
    /// The thread's id, which servers use as the cache key.
    pub cache_key: &'a str,
    pub purpose: RequestPurpose,
    /// The prefix of summaries, used to recognise them in Codex session files.
    pub summary_prefix: &'a str,
}

impl Prompt<'_> {
    /// Returns the sources of the texts of an item.
    fn sources(&self, index: usize) -> Sources<'_> {
        Sources::new(&self.input[index], index, self.summary_prefix)
    }
}

/// The purpose of a request.
///
/// Exhaustive on purpose: a new kind must be handled everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestPurpose {
    /// An answer.
    Answer,
    /// A summary of the thread: no tools, no schema, and outputs as recorded.
    Compaction,
}

/// A request, ready to be sent.
#[derive(Debug, Clone)]
pub struct Request {
    /// The path below the provider's address.
    pub path: &'static str,
    pub purpose: RequestPurpose,
    /// The exact body.
    pub body: String,
    /// The ledger of the body.
    pub ledger: Ledger<'static>,
    pub diagnostics: Vec<Diagnostic>,
}

/// A prompt that cannot be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The Chat wire has no schemas.
    #[error(
        "output_schema is not supported for Chat Completions: use a provider with the Responses wire"
    )]
    SchemaOnChat,
}

/// Builds the request of a prompt for a provider.
pub fn build_api_prompt(
    mut prompt: Prompt<'_>,
    provider: &Provider,
    mut diagnostics: Vec<Diagnostic>,
) -> Result<Request, RequestError> {
    let freeform = match (prompt.purpose, provider.wire) {
        (RequestPurpose::Compaction, Wire::Responses) => false,
        (RequestPurpose::Answer, Wire::Responses) => prompt.tools.iter().any(is_freeform_patch),
        (_, Wire::Chat) => prompt.model.patches_are_freeform(),
    };
    if freeform {
        reserialize::reserialize(&mut prompt.input);
    }
    let mut out = JsonWriter::default();
    let path = match provider.wire {
        Wire::Responses => {
            responses::write(&prompt, provider, &mut out);
            "/responses"
        }
        Wire::Chat => {
            diagnostics.extend(chat::unmapped_tools(prompt.tools));
            chat::write(&prompt, provider.developer_role, &mut out)?;
            "/chat/completions"
        }
    };
    let (body, ledger) = out.finish(&mut diagnostics);
    Ok(Request { path, purpose: prompt.purpose, ledger, body, diagnostics })
}

/// Maps a prompt to the request by which a server compacts a thread itself.
pub fn build_remote_compaction(prompt: &Prompt<'_>, mut diagnostics: Vec<Diagnostic>) -> Request {
    let mut out = JsonWriter::default();
    responses::write_compaction(prompt, &mut out);
    let (body, ledger) = out.finish(&mut diagnostics);
    Request { path: "/responses/compact", purpose: prompt.purpose, ledger, body, diagnostics }
}

fn is_freeform_patch(tool: &Value) -> bool {
    tool["type"] == "custom" && tool["name"] == "apply_patch"
}

#[cfg(test)]
mod tests;
