//! The stored form of a turn's result.

use convoke_agent::TurnResult;
use convoke_protocol::content::Content;
use convoke_protocol::id::Millis;
use convoke_protocol::turn::{AttemptResult, diagnostics_json};
use convoke_protocol::verdict::Verdict;

/// Converts a result that ended at `at`, with its events. The texts are added to `contents`.
pub(crate) fn attempt_result(
    at: Millis,
    result: TurnResult,
    events: &str,
    contents: &mut Vec<Content>,
) -> AttemptResult {
    let TurnResult { verdict, reply, usage, cost_usd, model, resume, diagnostics, .. } = result;
    let mut store = |text: &str| {
        let content = Some(text).filter(|text| !text.is_empty()).map(Content::new)?;
        let reference = content.reference();
        contents.push(content);
        Some(reference)
    };
    let partial = if verdict == Verdict::Done { None } else { store(&reply) };
    let events = store(events);
    let diagnostics = diagnostics_json(&diagnostics);
    AttemptResult { at, verdict, partial, events, usage, cost_usd, model, resume, diagnostics }
}
