//! A prompt in JSON form.

use convoke_core::ledger::Ledger;
use convoke_core::{AssemblerOutput, Diagnostic};
use serde::Serialize;
use serde_json::Value;

/// A prompt, its system text, and the ledger of both.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PromptJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a Value>,
    prompt: &'a str,
    system_flag: Option<&'a str>,
    ledger: &'a Ledger<'a>,
    diagnostics: &'a [Diagnostic],
}

impl<'a> PromptJson<'a> {
    pub(crate) fn new(name: Option<&'a Value>, output: &'a AssemblerOutput<'a>) -> Self {
        Self {
            name,
            prompt: &output.prompt,
            system_flag: output.system_flag.as_deref(),
            ledger: &output.ledger,
            diagnostics: &output.diagnostics,
        }
    }
}
