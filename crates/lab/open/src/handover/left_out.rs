//! What a handover leaves out, with counts.

use std::fmt::Write as _;

use convoke_core::figures::thousands;

use super::LEFT_OUT;
use super::item::Kind;

/// What became of the items of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KindCounts {
    pub(super) kind: Kind,
    pub(super) total: u64,
    pub(super) left_out: u64,
    pub(super) cut: u64,
    /// Those that a summary took the place of.
    pub(super) replaced: u64,
}

/// What was left out of a handover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeftOut<'h> {
    pub(super) kinds: Vec<KindCounts>,
    pub(super) reasoning: u64,
    pub(super) sub_agent_steps: u64,
    /// The command that shows the whole session.
    pub(super) shown_by: &'h str,
}

impl LeftOut<'_> {
    /// Returns counts that no others exceed, to know the size of the paragraph before they are known.
    pub(super) fn at_most(&self) -> Self {
        let all = |counts: &KindCounts| KindCounts {
            left_out: counts.total,
            cut: counts.total,
            ..*counts
        };
        Self { kinds: self.kinds.iter().map(all).collect(), ..self.clone() }
    }

    /// Returns the last paragraph of a handover.
    pub(super) fn paragraph(&self) -> String {
        let left_out = self.list(
            |it| it.left_out,
            |items, it| format!("{} of {}", thousands(items), counted(it.total, it.kind.nouns())),
        );
        let mut text = match &*left_out {
            "" => "Nothing that the person and the agent wrote was left out of this handover."
                .to_owned(),
            counts => format!("{LEFT_OUT}{counts}."),
        };
        let count = |items, it: KindCounts| counted(items, it.kind.nouns());
        let cut = self.list(|it| it.cut, count);
        if !cut.is_empty() {
            let _ = write!(text, " Cut in the middle: {cut}.");
        }
        let replaced = self.list(|it| it.replaced, count);
        if !replaced.is_empty() {
            let _ = write!(text, " The summary stands for {replaced}.");
        }
        let never = [
            (self.reasoning, ("piece of reasoning", "pieces of reasoning")),
            (self.sub_agent_steps, ("step of a sub-agent", "steps of sub-agents")),
        ];
        let never = never.into_iter().filter(|(items, _)| *items > 0);
        let never: String = never.map(|(items, nouns)| counted(items, nouns) + ", ").collect();
        let _ = write!(
            text,
            " Never handed over: {never}system texts and reminders. The whole session: `{}`.",
            self.shown_by
        );
        text
    }

    fn list(
        &self,
        number: impl Fn(&KindCounts) -> u64,
        describe: impl Fn(u64, KindCounts) -> String,
    ) -> String {
        let some = self.kinds.iter().filter(|counts| number(counts) > 0);
        some.map(|counts| describe(number(counts), *counts)).collect::<Vec<_>>().join("; ")
    }
}

/// Returns a number with its noun.
pub(super) fn counted(items: u64, (one, many): (&str, &str)) -> String {
    format!("{} {}", thousands(items), if items == 1 { one } else { many })
}
