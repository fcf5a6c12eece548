//! The stored form of a turn's result.

use convoke_agent::TurnResult;
use convoke_protocol::content::Content;
use convoke_protocol::id::Millis;
use convoke_protocol::turn::AttemptResult;
use convoke_protocol::verdict::Verdict;

/// Converts a result that ended at a time. The partial reply is added to `contents`.
pub(crate) fn attempt_result(
    at: Millis,
    result: TurnResult,
    contents: &mut Vec<Content>,
) -> AttemptResult {
    let TurnResult { verdict, reply, usage, cost_usd, model, resume, diagnostics, .. } = result;
    let has_partial = verdict != Verdict::Done && !reply.is_empty();
    let partial = has_partial.then(|| {
        let content = Content::new(reply);
        let reference = content.reference();
        contents.push(content);
        reference
    });
    AttemptResult { at, verdict, partial, usage, cost_usd, model, resume, diagnostics }
}
