//! Requests that break a provider's cache.

use convoke_core::Diagnostic;
use convoke_core::ledger::{Ledger, Source};
use convoke_wire::cache::Comparison;

use crate::diagnostics;

/// The sections of a prompt that change with every turn.
const CHANGING: [&str; 3] = ["context", "message", "envelope"];

/// Returns a diagnostic if a text that Convoke controls changed a prefix which could have stayed the same; `is_ours`
/// selects these texts by their sources.
pub fn broken_prefix(
    comparison: &Comparison,
    ledger: &Ledger<'_>,
    is_ours: impl Fn(&Source<'_>) -> bool,
) -> Option<Diagnostic> {
    let difference = comparison.difference.as_ref()?;
    let at = difference.at? as u64;
    // A text of ours may begin within the segment: the first byte that differs decides.
    let entry = ledger.entries().find(|entry| entry.range.contains(&at))?;
    let section = entry.section.to_ascii_lowercase();
    (is_ours(&entry.source) && !CHANGING.contains(&&*section)).then(|| {
        let lost = comparison.earlier_bytes.saturating_sub(comparison.unchanged_bytes);
        let message = format!(
            "{} at {}, so {lost} bytes that the provider may have cached are read again",
            difference.cause.as_str(),
            difference.place
        );
        Diagnostic::new(diagnostics::CACHE_BROKEN, message).with_bytes(lost)
    })
}
