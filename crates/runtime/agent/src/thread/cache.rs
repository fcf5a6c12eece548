//! The first difference between two requests, and requests that break a provider's cache.

use convoke_core::Diagnostic;
use convoke_core::ledger::{Ledger, Source};
use convoke_wire::cache::{Cause, Comparison, Difference};
use serde::Serialize;

use crate::diagnostics;
use crate::process::is_private_path;

/// The sections of a prompt that change with every turn.
const CHANGING: [&str; 3] = ["context", "message", "envelope"];

/// The first difference from the previous request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FirstDifference {
    /// The source of the differing text.
    pub source: Source<'static>,
    /// The cause: `settings-changed`, `tools-reordered`, `tools-changed`, `date-changed`, `file-edited`,
    /// `file-removed`, `file-withheld`, `directory-changed`, `history-shortened`, `text-removed` or `text-changed`.
    pub cause: &'static str,
    /// A description of the cause.
    pub words: &'static str,
    /// The location in the body.
    pub place: String,
    /// The title of the segment: the name of a tool, or the start of a text.
    pub title: String,
    /// Whether the section of the text changes with every turn.
    #[serde(skip)]
    is_changing: bool,
}

impl FirstDifference {
    /// Returns the first difference of a comparison; `ledgers` are those of the earlier and the later request.
    pub fn of(comparison: &Comparison, ledgers: [Option<&Ledger<'_>>; 2]) -> Option<Self> {
        let difference = comparison.difference.as_ref()?;
        let [earlier, ledger] = ledgers;
        // A text of Convoke may begin within the segment, so the first differing byte decides.
        let at = difference.at.map(|at| at as u64);
        let mut entries = ledger.into_iter().flat_map(Ledger::entries);
        let entry = entries.find(|entry| at.is_some_and(|at| entry.range.contains(&at)));
        let is_changing = entry.as_ref().is_none_or(|entry| {
            CHANGING.iter().any(|section| entry.section.eq_ignore_ascii_case(section))
        });
        if let Some((file, is_withheld)) =
            earlier.and_then(|it| unsent_file(difference, it, ledger?))
        {
            let (cause, words) = if is_withheld {
                ("file-withheld", "the file is withheld, because its directory is not trusted")
            } else {
                ("file-removed", "the file is no longer sent")
            };
            let (place, title) = (difference.place.clone(), difference.title.clone());
            return Some(Self { source: file, cause, words, place, title, is_changing: false });
        }
        let source = entry.map_or(Source::History { index: None }, |it| it.source.into_owned());
        let is_text = matches!(difference.cause, Cause::TextChanged | Cause::DateChanged);
        let words = difference.words.iter().flatten();
        let in_private_dir = is_text && words.filter(|word| is_private_path(word)).count() == 2;
        let (source, cause, words) = match source {
            Source::Program { .. } if in_private_dir => (
                Source::Convoke { what: "private directory".into() },
                "directory-changed",
                "the path of a private directory changed",
            ),
            Source::File { .. } if is_text => (source, "file-edited", "the file was edited"),
            source => (source, difference.cause.name(), difference.cause.as_str()),
        };
        let (place, title) = (difference.place.clone(), difference.title.clone());
        Some(Self { source, cause, words, place, title, is_changing })
    }

    /// Returns a diagnostic if a text that Convoke controls needlessly changed a cached prefix. `is_ours`
    /// selects these texts by their sources. An edited file is the user's change, not Convoke's; a file that
    /// Convoke withholds is Convoke's.
    pub fn broken_prefix(
        &self,
        comparison: &Comparison,
        is_ours: impl Fn(&Source<'_>) -> bool,
    ) -> Option<Diagnostic> {
        let is_ours = match self.source {
            Source::File { .. } => self.cause == "file-withheld",
            _ => !self.is_changing && is_ours(&self.source),
        };
        if !is_ours {
            return None;
        }
        let lost = comparison.earlier_bytes.saturating_sub(comparison.unchanged_bytes);
        let Self { words, place, .. } = self;
        let message = format!(
            "{words} at {place}, so the provider reads {lost} bytes again that it may have cached"
        );
        Some(Diagnostic::new(diagnostics::CACHE_BROKEN, message).with_bytes(lost))
    }
}

/// The rule of a ledger's entry for a file that the program would have loaded in a trusted directory.
pub const WITHHELD: &str = "withheld: the directory is not trusted";

/// Returns the file of the earlier text that the later request does not contain, and whether Convoke withheld it. A file
/// that went with a shortened history is not meant.
fn unsent_file(
    difference: &Difference,
    earlier: &Ledger<'_>,
    later: &Ledger<'_>,
) -> Option<(Source<'static>, bool)> {
    let segment = difference.before.start as u64..difference.before.end as u64;
    // Without the file alone, one message may be missing; a shortened history has lost more.
    let is_text = match difference.cause {
        Cause::TextChanged | Cause::TextRemoved => true,
        Cause::HistoryShortened => difference.lost_messages == 1,
        _ => false,
    };
    let files = earlier.entries().filter(|entry| {
        matches!(entry.source, Source::File { .. })
            && entry.range.start < segment.end
            && segment.start < entry.range.end
    });
    files.into_iter().find_map(|entry| {
        let mut again = later.entries().filter(|it| it.source == entry.source).peekable();
        let is_withheld = again.peek().is_some_and(|it| it.rule.to_string() == WITHHELD);
        let is_sent = again.any(|it| it.kept_bytes() > 0);
        let is_meant = !is_sent && (is_withheld || is_text);
        is_meant.then(|| (entry.source.into_owned(), is_withheld))
    })
}

#[cfg(test)]
mod tests {
    use convoke_core::ledger::{Entry, Rule, Target};
    use convoke_protocol::wire::Wire;
    use convoke_wire::cache;
    use serde_json::{Value, json};

    use super::*;

    fn compared(texts: [&str; 2], source: Source<'static>) -> (Comparison, FirstDifference) {
        let body = |text: &str| -> Value { json!({"model": "m", "instructions": text}) };
        let [earlier, later] = texts.map(|text| body(text).to_string());
        let of = |body: &str| cache::segments(Wire::Responses, "", body.as_bytes()).unwrap();
        let comparison = cache::compare(&of(&earlier), &of(&later));
        let mut ledger = Ledger::default();
        let range = 0..later.len() as u64;
        let (target, rule) = (Target::Prompt, Rule::Fits);
        let section = "instructions".into();
        ledger.push(Entry { target, section, source, range, cut_bytes: 0, rule });
        let first = FirstDifference::of(&comparison, [None, Some(&ledger)]).unwrap();
        (comparison, first)
    }

    #[test]
    fn a_path_of_a_private_directory_is_convokes_and_breaks_the_cache() {
        let program = || Source::Program { what: "You are".into() };
        let is_ours = |source: &Source<'_>| !matches!(source, Source::Program { .. });
        let texts = [
            "Keep notes in `/tmp/convoke-bmUBGl/.gemini/GEMINI.md`.",
            "Keep notes in `/tmp/convoke-CwwV36/.gemini/GEMINI.md`.",
        ];
        let (comparison, first) = compared(texts, program());
        let ours = Source::Convoke { what: "private directory".into() };
        assert_eq!((&first.source, first.cause), (&ours, "directory-changed"));
        let broken = first.broken_prefix(&comparison, is_ours).unwrap();
        assert!(broken.message.contains("private directory"), "{}", broken.message);
        for texts in [
            ["in /tmp/convoke-rs/a", "in /tmp/convoke-rs/b"],
            ["in /home/a/x", "in /home/b/x"],
            ["a convoke-bmUBGl b", "a convoke-CwwV36 b"],
        ] {
            let (comparison, first) = compared(texts, program());
            assert_eq!((&first.source, first.cause), (&program(), "text-changed"), "{texts:?}");
            assert_eq!(first.broken_prefix(&comparison, is_ours), None);
        }
    }

    #[test]
    fn a_file_that_somebody_edited_is_named_and_is_not_convokes() {
        let file = Source::file("/p/AGENTS.md");
        let (comparison, first) = compared(["Use 4 spaces.", "Use 2 spaces."], file.clone());
        assert_eq!((&first.source, first.cause), (&file, "file-edited"));
        assert_eq!(first.broken_prefix(&comparison, |_| true), None);
        let setting = Source::Setting { name: "instructions".into() };
        let (comparison, first) = compared(["Be kind.", "Be brief."], setting);
        assert!(first.broken_prefix(&comparison, |_| true).is_some());
    }

    #[test]
    fn an_instructions_file_that_is_no_longer_sent_is_not_a_shortened_history() {
        let message = |text: &str| json!({"role": "user", "content": text});
        let body = |texts: &[&str]| {
            let messages: Vec<Value> = texts.iter().map(|text| message(text)).collect();
            json!({"model": "m", "messages": messages}).to_string()
        };
        let ledger = |body: &str, rules: &str, rule: Rule<'static>| {
            let start = body.find(rules).map_or(body.len(), |at| at) as u64;
            let end = if body.contains(rules) { start + rules.len() as u64 } else { start };
            let mut ledger = Ledger::default();
            let mut push = |source, range, cut_bytes, rule| {
                let (target, section) = (Target::Prompt, "conversation".into());
                ledger.push(Entry { target, section, source, range, cut_bytes, rule });
            };
            let program = || Source::Program { what: "x".into() };
            push(program(), 0..start, 0, Rule::Fits);
            let cut_bytes = if end > start { 0 } else { rules.len() as u64 };
            push(Source::file("/p/CLAUDE.md"), start..end, cut_bytes, rule);
            push(program(), end..body.len() as u64, 0, Rule::Fits);
            ledger
        };
        let rules = "Use tabs, always.";
        let earlier = body(&[&format!("<reminder>{rules}</reminder>"), "Hello", "Hi."]);
        let compared = |later: &str, rule: Rule<'static>| {
            let of = |body: &str| cache::segments(Wire::Messages, "", body.as_bytes()).unwrap();
            let comparison = cache::compare(&of(&earlier), &of(later));
            let ledgers = [ledger(&earlier, rules, Rule::Fits), ledger(later, rules, rule)];
            let [one, other] = &ledgers;
            let first = FirstDifference::of(&comparison, [Some(one), Some(other)]).unwrap();
            let broken = first.broken_prefix(&comparison, |_| false).map(|it| it.message);
            (first, broken)
        };
        let (first, broken) = compared(&body(&["Hello"]), Rule::Other(WITHHELD.into()));
        assert_eq!((first.cause, &*first.place), ("file-withheld", "messages[0].content"));
        assert_eq!(first.source, Source::file("/p/CLAUDE.md"));
        assert!(broken.unwrap().starts_with("the file is withheld, because"));
        // The user deleted it.
        let (first, broken) = compared(&body(&["Hello", "Hi."]), Rule::Fits);
        assert_eq!((first.cause, broken), ("file-removed", None));
        // The user deleted it, and the next turn begins anew.
        let (first, broken) = compared(&body(&["Another question.", "Yes."]), Rule::Fits);
        assert_eq!((first.cause, broken), ("file-removed", None));
        // The program compacted its history, and a file that a tool had read went with it.
        let (first, broken) = compared(&body(&["A summary."]), Rule::Fits);
        assert_eq!((first.cause, broken), ("history-shortened", None));
    }
}
